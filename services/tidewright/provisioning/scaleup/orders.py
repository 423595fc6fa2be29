"""Decisions as they go to the log: plans with their orders, object events, what is taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.decisions import RecordObjectEvent
from tidewright.events.provisioning import (
    CreateNodeGroup,
    DecreaseNodeGroup,
    GroupVerdict,
    Increase,
    IncreaseNodeGroup,
    NodeLoad,
    PlanScaleUp,
    TemplateNode,
)
from tidewright.kube.keys import NO_REQUEST, PodKey, RequestKey, parts
from tidewright.provisioning.cluster.groups import TEMPLATE_LABEL, Group, in_zone
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup import expander, saga
from tidewright.provisioning.scaleup.plans import NOT_CHOSEN, Plan, World
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because

COMPONENT = "cluster-autoscaler"
GROUP_KIND = "NodeGroup"
STATUS_MAP = ObjectRef(
    api_version="v1", kind="ConfigMap", namespace="kube-system", name="cluster-autoscaler-status"
)
NAMED_PODS = 100
MAX_MESSAGE = 1024
"""The API server refuses longer messages of object events."""
AGAIN_S = 300.0
"""How long after it was told something that lasts is told again."""


class Orders:
    """Names plans, and knows whether they are only recorded."""

    def __init__(self, state: State, now: float, dry_run: bool) -> None:
        self.state = state
        self.now = now
        self.dry_run = dry_run
        self.made = 0
        self.thought = 0
        """Plans among those made that nothing comes of."""

    def name(self) -> str:
        """A name that no plan has: the moment, and a number."""
        while True:
            self.made += 1
            name = f"{int(self.now * 1_000_000):x}-{self.made}"
            if name not in self.state.executions:
                return name


def group_ref(name: str) -> ObjectRef:
    return ObjectRef(api_version="cloud/v1", kind=GROUP_KIND, name=name)


def request_ref(namespace: str, name: str, uid: str) -> ObjectRef:
    return ObjectRef(
        api_version="autoscaling.x-k8s.io/v1",
        kind="ProvisioningRequest",
        namespace=namespace,
        name=name,
        uid=uid,
    )


def pod_event(
    at: float, key: PodKey, uid: str, *, reason: str, message: str, event_type: str = "Normal"
) -> RecordObjectEvent:
    """An object event on a pod."""
    namespace, name = parts(key)
    return RecordObjectEvent(
        at=at,
        target=ObjectRef(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=uid),
        event_type=event_type,
        reason=reason,
        message=message[:MAX_MESSAGE],
        component=COMPONENT,
    )


def status_event(at: float, reason: str, message: str, event_type: str = "Normal") -> RecordObjectEvent:
    """An object event on the status ConfigMap."""
    return RecordObjectEvent(
        at=at,
        target=STATUS_MAP,
        event_type=event_type,
        reason=reason,
        message=message[:MAX_MESSAGE],
        component=COMPONENT,
    )


def lasting(
    state: State, now: float, reason: str, message: str, event_type: str = "Warning"
) -> list[RecordObjectEvent]:
    """Something that lasts: told when it begins or changes, and again after a while."""
    at = state.said_at.get(reason)
    again = at is None or at + AGAIN_S <= now
    if again or state.said.get(reason) != message[:MAX_MESSAGE]:
        return [status_event(now, reason, message, event_type)]
    return []


def verdicts_of(why: Mapping[NodeGroupId, str], plan: Plan | None) -> tuple[GroupVerdict, ...]:
    """What became of each group, by id."""
    options = {} if plan is None else {o.group: o for o in plan.options}
    chosen = () if plan is None else plan.chosen
    verdicts = []
    for name in sorted({*why, *options}):
        option = options.get(name)
        reason = why.get(name, "")
        if option is not None and not reason and name not in chosen:
            reason = NOT_CHOSEN
        verdicts.append(
            GroupVerdict(
                group=name,
                reason="" if name in chosen else reason,
                chosen=name in chosen,
                nodes=option.nodes if option is not None else 0,
                pods=option.pods if option is not None else 0,
                waste_permille=round(expander.waste(option) * 1000) if option is not None else 0,
                cost_micro=(
                    round(option.node_price * option.nodes * 1e6)
                    if option is not None and option.node_price is not None
                    else None
                ),
            )
        )
    return tuple(verdicts)


def ordered_plan(
    orders: Orders,
    plan: Plan,
    world: World,
    *,
    pods: Sequence[PodKey],
    why: Iterable[Because],
    request: RequestKey = NO_REQUEST,
    request_uid: str = "",
    all_or_nothing: bool = False,
) -> list[Decision]:
    """A plan and the orders that go out with it."""
    groups = {group.id: group for group in world.groups}
    name, at = orders.name(), orders.now
    chosen = [
        because(
            "GroupChosen",
            group=t.group,
            nodes=t.added,
            from_size=t.from_size,
            size=t.size,
            maximum=t.max_size,
        )
        for t in plan.targets
    ]
    refused = [because("GroupOut", group=g, reason=r) for g, r in sorted(plan.out().items())[:20]]
    parallel = world.settings.parallel
    decisions: list[Decision] = [
        creation
        for created in plan.created
        if created in groups
        for creation in _creations(at, groups[created])
    ]
    decisions.append(
        PlanScaleUp(
            at=at,
            plan=name,
            request=request,
            request_uid=request_uid,
            increases=tuple(
                Increase(group=t.group, from_size=t.from_size, size=t.size, max_size=t.max_size)
                for t in plan.targets
            ),
            verdicts=verdicts_of(plan.out(), plan),
            pods=tuple(pods[:NAMED_PODS]),
            placed=sum(plan.placed),
            loads=tuple(
                NodeLoad(group=placement.group, nodes=layout.nodes, pods=layout.pods)
                for placement in plan.placements
                for layout in placement.layouts
            ),
            all_or_nothing=all_or_nothing,
            parallel=parallel,
            because=(*why, *plan.why, *chosen, *refused),
        )
    )
    execution = saga.begin(
        name, plan.targets, at=at, parallel=parallel, request=request, all_or_nothing=all_or_nothing
    )
    decisions += increases(execution, at, groups, orders.dry_run, tuple(chosen))
    return decisions


def _creations(at: float, group: Group) -> list[CreateNodeGroup]:
    """A group that is to be made, and those that belong to it: one decision each, so that every increase
    follows the creation of its own group.
    """
    view = group.template.view if group.template is not None else None
    labels = dict(view.labels) if view is not None else {}
    labels.pop(TEMPLATE_LABEL, None)
    zones = group.zones or ("",)
    decisions = []
    for name, zone in zip((group.id, *group.also), zones, strict=True):
        zoned = in_zone(labels, zone)
        decisions.append(
            CreateNodeGroup(
                at=at,
                target=group_ref(name),
                machine_type=group.machine_type,
                max_size=group.max,
                zone=zone,
                template=TemplateNode(
                    labels=zoned,
                    taints=tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in view.taints)
                    if view is not None
                    else (),
                    allocatable=dict(view.allocatable) if view is not None else {},
                ),
            )
        )
    return decisions


def increases(
    execution: saga.Execution,
    at: float,
    groups: Mapping[NodeGroupId, Group],
    dry_run: bool,
    why: tuple[Because, ...] = (),
) -> list[Decision]:
    """The orders of an execution that go out now, each with its event on the status ConfigMap."""
    decisions: list[Decision] = []
    for step in saga.due(execution):
        group = groups.get(step.group)
        atomic = execution.all_or_nothing and group is not None and group.atomic_increase
        decisions.append(
            IncreaseNodeGroup(
                at=at,
                target=group_ref(step.group),
                dry_run=dry_run,
                size=step.size,
                from_size=step.from_size,
                atomic=atomic,
                plan=execution.plan,
                request=execution.request,
                because=tuple(b for b in why if b.values.get("group") == step.group),
            )
        )
        decisions.append(
            status_event(
                at,
                "ScaledUpGroup",
                f"Scale-up: setting group {step.group} size to {step.size} instead of {step.from_size}",
            )
        )
    return decisions


def taken_back(at: float, group: NodeGroupId, *, size: int, from_size: int, plan: str = "") -> list[Decision]:
    """Orders that are not fulfilled are cancelled, and it is told."""
    if size >= from_size:
        return []
    why = because("TakenBack", group=group, count=from_size - size)
    return [
        DecreaseNodeGroup(
            at=at, target=group_ref(group), size=size, from_size=from_size, plan=plan, because=(why,)
        ),
        status_event(
            at, "ScaleUpReverted", f"group {group}: {from_size - size} nodes that had not come are taken back"
        ),
    ]
