"""The propeller manager's fleet end to end: made, repaired, replaced, adopted, and left alone."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.e2e.conftest import Services
from tests.e2e.sim.world import send, until
from tidewright.kube.client import Kube


def manager(namespace: str, count: int) -> dict[str, str]:
    """The original's configuration, as a part of ours."""
    shard = {"type": "Hash", "shard-count": count}
    tree = {"manager": {"pod-template-namespace": namespace, "scan-interval": "2s", "shard": shard}}
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

    async def running(count: int, version: str, without: set[str]) -> dict[str, str]:
        """Wait for a whole fleet of this template version without certain pods; uids by name."""

        def whole(pods: dict[str, dict[str, Any]]) -> bool:
            return set(pods) == {f"kozmopropeller-{i}" for i in range(count)} and all(
                p["metadata"]["annotations"].get("podTemplateResourceVersion") == version
                and p["status"].get("phase") == "Running"
                and p["metadata"]["uid"] not in without
                for p in pods.values()
            )

        found = await until(kube, f"{core}/pods", whole)
        return {name: pod["metadata"]["uid"] for name, pod in found.items()}

    await services.start(
        "watcher", "shard-manager", "actuator", watcher=["--config-map", f"{namespace}/tidewright"]
    )
    version = made["metadata"]["resourceVersion"]
    first = await running(3, version, set())
    pod = await send(kube, "GET", f"{core}/pods/kozmopropeller-1")
    assert pod["metadata"]["labels"] == {"team": "x", "app": "kozmopropeller"}
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
