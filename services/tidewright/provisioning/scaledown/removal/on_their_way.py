"""Pods that leave nodes which go, until others have come in their place: passes of scale-down leave them the room that they will take.

A pod is on its way from the decision to remove its node until one of its shape has come; once it is gone, for two minutes at
most: its owner may not want another one. Addendum 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import PodShape
from tidewright.kube.predicates import counted_alone
from tidewright.provisioning.consolidation.arrivals import being_replaced, came
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import holds_room
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown.removal.saga import Removal
from tidewright.provisioning.scaledown.removal.standing import movers
from tidewright.provisioning.state import State

AWAITED_S = 120.0
"""So long after its eviction a pod that is gone is thought to come again."""
_OWN, _ANY, _OF_OTHERS, _GOES = range(4)
"""Where pods of a node go: first to what came in its place, last to what came in that of others, and never to what goes itself."""


def under_way(state: State) -> bool:
    """Whether there may be any."""
    return any(removal.drains or removal.pods for removal in state.removals.values())


def hold(state: State, index: Index, grid: Grid, now: float) -> frozenset[str]:
    """Put them where they are to go, or where else there is room; the nodes on which they are put."""
    nodes: set[str] = set()
    fresh = came(state)
    ranks = dict.fromkeys((name for names in fresh.values() for name in names), _OF_OTHERS)
    replaced = being_replaced(state)
    ranks |= dict.fromkeys((*state.removals, *replaced), _GOES)
    for node, removal in state.removals.items():
        rank = {**ranks, **dict.fromkeys(fresh[replaced[node]], _OWN)} if node in replaced else ranks
        for key, shape in _of(state, index, node, removal, now):
            place = _place(grid, shape, removal.places.get(key, ""), rank)
            if place:
                nodes.add(place)
    return frozenset(nodes)


def _of(
    state: State, index: Index, node: str, removal: Removal, now: float
) -> Iterator[tuple[PodKey, PodShape]]:
    there = movers(state, index, node, now)
    for key in there:
        leaving, shape = removal.pods.get(key), state.pods[key].shape
        if (leaving is None or not leaving.replaced) and holds_room(state, index, shape):
            yield key, shape_of(state, index, shape)
    for key, leaving in removal.pods.items():
        late = leaving.evicted_at is None or leaving.evicted_at + AWAITED_S <= now
        if late or leaving.replaced or key in there or key in removal.daemons:
            continue
        if leaving.shape in state.shapes and holds_room(state, index, leaving.shape):
            yield key, shape_of(state, index, leaving.shape)


def _place(grid: Grid, shape: PodShape, wanted: str, rank: Mapping[str, int]) -> str:
    """Where it is wanted, else where it fits the most tightly among the first in rank; the node, or nothing where there is no room."""
    open_to_it = wanted in grid.rows and rank.get(wanted) != _GOES
    if open_to_it and counted_alone(shape) and not (shape.claims or shape.single):
        if grid.place_at(shape, 1, {wanted: 1}):  # looks at that row alone
            return wanted
        open_to_it = False
    room = grid.capacity(shape)
    if open_to_it and room[grid.rows[wanted]] > 0:
        grid.put(shape, grid.rows[wanted])
        return wanted
    ranked = {grid.rows[name]: of for name, of in rank.items() if name in grid.rows}
    rows = [row for row in grid.order().tolist() if room[row] > 0 and ranked.get(row) != _GOES]
    if not rows:
        return ""
    row = min(rows, key=lambda row: (ranked.get(row, _ANY), int(room[row])))
    grid.put(shape, row)
    view = grid.views[row]
    return "" if view is None else str(view.name)
