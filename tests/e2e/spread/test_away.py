"""The admission endpoint is away: killed, frozen, or stopped. The cluster goes on, in every namespace."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from tests import waiting
from tests.e2e.conftest import Services, tidewright
from tests.e2e.sim.world import until
from tests.e2e.spread.world import World, clean, deployment, spread, subset
from tests.ports import free_port
from tidewright.kube import webhooks
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.spread.api import hooks

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = (
    f"{CONFIGURATIONS}/{kind}/{hooks.NAME}"
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
)
TOKEN = "a-token-of-this-test-alone"


class Away:
    """One replica of admission as a process of its own, that nobody starts again."""

    def __init__(self, services: Services, world: World) -> None:
        self.services, self.world, self.port = services, world, free_port()
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *more: str, replicas: int = 1) -> None:
        """Start it, and wait until the API server trusts so many replicas."""
        on = ("--nats", self.services.nats_url, "--cluster", self.services.name, "--log-format", "json")
        at = () if "--service" in more else ("--port", str(self.port))
        self.process = await asyncio.create_subprocess_exec(
            *tidewright("run", "spread-admission", *on, *at, *more), stderr=asyncio.subprocess.DEVNULL
        )
        await waiting.until(self.trusted, lambda trusted: trusted == replicas)

    async def trusted(self) -> int:
        """How many replicas the API server trusts, by what is written last of the two."""
        with contextlib.suppress(KubeError):
            (bundle,) = {
                hook["clientConfig"].get("caBundle", "")
                for hook in (await self.world.get(VALIDATING))["webhooks"]
            }
            return base64.b64decode(bundle).count(b"BEGIN CERTIFICATE")
        return 0

    async def end(self, how: signal.Signals) -> None:
        """Send a signal; wait for its end, unless that freezes it."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, how)
        if how is not signal.SIGSTOP:
            await asyncio.wait_for(self.process.wait(), 90)


@pytest_asyncio.fixture(loop_scope="session")
async def away(kube: Kube, services: Services, world: World) -> AsyncIterator[Away]:
    it = Away(services, world)
    await services.start("watcher", "spread", "actuator")
    yield it
    if it.process is not None and it.process.returncode is None:
        await it.end(signal.SIGKILL)
    await services.supervisor.stop()
    await clean(kube)


async def goes_on(world: World, name: str = "on") -> None:
    """Pods of a Deployment are made, one is deleted, one is evicted, and others come in their stead."""
    await world.make(world.deployments, deployment(name, 2))

    def there(count: int) -> Any:
        return lambda pods: len([p for p in pods.values() if p["metadata"]["name"].startswith(f"{name}-") and
                                 "deletionTimestamp" not in p["metadata"]]) == count  # fmt: skip

    pods = await until(world.kube, world.pods, there(2))
    first, second = sorted(found for found in pods if found.startswith(f"{name}-"))
    await world.delete(f"{world.pods}/{first}")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": second, "namespace": world.namespace},
    }
    await world.make(f"{world.pods}/{second}/eviction", body)
    await until(world.kube, world.pods, lambda found: there(2)(found) and not {first, second} & set(found))
    await world.delete(f"{world.deployments}/{name}")


@contextlib.asynccontextmanager
async def in_namespace(kube: Kube, name: str) -> AsyncIterator[World]:
    """A namespace of a fixed name; one that was there stays."""
    world, made = World(kube, name), True
    # Of the test before it may be on its way out.
    await until(
        kube, "/api/v1/namespaces", lambda found: "deletionTimestamp" not in found.get(name, {}).get("metadata", {})
    )  # fmt: skip
    try:
        await world.make(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    except KubeError as error:
        if error.status != 409:
            raise
        made = False
    try:
        yield world
    finally:
        if made:
            await world.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_cluster_goes_on_everywhere_without_an_endpoint(
    kube: Kube, world: World, away: Away, how: signal.Signals
) -> None:
    await away.start()
    await away.end(how)
    assert await away.trusted() == 1  # it had no time to take them away
    await goes_on(world)
    for name in ("kube-system", "tidewright"):
        async with in_namespace(kube, name) as other:
            await goes_on(other)


async def test_pods_that_slipped_by_are_adopted_where_they_run(world: World, away: Away) -> None:
    await away.start()
    named: Any = {
        "requiredNodeSelectorTerm": {
            "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]
        }
    }
    target = ("apps/v1", "Deployment", "web")
    await world.make(world.spreads, spread("web", target, subset("a", **named)))
    await world.until(f"{world.spreads}/web", lambda found: "status" in found)
    await away.end(signal.SIGKILL)
    await world.make(world.deployments, deployment("web", 2))
    await world.until_spread({"a": 2})


async def test_with_the_policy_fail_pods_wait_and_nothing_else_does(
    kube: Kube, world: World, away: Away
) -> None:
    await away.start("--failure-policy", "Fail")
    await world.make(world.deployments, deployment("before", 2))
    pods = await until(kube, world.pods, lambda found: len(found) == 2)
    await away.end(signal.SIGKILL)
    first, second = sorted(pods)
    await world.delete(f"{world.pods}/{first}")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": second, "namespace": world.namespace},
    }
    await world.make(f"{world.pods}/{second}/eviction", body)
    owner = next(iter((await world.get(world.collection("apps/v1", "replicasets")))["items"]))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"],
                 "uid": owner["metadata"]["uid"], "controller": True}  # fmt: skip

    def owned(**spec: Any) -> dict[str, Any]:
        metadata = {"generateName": "x-", "ownerReferences": [reference]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": {"containers": [{"name": "c", "image": "pause"}], **spec}}  # fmt: skip

    with pytest.raises(KubeError, match=r"failed calling webhook .*mpod"):
        await world.make(world.pods, owned())
    alone = owned()
    del alone["metadata"]["ownerReferences"]
    await world.make(world.pods, alone)  # belongs to no workload: nobody is asked
    for name in ("kube-system", "tidewright"):
        async with in_namespace(kube, name) as other:
            await goes_on(other)


@pytest.mark.parametrize("behind", ["--url", "--service"])
async def test_the_last_replica_takes_the_configurations_away(world: World, away: Away, behind: str) -> None:
    """With `Fail`, too, and behind a Service, which no other replica is behind any more."""
    address = f"https://127.0.0.1:{away.port}" if behind == "--url" else "tidewright/spread-admission:443"
    await away.start(behind, address, "--failure-policy", "Fail", "--drain", "0.1")
    other = Away(away.services, world)
    await other.start("--service", "tidewright/spread-admission:443", "--drain", "0.1", replicas=2)
    await other.end(signal.SIGTERM)
    await waiting.until(away.trusted, lambda trusted: trusted == 1)  # one is left
    await away.end(signal.SIGTERM)
    # Its end waits for that, but not for long: on a busy machine the actuator carries it out a moment later.
    for path in (MUTATING, VALIDATING):
        await until(world.kube, path.rpartition("/")[0], lambda found: hooks.NAME not in found)
    await world.until(
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{hooks.DEFINITION}",
        lambda definition: definition["spec"]["conversion"]["strategy"] == "None",
    )


async def test_what_is_announced_is_narrow(world: World, away: Away) -> None:
    await away.start()
    found = [hook for path in (MUTATING, VALIDATING) for hook in (await world.get(path))["webhooks"]]
    assert {hook["failurePolicy"] for hook in found} == {"Ignore"}
    assert max(hook["timeoutSeconds"] for hook in found) == webhooks.TIMEOUT_S == 5
    left_out = {"kube-system", "kube-public", "kube-node-lease", "tidewright"}
    for hook in found:
        if hook["rules"][0]["resources"] != ["workloadspreads"]:
            (one,) = hook["namespaceSelector"]["matchExpressions"]
            assert (one["key"], one["operator"], set(one["values"])) == (
                webhooks.NAMESPACE,
                "NotIn",
                left_out,
            )


# -- who may call -----------------------------------------------------------------------------------------


async def test_whoever_has_no_token_takes_no_place(
    kube: Kube, services: Services, world: World, tmp_path: Any
) -> None:
    """It forges the review that the API server would send; the API server, which was told the token, goes on."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    port = free_port()
    await services.start(
        "watcher", "spread", "actuator", actuator=("--endpoint-token", f"spread-admission={file}")
    )
    await services.start(
        "spread-admission", spread_admission=("--port", str(port), "--token-file", str(file))
    )
    try:
        target = ("apps/v1", "Deployment", "web")
        await world.make(world.spreads, spread("web", target, subset("a", 2), subset("b")))
        await world.until(f"{world.spreads}/web", lambda found: "status" in found)
        await world.make(world.deployments, deployment("web", 1))
        await world.until_spread({"a": 1})
        (pod,) = (await world.get(world.pods))["items"]
        del pod["metadata"]["annotations"], pod["metadata"]["name"], pod["metadata"]["uid"]
        pod["spec"].pop("nodeName", None)
        review = {
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {"uid": "forged", "operation": "CREATE", "namespace": world.namespace,
                        "resource": {"group": "", "version": "v1", "resource": "pods"},
                        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": pod},
        }  # fmt: skip
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        async with aiohttp.ClientSession() as session:
            for path in ("/mutate-pod", "/guessed-token-000000/mutate-pod", "/convert", "/validate-pod"):
                url = f"https://127.0.0.1:{port}{path}"
                async with session.post(url, data=msgspec.json.encode(review), ssl=trusting) as answer:
                    assert answer.status == 403, path
        async with await services.log() as log:
            records = [r async for r in log.last_per_subject([log.subjects.ledgers("*", "spread")])]
            assert all(b"forged" not in record.body for record in records)
            async with log.reader([log.subjects.everything]) as reader:
                async for record in reader.until_current():
                    assert TOKEN.encode() not in record.body  # nor does the log hold it
        await world.scale("web", 3)
        await world.until_spread({"a": 2, "b": 1})
        called = (await world.get(MUTATING))["webhooks"][0]["clientConfig"]["url"]
        assert called == f"https://127.0.0.1:{port}/{TOKEN}/mutate-pod"
    finally:
        await services.supervisor.stop()
        await clean(kube)
