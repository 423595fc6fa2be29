"""`admission.pod*` cases: a request of the API server against the ledger, by the pure half of the endpoint.

The previous status of a case is a ledger: its rules as the decider makes them, what it counts, what is in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.spread_cluster import UID
from tests.vectors.spread_world import NAMESPACE, NOW, World, stamped
from tests.vectors.suite import Case
from tidewright.events.base import Event, JsonObject
from tidewright.events.spread import PodPlaced
from tidewright.kube.customworkloads import group_version
from tidewright.kube.podapi.merging import merge_patch_of
from tidewright.spread.control.versions import versions_by
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger import placing
from tidewright.spread.ledger.ledger import UNLIMITED, Ledger
from tidewright.spread.ledger.placing import Request
from tidewright.spread.match.admit import Refused, spread_for
from tidewright.spread.match.matching import NotFound
from tidewright.spread.match.pods import pod_of, pod_version


class Admission:
    """The endpoint's side of a case: the ledger of its spread, and the owners that were seen."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.world = World(case)
        self.pod: JsonObject = stamped(case["pods"][0])
        kinds = case.get("versionedKinds")
        self.versioned = (
            frozenset(kinds) if kinds is not None else versions_by(self.world.state.settings).kinds
        )
        pod = pod_of(self.pod)
        self.version = pod_version(pod.owner, pod.labels, self.versioned)
        self.name: str = case["spread"]["metadata"]["name"] if "spread" in case else ""
        self.status: Mapping[str, Any] = case.get("status") or {}
        self.ledger = self._ledger() if self.name else Ledger()
        self.spread = placing.spread_on(self.ledger, NAMESPACE, self.name) if self.name else None

    def _ledger(self) -> Ledger:
        world, name = self.world, self.name
        by_version: Mapping[str, Sequence[JsonObject]] = self.status.get("versionedSubsetStatuses") or {}
        overall = self.status.get("subsetStatuses") or ()
        stateful = self.case["spread"]["spec"]["targetRef"]["kind"] == "StatefulSet"  # has no list by version
        mine = overall if stateful else by_version.get(self.version) or overall
        world.tell_conditions(name, mine)
        rules = world.rules(name)
        closed = {
            entry["name"]
            for entry in mine
            for c in entry.get("conditions") or ()
            if c["type"] == "Schedulable" and c["status"] == "False"
        }
        subsets = tuple(msgspec.structs.replace(rule, closed=rule.name in closed) for rule in rules.subsets)
        world.change(name, rules=msgspec.structs.replace(rules, subsets=subsets), at=NOW)
        world.tell_placed(name, by_version)
        for version, entries in by_version.items():
            for entry in entries:
                for pod, at in (entry.get("deletingPods") or {}).items():
                    world.fold(world.left(name, version, entry["name"], pod, NOW + at))
        limits = {rule.name: rule.limit for rule in rules.subsets}
        counts = {
            version: {
                entry["name"]: _held(entry, limit)
                for entry in entries
                if (limit := limits.get(entry["name"])) is not None
            }
            for version, entries in by_version.items()
        }
        world.change(name, counts=counts, at=NOW)
        return world.view(name).ledger

    def read(self, api_version: str, kind: str, name: str) -> JsonObject:
        """An owner, as the endpoint has seen it."""
        group, _ = group_version(api_version)
        for obj in self.world.workloads():
            same = group_version(obj["apiVersion"])[0] == group and obj["kind"] == kind
            if same and obj["metadata"].get("name") == name:
                return obj
        raise NotFound(f"{kind} {name}")

    def after(self, entry: Event | None = None) -> JsonObject:
        """The status that says what is on the ledger once this entry is; it stays as it was without one that has a subset."""
        if entry is None or (isinstance(entry, PodPlaced) and not entry.subset):
            return {**self.status}
        ledgers.fold(self.ledger, entry)
        by_version: Mapping[str, Sequence[JsonObject]] = self.status.get("versionedSubsetStatuses") or {}
        rules = self.ledger.rules
        if rules is None:
            return {**self.status}
        written: JsonObject = {**by_version}
        versions = {version for version, entries in by_version.items() if entries}
        versions.update(version for version, counts in self.ledger.counts.items() if counts)
        versions.update(h.version for h in self.ledger.placed.values())
        for version in sorted(versions):
            before = {entry["name"]: entry for entry in by_version.get(version) or ()}
            written[version] = [
                {
                    **before.get(rule.name, {}),
                    "name": rule.name,
                    "missingReplicas": self.ledger.missing(rule, version),
                    "creatingPods": {
                        key.partition("#")[0]: round(held.at - NOW)
                        for key, held in self.ledger.placed.items()
                        if (held.version, held.subset) == (version, rule.name)
                    },
                    "deletingPods": {
                        held.pod: round(held.at - NOW)
                        for held in self.ledger.leaving.values()
                        if (held.version, held.subset) == (version, rule.name)
                    },
                }
                for rule in rules.subsets
            ]
        return {**self.status, "versionedSubsetStatuses": written}


def _held(entry: JsonObject, limit: int) -> int:
    """Places of a subset that pods have, as an entry says it: one that had no limit says it by its pods."""
    missing: int = entry.get("missingReplicas") or 0
    if missing != UNLIMITED:
        return limit - missing
    there = (entry.get("replicas") or 0) + len(entry.get("creatingPods") or {})
    return max(0, there - len(entry.get("deletingPods") or {}))


def create(case: Case) -> JsonObject:
    """A new pod is asked about."""
    admission = Admission(case)
    answer: JsonObject = {"allowed": True, "subset": None, "patch": {}, "generatedUid": None}
    if case["event"].get("dryRun"):
        return {**answer, "status": admission.after()}  # the endpoint answers before it looks
    ledger, obj = admission.ledger, admission.pod
    try:
        known = [admission.spread] if admission.spread is not None else []
        spread = spread_for(pod_of(obj), known, admission.world.whitelist, admission.read)
        placed = placing.created(
            ledger, spread, obj, request=Request(UID, NOW), versioned_kinds=admission.versioned
        )
    except Refused as refused:
        return {**answer, "allowed": False, "error": refused.reason, "status": admission.after()}
    generated = placed.entry is not None and placed.entry.key == UID
    return {
        **answer,
        "subset": placed.subset or None,
        "patch": merge_patch_of(obj, placed.pod),
        "status": admission.after(placed.entry),
        "generatedUid": bool(placed.subset) if generated else None,
    }


def remove(case: Case) -> JsonObject:
    """A delete or an eviction is asked about; it is always allowed."""
    admission = Admission(case)
    evicted = case["event"]["type"] == "admission.podEviction"
    entry: Event | None = None
    if not case["event"].get("dryRun"):
        request = Request("remove", NOW)
        entry = placing.removed(
            admission.ledger, admission.spread, admission.pod, request, admission.versioned, evicted=evicted
        )
    return {"allowed": True, "status": admission.after(entry)}
