"""What each service may do at the API server: the rules of its ClusterRole, from the tables of kinds.

The watcher reads, the actuator writes what decisions ask for (`actuatorroles`), and everybody else has no verb at all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from tidewright.asking.services import Role, Service
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP
from tidewright.kube.kinds import KINDS
from tidewright.watcher.incumbents.rivals import LOOKS
from tidewright.watcher.served import LOOK as SERVED

Rule: TypeAlias = dict[str, Any]
API = "rbac.authorization.k8s.io"
READS = "tidewright-watcher-reads"
"""The ClusterRole of what else the watcher may list and watch, where somebody says so."""


def rule(group: str, resources: list[str], *verbs: str, names: list[str] | None = None) -> Rule:
    """One rule of a role; `names` narrows it to objects of these names."""
    narrowed = {"resourceNames": names} if names else {}
    return {"apiGroups": [group], "resources": resources, **narrowed, "verbs": list(verbs)}


def rules(service: Service) -> list[Rule]:
    """The rules of a service's ClusterRole; empty for one that talks to nothing but the log, and for the actuator."""
    return _watcher() if service.role is Role.WATCHER else []


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
        # The priorities of node groups, where Cluster Autoscaler's users have them, and the kinds that OpenKruise's name as workloads.
        rule(
            "",
            ["configmaps"],
            "list",
            "watch",
            names=["cluster-autoscaler-priority-expander", WHITELIST_CONFIG_MAP],
        ),
        # Whether another controller is at the work of one of our services, or is served the groups of our clouds.
        *_incumbents(),
        # Whose log this is: the uid of kube-system.
        rule("", ["namespaces"], "get", names=["kube-system"]),
    ]


def _incumbents() -> list[Rule]:
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for look in (*LOOKS, SERVED):
        if look.name:
            named[look.group, look.plural].add(look.name)
    return [
        rule(group, [plural], "list", "watch", names=sorted(names))
        for (group, plural), names in sorted(named.items())
    ]
