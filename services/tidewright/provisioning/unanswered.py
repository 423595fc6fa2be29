"""Decisions of ours that wait for their outcome: what each was about, by which the outcome is taken in.

They are stored as arrays, the verb first: `["status", "namespace/name"]`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidewright.kube.keys import BufferKey, PodKey, RequestKey
from tidewright.provisioning.group_ids import NodeGroupId


class StatusOrder(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """The status of a request is written."""

    request: RequestKey


class BufferStatusOrder(msgspec.Struct, frozen=True, array_like=True, tag="buffer-status"):
    """The status of a buffer is written."""

    buffer: BufferKey


class ResolveOrder(msgspec.Struct, frozen=True, array_like=True, tag="resolve"):
    """What the pods of a buffer are like is asked; `asked` is the question's key."""

    buffer: BufferKey
    asked: str = ""


class TemplateOrder(msgspec.Struct, frozen=True, array_like=True, tag="template"):
    """The PodTemplate that is kept for a buffer is made or changed."""

    buffer: BufferKey


class HoldChunkOrder(msgspec.Struct, frozen=True, array_like=True, tag="hold-chunk"):
    """A placeholder of a buffer is made."""

    pod: PodKey


class FreeChunkOrder(msgspec.Struct, frozen=True, array_like=True, tag="free-chunk"):
    """A placeholder of a buffer is deleted."""

    pod: PodKey


class CollectOrder(msgspec.Struct, frozen=True, array_like=True, tag="collect"):
    """An old request is deleted."""

    request: RequestKey


class HoldOrder(msgspec.Struct, frozen=True, array_like=True, tag="hold"):
    """A placeholder is made."""

    pod: PodKey


class FreeOrder(msgspec.Struct, frozen=True, array_like=True, tag="free"):
    """A placeholder is deleted."""

    pod: PodKey


class MarkOrder(msgspec.Struct, frozen=True, array_like=True, tag="mark"):
    """A node's annotation is written, which says what is reserved there."""

    node: str


class ReportOrder(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """The status ConfigMap is written. There is one: nothing more is to be said of it."""

    about: str = ""


class CreateOrder(msgspec.Struct, frozen=True, array_like=True, tag="create"):
    """A group is made at the cloud."""

    group: NodeGroupId


class IncreaseOrder(msgspec.Struct, frozen=True, array_like=True, tag="increase"):
    """A plan's group grows: its step bears the decision's id."""

    plan: str


class DecreaseOrder(msgspec.Struct, frozen=True, array_like=True, tag="decrease"):
    """Nodes of a group that have not come are taken back."""

    group: NodeGroupId


class DeleteOrder(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Instances of a group are deleted; so many of them never became a node, and so many are nodes that were idle."""

    group: NodeGroupId
    unborn: int = 0
    idle: int = 0

    @property
    def of_removals(self) -> bool:
        """Whether it is of nodes whose removal was decided on before, whatever has become of that since."""
        return not self.unborn and not self.idle


class TaintOrder(msgspec.Struct, frozen=True, array_like=True, tag="taint"):
    """A node that goes is marked."""

    node: str


class UnmarkOrder(msgspec.Struct, frozen=True, array_like=True, tag="unmark"):
    """A node's mark comes off."""

    node: str


class SoftOrder(msgspec.Struct, frozen=True, array_like=True, tag="soften"):
    """A node's soft taint is set or comes off."""

    node: str


class EvictOrder(msgspec.Struct, frozen=True, array_like=True, tag="evict"):
    """A pod is asked to leave a node."""

    node: str
    pod: PodKey


Order: TypeAlias = (
    StatusOrder
    | BufferStatusOrder
    | ResolveOrder
    | TemplateOrder
    | HoldChunkOrder
    | FreeChunkOrder
    | CollectOrder
    | HoldOrder
    | FreeOrder
    | MarkOrder
    | ReportOrder
    | CreateOrder
    | IncreaseOrder
    | DecreaseOrder
    | DeleteOrder
    | TaintOrder
    | UnmarkOrder
    | EvictOrder
    | SoftOrder
)
