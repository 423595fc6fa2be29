"""What a case needs of a cloud: groups to define, machines that come, faults to make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from tidewright.cloud.provider import Group, Instance, InstanceState, Provider

Fault = Literal["Throttled", "Forbidden", "Unavailable"]
TIMEOUT_S = 0.5
"""Of a call in the cases where one hangs; nothing else may take so long, so those alone get it."""


class Bench(ABC):
    """One cloud under test.

    Attributes:
        kind: as in `--cloud NAME=KIND`.
        skips: cases that do not apply, with the reason.
        provider: the client under test.
        short: its own client with little patience, for calls that hang.
    """

    kind: ClassVar[str]
    skips: ClassVar[Mapping[str, str]] = {}
    provider: Provider
    short: Provider

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_: object) -> None: ...

    @abstractmethod
    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        """Make a group of machines with 4 cpus and 16Gi, `size` of which run; the id that it has is returned."""

    @abstractmethod
    async def come(self, group_id: str) -> None:
        """What is ordered of a group is running from now on."""

    @abstractmethod
    async def resize(self, group_id: str, size: int) -> None:
        """Somebody else sets the size of a group."""

    @abstractmethod
    async def exhaust(self, group_id: str) -> None:
        """No more machines are to be had for a group."""

    @abstractmethod
    async def remove(self, group_id: str) -> None:
        """The group goes, whatever is in it."""

    @abstractmethod
    def spoil(self, fault: Fault) -> None:
        """The next call is refused so, and nothing is done."""

    @abstractmethod
    def lose_answer(self) -> None:
        """The next call that changes something is done, and its answer never comes."""

    @abstractmethod
    def hang(self) -> None:
        """No call is answered any more."""

    async def group(self, group_id: str) -> Group:
        """A group as of a refresh."""
        await self.provider.refresh()
        return next(group for group in self.provider.node_groups() if group.id == group_id)

    async def size(self, group_id: str) -> int:
        return await (await self.group(group_id)).target_size()

    async def alive(self, group_id: str) -> list[Instance]:
        """Machines that are there or to come."""
        group = await self.group(group_id)
        return [one for one in await group.nodes() if one.state is not InstanceState.DELETING]

    async def running(self, group_id: str) -> list[str]:
        """Ids of machines that are there, in order."""
        return sorted(
            one.id
            for one in await self.alive(group_id)
            if one.state in (InstanceState.RUNNING, None) and one.error is None
        )
