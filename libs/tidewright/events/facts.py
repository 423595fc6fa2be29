"""Facts about the cluster: projections of Kubernetes objects, and metric samples.

A projection holds the fields that some decider uses, so an update that changes none of them is not
worth a fact. The last message on an object's subject is the last word on the object: `...Observed`
(what it is now) or `...Gone`.

Times inside a projection are Kubernetes' own stamps (seconds since the epoch, whole seconds): data,
of another clock than `at`.
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import Fact, JsonObject


class Owner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One owner reference."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class LocalVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume of a pod that lies on its node, and ends with the pod or stays behind.

    Attributes:
        kind: `emptyDir` or `hostPath`.
        medium: of an emptyDir, as it is written: empty, `Memory`, `HugePages`, ...
    """

    name: str
    kind: str
    medium: str = ""


class Removal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it depends on whether a pod may be taken from its node, besides its owners and annotations.

    Attributes:
        grace_s: its `terminationGracePeriodSeconds`, seconds.
        volumes: its local volumes, in the order of the object.
        mirror: it stands for a static pod, which the API server cannot take away.
    """

    restart_policy: str = "Always"
    grace_s: int = 30
    volumes: tuple[LocalVolume, ...] = ()
    mirror: bool = False


class ObjectFact(Fact, frozen=True, kw_only=True):
    """A fact about one object; `namespace` is empty for cluster-scoped ones."""

    namespace: str = ""
    name: str
    uid: str = ""


class PodObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.pod-observed.v1"):
    """A pod as the deciders see it. Written when it appears and when one of these fields changes.

    Attributes:
        shape: digest of its scheduling-relevant part; the shape itself is said once, before.
        phase: `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
        ready: status of the `Ready` condition, None when the pod has no such condition.
        ready_changed_at: that condition's last transition.
        unschedulable_since: transition time of `PodScheduled=False` with reason `Unschedulable`.
        deleting_at: its deletion timestamp.
        restarts: largest restart count among its containers.
        sidecar_restarts: the same among its restartable init containers.
        args: arguments by container, of pods of a propeller fleet alone.
        nominated: the node that the scheduler makes room on for it, while it is not bound.
        removal: what rules about removing it ask for; None where a watcher of before did not say.
    """

    shape: str = ""
    phase: str = "Pending"
    node: str = ""
    ready: bool | None = None
    ready_changed_at: float | None = None
    created_at: float | None = None
    started_at: float | None = None
    unschedulable_since: float | None = None
    deleting_at: float | None = None
    reason: str = ""
    restarts: int = 0
    sidecar_restarts: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[Owner, ...] = ()
    args: dict[str, tuple[str, ...]] = {}
    nominated: str = ""
    removal: Removal | None = None


class PodGone(ObjectFact, frozen=True, kw_only=True, tag="fact.pod-gone.v1"):
    """A pod is no longer there."""


class ShapeObserved(Fact, frozen=True, kw_only=True, tag="fact.shape-observed.v1"):
    """The scheduling-relevant part of a pod, said once per content.

    Attributes:
        digest: content address of all fields below.
        requests: resource name to amount: `cpu` in milli-cores, `memory` and `ephemeral-storage` in
            bytes, anything else as a count. Init containers, sidecars and overhead are in it.
        scheduling: the pod spec's other scheduling fields under their API names (`nodeSelector`,
            `affinity`, `tolerations`, `topologySpreadConstraints`, `hostPorts`, `volumes`,
            `resourceClaims`, ...).
        labels: the pod's labels that inter-pod terms can select on (without revision hashes).
    """

    digest: str
    requests: dict[str, int] = {}
    scheduling: JsonObject = {}
    namespace: str = ""
    labels: dict[str, str] = {}
    priority: int = 0


class ShapeGone(Fact, frozen=True, kw_only=True, tag="fact.shape-gone.v1"):
    """No pod has a shape any longer. It is told again before the next pod that has it.

    Attributes:
        digest: as in `ShapeObserved`.
    """

    digest: str
    namespace: str = ""


class TemplateObserved(Fact, frozen=True, kw_only=True, tag="fact.template-observed.v1"):
    """The form of a workload's pod template, said once per content: without metadata, and without values of
    variables, arguments and whatever else may hold a secret.

    Attributes:
        digest: content address of all fields below.
        spec: the pod spec, as it is stored but for what is left out.
        claims: names of the workload's volume claim templates.
        error: why it cannot be read; nothing else is told of it then.
    """

    digest: str
    namespace: str = ""
    spec: JsonObject = {}
    claims: tuple[str, ...] = ()
    error: str = ""


class NodeObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.node-observed.v1"):
    """A node. Heartbeats change nothing here and are therefore no facts.

    Attributes:
        allocatable: as `ShapeObserved.requests`, with `pods` as a count.
        ready: None when the node has no `Ready` condition yet.
        taints: `{key, value, effect}` in the order of the object.
        delays: names of annotations that ask to wait with the deletion of its instance
            (`delay-deletion.cluster-autoscaler.kubernetes.io/...`), sorted; None where a watcher of before did not say.
    """

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    allocatable: dict[str, int] = {}
    taints: tuple[dict[str, str], ...] = ()
    unschedulable: bool = False
    ready: bool | None = None
    ready_changed_at: float | None = None
    created_at: float | None = None
    deleting_at: float | None = None
    provider_id: str = ""
    delays: tuple[str, ...] | None = None


class NodeGone(ObjectFact, frozen=True, kw_only=True, tag="fact.node-gone.v1"):
    """A node is no longer there."""


class WorkloadObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.workload-observed.v1"):
    """Anything with a scale: Deployment, ReplicaSet, StatefulSet, or a custom resource's scale.

    Attributes:
        replicas: `spec.replicas` of its scale: what is requested.
        status_replicas: `status.replicas` of its scale: pods that exist, surge included.
        selector: label selector in its text form, as the scale's `status.selector`.
        revision: the pod template's revision, where the kind has one.
        template_labels: labels of the pod template.
        paused: a Deployment's `spec.paused`.
        template: digest of its pod template; the template itself is said once, before.
        template_annotations: those of the template by which its pods ask for room in another way, or later.
        max_surge: how many pods more than wanted a Deployment may have while it rolls out: `1`, or `25%`.
        ordered: a StatefulSet makes the next pod when the one before it is ready.
        suspended: a Job makes no pods now, or another cluster does.
        completions, succeeded: of a Job, pods that are to succeed (None: any one of them ends it), and that have.
        failed: of a Job, indexes that have failed too often, of which no pod is made again.
        ended: a Job is complete, or has failed.
        refused: why its controller cannot make its pods (condition `ReplicaFailure`).
        after_end: a Job makes another pod in place of one that is being deleted only once that has ended.
    """

    api_version: str
    kind: str
    replicas: int = 1
    status_replicas: int = 0
    ready_replicas: int = 0
    selector: str = ""
    generation: int = 0
    observed_generation: int = 0
    revision: str = ""
    template_labels: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[Owner, ...] = ()
    created_at: float | None = None
    deleting_at: float | None = None
    paused: bool = False
    template: str = ""
    template_annotations: dict[str, str] = {}
    max_surge: str = ""
    ordered: bool = False
    suspended: bool = False
    completions: int | None = None
    succeeded: int = 0
    failed: int = 0
    ended: bool = False
    refused: str = ""
    after_end: bool = False


class WorkloadGone(ObjectFact, frozen=True, kw_only=True, tag="fact.workload-gone.v1"):
    """A workload is no longer there, or a custom target has no scale."""

    api_version: str
    kind: str
    reason: str = ""
    """Why it cannot be read, when it was asked for and not merely deleted."""


class ResourceFact(ObjectFact, frozen=True, kw_only=True):
    """A custom resource: its spec and status as they are stored, unvalidated.

    A decider that cannot make sense of a spec says so in a condition; the watcher judges nothing.
    """

    generation: int = 0
    created_at: float | None = None
    deleting_at: float | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    spec: JsonObject = {}
    status: JsonObject = {}


class MetricSampled(ObjectFact, frozen=True, kw_only=True, tag="fact.metric-sampled.v1"):
    """One answer of a metrics API to one query.

    `name` is the query: `external/<metric>/<selector>` or `resource/<resource>/<selector>`, the
    selector in its text form with sorted keys.

    Attributes:
        series_milli: External: the value of each series, in the order answered, in milli rounded
            away from zero.
        pods_milli: Resource: pod name to the sum over its containers, in milli. A pod of which one
            container lacks the resource is absent.
        sampled_at: the provider's own stamp of the (first) value.
        error: the query failed, and this is why; there are no values then.
        error_class: `unavailable`, `forbidden`, `not-found`, `throttled`, `garbage`, `timeout`,
            `empty`.
    """

    series_milli: tuple[int, ...] = ()
    pods_milli: dict[str, int] = {}
    sampled_at: float | None = None
    error: str = ""
    error_class: str = ""


class ClockJumped(Fact, frozen=True, kw_only=True, tag="fact.clock-jumped.v1"):
    """The watcher's clock moved by more than the stated bound between two observations.

    Attributes:
        from_at: log time before the jump, seconds.
        to_at: log time that the clock showed after it, seconds. When it lies before `from_at`, log
            time stands still until the clock has caught up.
    """

    from_at: float
    to_at: float
