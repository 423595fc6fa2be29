"""What a node has of devices, and what of that is taken. Values: handing out gives another stock. Pure.

Stock             devices in the order in which they are offered, counters of their pools, what is taken
Stock.serve(...)  how many pods of a kind it can serve, and what they would take; `less` is what is left then
among(...)        the same of a node's own stock and what it can reach of one that nodes have together
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tidewright.kube.devices.allocation import (
    MOST_PODS,
    PART,
    TAKEN,
    Entry,
    HandedOut,
    Pick,
    Problem,
    bonds_of,
    choices_of,
    handed_out,
)
from tidewright.kube.devices.claims import Claimed
from tidewright.kube.devices.devices import Device, bears, capacities, consumed, takes, values

Counter = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""

_REMEMBERED = 16
"""Kinds of pods for which a stock remembers what it can serve."""


class Served(NamedTuple):
    """What a stock can give to pods of one kind, one after the other.

    Attributes:
        out: what they get; entries are numbers in `at`.
        at: per entry which stock it is of (0: the first) and its number there.
    """

    out: HandedOut
    at: tuple[tuple[int, int], ...]

    @property
    def room(self) -> int:
        return self.out.room

    def picks(self, pods: int) -> Iterable[tuple[int, int, Pick]]:
        """What so many pods get: stock, device, how."""
        for each in self.out.pods[:pods]:
            for pick in each:
                yield (*self.at[pick.entry], pick)


class Stock:
    """Devices of one node, or of all that several nodes reach. Not changed once it is made.

    Attributes:
        devices: in the order in which they are handed out.
        counters: totals of their pools' shared counters.
        taken: numbers of devices that somebody has alone, as bits.
        parts: number of a device that is shared to what is used of each of its capacities.
        plugged: extended resources that device plugins of the node offer: what is claimed in their place is not needed.
    """

    __slots__ = ("_served", "counters", "devices", "parts", "plugged", "taken")

    def __init__(
        self,
        devices: Sequence[Device],
        counters: Mapping[Counter, int] | None = None,
        taken: int = 0,
        parts: Mapping[int, tuple[int, ...]] | None = None,
        plugged: frozenset[str] = frozenset(),
    ) -> None:
        self.devices = tuple(devices)
        self.counters = counters or {}
        self.taken = taken
        self.parts = parts or {}
        self.plugged = plugged
        self._served: dict[tuple[tuple[str, bool], ...], Served] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stock) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((self.devices, self.taken))

    def content(self) -> tuple[object, ...]:
        """All that makes it what it is."""
        return self.devices, dict(self.counters), self.taken, dict(self.parts), self.plugged

    def full(self) -> Stock:
        """The same with nothing taken."""
        return Stock(self.devices, self.counters, plugged=self.plugged)

    def beside(self, plugged: frozenset[str]) -> Stock:
        """The same on a node whose device plugins offer these extended resources."""
        return Stock(self.devices, self.counters, self.taken, self.parts, plugged)

    def free(self) -> int:
        """Devices that nobody has alone."""
        return len(self.devices) - self.taken.bit_count()

    def concerns(self, claims: Sequence[Claimed]) -> bool:
        """Whether any of its devices is one that these claims ask for."""
        return any(takes(ask.matcher, device) for device in self.devices for *_, ask in choices_of(claims))

    def serve(self, claims: Sequence[Claimed], own: Sequence[bool]) -> Served:
        """How many pods with these claims it can serve; see `Problem`."""
        key = tuple((claim.digest, mine) for claim, mine in zip(claims, own, strict=True))
        served = self._served.get(key)
        if served is None:
            if len(self._served) >= _REMEMBERED:
                self._served.clear()
            served = self._served[key] = among(claims, own, (self, range(len(self.devices))))
        return served

    def less(self, picks: Iterable[tuple[int, Pick]]) -> Stock:
        """What is left when these devices are had, too."""
        taken, parts = self.taken, dict(self.parts)
        for number, pick in picks:
            if pick.how == TAKEN:
                taken |= 1 << number
            elif pick.how == PART:
                before = parts.get(number, (0,) * len(pick.amounts))
                parts[number] = tuple(a + b for a, b in zip(before, pick.amounts, strict=True))
        return Stock(self.devices, self.counters, taken, parts, self.plugged)


def among(
    claims: Sequence[Claimed],
    own: Sequence[bool],
    *stocks: tuple[Stock, Sequence[int]],
    most: int = MOST_PODS,
) -> Served:
    """How many pods with these claims can be served from some of the devices of several stocks together.

    Args:
        claims: of the first pod.
        own: which of them each further pod has for itself.
        stocks: each with the numbers of the devices that can be reached.
        most: pods that are of interest.

    Claims in place of extended resources that one of the stocks has from device plugins are left out; they are the last ones.
    """
    kept = [not (claim.resource and any(claim.resource in s.plugged for s, _ in stocks)) for claim in claims]
    own = [mine for mine, needed in zip(own, kept, strict=True) if needed]
    claims = [claim for claim, needed in zip(claims, kept, strict=True) if needed]
    choices = [ask for *_, ask in choices_of(claims)]
    bonds = [claims[c].bonds[b] for c, b in bonds_of(claims)]
    known: list[dict[str, int]] = [{} for _ in bonds]
    counters: dict[Counter, int] = {}
    remaining: list[int] = []
    entries: list[Entry] = []
    at: list[tuple[int, int]] = []
    measured = any(ask.capacity for ask in choices)
    rests = [_rest(stock) for stock, _ in stocks]
    offered = [(which, number) for which, (_, numbers) in enumerate(stocks) for number in numbers]
    if len(stocks) > 1:  # pools are gone through by their names, whoever reaches them
        offered.sort(key=lambda place: stocks[place[0]][0].devices[place[1]].key[:2])
    for which, number in offered:
        stock, rest = stocks[which][0], rests[which]
        device = stock.devices[number]
        taking = sum(1 << i for i, ask in enumerate(choices) if takes(ask.matcher, device))
        if not taking:
            continue
        consumes: list[tuple[int, int]] = []
        for part, counter, amount in device.consumes:
            name = (device.driver, device.pool, part, counter)
            if name in rest and name not in counters:
                counters[name] = len(remaining)
                remaining.append(rest[name])
            if name in rest:
                consumes.append((counters[name], amount))
        used = stock.parts.get(number)
        room: tuple[int, ...] = ()
        needs: tuple[tuple[int, ...] | None, ...] = ()
        if device.shared or measured:
            room = tuple(total for _, total in capacities(device))
            if used:
                room = tuple(a - b for a, b in zip(room, used, strict=False))
            needs = tuple(
                consumed(device, ask.capacity) if device.shared or ask.capacity else () for ask in choices
            )
        entries.append(
            Entry(
                takes=taking,
                bears=sum(1 << i for i, ask in enumerate(choices) if bears(ask.matcher, device)),
                values=tuple(
                    frozenset(
                        numbers.setdefault(text, len(numbers))
                        for text in sorted(values(device, bond.attribute))
                    )
                    for bond, numbers in zip(bonds, known, strict=True)
                ),
                consumes=tuple(consumes) if len(consumes) == len(device.consumes) else None,
                free=not stock.taken >> number & 1,
                part=device.shared,
                used=used is not None,
                room=room,
                needs=needs,
            )
        )
        at.append((which, number))
    out = handed_out(Problem(tuple(map(_bare, claims)), tuple(own), tuple(entries), tuple(remaining), most))
    return Served(out, _same(tuple(at)))


@lru_cache(maxsize=1024)
def _same(at: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """One of equals: thousands of nodes have the same."""
    return at


def _bare(claim: Claimed) -> Claimed:
    """Without whose claim it is: what is the same problem shall be solved once."""
    return Claimed(wishes=claim.wishes, bonds=claim.bonds, digest=claim.digest)


def _rest(stock: Stock) -> dict[Counter, int]:
    """What is left of a stock's counters."""
    if not stock.counters:
        return {}
    rest = dict(stock.counters)
    for number, device in enumerate(stock.devices):
        if stock.taken >> number & 1 or number in stock.parts:
            for part, counter, amount in device.consumes:
                name = (device.driver, device.pool, part, counter)
                if name in rest:
                    rest[name] -= amount
    return rest


def lacking(claims: Sequence[Claimed], *stocks: Stock) -> str:
    """Why a pod with these claims cannot be served by them: the first request that lacks devices, or all together."""
    for claim in claims:
        for wish in claim.wishes:
            least = wish.choices[-1]
            have = sum(
                takes(least.matcher, device)
                and bears(least.matcher, device)
                and not stock.taken >> number & 1
                for stock in stocks
                for number, device in enumerate(stock.devices)
            )
            if have < least.count and not least.watching:
                return f"Insufficient devices of class {least.matcher.name}: request {wish.name} asks for {least.count}, {have} are free"
    return "devices that are free do not meet all that the pod's claims ask for together"
