"""Devices of nodes as pods get them: stocks by row, devices that rows have together, claims that have theirs.

A claim that pods share is met once, with the first of them that is placed; from then on it ties the others to
where its devices can be reached: to that row when one of them is the node's own, else to all rows that reach
them. Nothing here is about nodes without devices and pods without claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidewright.kube.devices.allocation import MOST_PODS, Pick
from tidewright.kube.devices.claims import Claimed
from tidewright.kube.devices.stock import Served, Stock, among
from tidewright.kube.podshape import NodeTerm, PodShape

ANYWHERE = -1


class Reach(msgspec.Struct, frozen=True):
    """From where a device that is not of one node alone can be used: a node, nodes of some labels, or all."""

    node: str = ""
    terms: tuple[NodeTerm, ...] = ()
    everywhere: bool = False


class Common(msgspec.Struct, frozen=True):
    """Devices that several nodes can reach, and from where each."""

    stock: Stock
    reaches: tuple[Reach, ...]


class Pin(NamedTuple):
    """Where the devices of a claim are: a row, or `ANYWHERE` that these of the common devices can be reached."""

    row: int
    devices: tuple[int, ...] = ()


class UnmetClaims(NamedTuple):
    """Claims of a pod that have not got their devices; `own` are those that each pod has for itself."""

    claims: tuple[Claimed, ...]
    own: tuple[bool, ...]


class Holdings:
    """Who has which devices on a grid. Changed in place; `fork` before you try something.

    Attributes:
        stocks: row to the devices of that node, where it has any.
        common: devices that rows have together.
        pins: `namespace/name` of a claim that was met here to where its devices are.
        users: the same to the pods placed with it.
    """

    def __init__(self) -> None:
        self.stocks: dict[int, Stock] = {}
        self.common: Common | None = None
        self.pins: dict[str, Pin] = {}
        self.users: dict[str, int] = {}

    def fork(self) -> Holdings:
        other = Holdings()
        other.stocks = dict(self.stocks)
        other.common = self.common
        other.pins = dict(self.pins)
        other.users = dict(self.users)
        return other

    def alone(self, row: int) -> Holdings:
        """As `fork`, for what is tried on one row."""
        other = Holdings()
        if row in self.stocks:
            other.stocks[row] = self.stocks[row]
        other.common = self.common
        other.pins = dict(self.pins)
        other.users = dict(self.users)
        return other

    def put_node(self, row: int, stock: Stock | None) -> None:
        """A row has these devices now."""
        if stock is not None:
            self.stocks[row] = stock
        else:
            self.stocks.pop(row, None)

    def plugged(self, resource: str) -> list[int]:
        """Rows whose device plugins offer an extended resource that a device class stands for."""
        return [row for row, stock in self.stocks.items() if resource in stock.plugged]

    def waits(self, shape: PodShape) -> bool:
        """Whether where one pod goes decides where others may: a claim to be shared has not got its devices."""
        return any(c.claim and c.wishes and c.claim not in self.pins for c in shape.claims)

    def entangled(self, shape: PodShape) -> bool:
        """Whether pods of a shape cannot be counted row by row: what one takes, others lack elsewhere."""
        return bool(shape.claims) and (self.waits(shape) or self._joint(self.open(shape)))

    def ties(self, shape: PodShape) -> bool:
        """Whether a pod of a shape that is placed has a say in where others find room."""
        shared = any(c.claim and c.wishes for c in shape.claims)
        return shared or (bool(shape.claims) and self._joint(self.open(shape)))

    def open(self, shape: PodShape) -> UnmetClaims:
        """The claims of a shape that are to be met."""
        claims = tuple(c for c in shape.claims if c.wishes and not (c.claim and c.claim in self.pins))
        return UnmetClaims(claims, tuple(not c.claim for c in claims))

    def seats(self, shape: PodShape) -> int:
        """How many pods of a shape may still be added to those that hold its claims."""
        return min(
            (max(0, c.seats - self.users.get(c.claim, 0)) for c in shape.claims if c.claim), default=2**31
        )

    def tied(self, shape: PodShape) -> str:
        """The claim that ties a shape to one row; empty when none does."""
        pins = ((c.claim, self.pins.get(c.claim)) for c in shape.claims if c.claim)
        return next((claim for claim, pin in pins if pin is not None and pin.row != ANYWHERE), "")

    def _joint(self, asked: UnmetClaims) -> bool:
        return self.common is not None and self.common.stock.concerns(asked.claims)

    def limit(self, shape: PodShape, room: NDArray[np.int64], reached: Sequence[tuple[int, ...]]) -> None:
        """Lower the pods that rows take to those whose claims can be met there.

        Args:
            shape: with claims.
            room: per row, as far as everything else goes; changed.
            reached: per row the common devices that it reaches; empty where there are none.
        """
        np.minimum(room, self.seats(shape), out=room)
        for claim in shape.claims:
            pin = self.pins.get(claim.claim) if claim.claim else None
            if pin is None:
                continue
            if pin.row != ANYWHERE:
                here = room[pin.row]
                room[:] = 0
                room[pin.row] = here
            elif pin.devices:
                near = {devices: set(pin.devices) <= {*devices} for devices in set(reached)}
                room[[i for i, devices in enumerate(reached) if not near[devices]]] = 0
        asked = self.open(shape)
        if not asked.claims:
            return
        joint = self._joint(asked)
        most = min(MOST_PODS, int(room.max(initial=0)))
        known: dict[tuple[int, tuple[int, ...]], int] = {}
        for row in np.flatnonzero(room > 0).tolist():
            key = (id(self.stocks.get(row)), reached[row] if joint else ())
            many = known.get(key)
            if many is None:
                many = known[key] = self._served(asked, row, reached if joint else (), most).room
            if many < room[row]:
                room[row] = many

    def _served(self, asked: UnmetClaims, row: int, reached: Sequence[tuple[int, ...]], most: int) -> Served:
        stock = self.stocks.get(row)
        if self.common is None or not reached:
            return among(asked.claims, asked.own) if stock is None else stock.serve(asked.claims, asked.own)
        shared = (self.common.stock, reached[row])
        # Devices of the node first: what others reach as well is left to them.
        if stock is None:
            return among(asked.claims, asked.own, (_NONE, ()), shared, most=most)
        return among(asked.claims, asked.own, (stock, range(len(stock.devices))), shared, most=most)

    def take(self, shape: PodShape, row: int, count: int, reached: Sequence[tuple[int, ...]]) -> None:
        """Pods of a shape are on a row: they have what is there for them, and what is lacking they do without."""
        for claim in shape.claims:
            if claim.claim:
                self.users[claim.claim] = self.users.get(claim.claim, 0) + count
        asked = self.open(shape)
        if not asked.claims:
            return
        served = self._served(asked, row, reached if self._joint(asked) else (), min(count, MOST_PODS))
        picks = list(served.picks(min(count, len(served.out.pods))))
        local = [(number, pick) for which, number, pick in picks if not which]
        far = [(number, pick) for which, number, pick in picks if which]
        for c, claim in enumerate(asked.claims):
            if not asked.own[c]:
                self.pins[claim.claim] = self._pin(row, c, picks)
        if local:
            self.stocks[row] = self.stocks[row].less(local)
        if far and self.common is not None:
            self.common = Common(self.common.stock.less(far), self.common.reaches)

    def _pin(self, row: int, claim: int, picks: Sequence[tuple[int, int, Pick]]) -> Pin:
        """Where a claim's devices tie its pods; one that could not be met is where its first pod is."""
        mine = [(which, number) for which, number, pick in picks if pick.claim == claim]
        common = self.common.stock.devices if self.common is not None else ()
        if not mine or any(not which or common[number].binds for which, number in mine):
            return Pin(row)
        return Pin(ANYWHERE, tuple(sorted({number for _, number in mine})))


_NONE = Stock(())
