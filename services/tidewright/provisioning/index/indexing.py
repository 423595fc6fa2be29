"""The index built from the state, and kept along with it: every change of a node or a pod goes through here.

There is none after a snapshot was loaded, and after the configuration changed: it is built anew from the
state, and is then as the one that has lived on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import NodeView
from tidewright.kube.taints import UNNEEDED
from tidewright.provisioning import flags, settings
from tidewright.provisioning.foresight.counting import Counting
from tidewright.provisioning.foresight.spreading import Spreads
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import seat_of
from tidewright.provisioning.pending.helped import expendable
from tidewright.provisioning.state import GroupState, Node, Pod, State


def index_of(state: State) -> Index:
    """The state's index; built when there is none."""
    beside = state.beside
    if beside.index is None:
        beside.index = _built(state)
    return beside.index


def counting_of(state: State) -> Counting:
    """Whose pods are whose, also where nothing is expected, as settings have it: then it is counted for the moment."""
    counting = index_of(state).counting
    if counting is None:
        counting = Counting(state.workloads)
        for key, pod in state.pods.items():
            counting.pod_came(key, pod)
    return counting


def _built(state: State) -> Index:
    index = Index(state.objects)
    index.settings, index.warnings = flags.read(state.config)
    if state.priorities is not None:
        index.settings = msgspec.structs.replace(index.settings, priorities=state.priorities)
    if index.settings.foresight != settings.OFF:
        index.counting = Counting(state.workloads)
        index.spreads = Spreads(state.spreads)
    for name, group in state.groups.items():
        index.owner.update(dict.fromkeys((i.id for i in group.instances), name))
    index.grid.add_nodes(_noted(state, index, name, node) for name, node in state.nodes.items())
    _add_pods(state, index)
    for request in state.requests.values():
        count_sets(index, request.sets, 1)
    for buffer in state.buffers.values():
        if buffer.shape:
            index.use(buffer.shape, 1)
    return index


def _add_pods(state: State, index: Index) -> None:
    """All pods, as `add_pod` takes them one by one; those of one shape sit down together."""
    rows = index.grid.rows
    sitting: dict[str, dict[int, int]] = {}
    uses, one = index.uses, dict[str, str]().setdefault
    for key, pod in state.pods.items():
        # One text for all that have the name in common, as `pod_of` has it.
        pod.shape = shape = one(pod.shape, pod.shape)
        pod.node = node = one(pod.node, pod.node)
        uses[shape] = uses.get(shape, 0) + 1
        _list_pod(index, key, pod)
        row = rows.get(node)
        if row is not None:
            there = sitting.get(shape)
            if there is None:
                there = sitting[shape] = {}
            there[row] = there.get(row, 0) + 1
    for digest, there in sitting.items():
        if holds_room(state, index, digest):
            index.grid.put_all(seat_of(state, index, digest), there)
    for node, keys in index.terminating.items():
        row = rows.get(node)
        for pod in map(state.pods.__getitem__, keys) if row is not None else ():
            if holds_room(state, index, pod.shape):
                index.grid.leave(pod.shape, rows[node])


def count_sets(index: Index, sets: Iterable[tuple[str, int]], by: int) -> None:
    """The pod sets of a request count, or no longer do, among those that have their shapes."""
    for digest, _ in sets:
        index.use(digest, by)


_Group = TypeVar("_Group", bound=str)


class Awaited(NamedTuple):
    """Devices that the nodes of a group have: extended resources, and drivers of dynamic allocation."""

    resources: tuple[str, ...]
    drivers: frozenset[str]


def awaited(group: GroupState | None) -> Awaited | None:
    """What of a group's nodes comes some time after them; None when nothing does."""
    if group is None:
        return None
    templates = [pattern.template for pattern in group.patterns]
    if group.template is not None:
        templates.append(group.template)
    devices = Awaited(
        tuple(
            {n: None for t in templates for n, many in t.allocatable.items() if many and n.endswith("/gpu")}
        ),
        frozenset(d.get("driver", "") for t in templates for d in t.devices),
    )
    return devices if any(devices) else None


def unripe(index: Index, name: str, node: Node, devices: Awaited | None) -> bool:
    """Whether a node lacks devices that the nodes of its group have: it counts as not ready. Spec 3.2, 1."""
    if devices is None:
        return False
    if any(not node.allocatable.get(resource) for resource in devices.resources):
        return True
    return bool(devices.drivers) and not index.claims.offers.drivers_of(name) >= devices.drivers


def add_node(state: State, index: Index, name: str, node: Node) -> None:
    """Take a node into the index."""
    index.grid.add_node(_noted(state, index, name, node))


def _noted(state: State, index: Index, name: str, node: Node) -> NodeView:
    """A node for predicates, once it is noted beside the grid.

    One whose devices have not come yet takes no pods, like one that is not ready.
    """
    index.count_kind(name, node)
    index.node_changed(name)
    if UNNEEDED in node.annotations:
        index.soft[name] = None
    else:
        index.soft.pop(name, None)
    if node.provider_id:
        _take_machine(index, node.provider_id, name)
    view = node.view(name, index.claims.attachable(name))
    stock = index.claims.plugged(index.claims.offers.stock(name), node.allocatable)
    if stock is not None:
        view = msgspec.structs.replace(view, stock=stock)
    if unripe(index, name, node, awaited(state.groups.get(node.group))):
        view = msgspec.structs.replace(view, unschedulable=True)
    return view


def _take_machine(index: Index, provider_id: str, name: str) -> None:
    """A node says what its instance is; the last one to say so is taken for it."""
    other = index.machines.get(provider_id, name)
    index.machines[provider_id] = name
    if other != name:
        index.twins.setdefault(provider_id, {other: None})[name] = None
        index.node_changed(other)


def leave_machine(index: Index, provider_id: str, name: str) -> None:
    """A node is gone, or says something else."""
    twins = index.twins.get(provider_id, {})
    twins.pop(name, None)
    if index.machines.get(provider_id) == name:
        del index.machines[provider_id]
        for other in twins:
            index.machines[provider_id] = other
    if len(twins) == 1:
        del index.twins[provider_id]
        index.node_changed(index.machines[provider_id])


def remove_node(index: Index, name: str, node: Node) -> None:
    index.grid.remove_node(name)
    index.forget_kind(name)
    index.soft.pop(name, None)
    index.node_changed(name)
    leave_machine(index, node.provider_id, name)


def add_pod(state: State, index: Index, key: PodKey, pod: Pod) -> None:
    """Take a pod into the index: it waits, or it sits somewhere."""
    index.use(pod.shape, 1)
    _list_pod(index, key, pod)
    row = index.grid.rows.get(pod.node)
    if row is not None and holds_room(state, index, pod.shape):
        index.grid.put(seat_of(state, index, pod.shape), row)
        if pod.deleting_at is not None:
            index.grid.leave(pod.shape, row)


def _list_pod(index: Index, key: PodKey, pod: Pod) -> None:
    if index.counting is not None:
        index.counting.pod_came(key, pod)
    node = pod.node
    if not node:  # who has one waits for nothing: see `pod_of`
        if pod.waiting:
            index.waiting[key] = None
        if pod.untried_at:
            index.untried[key] = None
        if pod.nominated:
            index.nominated[key] = None
        return
    there = index.on_node.get(node)
    if there is None:
        there = index.on_node[node] = {}
    there[key] = None
    if index.cards is not None:
        index.node_changed(node)
    if pod.deleting_at is not None:
        index.terminating.setdefault(node, {})[key] = None
    if not pod.daemon:
        index.busy[node] = index.busy.get(node, 0) + 1
    if pod.consumes:
        index.consumers.setdefault(pod.consumes, {})[key] = None


def remove_pod(state: State, index: Index, key: PodKey, pod: Pod) -> None:
    """Undo `add_pod`."""
    index.use(pod.shape, -1)
    index.waiting.pop(key, None)
    index.untried.pop(key, None)
    index.nominated.pop(key, None)
    if index.counting is not None:
        index.counting.pod_went(key, pod)
    if not pod.node:
        return
    _drop(index.on_node, pod.node, key)
    _drop(index.terminating, pod.node, key)
    index.node_changed(pod.node)
    if not pod.daemon:
        remaining = index.busy.get(pod.node, 0) - 1
        if remaining > 0:
            index.busy[pod.node] = remaining
        else:
            index.busy.pop(pod.node, None)
    if pod.consumes:
        _drop(index.consumers, pod.consumes, key)
    row = index.grid.rows.get(pod.node)
    if row is not None and holds_room(state, index, pod.shape):
        index.grid.put(seat_of(state, index, pod.shape), row, -1)
        if pod.deleting_at is not None:
            index.grid.leave(pod.shape, row, -1)


def _drop(groups: dict[_Group, dict[PodKey, None]], group: _Group, key: PodKey) -> None:
    """Take a key out of its group; a group without keys is none."""
    keys = groups.get(group)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del groups[group]


def doom(state: State, index: Index, group: GroupState) -> None:
    """Mark the nodes of a group whose instances are being deleted, by our order or not."""
    going = {*group.deleting, *group.going}
    for instance in group.instances:
        name = index.machines.get(instance.id, "")
        node = state.nodes.get(name)
        gone = instance.id in going
        if node is not None and node.doomed != gone:
            node.doomed = gone
            add_node(state, index, name, node)


def reseat(state: State, index: Index, node: str) -> None:
    """Put the pods that were told of before their node onto it."""
    row = index.grid.rows[node]
    for key in index.on_node.get(node, {}):
        pod = state.pods[key]
        if holds_room(state, index, pod.shape):
            index.grid.put(seat_of(state, index, pod.shape), row)
            if pod.deleting_at is not None:
                index.grid.leave(pod.shape, row)


def holds_room(state: State, index: Index, digest: str) -> bool:
    """Expendable pods hold no room. Their priority is their shape's."""
    fields = state.shapes.get(digest)
    return fields is None or not expendable(fields.priority, index.settings.expendable_cutoff)
