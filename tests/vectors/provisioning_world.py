"""Entries of `provisioning.json` (nodes, pods, groups, requests) as the decider's own values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors.reference.provisioning import Pending
from tests.vectors.suite import Case
from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.cluster_state import Counts, Health, group_healthy
from tidewright.provisioning.cluster.groups import (
    Group,
    RealNode,
    candidates,
    choose_template,
)
from tidewright.provisioning.cluster.limits import Limits, NodeAmounts, quotas_of
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.lifecycle import Candidate
from tidewright.provisioning.requests.search import Asked
from tidewright.provisioning.requests.spec import is_check_alias, mode_of, parameters_of
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.settings import MachineType, Quota, Settings

Entry = Mapping[str, Any]
Found = list[str]
"""Differences; empty when the case passes."""

GPU = "nvidia.com/gpu"
NOW = 1_790_000_000.0
"""The cases' `now`; their times are offsets from it."""


def wanted(case: Case) -> dict[str, Any]:
    """What a case expects: ours, where the reference's follows from a defect."""
    return {**case["expected"], **case.get("expected_ours", {})}


def spread_out(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Entries with `count` become so many named ones."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        if "name_prefix" in entry:
            found.extend(
                {**entry, "name": f"{entry['name_prefix']}{i}"} for i in range(entry.get("count", 1))
            )
        else:
            found.append(dict(entry))
    return found


def resources(entry: Entry) -> dict[str, int]:
    found = {
        "cpu": entry.get("cpu", 0),
        "memory": entry.get("memory", 0),
        "pods": entry.get("pods", 100),
    }
    if entry.get("gpu"):
        found[GPU] = entry["gpu"]
    return found


def taints_of(entry: Entry) -> tuple[Taint, ...]:
    given = [
        Taint(t, "", "NoSchedule") if isinstance(t, str) else Taint(t["key"], t.get("value", ""), t["effect"])
        for t in entry.get("taints", ())
    ]
    return tuple(given + ([Taint(GPU, "present", "NoSchedule")] if entry.get("gpu") else []))


def node_view(entry: Entry) -> NodeView:
    labels = {HOSTNAME: entry["name"], **entry.get("labels", {})}
    if entry.get("group"):
        labels["ng"] = entry["group"]
    return NodeView(
        name=entry["name"],
        labels=labels,
        taints=taints_of(entry),
        allocatable=resources(entry),
        unschedulable=entry.get("unschedulable", False),
    )


def scheduling(entry: Entry) -> dict[str, Any]:
    """What a pod of a case says of where it may run."""
    labels = dict(entry.get("labels", {}))
    scheduling: dict[str, Any] = {}
    if entry.get("node_selector"):
        scheduling["nodeSelector"] = dict(entry["node_selector"])
    tolerations = list(entry.get("tolerations", ()))
    if entry.get("tolerates_gpu"):
        tolerations.append({"key": GPU, "operator": "Exists"})
    if tolerations:
        scheduling["tolerations"] = tolerations
    if entry.get("host_port"):
        scheduling["hostPorts"] = [{"hostPort": entry["host_port"]}]
    if entry.get("spread"):
        spread = entry["spread"]
        scheduling["topologySpreadConstraints"] = [
            {
                "maxSkew": spread["max_skew"],
                "topologyKey": spread["key"],
                "minDomains": spread.get("min_domains", 1),
                "labelSelector": {"matchLabels": labels},
            }
        ]
    if entry.get("flex_volume"):
        scheduling["volumes"] = [{"claim": entry["flex_volume"]}]
    return scheduling


def shape(entry: Entry) -> PodShape:
    requests = {"cpu": entry.get("cpu", 0), "memory": entry.get("memory", 0), GPU: entry.get("gpu", 0)}
    return of_fields(
        requests={name: amount for name, amount in requests.items() if amount},
        scheduling=scheduling(entry),
        namespace=entry.get("namespace", "ns"),
        labels=dict(entry.get("labels", {})),
        priority=entry.get("priority", 0),
    )


def pending(entry: Entry) -> Pending:
    owner = entry.get("owner") or {}
    return Pending(
        name=entry["name"],
        namespace=entry.get("namespace", "default"),
        shape=shape(entry),
        annotations=dict(entry.get("annotations", {})),
        created_at=NOW - entry.get("age", 0),
        owner_kind=owner.get("kind", ""),
        owner_uid=owner.get("uid", ""),
    )


def grid_of(nodes: Sequence[Entry], pods: Sequence[Entry] = ()) -> Grid:
    grid = Grid()
    for node in spread_out(nodes):
        grid.add_node(node_view(node))
    for pod in spread_out(pods):
        if pod.get("node"):
            grid.put(shape(pod), grid.rows[pod["node"]])
    return grid


def settings_of(options: Entry) -> Settings:
    values: dict[str, Any] = {}
    for key, name in (
        ("max_cores", "max_cores"),
        ("max_memory", "max_memory_bytes"),
        ("max_nodes_total", "max_nodes_total"),
        ("balance", "balance"),
        ("parallel", "parallel"),
        ("processor_instance", "processor_instance"),
        ("enforce_min", "enforce_min"),
    ):
        if key in options:
            values[name] = options[key]
    quotas = tuple(
        Quota(
            id=q["id"],
            groups=None if q["groups"] == "*" else tuple(q["groups"]),
            limits=dict(q["limits"]),
        )
        for q in options.get("quotas", ())
    )
    # The label that names the group is one that balancing ignores in these cases.
    return Settings(quotas=quotas, ignored_labels=("ng",), **values)


def machines_of(case: Entry) -> tuple[MachineType, ...]:
    extra = case.get("options", {}).get("extra_created_groups", 0)
    return tuple(
        MachineType(
            name=m["name"],
            resources=resources(m),
            zones=tuple(f"zone-{i}" for i in range(extra + 1)) if extra else (),
        )
        for m in case.get("machine_types", ())
    )


def groups_of(case: Entry) -> tuple[Group, ...]:
    """Groups as given, and those that nodes name, with templates as the decider chooses them."""
    nodes = spread_out(case.get("nodes", ()))
    given = {g["id"]: dict(g) for g in case.get("node_groups", ())}
    for node in nodes:
        if node.get("group"):
            given.setdefault(node["group"], {"id": node["group"]})
    found: list[Group] = []
    for name, entry in given.items():
        mine = [n for n in nodes if n.get("group") == name]
        provided = None
        if entry.get("template"):
            provided = NodeView(
                name="template",
                labels={"ng": name},
                taints=taints_of(entry["template"]),
                allocatable=resources(entry["template"]),
            )
        ready = [n for n in mine if n.get("ready", True)]
        counts = Counts(
            target=entry.get("target", len(mine)), ready=len(ready), unready=len(mine) - len(ready)
        )
        found.append(
            Group(
                id=name,
                min=entry.get("min", 1),
                max=entry.get("max", 10),
                target=counts.target,
                nodes=len(mine),
                template=choose_template(
                    [
                        RealNode(
                            view=node_view(n),
                            ready_for_s=n.get("ready_for", 120) if n.get("ready", True) else None,
                        )
                        for n in mine
                    ],
                    provided=provided,
                ),
                zero_or_max=entry.get("zero_or_max", case.get("options", {}).get("zero_or_max", False)),
                exists=entry.get("exists", True),
                healthy=group_healthy(counts, Health()),
            )
        )
    return (*found, *candidates(machines_of(case), given, ()))


def world_of(case: Entry) -> World:
    settings = settings_of(case.get("options", {}))
    nodes = spread_out(case.get("nodes", ()))
    limits = Limits(quotas_of(settings))
    limits.count(NodeAmounts(capacity=resources(n), group=NodeGroupId(n.get("group") or "")) for n in nodes)
    return World(
        groups=groups_of(case),
        grid=grid_of(case.get("nodes", ()), case.get("pods", ())),
        limits=limits,
        settings=settings,
        current_nodes=len(nodes),
        seed=case["name"],
    )


def conditions_of(entries: Sequence[Entry]) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=c["type"],
            status=c["status"],
            reason=c.get("reason", ""),
            message=c.get("message", ""),
            changed_at=NOW + c.get("ltt", 0),
        )
        for c in entries
    )


def as_entries(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    return [
        {
            "type": c.type,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "ltt": c.changed_at - NOW,
        }
        for c in conditions
    ]


def asked_of(request: Entry) -> Asked:
    sets = tuple(
        Item(shape({**pod_set, "namespace": request.get("namespace", "ns")}), pod_set["count"])
        for pod_set in request.get("podsets", ())
    )
    return Asked(
        sets=sets,
        parameters=parameters_of(request.get("parameters", {}), len(sets)),
        alias=is_check_alias(request.get("class", "")),
    )


def candidate_of(request: Entry, instance: str = "") -> Candidate:
    parameters = request.get("parameters", {})
    understood = parameters_of(parameters, len(request.get("podsets", ())))
    return Candidate(
        namespace=request.get("namespace", "ns"),
        name=request["name"],
        uid=request["name"],
        mode=mode_of(request.get("class", ""), parameters, instance),
        created_at=NOW + request.get("created", 0),
        conditions=conditions_of(request.get("conditions", ())),
        booking_s=understood.booking_s,
        valid_until_s=understood.valid_until_s,
    )
