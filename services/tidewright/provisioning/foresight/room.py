"""Room for pods that are about to be: behind all that are there, before buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from tidewright.events.base import Because, Decision
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.events.provisioning import ExpectedPods, PlanScaleUp
from tidewright.kube.customworkloads import GroupKind
from tidewright.provisioning.fold.common import (
    COUNTS_IMPOSSIBLE,
    DID_NOT_COME,
    EXPECTED_LIMITED,
    NOT_READ,
    UNREADABLE,
)
from tidewright.provisioning.foresight.shares import (
    MOST_S,
    Expecting,
    Share,
    kind_of,
    limit_s,
    renewed,
    target_of,
    until,
)
from tidewright.provisioning.foresight.wanted import impossible
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaleup.orders import COMPONENT
from tidewright.provisioning.settings import DECISIONS
from tidewright.provisioning.state import State, owner_key
from tidewright.provisioning.tell.sentences import because

MOST_NAMED = 20
"""So many workloads are named in the reasons of a plan."""

Covering = dict[str, dict[str, int]]
"""Nodes on their way to the pods that they were ordered for which are not there: shape to how many."""


def place(shares: Iterable[Share], grid: Grid, covering: Covering) -> None:
    """Give pods the room that is left: where nodes were ordered for them, then anywhere. The rest is missing.

    Of those that come before none of the others each has what was ordered for it, before any has more: else it would be ordered
    again for one for which it was, and not for whom it is.
    """
    for _, group in groupby(shares, lambda share: (share.shape.priority, share.made)):
        alike = list(group)
        for share in alike:
            digest = share.shape.digest
            for node, pods in covering.items():
                most = min(share.missing, pods.get(digest, 0))
                if most:
                    placed = grid.place_at(share.shape, most, {node: most})
                    pods[digest] -= placed
                    share.missing -= placed
        for share in alike:
            if share.missing:
                share.missing -= grid.place(share.shape, share.missing)


def asked(shares: Iterable[Share]) -> list[Item]:
    """What nodes are to be ordered for, by shape."""
    return merged((share.shape, share.missing) for share in shares if share.missing)


def helped(shares: Iterable[Share], placed: Mapping[str, int]) -> tuple[ExpectedPods, ...]:
    """Whose pods a plan places, of those that are missing, in their order. They are missing no longer.

    Args:
        shares: what is expected.
        placed: shape to pods that the plan places.
    """
    left, found = dict(placed), dict[str, ExpectedPods]()
    for share in shares:
        pods = min(share.missing, left.get(share.shape.digest, 0))
        if not pods:
            continue
        left[share.shape.digest] -= pods
        share.missing -= pods
        before = found.get(share.workload)
        found[share.workload] = ExpectedPods(
            workload=share.workload,
            uid=share.uid,
            pods=pods + (before.pods if before is not None else 0),
            decision=share.decision or (before.decision if before is not None else ""),
        )
    return tuple(found.values())


def why(helped_pods: Sequence[ExpectedPods]) -> list[Because]:
    """The reasons of a plan that places these."""
    reasons = [
        because("PodsDecided", pods=share.pods, workload=named(share.workload), decision=share.decision)
        if share.decision
        else because("PodsExpected", pods=share.pods, workload=named(share.workload))
        for share in helped_pods[:MOST_NAMED]
    ]
    rest = helped_pods[MOST_NAMED:]
    if rest:
        reasons.append(because("MoreExpected", pods=sum(share.pods for share in rest), workloads=len(rest)))
    return reasons


def for_expected(decisions: Iterable[Decision], helped_pods: tuple[ExpectedPods, ...]) -> list[Decision]:
    """A plan says whose pods it is for."""
    return [
        msgspec.structs.replace(d, expected=helped_pods) if isinstance(d, PlanScaleUp) and helped_pods else d
        for d in decisions
    ]


def named(workload: str) -> str:
    """A workload in words, of its `owner_key`."""
    kind, _, name = workload.partition("/")
    return f"{kind} {name}"


def troubles(state: State, index: Index, expecting: Expecting, now: float) -> list[Decision]:
    """What is told, once, of workloads whose pods are not all expected (too many, or of a template that cannot be read), or that count in an odd way."""
    limit = (
        "not all of the pods that it is about to make are expected: pod-injection-limit allows no more than "
        f"{index.settings.foresight_limit} at a time, of all workloads together"
    )
    told = [(key, EXPECTED_LIMITED, limit) for key in expecting.cut]
    told += [
        (
            key,
            UNREADABLE,
            f"no nodes are ordered for its pods before they are there: its template cannot be read: {why}"[
                :1024
            ],
        )
        for key, why in expecting.unreadable.items()
    ]
    for key in dict.fromkeys(share.workload for share in expecting.shares):
        fields = impossible(state.workloads[key])
        if fields and key not in expecting.cut and key not in state.said:
            counted = "the pods that it is about to make are counted by those that are there"
            told.append((key, COUNTS_IMPOSSIBLE, f"below 0, as no count can be: {fields}; {counted}"))
    otherwise = {key for key, _, _ in told}
    told += [
        (key, COUNTS_IMPOSSIBLE, _too_many(state.workloads[key].observed, there))
        for key, there in index.overcounted.items()
        if key not in state.said
        and key not in otherwise
        and state.workloads[key].since + MOST_S <= now
        and not (index.counting is None or index.counting.untold[target_of(key, "").namespace])
    ]
    return [
        RecordObjectEvent(
            at=now,
            target=target_of(key, workload.api_version, workload.uid),
            event_type="Warning",
            reason=reason,
            message=message,
            component=COMPONENT,
        )
        for key, reason, message in sorted(told)
        if state.said.get(key) != message and (workload := state.workloads.get(key)) is not None
    ]


def unread(state: State, index: Index, event: ScaleWorkload) -> list[Decision]:
    """What is told, once, of a workload that is to grow and of whose kind nothing may be read: no pods of it are expected."""
    target = event.target
    key = owner_key(target.kind, target.namespace, target.name)
    group = target.api_version.rpartition("/")[0]
    name = str(GroupKind(group, target.kind))
    why = state.unread_scaled.get(name) or state.unread.get(name)
    if why is None or event.shadow or key in state.workloads or index.settings.foresight != DECISIONS:
        return []
    message = (
        f"no nodes are ordered for its pods before they are there: objects of its kind cannot be read: {why}"[
            :1024
        ]
    )
    if event.replicas <= event.from_replicas or state.said.get(key) == message:
        return []
    return [
        RecordObjectEvent(
            at=event.at,
            target=target,
            event_type="Warning",
            reason=NOT_READ,
            message=message,
            component=COMPONENT,
        )
    ]


def _too_many(said: int, there: int) -> str:
    return (
        f"status.replicas: {said}, and there are {there} pods of it, also after {MOST_S:.0f} s: "
        "no nodes are ordered for so many of its pods before they are there"
    )


def not_come(state: State, index: Index, now: float) -> list[Decision]:
    """What is told of pods for which nodes were ordered, and that have not come in their time, or cannot."""
    decisions: list[Decision] = []
    lacks = renewed(state, index)
    for key, foreseen in sorted(state.foreseen.items()):
        workload = state.workloads.get(key)
        if workload is None or workload.uid != foreseen.uid:
            continue
        reason = foreseen.undone or workload.refused
        if not reason and (key not in lacks or until(state, index, key) > now):
            continue
        execution = state.executions.get(foreseen.plan)
        if execution is not None and not execution.over:
            continue  # what the cloud says about its orders comes first: they may be taken back
        reason = reason or f"{lacks[key]} are still missing after {limit_s(state, key):.0f} s"
        decisions.append(
            RecordObjectEvent(
                at=now,
                target=target_of(key, workload.api_version, workload.uid),
                event_type="Warning",
                reason=DID_NOT_COME,
                message=(
                    f"nodes were ordered for {foreseen.pods} pods that this {kind_of(key)} was about to make "
                    f"(plan {foreseen.plan}), and they have not come: {reason}"
                )[:1024],
                component=COMPONENT,
            )
        )
    return decisions
