"""Clients of other making: the official client, kr8s, and a kopf operator in a process of its own."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api.client import PATIENCE_S, Client, Object, config_map, deployment
from tests.e2e.api.crontabs import crontab
from tidewright.kube.errors import KubeError

OPERATOR = """
import kopf

@kopf.on.create("{group}", "v1", "crontabs")
@kopf.on.update("{group}", "v1", "crontabs")
async def follow(spec, patch, **_):
    patch.status["replicas"] = spec.get("replicas", 0) + 1

@kopf.on.delete("{group}", "v1", "crontabs")
async def goodbye(**_):
    pass
"""


def official(kubeconfig: Path, namespace: str) -> dict[str, Any]:
    """What the official client (blocking, so in a thread) sees and does."""
    kubernetes: Any = importlib.import_module("kubernetes")  # Any: its annotations are not complete
    models, config, watch = kubernetes.client, kubernetes.config, kubernetes.watch
    dynamic: Any = importlib.import_module("kubernetes.dynamic")

    api = config.new_client_from_config(str(kubeconfig))
    try:
        core, apps = models.CoreV1Api(api), models.AppsV1Api(api)
        made = apps.create_namespaced_deployment(namespace, deployment("d"))
        apps.patch_namespaced_deployment_scale("d", namespace, {"spec": {"replicas": 0}})
        version = core.list_namespaced_config_map(namespace).metadata.resource_version
        core.create_namespaced_config_map(namespace, config_map("w", k="v"))
        core.patch_namespaced_config_map("w", namespace, {"data": {"k": "w"}})
        core.delete_namespaced_config_map("w", namespace)
        seen = []
        for event in watch.Watch().stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=version,
            field_selector="metadata.name=w",
            timeout_seconds=int(PATIENCE_S),
        ):
            seen.append(event["type"])
            if len(seen) == 3:
                break
        pods = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="Pod")
        return {
            "strategy": made.spec.strategy.type,
            "created": made.metadata.creation_timestamp.year,
            "seen": seen,
            "pods": len(pods.get(namespace=namespace).items),
        }
    finally:
        api.close()


async def test_the_official_client_lists_watches_and_patches(client: Client) -> None:
    found = await asyncio.to_thread(official, client.kubeconfig, client.namespace)
    assert found["strategy"] == "RollingUpdate"
    assert found["created"] > 2000
    assert found["seen"] == ["ADDED", "MODIFIED", "DELETED"]
    assert found["pods"] == 0


@pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning", "ignore::DeprecationWarning")
async def test_kr8s_lists_watches_and_patches(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(
        "SSL_CERT_FILE", raising=False
    )  # its client wants certificates in a file that is named
    kr8s: Any = importlib.import_module("kr8s.asyncio")  # Any: its annotations are not complete
    made_of: Any = importlib.import_module("kr8s.asyncio.objects").ConfigMap
    api = await kr8s.api(kubeconfig=str(client.kubeconfig), namespace=client.namespace)
    made = await made_of(
        config_map("a", k="1") | {"metadata": {"name": "a", "namespace": client.namespace}}, api=api
    )
    await made.create()
    await made.patch({"data": {"k": "2"}})
    await made.label({"tier": "front"})
    found = [
        item async for item in api.get("configmaps", namespace=client.namespace, label_selector="tier=front")
    ]
    assert [(item.name, item.data.k) for item in found] == [("a", "2")]
    async with asyncio.timeout(PATIENCE_S):
        async for change, item in api.watch(
            "configmaps", namespace=client.namespace, field_selector="metadata.name=a"
        ):
            assert (change, item.name) == ("ADDED", "a")
            break
    await made.delete()
    assert not await made.exists()


async def test_a_kopf_operator_follows_custom_resources(
    client: Client, crontabs: Object, tmp_path: Path
) -> None:
    group = crontabs["spec"]["group"]
    program = tmp_path / "operator.py"
    program.write_text(textwrap.dedent(OPERATOR.format(group=group)), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        f"--namespace={client.namespace}",
        str(program),
        env=os.environ | {"KUBECONFIG": str(client.kubeconfig)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await client.create(client.path("crontabs", group=group), crontab(group, "c", replicas=1))
        path = client.path("crontabs", "c", group=group)

        async def followed(wanted: int) -> bool:
            found = await client.get(path)
            return bool((found.get("status") or {}).get("replicas") == wanted)

        await client.until(lambda: followed(2))
        await client.merge(path, {"spec": {"replicas": 4}})
        await client.until(lambda: followed(5))
        assert (await client.get(path))["metadata"]["finalizers"]
        await client.delete(path)
        await client.gone(path)  # the operator took its finalizer off
    finally:
        process.terminate()
        await process.wait()


async def test_the_asynchronous_client_works(client: Client) -> None:
    models: Any = importlib.import_module("kubernetes_asyncio.client")  # Any: as above
    config: Any = importlib.import_module("kubernetes_asyncio.config")

    api = await config.new_client_from_config(str(client.kubeconfig))
    async with api:
        core = models.CoreV1Api(api)
        await core.create_namespaced_config_map(client.namespace, config_map("a", k="v"))
        found = await core.read_namespaced_config_map("a", client.namespace)
        assert found.data == {"k": "v"}
        with pytest.raises(models.ApiException) as refused:
            await core.read_namespaced_config_map("none", client.namespace)
        assert refused.value.status == 404
    with pytest.raises(KubeError):
        await client.get(client.path("configmaps", "none"))
