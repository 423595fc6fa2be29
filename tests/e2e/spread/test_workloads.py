"""Workloads of other kinds: StatefulSet, Job, and custom ones by whitelist, filter and paths."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests import waiting
from tests.e2e.conftest import Services
from tests.e2e.sim.world import until
from tests.e2e.spread.world import World, places, spread, subset, subset_of, template
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROLLOUT = ("argoproj.io", "v1alpha1", "Rollout", "rollouts")
TF_JOB = ("kubeflow.org", "v1", "TFJob", "tfjobs")
FLEET = ("games.example.com", "v1", "Fleet", "fleets")


def definition(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    """A CRD that takes anything; nobody controls its objects but the test. A Fleet can be scaled."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    subresources = {"subresources": {"scale": scale}} if kind == FLEET[2] else {}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **subresources,
                }
            ],
        },
    }


@pytest_asyncio.fixture(loop_scope="session")
async def custom(kube: Kube) -> AsyncIterator[None]:
    """Kinds of projects outside."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    world = World(kube, "")

    def established(found: dict[str, Any]) -> bool:
        conditions = found.get("status", {}).get("conditions") or ()
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    made = [definition(*kind) for kind in (ROLLOUT, TF_JOB, FLEET)]
    for manifest in made:
        await world.make(crds, manifest)
        await world.until(f"{crds}/{manifest['metadata']['name']}", established)
    yield
    for manifest in made:
        name = manifest["metadata"]["name"]
        await world.delete(f"{crds}/{name}")
        await until(kube, crds, lambda found, name=name: name not in found)  # type: ignore[misc]  # bound now


def owner(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"], "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip


async def until_allowed(world: World, manifest: dict[str, Any]) -> None:
    """Make a spread as soon as its target's kind is known to be allowed."""

    async def made() -> bool:
        try:
            await world.make(world.spreads, manifest)
        except KubeError as error:
            if "whitelist" not in str(error):
                raise
            return False
        return True

    await waiting.until(made, every_s=0.05)


async def test_a_stateful_set_is_spread_by_ordinals(world: World, spreading: Services) -> None:
    target = ("apps/v1", "StatefulSet", "db")
    await world.make(world.spreads, spread("db", target, subset("a", 2), subset("b", 1), subset("c")))
    await world.until(f"{world.spreads}/db", lambda ws: "status" in ws)
    labels = {"app": "db"}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 5,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template(labels),
        },
    }
    await world.make(world.collection("apps/v1", "statefulsets"), manifest)
    pods = await world.until_spread({"a": 2, "b": 1, "c": 2})
    assert {name: subset_of(pod) for name, pod in pods.items()} == {
        "db-0": "a", "db-1": "a", "db-2": "b", "db-3": "c", "db-4": "c",
    }  # fmt: skip
    counted = [2, 1, 2]
    await world.until(
        f"{world.spreads}/db",
        lambda ws: [s["replicas"] for s in ws["status"]["subsetStatuses"]] == counted,
    )


async def test_a_job_is_spread_by_its_parallelism(world: World, spreading: Services) -> None:
    target = ("batch/v1", "Job", "batch")
    await world.make(world.spreads, spread("batch", target, subset("a", "25%"), subset("b", "75%")))
    await world.until(f"{world.spreads}/batch", lambda ws: "status" in ws)
    pod = template({"app": "batch"}, restartPolicy="Never", schedulerName="nobody")
    manifest = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"},
        "spec": {"parallelism": 8, "completions": 8, "template": pod},
    }  # fmt: skip
    await world.make(world.collection("batch/v1", "jobs"), manifest)
    await world.until_spread({"a": 2, "b": 6})


async def test_an_argo_rollout_is_spread_through_its_replica_sets(
    world: World, custom: None, spreading: Services
) -> None:
    group, version, kind, plural = ROLLOUT
    await world.allow(
        json.dumps({"workloads": [{"Group": group, "Kind": kind, "replicasPath": "spec.replicas"}]})
    )  # without a version
    target = (f"{group}/{version}", kind, "web")
    await until_allowed(world, spread("web", target, subset("a", "40%"), subset("b", "60%")))
    rollouts = world.collection(f"{group}/{version}", plural)
    manifest = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 5},
    }
    made = await world.make(rollouts, manifest)
    await world.until(
        f"{world.spreads}/web",
        lambda ws: [s["missingReplicas"] for s in ws.get("status", {}).get("subsetStatuses", ())] == [2, 3],
    )
    labels = {"app": "web", "rollouts-pod-template-hash": "6b8f"}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-6b8f", "labels": labels, "ownerReferences": [owner(made)]},
        "spec": {"replicas": 5, "selector": {"matchLabels": labels}, "template": template(labels)},
    }
    replica_sets = world.collection("apps/v1", "replicasets")
    await world.make(replica_sets, replica_set)
    await world.until_spread({"a": 2, "b": 3})
    # It is scaled as its controller would: the Rollout first, then its ReplicaSet.
    await world.patch(f"{rollouts}/web", {"spec": {"replicas": 10}})
    await world.patch(f"{replica_sets}/web-6b8f", {"spec": {"replicas": 10}})
    await world.until_spread({"a": 4, "b": 6})


async def test_the_workers_of_a_tf_job_are_spread_and_its_chief_is_left_alone(
    world: World, custom: None, spreading: Services
) -> None:
    group, version, kind, plural = TF_JOB
    await world.allow(json.dumps({"workloads": [{"Group": group, "Version": version, "Kind": kind}]}))
    target = (f"{group}/{version}", kind, "train")
    only = {
        "selector": {"matchLabels": {"role": "worker"}},
        "replicasPathList": ["spec.tfReplicaSpecs.Worker.replicas"],
    }
    manifest = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 8}, "Chief": {"replicas": 1}}},
    }
    made = await world.make(world.collection(f"{group}/{version}", plural), manifest)
    await until_allowed(
        world, spread("train", target, subset("a", "25%"), subset("b", "75%"), targetFilter=only)
    )
    await world.until(
        f"{world.spreads}/train",
        lambda ws: [s["missingReplicas"] for s in ws.get("status", {}).get("subsetStatuses", ())] == [2, 6],
    )
    pods = []
    for role, count in (("chief", 1), ("worker", 8)):
        for n in range(count):
            pod = template({"job": "train", "role": role}, schedulerName="nobody")
            pod["metadata"] |= {"name": f"train-{role}-{n}", "ownerReferences": [owner(made)]}
            pods.append(await world.make(world.pods, {"apiVersion": "v1", "kind": "Pod", **pod}))
    assert places(pods) == {"": 1, "a": 2, "b": 6}
    assert subset_of(pods[0]) == ""
    # A path that leads nowhere is said, and the last number that was read holds.
    await world.patch(
        f"{world.collection(f'{group}/{version}', plural)}/train",
        {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": "many"}}}},
    )
    await world.until_event("TargetReplicasUnknown", "'many'")
    full = [0, 0]
    await world.until(
        f"{world.spreads}/train",
        lambda ws: [s["missingReplicas"] for s in ws["status"]["subsetStatuses"]] == full,
    )


async def test_each_role_of_a_tf_job_is_spread_by_a_spread_of_its_own(
    world: World, custom: None, spreading: Services
) -> None:
    group, version, kind, plural = TF_JOB
    await world.allow(json.dumps({"workloads": [{"Group": group, "Version": version, "Kind": kind}]}))
    roles = {"chief": ("Chief", 2), "worker": ("Worker", 8)}
    manifest = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {"tfReplicaSpecs": {path: {"replicas": count} for path, count in roles.values()}},
    }
    made = await world.make(world.collection(f"{group}/{version}", plural), manifest)

    def of(name: str, *taken: str) -> dict[str, Any]:
        selector = {"matchExpressions": [{"key": "role", "operator": "In", "values": list(taken)}]}
        paths = [f"spec.tfReplicaSpecs.{roles[role][0]}.replicas" for role in taken]
        only = {"selector": selector, "replicasPathList": paths}
        target = (f"{group}/{version}", kind, "train")
        return spread(name, target, subset("a", "50%"), subset("b", "50%"), targetFilter=only)

    for role in roles:
        await until_allowed(world, of(role, role))
    for role, (_, count) in roles.items():
        half = [count // 2] * 2
        await until_missing(world, role, half)
    refused = "spec.targetRef: Invalid value.*taken by WorkloadSpread chief: .*role=chief.*takes role in \\(chief,worker\\)"
    with pytest.raises(KubeError, match=refused):
        await world.make(world.spreads, of("third", "chief", "worker"))
    with pytest.raises(KubeError, match=refused):
        await world.patch(f"{world.spreads}/worker", {"spec": of("worker", "chief", "worker")["spec"]})

    async def create(role: str, n: int) -> tuple[str, str]:
        pod = template({"job": "train", "role": role}, schedulerName="nobody")
        pod["metadata"] |= {"name": f"train-{role}-{n}", "ownerReferences": [owner(made)]}
        return role, subset_of(await world.make(world.pods, {"apiVersion": "v1", "kind": "Pod", **pod}))

    created = [create(role, n) for role, (_, count) in roles.items() for n in range(count)]
    other = create("evaluator", 0)
    placed = Counter(await asyncio.gather(*created, other))
    assert placed == {
        ("chief", "a"): 1, ("chief", "b"): 1, ("worker", "a"): 4, ("worker", "b"): 4, ("evaluator", ""): 1,
    }  # fmt: skip
    for role in roles:
        await until_missing(world, role, [0, 0])
    # A pod whose role changes counts where it belongs now, and its place there is free.
    await world.patch(f"{world.pods}/train-worker-0", {"metadata": {"labels": {"role": "evaluator"}}})
    await world.until(
        f"{world.spreads}/worker",
        lambda ws: sum(s["missingReplicas"] for s in ws["status"]["subsetStatuses"]) == 1,
    )


async def until_missing(world: World, name: str, missing: list[int]) -> None:
    """Wait until a spread's status says how many pods each of its subsets lacks."""
    await world.until(
        f"{world.spreads}/{name}",
        lambda ws: [s["missingReplicas"] for s in ws.get("status", {}).get("subsetStatuses", ())] == missing,
    )


async def test_pods_of_a_fleet_that_no_owner_ties_to_it_are_found_by_its_scale(
    world: World, custom: None, spreading: Services
) -> None:
    group, version, kind, plural = FLEET
    await world.allow(json.dumps({"workloads": [{"Group": group, "Version": version, "Kind": kind}]}))
    fleets = world.collection(f"{group}/{version}", plural)
    manifest = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": "arena"},
        "spec": {"size": 4},
        "status": {"size": 4, "selector": "game=arena"},
    }
    await world.make(fleets, manifest)
    # Their controller is of a kind that nobody knows, so admission has to leave them alone.
    room = await world.make(
        world.config_maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "room"}}
    )
    for n, game in enumerate(("arena", "arena", "arena", "duel")):
        pod = template({"game": game})
        pod["metadata"] |= {"name": f"game-{n}", "ownerReferences": [owner(room)]}
        assert subset_of(await world.make(world.pods, {"apiVersion": "v1", "kind": "Pod", **pod})) == ""
    target = (f"{group}/{version}", kind, "arena")
    await until_allowed(world, spread("arena", target, subset("a", "50%"), subset("b", "50%")))
    pods = await world.until_spread({"a": 2, "b": 1, "": 1})
    assert subset_of(pods["game-3"]) == ""
    await counts(world, [(2, 0), (1, 1)])
    # What its scale says now is what counts now.
    await world.patch(f"{fleets}/arena", {"spec": {"size": 6}})
    await counts(world, [(2, 1), (1, 2)])
    await world.patch(f"{fleets}/arena", {"status": {"selector": "game in (arena, duel)"}})
    await world.until_spread({"a": 3, "b": 1})
    await world.patch(f"{fleets}/arena", {"status": {"selector": "game=nothing"}})
    await counts(world, [(0, 3), (0, 3)])


async def counts(world: World, wanted: list[tuple[int, int]]) -> None:
    """Wait until the status says so of each subset: its replicas, and how many are missing."""

    def said(ws: dict[str, Any]) -> list[tuple[int, int]]:
        entries = ws.get("status", {}).get("subsetStatuses", ())
        return [(s["replicas"], s["missingReplicas"]) for s in entries]

    await world.until(f"{world.spreads}/arena", lambda ws: said(ws) == wanted)
