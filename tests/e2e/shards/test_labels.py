"""The slot label on objects that missed it, end to end, for workers that go by a label."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Services, tidewright
from tests.e2e.shards.world import maps_path, sets_path, shard_set
from tests.e2e.sim.world import merge, send, until
from tests.ports import free_port
from tidewright.kube.client import Kube
from tidewright.sharding.keyspace import slot_of


@pytest.mark.slow
async def test_objects_that_missed_their_label_get_it_and_a_legal_one_of_a_user_stays(
    kube: Kube, namespace: str, services: Services
) -> None:
    maps, sets = maps_path(namespace), sets_path(namespace)
    labels: dict[str, dict[str, str]] = {f"run-{n}": {} for n in range(6)}
    labels |= {"spoiled": {"shard-key": "99"}, "own": {"shard-key": "5"}}
    for name, more in labels.items():
        metadata = {"name": name, "labels": {"example": "run", **more}}
        await send(kube, "POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger"}}
    await send(kube, "POST", maps, stranger)
    spec: dict[str, Any] = {
        "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
        "source": {"customResource": {"kind": "ConfigMap", "key": "{name}", "selector": "example=run"}},
        "workers": {
            "driver": "pods", "injector": "propeller", "replicas": 2,
            "template": {"name": "orders-template", "container": "orders"},
        },
        "handover": {"mode": "restart"},
        "rollout": {"minReady": "0s"},
    }  # fmt: skip
    container = {"name": "orders", "image": "pause"}
    template = {
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "orders-template"},
        "template": {"spec": {"containers": [container]}},
    }  # fmt: skip
    await send(kube, "POST", f"/api/v1/namespaces/{namespace}/podtemplates", template)
    await services.start("watcher", "shard-manager", "actuator")
    await send(kube, "POST", sets, shard_set(**spec))

    def labelled(found: dict[str, dict[str, Any]]) -> bool:
        return all(
            found[name]["metadata"]["labels"].get("shard-key") == str(slot_of(name, 32, "fnv1a32"))
            for name in labels
            if name != "own"
        )

    found = await until(kube, maps, labelled)
    assert found["own"]["metadata"]["labels"]["shard-key"] == "5"
    assert "labels" not in found["stranger"]["metadata"]

    def well(found: dict[str, dict[str, Any]]) -> bool:
        conditions = found["orders"].get("status", {}).get("conditions", ())
        return any(c["type"] == "Unlabelled" and c["status"] == "False" for c in conditions)

    await until(kube, sets, well)
    late = {"name": "late", "labels": {"example": "run"}}
    await send(kube, "POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": late})
    labels["late"] = {}
    await until(kube, maps, labelled)

    # New ones have it from the start, once the API server asks us.
    await services.start("shard-labels")

    async def made(**metadata: Any) -> dict[str, Any]:
        metadata["labels"] = {"example": "run", **metadata.get("labels", {})}
        return await send(kube, "POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})  # type: ignore[no-any-return]  # JSON

    fresh = await made(name="fresh")
    assert fresh["metadata"]["labels"]["shard-key"] == str(slot_of("fresh", 32, "fnv1a32"))
    assert (await made(name="mine", labels={"shard-key": "7"}))["metadata"]["labels"]["shard-key"] == "7"
    wrong = await made(name="wrong", labels={"shard-key": "all"})
    assert wrong["metadata"]["labels"]["shard-key"] == str(slot_of("wrong", 32, "fnv1a32"))
    moved = await merge(kube, f"{maps}/fresh", {"metadata": {"labels": {"shard-key": "1"}}})
    assert moved["metadata"]["labels"]["shard-key"] == fresh["metadata"]["labels"]["shard-key"]
    generated = await made(generateName="gen-")
    labels[generated["metadata"]["name"]] = {}
    await until(kube, maps, labelled)


async def test_objects_are_made_without_the_endpoint_and_it_labels_for_the_api_server_alone(
    kube: Kube, namespace: str, services: Services, tmp_path: Path
) -> None:
    maps, file, port = maps_path(namespace), tmp_path / "token", free_port()
    file.write_text("a-token-of-this-test-alone\n")
    await services.start(
        "watcher", "shard-manager", "actuator", actuator=("--endpoint-token", f"shard-labels={file}")
    )
    spec = {
        "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
        "source": {"customResource": {"kind": "ConfigMap", "key": "{name}", "selector": "example=run"}},
        "workers": {
            "driver": "pods", "injector": "propeller", "replicas": 1,
            "template": {"name": "orders-template", "container": "orders"},
        },
        "handover": {"mode": "restart"},
    }  # fmt: skip
    await send(kube, "POST", sets_path(namespace), shard_set(**spec))
    on = ("--nats", services.nats_url, "--cluster", services.name, "--log-format", "json")
    endpoint = await asyncio.create_subprocess_exec(
        *tidewright("run", "shard-labels", *on, "--port", str(port), "--token-file", str(file)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

    def named(found: dict[str, dict[str, Any]]) -> bool:
        hooks = found.get("tidewright-shard-labels", {}).get("webhooks", ())
        return any(hook["name"] == f"orders.{namespace}.shards.tidewright.dev" for hook in hooks)

    async def made(name: str) -> dict[str, Any]:
        metadata = {"name": name, "labels": {"example": "run"}}
        return await send(kube, "POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})  # type: ignore[no-any-return]  # JSON

    try:
        found = await until(kube, configuration, named, timeout_s=60)
        (hook,) = found["tidewright-shard-labels"]["webhooks"]
        assert hook["clientConfig"]["url"].startswith(
            f"https://127.0.0.1:{port}/a-token-of-this-test-alone/label/"
        )
        wanted = {name: str(slot_of(name, 32, "fnv1a32")) for name in ("with", "without")}
        assert (await made("with"))["metadata"]["labels"]["shard-key"] == wanted["with"]
        os.kill(endpoint.pid, signal.SIGKILL)
        await endpoint.wait()
        assert "shard-key" not in (await made("without"))["metadata"]["labels"]
        await until(
            kube, maps,
            lambda maps_: maps_["without"]["metadata"]["labels"].get("shard-key") == wanted["without"],
            timeout_s=60,
        )  # fmt: skip
    finally:
        if endpoint.returncode is None:
            endpoint.kill()
            await endpoint.wait()
        await services.supervisor.stop()
        await send(kube, "DELETE", f"{configuration}/tidewright-shard-labels")
