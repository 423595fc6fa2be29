"""The head of the queue is not delayed by those that pass it. Spec 8, [B6]

With a deadline for heads (`head-deadline`) nobody passes the first request that found no room until its
deadline; from then on smaller ones may, as far as they take nothing that the head could use: neither
room on nodes, nor what groups may still grow by, nor what any quota of its namespace still allows.
"""

from __future__ import annotations

import msgspec

from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import spec
from tidewright.provisioning.requests.attempt import Asked, Attempt
from tidewright.provisioning.requests.quota import exceeded, wants_of
from tidewright.provisioning.requests.shortfall import shortfall
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.scaleup.rounds import enact

MOST_LOOKED_AT = 100
"""So many that are to pass are looked at in one evaluation, each with a plan for the head; the others in the next one."""


def asked_of(work: RequestWork, key: str) -> Asked:
    """What a request asks for."""
    return Asked(
        sets=tuple(Item(shape, n) for shape, n in work.sets_of(key)),
        parameters=work.understood[key],
        alias=spec.is_check_alias(work.state.requests[key].class_name),
    )


class Head:
    """The first request that found no room, past its deadline: others may pass, and not delay it.

    Whoever is to pass costs one plan for the head, in the world that it would leave: that world is the one that
    the next one finds, so how far the head is from its room there is known already.

    Attributes:
        looked_at: so many that were to pass.
    """

    def __init__(self, work: RequestWork, key: str) -> None:
        self.key = key
        self.looked_at = 0
        self._work = work
        self._asked = asked_of(work, key)
        self._quotas = dict(exceeded(work, key, self._asked.sets))
        self._short: tuple[Grid, int] | None = None

    def delayed_by(self, key: str, made: Attempt, before: World, after: World) -> bool:
        """Whether the head would be further from its room were this attempt carried out.

        Args:
            key: the request that was tried.
            made: what came of it.
            before: the world as it was.
            after: as the attempt left it; what its plan orders is added here.
        """
        self.looked_at += 1
        if self._takes_quota(key):
            return True
        there = self._shortfall(before)
        left = after.grid
        if made.plan is not None and made.plan.targets:
            after = msgspec.structs.replace(after, grid=left.fork(), limits=after.limits.fork())
            enact(after, made.plan, {shape.digest: shape for shape in made.shapes})
        short = shortfall(self._work.modes[self.key], self._asked, after)
        if short > there:
            return True
        self._short = left, short
        return False

    def _shortfall(self, world: World) -> int:
        """How far the head is from its room as things are. A grid is the same one until somebody has passed."""
        if self._short is None or self._short[0] is not world.grid:
            self._short = world.grid, shortfall(self._work.modes[self.key], self._asked, world)
        return self._short[1]

    def _takes_quota(self, key: str) -> bool:
        """Whether a request wants of a quota that the head exceeds, or has it exceed one that it does not yet."""
        if key.split("/", 1)[0] != self.key.split("/", 1)[0]:
            return False
        work = self._work
        if any(wants_of(work, key, quota) for quota in self._quotas.items()):
            return True
        beside = (key, asked_of(work, key).sets)
        return any(
            not {*resources} <= {*self._quotas.get(name, ())}
            for name, resources in exceeded(work, self.key, self._asked.sets, beside=beside)
        )
