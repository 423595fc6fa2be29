"""Metrics servers that behave badly, and a controller beside us: services of their own for each test."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from tests.e2e.autoscaler.world import LABELS, PATIENCE_S, Object, World, condition, says, shell, wants
from tests.e2e.conftest import Cluster, Services, tidewright
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tests.unit.watcher.certificates import certificate
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def own(
    cluster: Cluster, installed: list[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Services]:
    """Services of the test's own, not started yet."""
    del installed  # wanted for being there
    nats = EmbeddedServer(tmp_path_factory.mktemp("nats"))
    await nats.start()
    made = Services(cluster, nats.url)
    yield made
    await made.supervisor.stop()
    await nats.stop()


class Misbehaving:
    """A server that does as it is told."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        """`answers`: what it says by mode; in any other mode it answers with that status."""
        self.answers = dict(answers)
        self.mode = "good"
        self.hanging, self.released = asyncio.Event(), asyncio.Event()

    async def handle(self, _: web.BaseRequest) -> web.StreamResponse:
        match self.mode:
            case "hang":
                self.hanging.set()
                await self.released.wait()
                return web.Response()
            case "garbage":
                return web.Response(text="<html>not here</html>")
            case mode if mode in self.answers:
                return web.json_response(self.answers[mode])
        return web.Response(status=int(self.mode), text="no")

    @contextlib.asynccontextmanager
    async def served(self, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """On a port of its own, for as long as the block; where that is."""
        runner = web.ServerRunner(web.Server(self.handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.released.set()
            await runner.cleanup()

    async def hangs(self, world: World, target: str, then: Any) -> None:
        """While it hangs nothing is decided, and nothing is stuck: the next answer, `then`, counts."""
        self.mode, self.answers["good"] = "hang", then
        async with asyncio.timeout(PATIENCE_S):
            await self.hanging.wait()
        assert (await world.get(target))["spec"]["replicas"] == 4
        self.mode = "good"
        self.released.set()
        await world.until(target, wants(6))


async def test_a_metrics_server_that_misbehaves_is_said_and_never_scales(world: World, own: Services) -> None:
    def measured(value: str) -> Object:
        return {"items": [{"value": value}]}

    bad = Misbehaving({"good": measured("28"), "empty": {"items": []}, "nan": measured("NaN")})
    async with bad.served() as url:
        own.external_metrics_url = url
        await own.start("watcher", "autoscaler", "actuator", watcher=("--metrics-interval", "0.3"))
        target = await world.deployment(4)
        wpa = await world.autoscaler()
        await world.until(wpa, says("ScalingActive", "True", "ValidMetricFound"))
        texts = {
            "401": "no", "403": "no", "404": "no", "429": "no", "500": "no", "garbage": "cannot be read",
            "empty": "no metrics returned from external metrics API", "nan": "cannot be read",
        }  # fmt: skip
        for mode, text in texts.items():
            bad.mode = mode
            found = await world.until(wpa, says("ScalingActive", "False", "FailedGetExternalMetric"))
            message = condition(found, "ScalingActive")["message"]
            assert f"unable to get external metric {world.namespace}/{world.metric}" in message, mode
            assert text in message, (mode, message)
            bad.mode = "good"
            await world.until(wpa, says("ScalingActive", "True"))
        assert (await world.get(target))["spec"]["replicas"] == 4
        await bad.hangs(world, target, then=measured("60"))


async def test_a_recommender_that_misbehaves_is_said_and_never_scales(
    world: World, own: Services, tmp_path: Path
) -> None:
    certificate(tmp_path, "server", host="recommender.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    bad = Misbehaving(
        {
            "good": {"targetReplicas": 4},
            "negative": {"targetReplicas": -1},
            "error": {"error": {"code": 13, "message": "no model"}},
        }
    )
    trusted = {"caFile": str(tmp_path / "server.crt"), "serverName": "recommender.test"}
    asked: dict[str, Any] = {"highWatermark": "10", "lowWatermark": "5", "tlsConfig": trusted}
    async with bad.served(context) as url:
        asking = ("--recommender-hosts", "127.0.0.1", "--recommender-tls-folder", str(tmp_path))
        await own.start("watcher", "autoscaler", "actuator", watcher=("--metrics-interval", "0.3", *asking))
        target = await world.deployment(4)
        wpa = await world.autoscaler(recommender={"url": f"{url}/", **asked})
        await world.until(wpa, says("ScalingActive", "True", "ValidMetricFound"))
        texts = {
            "401": "code: 401", "403": "code: 403", "404": "code: 404", "429": "code: 429",
            "500": "code: 500", "garbage": "unable to read", "negative": "$.targetReplicas",
            "error": "error from recommender: 13 no model",
        }  # fmt: skip
        for mode, text in texts.items():
            bad.mode = mode

            def said(found: Object, text: str = text) -> bool:
                return text in condition(found, "ScalingActive").get("message", "")

            found = await world.until(wpa, said)
            assert condition(found, "ScalingActive")["reason"] == "FailedGetResourceMetric", mode
        await world.patch(wpa, {"spec": {"recommender": {"tlsConfig": {"caFile": None}}}})
        await world.until(wpa, lambda found: "certificate" in condition(found, "ScalingActive")["message"])
        await world.patch(wpa, {"spec": {"recommender": {"tlsConfig": trusted}}})
        bad.mode = "good"
        await world.until(wpa, says("ScalingActive", "True"))
        assert (await world.get(target))["spec"]["replicas"] == 4
        await bad.hangs(world, target, then={"targetReplicas": 6})


async def test_an_object_has_nothing_asked_that_it_may_not(
    world: World, own: Services, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=401, text="what-nobody-may-read")

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    (tmp_path / "there").write_text("secret")
    try:
        await own.start("watcher", "autoscaler", "actuator", watcher=("--metrics-interval", "0.3"))
        target = await world.deployment(4)
        marks = {"highWatermark": "10", "lowWatermark": "5"}
        wpa = await world.autoscaler(recommender={"url": f"http://127.0.0.1:{port}/", **marks})

        def refused(found: Object) -> bool:
            return "is not asked" in condition(found, "ScalingActive").get("message", "")

        found = await world.until(wpa, refused)
        assert condition(found, "ScalingActive")["status"] == "False"
        await world.told("FailedGetResourceMetric", "is not asked: address 127.0.0.1")
        for url in (f"http://localhost.localdomain:{port}/", f"http://2130706433:{port}/"):
            await world.patch(wpa, {"spec": {"recommender": {"url": url}}})

            def named(found: Object, url: str = url) -> bool:
                return url in condition(found, "ScalingActive")["message"]

            await world.until(wpa, named)
        # Whether there is a file is not told either.
        for name in ("there", "not-there"):
            given = {"url": "http://model", "tlsConfig": {"caFile": str(tmp_path / name)}}
            await world.patch(wpa, {"spec": {"recommender": given}})
            found = await world.until(
                wpa, lambda found: "may name no files here" in condition(found, "ScalingActive")["message"]
            )
            assert name not in condition(found, "ScalingActive")["message"]
        assert asked == []
        assert (await world.get(target))["spec"]["replicas"] == 4
    finally:
        await runner.cleanup()


async def test_whoever_may_not_push_moves_nothing(world: World, own: Services, tmp_path: Path) -> None:
    tokens, port = tmp_path / "tokens", free_port()
    tokens.write_text(f"a-token-that-is-good-for-all\na-token-of-another-team {world.namespace}-more\n")
    await own.start(
        "watcher", "autoscaler", "actuator",
        watcher=("--health-port", str(port), "--push-token-file", str(tokens)),
    )  # fmt: skip
    target = await world.deployment()
    wpa = await world.autoscaler()
    await world.until(wpa, says("ScalingActive", "False"))
    sample = {"metric": world.metric, "namespace": world.namespace, "labels": LABELS, "value": 60}
    attempts: list[tuple[str, Object, int]] = [
        ("", sample, 401),
        ("a-token-that-was-guessed", sample, 401),
        ("a-token-of-another-team", sample, 403),
        ("a-token-that-is-good-for-all", {**sample, "namespace": ""}, 400),
        ("a-token-that-is-good-for-all", {**sample, "labels": {**LABELS, "x": "y" * 2000}}, 413),
    ]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for token, body, status in attempts:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.post("/v1/metrics", json=[body], headers=headers) as answer:
                assert answer.status == status, (token, await answer.text())
        assert (await world.get(target))["spec"]["replicas"] == 2
        assert condition(await world.get(wpa), "ScalingActive")["status"] == "False"
        # The last one that is right is what all the others would have been.
        headers = {"Authorization": "Bearer a-token-that-is-good-for-all"}

        async def answered() -> tuple[int, str]:
            async with session.post("/v1/metrics", json=[sample], headers=headers) as answer:
                return answer.status, await answer.text()

        await until(
            answered,
            lambda found: found[0] == 200 and msgspec.json.decode(found[1])["used"],
            within_s=PATIENCE_S,
        )
    await world.until(target, wants(6))


async def test_in_shadow_mode_nothing_is_written_and_the_incumbent_is_compared(
    world: World, own: Services
) -> None:
    target = await world.deployment()
    world.measure(14)
    await own.start(
        "watcher", "autoscaler", "actuator",
        watcher=("--metrics-interval", "0.3"), actuator=("--mode", "shadow"),
    )  # fmt: skip
    wpa = await world.autoscaler()
    async with await own.log() as log:
        pattern = f"{log.subjects.root}.decision.*.autoscaler.*.{world.namespace}.>"
        async with log.reader([pattern]) as reader:
            await _subject(reader, "watermarkpodautoscaler")  # a first decision: leave it
            world.measure(60)
            await _subject(reader, "deployment")
    assert (await world.get(target))["spec"]["replicas"] == 2
    assert "conditions" not in (await world.get(wpa)).get("status", {})
    assert await world.reasons() == set()
    await world.patch(f"{target}/scale", {"spec": {"replicas": 6}})  # the incumbent, as we would have
    await world.until(target, lambda d: d.get("status", {}).get("readyReplicas") == 6)
    await world.patch(f"{target}/scale", {"spec": {"replicas": 11}})  # and as we would not
    await world.until(target, lambda d: d.get("status", {}).get("readyReplicas") == 11)
    where = ("--nats", own.nats_url, "--cluster", own.name, "-n", world.namespace)
    code, out, error = await until(  # the watcher has seen it
        lambda: shell(*tidewright("compare", "wpa", "web", *where)),
        lambda found: "6 -> 11" in found[1],
        within_s=PATIENCE_S,
    )
    assert (code, error) == (1, "")
    row = out.splitlines()[1].split()
    assert row[:3] == [world.namespace, "web", "1"]
    assert "only theirs: we nothing, the incumbent 6 -> 11" in out


async def _subject(reader: Any, kind: str) -> None:
    """Read on until a decision about this kind of object comes by."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for record in await reader.fetch(1, timeout_s=5):
                if f".autoscaler.{kind}." in record.subject:
                    return
