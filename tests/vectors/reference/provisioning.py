"""What the reference does by means that ours has no use for, as cases of the vectors ask about it.

It expands requests into pods, keeps classes of pods of one controller, alternates between requests and
ordinary pods, and has a fast path for one class: ours counts shapes, and does all in one evaluation. None of
this runs in the product; what does is called by the cases of the other kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import repels
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.requests.conditions import (
    ACCEPT,
    ACCEPTED,
    Condition,
    find,
    with_condition,
)
from tidewright.provisioning.requests.spec import CONSUME, MAX_NAME
from tidewright.provisioning.scaleup.plans import (
    ERROR,
    NO_OPTIONS,
    NOT_NEEDED,
    NOT_TRIED,
    SUCCESSFUL,
    Plan,
)
from tidewright.provisioning.scaleup.saga import Execution

CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotation of the pods that a request is expanded into, and of those that go by it."""
EXECUTION_FAILED = "scale-up execution failed"
_RANK = {NOT_TRIED: 0, NO_OPTIONS: 1, ERROR: 2, NOT_NEEDED: 3, SUCCESSFUL: 3}

TAGS = {
    "equivalence": "packing joins equal shapes, whoever owns the pods: classes per controller would be more work for the same nodes",
    "estimate-fastpath": "packing by counts is as fast for every shape as the original's short cut is for one class",
    "provreq-batch-status": "each request is told its own result, and no loop has one that is put together",
    "provreq-alternate": "one evaluation serves ordinary pods and requests, so no loop alternates between them",
    "provreq-expand": "a request is counted, and never spelled out as pods",
    "provreq-accepted-since": "Accepted keeps the time since when it is so, as conditions do: when it was tried is told otherwise",
}
"""Kinds of cases that ours has no use for, or in which it does otherwise by intention, and why."""


def accepted_anew(conditions: Sequence[Condition], now: float) -> bool:
    """Whether the original's `Accepted` is of now after a turn: it is written with every one."""
    stored = find(with_condition(conditions, ACCEPT, now, refresh=True), ACCEPTED)
    return stored is not None and stored.changed_at == now


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One pod as the rules about pods see it.

    Attributes:
        created_at: log-time seconds of its creation, as Kubernetes stamped it.
        owner_kind, owner_uid: its controller; empty without one.
    """

    name: str
    shape: PodShape
    namespace: str = ""
    annotations: dict[str, str] = {}
    created_at: float = 0.0
    owner_kind: str = ""
    owner_uid: str = ""


def equivalence(pods: Sequence[Pending]) -> list[list[Pending]]:
    """Pods of one controller and one content form a class; each pod without, and of a DaemonSet, its own.

    For reports about pods: packing itself needs no controllers and joins equal shapes.
    """
    found: dict[tuple[str, str], list[Pending]] = {}
    for index, pod in enumerate(pods):
        alone = not pod.owner_uid or pod.owner_kind == "DaemonSet"
        key = (f"#{index}" if alone else pod.owner_uid, pod.shape.digest)
        found.setdefault(key, []).append(pod)
    return list(found.values())


class FastClass(msgspec.Struct, frozen=True):
    """One class: its shape, whose requests are those of the first container, and its pods."""

    shape: PodShape
    count: int


def fast_class(classes: Sequence[FastClass], capacity: Mapping[str, int]) -> int:
    """Index of the class with the largest saving, the last of equals; -1 when none is eligible.

    The saving is pods - pods/nodes in whole numbers, 0 when the number of nodes is not known.
    """
    best, chosen = -1, -1
    for index, found in enumerate(classes):
        shape = found.shape
        if shape.spread or any(t.key != HOSTNAME for t in (*shape.affinity, *shape.anti_affinity)):
            continue
        nodes = found.count if repels(shape, shape, HOSTNAME) else 0
        for name in ("cpu", "memory"):
            if capacity.get(name):
                nodes = max(nodes, -(-found.count * shape.requests.get(name, 0) // capacity[name]))
        score = found.count - found.count // nodes if nodes else 0
        if score >= best:
            best, chosen = score, index
    return chosen


def handled_kinds(ordinary: bool, requests: bool, mode: str, loops: int) -> list[str]:
    """Which kind each of the reference's loops serves when it alternates (spec 2.5).

    Ours serves both in one evaluation; this tells what a client that counts loops would see.
    """
    found: list[str] = []
    for _ in range(loops):
        if ordinary and requests:
            found.append(mode)
        else:
            found.append("requests" if requests else "ordinary")
        mode = "ordinary" if mode == "requests" else "requests"
    return found


def name_prefix(request: str) -> str:
    """What the names of a request's virtual pods begin with; spec 1.5."""
    dashed = f"{request}-"
    # A generated name ends in five random characters, and pods' names have at most 253.
    return dashed if len(dashed) <= MAX_NAME - 5 else request


class VirtualPod(msgspec.Struct, frozen=True, kw_only=True):
    """One virtual pod, spelled out. Decisions count them instead; this is for looking at them."""

    name: str
    generate_name: str
    namespace: str
    uid: str
    annotations: dict[str, str]
    labels: dict[str, str]
    owner_name: str
    owner_uid: str
    created_at: float
    spec: dict[str, Any]


def virtual_pod(
    *,
    request: str,
    namespace: str,
    uid: str,
    class_name: str,
    created_at: float,
    pod_set: int,
    index: int,
    template: Mapping[str, Any],
) -> VirtualPod:
    """Pod `index` of pod set `pod_set` (both from 0), as spec 1.5 expands it."""
    prefix = name_prefix(request)
    name = f"{prefix}{pod_set}-{index}"
    metadata = template.get("metadata") or {}
    return VirtualPod(
        name=name,
        generate_name=prefix,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        annotations={
            **(metadata.get("annotations") or {}),
            CONSUME: request,
            CLASS_NAME: class_name,
        },
        labels=dict(metadata.get("labels") or {}),
        owner_name=request,
        owner_uid=uid,
        created_at=created_at,
        spec=_with_defaulted_requests(template.get("spec") or {}),
    )


def _with_defaulted_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A limit without a request becomes the request, per container."""
    found = dict(spec)
    for field in ("containers", "initContainers"):
        if not spec.get(field):
            continue
        found[field] = []
        for container in spec[field]:
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            requests = {**limits, **(resources.get("requests") or {})}
            merged = {**container}
            if requests:
                merged["resources"] = {**resources, "requests": requests}
            found[field].append(merged)
    return found


class Sets(msgspec.Struct, frozen=True):
    """How a plan's pods are reported (spec 3.10), as indexes of its items."""

    triggered: tuple[int, ...]
    remain: tuple[int, ...]
    awaiting: tuple[int, ...]


def reported(plan: Plan, execution: Execution | None, *, as_reference: bool = False) -> Sets:
    """Items that triggered the increase, that nobody could take, and that wait for the next evaluation.

    Args:
        plan: what was decided.
        execution: what came of it; None when nothing was ordered.
        as_reference: count all pods of the option as triggering, also those that limits cut off.
    """
    failed = {step.group for step in execution.failed} if execution is not None else set()
    able: Mapping[str, frozenset[int]] = {g: hosts for g, hosts in plan.able.items() if g not in failed}
    placed = plan.option_pods if as_reference else plan.placed
    done = execution is not None and not execution.failed and plan.result == SUCCESSFUL
    triggered = tuple(i for i, n in enumerate(placed) if n) if done else ()
    others = [i for i in range(len(placed)) if i not in triggered]
    remain = tuple(i for i in others if not any(i in hosts for hosts in able.values()))
    return Sets(triggered, remain, tuple(i for i in others if i not in remain))


def reasons(plan: Plan, execution: Execution | None) -> dict[NodeGroupId, str]:
    """Group to why it did not help, execution included."""
    found = dict(plan.reasons)
    if execution is not None:
        found.update({step.group: EXECUTION_FAILED for step in execution.failed})
    return found


def combined(results: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The best result of a batch, and the distinct errors merged into one text. Spec 2.7."""
    best = max((result for result, _ in results), key=lambda r: _RANK[r], default=NOT_TRIED)
    return best, merged_errors([error for _, error in results])


def merged_errors(errors: Iterable[str]) -> str:
    """The first of the distinct texts, with the others quoted; empty for none."""
    texts = sorted({error for error in errors if error})
    if len(texts) < 2:
        return texts[0] if texts else ""
    others = ", ".join(f'"{text}"' for text in texts[1:])
    return f"{texts[0]} ...and other concurrent errors: [{others}]"


def unregistered(
    instances: Iterable[str],
    registered: Iterable[str],
    since: Mapping[str, float],
    now: float,
    limit_s: float,
) -> tuple[list[str], list[str]]:
    """Instances without a node: (for at most the provision time, for longer).

    Args:
        instances: ids at the cloud.
        registered: provider ids of nodes.
        since: when each unregistered instance was first seen.
        now: log time.
        limit_s: `max-node-provision-time` of the group.
    """
    there = set(registered)
    short: list[str] = []
    long: list[str] = []
    for name in instances:
        if name not in there:
            (long if since.get(name, now) + limit_s < now else short).append(name)
    return short, long
