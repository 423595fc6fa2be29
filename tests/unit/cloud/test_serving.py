"""Groups that are served to others: said in the cluster by who serves, and left alone by a stack that has them, wherever it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.cloud.contract.proxy import Proxy
from tests.unit.cloud.test_bad_input import said
from tests.unit.provisioning.cloud import Cloud, group
from tests.waiting import until
from tidewright.cli.cloud.announcing import Announcement, announced
from tidewright.cloud import serving
from tidewright.cloud.errors import Unavailable
from tidewright.cloud.externalgrpc.server import CloudServer
from tidewright.cloud.providers import CloudSpec, Surroundings
from tidewright.cloud.serving import LASTS_S, LEASE, PREFIX, Heard
from tidewright.kube.client import Kube
from tidewright.log.clock import Clock
from tidewright.sim.api.server import ApiServer
from tidewright.watcher.clouds import CloudReader, Names
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.served import Served

PATH = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{LEASE}"


@pytest.fixture
async def cluster() -> AsyncIterator[Proxy]:
    """A cluster's API server, behind a proxy that remembers what it was asked."""
    server = ApiServer()
    await server.start()
    async with Proxy(server.url, lambda method, path, body: method != "GET") as proxy:
        yield proxy
    await server.stop()


async def written(kube: Kube) -> dict[str, str]:
    lease = msgspec.json.decode((await kube.request("GET", PATH)).body)
    found: dict[str, str] = lease["metadata"].get("annotations") or {}
    return found


async def test_a_stack_leaves_alone_what_is_served_from_another_machine(cluster: Proxy) -> None:
    async with Kube.at(cluster.url) as kube:
        served = Served()
        listening = asyncio.create_task(served.run(kube))
        await served.looked.wait()
        clock = Clock(lambda: 1000.0)
        stamp = Stamp(clock.now, lambda: 0.0, lambda: 1.0)
        cloud: Any = Cloud(group("one"), group("two"))
        clouds = CloudReader(CloudSpec("east", "aws", "asg:tag=a"), cloud, Names(), stamp, served=served)
        _, groups = await said(clouds)
        assert {name: fact.error for name, fact in groups.items()} == {"one": "", "two": ""}

        # Its own kind of cloud, whatever it is called there; another kind's group of that id is another group.
        announcement = Announcement(kube, lambda: [("aws", "one"), ("kwok", "two")])
        assert await announcement.renew()
        await until(lambda: served.server("aws", "one"))
        state, groups = await said(clouds)
        assert (state.state, state.error) == ("ready", "")
        assert groups.keys() == {"one"}
        assert groups["one"].error == "Conflict"
        told = groups["one"].message
        assert told.startswith("group one of cloud east is served to others by `tidewright cloud serve` on ")
        assert told.endswith(
            f" (Lease kube-system/{LEASE}): end that, or leave the group out of --cloud east=aws:asg:tag=a"
        )
        assert [fact.name for fact in clouds.unreadable] == ["one"]

        await announcement.end()
        await until(lambda: not served.server("aws", "one"))
        _, groups = await said(clouds)
        assert (groups["one"].error, groups["one"].message) == ("", "")
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def test_what_is_served_is_heard_at_once() -> None:
    served = Served()
    waiting = asyncio.create_task(served.pause(3600.0))
    await asyncio.sleep(0)
    text = serving.said("who", 0.0, [("aws", "one")])
    served.take({f"{PREFIX}a": text})
    await asyncio.wait_for(waiting, 90)


def test_what_a_server_said_counts_as_long_as_it_renews_it() -> None:
    heard = Heard()
    at = {f"{PREFIX}a": serving.said("a", 5.0, [("aws", "one")]), "other.dev/x": "y"}
    assert heard.lease(at, 1000.0)
    assert not heard.lease(at, 1000.0 + LASTS_S / 2)  # the same word is no renewal
    assert heard.server("aws", "one", 1000.0 + LASTS_S / 2) == f"a (Lease kube-system/{LEASE})"
    assert heard.server("aws", "one", 1000.0 + LASTS_S) == ""
    # Renewed after all, by a server whose clock stands elsewhere.
    assert heard.lease({f"{PREFIX}a": serving.said("a", 4.0, [("aws", "one")])}, 1100.0)
    assert heard.server("aws", "one", 1100.0)
    text = serving.said("a", 4.0, [("aws", "one")])
    assert not heard.lease({f"{PREFIX}a": text, f"{PREFIX}b": "no JSON", f"{PREFIX}c": "{}"}, 1100.0)
    assert heard.lease({}, 1100.0)
    assert heard.server("aws", "one", 1100.0) == ""


async def test_servers_say_it_side_by_side_and_take_away_what_was_left_behind(
    cluster: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Kube.at(cluster.url) as kube:
        now = 1000.0
        monkeypatch.setattr("tidewright.cli.cloud.announcing.time.time", lambda: now)
        first, crashed, second = (Announcement(kube, lambda: [("aws", "g")]) for _ in range(3))
        assert await first.renew()
        assert await crashed.renew()
        assert len(await written(kube)) == 2
        now += serving.LEFT_BEHIND_S
        assert await first.renew()
        assert await second.renew()
        assert len(await written(kube)) == 2
        await first.end()
        await second.end()
        assert await written(kube) == {}
        asked = {
            (method, "leases" if path.endswith("/leases") else LEASE) for method, path, _ in cluster.calls
        }
    granted = {("POST", "leases"), ("PATCH", LEASE)}
    assert asked - {("GET", LEASE)} == granted  # GET is this test's own
    assert [(right.verbs, right.names) for right in serving.RIGHTS] == [
        (("create",), ()),
        (("patch",), (LEASE,)),
    ]


async def test_a_cluster_that_cannot_be_told_stops_no_server_and_is_named_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with announced(Surroundings(kubeconfig=tmp_path / "nowhere"), list):
            pass
        async with Kube.at("http://127.0.0.1:9") as kube:
            away = Announcement(kube, list)
            assert not await away.renew()
            assert not await away.renew()
    assert [line["event"] for line in logs] == [
        "no cluster is told what is served: a stack that has the same groups orders there, too"
    ] * 2
    assert all("deploy/clouds/serve.yaml" in line["do"] for line in logs)


async def test_a_server_goes_on_with_the_clouds_that_answer() -> None:
    good, bad = Cloud(group("one")), Cloud(group("two"))
    clouds: Any = {"good": good, "bad": bad}
    server = CloudServer(clouds)

    async def away() -> None:
        raise Unavailable("bad: no answer")

    bad.refresh = away  # type: ignore[method-assign]
    with capture_logs() as logs:
        await server.look()
    assert ("books", "one") in server.groups
    assert [(line["cloud"], line["reason"]) for line in logs] == [("bad", "Unavailable")]


async def test_a_server_says_it_for_as_long_as_it_serves(tmp_path: Path) -> None:
    server = ApiServer()
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Kube.at(server.url) as kube:
        around = Surroundings(kubeconfig=tmp_path / "kubeconfig")
        async with announced(around, lambda: [("aws", "one")]):
            (text,) = (await written(kube)).values()
            assert serving.digest("aws", "one") in text
        assert await written(kube) == {}
    await server.stop()
