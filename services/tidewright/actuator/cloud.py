"""One attempt at one effect on a node group, through the provider's interface. Spec 5.1.

Look, compare, order under the expectation that the target is what was seen: one read of the group and one
write. Sizes are absolute, so a repeat of an order whose answer was lost finds the wanted size and says `found`;
where the cloud only adds (`Promise.DELTA`) there is no repeat. An order that was
refused leaves nothing behind: what the cloud accepted of it before it refused is taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from tidewright.actuator import verdict
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.identity import unique
from tidewright.actuator.verdict import Again, Done, Lost, Refused, Result
from tidewright.cloud.errors import (
    CloudError,
    Conflict,
    Invalid,
    NotFound,
    NotImplementedByCloud,
    Unavailable,
)
from tidewright.cloud.provider import Group, Instance, InstanceState, NodeTemplate, Promise, Provider, Taint
from tidewright.events import registry
from tidewright.events.decisions import Effect
from tidewright.events.provisioning import (
    ANSWER_LOST,
    CreateNodeGroup,
    DecreaseNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseNodeGroup,
    NodeGroupObserved,
    TemplateNode,
)
from tidewright.host.loop.fenced import answered
from tidewright.log.connection import Log
from tidewright.log.subjects import ALL

API_VERSION: Final = "cloud/v1"
"""Targets of effects that go to a cloud."""
NODE_GROUP: Final = "nodegroup"
"""What node groups are called in subjects of facts."""
AT_ONCE: Final = 16
"""Attempts at one cloud at the same time: where one hangs, the others go on."""
LOOKS = 5
"""How often a group that changed between the look and the order is looked at again, within one attempt."""


Whose: TypeAlias = Callable[[str], Awaitable[tuple[str, str]]]
"""A group's name to its cloud's name and what that calls it; the cloud is empty where nobody has said."""

Unless: TypeAlias = Callable[[], Awaitable[Refused | Again | None]]
"""Why something may not be done; None when it may."""


async def nothing() -> None:
    """No reason why not."""


def as_observed(log: Log) -> Whose:
    """Whose a group is, as the watcher last said."""

    async def whose(name: str) -> tuple[str, str]:
        record = await answered(partial(log.last, log.subjects.fact(ALL, NODE_GROUP, "", name)))
        fact = registry.read(record.body) if record is not None else None
        if not isinstance(fact, NodeGroupObserved):
            return "", name
        return fact.cloud, fact.id or name

    return whose


class AnswerLost(Exception):
    """Whether a call was carried out is not known, and its cloud would carry a repeat out once more."""

    def __init__(self, error: CloudError) -> None:
        super().__init__(error.message)


class Clouds:
    """Effects on the node groups of all clouds."""

    def __init__(self, providers: Mapping[str, Provider], whose: Whose) -> None:
        """`providers` by the clouds' names, in their order; `whose` says which of them has a group."""
        self._appliers = {name: CloudApplier(provider) for name, provider in providers.items()}
        self.whose = whose

    async def close(self) -> None:
        """Let go of the connections."""
        for applier in self._appliers.values():
            await applier.close()

    async def attempt(
        self, effect: Effect, allowance: Allowance, whose: tuple[str, str], unless: Unless = nothing
    ) -> Result:
        """Try once, at the cloud that has the group: `whose` is what `Clouds.whose` says of it.

        `unless` is asked before instances are deleted, while the group is looked at.
        """
        name = effect.target.name
        cloud, group_id = whose
        if cloud and cloud not in self._appliers:
            known = ", ".join(self._appliers)
            return Refused(
                verdict.NOT_SUPPORTED,
                f"node group {name} is of cloud {cloud}, which the actuator was not started with (--cloud); it has: {known}",
            )
        if not cloud:
            # One that does not exist yet, or was last seen when there was one cloud: the first is that one.
            cloud = (
                await self._maker(effect)
                if isinstance(effect, CreateNodeGroup)
                else next(iter(self._appliers))
            )
        return await self._appliers[cloud].attempt(effect, allowance, group_id, unless)

    async def _maker(self, effect: CreateNodeGroup) -> str:
        """The first cloud that has a machine type; the first of all where none says so, which then refuses."""
        if len(self._appliers) > 1:
            for name, applier in self._appliers.items():
                if await applier.makes(effect.machine_type):
                    return name
        return next(iter(self._appliers))


class CloudApplier:
    """Effects on the node groups of one cloud."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._places = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._provider.cleanup()

    async def makes(self, machine_type: str) -> bool:
        """Whether groups of a machine type can be made here; False also where nobody says."""
        try:
            return any(it.name == machine_type for it in await self._provider.machine_types())
        except CloudError:
            return False

    async def attempt(
        self, effect: Effect, allowance: Allowance, group_id: str, unless: Unless = nothing
    ) -> Result:
        """Try once. Whatever the cloud says becomes a result."""
        try:
            if isinstance(effect, DeleteInstances):
                return await self._delete(effect, allowance, group_id, unless)
            async with self._places:
                return await self._attempt(effect, allowance, group_id)
        except CloudError as error:
            return of_error(error)
        except AnswerLost as error:
            return Lost(
                ANSWER_LOST,
                f"{error}; whether it was done is not known, and {self._provider.name} adds what it is asked"
                " for: it is not asked again",
            )

    async def _attempt(self, effect: Effect, allowance: Allowance, group_id: str) -> Result:
        match effect:
            case IncreaseNodeGroup():
                return await self._increase(effect, allowance, group_id)
            case DecreaseNodeGroup():
                return await self._decrease(effect, allowance, group_id)
            case CreateNodeGroup():
                return await self._create(effect, allowance)
            case DeleteNodeGroup():
                return await self._remove(effect, allowance, group_id)
        return Refused(verdict.NOT_SUPPORTED, f"no way here to apply a {type(effect).__name__}")

    async def _read(self, group_id: str, allowance: Allowance) -> Group:
        await allowance.take()
        return await self._provider.group(group_id)

    async def _instances(self, group_id: str, allowance: Allowance) -> tuple[Group, Sequence[Instance]]:
        async with self._places:
            group = await self._read(group_id, allowance)
            return group, await group.nodes()

    async def _write(self, allowance: Allowance, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call that changes something; one that must not be made twice is on the log before.

        Raises:
            AnswerLost: nobody knows whether it was done, and doing it again would do it twice.
        """
        if self._provider.promise is Promise.DELTA:
            await allowance.once()
        try:
            await call()
        except Unavailable as error:
            if self._provider.promise is Promise.DELTA:
                raise AnswerLost(error) from error
            raise

    async def _increase(self, effect: IncreaseNodeGroup, allowance: Allowance, group_id: str) -> Result:
        for _ in range(LOOKS):
            group = await self._read(group_id, allowance)
            size = await group.target_size()
            if size == effect.size:
                return Done(found=True, result={"size": size})
            if size != effect.from_size and size - await group.begun(unique(effect)) != effect.from_size:
                return Refused(
                    verdict.CONFLICT,
                    f"target size of {group.id} is {size}, not {effect.from_size} as the decision saw",
                )
            await allowance.take()
            try:
                await self._order(group, effect, allowance)
            except Conflict:
                continue  # it changed since the look
            except CloudError as error:
                if error.retriable:
                    raise
                return await self._refused(effect, error, allowance, group_id)
            return Done(result={"size": effect.size})
        return Again(verdict.CONFLICT, f"the target size of {effect.target.name} keeps changing")

    async def _order(self, group: Group, effect: IncreaseNodeGroup, allowance: Allowance) -> None:
        delta = effect.size - effect.from_size
        if effect.atomic and group.atomic:
            try:
                await self._write(
                    allowance,
                    lambda: group.atomic_increase_size(delta, key=unique(effect), expect=effect.from_size),
                )
            except NotImplementedByCloud:
                pass  # it said that it could; the ordinary increase will do
            else:
                return
        await self._write(
            allowance, lambda: group.increase_size(delta, key=unique(effect), expect=effect.from_size)
        )

    async def _refused(
        self, effect: IncreaseNodeGroup, error: CloudError, allowance: Allowance, group_id: str
    ) -> Result:
        """Take back what a cloud ordered of an increase that it then refused."""
        try:
            group = await self._read(group_id, allowance)
        except CloudError as second:
            if second.retriable:
                raise
            return of_error(error)
        size = await group.target_size()
        if not effect.from_size < size < effect.size:
            return of_error(error)
        await allowance.take()
        try:
            await self._write(
                allowance,
                lambda: group.decrease_target_size(
                    effect.from_size - size, key=f"{unique(effect)}/back", expect=size
                ),
            )
        except CloudError as second:
            if second.retriable:
                raise
            return Refused(
                error.reason,
                f"{error.message}; {size - effect.from_size} nodes were ordered all the same and could"
                f" not be taken back: {second.message}",
            )
        return Refused(
            error.reason, f"{error.message}; {size - effect.from_size} nodes that were ordered are taken back"
        )

    async def _decrease(self, effect: DecreaseNodeGroup, allowance: Allowance, group_id: str) -> Result:
        """Take back what is unfulfilled, as far as it is."""
        why = ""
        for _ in range(LOOKS):
            group = await self._read(group_id, allowance)
            size = await group.target_size()
            if size <= effect.size:
                return Done(found=True, result={"size": size})
            if size > effect.from_size:
                return Refused(
                    verdict.CONFLICT,
                    f"target size of {group.id} is {size}, not {effect.from_size} as the decision saw",
                )
            await allowance.take()
            come = sum(
                instance.state in (InstanceState.RUNNING, None) and instance.error is None
                for instance in await group.nodes()
            )
            new_size = max(effect.size, come)
            if new_size >= size:
                return Done(found=True, result={"size": size})
            await allowance.take()
            try:
                await self._write(
                    allowance,
                    partial(
                        group.decrease_target_size,
                        new_size - size,
                        key=f"{unique(effect)}/{new_size}",
                        expect=size,
                    ),
                )
            except (Conflict, Invalid) as error:
                why = error.message
                continue  # an instance came up since the look, or the size changed
            return Done(result={"size": new_size})
        return Again(verdict.CONFLICT, f"the instances of {effect.target.name} keep changing: {why}")

    async def _delete(
        self, effect: DeleteInstances, allowance: Allowance, group_id: str, unless: Unless
    ) -> Result:
        # Both looks take a few requests, and others wait for a node to be gone. Nobody waits at the cloud for the other one.
        found, refused = await asyncio.gather(
            self._instances(group_id, allowance), unless(), return_exceptions=True
        )
        if isinstance(refused, BaseException):
            raise refused
        if refused is not None:
            return refused
        if isinstance(found, BaseException):
            raise found
        async with self._places:
            return await self._delete_from(*found, effect, allowance)

    async def _delete_from(
        self, group: Group, instances: Sequence[Instance], effect: DeleteInstances, allowance: Allowance
    ) -> Result:
        there = {instance.id for instance in instances if instance.state is not InstanceState.DELETING} & set(
            effect.instances
        )
        if not there:
            return Done(found=True, result={"size": await group.target_size()})
        if effect.size is not None and not effect.force:
            target = await group.target_size()
            if target - len(there) < effect.size:
                return Refused(
                    verdict.CONFLICT,
                    f"target size of {group.id} is {target}: without {len(there)} it would be smaller than"
                    f" {effect.size} as the decision saw",
                )
        chosen: Sequence[str] = [instance_id for instance_id in effect.instances if instance_id in there]
        await allowance.take()
        if effect.force:
            try:
                await self._write(allowance, lambda: group.force_delete_nodes(chosen, key=unique(effect)))
            except NotImplementedByCloud:
                await self._write(allowance, lambda: group.delete_nodes(chosen, key=unique(effect)))
        else:
            await self._write(allowance, lambda: group.delete_nodes(chosen, key=unique(effect)))
        return Done(result={"size": await group.target_size(), "deleted": len(chosen)})

    async def _create(self, effect: CreateNodeGroup, allowance: Allowance) -> Result:
        for name in (effect.target.name, *effect.also):
            try:
                known = await self._read(name, allowance)
            except NotFound:
                pass
            else:
                if known.machine_type != effect.machine_type:
                    return Refused(
                        verdict.CONFLICT,
                        f"node group {name} exists, of machine type {known.machine_type!r},"
                        f" not {effect.machine_type!r}",
                    )
                continue
            await allowance.take()
            machine = next(
                (
                    machine_type
                    for machine_type in await self._provider.machine_types()
                    if machine_type.name == effect.machine_type
                ),
                None,
            )
            own = machine.template if machine is not None else NodeTemplate(capacity={})
            new_group = await self._provider.new_node_group(
                effect.machine_type,
                group_id=name,
                zone=effect.zone,
                max_size=effect.max_size,
                labels={k: v for k, v in effect.template.labels.items() if own.labels.get(k) != v},
                taints=tuple(taint for taint in _taints(effect.template) if taint not in own.taints),
            )
            await allowance.take()
            await new_group.create(key=f"{unique(effect)}/{name}")
        return Done()

    async def _remove(self, effect: DeleteNodeGroup, allowance: Allowance, group_id: str) -> Result:
        try:
            group = await self._read(group_id, allowance)
        except NotFound:
            return Done(found=True)
        await allowance.take()
        await self._write(allowance, lambda: group.delete(key=unique(effect)))
        return Done()


def of_error(error: CloudError) -> Refused | Again:
    """What an error of the cloud means for the effect."""
    message = error.message if error.code == error.reason else f"{error.message} ({error.code})"
    if error.retriable:
        return Again(error.reason, message, error.retry_after_s)
    return Refused(error.reason, message)


def _taints(template: TemplateNode) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=t["key"], value=t.get("value", ""), effect=t.get("effect", "NoSchedule"))
        for t in template.taints
    )
