"""`estimator.json`: node estimates of one group; the placement itself is checked, not only the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.vectors.suite import Case, Result, Suite, Verdict
from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import estimate
from tidewright.provisioning.pack.templates import Estimate, Template

MIB = 1024 * 1024
GPU = "nvidia.com/gpu"
FIELDS = {"node_cpu_milli", "node_memory_mib", "node_pods", "max_nodes", "groups"}


def cases(content: Any) -> Sequence[Case] | None:
    found = content.get("cases") if isinstance(content, dict) else content
    if isinstance(found, list) and found and isinstance(found[0], dict) and found[0].keys() >= FIELDS:
        return found
    return None


def shape(case: str, index: int, group: Case) -> PodShape:
    labels = {"group": f"{case}-{index}"}
    scheduling: dict[str, Any] = {}
    if group.get("anti_affinity_hostname"):
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
        scheduling["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    requests = {"cpu": group["cpu_milli"], "memory": group["memory_mib"] * MIB, GPU: group.get("gpu", 0)}
    return of_fields(requests=requests, scheduling=scheduling, namespace="ns", labels=labels)


def broken(case: Case, items: Sequence[Item], found: Estimate) -> list[str]:
    """What is wrong with a placement, looked at node by node."""
    wrong: list[str] = []
    allocatable = {
        "cpu": case["node_cpu_milli"],
        "memory": case["node_memory_mib"] * MIB,
        "pods": case["node_pods"],
        GPU: case.get("node_gpu", 0),
    }
    by_digest = {item.shape.digest: i for i, item in enumerate(items)}
    placed = [0] * len(items)
    nodes = 0
    for layout in found.layouts:
        nodes += layout.nodes
        used = dict.fromkeys(allocatable, 0)
        for digest, pods in layout.pods.items():
            index = by_digest[digest]
            placed[index] += pods * layout.nodes
            for name, amount in items[index].shape.requests.items():
                used[name] += amount * pods
            if case["groups"][index].get("anti_affinity_hostname") and pods > 1:
                wrong.append(f"{pods} pods of group {index} share a node in spite of anti-affinity")
        wrong += [
            f"{name}: {used[name]} on a node of {allocatable[name]}"
            for name in used
            if used[name] > allocatable[name]
        ]
    if nodes != found.nodes:
        wrong.append(f"{found.nodes} nodes reported, {nodes} laid out")
    if tuple(placed) != found.placed:
        wrong.append(f"{found.placed} pods reported, {placed} laid out")
    wrong += [f"group {i}: {n} of {items[i].count} pods" for i, n in enumerate(placed) if n > items[i].count]
    return wrong


def run(case: Case) -> Result:
    items = [Item(shape(case["name"], i, g), g["count"]) for i, g in enumerate(case["groups"])]
    view = NodeView(
        name="template",
        labels={HOSTNAME: "template"},
        allocatable={
            "cpu": case["node_cpu_milli"],
            "memory": case["node_memory_mib"] * MIB,
            "pods": case["node_pods"],
            GPU: case.get("node_gpu", 0),
        },
    )
    found = estimate(items, Template(view=view), case["max_nodes"])
    wrong = broken(case, items, found)
    limit = case["max_nodes"]
    if limit and found.nodes > limit:
        wrong.append(f"{found.nodes} nodes, {limit} allowed")
    if found.pods < case["expected_pods"]:
        wrong.append(f"pods: expected at least {case['expected_pods']}, found {found.pods}")
    bound = limit and case["expected_pods"] < sum(g["count"] for g in case["groups"])
    if not bound:
        if found.nodes > case["expected_nodes"]:
            wrong.append(f"nodes: expected at most {case['expected_nodes']}, found {found.nodes}")
        wrong += [
            f"group {i}: expected {e} pods, found {n}"
            for i, (e, n) in enumerate(
                zip(case.get("expected_pods_by_group", ()), found.placed, strict=False)
            )
            if n < e
        ]
    return Result(case["name"], "estimate", Verdict.FAILED if wrong else Verdict.PASSED, tuple(wrong))


SUITE = Suite("estimator", cases, run)
