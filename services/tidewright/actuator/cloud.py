"""One attempt at one effect on a node group, through the provider's interface. Spec 5.1.

Look, compare, order under the expectation that the target is what was seen. Sizes are absolute, so a
repeat of an order whose answer was lost finds the wanted size and says `found`. An order that was
refused leaves nothing behind: what the cloud accepted of it before it refused is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidewright.actuator import verdict
from tidewright.actuator.apply import Allowance
from tidewright.actuator.identity import unique
from tidewright.actuator.verdict import Again, Done, Refused, Result
from tidewright.cloud.errors import (
    CloudError,
    Conflict,
    Invalid,
    NotFound,
    NotImplementedByCloud,
)
from tidewright.cloud.provider import Group, InstanceState, NodeTemplate, Provider, Taint
from tidewright.events.decisions import Effect
from tidewright.events.provisioning import (
    CreateNodeGroup,
    DecreaseNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseNodeGroup,
    TemplateNode,
)

API_VERSION: Final = "cloud/v1"
"""Targets of effects that go to a cloud."""
LOOKS = 5
"""How often a group that changed between the look and the order is looked at again, within one attempt."""


class CloudApplier:
    """Effects on the node groups of one cloud."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def close(self) -> None:
        """Let go of the connection."""
        await self._provider.cleanup()

    async def attempt(self, effect: Effect, allowance: Allowance) -> Result:
        """Try once. Whatever the cloud says becomes a result."""
        try:
            match effect:
                case IncreaseNodeGroup():
                    return await self._increase(effect, allowance)
                case DecreaseNodeGroup():
                    return await self._decrease(effect, allowance)
                case DeleteInstances():
                    return await self._delete(effect, allowance)
                case CreateNodeGroup():
                    return await self._create(effect, allowance)
                case DeleteNodeGroup():
                    return await self._remove(effect, allowance)
        except CloudError as error:
            return of_error(error)
        return Refused(verdict.NOT_SUPPORTED, f"no way here to apply a {type(effect).__name__}")

    async def _group(self, name: str, allowance: Allowance) -> Group:
        await allowance.take()
        await self._provider.refresh()
        node_group = next((group for group in self._provider.node_groups() if group.id == name), None)
        if node_group is None:
            known = ", ".join(group.id for group in self._provider.node_groups()) or "none"
            raise NotFound(f"no node group {name!r}; there are: {known}")
        return node_group

    async def _increase(self, effect: IncreaseNodeGroup, allowance: Allowance) -> Result:
        group = await self._group(effect.target.name, allowance)
        for _ in range(LOOKS):
            size = await group.target_size()
            if size == effect.size:
                return Done(found=True, result={"size": size})
            if size != effect.from_size:
                return Refused(
                    verdict.CONFLICT,
                    f"target size of {group.id} is {size}, not {effect.from_size} as the decision saw",
                )
            await allowance.take()
            try:
                await self._order(group, effect)
            except Conflict:
                continue  # it changed since the look
            except CloudError as error:
                if error.retriable:
                    raise
                return await self._refused(group, effect, error, allowance)
            return Done(result={"size": effect.size})
        return Again(verdict.CONFLICT, f"the target size of {effect.target.name} keeps changing")

    async def _order(self, group: Group, effect: IncreaseNodeGroup) -> None:
        delta = effect.size - effect.from_size
        if effect.atomic and group.atomic:
            try:
                await group.atomic_increase_size(delta, key=unique(effect), expect=effect.from_size)
            except NotImplementedByCloud:
                pass  # it said that it could; the ordinary increase will do
            else:
                return
        await group.increase_size(delta, key=unique(effect), expect=effect.from_size)

    async def _refused(
        self, group: Group, effect: IncreaseNodeGroup, error: CloudError, allowance: Allowance
    ) -> Result:
        """Take back what a cloud ordered of an increase that it then refused."""
        size = await group.target_size()
        if not effect.from_size < size < effect.size:
            return of_error(error)
        await allowance.take()
        try:
            await group.decrease_target_size(
                effect.from_size - size, key=f"{unique(effect)}/back", expect=size
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

    async def _decrease(self, effect: DecreaseNodeGroup, allowance: Allowance) -> Result:
        """Take back what is unfulfilled, as far as it is."""
        group = await self._group(effect.target.name, allowance)
        for _ in range(LOOKS):
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
                await group.decrease_target_size(
                    new_size - size, key=f"{unique(effect)}/{new_size}", expect=size
                )
            except (Conflict, Invalid):
                continue  # an instance came up since the look, or the size changed
            return Done(result={"size": new_size})
        return Again(verdict.CONFLICT, f"the instances of {effect.target.name} keep changing")

    async def _delete(self, effect: DeleteInstances, allowance: Allowance) -> Result:
        group = await self._group(effect.target.name, allowance)
        await allowance.take()
        there = {
            instance.id for instance in await group.nodes() if instance.state is not InstanceState.DELETING
        } & set(effect.instances)
        if not there:
            return Done(found=True, result={"size": await group.target_size()})
        chosen: Sequence[str] = [instance_id for instance_id in effect.instances if instance_id in there]
        await allowance.take()
        if effect.force:
            try:
                await group.force_delete_nodes(chosen, key=unique(effect))
            except NotImplementedByCloud:
                await group.delete_nodes(chosen, key=unique(effect))
        else:
            await group.delete_nodes(chosen, key=unique(effect))
        return Done(result={"size": await group.target_size(), "deleted": len(chosen)})

    async def _create(self, effect: CreateNodeGroup, allowance: Allowance) -> Result:
        for name in (effect.target.name, *effect.also):
            try:
                known = await self._group(name, allowance)
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

    async def _remove(self, effect: DeleteNodeGroup, allowance: Allowance) -> Result:
        try:
            group = await self._group(effect.target.name, allowance)
        except NotFound:
            return Done(found=True)
        await allowance.take()
        await group.delete(key=unique(effect))
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
