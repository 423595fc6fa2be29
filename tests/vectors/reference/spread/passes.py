"""One pass over a spread's pods: what its status, costs, adoptions and deletions shall be (3.4, 3.8).

A pure function of the pods, the target, the previous status and the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.closing import conditions, timed_out
from tests.vectors.reference.spread.groups import UNMATCHED, Groups, PodObject, grouped, rooms, version_costs
from tests.vectors.reference.spread.matching import TargetView
from tests.vectors.reference.spread.pods import ListedPod, belongs
from tests.vectors.reference.spread.status import (
    Entry,
    Everyone,
    Lists,
    Recount,
    Status,
    entry_named,
    in_flight,
    leaving_of,
    once,
    subset_entry,
    unseen,
)
from tests.vectors.reference.spread.ways import Ways
from tidewright.kube.podapi.nodeterms import Node
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.control.costs import COST_KINDS
from tidewright.spread.match.pods import VERSION_IGNORED, VERSIONED_KINDS, pod_version
from tidewright.spread.state import Condition

EventReason = Literal[
    "CreatePodFailed", "DeletePodFailed", "RecoverSchedulable", "PatchPodDeletionCostFailed"
]


class Pass(msgspec.Struct):
    """What one pass concluded.

    Attributes:
        costs: pod name to the wanted deletion cost; pods not named are left alone.
        adopted: pod name to subset.
        delete: names of pods to delete for being unschedulable too long.
        events: reasons of object events, one each.
        again_s: look again after so many seconds, 0 for not.
        invalid: why the status has no subsets [Q-2]; "" when it has.
    """

    status: Status
    costs: dict[str, int]
    adopted: dict[str, str]
    delete: list[str]
    events: list[str]
    again_s: float
    invalid: str = ""


class Scene(msgspec.Struct, frozen=True):
    """What one pass is made from, beside the previous status. `now` is log time, seconds."""

    spread: Spread
    target: TargetView
    nodes: Mapping[str, Node]
    obj_of: PodObject
    now: float
    ways: Ways
    versioned_kinds: frozenset[str] = VERSIONED_KINDS

    @property
    def placed(self) -> list[ListedPod]:
        """The pods that have a place in a subset."""
        return [p for p in self.target.pods if belongs(p, self.spread)]

    def version(self, pod: ListedPod) -> str:
        return pod_version(pod.owner, pod.labels, self.versioned_kinds)


def reconcile(scene: Scene, old: Status) -> Pass:
    """Conclude one pass."""
    spread, now, ways = scene.spread, scene.now, scene.ways
    overall_lists: Lists = {VERSION_IGNORED: old.subsets or ()}
    version_lists: Lists = old.versions
    if w.ONE_PLACE in ways:
        overall_lists, version_lists = once(overall_lists), once(version_lists)
    groups = _grouped(scene, overall_lists)
    by_version = _grouped(scene, version_lists) if w.ROOM_BY_LEDGER in ways else groups
    recount = Recount([], [])
    done = Pass(
        status=Status(None, {}, spread.generation),
        costs=_costs(scene, groups),
        adopted={pod: subset for g in groups.values() for pod, subset in g.adopted.items()},
        delete=[],
        events=recount.events,
        again_s=0.0,
    )
    everyone = _together(scene, groups)
    all_together = _Entries.of(scene, recount, overall_lists, everyone)
    overall = all_together.entries(VERSION_IGNORED, everyone, overall_lists[VERSION_IGNORED])
    apart = _Entries.of(scene, recount, version_lists, _together(scene, by_version))
    versions: dict[str, tuple[Entry, ...]] = {}
    for version in sorted({*by_version, *version_lists}):
        pods = by_version[version].pods if version in by_version else {}
        entries = apart.entries(version, pods, version_lists.get(version))
        with_pods = version in by_version and w.EMPTY_VERSION not in ways
        if with_pods or any(e.replicas + len(e.creating) + len(e.deleting) for e in entries or ()):
            versions[version] = entries or ()
    done.status = Status(overall, versions, spread.generation)
    if overall is None:
        done.invalid = all_together.invalid
        return done
    if spread.adaptive:
        for subset in spread.subsets[:-1]:
            late = timed_out(everyone.get(subset.name, ()), spread, now, ways)
            done.delete.extend(p.name for p in late)
    done.again_s = min((d for d in recount.delays_s if d > 0), default=0.0)
    return done


def _grouped(scene: Scene, lists: Lists) -> dict[str, Groups]:
    """The pods by version and subset; `lists` is what was written of them."""
    spread, target, ways = scene.spread, scene.target, scene.ways
    by_version: dict[str, list[ListedPod]] = {}
    for pod in target.pods:
        by_version.setdefault(scene.version(pod), []).append(pod)
    found = {}
    for version, pods in by_version.items():
        room = rooms(spread, pods, target.replicas)
        if w.ROOM_BY_LEDGER in ways:
            room = _free(scene, lists, version, pods)
        found[version] = grouped(spread, pods, room, scene.nodes, scene.obj_of, ways)
    return found


def _free(scene: Scene, lists: Lists, version: str, pods: Sequence[ListedPod]) -> dict[str, int]:
    """Free places per subset by what is held: by active pods that do not leave, and by those not seen yet."""
    spread, now = scene.spread, scene.now
    everyone, told = Everyone.of(scene.placed, lists), leaving_of(lists)
    leaving = {pod for pod, at in told.items() if at + w.LEAVING_LIFETIME_S >= now}
    free = {}
    for subset in spread.subsets:
        group = [p for p in pods if _subset_of(p, spread) == subset.name]
        active = [p for p in group if p.active]
        entry = entry_named(lists.get(version), subset.name)
        creating = {} if entry is None else entry.creating
        waiting = unseen(creating, group, everyone, told, scene.ways)
        in_flight = sum(at + w.UNSEEN_LIFETIME_S >= now for at in waiting.values())
        staying = sum(p.name not in leaving for p in active)
        limit = limits.UNLIMITED if subset.limit is None else _strict(subset.limit, scene.target.replicas)
        free[subset.name] = limit - max(len(active), staying + in_flight)
    return free


def _subset_of(pod: ListedPod, spread: Spread) -> str:
    return pod.placement.subset if pod.placement is not None and belongs(pod, spread) else ""


def _strict(limit: limits.Limit, replicas: int) -> int:
    try:
        return limits.strict(limit, replicas)
    except limits.NotALimit:
        return 0


def _costs(scene: Scene, groups: Mapping[str, Groups]) -> dict[str, int]:
    spread, target = scene.spread, scene.target
    if spread.target is None or spread.target.kind not in COST_KINDS:
        return {}
    return {
        pod.name: cost
        for version, g in groups.items()
        for pod, cost in version_costs(
            spread, g.pods, target.replicas, scene.ways, latest=version == target.version
        )
    }


def _together(scene: Scene, groups: Mapping[str, Groups]) -> dict[str, list[ListedPod]]:
    """The pods of all versions by subset, in list order."""
    subset_of = {p.name: name for g in groups.values() for name, members in g.pods.items() for p in members}
    together: dict[str, list[ListedPod]] = {s.name: [] for s in scene.spread.subsets}
    together[UNMATCHED] = []
    for pod in scene.target.pods:
        together[subset_of[pod.name]].append(pod)
    return together


class _Entries(msgspec.Struct):
    """Computes the lists of one pass.

    Attributes:
        leaving: pods whose delete was admitted, by whatever list.
        shared: conditions of all lists, where they are shared.
        invalid: why a list could not be computed.
    """

    scene: Scene
    recount: Recount
    everyone: Everyone
    leaving: Mapping[str, float]
    shared: dict[str, Condition] | None
    invalid: str = ""

    @classmethod
    def of(
        cls, scene: Scene, recount: Recount, lists: Lists, together: Mapping[str, Sequence[ListedPod]]
    ) -> _Entries:
        shared = None
        if scene.spread.adaptive and w.CLOSURE_SHARED in scene.ways:
            before = next((entries for entries in lists.values() if entries), ())
            shared = conditions(scene.spread, together, before, scene.now, recount, scene.ways)
        leaving = leaving_of(lists)
        if w.REMOVED_SUBSET in scene.ways:
            names = {subset.name for subset in scene.spread.subsets}
            gone = [p for p in scene.placed if p.active and p.placement and p.placement.subset not in names]
            blank = Entry("", 0, deleting={p.name: leaving[p.name] for p in gone if p.name in leaving})
            in_flight(blank, gone, scene.now, recount)
        return cls(scene, recount, Everyone.of(scene.placed, lists), leaving, shared)

    def entries(
        self, version: str, groups: Mapping[str, Sequence[ListedPod]], old: Sequence[Entry] | None
    ) -> tuple[Entry, ...] | None:
        """One list; None when a limit is no number, which drops the whole list [Q-2]."""
        scene, spread = self.scene, self.scene.spread
        found = []
        for n, subset in enumerate(spread.subsets):
            pods, before = groups.get(subset.name, ()), entry_named(old, subset.name)
            leaving = before.deleting if before is not None else {}
            if w.SEEN_ELSEWHERE in scene.ways:
                leaving = {p.name: self.leaving[p.name] for p in scene.placed if p.name in self.leaving}
            creating = before.creating if before is not None else {}
            gone = [p.name for p in pods if p.name in self.leaving and scene.version(p) == version]
            creating = unseen(creating, pods, self.everyone, gone, scene.ways)
            blank = Entry(subset.name, 0, creating=creating, deleting=leaving)
            try:
                entry = subset_entry(
                    subset, pods, blank, scene.target.replicas, scene.now, self.recount, scene.ways
                )
            except limits.NotALimit as error:
                self.invalid = f"subset {subset.name!r}: {error}"
                if spread.adaptive and self.shared is None:  # those before it have opened
                    conditions(spread, groups, old or (), scene.now, self.recount, scene.ways, until=n)
                return None
            found.append(entry)
        if w.REMOVED_SUBSET in scene.ways:
            names = {subset.name for subset in spread.subsets}
            for entry in old or ():
                if entry.name not in names:
                    creating = unseen(entry.creating, (), self.everyone, (), scene.ways)
                    in_flight(Entry("", 0, creating=creating), (), scene.now, self.recount)
        if not spread.adaptive:
            return tuple(found)
        closed = self.shared
        if closed is None:
            closed = conditions(spread, groups, old or (), scene.now, self.recount, scene.ways)
        return tuple(msgspec.structs.replace(e, condition=closed[e.name]) for e in found)
