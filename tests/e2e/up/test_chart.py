"""The Helm chart in a cluster: installed with every field known, upgraded with the same passwords, and taken away."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Cluster
from tidewright.asking.services import EVERY
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")

CHART = str(Path(__file__).resolve().parents[3] / "deploy" / "helm" / "tidewright")
# Nobody has to pull an image here: no pod is asked for.
NOBODY: dict[str, Any] = {
    "services": {name: {"replicas": 0} for name in EVERY},
    "nats": {"storage": {"className": "none-of-that-name"}},
}


@contextlib.asynccontextmanager
async def new_home(cluster: Cluster, kube: Kube, kind: str) -> AsyncIterator[tuple[Any, str]]:
    """Helm in a namespace that nobody has yet, and its name; what is installed there is taken away at the end, with the namespace."""
    namespace = f"{kind}-{uuid.uuid4().hex[:8]}"
    with helm.Config(kubeconfig_path=str(cluster.kubeconfig), namespace=namespace) as config:
        yield config, namespace
        if any(found["name"] == "tidewright" for found in config.list()):
            config.uninstall("tidewright")
    try:
        await kube.request("DELETE", f"/api/v1/namespaces/{namespace}")
    except KubeError as error:
        if error.status != 404:  # nothing was installed
            raise


@pytest.fixture
async def release(cluster: Cluster, kube: Kube) -> AsyncIterator[tuple[Any, str]]:
    async with new_home(cluster, kube, "chart") as home:
        yield home


async def asked(cluster: Cluster, path: str) -> Any:
    async with await Kube.connect(cluster.kubeconfig) as kube:
        return msgspec.json.decode((await kube.request("GET", path)).body)


async def test_it_is_installed_upgraded_and_taken_away(cluster: Cluster, release: tuple[Any, str]) -> None:
    config, namespace = release
    config.install(
        CHART, "tidewright", NOBODY | {"namespaces": {"autoscaler": [namespace]}}, create_namespace=True
    )
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    before = {
        name: (await asked(cluster, f"{secrets}/{name}"))["data"]
        for name in ("nats-passwords", "tokens", "nats-tls")
    }
    watcher = f"/apis/apps/v1/namespaces/{namespace}/deployments/watcher"
    arguments = (await asked(cluster, watcher))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--mode") + 1] == "shadow"
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/tidewright-actuator-autoscaling"
    assert (await asked(cluster, role))["rules"]

    reads = [{"apiGroups": ["argoproj.io"], "resources": ["rollouts"]}]
    config.upgrade(CHART, "tidewright", NOBODY | {"mode": "enforce", "reads": reads})
    also = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidewright-watcher-reads"
    assert (await asked(cluster, also))["rules"] == [reads[0] | {"verbs": ["list", "watch"]}]
    assert {name: (await asked(cluster, f"{secrets}/{name}"))["data"] for name in before} == before
    arguments = (await asked(cluster, watcher))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--mode") + 1] == "enforce"
    with pytest.raises(KubeError, match="not found"):
        await asked(cluster, role)
    everywhere = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidewright-actuator-autoscaling"
    assert (await asked(cluster, everywhere))["rules"]

    config.uninstall("tidewright")
    for gone in (watcher, everywhere, also):
        with pytest.raises(KubeError, match="not found"):
            await asked(cluster, gone)
    assert (await asked(cluster, f"{secrets}/nats-passwords"))["data"] == before["nats-passwords"]
    assert await asked(
        cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloadspreads.apps.kruise.io"
    )


async def test_volumes_grow_as_the_page_about_it_says(cluster: Cluster, release: tuple[Any, str]) -> None:
    config, namespace = release
    config.install(CHART, "tidewright", NOBODY, create_namespace=True)
    larger = NOBODY | {
        "nats": NOBODY["nats"] | {"storage": {"size": "80Gi", "className": "none-of-that-name"}}
    }
    with pytest.raises(helm.HelmError, match="updates to statefulset spec for fields other than"):
        config.upgrade(CHART, "tidewright", larger)
    servers = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/nats"
    async with await Kube.connect(cluster.kubeconfig) as kube:
        await kube.request("DELETE", servers, query={"propagationPolicy": "Orphan"})
    config.upgrade(CHART, "tidewright", larger)
    (claim,) = (await asked(cluster, servers))["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"] == {"storage": "80Gi"}


async def test_an_upgrade_leaves_the_replicas_that_an_autoscaler_has_chosen(
    cluster: Cluster, release: tuple[Any, str]
) -> None:
    """As Kubernetes' own scales a service by its lag: here nothing measures it, and its part is played by hand."""
    config, namespace = release
    alone = {"services": NOBODY["services"] | {"spread": {}}}
    config.install(CHART, "tidewright", NOBODY | alone, create_namespace=True)
    spread = f"/apis/apps/v1/namespaces/{namespace}/deployments/spread"

    async def replicas() -> int:
        return int((await asked(cluster, spread))["spec"]["replicas"])

    config.upgrade(CHART, "tidewright", NOBODY | alone | {"scaling": {"spread": {"min": 3, "max": 6}}})
    assert await replicas() == 3
    scaler = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/spread"
    assert (await asked(cluster, scaler))["spec"]["scaleTargetRef"]["name"] == "spread"
    async with await Kube.connect(cluster.kubeconfig) as kube:
        five = msgspec.json.encode({"spec": {"replicas": 5}})
        await kube.request("PATCH", f"{spread}/scale", body=five, content_type="application/merge-patch+json")
    config.upgrade(CHART, "tidewright", NOBODY | alone | {"scaling": {"spread": {"min": 2, "max": 6}}})
    assert await replicas() == 5

    # Taken away: that number belongs to whoever scaled last, and another one would be a conflict for Helm.
    services = NOBODY["services"] | {"spread": {"replicas": 5}}
    config.upgrade(CHART, "tidewright", NOBODY | {"services": services})
    assert await replicas() == 5
    with pytest.raises(KubeError, match="not found"):
        await asked(cluster, scaler)


async def test_a_field_that_the_api_server_does_not_know_is_no_part_of_it(
    cluster: Cluster, release: tuple[Any, str]
) -> None:
    """Helm applies what it renders with unknown fields refused: one that is given is an error, so none is there."""
    config, _ = release
    wrong = NOBODY | {
        "services": NOBODY["services"] | {"spread": {"replicas": 0, "affinity": {"nodeAfinity": {}}}}
    }
    with pytest.raises(helm.HelmError, match="nodeAfinity"):
        config.install(CHART, "tidewright", wrong, create_namespace=True)
