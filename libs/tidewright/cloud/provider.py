"""The interface of a cloud provider (provisioning-request.md, 5.1).

A `Provider` owns groups; a `Group` owns instances. All sizes are of one cluster. Every call may
block and every call may fail with a `CloudError`; optional calls fail with `NotImplementedByCloud`.
Every call that changes something takes an idempotency key (the decision's id). What a repeat of such a
call does, the provider declares as its `Promise`.

Watcher (reads) and actuator (writes) are the only users; deciders see facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Protocol

import msgspec

from tidewright.cloud.errors import ErrorClass


class Promise(StrEnum):
    """What a cloud makes of a call that changes something and comes a second time."""

    KEY = "key"
    """It knows the key: the same key again does nothing again and gives the same answer."""
    ABSOLUTE = "absolute size"
    """Sizes are set, not added to: the wanted size is the key, and a repeat finds it."""
    DELTA = "delta only"
    """It adds and takes away: a call whose answer is lost is never repeated."""


class InstanceState(IntEnum):
    """Where an instance is in its life; the numbers are the wire's."""

    RUNNING = 1
    CREATING = 2
    DELETING = 3


class InstanceError(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance cannot come up."""

    error_class: ErrorClass
    code: str
    message: str = ""


class Instance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, ordered or existing.

    Attributes:
        id: equals the node's `spec.providerID`.
        state: None when the cloud does not say.
        zone: empty when the cloud does not say.
    """

    id: str
    state: InstanceState | None = None
    error: InstanceError | None = None
    zone: str = ""


class Taint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An empty node as it would join.

    Attributes:
        capacity: resource name to quantity text (`cpu`, `memory`, `pods`, extended ones).
        allocatable: the same after what the machine keeps for itself; empty means capacity.
        labels: all but the hostname label, which differs per node.
        static_pods: manifests of pods that every node runs (mirror pods).
        devices: what its device drivers will offer, as in a ResourceSlice.
    """

    capacity: dict[str, str]
    allocatable: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    static_pods: tuple[dict[str, Any], ...] = ()
    devices: tuple[dict[str, Any], ...] = ()


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Overrides of one group; None keeps the default. Times in seconds, thresholds 0 to 1."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_s: float | None = None
    scale_down_unready_s: float | None = None
    max_node_provision_s: float | None = None
    max_node_startup_s: float | None = None
    zero_or_max_node_scaling: bool | None = None
    allow_non_atomic_scale_up_to_max: bool | None = None
    ignore_daemon_sets_utilization: bool | None = None


class MachineType(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine that auto-provisioned groups can be made of.

    Attributes:
        price_per_hour: in the cloud's currency.
    """

    name: str
    template: NodeTemplate
    zones: tuple[str, ...] = ()
    price_per_hour: float = 0.0


class Group(Protocol):
    """One node group: identical nodes behind one size."""

    @property
    def id(self) -> str:
        """Unique and stable; keys all state."""

    @property
    def debug(self) -> str:
        """For people."""

    @property
    def min_size(self) -> int: ...

    @property
    def max_size(self) -> int: ...

    @property
    def autoprovisioned(self) -> bool: ...

    @property
    def atomic(self) -> bool:
        """Whether `atomic_increase_size` is implemented."""

    @property
    def price_per_hour(self) -> float | None:
        """Of one node, in the cloud's currency; None when unknown."""

    @property
    def machine_type(self) -> str:
        """Empty when the cloud does not say."""

    @property
    def zone(self) -> str:
        """Where all its nodes are; empty when it spans several zones."""

    @property
    def initial(self) -> int:
        """The size that it is to begin with, where nobody at the cloud orders that; 0 elsewhere."""

    @property
    def ignored(self) -> tuple[str, ...]:
        """What is said of it (tags, annotations) and cannot be read, so that it counts as not said: each with what would be valid."""

    async def exists(self) -> bool:
        """False for a group that `Provider.new_node_group` made and `create` has not created."""

    async def target_size(self) -> int:
        """What is ordered: with what does not exist yet, without what is being deleted.

        As of the read that gave this group, or what a write has answered since: no call where that said it.
        """

    async def begun(self, key: str) -> int:
        """How many machines of an order with this key are there that did not come to its end, as this group was read.

        0 where the cloud takes orders as a whole; where it makes machines one by one, a repeat makes the others.
        """

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        """Order `delta` > 0 more; returns when the order is accepted, not when nodes exist.

        Args:
            delta: nodes.
            key: idempotency key.
            expect: the target size that must be there before; `Conflict` otherwise.

        Raises:
            CloudError: `Invalid` beyond the maximum; `QuotaExceeded`, `OutOfCapacity`, ...
        """

    async def atomic_increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        """All `delta` or nothing. Optional."""

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        """Delete these instances and lower the target by as many.

        Raises:
            CloudError: `Invalid` for instances of another group, or going below the minimum.
        """

    async def force_delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        """As `delete_nodes`, whatever the minimum. Optional."""

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        """Cancel `-delta` orders that are not fulfilled; never deletes an existing node.

        Raises:
            CloudError: `Invalid` when fewer than `-delta` orders are open.
        """

    async def nodes(self) -> Sequence[Instance]:
        """All instances, also those that have not registered as nodes: one that is not among them is gone."""

    async def template(self) -> NodeTemplate:
        """An empty node as it would join. Optional: without it a group cannot grow from zero."""

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        """`defaults` with this group's overrides."""

    async def create(self, *, key: str) -> Group:
        """Make an auto-provisioned group exist. Optional."""

    async def delete(self, *, key: str) -> None:
        """Delete an empty auto-provisioned group. Optional."""


class Provider(Protocol):
    """A cloud, as the watcher polls it and the actuator writes to it."""

    @property
    def name(self) -> str:
        """Its kind: short, for flags and logs."""

    @property
    def promise(self) -> Promise:
        """What it makes of a repeated call."""

    async def refresh(self) -> None:
        """Read groups, limits and tags again. The set of groups changes here and nowhere else."""

    def node_groups(self) -> Sequence[Group]:
        """The groups as of the last `refresh`, sorted by id."""

    async def group(self, group_id: str) -> Group:
        """One group as it is now, in one call where the cloud has such a call.

        Raises:
            CloudError: `NotFound`, with the groups that there are.
        """

    async def node_group_for_node(self, provider_id: str, labels: Mapping[str, str]) -> Group | None:
        """The node's group; None for a node that is not managed here and never touched."""

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        """Price of such a node between two times (seconds since the epoch). Optional."""

    async def pod_price(self, requests: Mapping[str, int], start: float, end: float) -> float:
        """Price of such a pod (cpu in millicores, others in units) between two times. Optional."""

    async def machine_types(self) -> Sequence[MachineType]:
        """What auto-provisioned groups can be made of, sorted by name. Optional."""

    async def new_node_group(
        self,
        machine_type: str,
        *,
        group_id: str = "",
        zone: str = "",
        max_size: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        resources: Mapping[str, str] | None = None,
    ) -> Group:
        """A group that does not exist yet; `Group.create` makes it. Optional.

        Args:
            machine_type: one of `machine_types`.
            group_id: its id; empty lets the cloud choose.
            zone: empty for all zones of the machine type.
            max_size: 0 for the cloud's default.
            labels: added to the machine type's.
            taints: added to the machine type's.
            resources: extended resources, added to the machine type's.
        """

    def gpu_label(self) -> str:
        """The node label that marks GPU nodes; empty when there is none."""

    async def gpu_types(self) -> Sequence[str]: ...

    async def cleanup(self) -> None:
        """At shutdown."""
