"""Events of provisioning: requests, templates, node groups; and what provisioning decides about them.

Facts come first. Effects on groups have `cloud/v1` NodeGroup objects as targets, named by the group's id; the other decisions
are records, and name what they are about in fields `group`, or `namespace` and `name`, where it is one such object.

Amounts are as in `ShapeObserved.requests`: `cpu` in milli-cores, `memory` and `ephemeral-storage` in
bytes, anything else as a count.
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import Effect
from tidewright.events.facts import ObjectFact, Owner, ResourceFact

ANSWER_LOST = "Unknown"
"""Reason of `Failed` for an order whose answer was lost, at a cloud that must not be asked twice."""


class ProvisioningRequestObserved(
    ResourceFact, frozen=True, kw_only=True, tag="fact.provisioning-request-observed.v1"
):
    """A ProvisioningRequest (`autoscaling.x-k8s.io/v1`), read through v1 whatever it was written as.

    Attributes:
        controlled: it has a controller owner that still exists (Kueue's workload, for instance).
    """

    controlled: bool = False


class ProvisioningRequestGone(ObjectFact, frozen=True, kw_only=True, tag="fact.provisioning-request-gone.v1"):
    """A ProvisioningRequest was deleted: it is cancelled."""


class ProvisioningClassObserved(
    ResourceFact, frozen=True, kw_only=True, tag="fact.provisioning-class-observed.v1"
):
    """A cluster-scoped ProvisioningClass: preset parameters for requests that name it."""


class ProvisioningClassGone(ObjectFact, frozen=True, kw_only=True, tag="fact.provisioning-class-gone.v1"):
    """A ProvisioningClass is no longer there."""


class CapacityBufferObserved(ResourceFact, frozen=True, kw_only=True, tag="fact.capacity-buffer-observed.v1"):
    """A CapacityBuffer (`autoscaling.x-k8s.io/v1beta1`), whatever version it was written as."""


class CapacityBufferGone(ObjectFact, frozen=True, kw_only=True, tag="fact.capacity-buffer-gone.v1"):
    """A CapacityBuffer was deleted: its room is kept no longer."""


class PodTemplateObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.pod-template-observed.v1"):
    """A core `v1` PodTemplate.

    Attributes:
        template: its `template` as stored (`metadata` and `spec` of a pod), whole: the shard manager
            makes pods of it.
        resource_version: of the object; propeller fleets carry it in an annotation of every pod.
        generation: of the object, 0 where a watcher of before did not say.
        owners: of a template that is kept for a CapacityBuffer.
    """

    template: JsonObject = {}
    resource_version: str = ""
    generation: int = 0
    owners: tuple[Owner, ...] = ()


class PodTemplateGone(ObjectFact, frozen=True, kw_only=True, tag="fact.pod-template-gone.v1"):
    """A PodTemplate is no longer there."""


class DaemonSetObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.daemon-set-observed.v1"):
    """A DaemonSet: its pods take room on every new node that they tolerate.

    Attributes:
        template: as in `PodTemplateObserved`.
    """

    template: JsonObject = {}


class DaemonSetGone(ObjectFact, frozen=True, kw_only=True, tag="fact.daemon-set-gone.v1"):
    """A DaemonSet is no longer there."""


class ResourceQuotaObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.resource-quota-observed.v1"):
    """A namespace's ResourceQuota.

    Attributes:
        hard: resource name as in the object (`requests.cpu`, `pods`) to the limit; cpu in milli-cores.
        used: the same for what is used.
        scopes: conditions on the pods that it means, all of which hold: `{scopeName, operator, values}`
            as in a `scopeSelector`; empty for all pods.
    """

    hard: dict[str, int] = {}
    used: dict[str, int] = {}
    scopes: tuple[JsonObject, ...] = ()


class ResourceQuotaGone(ObjectFact, frozen=True, kw_only=True, tag="fact.resource-quota-gone.v1"):
    """A ResourceQuota is no longer there."""


class PodDisruptionBudgetObserved(
    ObjectFact, frozen=True, kw_only=True, tag="fact.pod-disruption-budget-observed.v1"
):
    """A PodDisruptionBudget (`policy/v1`).

    Attributes:
        selector: of pods in its namespace, as it is stored; an empty one matches all, None (absent) none.
        allowed: `status.disruptionsAllowed`: so many of them may be evicted now.
        behind: its status is of an earlier spec: until it is not, evictions are refused.
        unhealthy_always: pods that run and are not ready may be evicted whatever it allows.
    """

    selector: JsonObject | None = None
    allowed: int = 0
    behind: bool = False
    unhealthy_always: bool = False


class PodDisruptionBudgetGone(
    ObjectFact, frozen=True, kw_only=True, tag="fact.pod-disruption-budget-gone.v1"
):
    """A PodDisruptionBudget is no longer there."""


class TemplateNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An empty node as it would join a group.

    Attributes:
        capacity: when empty, the same as `allocatable`.
        taints: `{key, value, effect}`.
        devices: those that its drivers offer, as in a ResourceSlice: `{driver, name, attributes, capacity}`;
            counters of theirs are an entry of their own, `{driver, sharedCounters}`; `pool` where a driver has several.
        pods: static pods that every such node runs, as scheduling looks at them (`metadata`, `spec`).
    """

    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    allocatable: dict[str, int] = {}
    capacity: dict[str, int] = {}
    devices: tuple[JsonObject, ...] = ()
    pods: tuple[JsonObject, ...] = ()


class Instance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine of a group, as the cloud reports it.

    Attributes:
        id: equals the node's `spec.providerID`.
        state: `running`, `creating`, `deleting`, or empty when the cloud does not say.
        error_class: 0 none, 1 out of resources (stock-out, quota), 99 other.
    """

    id: str
    state: str = ""
    error_class: int = 0
    error_code: str = ""
    error_message: str = ""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a group has of its own of the settings; None: as the settings say. Times in seconds.

    Attributes:
        unneeded_s, unready_s: `scale-down-unneeded-time`, `scale-down-unready-time`.
        threshold, gpu_threshold: `scale-down-utilization-threshold`, `scale-down-gpu-utilization-threshold`, from 0 to 1.
        startup_s: `max-node-startup-time`.
        ignore_daemonsets: `ignore-daemonsets-utilization`.
    """

    unneeded_s: float | None = None
    unready_s: float | None = None
    threshold: float | None = None
    gpu_threshold: float | None = None
    startup_s: float | None = None
    ignore_daemonsets: bool | None = None


NO_SETTINGS = GroupSettings()
"""Of a group that has none of its own: this one object, since what is at its default is not written."""


class CloudObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.cloud-observed.v1"):
    """A cloud that node groups are read from. Cluster-scoped: `name` is its name, `namespace` is empty.

    Written by the watcher when its state or error changes; for one whose promise is `delta only` once a minute
    besides, since there the same size seen again is news. Where no cloud is configured, there is one of the name `none`.

    Attributes:
        kind: as in `--cloud NAME=KIND`; empty for none.
        promise: what it makes of a call that comes twice: `key`, `absolute size`, `delta only`.
        state: `ready`; `failing`: what was last read stays in force; `absent`: none is configured.
        error: the class of what it answered instead; empty when it is ready.
        message: the same in its words.
        refreshed: log time of the last time that all its groups were read; 0 before the first.
    """

    kind: str = ""
    promise: str = ""
    state: str = ""
    error: str = ""
    message: str = ""
    refreshed: float = 0.0


class CloudGone(ObjectFact, frozen=True, kw_only=True, tag="fact.cloud-gone.v1"):
    """A cloud is no longer configured, or some is where none was."""


class NodeGroupObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.node-group-observed.v1"):
    """A group of a cloud. Cluster-scoped: `name` is its id, or `CLOUD/ID` where another cloud had a group of
    that id first; `namespace` is empty.

    Attributes:
        cloud: name of the cloud; empty as it was said when there was one.
        id: how the cloud calls it, where that is not `name`.
        min_size, max_size, target_size: nodes. `target_size` counts what is ordered and not there
            yet, and not what is being deleted.
        instances: all machines, also those that have not registered, but for those in `many`.
        many: of large groups: state to the ids of the machines in it that have no error, without
            `prefix`. A message has a largest size; so a group of 40,000 machines takes less than a
            megabyte. `machines` has all of them.
        prefix: what the ids in `many` begin with.
        template: None: the group cannot grow from zero.
        zero_or_max: it has either no node or all of them.
        allow_non_atomic: a zero-or-max group that may be filled bit by bit.
        max_provision_s: overrides `max-node-provision-time`, seconds; 0 for the default.
        price_micro: price of one node hour in millionths of the currency; None: unknown.
        atomic_increase: the cloud can order all nodes or none in one call.
        autoprovisioned: the group was made by us and goes when it is empty.
        exists: False for a group that could be made (a candidate of auto-provisioning).
        machine_type: name of the machine shape, where the cloud has one.
        zone: where all its nodes are, empty when it spans several.
        error: it could not be read, and this is why; the sizes are then the last known ones.
        message: the same in words: what of it is wrong, and what would help.
        own: settings that it has of its own, by tags, annotations or what its cloud says.
        initial: the size that it is to begin with, where nobody at its cloud orders that.
        ignored: what is said of it and cannot be read, which is taken as not said: each with what would be valid.
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
    zone: str = ""
    error: str = ""
    many: dict[str, tuple[str, ...]] = {}
    prefix: str = ""
    cloud: str = ""
    id: str = ""
    message: str = ""
    own: GroupSettings = NO_SETTINGS
    ignored: tuple[str, ...] = ()
    initial: int = 0

    @property
    def machines(self) -> tuple[Instance, ...]:
        """All machines, however they are written."""
        rest = (
            Instance(id=f"{self.prefix}{ending}", state=state)
            for state, endings in self.many.items()
            for ending in endings
        )
        return (*self.instances, *rest)


class NodeGroupGone(ObjectFact, frozen=True, kw_only=True, tag="fact.node-group-gone.v1"):
    """A group is no longer there."""


class IncreaseNodeGroup(Effect, frozen=True, kw_only=True, tag="decision.increase-node-group.v1"):
    """Set a group's target size to `size`, which is larger than it was.

    Applied (`found` when the group already wants that many), or Rejected with reason `OutOfCapacity`,
    `QuotaExceeded`, `NotFound`, `Conflict`, or Failed; with reason `Unknown` where the answer of a cloud that only
    adds (`delta only`) was lost: it is not asked again. A group that meanwhile wants another number
    than `from_size` or `size` is left alone: `Rejected` with reason `Conflict`.

    Attributes:
        size: the wanted target size in nodes, absolute.
        from_size: the target size that the decision was made on.
        atomic: all or nothing at the cloud, where it can; else the ordinary increase.
        plan: id of the plan that this is a part of.
        request: `namespace/name` of the request on whose behalf, empty for pending pods.
    """

    size: int
    from_size: int
    atomic: bool = False
    plan: str = ""
    request: str = ""


class DecreaseNodeGroup(Effect, frozen=True, kw_only=True, tag="decision.decrease-node-group.v1"):
    """Take back orders that are not fulfilled: set the target size to `size`. Deletes no node.

    The cloud may know of more instances than were seen; then as much is taken back as is unfulfilled,
    and the outcome's result says `size`.
    """

    size: int
    from_size: int
    plan: str = ""


class DeleteInstances(Effect, frozen=True, kw_only=True, tag="decision.delete-instances.v1"):
    """Delete these instances of a group, and lower its target size by as many.

    Attributes:
        instances: their ids.
        nodes: the nodes' names, in the same order, empty where none registered: an instance that has become a node
            meanwhile is left alone (`Rejected` with `Conflict`).
        force: ignore the group's minimum.
        uids: of the Node objects, in the same order, where nodes were drained for it: each must be that one, carry
            our mark, and have no pod that would have to move; else `Rejected` with reason `NodeNotEmpty` or `Conflict`,
            whose result names all that are not so (`nodes`).
        from_size: the group's target size before; None where nobody counted.
        size: the target size after it. A group that would come out smaller is left alone: `Rejected` with `Conflict`.
    """

    instances: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    force: bool = False
    uids: tuple[str, ...] = ()
    from_size: int | None = None
    size: int | None = None


class CreateNodeGroup(Effect, frozen=True, kw_only=True, tag="decision.create-node-group.v1"):
    """Make a group of a configured machine type, empty.

    Attributes:
        machine_type: its name in the configuration.
        also: further groups that belong to it (one per zone), made in the same call.
    """

    machine_type: str
    template: TemplateNode
    max_size: int
    zone: str = ""
    also: tuple[str, ...] = ()


class ReportClusterStatus(Effect, frozen=True, kw_only=True, tag="decision.report-cluster-status.v1"):
    """Make the key `status` of the target, a ConfigMap, this text; make the ConfigMap when there is none.

    Attributes:
        text: YAML for people and their tools.
        digest: of what it says without its times.
        statuses: part to its status, for telling since when each has been so.
    """

    text: str
    digest: str = ""
    statuses: dict[str, str] = {}


class ResolvePod(Effect, frozen=True, kw_only=True, tag="decision.resolve-pod.v1"):
    """Find out what the pods of a PodTemplate or workload are like once admission has seen them. Makes nothing.

    The actuator reads the source, and tries to create a pod of it with `dryRun=All`. Its outcome's result has
    `template` (`metadata` and `spec`, as far as they decide where the pod may run); of a workload `replicas`, and
    `live` where one of its running pods was the model, which has been through admission already. A refusal's
    result says at which `stage` it was: `template`, `workload` or `admission`.

    Attributes:
        target: the CapacityBuffer on whose behalf.
        source: the PodTemplate or workload; of a workload the version may be missing (`apps/`).
        key: digest of what is known of the source and of all that admission goes by.
        admission: False: the source is read only.
    """

    source: ObjectRef
    key: str = ""
    admission: bool = True


class DeleteNodeGroup(Effect, frozen=True, kw_only=True, tag="decision.delete-node-group.v1"):
    """Remove an auto-provisioned group that is empty."""


class GroupVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a plan made of one group, with the numbers.

    Attributes:
        reason: empty when the group was an option.
        nodes: nodes that it would take, or takes when `chosen`.
        pods: pods that they would hold.
        waste_permille: share of cpu and memory that would stay unused, 0 to 2000.
        cost_micro: price of those nodes for one hour.
    """

    group: str
    reason: str = ""
    chosen: bool = False
    nodes: int = 0
    pods: int = 0
    waste_permille: int = 0
    cost_micro: int | None = None


class Increase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One group's part of a plan."""

    group: str
    from_size: int
    size: int
    max_size: int = 0


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """So many new nodes of a group that will hold these pods each: shape digest to number."""

    group: str
    nodes: int
    pods: dict[str, int] = {}


class ExpectedPods(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pods of a workload that a plan is for and that wait for nothing yet: most of them are not there.

    Attributes:
        workload: at the top of their owners, as `Kind/namespace/name`.
        uid: its uid.
        pods: how many.
        decision: id of the decision to scale it that says so; empty where the workload itself does.
    """

    workload: str
    uid: str
    pods: int
    decision: str = ""


class PlanScaleUp(Decision, frozen=True, kw_only=True, tag="decision.plan-scale-up.v1"):
    """One decision to grow: which groups, by how much, for whom; its effects follow with its name.

    Attributes:
        plan: the plan's name, unique in the cluster.
        request: `namespace/name`, empty for pending pods.
        increases: in the order in which they are executed.
        verdicts: one per group that was looked at, by id.
        pods: pods that the plan places, as `namespace/name` (at most 100 of them are named).
        placed: how many there are.
        loads: what the new nodes will hold, so that those pods cause no further increase.
        parallel: all groups are ordered at once.
        buffers: CapacityBuffers whose chunks the plan places, as `namespace/name`, with how many.
        expected: workloads that are about to make pods which the plan places.
        replaces: nodes that those of the plan are to replace, by consolidation; nothing waits for them then.
    """

    plan: str
    request: str = ""
    request_uid: str = ""
    increases: tuple[Increase, ...] = ()
    verdicts: tuple[GroupVerdict, ...] = ()
    pods: tuple[str, ...] = ()
    placed: int = 0
    loads: tuple[NodeLoad, ...] = ()
    all_or_nothing: bool = False
    parallel: bool = False
    buffers: tuple[tuple[str, int], ...] = ()
    expected: tuple[ExpectedPods, ...] = ()
    replaces: tuple[str, ...] = ()


class DeclineScaleUp(Decision, frozen=True, kw_only=True, tag="decision.decline-scale-up.v1"):
    """Nothing can be ordered for these pods. Written when the reasons change.

    Attributes:
        shape: what the pods have in common.
        count: how many are waiting.
        verdicts: the reason per group.
    """

    shape: str
    count: int
    verdicts: tuple[GroupVerdict, ...] = ()


class AcceptRequest(Decision, frozen=True, kw_only=True, tag="decision.accept-request.v1"):
    """A request is ours and is worked on; its spec and templates are frozen as they are now.

    Attributes:
        parameters: the request's own, overlaid on its ProvisioningClass's.
        sets: per pod set the digest of the shape and the count.
        shapes: digest to requests, scheduling, labels and priority: its own copy of what the
            templates said.
        costs: per pod set what quotas of the namespace look at besides: `{traits, limits}`.
    """

    namespace: str
    name: str
    uid: str
    class_name: str
    parameters: dict[str, str] = {}
    sets: tuple[tuple[str, int], ...] = ()
    shapes: dict[str, JsonObject] = {}
    costs: tuple[JsonObject, ...] = ()


class AttemptRequest(Decision, frozen=True, kw_only=True, tag="decision.attempt-request.v1"):
    """One attempt at a request, and what came of it.

    Attributes:
        result: `Successful`, `NotNeeded`, `NoOptionsAvailable`, `Error`.
        attempt: counts from 1.
        retry_at: log time of the next attempt (where it ordered: should the order fail), 0 for none.
        verdicts: the reason per group.
        awaits: groups with ordered nodes, not ready yet, on which it found room.
        domains: of a request with a topology, per pod set the value in which its pods have their room.
        places: shape to node to the number of pods that found room on it, of nodes that are there.
    """

    namespace: str
    name: str
    uid: str
    result: str
    attempt: int
    retry_at: float = 0.0
    verdicts: tuple[GroupVerdict, ...] = ()
    awaits: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    places: dict[str, dict[str, int]] = {}


class BookCapacity(Decision, frozen=True, kw_only=True, tag="decision.book-capacity.v1"):
    """Room is kept for a request from now until `until` (log time)."""

    namespace: str
    name: str
    uid: str
    until: float
    pods: int


class ReleaseCapacity(Decision, frozen=True, kw_only=True, tag="decision.release-capacity.v1"):
    """Room is no longer kept for a request.

    Attributes:
        reason: `CapacityReservationTimeExpired`, `CapacityBookingConsumed`, `Deleted`, `Failed`.
    """

    namespace: str
    name: str
    uid: str
    reason: str


class BackOffGroup(Decision, frozen=True, kw_only=True, tag="decision.back-off-group.v1"):
    """A group is left alone until `until` (log time), because of a failure.

    Attributes:
        backoff_s: how long this one lasts.
        error_class: 1 out of resources, 99 other.
        failed: nodes that did not come.
        kept_s: for how long after `at` this counts against the group, should it fail again; None: three hours.
    """

    group: str
    until: float
    backoff_s: float
    error_class: int
    code: str
    message: str = ""
    failed: int = 0
    kept_s: float | None = None


class CloseScaleUp(Decision, frozen=True, kw_only=True, tag="decision.close-scale-up.v1"):
    """A group's open increase is over: `Finished`, `TimedOut`, `Failed`, `Cancelled`.

    Attributes:
        boot_s: seconds from the order to the last node being ready, when it finished.
    """

    group: str
    result: str
    boot_s: float = 0.0


class TrackIdleNodes(Decision, frozen=True, kw_only=True, tag="decision.track-idle-nodes.v1"):
    """Which nodes became empty and which are no longer so, at this moment."""

    idle: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


class UnneededNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that nobody needs.

    Attributes:
        since: log time since when that is so.
        moves: pod (`namespace/name`) to the node where it would go.
        waits: a pod has to complete on it first.
        risky: its pods exceed what disruption budgets allow at a time.
        due: when its unneeded time is over, log time; None where nobody asks how much longer it stays.
        delayed: what kept it last since then.
    """

    node: str
    since: float
    moves: dict[str, str] = {}
    waits: bool = False
    risky: bool = False
    due: float | None = None
    delayed: str = ""


class PausedNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that is not looked at for a while, since it cannot go.

    Attributes:
        until: log time.
        reason: `NoPlaceToMovePods`, or `BlockedByPod` by `pod` (`namespace/name`) for `pod_reason`.
    """

    node: str
    until: float
    reason: str
    pod: str = ""
    pod_reason: str = ""


class TrackUnneededNodes(Decision, frozen=True, kw_only=True, tag="decision.track-unneeded-nodes.v1"):
    """What a pass of scale-down, or a part of one, found otherwise than was known.

    Attributes:
        unneeded: nodes that nobody needs from now on, or whose pods would go elsewhere than was thought.
        needed: nodes of which that is no longer so.
        paused: nodes that were looked at and cannot go.
        before: nodes that were unneeded when the pass began.
        more: the pass goes on.
        skipped: candidates that it did not get to, since enough nodes were found, and that the one before did; only
            where that is asked for.
        reached: nodes of which that is no longer so.
    """

    unneeded: tuple[UnneededNode, ...] = ()
    needed: tuple[str, ...] = ()
    paused: tuple[PausedNode, ...] = ()
    before: int = 0
    more: bool = False
    skipped: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()


class PodToEvict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod that is to leave a node.

    Attributes:
        grace_s: what the eviction asks for, seconds; None: the pod's own.
        priority: its shape's.
    """

    namespace: str
    name: str
    uid: str
    grace_s: int | None = None
    priority: int = 0


class MarkNode(Effect, frozen=True, kw_only=True, tag="decision.mark-node.v1"):
    """Give a node one of our taints, or take it off again, in one write that says by an annotation that it is ours.

    A taint of that key that somebody else set is left alone: `Rejected` with reason `TaintOfAnother`. Taking off
    what is not ours, or not of this `drain`, finds it done.

    Attributes:
        key: of the taint; which annotation belongs to it, and its effect, follow (`kube.taints.MARKS`).
        present: False: taint, mark and a cordon of ours come off.
        value: of the taint.
        drain: the id of the decision on whose behalf.
        cordon: make it unschedulable, too; undone with the mark, unless it was so before.
    """

    key: str
    present: bool
    value: str = ""
    drain: str = ""
    cordon: bool = False


class RemoveNode(Decision, frozen=True, kw_only=True, tag="decision.remove-node.v1"):
    """A node goes: it is marked, drained as far as it carries pods, and its instance is deleted.

    It begins a removal, which has the name of this decision: steps follow as decisions of their own, of which
    the first are decided at once. Until the instance is asked to be deleted, what changes may undo it.

    Attributes:
        node: its name.
        uid: of the Node object.
        provider_id: of its instance.
        group: its node group.
        kind: `empty` (nothing moves but DaemonSet pods) or `drain`.
        pods: those that are evicted and waited for, in the order in which they are asked to go.
        daemons: DaemonSet pods that are asked to go along with them, and not waited for.
        size: the group's target size before.
        whole: of a zero-or-max group: all nodes that go with it or not at all, this one among them; else empty.
        rule: `consolidation` or `replacement` of a node that goes by one of these; else empty.
    """

    node: str
    uid: str
    provider_id: str
    group: str
    kind: str
    pods: tuple[PodToEvict, ...] = ()
    daemons: tuple[PodToEvict, ...] = ()
    size: int = 0
    whole: tuple[str, ...] = ()
    rule: str = ""


class ProposeReplacement(Decision, frozen=True, kw_only=True, tag="decision.propose-replacement.v1"):
    """A round of consolidation found nodes that others could replace for less, or finds that it is so no more.

    A later round has to agree before anything is ordered.

    Attributes:
        nodes: those that would go; none: what was proposed before is withdrawn.
        instead: nodes of earlier proposals that hold no more; None: none of these does.
        groups: what would be ordered instead: group to nodes.
        before_micro, after_micro: what the ones cost an hour, and the others, in millionths.
        pods: how many would move.
    """

    nodes: tuple[str, ...] = ()
    groups: dict[str, int] = {}
    before_micro: int = 0
    after_micro: int = 0
    pods: int = 0
    instead: tuple[str, ...] | None = None


class ReplaceNodes(Decision, frozen=True, kw_only=True, tag="decision.replace-nodes.v1"):
    """Nodes are replaced by others that cost less: these are ordered now, and those removed when they stand.

    Attributes:
        plan: name of the plan that orders them.
        nodes, uids: those that are to go.
        groups: what is ordered: group to nodes.
        before_micro, after_micro: what the ones cost an hour, and the others, in millionths.
        pods: how many are to move.
        wait_s: given up when the others are not ready, and able to take the pods, after so long.
    """

    plan: str
    nodes: tuple[str, ...]
    uids: tuple[str, ...]
    groups: dict[str, int]
    before_micro: int
    after_micro: int
    pods: int
    wait_s: float


class EndReplacement(Decision, frozen=True, kw_only=True, tag="decision.end-replacement.v1"):
    """A replacement is over: its nodes have gone, or it is given up.

    Attributes:
        replacement: id of the decision that began it.
        nodes: those that were to go.
        groups: as in `ReplaceNodes`.
        result: `Done` or `GivenUp`.
        reason: CamelCase: why it is given up; empty when it is not.
        message: the same for people.
    """

    replacement: str
    nodes: tuple[str, ...]
    groups: dict[str, int]
    result: str
    reason: str = ""
    message: str = ""


class UndoRemoval(Decision, frozen=True, kw_only=True, tag="decision.undo-removal.v1"):
    """A node stays after all: its mark comes off, and nothing more is asked of its pods.

    Attributes:
        uid: of the Node object.
        removal: id of the decision that began it.
        reason: CamelCase: what has changed, or failed.
        failed: something that was tried did not succeed; else circumstances have changed.
        pod: `namespace/name` of the pod that it is about; empty for none.
    """

    node: str
    uid: str
    group: str
    removal: str
    reason: str
    message: str = ""
    failed: bool = False
    pod: str = ""


class FillBuffer(Decision, frozen=True, kw_only=True, tag="decision.fill-buffer.v1"):
    """Where the chunks of a CapacityBuffer have their room. Written when that changes.

    Attributes:
        shape: digest of a chunk's shape; empty when the buffer keeps no room.
        fields: the shape as in `AcceptRequest.shapes`; left out while it is the one of before.
        replicas: chunks that are wanted.
        places: node to its chunks, of nodes that are there; chunks on nodes that are not ready are `upcoming`.
        ready: how many of the chunks with a place are on ready nodes.
        upcoming: chunks on nodes that are on their way, or were ordered just now.
        missing: chunks without a place.
        verdicts: why no group helps those.
    """

    namespace: str
    name: str
    uid: str
    shape: str = ""
    fields: JsonObject = {}
    replicas: int = 0
    places: dict[str, int] = {}
    ready: int = 0
    upcoming: int = 0
    missing: int = 0
    verdicts: tuple[GroupVerdict, ...] = ()
