"""The embedded server as something to start, stop, kill, watch over and break."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from tests.waiting import until
from tidewright.sim.api.http.request_log import Entry
from tidewright.sim.api.server import ApiServer
from tidewright.sim.api.store import gc

Object = dict[str, Any]
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(bookmark_interval_s=0.05) as server:
        yield server


@pytest.fixture
async def http(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=server.url) as session:
        yield session


async def create(http: aiohttp.ClientSession, name: str) -> Object:
    async with http.post(PATH, json={"metadata": {"name": name}}) as answer:
        assert answer.status == 201, await answer.text()
        found: Object = await answer.json()
        return found


async def test_requests_are_logged(server: ApiServer, http: aiohttp.ClientSession) -> None:
    made = await create(http, "a")
    async with http.get(f"{PATH}/none", headers={"User-Agent": "curious/1"}) as answer:
        assert answer.status == 404
    write = server.requests.writes()[-1]
    assert (write.method, write.path, write.code) == ("POST", PATH, 201)
    assert str(write.rv) == made["metadata"]["resourceVersion"]
    assert write.body
    last = server.requests.entries[-1]
    assert (last.user_agent, last.code, last.rv) == ("curious/1", 404, 0)


async def test_requests_are_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with ApiServer(request_log_path=path) as server, aiohttp.ClientSession(server.url) as http:
        await create(http, "a")
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert [(line["method"], line["code"]) for line in lines] == [("POST", 201)]


async def test_the_file_says_of_disruptions_what_the_store_held(tmp_path: Path) -> None:
    pods, path = "/api/v1/namespaces/default/pods", tmp_path / "requests.jsonl"
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    told = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    async with ApiServer(request_log_path=path) as server, aiohttp.ClientSession(server.url) as http:
        for name in ("a", "b"):
            pod = {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}
            await http.post(pods, json=pod)
            await http.patch(
                f"{pods}/{name}/status", json={"status": ready},
                headers={"Content-Type": "application/merge-patch+json"},
            )  # fmt: skip
        budget = {
            "metadata": {"name": "x"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        await http.post(budgets, json=budget)
        await http.patch(
            f"{budgets}/x/status",
            json={"status": told},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        for name, code in (("a", 201), ("b", 429)):
            async with http.post(f"{pods}/{name}/eviction", json={"metadata": {"name": name}}) as answer:
                assert answer.status == code
        server.note_deletion("/cloud/v1/groups/g/delete-nodes", "somebody", ["n1"])
    lines = [msgspec.json.decode(line, type=Entry) for line in path.read_bytes().splitlines()]
    noted = [line.noted for line in lines if line.path.endswith("/eviction")]
    assert noted == [
        {
            "node": "n1",
            "serves": True,
            "ending": False,
            "budgets": [{"name": "x", "healthy": healthy, "desired": 1}],
        }
        for healthy in (2, 1)
    ]
    there = {"node": "n1", "phase": "Running", "owner": ""}
    assert lines[-1].noted == {
        "nodes": ["n1"],
        "pods": [
            {"pod": "default/a", "ending": True, **there},
            {"pod": "default/b", "ending": False, **there},
        ],
    }


async def test_bookmarks_come_by_themselves(http: aiohttp.ClientSession) -> None:
    made = await create(http, "a")
    version = made["metadata"]["resourceVersion"]
    query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
    async with http.get(PATH, params=query) as answer:
        event = msgspec.json.decode(await asyncio.wait_for(answer.content.readline(), 90))
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", version)


async def test_another_handler_can_serve_a_group(server: ApiServer, http: aiohttp.ClientSession) -> None:
    async def metrics(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"path": request.path})

    resource = {
        "name": "nodes",
        "singularName": "",
        "namespaced": False,
        "kind": "NodeMetrics",
        "verbs": ["get", "list"],
    }
    server.mount("metrics.k8s.io", "v1beta1", [resource], metrics)
    async with http.get("/apis/metrics.k8s.io/v1beta1") as answer:
        assert (await answer.json())["resources"] == [resource]
    async with http.get("/apis/metrics.k8s.io/v1beta1/nodes") as answer:
        assert await answer.json() == {"path": "/apis/metrics.k8s.io/v1beta1/nodes"}
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with http.get("/apis", headers={"Accept": accept}) as answer:
        groups = [item["metadata"]["name"] for item in (await answer.json())["items"]]
    assert "metrics.k8s.io" in groups


# -- faults ------------------------------------------------------------------------------------------


async def test_object_events_go_an_hour_after_they_were_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "EXPIRY_S", 0.01)
    now = [1_770_000_000.0]
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "namespace": "default", "name": "p"}

    async with ApiServer(clock=lambda: now[0]) as server, aiohttp.ClientSession(server.url) as http:

        async def there() -> list[str]:
            async with http.get(events) as answer:
                return [item["metadata"]["name"] for item in (await answer.json())["items"]]

        for name in ("a", "b"):
            body = {"metadata": {"name": name}, "involvedObject": about, "reason": "Tried", "count": 1}
            async with http.post(events, json=body) as answer:
                assert answer.status == 201, await answer.text()
        await create(http, "kept")
        now[0] += gc.EVENT_TTL_S - 1
        patch = {"Content-Type": "application/merge-patch+json"}
        async with http.patch(f"{events}/b", json={"count": 2}, headers=patch) as answer:
            assert answer.status == 200, await answer.text()
        assert await there() == ["a", "b"]
        now[0] += 2
        await until(there, lambda names: names == ["b"])
        now[0] += gc.EVENT_TTL_S
        await until(there, lambda names: names == [])
        async with http.get(f"{PATH}/kept") as answer:
            assert answer.status == 200


async def fault(http: aiohttp.ClientSession, **rule: Any) -> Object:
    async with http.post("/sim/faults", json=rule) as answer:
        assert answer.status == 200, await answer.text()
        found: Object = await answer.json()
        return found


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (409, "Conflict"),
        (410, "Expired"),
    ],
)
async def test_a_fault_answers_instead(http: aiohttp.ClientSession, status: int, reason: str) -> None:
    await fault(http, match={"verbs": ["POST"]}, action={"status": status, "retry_after_s": 7}, count=1)
    async with http.post(PATH, json={"metadata": {"name": "a"}}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (status, reason)
        assert answer.headers["Retry-After"] == "7"
    await create(http, "a")


async def test_the_same_seed_strikes_alike(http: aiohttp.ClientSession) -> None:
    async def statuses() -> list[int]:
        await fault(
            http, id="flaky", match={"path": "configmaps"}, action={"status": 503}, probability=0.5, seed=3
        )
        found = []
        for _ in range(20):
            async with http.get(PATH) as answer:
                found.append(answer.status)
        return found

    first = await statuses()
    assert {200, 503} == set(first)
    assert await statuses() == first


async def test_faults_are_listed_and_lifted(http: aiohttp.ClientSession) -> None:
    made = await fault(http, match={"user_agent": "nobody"}, action={"status": 500})
    async with http.get("/sim/faults") as answer:
        assert [rule["id"] for rule in await answer.json()] == [made["id"]]
    async with http.delete(f"/sim/faults/{made['id']}") as answer:
        assert await answer.json() == []


async def test_a_fault_that_says_nothing_is_refused(http: aiohttp.ClientSession) -> None:
    async with http.post("/sim/faults", json={"action": {"explode": True}}) as answer:
        assert answer.status == 400
        assert "explode" in (await answer.json())["message"]


async def test_connections_are_dropped(http: aiohttp.ClientSession) -> None:
    await fault(http, match={"verbs": ["POST"]}, action={"drop": True}, count=1)
    with pytest.raises(aiohttp.ClientError):
        await create(http, "a")
    await create(http, "a")


async def test_watches_stall_and_end(http: aiohttp.ClientSession) -> None:
    made = await create(http, "a")
    query = {"watch": "1", "resourceVersion": made["metadata"]["resourceVersion"]}
    async with http.get(PATH, params=query) as silent, http.get("/api/v1/pods", params=query) as ended:
        struck = await fault(http, match={"path": "configmaps"}, action={"stall": True})
        assert struck["struck"] == 1
        await create(http, "b")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent.content.readline(), 0.1)
        await fault(http, match={"path": "/pods"}, action={"drop_watches": True})
        assert await asyncio.wait_for(ended.content.read(), 90) == b""


@pytest.mark.parametrize(("memory", "outcome"), [("kept", "ADDED"), ("lost", "ERROR")])
async def test_a_restart_ends_watches(http: aiohttp.ClientSession, memory: str, outcome: str) -> None:
    made = await create(http, "a")
    query = {"watch": "1", "resourceVersion": made["metadata"]["resourceVersion"]}
    async with http.get(PATH, params=query) as watch:
        await create(http, "b")
        assert b"ADDED" in await watch.content.readline()
        async with http.post("/sim/restart", json={"memory": memory}) as answer:
            assert answer.status == 200
        assert await asyncio.wait_for(watch.content.read(), 90) == b""
    async with http.get(PATH, params=query) as watch:
        assert msgspec.json.decode(await watch.content.readline())["type"] == outcome


# -- persistence -------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, pathlib, sys
from tidewright.sim.api.server import ApiServer

async def main():
    server = ApiServer(pathlib.Path(sys.argv[1]))
    await server.start()
    print(server.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    async def start() -> tuple[asyncio.subprocess.Process, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        return process, (await asyncio.wait_for(process.stdout.readline(), 90)).decode().strip()

    process, url = await start()
    async with aiohttp.ClientSession(url) as http:
        made = [await create(http, f"c-{index}") for index in range(20)]
    process.send_signal(signal.SIGKILL)
    await process.wait()
    process, url = await start()
    try:
        async with aiohttp.ClientSession(url) as http:
            async with http.get(PATH) as answer:
                listed = (await answer.json())["items"]
            after = await create(http, "after")
    finally:
        process.terminate()
        await process.wait()
    listed = [item for item in listed if item["metadata"]["name"].startswith("c-")]
    assert {item["metadata"]["uid"] for item in listed} == {item["metadata"]["uid"] for item in made}
    assert int(after["metadata"]["resourceVersion"]) > int(made[-1]["metadata"]["resourceVersion"])
