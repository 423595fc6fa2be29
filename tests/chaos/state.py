"""The cluster as a scenario leaves it, without what says when; and what of it is not as it has to be."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec

from tests.chaos import moving, shards
from tests.chaos.scenario import (
    ALONE,
    FINAL_PLACES,
    FINAL_REPLICAS,
    FIRST,
    GROUP,
    PEAK,
    VALLEY_PLACES,
    VALLEY_REPLICAS,
    Scenario,
    fixed_points,
)
from tidewright.kube.client import Kube
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION
from tidewright.sharding.wire import document_of
from tidewright.shardmanager.propeller.pods import CONFIG_HASH
from tidewright.shardmanager.shardset.spec import SET_LABEL, SLOTS_ANNOTATION

SPREADS = "/apis/apps.kruise.io/v1alpha1/workloadspreads"


def off_the_plateau(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """Who is not up there, or has no costs yet by which the first subset's pods go last."""
    wanted = fixed_points(PEAK)
    lines = [f"{n}: {w}, not {wanted}" for n, w in state["workloads"].items() if w["ready"] not in wanted]
    for name in scenario.spread:
        costs = state["costs"].get(name, [])
        last = [subset for _, subset in sorted(costs)[-FIRST:]]
        if last != ["first"] * FIRST or sorted(costs)[-FIRST][0] <= 0:
            lines.append(f"{name}: costs {costs}")
    return lines


def off_the_valley(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """Who is not down there, or elsewhere than in the first subset."""
    lines = [f"{n}: {w}" for n, w in state["workloads"].items() if w["ready"] != VALLEY_REPLICAS]
    placed = {name: state["places"].get(name) for name in scenario.spread}
    return lines + [f"{n}: placed {p}" for n, p in placed.items() if p != VALLEY_PLACES]


def unsettled(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """What is not as it has to be at the end, a line each."""
    lines = [f"{n}: {w}" for n, w in state["workloads"].items() if w["ready"] != FINAL_REPLICAS]
    for name, found in state["autoscalers"].items():
        # Silence alone does not say it: who would speak may be on the way up again.
        said = [found["conditions"].get(c, "").startswith("True") for c in ("AbleToScale", "ScalingActive")]
        if not all(said) or (found["desired"], found["current"]) != (FINAL_REPLICAS, FINAL_REPLICAS):
            lines.append(f"autoscaler {name}: {found}")
    for name in scenario.spread:
        if (found := state["places"].get(name)) != FINAL_PLACES:
            lines.append(f"{name}: placed {found}, not {FINAL_PLACES}")
    for name, found in state["requests"].items():
        if not found.get("BookingExpired", "").startswith("True") and not found.get("Failed", "").startswith(
            "True"
        ):
            lines.append(f"request {name}: {found}")
    lines += [f"node {name} of the cloud" for name in state["cloud"]]
    if state["alone"] != FINAL_REPLICAS * scenario.alone:
        lines.append(f"{state['alone']} nodes for {FINAL_REPLICAS * scenario.alone} pods that take one each")
    lines += [f"node {name} is marked" for name in state["marked"]]
    if (state["moving"]["nodes"], state["moving"]["pods"]) != (moving.LAST_NODES, moving.KEPT):
        lines.append(f"loads that come and go: {state['moving']}")
    return lines + _unshared(state, scenario.shards)


def _unshared(state: dict[str, Any], asked: shards.Shards) -> list[str]:
    """What is not as it has to be of the ShardSets and the fleets."""
    wanted = asked.pods()
    found: dict[str, dict[str, Any]] = state["workers"]
    lines = [f"pod {n}: {found.get(n)}, not {told}" for n, told in wanted.items() if found.get(n) != told]
    lines += [f"pod {name} that nobody asked for" for name in found.keys() - wanted.keys()]
    for namespace in asked.sets:
        name = f"{namespace}/{shards.SET}"
        seen = state["sets"].get(name, {})
        if (seen.get("rollout"), seen.get("owners")) != ("Complete", asked.owners()):
            lines.append(f"shard set {name}: {seen}")
    return lines


async def final_state(kube: Kube) -> dict[str, Any]:
    """Replicas, conditions and placements, without what says when."""

    async def listed(path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = msgspec.json.decode((await kube.request("GET", path)).body)["items"]
        return [i for i in items if i["metadata"].get("namespace", "").startswith("team-")]

    workloads = {
        _key(d): {"replicas": d["spec"]["replicas"], "ready": d.get("status", {}).get("readyReplicas", 0)}
        for d in await listed("/apis/apps/v1/deployments")
    }
    autoscalers = {
        _key(w): {
            "conditions": _conditions(w),
            "desired": w.get("status", {}).get("desiredReplicas"),
            "current": w.get("status", {}).get("currentReplicas"),
        }
        for w in await listed("/apis/datadoghq.com/v1alpha1/watermarkpodautoscalers")
    }
    workers: dict[str, dict[str, Any]] = {}
    places: dict[str, Counter[str]] = defaultdict(Counter)
    costs: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for pod in await listed("/api/v1/pods"):
        labels = pod["metadata"].get("labels", {})
        if SET_LABEL in labels or labels.get("app") == shards.FLEET:
            workers[_key(pod)] = _worker(pod)
        if "deletionTimestamp" not in pod["metadata"] and "subset" in labels:
            name = f"{pod['metadata']['namespace']}/{labels['app']}"
            places[name][labels["subset"]] += 1
            cost = pod["metadata"].get("annotations", {}).get(DELETION_COST_ANNOTATION, "0")
            costs[name].append((int(cost), labels["subset"]))
    spreads = {
        _key(w): [
            {name: subset.get(name) for name in ("name", "replicas", "missingReplicas", "conditions")}
            for subset in w.get("status", {}).get("subsetStatuses", [])
        ]
        for w in await listed(SPREADS)
    }
    requests = {
        _key(r): _conditions(r) for r in await listed("/apis/autoscaling.x-k8s.io/v1/provisioningrequests")
    }
    nodes = msgspec.json.decode((await kube.request("GET", "/api/v1/nodes")).body)["items"]
    cloud = sorted(
        n["metadata"]["name"] for n in nodes if n["metadata"].get("labels", {}).get("group") == GROUP
    )
    served = msgspec.json.decode(
        (await kube.request("GET", f"/api/v1/namespaces/{moving.NAMESPACE}/pods")).body
    )
    running = sum(
        pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        for pod in served["items"]
    )
    return {
        "moving": {"nodes": sum(map(moving.is_ours, nodes)), "pods": running},
        "alone": sum(node["metadata"].get("labels", {}).get("group") == ALONE for node in nodes),
        "marked": sorted(n["metadata"]["name"] for n in nodes if moving.is_marked(n)),
        "workloads": workloads, "autoscalers": autoscalers, "places": {k: dict(v) for k, v in places.items()},
        "sets": {_key(i): _set(i) for i in await listed(shards.SETS)}, "workers": workers, "spreads": spreads, "costs": {k: sorted(v) for k, v in costs.items()}, "requests": requests, "cloud": cloud,
    }  # fmt: skip


def _key(item: dict[str, Any]) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _conditions(item: dict[str, Any]) -> dict[str, str]:
    found = item.get("status", {}).get("conditions", [])
    # Said only after the metrics were stale once, which depends on who was killed.
    found = [c for c in found if (c["type"], c["status"]) != ("MetricsFresh", "True")]
    return {c["type"]: f"{c['status']} {c.get('reason', '')}: {c.get('message', '')}" for c in found}


def _worker(pod: dict[str, Any]) -> dict[str, Any]:
    """What a shard's pod was told, and how it is."""
    meta = pod["metadata"]
    told = {"slots": SLOTS_ANNOTATION, "hash": CONFIG_HASH}
    found = {k: meta["annotations"][a] for k, a in told.items() if a in meta.get("annotations", {})}
    phase = "Terminating" if "deletionTimestamp" in meta else pod.get("status", {}).get("phase")
    return {**found, "phase": phase, shards.RELEASE: meta["labels"].get(shards.RELEASE)}


def _set(found: dict[str, Any]) -> dict[str, Any]:
    """A ShardSet's conditions, and how many slots each shard has."""
    status = found.get("status", {})
    owners = Counter[str]()
    if status.get("assignment"):
        owners.update(r.owner.partition("#")[0] for r in document_of(status["assignment"]).slots)
    rollout = status.get("rollout", {}).get("state")
    return {"conditions": _conditions(found), "rollout": rollout, "owners": dict(owners)}
