"""What goes with what: dependents with their owners, contents with their namespace."""

from __future__ import annotations

from tests.e2e.api.client import Client, Object, config_map
from tidewright.kube.errors import KubeError


async def owned(client: Client, name: str, owner: Object, **reference: bool) -> Object:
    meta = owner["metadata"]
    sent = config_map(name)
    sent["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"], **reference}
    ]
    made: Object = await client.create(client.path("configmaps"), sent)
    return made


async def test_dependents_go_after_their_owner(client: Client) -> None:
    owner = await client.create(client.path("configmaps"), config_map("owner"))
    child = await owned(client, "child", owner)
    await owned(client, "grandchild", child)
    await client.delete(client.path("configmaps", "owner"), {"propagationPolicy": "Background"})
    await client.gone(client.path("configmaps", "child"))
    await client.gone(client.path("configmaps", "grandchild"))


async def test_in_the_foreground_dependents_go_first(client: Client) -> None:
    owner = await client.create(client.path("configmaps"), config_map("owner"))
    child = await owned(client, "child", owner, blockOwnerDeletion=True)
    held = client.path("configmaps", "child")
    await client.merge(held, {"metadata": {"finalizers": ["tidewright.test/hold"]}})
    path = client.path("configmaps", "owner")
    await client.delete(path, {"propagationPolicy": "Foreground"})
    found = await client.get(path)
    assert found["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_going() -> bool:
        return "deletionTimestamp" in (await client.get(held))["metadata"]

    await client.until(child_is_going)
    assert (await client.get(path))["metadata"]["uid"] == owner["metadata"]["uid"]
    await client.merge(held, {"metadata": {"finalizers": None}})
    await client.gone(held)
    await client.gone(path)
    assert child["metadata"]["uid"] != owner["metadata"]["uid"]


async def test_orphans_stay_without_their_reference(client: Client) -> None:
    owner = await client.create(client.path("configmaps"), config_map("owner"))
    await owned(client, "child", owner)
    await client.delete(client.path("configmaps", "owner"), {"propagationPolicy": "Orphan"})
    await client.gone(client.path("configmaps", "owner"))
    found = await client.get(client.path("configmaps", "child"))
    assert "ownerReferences" not in found["metadata"]


async def test_a_dependent_with_another_owner_stays(client: Client) -> None:
    first = await client.create(client.path("configmaps"), config_map("first"))
    second = await client.create(client.path("configmaps"), config_map("second"))
    await owned(client, "child", first)
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in (first, second)
    ]
    path = client.path("configmaps", "child")
    await client.merge(path, {"metadata": {"ownerReferences": references}})
    await client.delete(client.path("configmaps", "first"), {"propagationPolicy": "Background"})

    async def one_owner_left() -> bool:
        found = await client.get(path)
        return [r["name"] for r in found["metadata"]["ownerReferences"]] == ["second"]

    await client.until(one_owner_left)


async def test_a_namespace_takes_its_contents_along(client: Client) -> None:
    name = f"{client.namespace}-inner"
    made = await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["status"]["phase"] == "Active"
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == name
    inner = Client(client.kube, name, client.kubeconfig, embedded=client.embedded)
    held = config_map("held")
    held["metadata"]["finalizers"] = ["tidewright.test/hold"]
    await inner.create(inner.path("configmaps"), held)
    await inner.create(inner.path("secrets"), {"metadata": {"name": "s"}})
    deleted = await inner.delete(f"/api/v1/namespaces/{name}")
    assert deleted["status"]["phase"] == "Terminating"
    await inner.gone(inner.path("secrets", "s"))
    refused: KubeError | None = None
    try:
        await inner.create(inner.path("configmaps"), config_map("late"))
    except KubeError as error:
        refused = error
    assert refused is not None
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert (
        f"unable to create new content in namespace {name} because it is being terminated" in refused.message
    )
    await inner.merge(inner.path("configmaps", "held"), {"metadata": {"finalizers": None}})
    await inner.gone(f"/api/v1/namespaces/{name}")
