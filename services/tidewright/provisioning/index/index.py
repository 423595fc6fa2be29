"""What is derived from the state, and changed along with it: nodes as columns, pods that wait, consumers.

`indexing` builds it and keeps it; `resolving` says what the shapes in it come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.keys import BufferKey, ObjectKey, PodKey, RequestKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.limits import GPU_LABELS
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.claims import Claims
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Node

if TYPE_CHECKING:
    from tidewright.provisioning.foresight.counting import Counting
    from tidewright.provisioning.foresight.spreading import Spreads
    from tidewright.provisioning.scaledown.cards import Cards
    from tidewright.provisioning.scaledown.scanning import UnderWay


class NodeKind(msgspec.Struct, frozen=True):
    """What limits look at in a node; labels are those that some quota selects by, or that name a type of GPU."""

    allocatable: dict[str, int]
    labels: dict[str, str]
    counts: bool


class Read(NamedTuple):
    """A pod template as it was read, and what beside it decided how."""

    template: JsonObject
    beside: JsonObject | None
    shape: PodShape


_Same: TypeAlias = tuple[Any, ...]


class Index:
    """What is derived from the state, changed along with it.

    Attributes:
        grid: nodes and the pods on them.
        waiting: pods that may need room, in the order in which they came.
        untried: pods about which the scheduler has said nothing yet.
        nominated: pods that wait for room that the scheduler makes for them.
        consumers: request to its pods that are on a node.
        machines: provider id to node.
        twins: provider id that several nodes have, to their names: which of them its instance is, is not known.
        owner: provider id to group.
        busy: node to its pods other than DaemonSet and mirror pods.
        kind: node to the kind of nodes that it is of, as limits see them.
        kinds: those kinds, each once, by number.
        uses: shape to how many pods and pod sets have it.
        seats: of shapes with claims, how they count where they are: see `claims`.
        terminating: node to its pods that are being deleted.
        soft: nodes with our soft taint, as they say themselves.
        changed: nodes that have changed, they or their pods, since scale-down looked at them.
        owners_changed: workloads that have, by `owner_key`.
        cards: what scale-down keeps of each node; made by who asks first.
        under_way: a pass of scale-down of one piece, as far as it was made; made again where it is lost.
        counting: whose pods are whose; None where nothing is expected.
        spreads: WorkloadSpreads by their targets; None where nothing is expected.
        lacks: workloads that lack pods, to how many, as of when they were last looked at (`foresight.shares`).
        overcounted: workloads whose controllers say that they have more pods than there are, to how many are, likewise.
        odd_budgets: disruption budget to its selector, and what is wrong with that.
        budget_pods: disruption budget to its selector, and the shape of a pod that it covers.
        read: pod templates of buffers as they were read, by what for; each holds as long as the template is the same object.
    """

    def __init__(self, objects: Mapping[str, Mapping[str, JsonObject]] | None = None) -> None:
        self.grid = Grid()
        self.claims = Claims({} if objects is None else objects)
        self.shapes: dict[str, PodShape] = {}
        self.seats: dict[str, PodShape] = {}
        self.pinned: dict[str, set[str]] = {}
        self.waiting: dict[PodKey, None] = {}
        self.untried: dict[PodKey, None] = {}
        self.nominated: dict[PodKey, None] = {}
        self.consumers: dict[RequestKey, dict[PodKey, None]] = {}
        self.machines: dict[str, str] = {}
        self.twins: dict[str, dict[str, None]] = {}
        self.owner: dict[str, NodeGroupId] = {}
        self.busy: dict[str, int] = {}
        self.on_node: dict[str, dict[PodKey, None]] = {}
        self.kind: dict[str, int] = {}
        self.kinds: dict[int, NodeKind] = {}
        self._kind_ids: dict[_Same, int] = {}
        self._alike: dict[int, tuple[_Same, set[str]]] = {}
        self._numbers = count()
        self.uses: dict[str, int] = {}
        self.terminating: dict[str, dict[PodKey, None]] = {}
        self.soft: dict[str, None] = {}
        self.changed: set[str] = set()
        self.owners_changed: set[str] = set()
        self.cards: Cards | None = None
        self.under_way: UnderWay | None = None
        self.counting: Counting | None = None
        self.spreads: Spreads | None = None
        self.lacks: dict[str, int] = {}
        self.overcounted: dict[str, int] = {}
        self.odd_budgets: dict[ObjectKey, tuple[JsonObject | None, str]] = {}
        self.budget_pods: dict[ObjectKey, tuple[JsonObject, str]] = {}
        self.read: dict[tuple[str, BufferKey], Read] = {}
        self.settings = Settings()
        self.warnings: tuple[str, ...] = ()

    def node_changed(self, name: str) -> None:
        """A node, or what is on it, is not as scale-down has read it, if it has."""
        if self.cards is not None:
            self.changed.add(name)

    def owner_changed(self, key: str) -> None:
        """A workload is not as scale-down has read it, if it has."""
        if self.cards is not None:
            self.owners_changed.add(key)

    def count_kind(self, name: str, node: Node) -> None:
        """Remember what limits see in a node: few kinds for thousands of nodes."""
        selected = (key for quota in self.settings.quotas for key in quota.node_selector)
        keys = sorted({*GPU_LABELS, *selected})
        labels = {key: node.labels[key] for key in keys if key in node.labels}
        counts = node.labels.get("type") != "virtual-kubelet"
        same = (tuple(sorted(node.allocatable.items())), tuple(labels.items()), counts)
        number = self._kind_ids.get(same)
        if number is None:
            number = self._kind_ids[same] = next(self._numbers)
            self.kinds[number] = NodeKind(node.allocatable, labels, counts)
            self._alike[number] = (same, set())
        if self.kind.get(name) != number:
            self.forget_kind(name)
            self.kind[name] = number
            self._alike[number][1].add(name)

    def forget_kind(self, name: str) -> None:
        """A node is gone, or of another kind now; kinds without nodes are forgotten."""
        number = self.kind.pop(name, None)
        if number is None:
            return
        same, nodes = self._alike[number]
        nodes.discard(name)
        if not nodes:
            del self.kinds[number], self._kind_ids[same], self._alike[number]

    def use(self, digest: str, by: int) -> None:
        """So many more pods, or pod sets, have a shape."""
        remaining = self.uses.get(digest, 0) + by
        if remaining > 0:
            self.uses[digest] = remaining
        else:
            self.uses.pop(digest, None)
