"""What became of orders: finished, late, failed; and nodes that nobody needs. Spec 3.9, [B9], [B11]."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.events.base import Because, Decision
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
from tidewright.provisioning.scaledown import beginning, idle, unregistered
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.scaleup.orders import group_ref, status_event, taken_back
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import GroupState, State
from tidewright.provisioning.tell import parts
from tidewright.provisioning.tell.sentences import because

NAMED = 5
"""Instances that an event names, of those that never registered."""


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
    groups = _Groups(state, index.settings, now)
    for name in sorted(view.groups):
        groups.look(name, view.groups[name])
    for name in sorted(set(state.open) - set(state.groups)):
        groups.close(name, "Failed", because("GroupGone", group=name))
    return Conclusions(groups.decisions, groups.dues)


class _Groups:
    """One look at all groups."""

    def __init__(self, state: State, settings: Settings, now: float) -> None:
        self.state, self.settings, self.now = state, settings, now
        self.decisions: list[Decision] = []
        self.dues: list[float] = []

    def look(self, name: NodeGroupId, view: GroupView) -> None:
        """What of a group is finished, late or failed."""
        group, dues = self.state.groups.get(name), self.dues
        if group is None:
            if view.group.backed_off:
                dues.append(view.group.backoff_until + 0.001)
            return
        if _being_reduced(group) or group.rest is not None:
            return  # its instances are those of before: the answer, or the next looks, say what is left
        if group.refused_until > self.now and (view.failed or view.long):
            dues.append(group.refused_until + 0.001)
        elif view.failed:
            self._creation_failed(name, view)
        elif view.long and self._never_registered(name, view):
            pass
        elif name in self.state.open:
            self._open(name, view)
        if view.counts.backed_off:
            dues.append(view.group.backoff_until + 0.001)
        if name not in self.state.open:
            self._wrong_size(name, view)
        since = [at for instance, at in group.since.items() if instance not in view.long]
        if since:
            dues.append(min(since) + view.provision_s + 0.001)

    def close(self, name: NodeGroupId, result: str, why: Because, *, boot_s: float = 0.0) -> None:
        """An order is over."""
        self.decisions.append(
            CloseScaleUp(at=self.now, group=name, result=result, boot_s=boot_s, because=(why,))
        )

    def _wrong_size(self, name: NodeGroupId, view: GroupView) -> None:
        """A cloud that says it ordered more than ever comes is taken at what came. Spec 3.9, "Wrong size"."""
        group = self.state.groups[name]
        if group.wrong is None or group.wanted is not None or group.target != group.wrong[1]:
            return
        registered, target, since = group.wrong
        if registered > target:
            return  # nothing is to be taken back of what is there
        if since + view.provision_s >= self.now:
            self.dues.append(since + view.provision_s + 0.001)
            return
        self.decisions += taken_back(self.now, name, size=max(registered, group.min_size), from_size=target)

    def _open(self, name: NodeGroupId, view: GroupView) -> None:
        opened = self.state.open[name]
        outstanding = any(
            step.group == name and step.status in (saga.WAITING, saga.ORDERED)
            for execution in self.state.executions.values()
            for step in execution.steps
        )
        if outstanding:
            return
        plain = msgspec.structs.replace(view.counts, backed_off=False)
        if not opened.increase:
            self.close(name, "Failed", because("NoneCame", group=name))
            return
        if cluster_state.upcoming(plain) == 0:
            ready = because("NodesReady", group=name, nodes=view.counts.ready)
            self.close(name, "Finished", ready, boot_s=self.now - opened.requested_at)
            return
        late = cluster_state.timed_out(name, view.counts, opened.requested_at, self.now, view.provision_s)
        if late is None:
            self.dues.append(opened.requested_at + view.provision_s + 0.001)
            return
        group = self.state.groups[name]
        self.decisions.append(status_event(self.now, "ScaleUpTimedOut", late.event_message, "Warning"))
        self.decisions.append(
            back_off(
                self.state,
                self.settings,
                name,
                self.now,
                error_class=cluster_state.OTHER,
                code="timeout",
                message=late.failure_message,
                failed=late.missing,
            )
        )
        self.decisions += taken_back(
            self.now, name, size=max(0, group.target - late.missing), from_size=group.target
        )
        why = because(
            "TimedOut",
            group=name,
            missing=late.missing,
            increase=late.increase,
            limit_s=int(view.provision_s),
        )
        self.close(name, "TimedOut", why)

    def _creation_failed(self, name: NodeGroupId, view: GroupView) -> None:
        """Instances that cannot come up: the group backs off, and they are deleted in the same breath."""
        for (error_class, code), count in cluster_state.failures(view.failed).items():
            message = next((i.error_message for i in view.failed if i.error_code == code), "")
            self.decisions.append(
                status_event(
                    self.now,
                    "ScaleUpFailed",
                    f"group {name}: {count} instances failed: {code} {message}",
                    "Warning",
                )
            )
            self.decisions.append(
                back_off(
                    self.state,
                    self.settings,
                    name,
                    self.now,
                    error_class=error_class,
                    code=code,
                    message=message,
                    failed=count,
                )
            )
        group = self.state.groups[name]
        everything = [
            cluster_state.InstanceView(
                id=i.id, state=i.state, error_class=i.error_class, error_code=i.error_code
            )
            for i in group.instances
            if i.id not in group.deleting
        ]
        doomed = cluster_state.to_delete(
            everything, zero_or_max=group.zero_or_max, allow_non_atomic=group.allow_non_atomic
        )
        if doomed:
            force = self.settings.force_failed
            self._give_up(name, doomed, "CreationFailed", force=force)

    def _never_registered(self, name: NodeGroupId, view: GroupView) -> bool:
        """Instances without a node for too long are deleted, never below the group's minimum; whether any is."""
        group = self.state.groups[name]
        there = [i.id for i in group.instances if i.id not in group.deleting]
        force = self.settings.force_unregistered
        doomed = unregistered.to_delete(
            view.long,
            there,
            target=group.target,
            minimum=group.min_size,
            zero_or_max=group.zero_or_max,
            allow_non_atomic=group.allow_non_atomic,
            all_failed=len(view.long) == len(there),
            force=force,
        )
        if not doomed:
            return False
        self._give_up(name, doomed, "TimedOut", force=force)
        self.decisions.append(
            status_event(
                self.now,
                "DeleteUnregistered",
                _never_registered(name, group.cloud, doomed),
                "Warning",
            )
        )
        return True

    def _give_up(self, name: NodeGroupId, doomed: list[str], rule: str, *, force: bool) -> None:
        """Instances that never became a node are deleted at once; those that did go as nodes do, for they may have pods."""
        nodes = {node.provider_id: key for key, node in self.state.nodes.items() if node.group == name}
        drained = "B24" not in self.settings.as_reference
        unseen = [instance for instance in doomed if not drained or instance not in nodes]
        count = len(doomed)
        why = (
            because(rule, group=name, count=count, code="creation")
            if rule == "CreationFailed"
            else because(rule, group=name, missing=count, increase=count, limit_s=0)
        )
        if unseen:
            self.decisions.append(
                DeleteInstances(
                    at=self.now,
                    target=group_ref(name),
                    instances=tuple(unseen),
                    nodes=tuple(nodes.get(instance, "") for instance in unseen),
                    force=force,
                    because=(why,),
                )
            )
        registered = [nodes[instance] for instance in doomed if drained and instance in nodes]
        self.decisions += beginning.given_up(
            self.state, name, registered, self.settings, now=self.now, why=why
        )


def _never_registered(name: NodeGroupId, cloud: str, doomed: Sequence[str]) -> str:
    """Which instances are deleted for that, and what to look at before the next ones are."""
    one, many = (
        "1 instance never registered as a node and is deleted",
        "instances never registered as nodes and are deleted",
    )
    who = one if len(doomed) == 1 else f"{len(doomed)} {many}"
    more = f" and {len(doomed) - NAMED} more" if len(doomed) > NAMED else ""
    return (
        f"group {name}{f' of cloud {cloud}' if cloud else ''}: {who}: {', '.join(doomed[:NAMED])}{more}; look at what they say as"
        " they boot: whether the kubelet starts, reaches the API server, and has the --provider-id that its cloud calls it by"
    )


def _being_reduced(group: GroupState) -> bool:
    """A smaller size was ordered, and the cloud has not been seen since."""
    return group.wanted is not None and group.wanted < group.target_size


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
