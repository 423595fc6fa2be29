"""Which metric queries, custom targets and recommenders the WatermarkPodAutoscalers ask about. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tidewright.events.autoscaler import WatermarkPodAutoscalerGone, WatermarkPodAutoscalerObserved
from tidewright.events.facts import ObjectFact
from tidewright.kube import metricquery
from tidewright.kube.kinds import BY_KIND
from tidewright.kube.readiness import skips_owner_check


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


class Recommendation(msgspec.Struct, frozen=True, order=True):
    """A recommender to ask for one WatermarkPodAutoscaler.

    Attributes:
        spec: the object's, as JSON: another spec is another question.
        skip_owner_check: which of the target's pods count, see `kube.readiness`.
    """

    namespace: str
    name: str
    spec: bytes
    skip_owner_check: bool = False


class Gate(msgspec.Struct, frozen=True, order=True):
    """The DatadogMonitor that gates an object of its name; asked for only while monitors cannot be followed."""

    namespace: str
    name: str


Wish: TypeAlias = Query | Target | Recommendation | Gate
MAX_NAME = 253
"""Characters of the longest name that an object, or a group of kinds, may have."""
GATED = "wpa.datadoghq.com/lifecycle-control.enabled"


class Wishes:
    """What to ask the metrics APIs, scale subresources and recommenders; each wish once, however many share it."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], tuple[Wish, ...]] = {}
        self._users: dict[Wish, int] = {}

    def observe(self, fact: ObjectFact) -> tuple[list[Wish], list[Wish]]:
        """Take a fact into account: what is wanted that was not before, and what no longer is."""
        match fact:
            case WatermarkPodAutoscalerObserved():
                now = tuple(_wishes(fact))
            case WatermarkPodAutoscalerGone():
                now = ()
            case _:
                return [], []
        key = (fact.namespace, fact.name)
        before = self._of.get(key, ())
        if now == before:
            return [], []
        self._of[key] = now
        if not now:
            del self._of[key]
        new = []
        for wish in now:
            users = self._users.get(wish, 0)
            self._users[wish] = users + 1
            if not users:
                new.append(wish)
        gone = []
        for wish in before:
            self._users[wish] -= 1
            if not self._users[wish]:
                del self._users[wish]
                gone.append(wish)
        return [wish for wish in new if wish not in before], gone

    def __contains__(self, wish: Wish) -> bool:
        return wish in self._users

    @property
    def all(self) -> list[Wish]:
        """Every distinct wish once, in the order in which they came up."""
        return list(self._users)

    @property
    def queries(self) -> list[Query]:
        """Each distinct query once, in order."""
        return sorted(wish for wish in self._users if isinstance(wish, Query))

    @property
    def targets(self) -> list[Target]:
        """Each distinct custom target once, in order."""
        return sorted(wish for wish in self._users if isinstance(wish, Target))


def _wishes(fact: WatermarkPodAutoscalerObserved) -> Iterator[Wish]:
    spec = fact.spec
    for name in metricquery.queries(spec):
        yield Query(fact.namespace, name)
    if (target := custom_target(fact.namespace, spec)) is not None:
        yield target
    if fact.annotations.get(GATED):
        yield Gate(fact.namespace, fact.name)
    if isinstance(spec.get("recommender"), dict) and not spec.get("metrics"):
        yield Recommendation(
            fact.namespace, fact.name, msgspec.json.encode(spec), skips_owner_check(fact.annotations)
        )


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
    if max(map(len, (kind, name, api_version))) > MAX_NAME:
        return None  # of no object there can be; the autoscaler says so
    group = api_version.rpartition("/")[0]
    watched = BY_KIND.get((group, kind))
    if watched is not None and watched.group == "apps":
        return None
    return Target(namespace, api_version, kind, name)
