"""What users get wrong: refused with the field and the reason, or warned about; pods fare as specified."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.e2e.conftest import Cluster, Services
from tests.e2e.sim.world import until
from tests.e2e.spread.world import World, deployment, places, spread, subset, template
from tidewright.kube.errors import KubeError

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = ("apps/v1", "Deployment", "web")
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}
WEIGHT = [{"weight": 101, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("V2", spread("x", ("apps/v1", "Deployment", ""), subset("a")), "spec.targetRef"),
    ("V3", spread("x", ("batch/v1", "Deployment", "web"), subset("a")), "group apps"),
    ("V4", spread("x", ("example.com/v1", "Fleet", "web"), subset("a")), "whitelist"),
    ("V6", spread("x", WEB), "spec.subsets"),
    ("V7", spread("x", WEB, subset("")), "spec.subsets[0].name"),
    ("V8", spread("x", WEB, subset("a"), subset("a")), "spec.subsets[1].name"),
    ("V9", spread("x", WEB, subset("a", requiredNodeSelectorTerm=TERM)), "spec.subsets[0].requiredNodeSelector"),
    ("V10", spread("x", WEB, subset("a", preferredNodeSelectorTerms=WEIGHT)), "spec.subsets[0].preferredNodeSelector[0]"),
    ("V11", spread("x", WEB, subset("a", tolerations=[{"operator": "Equal", "value": "x"}])), "spec.subsets[0].tolerations[0]"),
    ("V13", spread("x", WEB, subset("a", 3), subset("b", "30%")), "spec.subsets[1].maxReplicas"),
    ("V14", spread("x", ("apps/v1", "StatefulSet", "db"), subset("a", "30%"), subset("b")), "spec.subsets[0].maxReplicas"),
    ("V15", spread("x", WEB, subset("a", -1)), "spec.subsets[0].maxReplicas"),
    ("Q2", spread("x", WEB, subset("a", "40"), subset("b")), "'40'"),
    ("V16", spread("x", WEB, subset("a", "60%"), subset("b", "60%")), "spec.subsets[1].maxReplicas"),
    ("V17", spread("x", WEB, subset("a", "60%"), subset("b", "30%")), "spec.subsets[0].maxReplicas"),
    ("V19", spread("x", WEB, subset("a"), scheduleStrategy={"adaptive": {"rescheduleCriticalSeconds": 5}}), "spec.scheduleStrategy.type"),
    (
        "V20",
        spread("x", WEB, subset("a", 1), subset("b", 1), scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}}),
        "spec.scheduleStrategy.adaptive",
    ),
    (
        "V21",
        spread("x", WEB, subset("a", 1), subset("b"), scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 296}}),
        "rescheduleCriticalSeconds",
    ),
    (
        "V22",
        spread("x", WEB, subset("a"), targetFilter={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
        "spec.targetFilter",
    ),
    ("V23", spread("x", WEB, subset("a")), "good"),
]  # fmt: skip


async def test_every_rule_is_said_with_its_field(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("good", WEB, subset("a")))
    await world.until(f"{world.spreads}/good", lambda ws: "status" in ws)
    for rule, manifest, words in REFUSED:
        with pytest.raises(KubeError) as refused:
            await world.make(world.spreads, manifest)
        assert words in str(refused.value), (rule, str(refused.value))
        assert refused.value.status == 400, rule
    with pytest.raises(KubeError, match=r"spec\.targetRef"):  # V25
        await world.patch(f"{world.spreads}/good", {"spec": {"targetRef": {"name": "other"}}})
    # A type that is none is refused by the schema already (V18), and an incomplete target too (V1).
    with pytest.raises(KubeError, match=r"scheduleStrategy\.type"):
        await world.make(world.spreads, spread("x", WEB, subset("a"), scheduleStrategy={"type": "Eager"}))
    incomplete = spread("x", WEB, subset("a"))
    del incomplete["spec"]["targetRef"]
    with pytest.raises(KubeError, match="targetRef"):
        await world.make(world.spreads, incomplete)


async def test_a_malformed_whitelist_is_an_internal_error_of_the_target(
    world: World, spreading: Services
) -> None:
    await world.allow('{"workloads": [,]}')

    async def said() -> str:
        with pytest.raises(KubeError) as refused:
            await world.make(world.spreads, spread("x", ("example.com/v1", "Fleet", "web"), subset("a")))
        return str(refused.value)

    words = await waiting.until(said, lambda words: "neither built in" not in words)
    assert "spec.targetRef" in words
    assert "kruise-configuration" in words
    # Built-in kinds do not need it.
    await world.make(world.spreads, spread("web", WEB, subset("a")))


async def test_what_has_no_effect_is_warned_about(
    world: World, cluster: Cluster, spreading: Services
) -> None:
    manifest = spread("web", WEB, subset("a", minReplicas=2), subset("b"))
    answer = await asyncio.to_thread(
        subprocess.run,
        [
            str(Path(sys.executable).parent / "kubectl"), "--kubeconfig", str(cluster.kubeconfig),
            "-n", world.namespace, "apply", "-f", "-",
        ],
        input=json.dumps(manifest), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "Warning: spec.subsets[0].minReplicas" in answer.stderr


async def test_a_patch_that_does_not_apply_refuses_the_pod_and_takes_no_place(
    world: World, spreading: Services
) -> None:
    nowhere = {"spec": {"containers": "main"}}  # no template could make it good
    with pytest.raises(KubeError, match=r"spec\.subsets\[0\]\.patch.*no list"):
        await world.make(world.spreads, spread("web", WEB, subset("a", 1, patch=nowhere), subset("b")))
    broken = {"spec": {"containers": [{"image": "which"}]}}  # of which container?
    await world.make(world.spreads, spread("web", WEB, subset("a", 1, patch=broken), subset("b")))
    await world.until(f"{world.spreads}/web", lambda ws: "status" in ws)
    await world.make(world.deployments, deployment("web", 2))
    # The ReplicaSet's controller is refused, again and again; so is whoever makes such a pod.
    replica_sets = world.collection("apps/v1", "replicasets")
    (found,) = (await until(world.kube, replica_sets, lambda made: len(made) == 1)).values()
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True,
        "name": found["metadata"]["name"], "uid": found["metadata"]["uid"],
    }  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", **template({"app": "web"})}
    pod["metadata"] |= {"generateName": "web-", "ownerReferences": [reference]}
    with pytest.raises(KubeError, match=r"subset 'a': patch: .*name"):
        await world.make(world.pods, pod)
    assert places((await until(world.kube, world.pods, lambda _: True)).values()) == {}
    repaired = [subset("a", 1), subset("b")]
    await world.patch(f"{world.spreads}/web", {"spec": {"subsets": repaired}})
    await world.until_spread({"a": 1, "b": 1})


async def test_a_create_that_fails_after_admission_gives_its_place_back(
    world: World, spreading: Services
) -> None:
    """A quota refuses what admission has placed; when it is raised, the first subset is filled (4.5)."""
    quotas = f"/api/v1/namespaces/{world.namespace}/resourcequotas"
    await world.make(world.spreads, spread("web", WEB, subset("a", 5), subset("b")))
    await world.until(f"{world.spreads}/web", lambda ws: "status" in ws)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "3"}},
    }
    await world.make(quotas, quota)
    await world.until(f"{quotas}/few", lambda q: "hard" in q.get("status", {}))
    await world.make(world.deployments, deployment("web", 5))
    await world.until_spread({"a": 3})
    # Nobody tries any more; the places of the pods that never came are free again after the bound.
    await world.scale("web", 3)
    await world.until_event("CreatePodFailed")
    await world.until(f"{world.spreads}/web", lambda ws: free(ws) == [2, -1])
    await world.delete(f"{quotas}/few")
    await world.scale("web", 5)
    await world.until_spread({"a": 5})


def free(found: dict[str, Any]) -> list[int]:
    """Free slots; none while pods are in flight."""
    status = found["status"]
    if any("creatingPods" in e for entries in status["versionedSubsetStatuses"].values() for e in entries):
        return []
    return [entry["missingReplicas"] for entry in status["subsetStatuses"]]
