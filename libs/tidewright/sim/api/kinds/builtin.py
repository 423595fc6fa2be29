"""The built-in kinds, one line each: group, version, names, subresources."""

from __future__ import annotations

from tidewright.sim.api.kinds.resources import ALL_VERBS, CREATE_ONLY, Kind, Registry, ScalePaths, Subresource

_WORKLOAD_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_GET_UPDATE = ("get", "patch", "update")


def _kind(
    group: str,
    version: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    cluster: bool = False,
    status: bool = False,
    scale: bool = False,
    generation: bool = False,
    upsert: bool = False,
    categories: tuple[str, ...] = (),
    subresources: tuple[Subresource, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    table: str = "",
) -> Kind:
    return Kind(
        group=group,
        versions=tuple(version.split(",")),
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=categories,
        status=status,
        scale=_WORKLOAD_SCALE if scale else None,
        subresources=subresources,
        verbs=verbs,
        generation=generation,
        upsert=upsert,
        table=table,
    )


_ALL = ("all",)
_CORE = (
    _kind("", "v1", "Namespace", "namespaces", "ns", cluster=True, status=True,
          subresources=(Subresource("finalize", "Namespace", ("update",)),),
          verbs=("create", "delete", "get", "list", "patch", "update", "watch")),
    _kind("", "v1", "Node", "nodes", "no", cluster=True, status=True),
    _kind("", "v1", "Pod", "pods", "po", status=True, categories=_ALL, generation=True,
          subresources=(
              Subresource("binding", "Binding", CREATE_ONLY),
              Subresource("eviction", "Eviction", CREATE_ONLY, "policy", "v1"),
              Subresource("ephemeralcontainers", "Pod", _GET_UPDATE),
              Subresource("resize", "Pod", _GET_UPDATE),
          )),
    _kind("", "v1", "PodTemplate", "podtemplates", generation=True),
    _kind("", "v1", "ReplicationController", "replicationcontrollers", "rc", status=True, scale=True,
          categories=_ALL, generation=True),
    _kind("", "v1", "ConfigMap", "configmaps", "cm"),
    _kind("", "v1", "Secret", "secrets"),
    _kind("", "v1", "Service", "services", "svc", status=True, categories=_ALL),
    _kind("", "v1", "Endpoints", "endpoints", "ep", upsert=True),
    _kind("", "v1", "ServiceAccount", "serviceaccounts", "sa"),
    _kind("", "v1", "Event", "events", "ev", upsert=True),
    _kind("", "v1", "PersistentVolume", "persistentvolumes", "pv", cluster=True, status=True),
    _kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", status=True),
    _kind("", "v1", "ResourceQuota", "resourcequotas", "quota", status=True),
    _kind("", "v1", "LimitRange", "limitranges", "limits", upsert=True),
    _kind("", "v1", "Binding", "bindings", verbs=CREATE_ONLY),
)  # fmt: skip
_WORKLOADS = (
    _kind("apps", "v1", "Deployment", "deployments", "deploy", status=True, scale=True, categories=_ALL,
          generation=True),
    _kind("apps", "v1", "ReplicaSet", "replicasets", "rs", status=True, scale=True, categories=_ALL,
          generation=True),
    _kind("apps", "v1", "StatefulSet", "statefulsets", "sts", status=True, scale=True, categories=_ALL,
          generation=True),
    _kind("apps", "v1", "DaemonSet", "daemonsets", "ds", status=True, categories=_ALL, generation=True),
    _kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
    _kind("batch", "v1", "Job", "jobs", status=True, categories=_ALL, generation=True),
    _kind("batch", "v1", "CronJob", "cronjobs", "cj", status=True, categories=_ALL, generation=True),
    _kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", status=True, generation=True),
    _kind("autoscaling", "v2,v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", status=True,
          categories=_ALL),
    _kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", cluster=True, generation=True),
    _kind("coordination.k8s.io", "v1", "Lease", "leases", upsert=True),
    _kind("events.k8s.io", "v1", "Event", "events", "ev", upsert=True, table="/events"),
    _kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", generation=True),
    _kind("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", status=True, generation=True),
    _kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol", generation=True),
    _kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", cluster=True, generation=True),
    _kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", cluster=True),
)  # fmt: skip
_STORAGE = (
    _kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", cluster=True),
    _kind("storage.k8s.io", "v1", "CSINode", "csinodes", cluster=True),
    _kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", cluster=True),
    _kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", cluster=True, status=True),
    _kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities"),
)
_DEVICES = (
    _kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", status=True),
    _kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    _kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", cluster=True),
    _kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", cluster=True, generation=True),
    _kind(
        "resource.k8s.io",
        "v1beta2",
        "DeviceTaintRule",
        "devicetaintrules",
        cluster=True,
        status=True,
        generation=True,
    ),
)
_RBAC = tuple(
    _kind(
        "rbac.authorization.k8s.io",
        "v1",
        kind,
        f"{kind.lower()}s",
        cluster=kind.startswith("Cluster"),
        upsert=True,
    )
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)
_MACHINERY = (
    _kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration",
          "mutatingwebhookconfigurations", cluster=True, generation=True, categories=("api-extensions",)),
    _kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",
          "validatingwebhookconfigurations", cluster=True, generation=True, categories=("api-extensions",)),
    _kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds",
          cluster=True, status=True, generation=True, categories=("api-extensions",)),
    _kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", cluster=True, verbs=CREATE_ONLY),
    _kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", cluster=True,
          verbs=CREATE_ONLY),
    _kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", cluster=True,
          verbs=CREATE_ONLY),
    _kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", cluster=True,
          verbs=CREATE_ONLY),
    _kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", cluster=True,
          verbs=CREATE_ONLY),
    _kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews",
          verbs=CREATE_ONLY),
)  # fmt: skip

BUILTIN: tuple[Kind, ...] = (*_CORE, *_WORKLOADS, *_STORAGE, *_DEVICES, *_RBAC, *_MACHINERY)


def builtin_registry() -> Registry:
    """A registry that serves the built-in kinds."""
    registry = Registry()
    for kind in BUILTIN:
        registry.add(kind)
    return registry
