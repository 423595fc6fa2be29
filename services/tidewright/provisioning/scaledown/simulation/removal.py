"""Removals of several nodes, one after the other, each on what the ones before it have left. Spec 4.2, addendum 2.

A node goes in thought: its pods are placed elsewhere, budgets are charged, and it takes no pods any more. Rules apply
to pods that were moved onto it too. A failed try leaves everything as it was, but for the hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tidewright.kube.keys import PodKey
from tidewright.provisioning.pack.nodes import Mask
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import Sorted, sort_pods
from tidewright.provisioning.scaledown.scene import Owners, Refusal, Removable, Resident
from tidewright.provisioning.scaledown.simulation.placing import Adoption, Destinations
from tidewright.provisioning.settings import Settings

NO_PLACE = "NoPlaceToMovePods"


class Hints:
    """Where pods found room: in this pass, and in the one before it."""

    def __init__(self, before: Mapping[PodKey, str] | None = None) -> None:
        self.before = before or {}
        self.now: dict[PodKey, str] = {}

    def get(self, pod: PodKey) -> str | None:
        return self.now.get(pod) or self.before.get(pod)


class Cluster(Protocol):
    """The pods of nodes, and who made them."""

    @property
    def owners(self) -> Owners: ...

    def pods(self, name: str) -> Sequence[Resident]: ...

    def sorted_pods(self, name: str, settings: Settings, allowance: Allowance, now: float) -> Sorted: ...


class Simulation:
    """One pass's world. `attempt` changes it when it succeeds.

    Attributes:
        hints: placements are looked for there first.
        preferred: rows to be filled before others; None: in the order of names alone.
        tries: nodes tried and pods placed so far.
        plain: all that has gone in thought looks at nothing but amounts, and nobody looks at it: in whatever order it is put
            where it goes, the same is left.
    """

    def __init__(
        self,
        destinations: Destinations,
        cluster: Cluster,
        allowance: Allowance,
        settings: Settings,
        *,
        now: float,
        hints: Hints | None = None,
        preferred: Mask | None = None,
    ) -> None:
        self.destinations = destinations
        self.cluster = cluster
        self.allowance = allowance
        self.settings = settings
        self.now = now
        self.hints = hints if hints is not None else Hints()
        self.preferred = preferred
        self.moved_in: dict[str, list[Resident]] = {}
        self.placed_at: dict[PodKey, str] = {}
        self._adoption: Adoption | None = None
        self._adopted: set[str] = set()
        self._settled: dict[str, list[Resident]] = {}
        self._ranks: dict[PodKey, int] = {}
        self.tries = 0
        self.plain = True

    def sorted(self, name: str) -> Sorted:
        """A node's pods, those moved onto it included, by what a drain does with them now."""
        came = self._came(name)
        own = self.cluster.sorted_pods(name, self.settings, self.allowance, self.now)
        if not came or own.blocked is not None:
            return own
        return own.with_(sort_pods(came, self.settings, self.cluster.owners, self.allowance, self.now))

    def attempt(self, name: str) -> Removable | Refusal:
        """Try to remove a node."""
        row = self.destinations.grid.rows.get(name)
        if row is None:
            return Refusal("UnexpectedError")
        pods = self.sorted(name)
        if pods.blocked is not None:
            return pods.blocked
        places = self._place(pods.movers, row)
        if places is None:
            return Refusal(NO_PLACE)
        risky = self.allowance.exceeded_by(pods.movers) is not None
        self.allowance.charge(pods.movers)
        came = {pod.key for pod in self._came(name)}
        by_key = dict(zip(pods.keys, pods.movers, strict=True))
        for key, place in places.items():  # in the order in which they were placed: by priority
            self.moved_in.setdefault(place, []).append(by_key[key])
        self.placed_at.update(places)
        self.moved_in.pop(name, None)
        self._settled.pop(name, None)
        self.destinations.leave(row)
        self.plain = self.plain and self.destinations.amounts_alone(pods.shapes)
        return Removable(
            node=name,
            moves=places,
            own=tuple(pod.key for pod in pods.movers if pod.key not in came),
            waits=pods.waits,
            daemons=pods.daemons,
            risky=risky,
        )

    def adopt(self, kept: Mapping[str, Mapping[PodKey, str]]) -> dict[str, Removable]:
        """Take removals over that were found before, as far as they still stand: the same pods move, and fit there together.

        All that are simple are put where they go at once; the others are tried one by one.
        """
        adoption = Adoption(self.destinations, kept)
        whole = {
            name: pods
            for name, places in kept.items()
            if (pods := self.sorted(name)).blocked is None and places.keys() == set(pods.keys)
        }
        adoption.stand(whole)
        removals: dict[str, Removable] = {}
        single: list[str] = []
        for name, pods in whole.items():
            if self.allowance.budgets:  # of which less is left than when they were looked at
                pods = self.sorted(name)
                if pods.blocked is not None:
                    continue
            if not adoption.take(name):
                single.append(name)
                self.hints.now.update(kept[name])
                continue
            risky = self.allowance.exceeded_by(pods.movers) is not None
            self.allowance.charge(pods.movers)
            self._adopted.add(name)
            removals[name] = Removable(
                node=name,
                moves=kept[name],
                own=tuple(kept[name]),
                waits=pods.waits,
                daemons=pods.daemons,
                risky=risky,
            )
        adoption.close()
        self._adoption = adoption
        self.plain = len(removals) == len(kept) and self.destinations.amounts_alone(adoption.shapes)
        for name in single:
            found = self.attempt(name)
            if isinstance(found, Removable):
                removals[name] = found
        return removals

    def settle(self, found: Iterable[Removable], now: float) -> None:
        """Have what was found until now be as `adopt` would leave it, and go on as of a later time.

        Only while all is `plain`, and what was found comes in the order in which it would be taken over. `found`: since the
        last time, or the beginning.
        """
        rank = self._ranks
        if self._adoption is not None:
            for row, pod in self._adoption.placed():
                rank[pod.key] = len(rank)
                if not self.destinations.gone[row]:
                    self._settled.setdefault(self._name(row), []).append(pod)
            self._adoption = None
        for removal in found:
            self._adopted.add(removal.node)
            for key in removal.own:
                rank[key] = len(rank)
        for name, pods in self.moved_in.items():
            self._settled.setdefault(name, []).extend(pods)
        self.moved_in, self.placed_at, self.tries, self.now = {}, {}, 0, now
        self.hints.now.clear()

    def _came(self, name: str) -> Sequence[Resident]:
        """The pods that were moved onto a node: those of before as they are taken over, then the others as they came."""
        row = self.destinations.grid.rows.get(name)
        before = self._adoption.at(row) if self._adoption is not None and row is not None else ()
        settled = self._settled.get(name, [])
        settled.sort(key=lambda pod: self._ranks[pod.key])
        return [*before, *settled, *self.moved_in.get(name, ())]

    def places(self, unneeded: Mapping[str, Removable]) -> dict[str, Mapping[PodKey, str]]:
        """Where the own pods of each node are in the end: some were moved on from where they went first."""
        placed_at = self.placed_at
        return {
            name: r.moves
            if name in self._adopted and placed_at.keys().isdisjoint(r.moves)
            else {pod: placed_at.get(pod) or r.moves[pod] for pod in r.own}
            for name, r in unneeded.items()
        }

    def _place(self, movers: Sequence[Resident], row: int) -> dict[PodKey, str] | None:
        """Nodes for these pods; None, and nothing changed, when one finds none.

        By priority; of one priority first those that fit where they are remembered to, then the others, in their order.
        """
        destinations = self.destinations
        devices = destinations.grid.devices.fork() if any(pod.shape.claims for pod in movers) else None
        for pod in movers:
            destinations.lift(pod.shape, row, leaving=pod.deleting_at is not None)
        stay = destinations.clear(row)
        done: list[tuple[Resident, int]] = []
        names: dict[PodKey, str] = {}
        for priority in sorted({pod.priority for pod in movers}, reverse=True):
            alike = [pod for pod in movers if pod.priority == priority]
            for find in (self._hinted, self._searched):
                for pod in [pod for pod in alike if pod.key not in names]:
                    target = find(pod, row)
                    if target is not None:
                        destinations.put(pod.shape, target, leaving=pod.deleting_at is not None)
                        done.append((pod, target))
                        names[pod.key] = self.hints.now[pod.key] = self._name(target)
                    elif find == self._searched:
                        break
            # As the reference has it those of lower priority are tried all the same, which later searches remember.
            failed = len(done) < sum(pod.priority >= priority for pod in movers)
            if failed and "B22" not in self.settings.as_reference:
                break
        self.tries += 1 + len(done)
        if len(done) == len(movers):
            return names
        for pod, target in done:
            destinations.put(pod.shape, target, -1, leaving=pod.deleting_at is not None)
        destinations.restore(row, stay)
        for pod in movers:
            destinations.put(pod.shape, row, leaving=pod.deleting_at is not None)
        if devices is not None:
            destinations.grid.devices = devices
        return None

    def _name(self, row: int) -> str:
        view = self.destinations.grid.views[row]
        return view.name if view is not None else ""

    def _hinted(self, pod: Resident, row: int) -> int | None:
        hint = self.hints.get(pod.key)
        hinted = self.destinations.grid.rows.get(hint) if hint is not None else None
        fits = hinted is not None and self.destinations.fits(pod.shape, hinted, row)
        return hinted if fits else None

    def _searched(self, pod: Resident, row: int) -> int | None:
        return self.destinations.search(pod.shape, row, self.preferred)
