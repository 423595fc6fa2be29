"""Room that pods do not find: who keeps it, until when, and how many more nodes would do. Pure.

The decider's own steps are taken again: what is kept is placed, then pods that wait, then the request; and once more without
what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidewright.kube.keys import NO_REQUEST, BufferKey, RequestKey
from tidewright.kube.podshape import PODS, PodShape
from tidewright.kube.times import readable
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.index.settling import nominated
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.estimate import estimate
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pending.pods import pending
from tidewright.provisioning.requests import booking
from tidewright.provisioning.requests.intake import take_up
from tidewright.provisioning.requests.search import place_sets
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding

GROUPS = 3
"""Groups of which it is said how many more nodes would do, those that take the fewest first."""

_Held = dict[str, set[int]]
"""What keeps room, in words, to the rows on which it is."""


class Lack(NamedTuple):
    """What some pods lack.

    Attributes:
        items: of them those without room.
        sentences: whose room they would have, and until when it is kept.
        grid: nodes with all that comes before them.
    """

    items: tuple[Item, ...]
    sentences: tuple[str, ...]
    grid: Grid


def sets_of(state: State, key: RequestKey) -> tuple[Item, ...]:
    """The pod sets of a request; of one that is not taken up yet, as they would be now."""
    evaluation = Evaluation(state, "", binding=False)
    work = RequestWork(state, evaluation.index, state.now, evaluation.index.settings, binding=False)
    if not state.requests[key].accepted and key in work.modes:
        take_up(work, key)
    return tuple(Item(shape, count) for shape, count in work.sets_of(key))


def lack(
    state: State,
    items: Sequence[Item],
    request: RequestKey = NO_REQUEST,
    *,
    buffer: BufferKey | None = None,
) -> Lack:
    """What these pods lack on nodes that are there: those of a request, chunks of a buffer, or pods that wait by themselves."""
    evaluation = Evaluation(state, "", binding=False)
    index = evaluation.index
    work = RequestWork(state, index, state.now, index.settings, binding=False)
    booking.room_kept(work)
    bare = _without_placeholders(state, index)
    kept = bare.fork()
    holders: _Held = {}
    first = index.settings.hold
    pool = _waiting(state, index) if request or buffer else ()
    if not first:  # pods that wait have their room before what is kept
        _put_waiting(kept, pool, holders)
    _put_kept(work, kept, holders, request)
    if first:
        _put_waiting(kept, pool, holders)
    if buffer or (request and not index.settings.requests_use_buffers):
        _put_buffers(state, index, kept, holders, buffer)
    if buffer:
        own = state.buffers[buffer]
        bare.place_at(shape_of(state, index, own.shape), sum(own.places.values()), own.places)
    with_them, alone = place_sets(trial := kept.fork(), items), bare.fork()
    before = {item.shape.digest: dict(alone.where.get(item.shape.digest, {})) for item in items}
    without = place_sets(alone, items)
    sentences = []
    for item, here, there in zip(items, with_them, without, strict=True):
        if there > here and (request or buffer or first):
            was, now = before[item.shape.digest], alone.where.get(item.shape.digest, {})
            rows = {row for row, pods in now.items() if pods > was.get(row, 0)}
            sentences.append(_but_for(item.shape, there - here, rows, holders, alone))
    rest = tuple(Item(i.shape, i.count - n) for i, n in zip(items, with_them, strict=True) if n < i.count)
    return Lack(rest, tuple(text for text in sentences if text), trial)


def keepers(state: State, node: str) -> list[str]:
    """Whose room is on a node, in words: bookings with their end, buffers, pods that wait."""
    evaluation = Evaluation(state, "", binding=False)
    index = evaluation.index
    work = RequestWork(state, index, state.now, index.settings, binding=False)
    booking.room_kept(work)
    grid = _without_placeholders(state, index)
    holders: _Held = {}
    _put_kept(work, grid, holders, NO_REQUEST)
    _put_waiting(grid, _waiting(state, index), holders)
    _put_buffers(state, index, grid, holders)
    row = grid.rows.get(node)
    return [what for what, rows in holders.items() if row in rows]


def more_nodes(state: State, short: Lack, *, would: str = "all would have fitted") -> list[str]:
    """How many more nodes of which group would hold what lacks room; each sentence is about one group."""
    if not short.items:
        return []
    view = look(state, Evaluation(state, "", binding=False).index, state.now)
    enough: list[tuple[int, str, str]] = []
    wanted = merged((item.shape, item.count) for item in short.items)
    for name, group in sorted(view.groups.items()):
        template = group.group.template
        if template is None:
            continue
        held = estimate(wanted, template, cluster=short.grid)
        if held.nodes and held.pods == sum(item.count for item in wanted):
            may = _allowed(held.nodes, group.group.room)
            more = f"{held.nodes} more node{'s' * (held.nodes != 1)}"
            enough.append((held.nodes, name, f"With {more} in group {name}{may or ','} {would}."))
    return [text for _, _, text in sorted(enough)[:GROUPS]]


def _allowed(nodes: int, left: int) -> str:
    """What a group's maximum makes of so many nodes more."""
    if nodes <= left:
        return ""
    return f", which may have {left} more," if left else ", which is as large as it may be,"


def still_fits(state: State, item: Item, request: RequestKey) -> int | None:
    """How many pods of a request of one shape would have had room; None where that cannot be counted."""
    most = 1_000_000
    found = lack(state, (Item(item.shape, item.count),), request)
    if found.items:
        return None
    more = found.grid.place(item.shape, most)
    return None if more >= most else item.count + more


def _without_placeholders(state: State, index: Index) -> Grid:
    """Nodes with what runs on them, and what has been promised a place; without pods that only hold room."""
    grid = index.grid.fork()
    for pod in nominated(state, index).values():
        grid.put(shape_of(state, index, pod.shape), grid.rows[pod.nominated])
    for name, held in state.held.items():
        row, placeholder = grid.rows.get(held.node), state.pods.get(name)
        if row is not None and placeholder is not None and placeholder.node:
            grid.put(shape_of(state, index, placeholder.shape), row, -1)
    return grid


def _waiting(state: State, index: Index) -> list[Item]:
    """Pods that wait by themselves."""
    counted = merged(
        (shape_of(state, index, pod.shape), 1) for _, pod in pending(state, index, state.now).pods
    )
    return sorted(counted, key=lambda item: (-item.shape.requests.get("cpu", 0), item.shape.digest))


def _put_waiting(grid: Grid, pool: Sequence[Item], holders: _Held) -> None:
    """Place pods that wait, which come before requests and buffers."""
    before = {item.shape.digest: dict(grid.where.get(item.shape.digest, {})) for item in pool}
    placed = sum(place_sets(grid, pool))
    rows = {
        row
        for digest, were in before.items()
        for row, pods in grid.where.get(digest, {}).items()
        if pods > were.get(row, 0)
    }
    if rows:
        holders[f"{placed} pod{'s' * (placed != 1)} that wait{'s' * (placed == 1)} and come first"] = rows


def _put_kept(work: RequestWork, grid: Grid, holders: _Held, asking: RequestKey) -> None:
    """Place what is kept for other requests, each where its placeholders are, or it found its room."""
    state = work.state
    for key, items in work.kept.items():
        if key == asking:
            continue
        rows: set[int] = set()
        for held in state.held.values():
            row = grid.rows.get(held.node)
            if held.request == key and row is not None and not held.leaving and held.refused_at is None:
                grid.put(shape_of(state, work.index, held.shape), row)
                rows.add(row)
        for item in items:
            before = dict(grid.where.get(item.shape.digest, {}))
            places = state.requests[key].places.get(item.shape.digest, {})
            there = grid.place_at(item.shape, item.count, places)
            grid.place_tightly(item.shape, item.count - there)
            now = grid.where.get(item.shape.digest, {})
            rows |= {row for row, pods in now.items() if pods > before.get(row, 0)}
        until = work.booked_until(key)
        end = f", held until {readable(until)} UTC" if until is not None else ""
        holders[f"the booking of {key}{end}"] = rows


def _put_buffers(
    state: State, index: Index, grid: Grid, holders: _Held, asking: BufferKey | None = None
) -> None:
    """Place the chunks of buffers where they have their room, before requests that may not use it, and other buffers."""
    for key in sorted(state.buffers):
        buffer = state.buffers[key]
        if not buffer.shape or not buffer.places:
            continue
        shape = shape_of(state, index, buffer.shape)
        rows = {grid.rows[node] for node in buffer.places if node in grid.rows}
        grid.place_at(shape, sum(buffer.places.values()), buffer.places)
        if key == asking:
            continue
        holders[f"the buffer {key}, which holds it as long as it is there"] = rows


def _but_for(shape: PodShape, pods: int, rows: set[int], holders: Mapping[str, set[int]], grid: Grid) -> str:
    """So many pods would fit, did not somebody keep room there."""
    mine = {what: there & rows for what, there in holders.items() if there & rows}
    if not mine:
        return ""
    views = [grid.views[row] for row in sorted(set().union(*mine.values()))]
    where = folding.nodes(view.name for view in views if view is not None)
    return (
        f"{pods} pod{'s' * (pods != 1)} of {asked(shape)} would fit on {where} but for {' and '.join(mine)}."
    )


def asked(shape: PodShape) -> str:
    """What a pod asks for, as manifests have it: `700m cpu`, `2 cpu, 4Gi memory, 1 nvidia.com/gpu`."""
    texts = []
    for name, amount in sorted(shape.requests.items()):
        if name == PODS or not amount:
            continue
        if name == "cpu":
            texts.append(f"{amount}m cpu" if amount % 1000 else f"{amount // 1000} cpu")
        elif name in ("memory", "ephemeral-storage"):
            unit = next(
                ((u, s) for u, s in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)) if amount % s == 0), ("", 1)
            )
            texts.append(f"{amount // unit[1]}{unit[0]} {name}")
        else:
            texts.append(f"{amount} {name}")
    return ", ".join(texts) or "no amounts"
