"""The head of the queue is not delayed by those that pass it. Spec 8, [B6]

With a deadline for heads (`head-deadline`) nobody passes the first request that found no room until its
deadline; from then on smaller ones may, as far as they take nothing that the head could use: neither
room on nodes, nor what groups may still grow by, nor what a quota of its namespace still allows.
"""

from __future__ import annotations

import msgspec

from tidewright.provisioning import spec
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests.attempt import Asked, Attempt
from tidewright.provisioning.requests.shortfall import shortfall
from tidewright.provisioning.requestwork.quota import exceeded, wants_of
from tidewright.provisioning.requestwork.work import RequestWork
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.scaleup.rounds import enact


def asked_of(work: RequestWork, key: str) -> Asked:
    """What a request asks for."""
    return Asked(
        sets=tuple(Item(shape, n) for shape, n in work.sets_of(key)),
        parameters=work.understood[key],
        alias=spec.is_check_alias(work.state.requests[key].class_name),
    )


class Head:
    """The first request that found no room, past its deadline: others may pass, and not delay it."""

    def __init__(self, work: RequestWork, key: str) -> None:
        self.key = key
        self._work = work
        self._asked = asked_of(work, key)
        self._quota = exceeded(work, key, self._asked.sets)

    def delayed_by(self, key: str, made: Attempt, before: World, after: World) -> bool:
        """Whether the head would be further from its room were this attempt carried out.

        Args:
            key: the request that was tried.
            made: what came of it.
            before: the world as it was.
            after: as the attempt left it; what its plan orders is added here.
        """
        if self._quota and wants_of(self._work, key, self._quota):
            return True
        if self._quota is None and exceeded(
            self._work, self.key, self._asked.sets, beside=(key, asked_of(self._work, key).sets)
        ):
            return True
        mode = self._work.modes[self.key]
        there = shortfall(mode, self._asked, before)
        if made.plan is not None and made.plan.targets:
            after = msgspec.structs.replace(after, grid=after.grid.fork(), limits=after.limits.fork())
            enact(after, made.plan, {shape.digest: shape for shape in made.shapes})
        return shortfall(mode, self._asked, after) > there
