"""The objects of a spread case as they are, for functions that ask for one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tests.vectors.suite import Case
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import Whitelist, group_version, whitelist_of
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.kube.workloadspreads.spec import Spread, parse
from tidewright.spread.match.matching import NotFound
from tidewright.spread.match.pods import VERSIONED_KINDS

UID = "fresh-uid"


class Cluster:
    """The objects of a case, and its settings."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pods: list[JsonObject] = list(case.get("pods") or ())
        self.workload: JsonObject | None = case.get("workload")
        self.replica_sets: list[JsonObject] = [
            o
            for o in (*(case.get("replicaSets") or ()), *(case.get("objects") or ()))
            if o.get("kind") == "ReplicaSet"
        ]
        if self.workload is not None and not (self.workload.get("metadata") or {}).get("uid"):
            self._own_pods()
        found = [self.workload] if self.workload else []
        self.objects: list[JsonObject] = [
            *found,
            *(case.get("replicaSets") or ()),
            *(case.get("objects") or ()),
        ]
        kinds = case.get("versionedKinds")
        self.versioned = VERSIONED_KINDS if kinds is None else frozenset(kinds)
        self.whitelist: Whitelist = whitelist_of(
            msgspec.json.encode({"workloads": case.get("whiteList") or []}).decode()
        )

    def _own_pods(self) -> None:
        """An owner uid that the case omits does not matter: give it to the workload."""
        assert self.workload is not None
        meta = self.workload.get("metadata") or {}
        uid = next(
            (
                o.get("uid") or ""
                for p in self.pods
                for o in (p.get("metadata") or {}).get("ownerReferences") or ()
                if (o.get("kind"), o.get("name")) == (self.workload.get("kind"), meta.get("name"))
            ),
            "",
        )
        self.workload = {**self.workload, "metadata": {**meta, "uid": uid}}

    def read(self, api_version: str, kind: str, name: str) -> JsonObject:
        group, _ = group_version(api_version)
        for obj in self.objects:
            meta = obj.get("metadata") or {}
            same = group_version(obj.get("apiVersion") or "")[0] == group
            if same and obj.get("kind") == kind and meta.get("name") == name:
                return obj
        raise NotFound(f"{kind} {name}")

    def target(self, spread: Spread) -> JsonObject | None:
        assert spread.target is not None
        try:
            return self.read(spread.target.api_version, spread.target.kind, spread.target.name)
        except NotFound:
            return None

    @property
    def spread(self) -> Spread:
        return parse(self.case["spread"])

    @property
    def spreads(self) -> list[Spread]:
        given = self.case.get("spreads") or ([self.case["spread"]] if "spread" in self.case else [])
        return [parse(s) for s in given]


def validated(found: Sequence[FieldError]) -> JsonObject:
    """What a request about a spread is answered, as cases have it."""
    return {
        "allowed": not found,
        "httpCode": 400 if found else 200,
        "errorCount": len(found),
        "errorFields": [e.field for e in found],
        "errors": [{"field": e.field, "type": e.reason} for e in found],
    }
