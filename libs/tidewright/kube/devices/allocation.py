"""Handing out devices to pods, one pod after the other, as the scheduler's allocator does. Pure.

For one pod its claims are met in their order, each request by the first devices that will do, in the order
in which they are offered; where the rest cannot be met then, others are tried. What an earlier pod got it
keeps. So it is found how many pods of one kind a node can serve, and what each of them takes.

    Entry, Problem     devices and requests brought to what matters, so that equal nodes are one problem
    handed_out(...)    per pod what it gets, until one gets nothing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from tidewright.kube.devices.claims import MOST_DEVICES, Ask, Claimed

MOST_PODS: Final = 1024
"""Pods on one node that are followed: more than a kubelet runs."""
MOST_TOGETHER: Final = 200
"""Devices of one pod."""
MOST_TRIES: Final = 5_000
"""Devices that are tried for one pod; the scheduler, too, gives up after some time."""
MOST_LOOKS: Final = 50_000
"""Devices that are looked at for one pod, whether they may be tried or not: where hardly one may, tries alone bound nothing."""
TAKEN, PART, WATCHED = 0, 1, 2
"""How a pod gets a device: alone, a part of it, or beside whoever has it."""


class Entry(NamedTuple):
    """A device that some choice takes, as far as it matters to these requests.

    Attributes:
        takes: bit per choice, in the order of `choices_of`, whose selectors take it.
        bears: of these the ones that tolerate its taints.
        values: per bond what it has of the attribute, as numbers; none where it lacks it.
        consumes: (index of the counter, amount); None where it names a counter that its pool does not have.
        free: nobody has it alone.
        part: several may share it.
        used: some have a part of it.
        room: what is left of its capacities.
        needs: per choice what it takes of them; None where the device does not give that out.
    """

    takes: int
    bears: int
    values: tuple[frozenset[int], ...]
    consumes: tuple[tuple[int, int], ...] | None
    free: bool
    part: bool = False
    used: bool = False
    room: tuple[int, ...] = ()
    needs: tuple[tuple[int, ...] | None, ...] = ()


class Problem(NamedTuple):
    """Devices, and the claims of pods that want some.

    Attributes:
        claims: of the first pod, in its order.
        own: which of them every further pod has again; the others are shared with the first.
        counters: what is left of each.
        most: pods that are followed.
    """

    claims: tuple[Claimed, ...]
    own: tuple[bool, ...]
    entries: tuple[Entry, ...]
    counters: tuple[int, ...]
    most: int = MOST_PODS


class Pick(NamedTuple):
    """A device that a pod gets: its entry, how, and how much of its capacities where it is a part."""

    entry: int
    how: int
    amounts: tuple[int, ...] = ()
    claim: int = 0


class HandedOut(NamedTuple):
    """What pods get, one after the other.

    Attributes:
        pods: picks of each.
        endless: any number of pods more gets what it asks for, without taking anything.
        gave_up: there were too many ways, or too many devices of one pod, to try all of them.
    """

    pods: tuple[tuple[Pick, ...], ...]
    endless: bool = False
    gave_up: bool = False

    @property
    def room(self) -> int:
        """How many pods."""
        return 2**31 if self.endless else len(self.pods)


def choices_of(claims: Sequence[Claimed]) -> Iterator[tuple[int, int, int, Ask]]:
    """All choices with the numbers of their claim, request and alternative."""
    for c, claim in enumerate(claims):
        for w, wish in enumerate(claim.wishes):
            for a, ask in enumerate(wish.choices):
                yield c, w, a, ask


def bonds_of(claims: Sequence[Claimed]) -> Iterator[tuple[int, int]]:
    """All bonds with the number of their claim."""
    return ((c, b) for c, claim in enumerate(claims) for b, _ in enumerate(claim.bonds))


@lru_cache(maxsize=1024)
def handed_out(problem: Problem) -> HandedOut:
    """What pods get of these devices until one cannot be served."""
    search = _Search(problem)
    served: list[tuple[Pick, ...]] = []
    everything = tuple(range(len(problem.claims)))
    again = tuple(c for c, own in enumerate(problem.own) if own)
    while len(served) < problem.most:
        turn = again if served else everything
        picks = search.serve(turn)
        if picks is None:
            return HandedOut(tuple(served), gave_up=search.tries >= MOST_TRIES)
        served.append(picks)
        if turn == again and all(pick.how == WATCHED for pick in picks):
            return HandedOut(tuple(served), endless=True)
    return HandedOut(tuple(served))


class _Search:
    """Devices as they are after the pods so far, and the trial for the next one."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free = [entry.free for entry in problem.entries]
        self.used = [entry.used for entry in problem.entries]
        self.room = [entry.room for entry in problem.entries]
        self.left = list(problem.counters)
        self.number = {(c, w, a): i for i, (c, w, a, _) in enumerate(choices_of(problem.claims))}
        self.bond = {cb: i for i, cb in enumerate(bonds_of(problem.claims))}
        self.distinct = [problem.claims[c].bonds[b].distinct for c, b in self.bond]
        self.takers = [
            [i for i, entry in enumerate(problem.entries) if entry.takes >> number & 1]
            for number in self.number.values()
        ]
        self.picks: list[Pick] = []
        self.bound: list[list[frozenset[int]]] = []
        self.tries = self.looks = 0
        self.claims: Sequence[int] = ()
        self.opening = list(self.room)

    def serve(self, claims: Sequence[int]) -> tuple[Pick, ...] | None:
        """Give the next pod what these claims ask for; None when that cannot be."""
        self.claims, self.picks, self.opening = claims, [], list(self.room)
        self.tries = self.looks = 0
        self.bound = [[] for _ in self.bond]
        return tuple(self.picks) if self._claim(0) else None

    def _claim(self, position: int) -> bool:
        return position == len(self.claims) or self._wish(position, 0)

    def _wish(self, position: int, w: int) -> bool:
        c = self.claims[position]
        wishes = self.problem.claims[c].wishes
        if w == len(wishes):
            return self._claim(position + 1)
        for a, ask in enumerate(wishes[w].choices):
            choice = _Choice(position, c, w, a, self.number[c, w, a])
            if ask.whole:
                every = self.takers[choice.number]
                if self._all(choice, [i for i in every if self._gives(choice, i, self.opening[i])]):
                    return True
            elif self._first(choice, ask.count):
                return True
        return False

    def _all(self, choice: _Choice, devices: Sequence[int]) -> bool:
        """Every one of these devices, of which there is one at least."""
        return bool(devices) and self._try(choice, devices[0], partial(self._others, choice, devices[1:]))

    def _others(self, choice: _Choice, devices: Sequence[int]) -> bool:
        return self._all(choice, devices) if devices else self._wish(choice.position, choice.wish + 1)

    def _first(self, choice: _Choice, count: int) -> bool:
        """So many devices, of those that may be picked as things are: the first ones that will do."""
        if self.tries >= MOST_TRIES:
            return False
        able = self.takers[choice.number]
        if not self._ask(choice).watching:
            able = [i for i in able if self.free[i]]
        if count > 1:
            able = [i for i in able if self._may(choice, i)]
        if len(able) < count or (count > 1 and self._too_alike(choice, able, count)):
            return False
        return self._some(choice, able, count, 0)

    def _some(self, choice: _Choice, able: Sequence[int], count: int, start: int) -> bool:
        if not count:
            return self._wish(choice.position, choice.wish + 1)
        failed: set[tuple[object, ...]] = set()
        for at in range(start, len(able) - count + 1):
            if self.tries >= MOST_TRIES:
                return False
            i = able[at]
            seen = tuple(pick.claim for pick in self.picks if pick.entry == i)
            now = (self.problem.entries[i], self.free[i], self.used[i], self.room[i], seen)
            if now in failed:
                continue  # one like it has been tried
            if self._try(choice, i, partial(self._some, choice, able, count - 1, at + 1)):
                return True
            failed.add(now)
        return False

    def _too_alike(self, choice: _Choice, able: Sequence[int], count: int) -> bool:
        """Whether a bond keeps any so many of these devices from being picked."""
        for bond in self._bonds(choice):
            values = Counter(value for i in able for value in self.problem.entries[i].values[bond])
            if (len(values) if self.distinct[bond] else max(values.values(), default=0)) < count:
                return True
        return False

    def _has(self, claim: int, i: int) -> bool:
        return any(pick.entry == i and pick.claim == claim for pick in self.picks)

    def _gives(self, choice: _Choice, i: int, room: Sequence[int]) -> bool:
        """Whether a device with so much room has what a choice takes of its capacities."""
        needs = self.problem.entries[i].needs
        needed = needs[choice.number] if needs else ()
        return needed is not None and all(n <= here for n, here in zip(needed, room, strict=False))

    def _try(self, choice: _Choice, i: int, then: Callable[[], bool]) -> bool:
        """Whether the rest can be met when this device is picked; if not, nothing has changed."""
        if len(self.picks) >= MOST_TOGETHER:
            self.tries = MOST_TRIES
        if self.tries >= MOST_TRIES or not self._may(choice, i):
            return False
        self.tries += 1
        entry, ask = self.problem.entries[i], self._ask(choice)
        used, room = self.used[i], self.room[i]
        amounts = (entry.needs[choice.number] or ()) if entry.part and entry.needs else ()
        how = WATCHED if ask.watching else PART if entry.part else TAKEN
        counting = how != WATCHED and not used
        if how == TAKEN:
            self.free[i] = False
        elif how == PART:
            self.used[i] = True
            self.room[i] = tuple(here - n for here, n in zip(room, amounts, strict=True)) if amounts else room
        for counter, amount in (entry.consumes or ()) if counting else ():
            self.left[counter] -= amount
        bonds = list(self._bonds(choice))
        for bond in bonds:
            self.bound[bond].append(entry.values[bond])
        self.picks.append(Pick(i, how, amounts if how == PART else (), choice.claim))
        if then():
            return True
        self.picks.pop()
        for bond in bonds:
            self.bound[bond].pop()
        for counter, amount in (entry.consumes or ()) if counting else ():
            self.left[counter] += amount
        if how == TAKEN:
            self.free[i] = True
        self.used[i], self.room[i] = used, room
        return False

    def _may(self, choice: _Choice, i: int) -> bool:
        """Whether a device may be picked as things are."""
        self.looks += 1
        if self.looks > MOST_LOOKS:
            self.tries = MOST_TRIES
            return False
        entry, ask = self.problem.entries[i], self._ask(choice)
        if not entry.bears >> choice.number & 1 or entry.consumes is None:
            return False
        if not self._gives(choice, i, self.room[i]):
            return False
        if sum(pick.claim == choice.claim for pick in self.picks) >= MOST_DEVICES:
            return False
        if ask.watching:
            if not entry.part and self._has(choice.claim, i):
                return False
        elif (
            not self.free[i]
            or (not entry.part and any(pick.entry == i for pick in self.picks))
            or (not self.used[i] and any(amount > self.left[counter] for counter, amount in entry.consumes))
        ):
            return False
        for bond in self._bonds(choice):
            mine, others = entry.values[bond], self.bound[bond]
            if not mine:
                return False
            if self.distinct[bond]:
                if any(mine & other for other in others):
                    return False
            elif not mine.intersection(*others):
                return False
        return True

    def _ask(self, choice: _Choice) -> Ask:
        return self.problem.claims[choice.claim].wishes[choice.wish].choices[choice.alternative]

    def _bonds(self, choice: _Choice) -> Iterator[int]:
        """The bonds that are about a choice's devices."""
        claim = self.problem.claims[choice.claim]
        for b, bond in enumerate(claim.bonds):
            if bond.binds(claim.wishes[choice.wish].name, self._ask(choice).name):
                yield self.bond[choice.claim, b]


class _Choice(NamedTuple):
    """An alternative of a request of a claim, at its place among those of the pod."""

    position: int
    claim: int
    wish: int
    alternative: int
    number: int
