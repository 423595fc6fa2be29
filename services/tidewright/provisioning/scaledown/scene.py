"""What a pass of scale-down looks at: values only, whoever gathered them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.kube.keys import PodKey, namespace_of
from tidewright.kube.podshape import PodShape
from tidewright.kube.selectors import LabelSelector
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId

NO_POD = PodShape(digest="")


class Owner(msgspec.Struct, frozen=True):
    """A pod's controller; `group` of its API, empty for the core one."""

    kind: str
    name: str
    group: str = ""


class Resident(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod on a node, as the rules of a drain see it.

    Attributes:
        shape: how it would be placed elsewhere.
        owner: its controller; None without one.
        created_at: None when it is not known.
        deleting_at: its deletion timestamp, seconds.
        grace_s: its termination grace period.
        local: names of its volumes that lie on the node: hostPath, and emptyDir that is not in memory.
        held: nothing is done in its namespace.
        unknown: what the fact does not tell of it, as facts of old logs do; empty when all is known.
    """

    key: PodKey
    shape: PodShape = NO_POD
    owner: Owner | None = None
    annotations: Mapping[str, str] = {}
    phase: str = "Running"
    restart_policy: str = "Always"
    created_at: float | None = None
    deleting_at: float | None = None
    grace_s: float = 30.0
    local: tuple[str, ...] = ()
    unknown: str = ""
    held: bool = False

    @property
    def namespace(self) -> str:
        return namespace_of(self.key)

    @property
    def priority(self) -> int:
        return self.shape.priority


class Owners:
    """The controllers that exist, with the replicas that they are to have; None where nobody looks them up."""

    def __init__(self, there: Mapping[tuple[str, str, str], int] | None) -> None:
        """`there`: (kind, namespace, name) to replicas."""
        self.there = there

    def replicas(self, kind: str, namespace: str, name: str) -> int | None:
        """None: it is not there."""
        return None if self.there is None else self.there.get((kind, namespace, name))


class SceneBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget as a pass sees it, its selector read; `allowed` is its status `disruptionsAllowed`."""

    namespace: str
    name: str
    selector: LabelSelector
    allowed: int

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector.matches(labels)


class SceneNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as scale-down sees it.

    Attributes:
        group: empty: it is not autoscaled.
        capacity: what limits count of it, cpu in milli-cores.
        gpu: the extended resource by which its use is measured; empty for a node without GPU.
        doomed_at: when its deletion taint says that its deletion began; None without the taint.
        deleting: its deletion has begun, says who began it: no candidate, no destination.
        started: False while it is new and not ready: no candidate, no destination.
    """

    name: str
    group: NodeGroupId = NO_GROUP
    allocatable: Mapping[str, int] = {}
    capacity: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    ready: bool = True
    gpu: str = ""
    doomed_at: float | None = None
    deleting: bool = False
    started: bool = True


class GroupTraits(msgspec.Struct, frozen=True, kw_only=True):
    """A group's sizes, and what it has of its own of the settings (None: as the settings say).

    Attributes:
        registered: its nodes that are there.
        leaving: of its target, what is being deleted already.
    """

    id: NodeGroupId
    min: int = 0
    target: int = 0
    registered: int = 0
    leaving: int = 0
    zero_or_max: bool = False
    threshold: float | None = None
    gpu_threshold: float | None = None
    unneeded_s: float | None = None
    unready_s: float | None = None
    startup_s: float | None = None
    ignore_daemonsets: bool | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Why a node stays: a reason of the reference, and for `BlockedByPod` the pod and its own reason."""

    reason: str
    pod: str = ""
    pod_reason: str = ""


class Removable(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose pods have a place elsewhere.

    Attributes:
        moves: pod to the node on which it found room.
        own: those of them that are its own, and not moved here by this pass.
        waits: pods that have to complete first.
        daemons: DaemonSet pods, which go along.
        risky: its pods exceed a budget together: it goes last.
    """

    node: str
    moves: Mapping[PodKey, str] = {}
    own: tuple[PodKey, ...] = ()
    waits: tuple[PodKey, ...] = ()
    daemons: tuple[PodKey, ...] = ()
    risky: bool = False

    @property
    def empty(self) -> bool:
        return not self.moves


def by_name(nodes: Iterable[SceneNode]) -> dict[str, SceneNode]:
    return {node.name: node for node in nodes}


Residents = Mapping[str, Sequence[Resident]]
"""Node to its pods, expendable ones left out, in the order in which they are judged."""
