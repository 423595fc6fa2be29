"""The next node of a group: what it has, what is on it already, and whether a pod fits there.

`Estimate` and `Layout` say how many of such nodes are made, and what each will hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tidewright.kube.devices.stock import Stock, among, lacking
from tidewright.kube.podshape import PODS, NodeView, PodShape
from tidewright.kube.predicates import conflict, node_reason, only_amounts, picky
from tidewright.kube.taints import HARD_EFFECTS
from tidewright.provisioning.pack.classes import Item

TOO_MANY_WAYS = "there are too many ways to hand out devices for its claims to try all of them"
_LARGEST = 2**62


class Layout(msgspec.Struct, frozen=True):
    """So many nodes that hold these pods each: shape digest to number."""

    nodes: int
    pods: dict[str, int]


class Estimate(msgspec.Struct, frozen=True):
    """Attributes:
    nodes: new nodes with at least one pod.
    placed: pods placed per item, in the order given.
    layouts: what the nodes hold.
    """

    nodes: int
    placed: tuple[int, ...]
    layouts: tuple[Layout, ...] = ()

    @property
    def pods(self) -> int:
        return sum(self.placed)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What the next node of a group looks like.

    Attributes:
        view: labels, taints, allocatable; the host name label is given to each copy.
        residents: pods that every such node carries (DaemonSet and static pods), with their number.
    """

    view: NodeView
    residents: tuple[Item, ...] = ()

    def free(self) -> dict[str, int]:
        """Allocatable less what the residents take."""
        free = dict(self.view.allocatable)
        for item in self.residents:
            for name, amount in item.shape.requests.items():
                free[name] = free.get(name, 0) - amount * item.count
        return free

    def stock(self) -> Stock | None:
        """Its devices less what the residents take; None where it has none."""
        stock = self.view.stock
        for item in self.residents:
            if stock is not None and item.shape.claims:
                served = stock.serve(item.shape.claims, (True,) * len(item.shape.claims))
                stock = stock.less((number, pick) for _, number, pick in served.picks(item.count))
        return stock


def fits_reason(shape: PodShape, template: Template) -> str:
    """Why one pod of the shape does not fit on a fresh node; empty when it does."""
    reason = node_reason(shape, template.view)
    if reason:
        return reason
    for item in template.residents:
        if conflict(shape, item.shape):
            return "conflicts with a pod that every node of the group carries"
    short = _short(shape.requests_at(template.view.stock), template.free())
    return short or (_lacks_devices(shape, template) if shape.claims else "")


class AskedShapes:
    """Shapes that one template after the other is asked about: of those that only their amounts can keep from a node, these alone are compared."""

    def __init__(self, shapes: Sequence[PodShape]) -> None:
        self.shapes = shapes
        self._by_amounts = np.array([only_amounts(shape) for shape in shapes], dtype=np.bool_)
        names = sorted({name for shape in shapes for name in shape.requests})
        self._amounts = {
            name: np.array([min(shape.requests.get(name, 0), _LARGEST) for shape in shapes], dtype=np.int64)
            for name in names
        }

    def reasons(self, template: Template) -> dict[int, str]:
        """Why one pod of a shape does not fit on a fresh node, by the shape's number; nothing of those that do."""
        free, view = template.free(), template.view
        tainted = any(taint.effect in HARD_EFFECTS for taint in view.taints)
        open_to_all = not (
            tainted or view.unschedulable or any(picky(item.shape) for item in template.residents)
        )
        if not open_to_all:
            each = ((number, fits_reason(shape, template)) for number, shape in enumerate(self.shapes))
            return {number: reason for number, reason in each if reason}
        doubtful = ~self._by_amounts
        for name, amounts in self._amounts.items():
            doubtful |= amounts > min(free.get(name, 0), _LARGEST)
        reasons: dict[int, str] = {}
        for number in np.flatnonzero(doubtful).tolist():
            shape = self.shapes[number]
            by_amounts = self._by_amounts[number]
            if reason := _short(shape.requests, free) if by_amounts else fits_reason(shape, template):
                reasons[number] = reason
        return reasons


def _short(requests: Mapping[str, int], free: Mapping[str, int]) -> str:
    """Of what a node has too little; empty when of nothing."""
    short = [name for name, amount in requests.items() if amount > free.get(name, 0)]
    return "" if not short else "Too many pods" if min(short) == PODS else f"Insufficient {min(short)}"


def _lacks_devices(shape: PodShape, template: Template) -> str:
    """What a fresh node lacks of the devices that a pod claims; empty when it lacks none."""
    claims = tuple(claim for claim in shape.claims if claim.wishes)
    stocks = [stock for stock in (template.stock(), template.view.around) if stock is not None]
    places = [(stock, range(len(stock.devices))) for stock in stocks]
    served = among(claims, (True,) * len(claims), *places)
    if served.room:
        return ""
    return TOO_MANY_WAYS if served.out.gave_up else lacking(claims, *stocks)
