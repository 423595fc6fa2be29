"""The propeller manager's fleet end to end: made, repaired, replaced, adopted, and left alone."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import msgspec.yaml

from tests import waiting
from tests.e2e.conftest import Cluster, Services
from tests.e2e.sim.world import merge, send, until
from tidewright.cli.main import run
from tidewright.events import registry
from tidewright.events.shards import RecordPass
from tidewright.kube.client import Kube
from tidewright.kube.times import rfc3339_micro, seconds
from tidewright.shardmanager.propeller.config import KOZMO, ShardConfig, defaults
from tidewright.shardmanager.propeller.config_hash import LEGACY_BASE, config_hash
from tidewright.shardmanager.propeller.pods import CONFIG_HASH, pod_manifest

LOCK = "propeller-leader"


def lease_of(holder: str, name: str = LOCK, duration_s: int = 15) -> dict[str, Any]:
    """The lock of an original manager, renewed just now."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "renewTime": rfc3339_micro(time.time()),
        },
    }


def manager(namespace: str, count: int) -> dict[str, str]:
    """The original's configuration, as a part of ours."""
    shard = {"type": "Hash", "shard-count": count}
    tree = {
        "manager": {"pod-template-namespace": namespace, "scan-interval": "2s", "shard": shard},
        "propeller": {
            "leader-election": {
                "enabled": True,
                "lease-duration": "6s", "renew-deadline": "4s", "retry-period": "1s",
                "lock-config-map": {"name": LOCK, "namespace": namespace},
            }
        },
    }  # fmt: skip
    entry = {"namespace": namespace, "brand": "kozmo", "config": tree}
    return {"shardmanager.yaml": msgspec.json.encode({"managers": [entry]}).decode()}


async def test_a_propeller_fleet_is_made_repaired_and_replaced(
    kube: Kube, namespace: str, services: Services
) -> None:
    core = f"/api/v1/namespaces/{namespace}"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidewright"}}
    await send(kube, "POST", f"{core}/configmaps", {**config, "data": manager(namespace, 3)})
    container = {"name": "kozmopropeller", "image": "pause", "args": ["--config", "x"]}
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "kozmopropeller-template"},
        "template": {"metadata": {"labels": {"team": "x"}}, "spec": {"containers": [container]}},
    }
    made = await send(kube, "POST", f"{core}/podtemplates", template)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    await send(kube, "POST", leases, lease_of("the-original", duration_s=6))

    async def running(count: int, version: str, without: set[str]) -> dict[str, str]:
        """Wait for a whole fleet of this template version without certain pods; uids by name."""

        def whole(pods: dict[str, dict[str, Any]]) -> bool:
            return set(pods) == {f"kozmopropeller-{i}" for i in range(count)} and all(
                p["metadata"]["annotations"].get("podTemplateResourceVersion") == version
                and p["status"].get("phase") == "Running"
                and p["metadata"]["uid"] not in without
                for p in pods.values()
            )

        found = await until(kube, f"{core}/pods", whole, timeout_s=60)
        return {name: pod["metadata"]["uid"] for name, pod in found.items()}

    await services.start(
        "watcher",
        "shard-manager",
        "actuator",
        watcher=["--config-map", f"{namespace}/tidewright", "--incumbent-quiet", "0"],
    )
    version = made["metadata"]["resourceVersion"]
    # The original renews no more: its lock is taken when it was seen to stand still, and nothing is made before.
    stood_by = await Passes(services, namespace).until(lambda p: "the-original holds lease" in p.error)
    assert stood_by.created == 0
    first = await running(3, version, set())
    held = (await send(kube, "GET", f"{leases}/{LOCK}"))["spec"]
    assert held["holderIdentity"].startswith("tidewright-shard-manager_")
    assert held["leaseTransitions"] == 1
    assert seconds(held["acquireTime"]) >= stood_by.at + 6
    pod = await send(kube, "GET", f"{core}/pods/kozmopropeller-1")
    # API servers of late add the topology of the pod's node.
    assert {"team": "x", "app": "kozmopropeller"}.items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["containers"][0]["args"][-1].endswith("=propeller-leader-1")

    await send(kube, "DELETE", f"{core}/pods/kozmopropeller-1")
    second = await running(3, version, {first["kozmopropeller-1"]})
    assert second["kozmopropeller-0"] == first["kozmopropeller-0"]

    changed = await send(kube, "PATCH", f"{core}/podtemplates/kozmopropeller-template",
                         {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")  # fmt: skip
    version = changed["metadata"]["resourceVersion"]
    third = await running(3, version, set(second.values()))

    path = f"{core}/configmaps/tidewright"
    await send(kube, "PATCH", path, {"data": manager(namespace, 2)}, "application/merge-patch+json")
    await running(2, version, set(third.values()))
    last = (await send(kube, "GET", f"{leases}/{LOCK}"))["spec"]
    assert last["renewTime"] > held["renewTime"]
    assert (last["holderIdentity"], last["leaseTransitions"]) == (held["holderIdentity"], 1)

    nobody = {"shardmanager.yaml": '{"managers": []}'}
    await send(kube, "PATCH", path, {"data": nobody}, "application/merge-patch+json")
    await until(kube, leases, lambda found: not found[LOCK]["spec"].get("holderIdentity"))


def template() -> dict[str, Any]:
    container = {"name": "kozmopropeller", "image": "pause", "args": ["--config", "x"]}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "kozmopropeller-template"},
        "template": {"metadata": {"labels": {"team": "x"}}, "spec": {"containers": [container]}},
    }


class Passes:
    """What the manager recorded of its passes, read from the log."""

    def __init__(self, services: Services, namespace: str) -> None:
        self.services, self.namespace = services, namespace

    async def until(self, holds: Callable[[RecordPass], bool]) -> RecordPass:
        """Wait for a record of a pass that is as wanted."""
        async with await self.services.log() as log:
            subject = log.subjects.decision(
                log.slot_of(self.namespace), "shard-manager", "podtemplate", self.namespace,
                "kozmopropeller-template",
            )  # fmt: skip
            async with log.reader([subject], after=0) as reader:

                async def read() -> list[RecordPass]:
                    events = [registry.decode(r.body) for r in await reader.fetch(100, timeout_s=1.0)]
                    return [event for event in events if isinstance(event, RecordPass)]

                found = await waiting.until(
                    read, lambda passes: any(map(holds, passes)), what=waiting.text_of(holds), every_s=0.0
                )
            return next(filter(holds, found))


async def test_an_existing_fleet_is_adopted_without_a_restart_and_strangers_are_left_alone(
    kube: Kube, namespace: str, services: Services
) -> None:
    core = f"/api/v1/namespaces/{namespace}"
    made = await send(kube, "POST", f"{core}/podtemplates", template())
    version, stem = made["metadata"]["resourceVersion"], "kozmopropeller"
    shard = ShardConfig(shard_count=3)
    config = msgspec.structs.replace(defaults(KOZMO), shard=shard, pod_template_namespace=namespace)
    uids: dict[str, str] = {}
    for index in range(3):  # as the original makes them; one of an older tool-chain, with its other hash
        manifest = pod_manifest(config, template()["template"], version, index, namespace=namespace)
        if index == 1:
            manifest["metadata"]["annotations"][CONFIG_HASH] = config_hash(shard, LEGACY_BASE)
        found = await send(kube, "POST", f"{core}/pods", manifest)
        uids[found["metadata"]["name"]] = found["metadata"]["uid"]
    stranger = {"name": f"{stem}-3", "labels": {"app": stem}}
    foreign = await send(
        kube, "POST", f"{core}/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": stranger,
         "spec": {"containers": [{"name": "c", "image": "pause"}]}},
    )  # fmt: skip
    map_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidewright"}}
    await send(kube, "POST", f"{core}/configmaps", {**map_, "data": manager(namespace, 3)})
    passes = Passes(services, namespace)

    async def pods(holds: Callable[[dict[str, dict[str, Any]]], bool]) -> dict[str, str]:
        found = await until(kube, f"{core}/pods", holds, timeout_s=60)
        return {name: pod["metadata"]["uid"] for name, pod in found.items()}

    await services.start(
        "watcher", "shard-manager", "actuator", watcher=["--config-map", f"{namespace}/tidewright"]
    )
    seen = await passes.until(lambda p: p.adopted == 3)
    assert (seen.created, seen.deleted, seen.foreign) == (0, 0, (f"{stem}-3",))
    assert await pods(lambda found: len(found) == 4) == uids | {f"{stem}-3": foreign["metadata"]["uid"]}

    # A pod that has failed is made again, the others are not.
    await merge(kube, f"{core}/pods/{stem}-2/status", {"status": {"phase": "Failed"}})
    again = await pods(
        lambda found: (
            found.get(f"{stem}-2", {}).get("metadata", {}).get("uid") not in (None, uids[f"{stem}-2"])
        )
    )
    assert {n: again[n] for n in (f"{stem}-0", f"{stem}-1")} == {
        n: uids[n] for n in (f"{stem}-0", f"{stem}-1")
    }

    # One more shard is wanted whose name a stranger has: it is never deleted.
    await merge(kube, f"{core}/configmaps/tidewright", {"data": manager(namespace, 4)})
    replaced = await pods(
        lambda found: all(
            found.get(f"{stem}-{i}", {}).get("metadata", {}).get("annotations", {}).get(CONFIG_HASH)
            == config_hash(ShardConfig(shard_count=4))
            for i in range(3)
        )
    )
    assert replaced[f"{stem}-3"] == foreign["metadata"]["uid"]

    # A second manager with another configuration starts: nothing is written while it is at work.
    other = msgspec.structs.replace(config, shard=ShardConfig(shard_count=7))
    theirs = pod_manifest(other, template()["template"], version, 6, namespace=namespace)
    rival = await send(kube, "POST", f"{core}/pods", theirs)
    seen = await passes.until(lambda p: "another manager" in p.error)
    assert f"{stem}-6" in seen.error
    found = await send(kube, "GET", f"{core}/pods/{stem}-6")
    assert found["metadata"]["uid"] == rival["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]

    # Somebody has settled it: a new configuration of ours, and all is ours again.
    await merge(kube, f"{core}/configmaps/tidewright", {"data": manager(namespace, 3)})
    await pods(
        lambda found: all(
            found.get(f"{stem}-{i}", {}).get("metadata", {}).get("annotations", {}).get(CONFIG_HASH)
            == config_hash(shard)
            for i in range(3)
        )
    )


async def test_a_fleet_is_taken_over_by_a_command_that_says_first_what_happens_to_each_pod(
    kube: Kube, namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    core, stem = f"/api/v1/namespaces/{namespace}", "kozmopropeller"
    made = await send(kube, "POST", f"{core}/podtemplates", template())
    version, shard = made["metadata"]["resourceVersion"], ShardConfig(shard_count=3)
    config = msgspec.structs.replace(defaults(KOZMO), shard=shard, pod_template_namespace=namespace)
    for index in range(2):
        manifest = pod_manifest(config, template()["template"], version, index, namespace=namespace)
        if index == 1:
            manifest["metadata"]["annotations"][CONFIG_HASH] = "7"
        await send(kube, "POST", f"{core}/pods", manifest)
    lock = {"name": "propeller-manager", "namespace": namespace}
    tree = {
        "manager": {"pod-template-namespace": namespace, "shard": {"type": "Hash", "shard-count": 3}},
        "propeller": {"leader-election": {"enabled": True, "lock-config-map": lock}},
    }
    file = tmp_path / "config.yaml"
    file.write_bytes(msgspec.yaml.encode(tree))

    async def adopt(*more: str, code: int = 0) -> str:
        out = io.StringIO()
        line = ["shards", "adopt", *more, "-n", namespace, "--brand", "kozmo"]
        line += ["--config-map", f"{namespace}/tidewright", "--kubeconfig", str(cluster.kubeconfig)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            got = await asyncio.to_thread(run, line)
        assert got == code, out.getvalue()
        return out.getvalue()

    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    await send(kube, "POST", leases, lease_of("the-original", "propeller-manager"))
    assert "the-original holds the manager's lock" in await adopt(str(file), "--yes", code=1)
    await send(kube, "DELETE", f"{leases}/propeller-manager")
    said = await adopt(str(file), code=2)  # nobody can be asked
    assert f"adopted   1: {stem}-0, without a restart" in said
    assert f"restarts  1: {stem}-1" in said
    assert f"starts    1: {stem}-2" in said
    assert "nothing was changed" in said
    await adopt(str(file), "--yes")
    stored = await send(kube, "GET", f"{core}/configmaps/tidewright")
    (entry,) = msgspec.yaml.decode(stored["data"]["shardmanager.yaml"])["managers"]
    assert entry["namespace"] == namespace
    assert entry["config"]["manager"]["shard"]["shard-count"] == 3
    ours = lease_of("tidewright-shard-manager_0123456789", "propeller-manager")
    await send(kube, "POST", leases, ours)  # who holds it then is no rival
    await adopt(str(file), "--yes")  # again: it is there once
    await adopt("--undo", "--yes")
    stored = await send(kube, "GET", f"{core}/configmaps/tidewright")
    assert msgspec.yaml.decode(stored["data"]["shardmanager.yaml"])["managers"] == []
    assert "has no kozmo fleet" in await adopt("--undo", "--yes", code=2)
