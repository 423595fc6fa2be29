"""The kinds that the watcher follows: one line each. Pure.

Facts, subjects, checkpoints, RBAC and the watcher's tasks derive from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import msgspec

from tidewright.events import autoscaler, facts, placement, provisioning, shards, spread
from tidewright.events.facts import ObjectFact, ResourceFact, WorkloadGone
from tidewright.kube.projection import capacity, nodes, pods, resources, workloads
from tidewright.kube.projection.placement import placement as placement_of
from tidewright.kube.projection.reading import Project

SHAPE, TEMPLATE = "shape", "template"

Gone: TypeAlias = Callable[..., ObjectFact]
"""Makes the fact that an object is gone, of `at`, `namespace`, `name` and `uid`."""


class WatchedKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of objects.

    Attributes:
        group: empty for the core group.
        plural: its name in paths.
        project: raw bytes to a fact.
        gone: makes the fact that one of them vanished.
        after_others: listed when the other kinds have been, because its facts refer to theirs.
        once: the kind, in subjects, of what its projections say once per content; empty for none.
        older: versions to read where the cluster does not serve `version`; the projection knows them.
        own_status: its status is decided here, and what we have written ourselves nobody waits to hear again.
    """

    group: str = ""
    version: str
    plural: str
    kind: str
    project: Project
    gone: Gone
    after_others: bool = False
    once: str = ""
    older: tuple[str, ...] = ()
    own_status: bool = False

    @property
    def name(self) -> str:
        """Its name in subjects and checkpoints: the kind in lower case."""
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return (
            f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/{self.version}/{self.plural}"
        )

    @property
    def older_paths(self) -> tuple[str, ...]:
        """Paths of the collection in older versions, the newest of them first."""
        return tuple(f"/apis/{self.group}/{version}/{self.plural}" for version in self.older)


def _workload(group: str, version: str, plural: str, kind: str) -> WatchedKind:
    api_version = f"{group}/{version}"
    return WatchedKind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        project=workloads.workload(api_version, kind),
        gone=partial(WorkloadGone, api_version=api_version, kind=kind),
        once=TEMPLATE,
    )


def _core(plural: str, kind: str, project: Project, gone: Gone, *, once: str = "") -> WatchedKind:
    return WatchedKind(version="v1", plural=plural, kind=kind, project=project, gone=gone, once=once)


def _placing(group: str, version: str, plural: str, kind: str, older: tuple[str, ...] = ()) -> WatchedKind:
    """A kind on whose objects it depends where pods may run."""
    return WatchedKind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        project=placement_of(kind),
        gone=partial(placement.PlacementObjectGone, kind=kind),
        older=older,
    )


def _custom(
    group: str,
    version: str,
    plural: str,
    *,
    kind: str,
    observed: type[ResourceFact],
    gone: Gone,
    own_status: bool = False,
) -> WatchedKind:
    return WatchedKind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        project=resources.resource(kind, observed, own_status=own_status),
        gone=gone,
        after_others=True,
        own_status=own_status,
    )


_BETAS = ("v1beta2", "v1beta1")
"""Of dynamic resource allocation, before Kubernetes 1.34."""


# One line each; the long ones only for the width of the page.
# fmt: off
KINDS: tuple[WatchedKind, ...] = (
    _core("pods", "Pod", pods.pod, facts.PodGone, once=SHAPE),
    _core("nodes", "Node", nodes.node, facts.NodeGone),
    _workload("apps", "v1", "replicasets", "ReplicaSet"),
    _workload("apps", "v1", "deployments", "Deployment"),
    _workload("apps", "v1", "statefulsets", "StatefulSet"),
    _workload("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet"),
    _workload("batch", "v1", "jobs", "Job"),
    WatchedKind(
        version="v1", plural="replicationcontrollers", kind="ReplicationController",
        project=workloads.replication_controller,
        gone=partial(WorkloadGone, api_version="v1", kind="ReplicationController"),
    ),
    WatchedKind(
        group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget",
        project=capacity.disruption_budget, gone=provisioning.PodDisruptionBudgetGone,
    ),
    WatchedKind(
        group="apps", version="v1", plural="daemonsets", kind="DaemonSet",
        project=capacity.daemon_set, gone=provisioning.DaemonSetGone,
    ),
    _core("podtemplates", "PodTemplate", capacity.pod_template, provisioning.PodTemplateGone),
    _core("resourcequotas", "ResourceQuota", capacity.resource_quota, provisioning.ResourceQuotaGone),
    _placing("", "v1", "namespaces", "Namespace"),
    _placing("", "v1", "limitranges", "LimitRange"),
    _placing("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),
    _placing("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    _placing("", "v1", "persistentvolumes", "PersistentVolume"),
    _placing("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
    _placing("storage.k8s.io", "v1", "csinodes", "CSINode"),
    _placing("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
    _placing("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    # Dynamic resource allocation; clusters that do not serve it have none of it.
    _placing("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", _BETAS),
    _placing("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", _BETAS),
    _placing("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", _BETAS),
    _placing("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", _BETAS),
    _placing("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule"),  # from Kubernetes 1.36 on
    WatchedKind(
        group="datadoghq.com", version="v1alpha1", plural="datadogmonitors", kind="DatadogMonitor",
        project=resources.datadog_monitor, gone=autoscaler.DatadogMonitorGone,
    ),
    _custom(
        "datadoghq.com", "v1alpha1", "watermarkpodautoscalers", kind="WatermarkPodAutoscaler",
        observed=autoscaler.WatermarkPodAutoscalerObserved, gone=autoscaler.WatermarkPodAutoscalerGone, own_status=True,
    ),
    _custom(
        "apps.kruise.io", "v1alpha1", "workloadspreads", kind="WorkloadSpread",
        observed=spread.WorkloadSpreadObserved, gone=spread.WorkloadSpreadGone,
    ),
    WatchedKind(
        group="autoscaling.x-k8s.io", version="v1", plural="provisioningrequests", kind="ProvisioningRequest",
        project=capacity.provisioning_request, gone=provisioning.ProvisioningRequestGone, after_others=True,
    ),
    WatchedKind(
        group="autoscaling.x-k8s.io", version="v1beta1", plural="capacitybuffers", kind="CapacityBuffer",
        project=resources.resource("CapacityBuffer", provisioning.CapacityBufferObserved),
        gone=provisioning.CapacityBufferGone, after_others=True, older=("v1alpha1",),
    ),
    _custom(
        "autoscaling.x-k8s.io", "v1", "provisioningclasses", kind="ProvisioningClass",
        observed=provisioning.ProvisioningClassObserved, gone=provisioning.ProvisioningClassGone,
    ),
    _custom(
        "shards.tidewright.dev", "v1alpha1", "shardsets", kind="ShardSet",
        observed=shards.ShardSetObserved, gone=shards.ShardSetGone,
    ),
    _custom(
        "shards.tidewright.dev", "v1alpha1", "shardmembers", kind="ShardMember",
        observed=shards.ShardMemberObserved, gone=shards.ShardMemberGone,
    ),
)
# fmt: on

BY_NAME: dict[str, WatchedKind] = {kind.name: kind for kind in KINDS}
BY_KIND: dict[tuple[str, str], WatchedKind] = {(kind.group, kind.kind): kind for kind in KINDS}
SAID_ANEW: dict[str, str] = {kind.name: kind.name for kind in KINDS} | {
    kind.once: kind.name for kind in KINDS if kind.once == SHAPE
}
"""Kinds in subjects to the part of the watcher that answers each last word there which it cannot read: after its list
the object is said, or that it is gone. Of other kinds only what is wanted, or there, is said again."""
