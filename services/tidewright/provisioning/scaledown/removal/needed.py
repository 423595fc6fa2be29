"""Nodes that go and are needed after all: for pods that wait, or room that is kept, and have no place elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tidewright.events.base import Decision
from tidewright.kube.podshape import NodeView
from tidewright.kube.taints import CORDONED, DRAIN, TO_BE_DELETED
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown.removal.steps import Steps, Undo
from tidewright.provisioning.state import State

NEEDED = "NodeNeeded"


def given_back(state: State, grid: Grid, place: Callable[[], int]) -> list[Decision]:
    """Undo removals until everything has its place, or none is left that could be undone.

    The youngest go back first: less of them has been done. A node that is given back stays open on the grid.

    Args:
        state: with the removals.
        grid: where `place` places; changed.
        place: puts what lacks room where there is some, and says how many pods it placed.
    """
    steps = Steps(state)
    for name, row in _under_way(state, grid):
        closed = grid.views[row]
        if closed is None:
            continue
        grid.add_node(_opened(state, name, closed))
        placed = place()
        if placed:
            many = f"{placed} pod{'s' * (placed != 1)}"
            steps.undo(name, Undo(NEEDED, f"{many} that wait or are expected have no place elsewhere"))
        else:
            grid.add_node(closed)
    return steps.decisions


def _under_way(state: State, grid: Grid) -> Iterator[tuple[str, int]]:
    """Removals that may still be undone, the youngest first, with the rows of their nodes."""
    for name in sorted(state.removals, key=lambda name: (-state.removals[name].begun_at, name)):
        if not state.removals[name].deletion and name in grid.rows and name in state.nodes:
            yield name, grid.rows[name]


def _opened(state: State, name: str, view: NodeView) -> NodeView:
    """The node as it will be without our mark."""
    node = state.nodes[name]
    cordoned = node.unschedulable and not node.annotations.get(DRAIN, "").endswith(CORDONED)
    return msgspec.structs.replace(
        view,
        taints=tuple(taint for taint in view.taints if taint.key != TO_BE_DELETED),
        unschedulable=cordoned or node.leaving or node.doomed or not node.ready,
    )
