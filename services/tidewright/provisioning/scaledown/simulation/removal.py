"""Removals of several nodes, one after the other, each on what the ones before it have left. Spec 4.2, addendum 2.

A node goes in thought: its pods are placed elsewhere, budgets are charged, and it takes no pods any more. Rules apply
to pods that were moved onto it too. A failed try leaves everything as it was, but for the hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.pack.nodes import Mask
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import Sorted, sort_pods
from tidewright.provisioning.scaledown.scene import Owners, Refusal, Removal, Resident
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.settings import Settings

NO_PLACE = "NoPlaceToMovePods"


class Hints:
    """Where pods found room: in this pass, and in the one before it."""

    def __init__(self, before: Mapping[PodKey, str] | None = None) -> None:
        self.before = before or {}
        self.now: dict[PodKey, str] = {}

    def get(self, pod: PodKey) -> str | None:
        return self.now.get(pod) or self.before.get(pod)


class Simulation:
    """One pass's world. `attempt` changes it when it succeeds.

    Attributes:
        hints: placements are looked for there first.
        preferred: rows to be filled before others; None: in the order of names alone.
    """

    def __init__(
        self,
        destinations: Destinations,
        residents: Mapping[str, Sequence[Resident]],
        owners: Owners,
        allowance: Allowance,
        settings: Settings,
        *,
        now: float,
        hints: Hints | None = None,
        preferred: Mask | None = None,
    ) -> None:
        self.destinations = destinations
        self.residents = residents
        self.owners = owners
        self.allowance = allowance
        self.settings = settings
        self.now = now
        self.hints = hints if hints is not None else Hints()
        self.preferred = preferred
        self.moved_in: dict[str, list[Resident]] = {}
        self.pods_placed = 0

    def sorted(self, name: str) -> Sorted:
        """A node's pods, those moved onto it included, by what a drain does with them now."""
        return sort_pods(self._pods(name), self.settings, self.owners, self.allowance, self.now)

    def _pods(self, name: str) -> Sequence[Resident]:
        own = self.residents.get(name, ())
        came = self.moved_in.get(name)
        return [*own, *came] if came else own

    def attempt(self, name: str) -> Removal | Refusal:
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
        came = {pod.key for pod in self.moved_in.get(name, ())}
        for pod in pods.movers:
            self.moved_in.setdefault(places[pod.key], []).append(pod)
        self.moved_in.pop(name, None)
        self.destinations.leave(row)
        return Removal(
            node=name,
            moves=places,
            own=tuple(pod.key for pod in pods.movers if pod.key not in came),
            waits=pods.waits,
            daemons=pods.daemons,
            risky=risky,
        )

    def _place(self, movers: Sequence[Resident], row: int) -> dict[PodKey, str] | None:
        """Nodes for these pods; None, and nothing changed, when one finds none.

        By priority; of one priority first those that fit where they are remembered to, then the others, in their order.
        """
        destinations = self.destinations
        devices = destinations.grid.devices.fork() if any(pod.shape.claims for pod in movers) else None
        for pod in movers:
            destinations.lift(pod.shape, row)
        done: list[tuple[PodShape, int]] = []
        names: dict[PodKey, str] = {}
        for priority in sorted({pod.priority for pod in movers}, reverse=True):
            alike = [pod for pod in movers if pod.priority == priority]
            for find in (self._hinted, self._searched):
                for pod in [pod for pod in alike if pod.key not in names]:
                    target = find(pod, row)
                    if target is not None:
                        destinations.put(pod.shape, target)
                        done.append((pod.shape, target))
                        names[pod.key] = self.hints.now[pod.key] = self._name(target)
                    elif find == self._searched:
                        break
            if len(done) < sum(pod.priority >= priority for pod in movers):
                break
        self.pods_placed += len(done)
        if len(done) == len(movers):
            return names
        for shape, target in done:
            destinations.put(shape, target, -1)
        for pod in movers:
            destinations.put(pod.shape, row)
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
