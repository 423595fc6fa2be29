"""What is expected, workload by workload: how many pods, of which shape, and until when.

Beside pods that are not there yet these are pods of known workloads that the scheduler has not looked at. Bare pods are
left to it: there is nobody who is about to make more of them.
"""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from tidewright.events.base import ObjectRef
from tidewright.kube.customworkloads import BUILT_IN, GroupKind
from tidewright.kube.keys import ObjectKey, PodKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.foresight.kept import Scaling, Workload
from tidewright.provisioning.foresight.spreading import Part, split
from tidewright.provisioning.foresight.templates import Unreadable
from tidewright.provisioning.foresight.templates import shape_of as shape_of_template
from tidewright.provisioning.foresight.wanted import lacking, too_many
from tidewright.provisioning.holding import SERVICE
from tidewright.provisioning.index.claims import has_claims
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import shape_of, told
from tidewright.provisioning.pending.helped import expendable
from tidewright.provisioning.settings import DECISIONS, OFF
from tidewright.provisioning.state import State

FIRST_S = 60.0
"""For so long pods of a kind are waited for of which none has come yet."""
LEAST_S, MOST_S = 60.0, 600.0
"""Bounds of it where some have: machines that boot are not taken back while controllers elect another, or a watch stands still."""
TIMES = 4.0
"""So many times as long as pods of their kind have taken, others are waited for."""


class Share(msgspec.Struct):
    """Pods of one workload and one shape that are about to need room.

    Attributes:
        workload: at the top, by `owner_key`.
        count: how many.
        missing: those of them without a place; counts down.
        decision: id of the decision to scale it that says so; empty where the workload itself does.
        made: they are there, and the scheduler has not looked at them.
        since: log time since when they are wanted; 0 for those that are there.
    """

    workload: str
    uid: str
    shape: PodShape
    count: int
    missing: int = 0
    decision: str = ""
    made: bool = False
    since: float = 0.0


class Expecting(msgspec.Struct):
    """What an evaluation expects.

    Attributes:
        shares: by priority of their pods, then those first that have been wanted for longest: room that is there was counted on for these
            when nodes were ordered for them.
        dues: when some of it is not waited for any longer.
        ends: the first time at which some of it no longer counts: not waited for, or left to whoever holds it back.
        cut: workloads of which pods are left out, since there would be more than the limit.
        unreadable: workloads to why their templates cannot be read.
    """

    shares: list[Share] = []
    dues: list[float] = []
    ends: float = math.inf
    cut: dict[str, None] = {}
    unreadable: dict[str, str] = {}


def foresees(index: Index) -> bool:
    """Whether pods are expected at all."""
    return index.counting is not None


def renewed(state: State, index: Index) -> dict[str, int]:
    """Workloads at the top that lack pods, to how many; whether those are still waited for is not looked at."""
    counting = index.counting
    if counting is None:
        return {}
    for key in sorted({*counting.unsure, *state.scalings}):  # whether a decision counts, modes say
        index.lacks.pop(key, None)
        index.overcounted.pop(key, None)
        if key not in state.workloads or counting.top(key) != key:
            continue
        standing = counting.standing(state, key)
        many = lacking(kind_of(key), wanting(state, index, key), standing)
        if many:
            index.lacks[key] = many
        if too_many(kind_of(key), state.workloads[key], standing):
            index.overcounted[key] = standing.active + standing.leaving
    counting.unsure.clear()
    return index.lacks


def waited_for(state: State, index: Index, now: float) -> bool:
    """Whether pods are still to come of which it is known how many."""
    return any(until(state, index, key) > now for key in renewed(state, index))


def comes(state: State, index: Index, key: str, now: float) -> bool:
    """Whether pods of one workload are still to come."""
    return key in renewed(state, index) and until(state, index, key) > now


def stirred(state: State, index: Index, now: float) -> bool:
    """Whether an evaluation has something to do for workloads: pods are to come, or will not although nodes were ordered."""
    return foresees(index) and (
        waited_for(state, index, now)
        or any(
            (foreseen.undone or (key in state.workloads and state.workloads[key].refused))
            and state.acting.held(
                SERVICE, target_of(key, "").namespace
            ).acts  # else nothing is told, and nothing forgotten
            for key, foreseen in state.foreseen.items()
        )
    )


def limit_s(state: State, key: str) -> float:
    """For how long pods of a workload are waited for: as long as those of its kind have taken, and some."""
    took = state.came_s.get(kind_of(key))
    return FIRST_S if took is None else min(max(LEAST_S, TIMES * took), MOST_S)


def scaling_of(state: State, index: Index, key: str) -> Scaling | None:
    """The decision to scale a workload that counts by now: where its service acts by the modes in force."""
    scaling = state.scalings.get(key)
    if scaling is None or index.settings.foresight != DECISIONS:
        return None
    service = scaling.decision.partition(".")[0]
    namespace = target_of(key, "").namespace
    return scaling if state.acting.held(service, namespace).acts else None


def wanting(state: State, index: Index, key: str) -> Workload:
    """A workload as it is wanted by now: by itself, or by a decision of which nothing is seen yet."""
    workload, scaling = state.workloads[key], scaling_of(state, index, key)
    if scaling is None:
        return workload
    return msgspec.structs.replace(workload, replicas=scaling.replicas, since=scaling.at)


def until(state: State, index: Index, key: str) -> float:
    """Log time until which the pods that a workload lacks are waited for: not at all where its namespace goes.

    Nobody makes pods there, and no condition says so: its pods may all go before what has made them.
    """
    namespace = state.objects.get("Namespace", {}).get(target_of(key, "").namespace, {})
    if namespace.get("deleting"):
        return -math.inf
    return wanting(state, index, key).since + limit_s(state, key)


def expected(state: State, index: Index, now: float) -> Expecting:
    """Pods that are about to need room at `now`."""
    found = Expecting()
    if index.counting is None or index.settings.foresight == OFF:
        return found
    for key, many in sorted(renewed(state, index).items()):
        late = until(state, index, key)
        if late <= now:
            continue
        most = min(many, max(0, index.settings.foresight_limit))
        try:
            shapes = _shapes(state, index, key, most)
        except Unreadable as error:
            found.unreadable[key] = str(error)
            continue
        if shapes:
            found.dues.append(late)
            found.ends = min(found.ends, late)
            if many > most:
                found.cut[key] = None
        uid, scaling = state.workloads[key].uid, scaling_of(state, index, key)
        decision, since = scaling.decision if scaling is not None else "", wanting(state, index, key).since
        for shape, pods in shapes:
            found.shares.append(
                Share(workload=key, uid=uid, shape=shape, count=pods, decision=decision, since=since)
            )
    made: Counter[tuple[str, str]] = Counter()
    for pod_key in index.untried:
        top = _of_untried(state, index, pod_key, now)
        if top:
            pod = state.pods[pod_key]
            made[top, pod.shape] += 1
            found.ends = min(found.ends, pod.untried_at + index.settings.burst_s)
    for (key, digest), many in sorted(made.items()):
        fields = state.shapes.get(digest)
        if fields is None or has_claims(fields.scheduling, fields.requests):
            continue
        shape = shape_of(state, index, digest)
        if _asks(shape, index):
            uid = state.workloads[key].uid
            found.shares.append(Share(workload=key, uid=uid, shape=shape, count=many, made=True))
    found.shares.sort(key=lambda share: (-share.shape.priority, not share.made, share.since, share.workload))
    room = index.settings.foresight_limit
    for share in found.shares:
        kept = min(share.count, max(0, room))
        if share.count > kept:
            found.cut[share.workload] = None
        room -= kept
        share.count = share.missing = kept
    return found


def _of_untried(state: State, index: Index, key: PodKey, now: float) -> str:
    """The workload of a pod that the scheduler is about to look at; empty for one that asks for room otherwise, or later."""
    pod = state.pods[key]
    if index.counting is None or pod.daemon or pod.consumes or pod.nominated:
        return ""
    if now - pod.untried_at >= index.settings.burst_s:
        return ""  # another scheduler's, or somebody holds it back
    return index.counting.of_pod(key, pod)


def _shapes(state: State, index: Index, key: str, many: int) -> list[tuple[PodShape, int]]:
    """The shapes of the pods that a workload is about to get, and how many have each; without those of which none is known.

    Raises:
        Unreadable: its template is, or what a spread makes of it.
    """
    found = []
    for part in _parts(state, index, key, many):
        shape = _shape(state, index, key, part)
        if shape is not None:
            found.append((shape, part.pods))
    return found


def _parts(state: State, index: Index, key: str, many: int) -> list[Part]:
    """Where spreads put them."""
    taking = index.spreads.of(state, key) if index.spreads is not None else None
    if index.counting is None or taking is None:
        return [Part(many)]
    ordinals = kind_of(key) == "StatefulSet"
    there = {
        pod: state.subsets.get(pod, "")
        for pod in index.counting.current(key)
        if ordinals or state.pods[pod].deleting_at is None  # one that leaves still has its name
    }
    return split(taking, wanting(state, index, key), many, there)


def _shape(state: State, index: Index, key: str, part: Part) -> PodShape | None:
    """That of its newest one that went there, else its template's; None: not known."""
    counting, workload = index.counting, state.workloads[key]
    newest = counting.newest(state, key, part.name) if counting is not None else None
    if newest is not None:
        fields = state.shapes.get(newest.shape)
        if fields is not None and not has_claims(fields.scheduling, fields.requests):
            shape = shape_of(state, index, newest.shape)
            return shape if _asks(shape, index) else None
    if not workload.template and counting is not None:
        workload = counting.with_template(key) or workload
    form = state.forms.get(workload.template)
    if form is None:
        if not workload.template and _is_custom(key, workload):
            raise Unreadable("there is none at spec.template, nor in what it owns")
        return None
    namespace = target_of(key, "").namespace
    digest, fields = shape_of_template(form, namespace, workload.labels, state.objects, part.subset)
    if has_claims(fields.scheduling, fields.requests):
        return None  # where it may go is known once its claims are there
    shape = shape_of(state, index, digest) if digest in state.shapes else told(index, fields, digest)
    if shape.error:
        raise Unreadable(shape.error)
    return shape if _asks(shape, index) else None


def _is_custom(key: str, workload: Workload) -> bool:
    """Whether a workload is of a kind of somebody else, of which nobody knows where its template is but by custom."""
    group = workload.api_version.rpartition("/")[0]
    return bool(group) and GroupKind(group, kind_of(key)) not in BUILT_IN


def _asks(shape: PodShape, index: Index) -> bool:
    """Whether a pod of a shape waits for nothing but room."""
    return not (
        shape.gated
        or shape.error
        or shape.blocked
        or shape.node_name
        or expendable(shape.priority, index.settings.expendable_cutoff)
    )


def kind_of(key: str) -> str:
    """The kind of a workload, of its `owner_key`."""
    return key.partition("/")[0]


def target_of(key: str, api_version: str, uid: str = "") -> ObjectRef:
    """A workload as an object, of its `owner_key`."""
    kind, _, rest = key.partition("/")
    namespace, _, name = ObjectKey(rest).partition("/")
    return ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=name, uid=uid)
