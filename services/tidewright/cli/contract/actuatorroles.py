"""What the actuator may do at the API server: one role per feature, from the table of what services may ask it for.

    cluster-wide   a ClusterRole and its binding: what users put under us may be in any namespace
    narrowed       the same rules as a Role in each of the namespaces that are named, where they are about namespaced kinds
    fixed          a Role in the one namespace where a feature works: the cluster's status, placeholders, our own services

Nothing is granted for a feature that is off, and the actuator refuses what belongs to it (`--features`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from tidewright.actuator.allowed.bounds import Feature
from tidewright.actuator.allowed.table import (
    ANY,
    CONFIG_MAP,
    DEPLOYMENT,
    GRANTS,
    GROUP,
    LEASE,
    NODE,
    POD,
    Grant,
    Kind,
)
from tidewright.cli.contract.rbac import Rule, rule
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import EndpointEffect
from tidewright.events.provisioning import DeleteInstances, MarkNode, ReportClusterStatus, ResolvePod
from tidewright.kube import webhooks
from tidewright.kube.kinds import BY_KIND

Manifest: TypeAlias = dict[str, Any]
Right: TypeAlias = tuple[str, str, str, str]
"""Group, resource, verb, and the name of the one object that it is for; "" for any."""

API: Final = "rbac.authorization.k8s.io"
STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"
BY_DEFAULT: Final = frozenset(Feature) - {Feature.PLACEHOLDERS, Feature.OWN_SERVICES}
"""Those that an installation has: the others work only with a configuration that asks for them."""
WHY: Final = {
    Feature.AUTOSCALING: "WatermarkPodAutoscalers, and scales of their targets, which may be of any kind",
    Feature.PROVISIONING: "ProvisioningRequests, the cluster's status, and for whom room on a node is kept",
    Feature.BUFFERS: "CapacityBuffers: their status, the PodTemplates that are kept for them, and pods that are tried (dryRun) and never made",
    Feature.PLACEHOLDERS: "pods that hold booked room, in the profile hold",
    Feature.SCALE_DOWN: "taints and cordons of nodes that go, and evictions of their pods",
    Feature.SPREAD: "places and costs of pods, rescheduling, status of WorkloadSpreads",
    Feature.ADMISSION: "the webhooks of spread's admission, and the conversion of WorkloadSpreads",
    Feature.SHARDS: "pods, leases and members of shards",
    Feature.SHARD_LABELS: "the webhook for slot labels; grant `patch` on the kinds of your ShardSets beside it",
    Feature.OWN_SERVICES: "the number of replicas of our own services",
    Feature.EVENTS: "object events",
}
_PLURALS: Final[dict[Kind, str]] = {
    LEASE: "leases", CONFIG_MAP: "configmaps", NODE: "nodes", POD: "pods", DEPLOYMENT: "deployments",
}  # fmt: skip
_ADMISSION: Final = "admissionregistration.k8s.io"
_CONFIGURATIONS: Final = {
    webhooks.MUTATING: "mutatingwebhookconfigurations",
    webhooks.VALIDATING: "validatingwebhookconfigurations",
}


_RESOLVING: Final[frozenset[Right]] = frozenset(
    {
        ("", "pods", "create", ""), ("", "pods", "list", ""), ("", "podtemplates", "get", ""), ("*", "*/scale", "get", ""),
        ("apps", "deployments", "get", ""), ("apps", "replicasets", "get", ""), ("apps", "statefulsets", "get", ""),
        ("batch", "jobs", "get", ""), ("", "replicationcontrollers", "get", ""),
    }
)  # fmt: skip
"""For finding out what the pods of a buffer are like: RBAC cannot tell a pod that is only tried."""


_LOOKS: Final[dict[type[Effect], frozenset[Right]]] = {
    DeleteInstances: frozenset({("", "nodes", "list", ""), ("", "pods", "list", "")}),
}
"""For looking whether anything would be lost, before an effect on the cloud."""


def _plural(kind: Kind) -> str:
    return _PLURALS.get(kind) or BY_KIND[kind].plural


def rights(grant: Grant) -> set[Right]:
    """What the actuator needs at the API server to carry out what one line of the table allows."""
    effect = grant.effect
    needed: set[Right] = set(_LOOKS.get(effect, ()))
    for kind in grant.kinds:
        if kind == GROUP or (kind == ANY and effect is PatchObject):
            continue  # of the cloud; and kinds that users name in their ShardSets, which they grant themselves
        group, plural = (
            ("*", "*") if kind == ANY else (kind[0], _plural(kind) if effect not in _ENDPOINTS else "")
        )
        verbs: dict[str, tuple[str, ...]] = {}
        match effect.__name__:
            case ScaleWorkload.__name__:
                verbs = {f"{plural}/scale": ("get", "update", "patch")}
            case SetStatus.__name__:
                verb = "patch" if grant.service == "provisioning" else "update"
                verbs = {plural: ("get",), f"{plural}/status": (verb,)}
            case PatchObject.__name__:
                verbs = {plural: ("get", "patch")}
            case CreateObject.__name__:
                verbs = {plural: ("get", "create")}
            case DeleteObject.__name__:
                verbs = {plural: ("get", "delete") if grant.marks else ("delete",)}
            case EvictPod.__name__:
                verbs = {plural: ("get",), f"{plural}/eviction": ("create",)}
                if (
                    grant.ground == "drained"
                ):  # it is asked for by uid; the last look before a deletion lists them
                    verbs = {plural: ("list",), f"{plural}/eviction": ("create",)}
            case MarkNode.__name__:
                verbs = {plural: ("get", "update")}
            case HoldLease.__name__:
                verbs = {plural: ("get", "create", "patch")}
            case RecordObjectEvent.__name__:
                group, verbs = "", {"events": ("create", "patch")}
            case ReportClusterStatus.__name__:
                needed |= {("", "configmaps", "create", ""), ("", "configmaps", "patch", STATUS_NAME)}
            case ResolvePod.__name__:
                needed |= _RESOLVING
            case _:
                needed |= _endpoint(grant.service)
        needed |= {(group, resource, verb, "") for resource, given in verbs.items() for verb in given}
    return needed


_ENDPOINTS: Final = tuple(grant.effect for grant in GRANTS if issubclass(grant.effect, EndpointEffect))


def _endpoint(service: str) -> set[Right]:
    """A name cannot be demanded of a create; what is made under another name the table refuses."""
    labels = service == "shard-labels"
    name = webhooks.LABELS if labels else webhooks.SPREAD
    kinds = [webhooks.MUTATING] if labels else [webhooks.MUTATING, webhooks.VALIDATING]
    needed = {(_ADMISSION, _CONFIGURATIONS[kind], "create", "") for kind in kinds}
    for kind in kinds:
        needed |= {(_ADMISSION, _CONFIGURATIONS[kind], verb, name) for verb in ("get", "update", "delete")}
    if not labels:
        definitions = ("apiextensions.k8s.io", "customresourcedefinitions")
        needed |= {(*definitions, verb, webhooks.SPREADS) for verb in ("get", "update")}
    return needed


def where(grant: Grant, own_namespace: str) -> str:
    """The one namespace that a line of the table is about; "" for any."""
    if grant.feature is Feature.OWN_SERVICES:
        return own_namespace
    return STATUS_NAMESPACE if grant.where else ""


def _cluster_scoped(right: Right) -> bool:
    of_the_cluster = right[0] in (_ADMISSION, "apiextensions.k8s.io") or right[1] == "nodes"
    return of_the_cluster or right[1:3] == ("pods", "list")  # of one node, whatever namespace they are in


def rules(needed: Iterable[Right]) -> list[Rule]:
    """Rights as rules, the same verbs and names together."""
    verbs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for group, resource, verb, name in needed:
        verbs[group, resource, name].add(verb)
    together: dict[tuple[str, tuple[str, ...], str], list[str]] = defaultdict(list)
    for (group, resource, name), given in sorted(verbs.items()):
        together[group, tuple(sorted(given)), name].append(resource)
    return [
        rule(group, resources, *given, names=[name] if name else None)
        for (group, given, name), resources in together.items()
    ]


def manifests(feature: Feature, *, own_namespace: str, namespaces: Sequence[str] = ()) -> list[Manifest]:
    """The roles of one feature and their bindings; with `namespaces` in those alone, as far as kinds have one."""
    by_place: dict[str, set[Right]] = defaultdict(set)
    for grant in GRANTS:
        if grant.feature is not feature:
            continue
        fixed = where(grant, own_namespace)
        for right in rights(grant):
            places = [fixed] if fixed else [""] if _cluster_scoped(right) or not namespaces else namespaces
            for place in places:
                by_place[place].add(right)
    name = f"tidewright-actuator-{feature}"
    documents: list[Manifest] = []
    for place, given in sorted(by_place.items()):
        documents += _role(name, place, rules(given), own_namespace)
    return documents


def base(own_namespace: str) -> list[Manifest]:
    """What it needs whatever is on: whose decisions may be carried out here, the uid of kube-system."""
    return _role(
        "tidewright-actuator", "", [rule("", ["namespaces"], "get", names=["kube-system"])], own_namespace
    )


def _role(name: str, namespace: str, given: list[Rule], own_namespace: str) -> list[Manifest]:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return [
        {"apiVersion": f"{API}/v1", "kind": kind, "metadata": metadata, "rules": given},
        {
            "apiVersion": f"{API}/v1", "kind": f"{kind}Binding", "metadata": metadata,
            "roleRef": {"apiGroup": API, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "actuator", "namespace": own_namespace}],
        },
    ]  # fmt: skip
