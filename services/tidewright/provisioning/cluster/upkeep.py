"""What became of orders: finished, late, failed; and nodes that nobody needs. Spec 3.9, [B9], [B11]."""

from __future__ import annotations

import msgspec

from tidewright.events.base import Decision
from tidewright.events.provisioning import (
    BackOffGroup,
    CloseScaleUp,
    DeleteInstances,
    DeleteNodeGroup,
    TrackIdleNodes,
)
from tidewright.host.fold.parts import Measure
from tidewright.provisioning.cluster import backoff, cluster_state
from tidewright.provisioning.cluster.limits import quota_amounts
from tidewright.provisioning.cluster.view import GroupView, View
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import idle
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.scaleup.orders import group_ref, status_event, taken_back
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import GroupState, State
from tidewright.provisioning.tell import parts
from tidewright.provisioning.tell.sentences import because


class Conclusions(msgspec.Struct):
    """Decisions, and log times at which there may be more."""

    decisions: list[Decision] = []
    dues: list[float] = []


def back_off(
    state: State,
    settings: Settings,
    group: NodeGroupId,
    now: float,
    *,
    error_class: int,
    code: str,
    message: str,
    failed: int,
) -> BackOffGroup:
    """Leave a group alone after a failure, for as long as its history says."""
    entry = state.backoff.get(group)
    if entry is not None and backoff.stale(entry, now, settings.group_backoff_reset_s):
        entry = None
    after = backoff.after_failure(
        entry,
        now,
        initial_s=settings.initial_group_backoff_s,
        maximum_s=settings.max_group_backoff_s,
        error_class=error_class,
        code=code,
        message=message,
    )
    return BackOffGroup(
        at=now,
        group=group,
        until=after.until,
        backoff_s=after.duration_s,
        error_class=error_class,
        code=code,
        message=message,
        failed=failed,
        kept_s=None if settings.group_backoff_reset_s == backoff.RESET_S else settings.group_backoff_reset_s,
        because=(because("OrderFailed", group=group, error=message or code),),
    )


def upkeep(state: State, index: Index, view: View, now: float) -> Conclusions:
    """Go through the groups: close what is finished, take back what is late, delete what failed."""
    conclusions = Conclusions()
    for name in sorted(view.groups):
        group = view.groups[name]
        if name not in state.groups:
            if group.group.backed_off:
                conclusions.dues.append(group.group.backoff_until + 0.001)
            continue
        if _being_reduced(state.groups[name]) or state.groups[name].rest is not None:
            continue  # its instances are those of before: the answer, or the next looks, say what is left
        if group.failed:
            _creation_failed(state, index.settings, name, view=group, now=now, conclusions=conclusions)
        elif group.long and _never_registered(
            state, index.settings, name, view=group, now=now, conclusions=conclusions
        ):
            pass
        elif name in state.open:
            _open(state, index.settings, name, view=group, now=now, conclusions=conclusions)
        if group.counts.backed_off:
            conclusions.dues.append(group.group.backoff_until + 0.001)
        if name not in state.open:
            _wrong_size(state, name, group, now, conclusions)
        since = [at for instance, at in state.groups[name].since.items() if instance not in group.long]
        if since:
            conclusions.dues.append(min(since) + group.provision_s + 0.001)
    for name in sorted(set(state.open) - set(state.groups)):
        conclusions.decisions.append(
            CloseScaleUp(at=now, group=name, result="Failed", because=(because("GroupGone", group=name),))
        )
    return conclusions


def _being_reduced(group: GroupState) -> bool:
    """A smaller size was ordered, and the cloud has not been seen since."""
    return group.wanted is not None and group.wanted < group.target_size


def _wrong_size(
    state: State, name: NodeGroupId, view: GroupView, now: float, conclusions: Conclusions
) -> None:
    """A cloud that says it ordered more than ever comes is taken at what came. Spec 3.9, "Wrong size"."""
    group = state.groups[name]
    if group.wrong is None or group.wanted is not None or group.target != group.wrong[1]:
        return
    registered, target, since = group.wrong
    if registered > target:
        return  # nothing is to be taken back of what is there
    if since + view.provision_s >= now:
        conclusions.dues.append(since + view.provision_s + 0.001)
        return
    conclusions.decisions += taken_back(now, name, size=max(registered, group.min_size), from_size=target)


def _open(
    state: State,
    settings: Settings,
    name: NodeGroupId,
    *,
    view: GroupView,
    now: float,
    conclusions: Conclusions,
) -> None:
    opened = state.open[name]
    outstanding = any(
        step.group == name and step.status in (saga.WAITING, saga.ORDERED)
        for execution in state.executions.values()
        for step in execution.steps
    )
    if outstanding:
        return
    plain = msgspec.structs.replace(view.counts, backed_off=False)
    if not opened.increase:
        conclusions.decisions.append(
            CloseScaleUp(at=now, group=name, result="Failed", because=(because("NoneCame", group=name),))
        )
        return
    if cluster_state.upcoming(plain) == 0:
        conclusions.decisions.append(
            CloseScaleUp(
                at=now,
                group=name,
                result="Finished",
                boot_s=now - opened.requested_at,
                because=(because("NodesReady", group=name, nodes=view.counts.ready),),
            )
        )
        return
    late = cluster_state.timed_out(name, view.counts, opened.requested_at, now, view.provision_s)
    if late is None:
        conclusions.dues.append(opened.requested_at + view.provision_s + 0.001)
        return
    group = state.groups[name]
    conclusions.decisions.append(status_event(now, "ScaleUpTimedOut", late.event_message, "Warning"))
    conclusions.decisions.append(
        back_off(
            state,
            settings,
            name,
            now,
            error_class=cluster_state.OTHER,
            code="timeout",
            message=late.failure_message,
            failed=late.missing,
        )
    )
    conclusions.decisions += taken_back(
        now, name, size=max(0, group.target - late.missing), from_size=group.target
    )
    conclusions.decisions.append(
        CloseScaleUp(
            at=now,
            group=name,
            result="TimedOut",
            because=(
                because(
                    "TimedOut",
                    group=name,
                    missing=late.missing,
                    increase=late.increase,
                    limit_s=int(view.provision_s),
                ),
            ),
        )
    )


def _creation_failed(
    state: State,
    settings: Settings,
    name: NodeGroupId,
    *,
    view: GroupView,
    now: float,
    conclusions: Conclusions,
) -> None:
    """Instances that cannot come up: the group backs off, and they are deleted in the same breath."""
    for (error_class, code), count in cluster_state.failures(view.failed).items():
        message = next((i.error_message for i in view.failed if i.error_code == code), "")
        conclusions.decisions.append(
            status_event(
                now, "ScaleUpFailed", f"group {name}: {count} instances failed: {code} {message}", "Warning"
            )
        )
        conclusions.decisions.append(
            back_off(
                state,
                settings,
                name,
                now,
                error_class=error_class,
                code=code,
                message=message,
                failed=count,
            )
        )
    group = state.groups[name]
    everything = [
        cluster_state.InstanceView(id=i.id, state=i.state, error_class=i.error_class, error_code=i.error_code)
        for i in group.instances
        if i.id not in group.deleting
    ]
    doomed = cluster_state.to_delete(
        everything, zero_or_max=group.zero_or_max, allow_non_atomic=group.allow_non_atomic
    )
    if doomed:
        force = settings.force_failed
        conclusions.decisions.append(_deletion(state, name, doomed, now, "CreationFailed", force=force))


def _never_registered(
    state: State,
    settings: Settings,
    name: NodeGroupId,
    *,
    view: GroupView,
    now: float,
    conclusions: Conclusions,
) -> bool:
    """Instances without a node for too long are deleted, never below the group's minimum; whether any is."""
    group = state.groups[name]
    spare = max(0, group.target - group.min_size)
    doomed = list(view.long) if settings.force_unregistered else list(view.long)[:spare]
    if not doomed or (group.zero_or_max and len(doomed) < len(view.long)):
        return False
    if group.zero_or_max:
        doomed = [i.id for i in group.instances if i.id not in group.deleting]  # as a whole, or not at all
    force = settings.force_unregistered
    conclusions.decisions.append(_deletion(state, name, doomed, now, "TimedOut", force=force))
    conclusions.decisions.append(
        status_event(
            now, "DeleteUnregistered", f"group {name}: {len(doomed)} instances never registered", "Warning"
        )
    )
    return True


def _deletion(
    state: State, name: NodeGroupId, instances: list[str], now: float, rule: str, *, force: bool
) -> DeleteInstances:
    machines = {node.provider_id: key for key, node in state.nodes.items() if node.group == name}
    count = len(instances)
    why = (
        because(rule, group=name, count=count, code="creation")
        if rule == "CreationFailed"
        else because(rule, group=name, missing=count, increase=count, limit_s=0)
    )
    return DeleteInstances(
        at=now,
        target=group_ref(name),
        instances=tuple(instances),
        nodes=tuple(machines.get(i, "") for i in instances),
        force=force,
        because=(why,),
    )


def idle_decisions(
    state: State, index: Index, view: View, *, now: float, grid: Grid, part: Measure
) -> Conclusions:
    """Which nodes became empty, and which have been for long enough to go. Also empty groups of ours."""
    conclusions = Conclusions()
    settings = index.settings
    if not settings.scale_down:
        return conclusions
    with part(parts.FIND_UNNEEDED):
        nodes = _nodes_of_groups(state, index, view, grid)
        began, ended = idle.changes(nodes, state.idle)
    if began or ended:
        conclusions.decisions.append(TrackIdleNodes(at=now, idle=tuple(began), busy=tuple(ended)))
    if not view.healthy:
        return conclusions  # what is unready may be what its pods are waiting for
    still = {name: at for name, at in state.idle.items() if name not in ended}
    with part(parts.SCALE_DOWN):
        _remove(state, settings, nodes, since=still, now=now, conclusions=conclusions)
    ready_at = [max(at + settings.unneeded_s, _cool(state, settings)) + 0.001 for at in still.values()]
    conclusions.dues += [due for due in ready_at if due > now][:1] if ready_at else []
    if began:
        conclusions.dues.append(now + settings.unneeded_s + 0.001)
    for name in sorted(state.groups):
        group = state.groups[name]
        empty = group.autoprovisioned and group.exists and not group.target and not group.instances
        if empty and name not in state.open and group.observed_at:
            conclusions.decisions.append(DeleteNodeGroup(at=now, target=group_ref(name)))
    return conclusions


def _nodes_of_groups(state: State, index: Index, view: View, grid: Grid) -> list[idle.GroupNode]:
    nodes: list[idle.GroupNode] = []
    rows = promised(grid, index.grid)
    for name in sorted(view.groups):
        for member in view.groups[name].members:
            node = state.nodes[member]
            if node.delays is not None:
                continue  # passes of scale-down look after it
            row = index.grid.rows.get(member)
            nodes.append(
                idle.GroupNode(
                    name=member,
                    group=name,
                    busy=row in rows or member in index.busy or node.leaving,
                    annotations=node.annotations,
                )
            )
    return nodes


def _remove(
    state: State,
    settings: Settings,
    nodes: list[idle.GroupNode],
    *,
    since: dict[str, float],
    now: float,
    conclusions: Conclusions,
) -> None:
    """Nodes that have been empty for long enough go."""
    sizes = {
        name: idle.GroupSize(min=g.min_size, target=g.target, zero_or_max=g.zero_or_max)
        for name, g in state.groups.items()
    }
    gone = idle.removable(
        nodes,
        sizes,
        since,
        now,
        unneeded_s=settings.unneeded_s,
        last_scale_up=state.last_scale_up,
        delay_after_add_s=settings.scale_down_delay_after_add_s,
    )
    spare = _spare(state, settings)
    for name, members in gone.items():
        if state.groups[name].rest is not None:
            continue
        members = _within(state, members, spare, whole=sizes[name].zero_or_max)
        if not members:
            continue
        conclusions.decisions.append(
            DeleteInstances(
                at=now,
                target=group_ref(name),
                instances=tuple(state.nodes[m].provider_id for m in members),
                nodes=tuple(members),
                because=tuple(because("Idle", node=m, idle_s=int(now - state.idle[m])) for m in members[:20]),
            )
        )


def _spare(state: State, settings: Settings) -> dict[str, int]:
    """How much of what the cluster has may go: none of what `cores-total`, `memory-total` and `gpu-total` keep."""
    floors = {"cpu": settings.min_cores, "memory": settings.min_memory_bytes, **settings.gpu_floors}
    spare = {name: -floor for name, floor in floors.items() if floor}
    for node in state.nodes.values() if spare else ():
        if not node.doomed and node.labels.get("type") != "virtual-kubelet":
            amounts = quota_amounts(node.allocatable, node.labels)
            for name in spare:
                spare[name] += amounts.get(name, 0)
    return spare


def _within(state: State, members: list[str], spare: dict[str, int], *, whole: bool) -> list[str]:
    """Those of a group's nodes, the first ones, without which enough is left; what goes is taken off `spare`."""
    remaining, going = dict(spare), []
    for member in members:
        amounts = quota_amounts(state.nodes[member].allocatable, state.nodes[member].labels)
        after = {name: amount - amounts.get(name, 0) for name, amount in remaining.items()}
        if any(amount < 0 for name, amount in after.items() if amounts.get(name)):
            break
        remaining = after
        going.append(member)
    if whole and len(going) < len(members):
        return []
    spare.update(remaining)
    return going


def promised(trial: Grid, real: Grid) -> set[int | None]:
    """Rows on which this evaluation placed something that does not run there: booked, or to come."""
    rows: set[int | None] = set()
    for digest, inner in trial.where.items():
        before = real.where.get(digest, {})
        if inner is not before:
            rows.update(row for row, pods in inner.items() if pods > before.get(row, 0))
    return rows


def _cool(state: State, settings: Settings) -> float:
    return (state.last_scale_up or 0.0) + settings.scale_down_delay_after_add_s
