"""What a decision to scale led to, step by step: the plan that expected pods by it, the orders, their nodes, and the pods on those.

Of a decision to remove a node `departures` tells.

It goes the other way than `lookups.causes`. Each step is a record of the log and has its time; of many nodes and pods the
first and the last are shown. How far is looked is bounded, and so is the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from tidewright.asking import departures, lookups
from tidewright.asking.errors import BadInput
from tidewright.asking.following import PLANS_LOOKED_AT, PROVISIONING, Step, behind, ends
from tidewright.asking.lookups import Found, decoded
from tidewright.asking.objects import KNOWN
from tidewright.asking.source import Source
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import NodeObserved, PodObserved, WorkloadObserved
from tidewright.events.provisioning import (
    ExpectedPods,
    IncreaseNodeGroup,
    NodeGroupObserved,
    PlanScaleUp,
    RemoveNode,
)
from tidewright.host.fold.explainer import Reference
from tidewright.kube.keys import ObjectKey, parts
from tidewright.log.subjects import ALL, escape, slot_of

RECORDS = Reference("none", "", "")
"""Where plans lie: they name no target."""

ASKED_OF = frozenset(
    (
        "watermarkpodautoscaler",
        "deployment",
        "replicaset",
        "statefulset",
        "job",
        "cloneset",
        "replicationcontroller",
        "node",
        "pod",
        "nodegroup",
    )
)
"""Kinds of objects of which it is told: who scales, who makes pods, their pods, groups that grow for these, and nodes, which are removed."""
MAKERS = ("deployment", "replicaset", "statefulset", "job", "cloneset")
"""Kinds by which workloads that nobody built in may make their pods."""
ORDERED_FOR = frozenset(("pod", "nodegroup"))
"""Those of which it is told what they were ordered for alone; what is removed of them is told of the node."""
SCALERS = frozenset(("watermarkpodautoscaler",))
"""Those that scale: what is decided about them themselves leads to no pod."""


def leads_on(entry: Found) -> bool:
    """Whether nodes may have been ordered for pods that were about to come by this decision, or were; or a node goes by it."""
    match entry.event:
        case ScaleWorkload(shadow=False, replicas=replicas, from_replicas=before):
            return replicas > before
        case PlanScaleUp(shadow=False, expected=expected):
            return bool(expected)
        case RemoveNode(shadow=False):
            return True
    return False


async def chain(source: Source, asked: Reference, candidates: Sequence[Found], up_to: int) -> list[Step]:
    """From the latest of these decisions that led to a plan for pods, up to a sequence (0: the end); empty where none did."""
    leading = sorted((one for one in candidates if leads_on(one)), key=lambda one: one.seq, reverse=True)
    if asked.kind in ORDERED_FOR:
        leading = [one for one in leading if isinstance(one.event, PlanScaleUp)]
    for one in leading:
        match one.event:
            case ScaleWorkload() as scaled:
                plan = await _plan_by(source, one, scaled.id, up_to)
                if plan is not None:
                    return [
                        *await _before(source, one),
                        *await _of_plan(source, plan, _shares(plan, scaled.id, asked), up_to, asked),
                    ]
            case RemoveNode():
                return await departures.chain(source, one, up_to)
            case PlanScaleUp():
                shares = await _shares_of_pod(source, one, asked, up_to) or _shares(one, "", asked)
                scale = await _scale_of(source, shares)
                before = await _before(source, scale) if scale is not None else []
                if asked.kind == "pod":
                    return [*before, *await _to_the_pod(source, one, asked, up_to)]
                return [*before, *await _of_plan(source, one, shares, up_to, asked)]
    return []


def _shares(plan: Found, decision: str, asked: Reference) -> list[ExpectedPods]:
    """Of those for whom a plan is: by one decision, or of the workload that is asked about; all where it is neither."""
    expected = plan.event.expected if isinstance(plan.event, PlanScaleUp) else ()
    chosen = [share for share in expected if decision and share.decision == decision]
    chosen = chosen or [share for share in expected if _workload(share) == asked]
    return chosen or list(expected)


def _workload(share: ExpectedPods) -> Reference:
    kind, _, rest = share.workload.partition("/")
    return Reference(kind.lower(), *parts(ObjectKey(rest)))


async def _scale_of(source: Source, shares: Sequence[ExpectedPods]) -> Found | None:
    """The decision by which pods were expected; None where the workload itself said so, or it has aged out."""
    decision = next((share.decision for share in shares if share.decision), "")
    try:
        return await lookups.by_id(source, decision) if decision else None
    except BadInput:
        return None


async def _before(source: Source, scale: Found) -> list[Step]:
    sampled = await lookups.answered_by(source, scale.event) if isinstance(scale.event, Decision) else None
    first = [Step("it began with", sampled)] if sampled is not None else []
    return [*first, Step("it was decided", scale)]


async def _plan_by(source: Source, scaled: Found, decision: str, up_to: int) -> Found | None:
    """The plan that expected pods by a decision."""

    def names_it(event: Event) -> bool:
        return isinstance(event, PlanScaleUp) and any(share.decision == decision for share in event.expected)

    pattern = lookups.decided_about(source, PROVISIONING, RECORDS)
    found = [
        entry
        async for entry in behind(
            source, pattern, scaled.seq, up_to, names_it, most=PLANS_LOOKED_AT, enough=1
        )
    ]
    return found[0] if found else None


async def _shares_of_pod(source: Source, plan: Found, asked: Reference, up_to: int) -> list[ExpectedPods]:
    """Of a plan for the pods of several workloads, that of a pod's own; empty of what is no pod."""
    shares = plan.event.expected if isinstance(plan.event, PlanScaleUp) else ()
    if asked.kind != "pod":
        return []
    found = []
    async for entry in behind(source, _pod(source, asked), plan.seq, up_to, lambda _: True, enough=1):
        if isinstance(entry.event, PodObserved):
            for share in shares:
                kind, _, rest = share.workload.partition("/")
                if _is_of(
                    entry.event, kind, parts(ObjectKey(rest))[1], await _controllers(source, share, up_to)
                ):
                    found.append(share)
    return found


async def _to_the_pod(source: Source, plan: Found, asked: Reference, up_to: int) -> list[Step]:
    """From a plan to one pod that came of it: the orders, the node that it is on, where that came later, and the pod itself."""
    steps = [Step("pods were expected by it", plan)]
    for order in await _orders(source, plan, asked):
        steps.append(Step("nodes were ordered", order))
        outcome = await lookups.outcome_of(source, order)
        if outcome is not None and (not up_to or outcome.seq <= up_to):
            steps.append(Step("the order was answered", outcome))
    there = placed = ready = None
    async for entry in behind(source, _pod(source, asked), plan.seq, up_to, lambda _: True):
        if not isinstance(entry.event, PodObserved):
            break  # it is gone; another one of its name is another one
        there = there or entry
        placed = placed or (entry if entry.event.node else None)
        ready = entry if entry.event.ready else None
        if ready is not None:
            break
    later = [Step("the pod was there", there)] if there is not None else []
    if placed is not None and isinstance(placed.event, PodObserved):
        came = await _came(source, placed.event.node, plan.seq, placed.seq)
        later += [Step("its node was ready", came)] if came is not None else []
        later.append(Step("the pod had its place", placed))
    later += [Step("the pod was ready", ready)] if ready is not None else []
    return steps + sorted(later, key=lambda step: step.found.seq)


def _pod(source: Source, asked: Reference) -> str:
    return source.subjects.fact(slot_of(asked.namespace, source.slots), "pod", asked.namespace, asked.name)


async def _came(source: Source, node: str, after: int, up_to: int) -> Found | None:
    """The first fact that has a node ready, where that came between two sequences."""
    subject = source.subjects.fact(ALL, "node", "", node)

    def ready(event: Event) -> bool:
        return isinstance(event, NodeObserved) and bool(event.ready)

    for record in await source.last([subject], after):
        before = decoded(record)
        if before is not None and isinstance(before.event, Event) and ready(before.event):
            return None
    found = [entry async for entry in behind(source, subject, after, up_to, ready, enough=1)]
    return found[0] if found else None


async def _orders(source: Source, plan: Found, asked: Reference) -> list[Found]:
    """What was ordered by a plan; of a group that is asked about, of it alone."""
    return [
        other
        for other in await lookups.beside(source, plan)
        if isinstance(other.event, IncreaseNodeGroup)
        and isinstance(plan.event, PlanScaleUp)
        and other.event.plan == plan.event.plan
        and (asked.kind != "nodegroup" or other.event.target.name == asked.name)
    ]


async def _of_plan(
    source: Source, plan: Found, shares: Sequence[ExpectedPods], up_to: int, asked: Reference
) -> list[Step]:
    steps = [Step("pods were expected by it", plan)]
    orders = await _orders(source, plan, asked)
    nodes: dict[str, Found] = {}
    for order, (outcome, came) in zip(
        orders, await asyncio.gather(*(_of_order(source, order, up_to) for order in orders)), strict=True
    ):
        steps.append(Step("nodes were ordered", order))
        if outcome is not None and (not up_to or outcome.seq <= up_to):
            steps.append(Step("the order was answered", outcome))
        nodes.update(came)
    steps += ends("node", "was ready", list(nodes.values()))
    placed = (_pods(source, plan, share, nodes, up_to) for share in shares[: lookups.MOST_EXPECTED])
    for pods in await asyncio.gather(*placed):
        steps += ends("pod", "had its place", pods)
    return steps


async def _of_order(source: Source, order: Found, up_to: int) -> tuple[Found | None, dict[str, Found]]:
    """What was answered to an order, and its nodes."""
    return await asyncio.gather(lookups.outcome_of(source, order), _nodes(source, order, up_to))


async def _nodes(source: Source, order: Found, up_to: int) -> dict[str, Found]:
    """The nodes that came for an order, by name, each with the first fact that has it ready, in their order."""
    increase = order.event
    if not isinstance(increase, IncreaseNodeGroup):
        return {}
    many = increase.size - increase.from_size
    group = source.subjects.fact(ALL, "nodegroup", "", increase.target.name)
    before: dict[str, None] = {}
    for record in await source.last([group], order.seq):
        entry = decoded(record)
        before = _machines(entry.event) if entry is not None else {}
    awaited = max(0, increase.from_size - len(before))  # for orders before this one, which come first
    new: dict[str, None] = {}
    async for entry in behind(
        source, group, order.seq, up_to, lambda event: bool(_machines(event)), most=PLANS_LOOKED_AT
    ):
        new |= {machine: None for machine in _machines(entry.event) if machine not in before}
        if len(new) >= awaited + many:
            break
    machines = dict.fromkeys(list(new)[awaited : awaited + many])
    found: dict[str, Found] = {}

    def ready(event: Event) -> bool:
        return (
            isinstance(event, NodeObserved)
            and bool(event.ready)
            and event.provider_id in machines
            and event.name not in found
        )

    if machines:
        pattern = f"{source.subjects.root}.fact.{ALL}.node.>"
        async for entry in behind(source, pattern, order.seq, up_to, ready):
            found[entry.event.name] = entry  # type: ignore[union-attr]  # a NodeObserved
            if len(found) == len(machines):
                break
    return found


def _machines(event: object) -> dict[str, None]:
    """In the order in which the cloud names them."""
    return dict.fromkeys(one.id for one in event.machines) if isinstance(event, NodeGroupObserved) else {}


async def _pods(
    source: Source, plan: Found, share: ExpectedPods, nodes: dict[str, Found], up_to: int
) -> list[Found]:
    """The pods of a workload that are on these nodes, each with the first fact that says so, in their order."""
    kind, _, rest = share.workload.partition("/")
    namespace, name = parts(ObjectKey(rest))
    seen, uids = set[str](), await _controllers(source, share, up_to)

    def placed(event: Event) -> bool:
        if not isinstance(event, PodObserved) or event.node not in nodes or event.name in seen:
            return False
        return _is_of(event, kind, name, uids)

    if not nodes:
        return []
    found = []
    pattern = f"{source.subjects.root}.fact.{slot_of(namespace, source.slots)}.pod.{escape(namespace)}.>"
    async for entry in behind(source, pattern, plan.seq, up_to, placed):
        seen.add(entry.event.name)  # type: ignore[union-attr]  # a PodObserved
        found.append(entry)
        if len(found) == share.pods:
            break
    return found


async def _controllers(source: Source, share: ExpectedPods, up_to: int) -> set[str]:
    """Uids of a workload, and of what it controls where nobody built it in: its pods may be its own, or come over that."""
    workload = _workload(share)
    uids = {share.uid} - {""}
    if workload.kind in KNOWN or not uids:
        return uids
    made = await lookups.of_namespace(source, (*MAKERS, *lookups.CUSTOM), workload.namespace, up_to)
    owners = {
        entry.event.uid: {owner.uid for owner in entry.event.owners if owner.controller}
        for entry in made
        if isinstance(entry.event, WorkloadObserved)
    }
    while more := {uid for uid, above in owners.items() if above & uids} - uids:
        uids |= more
    return uids


def _is_of(pod: PodObserved, kind: str, name: str, uids: Collection[str]) -> bool:
    """Whether a pod is of a workload: by its controller's uid, or by the name that a Deployment gives its ReplicaSets."""
    controller = next((owner for owner in pod.owners if owner.controller), None)
    if controller is None:
        return False
    if controller.uid in uids:
        return True
    return (kind, controller.kind) == ("Deployment", "ReplicaSet") and controller.name.rpartition("-")[
        0
    ] == name
