"""The chart's objects in a cluster, and services under the ServiceAccounts that it makes: enough to scale, and nothing beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.e2e.autoscaler.world import World, wants
from tests.e2e.conftest import Cluster, Services
from tests.e2e.gate import Gate, asked
from tests.e2e.up.test_chart import CHART, NOBODY, new_home
from tests.waiting import until
from tidewright.cli.contract import smallcluster
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")


@pytest.fixture
async def home(cluster: Cluster, kube: Kube, installed: list[str]) -> AsyncIterator[tuple[Any, str]]:
    """A namespace for the chart, which nobody has yet."""
    del installed  # definitions are there before, and stay when the chart is taken away
    async with new_home(cluster, kube, "own") as made:
        yield made


@asynccontextmanager
async def tokens(
    cluster: Cluster, kube: Kube, folder: Path, *accounts: str
) -> AsyncIterator[tuple[dict[str, Path], Gate | None]]:
    """By ServiceAccount (`NAMESPACE:NAME`), a kubeconfig with its token; and who decides, where the cluster does not."""
    given = yaml.safe_load(cluster.kubeconfig.read_text())
    (server,) = given["clusters"]
    async with AsyncExitStack() as stack:
        gate = None
        if cluster.embedded:
            gate = await stack.enter_async_context(Gate(server["cluster"]["server"]))
            await gate.learn(kube)
            server["cluster"]["server"] = gate.url
        files: dict[str, Path] = {}
        for account in accounts:
            token = account if gate else await requested(kube, *account.split(":"))
            (user,) = given["users"]
            user["user"] = {"token": token}
            files[account] = folder / f"{account.partition(':')[2]}.kubeconfig"
            files[account].write_text(yaml.safe_dump(given))
        yield files, gate


async def requested(kube: Kube, namespace: str, name: str) -> str:
    """A token of a ServiceAccount."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = await kube.request("POST", path, body=msgspec.json.encode(body))
    return str(msgspec.json.decode(answer.body)["status"]["token"])


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
async def test_services_scale_under_the_rights_that_the_chart_gives_them(
    kube: Kube,
    namespace: str,
    cluster: Cluster,
    home: tuple[Any, str],
    services: Services,
    tmp_path: Path,
    together: bool,
) -> None:
    config, own = home
    nobody = {"together": {"enabled": True} | {kind: {"replicas": 0} for kind in smallcluster.NAMES}}
    values = (
        NOBODY | {"features": ["autoscaling", "events"]} | (nobody | {"services": {}} if together else {})
    )
    config.install(CHART, "tidewright", values, create_namespace=True)
    watcher, actuator = (
        f"{own}:{smallcluster.kind_of(s) if together else s}" for s in ("watcher", "actuator")
    )
    world = World(kube, cluster, namespace)
    web = await world.deployment()
    world.measure(60.0)
    async with tokens(cluster, kube, tmp_path, watcher, actuator) as (files, gate):
        services.kubeconfigs = {"watcher": files[watcher], "actuator": files[actuator]}
        await services.start(
            "watcher",
            "autoscaler",
            "actuator",
            watcher=("--metrics-interval", "0.5", "--config-map", f"{own}/tidewright"),
            actuator=("--features", "autoscaling,events", "--own-namespace", own),
        )
        wpa = await world.autoscaler()
        await world.until(web, wants(6))
        await world.until(wpa, lambda scaler: scaler.get("status", {}).get("desiredReplicas") == 6)
        await until(world.reasons, bool, what="events about the autoscaler")
        said = "\n".join(line for _, line in services.lines)
        assert "forbidden" not in said.lower()
        # What is not in the chart's values is not given.
        async with await Kube.connect(files[actuator]) as as_actuator:
            with pytest.raises(KubeError, match="forbidden"):
                await as_actuator.request("GET", f"/api/v1/namespaces/{own}/secrets/tokens")
            with pytest.raises(KubeError, match="forbidden"):
                await as_actuator.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/any")
        if gate:
            assert {it.resource for who, it in gate.refused} == {"secrets", "pods"}
            assert ("patch", "deployments/scale") in {(it.verb, it.resource) for _, it in gate.passed} or (
                "update", "deployments/scale",
            ) in {(it.verb, it.resource) for _, it in gate.passed}  # fmt: skip


def test_what_a_request_asks_for() -> None:
    assert asked("GET", "/version", {}) is None
    assert asked("GET", "/apis/apps/v1", {}) is None
    assert asked("GET", "/api/v1/pods", {"watch": "true"}) == ("watch", "", "pods", "", "")
    assert asked("GET", "/api/v1/namespaces/kube-system", {}) == ("get", "", "namespaces", "", "kube-system")
    named = {"fieldSelector": "metadata.name=a"}
    assert asked("GET", "/apis/g/v1/namespaces/n/leases", named) == ("list", "g", "leases", "n", "a")
    eviction = asked("POST", "/api/v1/namespaces/n/pods/p/eviction", {})
    assert eviction == ("create", "", "pods/eviction", "n", "p")
