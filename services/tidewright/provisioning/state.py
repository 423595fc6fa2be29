"""What the decider remembers, and the index that is derived from it.

The state encodes to JSON as it is. The index (nodes as columns, pending pods, consumers) is kept
beside it, follows every change, and is built anew from the state when there is none: after a
snapshot was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.provisioning import Instance, TemplateNode
from tidewright.kube.podshape import PODS, NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.kube.quotascopes import Traits
from tidewright.kube.selectors import Requirement
from tidewright.kube.taints import taints_of
from tidewright.provisioning.backoff import Entry
from tidewright.provisioning.claims import Claims, has_claims
from tidewright.provisioning.helped import expendable, of_daemon_set
from tidewright.provisioning.limits import Learnt
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.saga import Execution
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.spec import consumed_request

MIRROR = "kubernetes.io/config.mirror"
PLACEHOLDER = "tidewright.dev/placeholder"
"""Annotation of pods that hold room for a request: `namespace/name/shape`."""
RESERVED = "tidewright.dev/reservation"
"""Annotation of nodes on which room is kept: `namespace/name until TIME`, of several requests with commas."""


class ShapeFields(msgspec.Struct, frozen=True):
    """A shape as facts say it; parsed once per process."""

    requests: dict[str, int] = {}
    scheduling: JsonObject = {}
    namespace: str = ""
    labels: dict[str, str] = {}
    priority: int = 0


class Pod(msgspec.Struct):
    """A pod, as small as it can be: there are 150,000 of them."""

    shape: str
    node: str = ""
    waiting: bool = False
    """Unschedulable, and nobody has given up on it."""
    daemon: bool = False
    consumes: str = ""
    created_at: float = 0.0
    uid: str = ""
    annotations: dict[str, str] | None = None
    nominated: str = ""
    """The node that the scheduler makes room on for it, by preemption, while it waits."""
    untried_at: float = 0.0
    """When it was first seen, while the scheduler has said nothing about it yet; else 0."""


class Node(msgspec.Struct):
    """A node; the pods on it are known by their own facts.

    Attributes:
        leaving: the object is being deleted.
        doomed: its instance is being deleted at the cloud: nothing new goes there, and it counts no more.
    """

    labels: dict[str, str]
    allocatable: dict[str, int]
    taints: tuple[dict[str, str], ...] = ()
    annotations: dict[str, str] = {}
    unschedulable: bool = False
    ready: bool = False
    ready_changed_at: float = 0.0
    created_at: float = 0.0
    leaving: bool = False
    doomed: bool = False
    provider_id: str = ""
    seen_at: float = 0.0
    group: str = ""

    def view(self, name: str, offers: Mapping[str, int]) -> NodeView:
        """For predicates. A node that is not ready takes no new pods: its replacement is upcoming.

        `offers` are amounts that the node does not tell itself: free devices, attachments.
        """
        return NodeView(
            name=name,
            labels=self.labels,
            taints=taints_of(self.taints),
            allocatable={**self.allocatable, **offers} if offers else self.allocatable,
            unschedulable=self.unschedulable or self.leaving or self.doomed or not self.ready,
        )


class GroupState(msgspec.Struct):
    """A group as the cloud was last seen to say.

    Attributes:
        observed_at: log time of that.
        wanted: the size of the last order; None when the cloud's own number is the truth.
        answered_at: when that order was answered; None while it is not.
        since: unregistered instance to when it was first seen.
        wrong: (registered, target) that disagree, and since when.
        deleting: instances that we asked to delete.
        going: those that the cloud says it is deleting.
        remembered: the last template made from a real node.
    """

    min_size: int = 0
    max_size: int = 0
    target_size: int = 0
    instances: tuple[Instance, ...] = ()
    template: TemplateNode | None = None
    zero_or_max: bool = False
    allow_non_atomic: bool = False
    max_provision_s: float = 0.0
    price_micro: int | None = None
    atomic_increase: bool = False
    autoprovisioned: bool = False
    exists: bool = True
    machine_type: str = ""
    error: str = ""
    observed_at: float = 0.0
    wanted: int | None = None
    answered_at: float | None = None
    since: dict[str, float] = {}
    wrong: tuple[int, int, float] | None = None
    deleting: dict[str, float] = {}
    going: tuple[str, ...] = ()
    remembered: TemplateNode | None = None
    boot_s: float = 0.0

    @property
    def target(self) -> int:
        """The size that holds: what was ordered until the cloud has been seen after the answer."""
        return self.target_size if self.wanted is None else self.wanted


class Load(msgspec.Struct):
    """Nodes on their way, and the pods that each will hold."""

    nodes: int
    pods: dict[str, int]


class Open(msgspec.Struct):
    """A group's open increase.

    Attributes:
        increase: nodes ordered and not settled.
        requested_at: of the latest order; both times start anew with each.
        plans: plan to the nodes that it ordered.
        loads: what they will hold.
    """

    increase: int
    requested_at: float
    plans: dict[str, int] = {}
    loads: list[Load] = []


class QuotaState(msgspec.Struct, frozen=True):
    """A ResourceQuota of a namespace; `scopes` as in `ResourceQuotaObserved`."""

    hard: dict[str, int]
    used: dict[str, int]
    scopes: tuple[JsonObject, ...] = ()


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What quotas look at in the pods of a pod set, besides their requests."""

    traits: Traits = Traits()
    limits: dict[str, int] = {}


class Request(msgspec.Struct):
    """A ProvisioningRequest.

    Attributes:
        spec: as stored when it was first seen; changes after that are ignored.
        sets: (digest, count) per pod set, once accepted; `costs` belong to them.
        domains: of a topology, per pod set the value that its room has, once it has any.
        places: shape to node to the pods that found room there; what is booked stays there while it can.
        parameters: in force.
        last_try, wait_s, attempts: of attempts; times in log seconds.
        plan: of the increase under way on its behalf.
        booked: room is kept since Provisioned turned True.
        rewrite: the last status did not reach the object.
        conflicts: orders in a row that failed because sizes were not as seen.
        awaits: groups with nodes on their way, of others' orders, on which it found room.
        missed: nodes of one of these did not come.
        told: why there was no room, as its user was told last.
        respecified: its spec was changed after it was seen, which is told once and ignored.
    """

    uid: str
    generation: int = 0
    created_at: float = 0.0
    seen_at: float = 0.0
    class_name: str = ""
    spec: JsonObject = {}
    annotations: dict[str, str] = {}
    controlled: bool = False
    deleting: bool = False
    conditions: tuple[Condition, ...] = ()
    details: dict[str, str] = {}
    parameters: dict[str, str] = {}
    accepted: bool = False
    sets: tuple[tuple[str, int], ...] = ()
    costs: tuple[Cost, ...] = ()
    domains: tuple[str, ...] = ()
    places: dict[str, dict[str, int]] = {}
    attempts: int = 0
    last_try: float | None = None
    wait_s: float | None = None
    plan: str = ""
    ordered: bool = False
    booked: bool = False
    rewrite: bool = False
    respecified: bool = False
    conflicts: int = 0
    awaits: tuple[str, ...] = ()
    missed: bool = False
    told: str = ""


class Held(msgspec.Struct):
    """A pod of ours that holds room for one pod of a request on a node.

    Attributes:
        leaving: its deletion was decided.
    """

    request: str
    shape: str
    node: str
    leaving: bool = False


class Mark(msgspec.Struct, frozen=True):
    """What a node's annotation was ordered to say (empty: nothing), while the node has not been seen since."""

    value: str
    decision: str


class Reported(msgspec.Struct):
    """What the status ConfigMap was last told.

    Attributes:
        since: part to its status and the log time since when it has been so.
    """

    digest: str = ""
    at: float = 0.0
    since: dict[str, tuple[str, float]] = {}


class State(msgspec.Struct, dict=True):
    """Everything that provisioning knows about one cluster.

    Attributes:
        now: greatest log time seen.
        due: when the evaluation timer fires; None when it is not set.
        first_wake, last_wake: of what has come since the last evaluation.
        declined: shape to the reasons that were last recorded for it.
        objects: kind to `namespace/name` (or name) to what is kept of objects that placement looks at.
        held: placeholders by name, from the decision to make them until they are gone.
        marks: node to the annotation that was ordered for it, until the node is seen again.
        said: pod to the reason of the last event about it; reason of a standing event to its message.
        said_at: reason of a standing event to the log time of its last telling.
        counts, histograms: see `counts`.
        evaluated_at: log time of the last evaluation.
    """

    now: float = 0.0
    config: JsonObject = {}
    priorities: dict[str, list[str]] | None = None
    pods: dict[str, Pod] = {}
    shapes: dict[str, ShapeFields] = {}
    nodes: dict[str, Node] = {}
    groups: dict[str, GroupState] = {}
    open: dict[str, Open] = {}
    backoff: dict[str, Entry] = {}
    learnt: dict[str, Learnt] = {}
    requests: dict[str, Request] = {}
    held: dict[str, Held] = {}
    marks: dict[str, Mark] = {}
    classes: dict[str, dict[str, str]] = {}
    templates: dict[str, JsonObject] = {}
    daemons: dict[str, JsonObject] = {}
    quotas: dict[str, QuotaState] = {}
    objects: dict[str, dict[str, JsonObject]] = {}
    executions: dict[str, Execution] = {}
    orders: dict[str, tuple[str, str]] = {}
    idle: dict[str, float] = {}
    last_scale_up: float | None = None
    due: float | None = None
    first_wake: float | None = None
    last_wake: float | None = None
    woken: bool = False
    evaluating: bool = False
    touched: tuple[str, ...] = ()
    declined: dict[str, str] = {}
    said: dict[str, str] = {}
    said_at: dict[str, float] = {}
    counts: dict[str, float] = {}
    histograms: dict[str, list[float]] = {}
    evaluated_at: float = 0.0
    reported: Reported = msgspec.field(default_factory=Reported)


class NodeKind(msgspec.Struct, frozen=True):
    """What limits look at in a node; labels are those that some quota selects by."""

    allocatable: dict[str, int]
    labels: dict[str, str]
    counts: bool


class Index:
    """What is derived from the state, changed along with it.

    Attributes:
        grid: nodes and the pods on them.
        waiting: pods that may need room, in the order in which they came.
        untried: pods about which the scheduler has said nothing yet.
        nominated: pods that wait for room that the scheduler makes for them.
        consumers: request to its pods that are on a node.
        machines: provider id to node.
        owner: provider id to group.
        busy: node to its pods other than DaemonSet and mirror pods.
        kind: node to the kind of nodes that it is of, as limits see them.
        kinds: those kinds, each once.
        seats: of shapes with claims, how they count where they are: see `claims`.
    """

    def __init__(self, objects: Mapping[str, Mapping[str, JsonObject]] | None = None) -> None:
        self.grid = Grid()
        self.claims = Claims({} if objects is None else objects)
        self.shapes: dict[str, PodShape] = {}
        self.seats: dict[str, PodShape] = {}
        self.pinned: dict[str, set[str]] = {}
        self.waiting: dict[str, None] = {}
        self.untried: dict[str, None] = {}
        self.nominated: dict[str, None] = {}
        self.consumers: dict[str, dict[str, None]] = {}
        self.machines: dict[str, str] = {}
        self.owner: dict[str, str] = {}
        self.busy: dict[str, int] = {}
        self.on_node: dict[str, dict[str, None]] = {}
        self.kind: dict[str, int] = {}
        self.kinds: list[NodeKind] = []
        self._kind_ids: dict[tuple[Any, ...], int] = {}
        self.settings = Settings()
        self.warnings: tuple[str, ...] = ()

    def count_kind(self, name: str, node: Node) -> None:
        """Remember what limits see in a node: few kinds for thousands of nodes."""
        keys = sorted({key for quota in self.settings.quotas for key in quota.node_selector})
        labels = {key: node.labels[key] for key in keys if key in node.labels}
        counts = node.labels.get("type") != "virtual-kubelet"
        same = (tuple(sorted(node.allocatable.items())), tuple(labels.items()), counts)
        number = self._kind_ids.get(same)
        if number is None:
            number = self._kind_ids[same] = len(self.kinds)
            self.kinds.append(NodeKind(node.allocatable, labels, counts))
        self.kind[name] = number


def index_of(state: State) -> Index:
    """The state's index; built when there is none."""
    found = state.__dict__.get("index")
    if not isinstance(found, Index):
        found = _built(state)
        state.__dict__["index"] = found
    return found


def _built(state: State) -> Index:
    from tidewright.provisioning import settings

    index = Index(state.objects)
    index.settings, index.warnings = settings.read(state.config)
    if state.priorities is not None:
        index.settings = msgspec.structs.replace(index.settings, priorities=state.priorities)
    for name, group in state.groups.items():
        index.owner.update(dict.fromkeys((i.id for i in group.instances), name))
    for name, node in state.nodes.items():
        add_node(state, index, name, node)
    for key, pod in state.pods.items():
        add_pod(state, index, key, pod)
    return index


def pinned_digest(digest: str, key: str, value: str) -> str:
    """Names a shape whose nodes all have one value of a label."""
    return f"{digest}@{key}={value}"


def domain_of(digest: str) -> str:
    """The value that a shape is pinned to; empty for one that is not."""
    return digest.partition("@")[2].partition("=")[2]


def shape_of(state: State, index: Index, digest: str) -> PodShape:
    """A shape by its digest; one that no fact has told of holds nothing and goes nowhere."""
    found = index.shapes.get(digest)
    if found is None:
        plain, pinned, domain = digest.partition("@")
        if pinned:
            key, _, value = domain.partition("=")
            base = shape_of(state, index, plain)
            index.pinned.setdefault(plain, set()).add(digest)
            found = msgspec.structs.replace(
                base,
                digest=digest,
                selector=(*base.selector, Requirement(key, "In", frozenset({value}))),
            )
        else:
            fields = state.shapes.get(digest)
            if fields is None:
                return PodShape(digest=digest, error="its shape has not been told")
            found = resolved(index, _told(fields, digest), fields.scheduling)
        index.shapes[digest] = found
    return found


def _told(fields: ShapeFields, digest: str) -> PodShape:
    return of_fields(
        requests=fields.requests,
        scheduling=fields.scheduling,
        namespace=fields.namespace,
        labels=fields.labels,
        priority=fields.priority,
        digest=digest,
    )


def resolved(index: Index, shape: PodShape, scheduling: JsonObject) -> PodShape:
    """A shape with what its claims come to, and the namespaces that its terms select."""
    return index.claims.resolve(_spaced(index, shape, scheduling), scheduling)


def _spaced(index: Index, shape: PodShape, scheduling: JsonObject) -> PodShape:
    spaces = index.claims.spaces(scheduling, shape.digest)
    if spaces is None or shape.error:
        return shape
    return of_fields(
        requests={name: amount for name, amount in shape.requests.items() if name != PODS},
        scheduling={name: value for name, value in scheduling.items() if name != "volumes"},
        namespace=shape.namespace,
        labels=shape.labels,
        priority=shape.priority,
        digest=shape.digest,
        spaces=spaces,
    )


class Awaited(NamedTuple):
    """Devices that the nodes of a group have: extended resources, and drivers of dynamic allocation."""

    resources: tuple[str, ...]
    drivers: frozenset[str]


def awaited(group: GroupState | None) -> Awaited | None:
    """What of a group's nodes comes some time after them; None when nothing does."""
    told = [t for t in (group.template, group.remembered) if t is not None] if group is not None else []
    found = Awaited(
        tuple({n: None for t in told for n, many in t.allocatable.items() if many and n.endswith("/gpu")}),
        frozenset(d.get("driver", "") for t in told for d in t.devices),
    )
    return found if any(found) else None


def unripe(index: Index, name: str, node: Node, wanted: Awaited | None) -> bool:
    """Whether a node lacks devices that the nodes of its group have: it counts as not ready. Spec 3.2, 1."""
    if wanted is None:
        return False
    if any(not node.allocatable.get(resource) for resource in wanted.resources):
        return True
    return bool(wanted.drivers) and not index.claims.drivers_of(name) >= wanted.drivers


def seat_of(state: State, index: Index, digest: str) -> PodShape:
    """How a pod of a shape counts on the node that it is on."""
    fields = state.shapes.get(digest)
    if fields is None or not has_claims(fields.scheduling):
        return shape_of(state, index, digest)
    found = index.seats.get(digest)
    if found is None:
        base = _spaced(index, _told(fields, digest), fields.scheduling)
        found = index.seats[digest] = index.claims.seated(base, fields.scheduling)
    return found


def add_node(state: State, index: Index, name: str, node: Node) -> None:
    """Take a node into the index. One whose devices have not come yet takes no pods, like one that is not ready."""
    view = node.view(name, index.claims.offers(name, node.labels))
    if unripe(index, name, node, awaited(state.groups.get(node.group))):
        view = msgspec.structs.replace(view, unschedulable=True)
    index.grid.add_node(view)
    index.count_kind(name, node)
    if node.provider_id:
        index.machines[node.provider_id] = name


def remove_node(index: Index, name: str, node: Node) -> None:
    index.grid.remove_node(name)
    index.kind.pop(name, None)
    if index.machines.get(node.provider_id) == name:
        del index.machines[node.provider_id]


def add_pod(state: State, index: Index, key: str, pod: Pod) -> None:
    """Take a pod into the index: it waits, or it sits somewhere."""
    if pod.waiting:
        index.waiting[key] = None
    if pod.untried_at:
        index.untried[key] = None
    if pod.nominated:
        index.nominated[key] = None
    if not pod.node:
        return
    index.on_node.setdefault(pod.node, {})[key] = None
    if not pod.daemon:
        index.busy[pod.node] = index.busy.get(pod.node, 0) + 1
    if pod.consumes:
        index.consumers.setdefault(pod.consumes, {})[key] = None
    row = index.grid.rows.get(pod.node)
    if row is not None and holds_room(state, index, pod):
        index.grid.put(seat_of(state, index, pod.shape), row)


def remove_pod(state: State, index: Index, key: str, pod: Pod) -> None:
    """Undo `add_pod`."""
    index.waiting.pop(key, None)
    index.untried.pop(key, None)
    index.nominated.pop(key, None)
    if not pod.node:
        return
    index.on_node.get(pod.node, {}).pop(key, None)
    if not pod.daemon:
        left = index.busy.get(pod.node, 0) - 1
        if left > 0:
            index.busy[pod.node] = left
        else:
            index.busy.pop(pod.node, None)
    if pod.consumes:
        index.consumers.get(pod.consumes, {}).pop(key, None)
    row = index.grid.rows.get(pod.node)
    if row is not None and holds_room(state, index, pod):
        index.grid.put(seat_of(state, index, pod.shape), row, -1)


def doom(state: State, index: Index, group: GroupState) -> None:
    """Mark the nodes of a group whose instances are being deleted, by our order or not."""
    going = {*group.deleting, *group.going}
    for instance in group.instances:
        name = index.machines.get(instance.id, "")
        node = state.nodes.get(name)
        gone = instance.id in going
        if node is not None and node.doomed != gone:
            node.doomed = gone
            add_node(state, index, name, node)


def reseat(state: State, index: Index, node: str) -> None:
    """Put the pods that were told of before their node onto it."""
    row = index.grid.rows[node]
    for key in index.on_node.get(node, {}):
        pod = state.pods[key]
        if holds_room(state, index, pod):
            index.grid.put(seat_of(state, index, pod.shape), row)


def holds_room(state: State, index: Index, pod: Pod) -> bool:
    """Expendable pods hold no room. Their priority is their shape's."""
    fields = state.shapes.get(pod.shape)
    return fields is None or not expendable(fields.priority, index.settings.expendable_cutoff)


def pod_of(fact: Any) -> Pod:
    """A pod as it is remembered, from a PodObserved."""
    controller = next((o for o in fact.owners if o.controller), None)
    kind = controller.kind if controller is not None else ""
    annotations = {
        name: value
        for name, value in fact.annotations.items()
        if name.startswith(("autoscaling.x-k8s.io/", "cluster-autoscaler.kubernetes.io/"))
    }
    request = consumed_request(annotations)
    pending = not fact.node and fact.deleting_at is None and fact.phase == "Pending"
    return Pod(
        shape=fact.shape,
        node=fact.node,
        waiting=pending and fact.unschedulable_since is not None,
        untried_at=fact.at if pending and fact.unschedulable_since is None else 0.0,
        nominated=fact.nominated if pending else "",
        daemon=of_daemon_set(kind, annotations) or kind == "Node" or MIRROR in fact.annotations,
        consumes=f"{fact.namespace}/{request}" if request else "",
        created_at=fact.created_at or fact.at,
        uid=fact.uid,
        annotations=annotations or None,
    )
