"""Optional calls of the interface, for clouds and groups that do not have them: each says why, in the cloud's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tidewright.cloud.errors import NotImplementedByCloud
from tidewright.cloud.provider import Group, MachineType, NodeTemplate, Taint


class WithoutOptionalCalls:
    """A provider that has none of them but those that it writes itself.

    Attributes:
        NO_PRICES, NO_MACHINE_TYPES, NO_NEW_GROUPS: why not.
    """

    NO_PRICES: ClassVar[str] = ""
    NO_MACHINE_TYPES: ClassVar[str]
    NO_NEW_GROUPS: ClassVar[str]

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        del template, start, end
        raise NotImplementedByCloud(self.NO_PRICES)

    async def pod_price(self, requests: Mapping[str, int], start: float, end: float) -> float:
        del requests, start, end
        raise NotImplementedByCloud(self.NO_PRICES)

    async def machine_types(self) -> Sequence[MachineType]:
        raise NotImplementedByCloud(self.NO_MACHINE_TYPES)

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
        del machine_type, group_id, zone, max_size, labels, taints, resources
        raise NotImplementedByCloud(self.NO_NEW_GROUPS)


class MadeElsewhere:
    """A group that others make and remove, and that grows and shrinks in no other way than all do.

    Attributes:
        CLOUD: what its cloud is called in what is said.
        NOT_MADE, NOT_REMOVED: why it is neither made nor removed here.
    """

    CLOUD: ClassVar[str]
    NOT_MADE: ClassVar[str]
    NOT_REMOVED: ClassVar[str]

    @property
    def autoprovisioned(self) -> bool:
        return False

    @property
    def atomic(self) -> bool:
        return False

    async def exists(self) -> bool:
        return True

    async def atomic_increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del delta, key, expect
        raise NotImplementedByCloud(f"{self.CLOUD} has no atomic increase")

    async def force_delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        del instance_ids, key
        raise NotImplementedByCloud(f"{self.CLOUD} has no forced deletion")

    async def create(self, *, key: str) -> Group:
        del key
        raise NotImplementedByCloud(self.NOT_MADE)

    async def delete(self, *, key: str) -> None:
        del key
        raise NotImplementedByCloud(self.NOT_REMOVED)
