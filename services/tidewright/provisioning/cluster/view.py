"""The cluster as an evaluation sees it: groups with templates and counts, limits, upcoming nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from tidewright.events.provisioning import TemplateNode
from tidewright.kube.keys import namespace_of
from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.podspecs import of_template
from tidewright.kube.taints import taints_of
from tidewright.provisioning.cluster.arriving import arrived
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.cluster_state import (
    Counts,
    Health,
    InstanceView,
    Readiness,
    cluster_healthy,
    group_healthy,
    readiness,
    upcoming,
)
from tidewright.provisioning.cluster.groups import (
    READY_LONG_ENOUGH_S,
    Group,
    RealNode,
    candidates,
    choose_template,
)
from tidewright.provisioning.cluster.limits import Limits, believed, quotas_of
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.claims import Claims
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import Awaited, awaited, unripe
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.classes import items
from tidewright.provisioning.settings import Quota, Settings
from tidewright.provisioning.state import GroupState, State


class GroupView(msgspec.Struct, kw_only=True):
    """A group in numbers at this moment.

    Attributes:
        members: its registered nodes, by name.
        starting: those of them that have not started yet.
        long: instances that have not registered for longer than the provision time.
        failed: instances that reported a creation error.
        upcoming: nodes on their way.
    """

    group: Group
    counts: Counts
    members: tuple[str, ...]
    starting: tuple[str, ...] = ()
    long: tuple[str, ...]
    failed: tuple[InstanceView, ...]
    upcoming: int
    provision_s: float


class View(msgspec.Struct, kw_only=True):
    """Everything that is read off the state once per evaluation.

    Attributes:
        loose: nodes of no group, which count for the cluster's health too.
    """

    groups: dict[NodeGroupId, GroupView]
    limits: Limits
    current_nodes: int
    healthy: bool
    loose: Counts = Counts()


def template_view(template: TemplateNode, claims: Claims) -> NodeView:
    """What a template says a node is like, with what its devices come to."""
    labels = {key: value for key, value in template.labels.items() if key != HOSTNAME}
    allocatable = template.allocatable or template.capacity
    return NodeView(
        name="template",
        labels=labels,
        taints=taints_of(template.taints),
        allocatable={**claims.attachable(""), **allocatable},
        stock=claims.plugged(claims.offers.template_stock("", template.devices), allocatable),
        around=claims.offers.around(labels),
    )


def daemon_shapes(state: State) -> list[PodShape]:
    """Shapes of the pods that DaemonSets put on nodes, by the DaemonSet's name."""
    return [of_template(state.daemons[key], namespace_of(key)) for key in sorted(state.daemons)]


def look(state: State, index: Index, now: float) -> View:
    """Read groups, counts and limits off the state."""
    settings = index.settings
    health = Health(settings.ok_unready, settings.unready_percent)
    members: dict[str, list[str]] = {}
    early = arrived(state)
    for name in sorted(state.nodes):
        members.setdefault(early.get(name) or state.nodes[name].group, []).append(name)
    daemons = daemon_shapes(state)
    views: dict[NodeGroupId, GroupView] = {}
    for name in sorted(state.groups):
        views[name] = _group_view(
            state, index, name, members=members.get(name, []), daemons=daemons, health=health, now=now
        )
    loose = _loose(state, members.get("", []), settings, now)
    limits = Limits(quotas_of(settings, _learnt(state, settings, now)))
    kind_of = index.kind
    many = Counter((early.get(name) or node.group, kind_of[name]) for name, node in state.nodes.items())
    for (group_name, number), count in many.items():
        kind = index.kinds[number]
        if kind.counts:
            capacity = _capacity(state, group_name, kind.allocatable)
            limits.consume(group_name, kind.labels, capacity, count)
    current = len(state.nodes)
    for view in views.values():
        # Limits count whatever the cloud may still bring, also what no open increase waits for.
        coming = max(0, view.upcoming - view.counts.not_started, view.group.target - len(view.members))
        current += coming
        limits.consume(view.group.id, view.group.labels, view.group.node_capacity, coming)
    for group in candidates(settings.machine_types, _existing(state), daemons):
        entry = state.backoff.get(group.id)
        if entry is not None and backed_off(entry, now):
            candidate = msgspec.structs.replace(group, backed_off=True, backoff_until=entry.until)
        else:
            candidate = group
        views[group.id] = GroupView(
            group=candidate,
            counts=Counts(),
            members=(),
            long=(),
            failed=(),
            upcoming=0,
            provision_s=settings.max_node_provision_s,
        )
    return View(
        groups=views,
        limits=limits,
        current_nodes=current,
        healthy=cluster_healthy([loose, *(view.counts for view in views.values())], health),
        loose=loose,
    )


def _loose(state: State, members: Sequence[str], settings: Settings, now: float) -> Counts:
    sets = Counter(
        readiness(
            ready=state.nodes[name].ready,
            age_s=now - state.nodes[name].created_at,
            taints=taints_of(state.nodes[name].taints),
            startup_s=settings.max_node_startup_s,
            startup_taints=(*settings.startup_taints, *settings.ignore_taints),
        )
        for name in members
    )
    return Counts(
        ready=sets[Readiness.READY],
        unready=sets[Readiness.UNREADY],
        not_started=sets[Readiness.NOT_STARTED],
    )


def _existing(state: State) -> list[str]:
    return [name for name, group in state.groups.items() if group.exists]


def _learnt(state: State, settings: Settings, now: float) -> list[Quota]:
    """What clouds have said about their quotas, as far as it is still believed."""
    quotas = (
        believed(name, learnt, state.groups[name].max_size, now, settings.learnt_half_life_s)
        for name, learnt in sorted(state.learnt.items())
        if name in state.groups
    )
    return [quota for quota in quotas if quota is not None]


def _capacity(state: State, group: NodeGroupId, allocatable: dict[str, int]) -> dict[str, int]:
    """A node's capacity for limits; devices that are not visible yet count as its group's template says."""
    known = state.groups.get(group)
    if known is None or known.template is None:
        return allocatable
    promised = known.template.capacity or known.template.allocatable
    missing = {name: n for name, n in promised.items() if name.endswith("/gpu") and name not in allocatable}
    return {**allocatable, **missing} if missing else allocatable


def _group_view(
    state: State,
    index: Index,
    name: NodeGroupId,
    *,
    members: Sequence[str],
    daemons: Sequence[PodShape],
    health: Health,
    now: float,
) -> GroupView:
    settings, group = index.settings, state.groups[name]
    provision_s = group.max_provision_s or settings.max_node_provision_s
    startup_s = settings.max_node_startup_s if group.own.startup_s is None else group.own.startup_s
    there = {instance.id for instance in group.instances}
    sets = dict.fromkeys(Readiness, 0)
    plainly_ready = 0
    devices = awaited(group)
    kept: list[str] = []
    starting: list[str] = []
    for member in members:
        node = state.nodes[member]
        if node.provider_id not in there and node.seen_at < group.observed_at:
            continue  # gone at the cloud
        if node.doomed:
            continue  # going: what is ordered from now on does not count on it
        kept.append(member)
        ready = node.ready and not unripe(index, member, node, devices)
        if ready and not node.taints:
            plainly_ready += 1
            continue
        stage = readiness(
            ready=ready,
            age_s=now - node.created_at,
            taints=taints_of(node.taints),
            startup_s=startup_s,
            startup_taints=(*settings.startup_taints, *settings.ignore_taints),
        )
        sets[stage] += 1
        if stage is Readiness.NOT_STARTED:
            starting.append(member)
    short = 0
    long: list[str] = []
    failed: list[InstanceView] = []
    machines = index.machines
    for instance in group.instances:
        if instance.id in machines or instance.id in group.deleting or instance.state == "deleting":
            continue
        view = InstanceView(
            id=instance.id,
            state=instance.state,
            error_class=instance.error_class,
            error_code=instance.error_code,
            error_message=instance.error_message,
        )
        if view.failed:
            failed.append(view)
        elif group.since.get(instance.id, now) + provision_s < now:
            long.append(instance.id)
        else:
            short += 1
    opened = state.open.get(name)
    entry = state.backoff.get(name)
    counts = Counts(
        target=group.target,
        ready=sets[Readiness.READY] + plainly_ready,
        unready=sets[Readiness.UNREADY],
        not_started=sets[Readiness.NOT_STARTED],
        unregistered=short,
        long_unregistered=len(long),
        deleting=len(group.deleting),
        increase=opened.increase if opened is not None else 0,
        backed_off=backed_off(entry, now),
    )
    template = choose_template(
        _patterns(state, index, kept, now, devices),
        remembered=None,
        provided=_provided(group, index.claims),
        daemons=daemons,
        static=_static(group),
        passing={*settings.startup_taints, *settings.ignore_taints, *settings.status_taints},
    )
    return GroupView(
        group=Group(
            id=name,
            min=group.min_size,
            max=group.max_size,
            target=group.target,
            template=template if settings.scale_from_zero or kept else None,
            capacity=dict(group.template.capacity) if group.template is not None else {},
            nodes=len(kept),
            zero_or_max=group.zero_or_max,
            exists=group.exists,
            healthy=group_healthy(counts, health),
            backed_off=counts.backed_off,
            backoff_until=entry.until if entry is not None else 0.0,
            size_known=not group.error and group.rest is None,
            atomic_increase=group.atomic_increase,
            price_micro=group.price_micro,
            machine_type=group.machine_type,
        ),
        counts=counts,
        members=tuple(kept),
        starting=tuple(starting),
        long=tuple(long),
        failed=tuple(failed),
        upcoming=upcoming(counts),
        provision_s=provision_s,
    )


def _static(group: GroupState) -> list[PodShape]:
    """Pods that a group's nodes run by themselves; on real ones they are mirrored, and seen."""
    pods = group.template.pods if group.template is not None else ()
    return [of_template(pod, (pod.get("metadata") or {}).get("namespace", "")) for pod in pods]


def _provided(group: GroupState, claims: Claims) -> NodeView | None:
    for pattern in group.patterns:
        if pattern.ready_s >= READY_LONG_ENOUGH_S:
            return template_view(pattern.template, claims)
    return template_view(group.template, claims) if group.template is not None else None


def _patterns(
    state: State, index: Index, members: Sequence[str], now: float, devices: Awaited | None
) -> list[RealNode]:
    """Real nodes to take the template from: the first that will do is enough."""
    nodes: list[RealNode] = []
    for name in members:
        node = state.nodes[name]
        leaving = node.leaving or node.unschedulable
        ripe = node.ready and not unripe(index, name, node, devices)
        ready_for = now - node.ready_changed_at if ripe else None
        shapes = (
            (shape_of(state, index, state.pods[key].shape), 1)
            for key in index.on_node.get(name, {})
            if state.pods[key].daemon
        )
        nodes.append(
            RealNode(
                view=NodeView(
                    name=name,
                    labels=node.labels,
                    taints=taints_of(node.taints),
                    allocatable={**node.allocatable, **index.claims.attachable(name)},
                    stock=index.claims.plugged(index.claims.offers.template_stock(name), node.allocatable),
                    around=index.claims.offers.around(node.labels),
                ),
                ready_for_s=ready_for,
                residents=tuple(items(shapes)),
                leaving=leaving,
            )
        )
        if not leaving and ready_for is not None and ready_for >= 60:
            return nodes[-1:]
    return nodes
