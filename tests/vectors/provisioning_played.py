"""A case as events for the whole decider: its nodes, groups, pods and requests, and what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_life import NOW, CloudGroup, Cluster
from tests.vectors.provisioning_world import Entry
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.config import ConfigSet
from tidewright.kube.times import rfc3339
from tidewright.provisioning.requests import conditions as cond


def played(case: Entry, **settings: Any) -> Cluster:
    """The cluster of a case, with nothing asked of it yet; its cloud takes orders and lets nothing appear."""
    cluster = Cluster(boots=False)
    machines = [msgspec.to_builtins(machine) for machine in w.machines_of(case)]
    # The label that names the group is one that balancing ignores in these cases.
    config: JsonObject = {"balancing-ignore-label": ["ng"], "machine-types": machines, **settings}
    cluster.tell(ConfigSet(at=NOW, name="provisioning", data=config))
    nodes = w.spread_out(case.get("nodes", ()))
    given = {group["id"]: group for group in case.get("node_groups", ())}
    for node in nodes:
        if node.get("group"):
            given.setdefault(node["group"], {"id": node["group"]})
    for name, entry in given.items():
        _tell_group(cluster, case, name, entry, [node for node in nodes if node.get("group") == name])
    for node in nodes:
        _tell_node(cluster, node)
    for pod in w.spread_out(case.get("pods", ())):
        tell_pod(cluster, pod)
    return cluster


def _tell_group(cluster: Cluster, case: Entry, name: str, entry: Entry, nodes: Sequence[Entry]) -> None:
    template = entry.get("template")
    cluster.groups[name] = CloudGroup(
        name,
        entry.get("min", 1),
        entry.get("max", 10),
        entry.get("target", len(nodes)),
        _template(name, template) if template else p.TemplateNode(),
        [p.Instance(id=f"sim://{node['name']}", state="running") for node in nodes],
        extra={
            "zero_or_max": entry.get("zero_or_max", case.get("options", {}).get("zero_or_max", False)),
            "exists": entry.get("exists", True),
        },
        from_zero=bool(template),
    )
    cluster.observe_group(name)


def _template(group: str, entry: Entry) -> p.TemplateNode:
    return p.TemplateNode(
        labels={"ng": group},
        taints=_taints(entry),
        allocatable=w.resources(entry),
        capacity=w.resources(entry),
    )


def _taints(entry: Entry) -> tuple[dict[str, str], ...]:
    return tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in w.taints_of(entry))


def _tell_node(cluster: Cluster, node: Entry) -> None:
    view, ready = w.node_view(node), node.get("ready", True)
    cluster.tell(
        f.NodeObserved(
            at=NOW,
            name=node["name"],
            labels=dict(view.labels),
            taints=_taints(node),
            allocatable=w.resources(node),
            unschedulable=view.unschedulable,
            ready=ready,
            ready_changed_at=NOW - node.get("ready_for", 120),
            created_at=NOW - 180,
            provider_id=f"sim://{node['name']}" if node.get("group") else "",
        )
    )


def tell_pod(cluster: Cluster, pod: Entry) -> None:
    """A pod of a case, on its node or unschedulable."""
    shape = w.shape(pod)
    cluster.tell(
        f.ShapeObserved(
            at=NOW,
            digest=shape.digest,
            requests={name: amount for name, amount in shape.requests.items() if name != "pods"},
            scheduling=w.scheduling(pod),
            namespace=shape.namespace,
            labels=dict(shape.labels),
            priority=shape.priority,
        )
    )
    cluster.tell(
        f.PodObserved(
            at=NOW,
            namespace=shape.namespace,
            name=pod["name"],
            uid=pod["name"],
            shape=shape.digest,
            labels=dict(shape.labels),
            phase="Running" if pod.get("node") else "Pending",
            node=pod.get("node") or "",
            annotations=dict(pod.get("annotations", {})),
            created_at=NOW - pod.get("age", 0),
            unschedulable_since=None if pod.get("node") else NOW,
        )
    )


def tell_request(cluster: Cluster, request: Entry, *, templates: bool = True) -> None:
    """A request of a case with its templates, and with the conditions that its status has.

    Without `templates` its turn does not come: they may still be on their way.
    """
    namespace, name = request.get("namespace", "ns"), request["name"]
    sets = request.get("podsets", ()) or ({"count": 1},)
    named = [pod_set.get("template", f"{name}-{number}".lower()) for number, pod_set in enumerate(sets)]
    for template, pod_set in zip(named, sets, strict=True):
        if not templates or template in request.get("missing_templates", ()):
            continue
        amounts = {"cpu": f"{pod_set.get('cpu', 0)}m", "memory": str(pod_set.get("memory", 0))}
        container = {"name": "c", "resources": {"requests": amounts}}
        cluster.tell(
            p.PodTemplateObserved(
                at=NOW,
                namespace=namespace,
                name=template,
                template={"spec": {"containers": [container]}},
            )
        )
    cluster.tell(
        p.ProvisioningRequestObserved(
            at=NOW,
            namespace=namespace,
            name=name,
            uid=name,
            generation=1,
            created_at=NOW + request.get("created", 0),
            spec={
                "provisioningClassName": request.get("class", ""),
                "podSets": [
                    {"podTemplateRef": {"name": template}, "count": pod_set["count"]}
                    for template, pod_set in zip(named, sets, strict=True)
                ],
                "parameters": dict(request.get("parameters", {})),
            },
            status={"conditions": [_condition(c) for c in w.conditions_of(request.get("conditions", ()))]},
        )
    )


def _condition(condition: cond.Condition) -> JsonObject:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": rfc3339(condition.changed_at),
    }


def ordered(cluster: Cluster) -> dict[str, int]:
    """Nodes that were ordered, by group."""
    return {order.target.name: order.size - order.from_size for order in cluster.of(p.IncreaseNodeGroup)}


def scaled(case: Entry) -> Cluster:
    """The cluster of a case about scaling up after its first turn."""
    options = case.get("options", {})
    quotas = [
        {"id": q["id"], "limits": q["limits"], **({} if q["groups"] == "*" else {"groups": q["groups"]})}
        for q in options.get("quotas", ())
    ]
    totals = {name: options[f"max_{key}"] for name, key in _TOTALS.items() if f"max_{key}" in options}
    if totals:  # in the cases' units, which are not those of `cores-total`
        quotas.append({"id": "cluster-wide", "limits": totals})
    settings: JsonObject = {key: options[name] for key, name in _SETTINGS.items() if name in options}
    if case.get("choose"):
        priorities = {"2": [f"^{case['choose']['group']}$"], "1": [".*"]}
        settings |= {"expander": ["priority"], "priorities": priorities}
    cluster = played(case, **{"quiet-window": "0s", "quotas": quotas, **settings})
    while min(cluster.fold.timers.values(), default=NOW + 1) <= NOW and not cluster.of(p.PlanScaleUp):
        cluster.fire()
    return cluster


_TOTALS = {"cpu": "cores", "memory": "memory"}
_SETTINGS = {
    "max-nodes-total": "max_nodes_total",
    "balance-similar-node-groups": "balance",
    "parallel-scale-up": "parallel",
    "enforce-node-group-min-size": "enforce_min",
}
