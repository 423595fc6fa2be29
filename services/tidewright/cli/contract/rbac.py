"""What each service may do at the API server: the rules of its ClusterRole, from the tables of kinds.

The watcher reads, the actuator writes what decisions ask for, and everybody else has no verb at all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from tidewright.cli.services import Role, Service
from tidewright.kube.kinds import KINDS
from tidewright.watcher.incumbents.rivals import LOOKS

Rule: TypeAlias = dict[str, Any]

ADMISSION = "admissionregistration.k8s.io"
DEFINITIONS = "apiextensions.k8s.io"


def rule(group: str, resources: list[str], *verbs: str, names: list[str] | None = None) -> Rule:
    """One rule of a role; `names` narrows it to objects of these names."""
    narrowed = {"resourceNames": names} if names else {}
    return {"apiGroups": [group], "resources": resources, **narrowed, "verbs": list(verbs)}


def rules(service: Service) -> list[Rule]:
    """The rules of a service's ClusterRole; empty for one that talks to nothing but the log."""
    match service.role:
        case Role.WATCHER:
            return _watcher()
        case Role.ACTUATOR:
            return _actuator()
    return []


def _watcher() -> list[Rule]:
    watched: dict[str, list[str]] = defaultdict(list)
    for kind in KINDS:
        watched[kind.group].append(kind.plural)
    return [
        *(rule(group, sorted(plurals), "list", "watch") for group, plurals in sorted(watched.items())),
        # Targets of autoscalers may be of any kind with a scale.
        rule("*", ["*/scale"], "get"),
        rule("external.metrics.k8s.io", ["*"], "get", "list"),
        rule("metrics.k8s.io", ["pods"], "get", "list"),
        # The priorities of node groups, where Cluster Autoscaler's users have them.
        rule("", ["configmaps"], "list", "watch", names=["cluster-autoscaler-priority-expander"]),
        # Whether another controller is at the work of one of our services.
        *_incumbents(),
        # Whose log this is: the uid of kube-system.
        rule("", ["namespaces"], "get", names=["kube-system"]),
    ]


def _incumbents() -> list[Rule]:
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for look in LOOKS:
        if look.name:
            named[look.group, look.plural].add(look.name)
    return [
        rule(group, [plural], "list", "watch", names=sorted(names))
        for (group, plural), names in sorted(named.items())
    ]


def _actuator() -> list[Rule]:
    return [
        # Whose decisions may be carried out here: the uid of kube-system.
        rule("", ["namespaces"], "get", names=["kube-system"]),
        rule("*", ["*/scale"], "get", "update"),
        rule("", ["pods"], "get", "create", "patch", "delete"),
        rule("", ["pods/eviction"], "create"),
        # The annotation that says for whom room on a node is kept.
        rule("", ["nodes"], "get", "patch"),
        rule("", ["events"], "create", "patch"),
        # The status that provisioning reports. A name cannot be demanded of a create.
        rule("", ["configmaps"], "create"),
        rule("", ["configmaps"], "patch", names=["cluster-autoscaler-status"]),
        rule("datadoghq.com", ["watermarkpodautoscalers"], "get", "patch"),
        rule("datadoghq.com", ["watermarkpodautoscalers/status"], "update"),
        rule("autoscaling.x-k8s.io", ["provisioningrequests"], "get", "delete"),
        rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], "update", "patch"),
        rule("apps.kruise.io", ["workloadspreads"], "get"),
        rule("apps.kruise.io", ["workloadspreads/status"], "update"),
        rule("shards.tidewright.dev", ["shardsets"], "get"),
        rule("shards.tidewright.dev", ["shardsets/status"], "update"),
        rule("shards.tidewright.dev", ["shardmembers"], "get", "patch", "delete"),
        # Locks of workers in gate mode, and of the original manager whose place ours takes.
        rule("coordination.k8s.io", ["leases"], "get", "create", "patch", "delete"),
        # The certificates of our endpoints. A name cannot be demanded of a create.
        rule(ADMISSION, ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
             "get", "create", "update", "delete"),
        rule(DEFINITIONS, ["customresourcedefinitions"], "get", "update"),
    ]  # fmt: skip
