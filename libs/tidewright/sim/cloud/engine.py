"""The simulated cloud's books: orders, instances, quotas, failures. Pure.

Time comes in as `now` (log seconds), chance from the seed and the names of things, so the same calls
at the same times give the same cloud. Whoever runs it asks `due` what has happened meanwhile.

    order -> CREATING -(boot delay)-> RUNNING -> Node object
                    `-> CREATING with an error: no stock, a failed boot
    delete -> DELETING -(delete delay)-> gone
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tidewright.cloud.errors import (
    CloudError,
    Conflict,
    ErrorClass,
    Invalid,
    NotFound,
    NotImplementedByCloud,
    OutOfCapacity,
    QuotaExceeded,
)
from tidewright.cloud.provider import Instance, InstanceError, InstanceState, NodeTemplate
from tidewright.kube import quantities
from tidewright.sim.cloud.config import CloudConfig, GroupConfig
from tidewright.sim.delays import draw, uniform
from tidewright.sim.options import Delay

REMEMBERED_KEYS = 100_000
ZONE_LABEL = "topology.kubernetes.io/zone"
GROUP_LABEL = "sim.tidewright.dev/group"


class Machine(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        node: name of its Node object, existing or to come.
        due: log time of its next step (boot, disappearance); None when none is coming.
        registers: a Node object will appear.
    """

    id: str
    group: str
    node: str
    zone: str
    state: InstanceState
    error: InstanceError | None = None
    due: float | None = None
    registers: bool = True


class Step(msgspec.Struct, frozen=True):
    """What has become due: the instance's Node object is to be created, or deleted."""

    machine: Machine
    create: bool


class Group(msgspec.Struct, kw_only=True):
    """One group's books. `target` excludes what is being deleted."""

    config: GroupConfig
    target: int = 0
    machines: dict[str, Machine] = {}
    ordered: int = 0
    """Instances ordered ever; numbers their names."""
    defined: bool = False
    """It was made by a call, and is in no file."""


class Books(msgspec.Struct, kw_only=True):
    """What outlives a restart.

    Attributes:
        done: idempotency keys of calls that were carried out, oldest first.
    """

    groups: dict[str, Group] = {}
    done: list[str] = []


class Engine:
    """All groups of one simulated cloud."""

    def __init__(self, config: CloudConfig, now: float) -> None:
        self.config = config
        self.groups: dict[str, Group] = {}
        self._answers: OrderedDict[str, CloudError | None] = OrderedDict()
        self._leaving: list[Machine] = []
        """Instances of groups that vanished."""
        for group in config.groups:
            self.groups[group.id] = Group(config=group)
            if group.initial:
                self._order(self.groups[group.id], group.initial, now)

    def group(self, group_id: str) -> Group:
        """Raises NotFound."""
        group = self.groups.get(group_id)
        if group is None:
            known = ", ".join(sorted(self.groups)) or "none"
            raise NotFound(f"no node group {group_id!r}; there are: {known}")
        return group

    # --- calls --------------------------------------------------------------------------------

    def increase(
        self,
        group_id: str,
        delta: int,
        now: float,
        *,
        key: str,
        expect: int | None = None,
        atomic: bool = False,
    ) -> None:
        """Order `delta` more instances.

        Raises:
            CloudError: nothing was ordered; or (not atomic, stock at its end) as much as there was.
        """
        if self._repeats(key):
            return
        try:
            group = self.group(group_id)
            self._expect(group, expect)
            if delta <= 0:
                raise Invalid(f"{group_id}: increase by {delta}; the delta must be > 0")
            if atomic and not group.config.atomic:
                raise NotImplementedByCloud(f"{group_id}: has no atomic increase")
            if group.target + delta > group.config.max:
                raise Invalid(
                    f"{group_id}: size {group.target} + {delta} is above the maximum {group.config.max}"
                )
            self._within_quota(group, delta)
            stock = group.config.faults.stock
            short = stock is not None and group.target + delta > stock
            if short and (atomic or group.config.faults.stock_refuses):
                raise OutOfCapacity(
                    f"{group_id}: no capacity for {delta} more instances in {', '.join(group.config.zones) or 'any zone'}",
                    code="InsufficientInstanceCapacity",
                )
            surplus = group.config.faults.surplus
            self._order(group, max(0, delta + surplus), now)
            if surplus < 0:
                group.target += -surplus  # it says that it ordered them
        except CloudError as error:
            self._remember(key, error)
            raise
        self._remember(key, None)

    def decrease(self, group_id: str, delta: int, now: float, *, key: str, expect: int | None = None) -> None:
        """Cancel `-delta` orders that are not fulfilled, the newest first.

        Raises:
            CloudError: nothing was cancelled.
        """
        if self._repeats(key):
            return
        try:
            group = self.group(group_id)
            self._expect(group, expect)
            if delta >= 0:
                raise Invalid(f"{group_id}: decrease by {delta}; the delta must be < 0")
            open_orders = [
                machine for machine in group.machines.values() if machine.state is InstanceState.CREATING
            ]
            alive = sum(machine.state is not InstanceState.DELETING for machine in group.machines.values())
            never_made = max(0, group.target - alive)
            if len(open_orders) + never_made < -delta:
                raise Invalid(
                    f"{group_id}: decrease by {-delta}, but only {len(open_orders) + never_made} orders are unfulfilled;"
                    " existing instances are deleted by id"
                )
            # Failed ones first, then those that are furthest from being there.
            open_orders.sort(key=lambda machine: (machine.error is None, -(machine.due or now), machine.id))
            for machine in open_orders[: max(0, -delta - never_made)]:
                del group.machines[machine.id]
            group.target += delta
        except CloudError as error:
            self._remember(key, error)
            raise
        self._remember(key, None)

    def delete(self, group_id: str, ids: Sequence[str], now: float, *, key: str, force: bool = False) -> None:
        """Delete instances and lower the target by as many. Those that are gone already are skipped.

        Raises:
            CloudError: nothing was deleted.
        """
        if self._repeats(key):
            return
        try:
            group = self.group(group_id)
            foreign = [
                instance_id
                for instance_id in ids
                if instance_id not in group.machines and self._owner(instance_id) is not None
            ]
            if foreign:
                raise Invalid(f"{group_id}: instance {foreign[0]} belongs to group {self._owner(foreign[0])}")
            chosen = [
                group.machines[instance_id]
                for instance_id in dict.fromkeys(ids)
                if instance_id in group.machines
                and group.machines[instance_id].state is not InstanceState.DELETING
            ]
            if not force and group.target - len(chosen) < group.config.min:
                raise Invalid(
                    f"{group_id}: size {group.target} - {len(chosen)} is below the minimum {group.config.min}"
                )
            for machine in chosen:
                self._delete(group, machine, now)
            group.target -= len(chosen)
        except CloudError as error:
            self._remember(key, error)
            raise
        self._remember(key, None)

    def create_group(self, config: GroupConfig, *, key: str) -> None:
        """Make a group, empty. One that exists with the same machine type counts as made."""
        if self._repeats(key):
            return
        known = self.groups.get(config.id)
        if known is not None and known.config.machine_type != config.machine_type:
            error = Conflict(f"node group {config.id} exists, of machine type {known.config.machine_type}")
            self._remember(key, error)
            raise error
        if known is None:
            self.groups[config.id] = Group(config=config)
        self._remember(key, None)

    def delete_group(self, group_id: str, *, key: str) -> None:
        """Remove an auto-provisioned group that is empty.

        Raises:
            CloudError: it is not empty, or not auto-provisioned.
        """
        if self._repeats(key):
            return
        try:
            group = self.group(group_id)
            if not group.config.autoprovisioned:
                raise Invalid(f"{group_id}: not auto-provisioned, so it is not deleted")
            if group.machines or group.target:
                raise Conflict(f"{group_id}: still has {len(group.machines)} instances")
            del self.groups[group_id]
        except CloudError as error:
            self._remember(key, error)
            raise
        self._remember(key, None)

    def define(self, config: GroupConfig, now: float) -> None:
        """A group as its owner wants it from now on: a new one, or other limits for one that is there."""
        known = self.groups.get(config.id)
        if known is not None:
            known.config = config
            return
        self.groups[config.id] = Group(config=config, defined=True)
        if config.initial:
            self._order(self.groups[config.id], config.initial, now)

    def vanish(self, group_id: str, now: float) -> None:
        """Its owner removes a group, whatever is in it; its instances go with it.

        Raises:
            NotFound: no such group.
        """
        group = self.group(group_id)
        del self.groups[group_id]
        for machine in group.machines.values():
            if machine.state is not InstanceState.CREATING:
                machine.state, machine.due = InstanceState.DELETING, now
                self._leaving.append(machine)

    def lose(self, instance_id: str, now: float) -> Machine:
        """The cloud takes an instance away (a spot reclaim); the group orders another.

        Raises:
            NotFound: no such instance.
        """
        owner = self._owner(instance_id)
        if owner is None:
            raise NotFound(f"no instance {instance_id!r}")
        group = self.groups[owner]
        machine = group.machines.pop(instance_id)
        if machine.state is not InstanceState.DELETING:
            group.target -= 1
            self._order(group, 1, now)
        return machine

    def adopt(self, provider_id: str, node: str, group_id: str, zone: str) -> bool:
        """Take a Node object of an earlier run into the books. False when it is not of ours."""
        group = self.groups.get(group_id)
        if group is None or provider_id in group.machines:
            return group is not None
        group.machines[provider_id] = Machine(
            id=provider_id, group=group_id, node=node, zone=zone, state=InstanceState.RUNNING
        )
        group.target += 1
        # Names go on where they ended: a name that a node has is never given again.
        number = node.removeprefix(f"{group_id}-")
        group.ordered = max(group.ordered + 1, int(number) if number.isdecimal() else 0)
        return True

    # --- restarts -----------------------------------------------------------------------------

    def books(self) -> Books:
        """Everything that a later `restore` needs."""
        return Books(groups=self.groups, done=[key for key, error in self._answers.items() if error is None])

    def restore(self, books: Books) -> None:
        """Go on where an earlier engine ended. What the configuration says of a group is in force;
        groups that it lacks are gone, unless they were made by a call.
        """
        for name, old in books.groups.items():
            known = self.groups.get(name)
            if known is not None:
                known.target, known.machines, known.ordered = old.target, old.machines, old.ordered
            elif old.config.autoprovisioned or old.defined:
                self.groups[name] = old
        for key in books.done:
            self._remember(key, None)

    # --- time ---------------------------------------------------------------------------------

    def _machines(self) -> Iterator[Machine]:
        for group in self.groups.values():
            yield from group.machines.values()
        yield from self._leaving

    def next_due(self) -> float | None:
        """Log time at which something happens next."""
        times = [machine.due for machine in self._machines() if machine.due is not None]
        return min(times, default=None)

    def due(self, now: float) -> list[Step]:
        """What has happened up to `now`, in the order of its due time."""
        due_machines = [
            machine for machine in self._machines() if machine.due is not None and machine.due <= now
        ]
        self._leaving = [
            machine for machine in self._leaving if machine.due is not None and machine.due > now
        ]
        steps = []
        for machine in sorted(due_machines, key=lambda machine: (machine.due or 0.0, machine.id)):
            machine.due = None
            if machine.state is InstanceState.DELETING:
                if machine.group in self.groups:
                    self.groups[machine.group].machines.pop(machine.id, None)
                steps.append(Step(machine, create=False))
            elif machine.error is None:
                machine.state = InstanceState.RUNNING
                if machine.registers:
                    steps.append(Step(machine, create=True))
        return steps

    # --- reading ------------------------------------------------------------------------------

    def instances(self, group_id: str) -> list[Instance]:
        """All instances of a group, by id.

        Raises:
            NotFound: no such group.
        """
        return [
            Instance(id=machine.id, state=machine.state, error=machine.error, zone=machine.zone)
            for _, machine in sorted(self.group(group_id).machines.items())
        ]

    def template(self, group: GroupConfig, zone: str = "") -> NodeTemplate:
        """The group's template with the zone's label, which a template of one zone shows at once."""
        place = zone or (group.zones[0] if group.zones else "")
        if not place:
            return group.template
        return msgspec.structs.replace(group.template, labels={ZONE_LABEL: place, **group.template.labels})

    def _owner(self, instance_id: str) -> str | None:
        for group_id, group in sorted(self.groups.items()):
            if instance_id in group.machines:
                return group_id
        return None

    # --- inside -------------------------------------------------------------------------------

    def _repeats(self, key: str) -> bool:
        """Whether a call was made before; one that was refused is refused again in the same words."""
        if not key or key not in self._answers:
            return False
        error = self._answers[key]
        if error is not None:
            raise error
        return True

    def _remember(self, key: str, error: CloudError | None) -> None:
        # A refusal that may pass is not kept: the same order may be tried again.
        if not key or (error is not None and error.retriable):
            return
        self._answers[key] = error
        if len(self._answers) > REMEMBERED_KEYS:
            self._answers.popitem(last=False)

    def _expect(self, group: Group, expect: int | None) -> None:
        if expect is not None and group.target != expect:
            raise Conflict(f"{group.config.id}: target size is {group.target}, not {expect} as expected")

    def _within_quota(self, group: Group, delta: int) -> None:
        if not self.config.quotas:
            return
        used: dict[str, int] = {}
        for other in self.groups.values():
            for name, value in units(other.config.template.capacity).items():
                used[name] = used.get(name, 0) + value * other.target
        for name, value in units(group.config.template.capacity).items():
            limit = self.config.quotas.get(name)
            if limit is not None and used.get(name, 0) + value * delta > limit:
                raise QuotaExceeded(
                    f"{group.config.id}: {delta} more need {value * delta} {name}; the quota is {limit},"
                    f" {used.get(name, 0)} are used",
                    code=f"{name}QuotaExceeded",
                )

    def _order(self, group: Group, count: int, now: float) -> None:
        config, seed = group.config, self.config.seed
        faults = config.faults
        boot = Delay.parse(config.boot)
        for _ in range(count):
            group.ordered += 1
            group.target += 1
            number = group.ordered
            name = f"{config.id}-{number:05d}"
            zone = config.zones[(number - 1) % len(config.zones)] if config.zones else ""
            machine = Machine(
                id=f"sim://{zone or 'zone'}/{name}",
                group=config.id,
                node=name,
                zone=zone,
                state=InstanceState.CREATING,
                due=now + draw(boot, seed, f"{name}/boot"),
                registers=uniform(seed, f"{name}/registers") >= faults.never_registers,
            )
            if faults.stock is not None and group.target > faults.stock:
                machine.error = InstanceError(
                    error_class=ErrorClass.OUT_OF_RESOURCES,
                    code="InsufficientInstanceCapacity",
                    message=f"no capacity for another instance of {config.id}",
                )
            elif uniform(seed, f"{name}/failure") < faults.instance_failure:
                machine.error = InstanceError(
                    error_class=ErrorClass.OTHER, code="BootFailed", message=f"instance {name} failed to boot"
                )
            if machine.error is not None:
                machine.due = None
            group.machines[machine.id] = machine

    def _delete(self, group: Group, machine: Machine, now: float) -> None:
        if machine.state is InstanceState.CREATING:
            del group.machines[machine.id]
            return
        machine.state = InstanceState.DELETING
        delay = Delay.parse(group.config.delete)
        machine.due = now + draw(delay, self.config.seed, f"{machine.node}/delete")


def units(capacity: Mapping[str, str]) -> dict[str, int]:
    """Capacity in whole units as quotas count it: cores rounded up, bytes, devices; and one node."""
    return {"nodes": 1, **{name: quantities.whole(value) for name, value in capacity.items()}}


def sizes(groups: Iterable[Group]) -> dict[str, int]:
    """Target size by group id."""
    return {group.config.id: group.target for group in groups}
