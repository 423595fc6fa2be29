"""The head of the queue is not delayed by those that pass it. Spec 8, [B6]

With a deadline for heads (`head-deadline`) nobody passes the first request that found no room until its
deadline; from then on smaller ones may, as far as they take nothing that the head could use: neither
room on nodes, nor what groups may still grow by, nor what any quota of its namespace still allows. One whose
first placement would take some of that is placed again beside what the head is to have, before it is refused.
"""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import RequestKey, namespace_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import spec
from tidewright.provisioning.requests.quota import exceeded, wants_of
from tidewright.provisioning.requests.search import Asked, Attempt, search
from tidewright.provisioning.requests.shortfall import kept, nearest, shortfall
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL, Plan, World
from tidewright.provisioning.scaleup.rounds import enact

MOST_LOOKED_AT = 100
"""So many placements are looked at in one evaluation, each with a plan for the head; the others in the next one."""
KEPT = "what it may grow by is what {head} waits for"
"""Why a group is out for one that is placed beside what the head is to have."""


def asked_of(work: RequestWork, key: RequestKey) -> Asked:
    """What a request asks for."""
    return Asked(
        sets=tuple(Item(shape, n) for shape, n in work.sets_of(key)),
        parameters=work.understood[key],
        alias=spec.is_check_alias(work.state.requests[key].class_name),
    )


class Head:
    """The first request that found no room, past its deadline: others may pass, and not delay it.

    Whoever is to pass costs one plan for the head, in the world that it would leave: that world is the one that
    the next one finds, so how far the head is from its room there is known already. One that is placed twice
    costs three: where the head would go, once for all in the same world, and the world that either placement leaves.

    Attributes:
        looked_at: so many placements of those that were to pass.
    """

    def __init__(self, work: RequestWork, key: RequestKey) -> None:
        self.key = key
        self.looked_at = 0
        self._work = work
        self._asked = asked_of(work, key)
        self._quotas = dict(exceeded(work, key, self._asked.sets))
        self._short: tuple[Grid, int] | None = None
        self._left: tuple[Grid, World] | None = None

    def passing(
        self, key: RequestKey, asked: Asked, attempt: Attempt, before: World, world: World
    ) -> Attempt | None:
        """The attempt with which a request passes, and does not put the head further from its room.

        Args:
            key: the request that was tried.
            asked: what it asks for.
            attempt: what came of it.
            before: the world as it was.
            world: as the attempt left it. Where another attempt is returned, `world.grid` holds what that one placed.

        Returns:
            This attempt or another one; None where it does not pass.
        """
        self.looked_at += 1
        if self._takes_quota(key):
            return None
        if not self._delayed_by(attempt, before, world):
            return attempt
        elsewhere = self._elsewhere(key, asked, before)
        if elsewhere is None:
            return None
        again, world.grid = elsewhere
        self.looked_at += 1
        return None if self._delayed_by(again, before, world) else again

    def _delayed_by(self, attempt: Attempt, before: World, after: World) -> bool:
        """Whether the head would be further from its room; what the attempt's plan orders is added to `after` here."""
        there = self._shortfall(before)
        grid = after.grid
        if attempt.plan is not None and attempt.plan.targets:
            after = msgspec.structs.replace(after, grid=grid.fork(), limits=after.limits.fork())
            enact(after, attempt.plan, {shape.digest: shape for shape in attempt.shapes})
        short = shortfall(self._work.modes[self.key], self._asked, after)
        if short > there:
            return True
        self._short = grid, short
        return False

    def _elsewhere(self, key: RequestKey, asked: Asked, before: World) -> tuple[Attempt, Grid] | None:
        """An attempt on what is left beside the places of the head, and the grid with what it placed; None: no room."""
        if self._left is None or self._left[0] is not before.grid:
            place = nearest(self._work.modes[self.key], self._asked, before)
            self._left = before.grid, kept(place, before)
        beside = self._left[1]
        world = msgspec.structs.replace(beside)
        attempt = search(self._work.modes[key], asked, world)
        if attempt.result not in (SUCCESSFUL, NOT_NEEDED):
            return None
        grid = _repeated(attempt, beside.grid, world.grid, before.grid)
        if attempt.plan is not None:
            attempt.plan = self._as_it_is(attempt.plan, before, beside)
        return None if grid is None else (attempt, grid)

    def _as_it_is(self, plan: Plan, before: World, beside: World) -> Plan:
        """A plan with the true maxima of groups; where one may not grow for the head's sake, that is the reason."""
        most = {group.id: group.max for group in before.groups}
        full = {g.id for g in beside.groups if g.max < most[g.id] and g.target >= g.max}
        return msgspec.structs.replace(
            plan,
            targets=tuple(
                msgspec.structs.replace(t, max_size=most.get(t.group, t.max_size)) for t in plan.targets
            ),
            reasons={
                group: KEPT.format(head=self.key) if group in full else reason
                for group, reason in plan.reasons.items()
            },
        )

    def _shortfall(self, world: World) -> int:
        """How far the head is from its room as things are. A grid is the same one until somebody has passed."""
        if self._short is None or self._short[0] is not world.grid:
            self._short = world.grid, shortfall(self._work.modes[self.key], self._asked, world)
        return self._short[1]

    def _takes_quota(self, key: RequestKey) -> bool:
        """Whether a request wants of a quota that the head exceeds, or has it exceed one that it does not yet."""
        if namespace_of(key) != namespace_of(self.key):
            return False
        work = self._work
        if any(wants_of(work, key, quota) for quota in self._quotas.items()):
            return True
        beside = (key, asked_of(work, key).sets)
        return any(
            not {*resources} <= {*self._quotas.get(name, ())}
            for name, resources in exceeded(work, self.key, self._asked.sets, beside=beside)
        )


def _repeated(attempt: Attempt, before: Grid, after: Grid, there: Grid) -> Grid | None:
    """Another grid with the pods that an attempt placed between two; None where it has not got the devices for them."""
    grid = there.fork()
    for shape in {shape.digest: shape for shape in attempt.shapes}.values():
        was, now = before.where.get(shape.digest, {}), after.where.get(shape.digest, {})
        for row in sorted(now):
            pods = now[row] - was.get(row, 0)
            if pods and shape.claims and int(grid.capacity(shape)[row]) < pods:
                return None
            grid.put(shape, row, pods)
    grid.pointer = after.pointer
    return grid
