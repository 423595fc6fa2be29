"""What the decider remembers. It encodes to JSON as it is; what is derived from it is the index (`index`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.events.acting import Acting
from tidewright.events.base import JsonObject
from tidewright.events.facts import Removal as RemovalFields
from tidewright.events.provisioning import NO_SETTINGS, GroupSettings, Instance, TemplateNode
from tidewright.kube.keys import NO_REQUEST, BufferKey, ObjectKey, PodKey, RequestKey, request_key
from tidewright.kube.podshape import NodeView
from tidewright.kube.quotascopes import Traits
from tidewright.kube.taints import taints_of
from tidewright.provisioning.buffers.kept import Buffer, HeldChunk, TemplateMeta
from tidewright.provisioning.cluster.backoff import Entry
from tidewright.provisioning.cluster.limits import Learnt
from tidewright.provisioning.consolidation.kept import Kept
from tidewright.provisioning.foresight.kept import Foreseen, Form, Scaling, Spreading, Workload
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.pending.helped import of_daemon_set
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import consumed_request, consumes
from tidewright.provisioning.scaledown.removal.saga import Removal, Stuck
from tidewright.provisioning.scaleup.saga import Execution
from tidewright.provisioning.unanswered import Order

if TYPE_CHECKING:
    from tidewright.provisioning.index.index import Index

MIRROR = "kubernetes.io/config.mirror"
PLACEHOLDER = "tidewright.dev/placeholder"
"""Annotation of pods that hold room for a request: `namespace/name/shape`."""
RESERVED = "tidewright.dev/reservation"
"""Annotation of nodes on which room is kept: `namespace/name until TIME`, of several requests with commas."""


class ShapeFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shape as facts say it; parsed once per process.

    Attributes:
        told: some pod has it, says the watcher; a request's shape may be known before any pod's.
    """

    requests: dict[str, int] = {}
    scheduling: JsonObject = {}
    namespace: str = ""
    labels: dict[str, str] = {}
    priority: int = 0
    told: bool = True


class Controller(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod is made by: the owner that controls it. Pods of one controller share it."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""


class Pod(msgspec.Struct, gc=False, omit_defaults=True):
    """A pod, as small as it can be: there are 150,000 of them. It refers to nothing that could refer to it."""

    shape: str
    node: str = ""
    waiting: bool = False
    """Unschedulable, and nobody has given up on it."""
    daemon: bool = False
    consumes: RequestKey = NO_REQUEST
    created_at: float = 0.0
    uid: str = ""
    annotations: dict[str, str] | None = None
    nominated: str = ""
    """The node that the scheduler makes room on for it, by preemption, while it waits."""
    untried_at: float = 0.0
    """When it was first seen, while the scheduler has said nothing about it yet; else 0."""
    removal: RemovalFields | None = None
    """What rules about removing it ask for; None while that is unknown, and with it the two below."""
    controller: Controller | None = None
    deleting_at: float | None = None


class Node(msgspec.Struct):
    """A node; the pods on it are known by their own facts.

    Attributes:
        leaving: the object is being deleted.
        doomed: its instance is being deleted at the cloud: nothing new goes there, and it counts no more.
        delays: names of annotations that ask to wait with the deletion of its instance; None while that is
            unknown, and with it `uid`.
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
    group: NodeGroupId = NO_GROUP
    delays: tuple[str, ...] | None = None
    uid: str = ""

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


class Pattern(msgspec.Struct, frozen=True):
    """What a good node of a group looked like when it was last good, and for how long it had been ready."""

    template: TemplateNode
    ready_s: float


class CloudState(msgspec.Struct, frozen=True):
    """A cloud as the watcher last told of it; see `CloudObserved`."""

    kind: str = ""
    state: str = ""
    error: str = ""
    message: str = ""
    refreshed: float = 0.0


class Rest(msgspec.Struct, frozen=True):
    """Why a group is left alone: the answer to an order was lost, and what it came to is not known yet.

    Attributes:
        since: log time of that; what was read before says nothing about it.
        size: what the last look since then has shown.
        seen: looks in a row that have.
    """

    since: float
    size: int = 0
    seen: int = 0


class GroupState(msgspec.Struct):
    """A group as the cloud was last seen to say.

    Attributes:
        cloud: name of the cloud; empty of one from before there were several.
        error, message: why it cannot be read, as a class and in words; empty when it can.
        rest: it is left alone until this is over.
        observed_at: log time of that.
        wanted: the size of the last order; None when the cloud's own number is the truth.
        answered_at: when that order was answered; None while it is not.
        since: unregistered instance to when it was first seen.
        wrong: (registered, target) that disagree, and since when.
        deleting: instances that we asked to delete.
        going: those that the cloud says it is deleting.
        refused_until: before it no instance that came to nothing is asked to be deleted, since that was refused.
        refused_s: for how long it was left alone so the last time.
        initial: the size that it is to begin with; 0 once it has been ordered, or was there.
        patterns: the last good node that went, or is good no more; behind it the one that was good for longest.
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
    patterns: tuple[Pattern, ...] = ()
    boot_s: float = 0.0
    cloud: str = ""
    rest: Rest | None = None
    message: str = ""
    refused_until: float = 0.0
    refused_s: float = 0.0
    own: GroupSettings = NO_SETTINGS
    ignored: tuple[str, ...] = ()
    initial: int = 0

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


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget, as `PodDisruptionBudgetObserved` has it."""

    selector: JsonObject | None
    allowed: int
    behind: bool = False
    unhealthy_always: bool = False
    at: float = 0.0


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
        ordered: nodes are ordered for all of it. In the profile `hold` it is provisioned when they are ready.
        conflicts: orders in a row that failed because sizes were not as seen.
        seen_late: the last order failed so, and it has not been tried since.
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
    seen_late: bool = False
    awaits: tuple[NodeGroupId, ...] = ()
    missed: bool = False
    told: str = ""


class Unneeded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that nobody needs, as it was last recorded; see `UnneededNode`."""

    since: float
    moves: dict[PodKey, str] = {}
    waits: bool = False
    risky: bool = False
    due: float | None = None
    delayed: str = ""


class Paused(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that is not looked at for a while; see `PausedNode`.

    Attributes:
        changes: `Scan.changes` when it was: while that is the same a pass finds the same, unless time alone matters.
    """

    until: float
    reason: str
    pod: str = ""
    pod_reason: str = ""
    changes: int = -1

    def holds(self, scan: Scan, now: float) -> bool:
        """Whether what was found of the node is still the last word."""
        return self.until > now or self.changes == scan.changes


class Lately(msgspec.Struct):
    """When nodes of a group were last ordered, last began to go, and last failed to; log times.

    Attributes:
        deleted, refused: when its cloud said last that it deletes instances as it was asked, and that it does not.
    """

    add: float | None = None
    delete: float | None = None
    failure: float | None = None
    deleted: float | None = None
    refused: float | None = None


class Scan(msgspec.Struct):
    """Passes of scale-down.

    Attributes:
        told: some node was told of with what rules about removing nodes ask for.
        due: when the timer fires that has nodes looked at; None when it is not set.
        at: when it fired last.
        fired: how often it has.
        before: nodes that were unneeded when a pass began that goes on; None when none does.
        changes: how often something came after which a pass may find something else.
        part: of a pass that goes on, which part was made last, counted since it began or began anew; 0: it begins anew.
        began: when its first part was made, or the first since it began anew.
        restarts: how often it began anew, since something came.
        skipped: nodes that passes do not get to, where that is recorded, to when the first one did not.
    """

    told: bool = False
    due: float | None = None
    at: float | None = None
    fired: int = 0
    before: int | None = None
    changes: int = 0
    part: int = 0
    began: float | None = None
    restarts: int = 0
    skipped: dict[str, float] = {}


class Held(msgspec.Struct):
    """A pod of ours that holds room for one pod of a request on a node.

    Attributes:
        leaving: its deletion was decided.
        refused_at: when its node was seen not to take it, for want of room as a rule.
    """

    request: RequestKey
    shape: str
    node: str
    leaving: bool = False
    refused_at: float | None = None


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


class Beside:
    """What is kept beside the state, and is no part of it: it is worked out anew when it is not there."""

    index: Index | None = None


class State(msgspec.Struct, dict=True):
    """Everything that provisioning knows about one cluster.

    Attributes:
        now: greatest log time seen.
        due: when the evaluation timer fires; None when it is not set.
        burst_at: when something came that set it.
        woken_at: when the first thing came after that for which it was set already.
        last_wake: when something came last that an evaluation may answer.
        woken: something did since the timer was set, or fired.
        declined: shape to the reasons that were last recorded for it.
        begun: groups that had a size to begin with, and had it or were ordered it; also when they are gone: they may come back.
        objects: kind to `namespace/name` (or name) to what is kept of objects that placement looks at.
        removals: nodes on their way out.
        removals_due: when the timer fires that has them looked at; None when it is not set.
        unmarking: node to the decision, without an outcome yet, to take our mark off it.
        softening: the same for the soft taint, on or off.
        left: node to when that is tried again, where it failed.
        stuck: those of them where it was refused.
        replicas: workload (`owner_key`) to the number of pods that it wants, of kinds that rules about
            removing pods know.
        workloads: what makes pods, by `owner_key`.
        forms: digest of their templates to what is kept of them.
        scalings: workload to the decision to scale it of which nothing is seen yet.
        came_s: kind of workload to how long it has taken its pods to come, of late.
        unread: kinds of workloads, as `Kind.group`, to why their objects may not be read, as spread's whitelist has them.
        unread_scaled: the same, as autoscalers scale them.
        spreads: WorkloadSpreads, by namespace and name.
        subsets: pods that one of them has put somewhere, to its name and that of the subset.
        foreseen: workload to what was ordered for pods of it before they were there.
        template_meta: of the PodTemplates in `templates` what buffers ask for, where it was told.
        held: placeholders by name, from the decision to make them until they are gone.
        held_chunks: the same for those that hold a chunk of a buffer.
        buffers_looked_at: log time of the last evaluation while there were buffers.
        marks: node to the annotation that was ordered for it, until the node is seen again.
        orders: decision that waits for its outcome to what it was about.
        said: pod to the reason of the last event about it; workload (`owner_key`) to what was last told of its pods that
            are to come; reason of a standing event to its message.
        said_at: reason of a standing event to the log time of its last telling.
        counts, histograms: see `counts`.
        consolidating: what consolidation remembers, while some group has it.
        acting: the modes in force.
    """

    now: float = 0.0
    config: JsonObject = {}
    priorities: dict[str, list[str]] | None = None
    pods: dict[PodKey, Pod] = {}
    shapes: dict[str, ShapeFields] = {}
    nodes: dict[str, Node] = {}
    clouds: dict[str, CloudState] = {}
    groups: dict[NodeGroupId, GroupState] = {}
    open: dict[NodeGroupId, Open] = {}
    backoff: dict[NodeGroupId, Entry] = {}
    learnt: dict[NodeGroupId, Learnt] = {}
    begun: dict[NodeGroupId, None] = {}
    requests: dict[RequestKey, Request] = {}
    held: dict[PodKey, Held] = {}
    buffers: dict[BufferKey, Buffer] = {}
    held_chunks: dict[PodKey, HeldChunk] = {}
    buffers_looked_at: float = 0.0
    marks: dict[str, Mark] = {}
    classes: dict[str, dict[str, str]] = {}
    templates: dict[ObjectKey, JsonObject] = {}
    template_meta: dict[ObjectKey, TemplateMeta] = {}
    daemons: dict[ObjectKey, JsonObject] = {}
    quotas: dict[ObjectKey, QuotaState] = {}
    removals: dict[str, Removal] = {}
    removals_due: float | None = None
    unmarking: dict[str, str] = {}
    softening: dict[str, str] = {}
    left: dict[str, float] = {}
    stuck: dict[str, Stuck] = {}
    budgets: dict[ObjectKey, Budget] = {}
    replicas: dict[str, int] = {}
    workloads: dict[str, Workload] = {}
    forms: dict[str, Form] = {}
    scalings: dict[str, Scaling] = {}
    came_s: dict[str, float] = {}
    foreseen: dict[str, Foreseen] = {}
    unread: dict[str, str] = {}
    unread_scaled: dict[str, str] = {}
    spreads: dict[ObjectKey, Spreading] = {}
    subsets: dict[PodKey, str] = {}
    objects: dict[str, dict[str, JsonObject]] = {}
    executions: dict[str, Execution] = {}
    orders: dict[str, Order] = {}
    idle: dict[str, float] = {}
    unneeded: dict[str, Unneeded] = {}
    paused: dict[str, Paused] = {}
    scan: Scan = msgspec.field(default_factory=Scan)
    lately: dict[NodeGroupId, Lately] = {}
    lately_of_gone: Lately | None = None
    last_scale_up: float | None = None
    due: float | None = None
    burst_at: float | None = None
    woken_at: float | None = None
    last_wake: float | None = None
    woken: bool = False
    declined: dict[str, str] = {}
    said: dict[str, str] = {}
    said_at: dict[str, float] = {}
    counts: dict[str, float] = {}
    histograms: dict[str, list[float]] = {}
    reported: Reported = msgspec.field(default_factory=Reported)
    consolidating: Kept = msgspec.field(default_factory=Kept)
    acting: Acting = msgspec.field(default_factory=Acting)

    @cached_property
    def beside(self) -> Beside:
        return Beside()


def owner_key(kind: str, namespace: str, name: str) -> str:
    """The key of a workload in `State.replicas`."""
    return f"{kind}/{namespace}/{name}"


_KEPT = ("autoscaling.x-k8s.io/", "cluster-autoscaler.kubernetes.io/")
_KEPT_FOR_REMOVAL = (*_KEPT, "karpenter.sh/")


@lru_cache(maxsize=8192)
def _shared(value: RemovalFields | Controller) -> Any:
    """Of equal values always the same object: pods of one workload have theirs in common."""
    return value


def pod_of(fact: Any) -> Pod:
    """A pod as it is remembered, from a PodObserved.

    Thousands of pods have the name of a shape, and of a node, in common: one text for all of them.
    """
    controller = next((o for o in fact.owners if o.controller), None) if fact.owners else None
    kind = controller.kind if controller is not None else ""
    removal = fact.removal
    annotations = _kept(fact.annotations, _KEPT if removal is None else _KEPT_FOR_REMOVAL)
    pending = not fact.node and fact.deleting_at is None and fact.phase == "Pending"
    pod = Pod(
        shape=intern(fact.shape),
        node=intern(fact.node),
        waiting=pending and fact.unschedulable_since is not None,
        untried_at=fact.at if pending and fact.unschedulable_since is None else 0.0,
        nominated=fact.nominated if pending else "",
        daemon=of_daemon_set(kind, annotations) or kind == "Node" or MIRROR in fact.annotations,
        consumes=request_key(fact.namespace, consumed_request(annotations))
        if consumes(annotations)
        else NO_REQUEST,
        created_at=fact.created_at or fact.at,
        uid=fact.uid,
        annotations=annotations or None,
    )
    # Of a watcher that did not tell all that rules about removing a pod ask for nothing is kept, although it told some:
    # a state that was stored before it was looked at has nothing of it either, and the two are to be the same.
    if removal is not None:
        pod.removal = _shared(removal)
        pod.deleting_at = fact.deleting_at
        if controller is not None:
            by = Controller(controller.kind, controller.name, controller.api_version, controller.uid)
            pod.controller = _shared(by)
    return pod


def _kept(annotations: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Annotations whose names begin so."""
    if not annotations:  # as of most pods
        return {}
    return {name: value for name, value in annotations.items() if name.startswith(prefixes)}
