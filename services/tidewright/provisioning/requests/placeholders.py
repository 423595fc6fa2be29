"""Room that holds against ordinary pods, in the profile `hold`: pods that do nothing. Spec 8, [B2].

For every pod for which room is kept on a node that is there, a placeholder is bound to that node. It
goes as soon as a consumer waits or has found a node, and when the booking is over. Nodes that come for a
request carry them before they are ready: the scheduler does not look at them any sooner.

A booking may stand where pods still run that it does not heed: expendable ones, which the scheduler preempts
for its consumers, and placeholders that are going. A node refuses what is bound to it and does not fit beside
them, so a placeholder waits until they are gone (`FreeRoom`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.kube.keys import PodKey, RequestKey, parts, pod_key, request_key
from tidewright.kube.podshape import PODS, PodShape
from tidewright.kube.volumes import ATTACHABLE
from tidewright.provisioning.buffers.kept import HeldChunk
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import holds_room
from tidewright.provisioning.index.resolving import seat_of, shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import PLACEHOLDER, Held, State
from tidewright.provisioning.tell.sentences import because

REFUSED_S = 60.0
"""For so long a node that refused a placeholder of a request is not tried again for it."""


class FreeRoom:
    """What nodes have free beside all that runs on them, whatever placement thinks of it.

    Attributes:
        waiting: request to the nodes on which its placeholders wait for others to go.
    """

    def __init__(self, state: State, index: Index) -> None:
        self.waiting: dict[RequestKey, set[str]] = {}
        self._state = state
        self._index = index
        self._free: dict[str, dict[str, int]] = {}
        self._refused = {
            (held.request, held.node) for held in state.held.values() if held.refused_at is not None
        }
        self._unseen: dict[str, list[str]] = {}
        made: list[tuple[PodKey, Held | HeldChunk]] = [*state.held.items(), *state.held_chunks.items()]
        for name, held in made:
            if name not in state.pods and held.refused_at is None and not held.leaving:
                self._unseen.setdefault(held.node, []).append(held.shape)

    def take(self, request: RequestKey, node: str, shape: PodShape) -> bool:
        """Take the room of one placeholder on a node; False when it has to wait."""
        if (request, node) in self._refused or not self.fits(node, shape):
            self.waiting.setdefault(request, set()).add(node)
            return False
        return True

    def fits(self, node: str, shape: PodShape) -> bool:
        """Take the room of one pod on a node; False when there is none now."""
        asked = {name: n for name, n in shape.requests.items() if n and not name.startswith(ATTACHABLE)}
        free = self._free_on(node, asked)
        if any(free[name] < n for name, n in asked.items()):
            return False
        for name, n in asked.items():
            free[name] -= n
        return True

    def _free_on(self, node: str, names: Iterable[str]) -> dict[str, int]:
        free = self._free.setdefault(node, {})
        lacking = [name for name in names if name not in free]
        if not lacking:
            return free
        state, index = self._state, self._index
        row = index.grid.rows[node]
        overlooked = [
            seat_of(state, index, pod.shape)
            for pod in map(state.pods.__getitem__, index.on_node.get(node, ()))
            if not holds_room(state, index, pod.shape)
        ]
        overlooked += [shape_of(state, index, digest) for digest in self._unseen.get(node, ())]
        for name in lacking:
            column = index.grid.free.get(name)
            there = int(column[row]) if column is not None else 0
            free[name] = there - sum(shape.requests.get(name, 0) for shape in overlooked)
        return free


class Placeholders(NamedTuple):
    """Placeholders as an evaluation finds them.

    Attributes:
        counts: request and shape to how many hold room and go on doing so.
        surplus: names of those that go now.
    """

    counts: dict[tuple[RequestKey, str], int]
    surplus: tuple[PodKey, ...]


def standing(state: State, desired: Mapping[RequestKey, Sequence[Item]], now: float) -> Placeholders:
    """Which placeholders stay, and which go, as of a time. `desired` says what is held for pods that have not come."""
    enough = Counter(
        {(key, i.shape.digest): i.count for key, items in desired.items() for i in _by_shape(items)}
    )
    counts: Counter[tuple[RequestKey, str]] = Counter()
    surplus = []
    for name in sorted(state.held):
        held = state.held[name]
        if held.leaving or (held.request in desired and _rests(held, now)):
            continue
        place = (held.request, held.shape)
        stays = held.node in state.nodes and held.refused_at is None
        if stays and counts[place] < enough[place]:
            counts[place] += 1
        else:
            surplus.append(name)
    return Placeholders(dict(counts), tuple(surplus))


def _rests(held: Held, now: float) -> bool:
    """Its node has refused it just now: it stays as a sign of that."""
    return held.refused_at is not None and now < held.refused_at + REFUSED_S


def arrange(state: State, index: Index, grid: Grid, current: Placeholders) -> None:
    """Let the grid look as if what goes were gone, and what was ordered were there."""
    for name, held in state.held.items():
        row, pod = grid.rows.get(held.node), state.pods.get(name)
        if row is None:
            continue
        goes = held.leaving or held.refused_at is not None or name in current.surplus
        if goes and pod is not None:
            grid.put(shape_of(state, index, pod.shape), row, -1)
        elif not goes and pod is None:
            grid.put(shape_of(state, index, held.shape), row)


def without(items: Sequence[Item], key: RequestKey, current: Placeholders) -> tuple[Item, ...]:
    """What of a request's room no placeholder holds."""
    held = Counter({digest: n for (request, digest), n in current.counts.items() if request == key})
    rest = []
    for item in items:
        taken = min(held[item.shape.digest], item.count)
        held[item.shape.digest] -= taken
        rest.append(Item(item.shape, item.count - taken))
    return tuple(item for item in rest if item.count)


def removals(state: State, current: Placeholders, now: float) -> Iterator[Decision]:
    """Placeholders that are needed no more are deleted."""
    for name in current.surplus:
        yield _removal(state, name, state.held[name], now)


def creations(
    state: State,
    settings: Settings,
    now: float,
    *,
    missing: Mapping[RequestKey, Sequence[Item]],
    current: Placeholders,
    real: Grid,
    trial: Grid,
    starting: Mapping[int, str],
    room: FreeRoom,
) -> Iterator[Decision]:
    """Placeholders for what none holds, on the nodes where this evaluation has placed it.

    Args:
        state: of the decider.
        settings: in force.
        now: log time.
        missing: request to what is to be held and is not.
        current: the placeholders that there are.
        real: nodes and what runs on them.
        trial: the same with what this evaluation has placed.
        starting: rows of nodes on their way to those that are there and have not started.
        room: what is free on nodes beside all that runs there.
    """
    free: dict[str, dict[str, int]] = {}
    for key, items in missing.items():
        many = sum(n for (request, _), n in current.counts.items() if request == key)
        for item in _by_shape(items):
            digest = item.shape.digest
            if item.shape.devices:
                continue  # a placeholder has no claims: it would hold all but the devices
            if digest not in free:
                free[digest] = placed(real, trial, item.shape, starting)
            nodes = free[digest]
            for number in range(min(item.count, settings.placeholder_limit - many)):
                node = _with_room(nodes, room, key, item.shape)
                if node is None:
                    break
                nodes[node] -= 1
                if not nodes[node]:
                    del nodes[node]
                many += 1
                uid = state.requests[key].uid
                name = new_name(state, settings, f"{uid}/{digest}/{node}/{now:.6f}", number)
                yield _creation(settings, now, key, name=name, shape=item.shape, node=node)


def _with_room(nodes: dict[str, int], room: FreeRoom, request: RequestKey, shape: PodShape) -> str | None:
    """The first of these nodes that takes a placeholder now; those before it that do not are left out."""
    for node in list(nodes):
        if room.take(request, node, shape):
            return node
        del nodes[node]
    return None


def _by_shape(items: Sequence[Item]) -> list[Item]:
    merged: dict[str, Item] = {}
    for item in items:
        before = merged.get(item.shape.digest)
        merged[item.shape.digest] = Item(item.shape, item.count + (before.count if before else 0))
    return list(merged.values())


def placed(real: Grid, trial: Grid, shape: PodShape, starting: Mapping[int, str]) -> dict[str, int]:
    """Node that is there to the pods of a shape that this evaluation put onto it, by name."""
    before, after = real.where.get(shape.digest, {}), trial.where.get(shape.digest, {})
    on_nodes = {
        name: after.get(row, 0) - before.get(row, 0)
        for name, row in real.rows.items()
        if row in after and trial.rows.get(name) == row
    }
    on_nodes |= {name: after[row] for row, name in starting.items() if row in after}
    return {name: pods for name, pods in sorted(on_nodes.items()) if pods > 0}


def by_node(state: State, current: Placeholders) -> dict[str, list[str]]:
    """Node to the shapes that the placeholders on it stand for."""
    nodes: dict[str, list[str]] = {}
    for name, held in sorted(state.held.items()):
        if not held.leaving and held.refused_at is None and name not in current.surplus:
            nodes.setdefault(held.node, []).append(held.shape)
    return nodes


def new_name(state: State, settings: Settings, what: str, number: int) -> str:
    """A name for a placeholder, always the same for the same one; two evaluations may be at the same log time."""
    while True:
        name = f"hold-{blake2b(f'{what}/{number}'.encode(), digest_size=8).hexdigest()}"
        key = pod_key(settings.status_namespace, name)
        if key not in state.held and key not in state.held_chunks:
            return name
        number += max(1, settings.placeholder_limit)


def _creation(
    settings: Settings, now: float, key: RequestKey, *, name: str, shape: PodShape, node: str
) -> CreateObject:
    spec = manifest_spec(shape, node, settings.placeholder_image)
    if settings.placeholder_priority_class:
        spec["priorityClassName"] = settings.placeholder_priority_class
    metadata = {
        "name": name,
        "namespace": settings.status_namespace,
        "labels": {"app.kubernetes.io/managed-by": "tidewright"},
        "annotations": {PLACEHOLDER: _note(key, shape.digest)},
    }
    return CreateObject(
        at=now,
        target=ObjectRef(api_version="v1", kind="Pod", namespace=settings.status_namespace, name=name),
        manifest={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        because=(because("RoomHeld", request=key, node=node),),
    )


def manifest_spec(shape: PodShape, node: str, image: str) -> JsonObject:
    """The spec of a pod that does nothing on a node but ask for what a shape asks for."""
    requests = {
        n: _quantity(n, a)
        for n, a in sorted(shape.requests.items())
        if a and n != PODS and not n.startswith(ATTACHABLE)  # it attaches nothing
    }
    extended = {n: q for n, q in requests.items() if "/" in n}
    return {
        "nodeName": node,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "hold",
                "image": image,
                "resources": {"requests": requests, **({"limits": extended} if extended else {})},
            }
        ],
    }


def _quantity(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)


def _removal(state: State, name: PodKey, held: Held, now: float) -> DeleteObject:
    namespace, pod = parts(name)
    known = state.pods.get(name)
    return DeleteObject(
        at=now,
        target=ObjectRef(
            api_version="v1", kind="Pod", namespace=namespace, name=pod, uid=known.uid if known else ""
        ),
        grace_period_s=0,
        because=(because("RoomFreed", request=held.request, node=held.node),),
    )


def read(event: CreateObject) -> tuple[PodKey, Held] | None:
    """Name and content of a placeholder that is made; None for what is none."""
    note = event.manifest.get("metadata", {}).get("annotations", {}).get(PLACEHOLDER)
    if event.target.kind != "Pod" or not isinstance(note, str):
        return None
    request, shape = _noted(note)
    node = event.manifest["spec"]["nodeName"]
    name = pod_key(event.target.namespace, event.target.name)
    return name, Held(request=request, shape=shape, node=node)


def _note(request: RequestKey, shape: str) -> str:
    """What a placeholder says of whom it stands for: `namespace/name/shape`."""
    return f"{request}/{shape}"


def _noted(note: str) -> tuple[RequestKey, str]:
    """Request and shape of such a note. A shape that is tied to a domain has a label's key in its name, with a slash."""
    namespace, _, rest = note.partition("/")
    name, _, shape = rest.partition("/")
    return request_key(namespace, name), shape
