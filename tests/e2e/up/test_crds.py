"""CustomResourceDefinitions of others, in a cluster that `tidewright crds` and `tidewright up` come to."""

from __future__ import annotations

import asyncio
import copy
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import running, tidewright
from tests.e2e.up.test_up import Up, start  # noqa: F401 - a fixture
from tests.waiting import until
from tidewright.cli.crds.choosing import Object, Policy
from tidewright.cli.crds.installing import PATH, definition, install, manifests, priority_classes
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.ownership import CRD_VERSION

SPREADS = "workloadspreads.apps.kruise.io"


def vendors(name: str) -> Object:
    """A definition as its vendor ships it: two versions, the second is the one in which objects are stored."""
    plural, _, group = name.partition(".")
    open_schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"controller-gen.kubebuilder.io/version": "v0.16.5"}},
        "spec": {
            "group": group,
            "names": {"kind": "WorkloadSpread", "listKind": "WorkloadSpreadList", "plural": plural, "singular": plural[:-1]},
            "scope": "Namespaced",
            "versions": [
                {"name": v, "served": True, "storage": v == "v1beta1", "schema": open_schema, "subresources": {"status": {}}}
                for v in ("v1alpha1", "v1beta1")
            ],
        },
    }  # fmt: skip


def ours(name: str, version: str = "1") -> Object:
    """What we would install under that name."""
    found = copy.deepcopy(next(m for m in manifests() if m["metadata"]["name"] == SPREADS))
    found["metadata"] |= {"name": name, "annotations": {CRD_VERSION: version}}
    found["spec"]["group"] = name.partition(".")[2]
    return found


async def created(kube: Kube, manifest: Object) -> bytes:
    """Create a definition as somebody else would; its bytes once it is established."""
    name = manifest["metadata"]["name"]
    await kube.request("POST", PATH, query={"fieldManager": "helm"}, body=msgspec.json.encode(manifest))

    async def there() -> bytes:
        return (await kube.request("GET", f"{PATH}/{name}")).body

    def established(body: bytes) -> bool:
        conditions = (msgspec.json.decode(body).get("status") or {}).get("conditions") or ()
        return {"Established"} <= {c["type"] for c in conditions if c["status"] == "True"}

    return await until(there, established)


async def raw(kube: Kube, name: str) -> bytes:
    return (await kube.request("GET", f"{PATH}/{name}")).body


@pytest.fixture
async def name(kube: Kube) -> AsyncIterator[str]:
    """A name of the test's own, so that any cluster will do; what is made under it is gone at the end."""
    name = f"workloadspreads.t{uuid.uuid4().hex[:8]}.example.com"
    yield name
    try:
        await kube.request("DELETE", f"{PATH}/{name}")
    except KubeError as error:
        assert error.status == 404  # noqa: PT017 - one that the test did not make


@pytest.mark.parametrize("policy", ["skip", "missing", "ours"])
async def test_a_vendors_definition_stays_as_it_is(kube: Kube, name: str, policy: Policy) -> None:
    before = await created(kube, vendors(name))
    (outcome,) = await install(kube, policy, [ours(name)])
    assert await raw(kube, name) == before  # the resourceVersion too: nothing was written
    assert (outcome.action, outcome.unmet) == ("left", "")
    assert CRD_VERSION in outcome.why


async def test_a_vendors_that_does_not_serve_what_we_need_stays_and_is_told(kube: Kube, name: str) -> None:
    other = vendors(name)
    other["spec"]["versions"] = other["spec"]["versions"][1:]
    before = await created(kube, other)
    (outcome,) = await install(kube, "ours", [ours(name)])
    assert await raw(kube, name) == before
    assert "serves v1beta1 and not v1alpha1" in outcome.unmet


async def test_what_we_created_is_kept_and_brought_up_to_date_under_its_version(
    kube: Kube, name: str
) -> None:
    wanted = ours(name, "2")
    wanted["spec"]["names"]["shortNames"] = ["t" + uuid.uuid4().hex[:6]]
    (skipped,) = await install(kube, "skip", [ours(name)])
    assert (skipped.action, await definition(kube, name)) == ("left", None)
    (made,) = await install(kube, "missing", [ours(name)])
    assert made.action == "created"
    before = await raw(kube, name)
    (again,) = await install(kube, "ours", [ours(name)])
    (not_wanted,) = await install(kube, "missing", [wanted])
    assert (again.action, not_wanted.action) == ("kept", "left")
    assert await raw(kube, name) == before
    (updated,) = await install(kube, "ours", [wanted])
    assert (updated.action, updated.why) == ("updated", "crd-version 1 -> 2")
    found = await definition(kube, name)
    assert found is not None
    assert found["metadata"]["annotations"][CRD_VERSION] == "2"
    assert found["spec"]["names"]["shortNames"] == wanted["spec"]["names"]["shortNames"]


async def test_one_that_its_vendor_applied_over_ours_is_the_vendors(kube: Kube, name: str) -> None:
    await install(kube, "ours", [ours(name)])
    await kube.request(
        "PATCH", f"{PATH}/{name}", query={"fieldManager": "helm", "force": "true"},
        body=msgspec.json.encode(vendors(name)), content_type="application/apply-patch+yaml",
    )  # fmt: skip
    before = await raw(kube, name)
    (outcome,) = await install(kube, "ours", [ours(name, "2")])
    assert (outcome.action, await raw(kube, name)) == ("left", before)
    assert "helm" in outcome.why


async def test_whoever_creates_it_first_keeps_it(kube: Kube, name: str) -> None:
    """Between our look and our creation a vendor's appears: AlreadyExists, and it is left."""
    request, before = kube.request, b""

    async def late(method: str, path: str, **more: Any) -> Any:
        nonlocal before
        if method == "POST" and not before:
            before = b"-"
            kube.request = request  # type: ignore[method-assign]
            before = await created(kube, vendors(name))
        return await request(method, path, **more)

    kube.request = late  # type: ignore[method-assign]
    (outcome,) = await install(kube, "ours", [ours(name)])
    assert (outcome.action, await raw(kube, name)) == ("left", before)


class Other:
    """A cluster that is not ours, with its vendor's WorkloadSpreads."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output of `tidewright crds` on it."""
        env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        process = await asyncio.create_subprocess_exec(
            *tidewright("crds", "--kubeconfig", str(self.kubeconfig), *arguments),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=env,
        )  # fmt: skip
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Other]:
    """Its definitions bear the real names, so it is a cluster of the test's own."""
    path = tmp_path / "other"
    with running(["sim", "up", "--nodes", "0", "--write-kubeconfig", str(path)], tmp_path / "other.log"):
        yield Other(path)


async def test_the_command_says_of_each_what_was_done_or_left(other: Other) -> None:
    async with await Kube.connect(other.kubeconfig) as kube:
        before = await created(kube, vendors(SPREADS))
        code, said = await other.run("--crds", "skip")
        assert (code, said.count("absent, and --crds skip creates nothing")) == (0, 7)
        code, said = await other.run()
        lines = {line.split()[1].rstrip(":"): line.split()[0] for line in said.splitlines()}
        assert code == 0
        brought = [m["metadata"]["name"] for m in (*manifests(), *priority_classes())]
        assert lines == dict.fromkeys(brought, "created") | {SPREADS: "left"}
        assert "not created by Tidewright" in said
        _, said = await other.run()
        assert [line.split()[0] for line in said.splitlines()].count("kept") == 7
        assert await raw(kube, SPREADS) == before
        code, said = await other.run("--report")
        assert (code, said.count("no trace")) == (0, 7)
        # As a version did that knew no annotation.
        manifest = ours(SPREADS)
        del manifest["metadata"]["annotations"]
        await kube.request(
            "PATCH", f"{PATH}/{SPREADS}", query={"fieldManager": "tidewright", "force": "true"},
            body=msgspec.json.encode(manifest), content_type="application/apply-patch+yaml",
        )  # fmt: skip
        taken = await raw(kube, SPREADS)
        code, said = await other.run("--report")
        assert code == 1
        assert f"overwritten {SPREADS}" in said
        assert "over what helm had written" in said
        assert "stored as v1beta1, which is no longer served" in said
        assert await raw(kube, SPREADS) == taken
        # The repair that it names.
        await kube.request(
            "PATCH", f"{PATH}/{SPREADS}", query={"fieldManager": "kubectl", "force": "true"},
            body=msgspec.json.encode(vendors(SPREADS)), content_type="application/apply-patch+yaml",
        )  # fmt: skip
        assert (await other.run("--report"))[0] == 0


async def test_up_beside_a_cluster_leaves_its_definitions(
    other: Other,
    start: Callable[..., Any],  # noqa: F811 - the fixture
) -> None:
    async with await Kube.connect(other.kubeconfig) as kube:
        before = await created(kube, vendors(SPREADS))
        up: Up = await start("--kubeconfig", str(other.kubeconfig))
        await up.ready()
        said = "\n".join(up.out)
        assert f"left     {SPREADS}" in said
        assert said.count("created  ") == 7
        assert "but the 6 CustomResourceDefinitions and the PriorityClass named below" in said
        assert await up.end() == 0
        assert await raw(kube, SPREADS) == before


async def test_up_that_may_touch_nothing_touches_nothing(
    other: Other,
    start: Callable[..., Any],  # noqa: F811 - the fixture
) -> None:
    async with await Kube.connect(other.kubeconfig) as kube:
        up: Up = await start("--kubeconfig", str(other.kubeconfig), "--crds", "skip", "--services", "watcher")
        await up.ready()
        assert "spread does nothing about a WorkloadSpread until it is there" in "\n".join(up.out)
        assert await up.end() == 0
        assert msgspec.json.decode((await kube.request("GET", PATH)).body)["items"] == []
