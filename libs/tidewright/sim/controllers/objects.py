"""The parts of Kubernetes objects that simulated components read, decoded from raw bytes.

Structs, not dicts: a pod decodes in a few microseconds and carries types. What is only copied
(templates) stays a plain dict.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from tidewright.kube.conditions import find
from tidewright.kube.times import seconds_or_none

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""
JsonObject: TypeAlias = dict[str, Any]


class _Struct(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    pass


class OwnerReference(_Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(_Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)

    @property
    def version(self) -> int:
        """The resourceVersion as a number; the API allows comparing those of one resource."""
        return int(self.resource_version) if self.resource_version.isdigit() else 0

    @property
    def created(self) -> float:
        """Seconds since the epoch; 0 when the server did not say."""
        return seconds_or_none(self.creation_timestamp) or 0.0

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if one does."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(_Struct):
    """Any object: what caches and queues need of it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)

    @property
    def key(self) -> Key:
        return self.metadata.key


class Condition(_Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_update_time: str | None = None
    observed_generation: int = 0


T = TypeVar("T")


# --- pods -------------------------------------------------------------------------------------


class Toleration(_Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(_Struct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Resources(_Struct):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Port(_Struct):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Probe(_Struct):
    initial_delay_seconds: int = 0


class Container(_Struct):
    name: str = ""
    image: str = ""
    resources: Resources = msgspec.field(default_factory=Resources)
    ports: list[Port] = []
    restart_policy: str = ""
    readiness_probe: Probe | None = None


class ReadinessGate(_Struct):
    condition_type: str = ""


class PodSpec(_Struct):
    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    node_selector: dict[str, str] = {}
    affinity: JsonObject | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[JsonObject] = []
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    scheduler_name: str = "default-scheduler"
    scheduling_gates: list[JsonObject] = []
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = 30
    overhead: dict[str, str | int | float] = {}
    host_network: bool = False
    readiness_gates: list[ReadinessGate] = []


class ContainerStatus(_Struct):
    name: str = ""
    ready: bool = False
    restart_count: int = 0


class PodStatus(_Struct):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    reason: str = ""
    container_statuses: list[ContainerStatus] = []


class Pod(Object):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def active(self) -> bool:
        """Neither finished nor being deleted: it counts as a replica."""
        return self.status.phase not in ("Succeeded", "Failed") and self.metadata.deletion_timestamp is None

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    def condition(self, type_: str) -> Condition | None:
        return find(self.status.conditions, type_)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"

    @property
    def ready_since(self) -> float:
        """When the Ready condition changed last, seconds since the epoch; 0 without one."""
        condition = self.condition("Ready")
        return (condition and seconds_or_none(condition.last_transition_time)) or 0.0

    def available(self, min_ready_s: int, now: float) -> bool:
        """Ready, and for at least `min_ready_s`."""
        if not self.ready:
            return False
        return min_ready_s == 0 or self.ready_since + min_ready_s <= now

    @property
    def restarts(self) -> int:
        """The largest restart count of its containers."""
        return max((status.restart_count for status in self.status.container_statuses), default=0)


# --- nodes ------------------------------------------------------------------------------------


class NodeSpec(_Struct):
    taints: list[Taint] = []
    unschedulable: bool = False
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(_Struct):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[Condition] = []


class Node(Object):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def ready(self) -> str:
        """Status of the Ready condition: `True`, `False` or `Unknown`; empty without one."""
        condition = find(self.status.conditions, "Ready")
        return condition.status if condition is not None else ""


class LeaseSpec(_Struct):
    renew_time: str | None = None
    lease_duration_seconds: int = 0
    holder_identity: str = ""


class Lease(Object):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


# --- workloads --------------------------------------------------------------------------------


class ReplicaSetSpec(_Struct):
    replicas: int = 1
    selector: JsonObject = {}
    template: JsonObject = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(_Struct):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Object):
    spec: ReplicaSetSpec = msgspec.field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = msgspec.field(default_factory=ReplicaSetStatus)


class RollingUpdateDeployment(_Struct):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class DeploymentStrategy(_Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(_Struct):
    replicas: int = 1
    selector: JsonObject = {}
    template: JsonObject = {}
    strategy: DeploymentStrategy = msgspec.field(default_factory=DeploymentStrategy)
    min_ready_seconds: int = 0
    revision_history_limit: int | None = 10
    progress_deadline_seconds: int | None = 600
    paused: bool = False


class DeploymentStatus(_Struct):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: list[Condition] = []


class Deployment(Object):
    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


class RollingUpdateStatefulSet(_Struct):
    partition: int = 0
    max_unavailable: int | str = 1


class StatefulSetStrategy(_Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateStatefulSet | None = None


class Ordinals(_Struct):
    start: int = 0


class StatefulSetSpec(_Struct):
    replicas: int = 1
    selector: JsonObject = {}
    template: JsonObject = {}
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: StatefulSetStrategy = msgspec.field(default_factory=StatefulSetStrategy)
    min_ready_seconds: int = 0
    ordinals: Ordinals = msgspec.field(default_factory=Ordinals)
    volume_claim_templates: list[JsonObject] = []


class StatefulSetStatus(_Struct):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Object):
    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class ControllerRevision(Object):
    revision: int = 0
    data: JsonObject = {}


class RollingUpdateDaemonSet(_Struct):
    max_unavailable: int | str = 1
    max_surge: int | str = 0


class DaemonSetStrategy(_Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(_Struct):
    selector: JsonObject = {}
    template: JsonObject = {}
    update_strategy: DaemonSetStrategy = msgspec.field(default_factory=DaemonSetStrategy)
    min_ready_seconds: int = 0


class DaemonSetStatus(_Struct):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(Object):
    spec: DaemonSetSpec = msgspec.field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = msgspec.field(default_factory=DaemonSetStatus)


class JobSpec(_Struct):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    selector: JsonObject = {}
    template: JsonObject = {}


class JobStatus(_Struct):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] = []


class Job(Object):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class PodDisruptionBudgetSpec(_Struct):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: JsonObject | None = None


class PodDisruptionBudgetStatus(_Struct):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str | None] = {}
    conditions: list[Condition] = []


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


# --- kinds ------------------------------------------------------------------------------------

O = TypeVar("O", bound=Object)  # noqa: E741 - one letter, as type variables are


class ClientKind(msgspec.Struct, Generic[O], frozen=True):
    """A kind as it is reached over the API, and how it is decoded.

    Attributes:
        api_version: `group/version`, or `v1`.
        plural: the resource in paths.
        type: the Struct of one object.
    """

    name: str
    api_version: str
    plural: str
    type: type[O]
    namespaced: bool = True

    @property
    def collection(self) -> str:
        """Path of all objects of the kind, over all namespaces."""
        prefix = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        return f"{prefix}/{self.plural}"

    def path(self, key: Key, subresource: str = "") -> str:
        """Path of one object; of a namespace's collection when the name is empty."""
        namespace, name = key
        prefix = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{prefix}{scope}/{self.plural}{tail}"


POD: ClientKind[Pod] = ClientKind("Pod", "v1", "pods", Pod)
NODE: ClientKind[Node] = ClientKind("Node", "v1", "nodes", Node, namespaced=False)
LEASE: ClientKind[Lease] = ClientKind("Lease", "coordination.k8s.io/v1", "leases", Lease)
REPLICA_SET: ClientKind[ReplicaSet] = ClientKind("ReplicaSet", "apps/v1", "replicasets", ReplicaSet)
DEPLOYMENT: ClientKind[Deployment] = ClientKind("Deployment", "apps/v1", "deployments", Deployment)
STATEFUL_SET: ClientKind[StatefulSet] = ClientKind("StatefulSet", "apps/v1", "statefulsets", StatefulSet)
DAEMON_SET: ClientKind[DaemonSet] = ClientKind("DaemonSet", "apps/v1", "daemonsets", DaemonSet)
CONTROLLER_REVISION: ClientKind[ControllerRevision] = ClientKind(
    "ControllerRevision", "apps/v1", "controllerrevisions", ControllerRevision
)
JOB: ClientKind[Job] = ClientKind("Job", "batch/v1", "jobs", Job)
DISRUPTION_BUDGET: ClientKind[PodDisruptionBudget] = ClientKind(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", PodDisruptionBudget
)
CLAIM: ClientKind[Object] = ClientKind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", Object)
EVENT: ClientKind[Object] = ClientKind("Event", "v1", "events", Object)


# --- small readings ---------------------------------------------------------------------------


def share(value: int | str, total: int, *, up: bool) -> int:
    """A number or a percentage of `total`, rounded up or down.

    Raises:
        ValueError: text that is no percentage.
    """
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"{value!r}: neither a number nor a percentage such as 25%")
    product = int(value[:-1]) * total
    return -(-product // 100) if up else product // 100


def owner_of(kind: ClientKind[Any], metadata: Metadata) -> JsonObject:
    """The controller owner reference that dependents of this object carry."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
