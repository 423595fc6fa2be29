"""Which metric queries and custom targets the WatermarkPodAutoscalers seen so far ask about. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidewright.events.facts import (
    ObjectFact,
    WatermarkPodAutoscalerGone,
    WatermarkPodAutoscalerObserved,
)
from tidewright.kube import metricquery
from tidewright.kube.kinds import BY_KIND


class Query(msgspec.Struct, frozen=True, order=True):
    """One question to a metrics API; `name` as `MetricSampled` facts have it."""

    namespace: str
    name: str


class Target(msgspec.Struct, frozen=True, order=True):
    """The target of an autoscaler, of a kind whose objects are not watched."""

    namespace: str
    api_version: str
    kind: str
    name: str

    @property
    def group(self) -> str:
        """Its API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def subject_name(self) -> str:
        """Its name on the bus: kinds share the token `workload`, so the kind is in the name."""
        return f"{self.kind}.{self.group}/{self.name}" if self.group else f"{self.kind}/{self.name}"


class Wanted:
    """What to ask the metrics APIs and scale subresources."""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], tuple[Query, ...]] = {}
        self._targets: dict[tuple[str, str], Target] = {}

    def observe(self, fact: ObjectFact) -> bool:
        """Take a fact into account; True when something is wanted that was not before."""
        key = (fact.namespace, fact.name)
        before = set(self._all())
        match fact:
            case WatermarkPodAutoscalerObserved(spec=spec):
                names = metricquery.queries(spec)
                self._queries[key] = tuple(Query(fact.namespace, name) for name in names)
                self._targets.pop(key, None)
                if (target := custom_target(fact.namespace, spec)) is not None:
                    self._targets[key] = target
            case WatermarkPodAutoscalerGone():
                self._queries.pop(key, None)
                self._targets.pop(key, None)
            case _:
                return False
        return not before.issuperset(self._all())

    def _all(self) -> Iterator[Query | Target]:
        for queries in self._queries.values():
            yield from queries
        yield from self._targets.values()

    @property
    def queries(self) -> list[Query]:
        """Each distinct query once, in order."""
        return sorted({query for queries in self._queries.values() for query in queries})

    @property
    def targets(self) -> list[Target]:
        """Each distinct custom target once, in order."""
        return sorted(set(self._targets.values()))


def custom_target(namespace: str, spec: dict[str, Any]) -> Target | None:
    """The target of a spec; None when it is of a watched kind, or not readable."""
    reference = spec.get("scaleTargetRef")
    if not isinstance(reference, dict):
        return None
    kind, name, api_version = (reference.get(field, "") for field in ("kind", "name", "apiVersion"))
    if not (
        isinstance(kind, str) and isinstance(name, str) and isinstance(api_version, str) and kind and name
    ):
        return None
    group = api_version.rpartition("/")[0]
    watched = BY_KIND.get((group, kind))
    if watched is not None and watched.group == "apps":
        return None
    return Target(namespace, api_version, kind, name)
