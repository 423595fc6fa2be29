"""`reconcile` cases: one look of the decider at everything, and what it decides.

A pod that was adopted is seen with its annotations before the status is compared, as it is in a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors.spread_world import AT_ONCE_S, NAMESPACE, NOW, World, relative
from tests.vectors.suite import Case
from tidewright.events.base import JsonObject
from tidewright.events.decisions import DeleteObject, PatchObject, RecordObjectEvent, SetStatus
from tidewright.events.timers import TimerFired
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, MATCHED_ANNOTATION
from tidewright.spread.control.costs import COST_KINDS
from tidewright.spread.control.victims import leaving
from tidewright.spread.control.wanted_status import SCHEDULABLE
from tidewright.spread.match.pods import VERSION_IGNORED
from tidewright.spread.state import TIMER, spread_key


def looked_at(case: Case) -> JsonObject:
    """What one look concludes, under the names of `expected`.

    The original keeps two ledgers in its status, one over all versions and one by version, and makes both anew in a
    pass: ours, which is one, is played from each of them.
    """
    status = case.get("status") or {}
    overall = status.get("subsetStatuses") or []
    by_version = status.get("versionedSubsetStatuses") or {}
    first = _Look(case, overall, {VERSION_IGNORED: overall})
    conditions: Sequence[JsonObject] = next((entries for entries in by_version.values() if entries), [])
    second = _Look(case, conditions, by_version)
    concluded = first.concluded()
    versions = second.status.get("versionedSubsetStatuses") or {}
    dues = [due for look in (first, second) if (due := look.due()) is not None]
    said = sorted([*first.said, *second.said])
    return {
        **concluded,
        "status": relative({**concluded["status"], "versionedSubsetStatuses": versions}),
        "events": said,
        "requeueAfterSeconds": min(dues, default=0),
    }


class _Look:
    """The decider looks at a case whose previous status has these entries."""

    def __init__(
        self, case: Case, conditions: Sequence[JsonObject], entries: Mapping[str, Sequence[JsonObject]]
    ) -> None:
        self.name: str = case["spread"]["metadata"]["name"]
        self.world = World(case)
        self.view = self.world.view(self.name)
        self.world.tell_conditions(self.name, conditions)
        self.world.tell_placed(self.name, entries)
        self.world.tell_pods()
        self.world.tell_leaving(self.name, entries)
        if "latest" in case:
            self.view.latest = case["latest"]
        self.world.see(TimerFired(at=NOW, key=TIMER + spread_key(NAMESPACE, self.name)))
        self.adopted: dict[str, str] = {}
        self.patches: dict[str, JsonObject] = {}
        self.costs: dict[str, str] = {}
        for decision in self.world.decisions:
            if isinstance(decision, PatchObject):
                self.patched(decision.target.name, decision.patch)
        for pod in list(self.world.pods):
            if pod in self.adopted or pod in self.costs:
                self.world.observe(pod, self.world.see)
        written = [d.status for d in self.world.decisions if isinstance(d, SetStatus)]
        self.status: JsonObject = written[-1] if written else {}
        self.said = [d.reason for d in self.world.decisions if isinstance(d, RecordObjectEvent)]

    def patched(self, pod: str, patch: JsonObject) -> None:
        """A decision to patch a pod, and the pod with it."""
        annotations = patch["metadata"]["annotations"]
        placement = placement_of(annotations.get(MATCHED_ANNOTATION))
        if placement is not None:
            self.adopted[pod], self.patches[pod] = placement.subset, patch
        if DELETION_COST_ANNOTATION in annotations:
            self.costs[pod] = annotations[DELETION_COST_ANNOTATION]
        metadata = self.world.pods[pod]["metadata"]
        for part, values in patch["metadata"].items():
            merged = {**(metadata.get(part) or {}), **values}
            metadata[part] = {k: v for k, v in merged.items() if v is not None}

    def concluded(self) -> JsonObject:
        """What came of it."""
        conditions = {
            e["name"]: next((c for c in e.get("conditions") or () if c["type"] == SCHEDULABLE), None)
            for e in self.status.get("subsetStatuses") or ()
        }
        deleted = [d.target.name for d in self.world.decisions if isinstance(d, DeleteObject)]
        return {
            "status": _with_in_flight(self.status),
            "conditions": {n: None if c is None else c["status"] for n, c in conditions.items()},
            "lastTransitionTimes": relative(
                {n: None if c is None else c["lastTransitionTime"] for n, c in conditions.items()}
            ),
            "deletionCosts": {pod: self.cost(pod) for pod in self.view.pods},
            "deletionCostWrites": sorted(self.costs),
            "adoptions": self.adopted,
            "adoptionPatches": self.patches,
            "deletedPods": sorted(deleted),
            "scaleInOrder": _scale_in(self.world, self.name),
        }

    def due(self) -> float | None:
        """In how many seconds it looks again; what is due at once is looked at first, as the original does not."""
        if self.view.due is not None and self.view.due - NOW <= AT_ONCE_S:
            self.world.see(TimerFired(at=NOW, key=TIMER + spread_key(NAMESPACE, self.name)), NOW + AT_ONCE_S)
        return None if self.view.due is None else self.view.due - NOW

    def cost(self, pod: str) -> str | None:
        """The cost that the decider wants for a pod, which it may have already; None where it wants none."""
        spread, row = self.view.spread, self.view.pods[pod]
        if spread is None or spread.target is None or spread.target.kind not in COST_KINDS or not row.active:
            return self.costs.get(pod)
        return row.cost or None


def _with_in_flight(written: JsonObject) -> JsonObject:
    """What is in flight is written per version; the list over all versions has it here as the original's has."""
    status = {k: v for k, v in written.items() if k != "observedGeneration"}
    versions = (status.get("versionedSubsetStatuses") or {}).values()
    status["subsetStatuses"] = [
        {
            **entry,
            **{
                part: {
                    key: at
                    for entries in versions
                    for other in entries
                    if other["name"] == entry["name"]
                    for key, at in (other.get(part) or {}).items()
                }
                for part in ("creatingPods", "deletingPods")
            },
        }
        for entry in status.get("subsetStatuses") or ()
    ]
    return status


def _scale_in(world: World, name: str) -> list[list[Any]]:
    """Subsets in the order in which their pods go, one by one."""
    order: list[list[Any]] = []
    for row in leaving(world.state, world.view(name)).rows:
        if order and order[-1][0] == (row.subset or None):
            order[-1][1] += 1
        else:
            order.append([row.subset or None, 1])
    return order
