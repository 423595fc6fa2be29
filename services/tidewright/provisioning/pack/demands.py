"""What wants a place, put onto the nodes of a grid as far as it fits; the rest stays in demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewright.provisioning.pack.classes import Demand, Item
from tidewright.provisioning.pack.grid import Grid


def in_order(demands: Iterable[Demand]) -> list[Demand]:
    """Highest priority first; then the larger pods, which are harder to place; ties by digest."""
    return sorted(
        demands,
        key=lambda d: (
            -d.shape.priority,
            -d.shape.requests.get("cpu", 0),
            -d.shape.requests.get("memory", 0),
            d.shape.digest,
        ),
    )


def place_all(grid: Grid, demands: Mapping[str, Demand]) -> None:
    """Place what fits; the rest stays in demand."""
    order = in_order(demands.values())
    for position, demand in enumerate(order):
        if demand.count:
            along = _after(order, position) if demand.shape.claims else ()
            demand.count -= grid.place(demand.shape, demand.count, along)


def place_booked(grid: Grid, demands: Mapping[str, Demand], places: Mapping[str, Mapping[str, int]]) -> None:
    """As `place_all`, each where it found its room, as far as it is still there; the rest so that room stays whole.

    That is: what may go to the fewest nodes first, and tightly.
    """
    choice = {digest: int(grid.mask(demand.shape).sum()) for digest, demand in demands.items()}
    order = sorted(in_order(demands.values()), key=lambda d: (-d.shape.priority, choice[d.shape.digest]))
    for demand in order:
        if demand.count and demand.shape.digest in places:
            demand.count -= grid.place_at(demand.shape, demand.count, places[demand.shape.digest])
    for position, demand in enumerate(order):
        if demand.count:
            along = _after(order, position) if demand.shape.claims else ()
            demand.count -= grid.place_tightly(demand.shape, demand.count, along)


def _after(order: Sequence[Demand], position: int) -> list[Item]:
    """What is placed later, and has claims, too."""
    return [Item(later.shape, later.count) for later in order[position + 1 :] if later.shape.claims]


def move(grid: Grid, demands: Mapping[str, Demand], digest: str, row: int, most: int) -> int:
    """Put pods of a shape onto the row that was ordered for them, as many as are wanted."""
    demand = demands.get(digest)
    if demand is None or most <= 0:
        return 0
    moved = min(most, demand.count)
    grid.put(demand.shape, row, moved)
    demand.count -= moved
    return moved
