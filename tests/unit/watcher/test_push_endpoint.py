"""Pushed metrics, from the HTTP request to the fact on the log."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from tests.nats_server import EmbeddedServer
from tests.pausing import pause
from tests.ports import free_port
from tests.unit.watcher.certificates import certificate
from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.remotewrite import compressed, request, series
from tests.unit.watcher.test_service import WPAS, Tail, cluster, wpa_spec
from tests.waiting import until
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.facts import MetricSampled
from tidewright.host.ports import certificate_files
from tidewright.host.process.health import Health
from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.probes import Probes
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.log import disk
from tidewright.log.connection import Log
from tidewright.watcher import passing_on, sampler, service
from tidewright.watcher.push_endpoint import AT_ONCE, MAX_BODY_BYTES
from tidewright.watcher.pushport import PushOptions, PushPort
from tidewright.watcher.sampler import Sampler
from tidewright.watcher.service import Options

__all__ = ["cluster"]

TOKEN = "a-token-that-nobody-guesses"
KINDS = ("watermarkpodautoscaler",)
SAMPLE = {"metric": "requests", "namespace": "shop", "labels": {"app": "web"}, "value": 2.5}


@pytest.fixture
async def tail(log: Log) -> AsyncIterator[Tail]:
    """The facts; its consumer is made before the watcher writes, and has one filter (decision record 0003)."""
    async with log.reader([f"{log.subjects.root}.fact.>"]) as reader:
        await reader.fetch(1, timeout_s=0.01)
        yield Tail(reader)


@asynccontextmanager
async def serving(
    cluster: Cluster, nats: EmbeddedServer, folder: Path, *, health_host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    """A watcher with its HTTP port, and a client of it."""
    process = Process(ProcessOptions("watcher", health_host=health_host), Health("watcher"))
    probes = Probes([process.health])
    await probes.start(health_host, 0)
    given = Options(
        nats_url=nats.url,
        cluster="test",
        kubeconfig=cluster.kubeconfig(folder),
        kinds=KINDS,
        **options,
    )
    task = asyncio.create_task(service.run(given, process))
    base = f"http://127.0.0.1:{probes.port}"
    try:
        async with aiohttp.ClientSession(base) as session:
            yield session
    finally:
        process.stop.set()
        async with asyncio.timeout(90):
            await asyncio.gather(task, return_exceptions=True)
        await probes.stop()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def push(session: aiohttp.ClientSession, **request: Any) -> tuple[int, dict[str, Any]]:
    async with session.post("/v1/metrics", **request) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else {}


def sampled(event: Event, *milli: int) -> bool:
    return isinstance(event, MetricSampled) and event.series_milli == milli


async def asked_for(cluster: Cluster, tail: Tail) -> None:
    """An autoscaler asks for `requests`, and the watcher knows; polls find no such metric."""
    await cluster.put(WPAS, "shop", "w", spec=wpa_spec("requests"))
    await tail.until(lambda e: isinstance(e, WatermarkPodAutoscalerObserved))
    await tail.until(lambda e: isinstance(e, MetricSampled) and e.error_class == "not-found")


async def test_a_push_that_reaches_a_watcher_which_does_not_sample_is_passed_on(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN} shop\n")
    options = PushOptions(token_file=tokens)
    async with serving(cluster, nats, tmp_path, push=options) as first:
        await asked_for(cluster, tail)
        async with serving(cluster, nats, tmp_path, push=options) as second:
            for n, session in enumerate((first, second, first)):

                async def pushed(session: aiohttp.ClientSession = session, value: float = n + 1.5) -> int:
                    status, _ = await push(session, json=[{**SAMPLE, "value": value}], headers=bearer(TOKEN))
                    return status

                await until(pushed, lambda status: status == 200)
                milli = 1000 * n + 1500
                await tail.until(lambda e: sampled(e, milli))  # noqa: B023 - awaited here
            status, said = await push(first, json=[{**SAMPLE, "namespace": "other"}], headers=bearer(TOKEN))
            assert (status, said) == (
                200,
                {"used": 0, "unused": 1, "old": 0, "refused": 0},
            )  # as the other one says
            assert (await push(first, json=[SAMPLE], headers=bearer("another")))[0] == 401


async def test_a_push_is_on_the_log_when_it_is_answered_and_ends_the_polling(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    # A push counts for 300 s, which are six here: between two of them no poll may come.
    async with serving(cluster, nats, tmp_path, speed=50.0) as session:
        await asked_for(cluster, tail)
        status, said = await push(session, json=[SAMPLE, {"metric": "unknown", "value": 1}])
        assert (status, said) == (200, {"used": 1, "unused": 1, "old": 0, "refused": 0})
        first = await tail.until(lambda e: sampled(e, 2500))
        path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/requests"
        polls = cluster.requests.count(path)
        labels = {"__name__": "requests", "namespace": "shop", "app": "web"}
        status, _ = await push(
            session,
            data=compressed(series(labels, (9.0, 2**42))),
            headers={"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"},
        )
        assert status == 400  # its stamp lies decades ahead
        for value in (3.0, 4.0):
            assert (await push(session, json={**SAMPLE, "value": value}))[0] == 200
        last = await tail.until(lambda e: sampled(e, 4000))
        assert cluster.requests.count(path) <= polls + 1  # one may have been under way
        metrics = await (await session.get("/metrics")).text()
        # Log time runs on: the series is no longer pushed, and is asked for again.
        await tail.until(lambda e: isinstance(e, MetricSampled) and e.error_class == "not-found")
    assert first.at <= last.at
    assert 'tidewright_pushed_samples_total{result="used"} 3.0' in metrics
    assert 'tidewright_pushes_total{code="400"} 1.0' in metrics


async def test_remote_write_is_answered_with_204_and_becomes_a_fact(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with serving(cluster, nats, tmp_path) as session:
        await asked_for(cluster, tail)
        now_ms = int((tail.events[-1].at) * 1000)
        labels = {"__name__": "requests", "namespace": "shop", "app": "web", "pod": "a"}
        body = compressed(series(labels, (7.0, now_ms)) + series({**labels, "pod": "b"}, (8.0, now_ms)))
        headers = {
            "Content-Type": "application/x-protobuf;proto=prometheus.WriteRequest",
            "Content-Encoding": "snappy",
        }
        assert await push(session, data=body, headers=headers) == (204, {})
        await tail.until(lambda e: sampled(e, 7000, 8000))
        second = {
            "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            "Content-Encoding": "snappy",
        }
        body = compressed(request(({**labels, "pod": "b"}, 9.0, now_ms)))
        async with session.post("/v1/metrics", data=body, headers=second) as answer:
            assert (answer.status, answer.headers["X-Prometheus-Remote-Write-Samples-Written"]) == (204, "1")
        await tail.until(lambda e: sampled(e, 7000, 9000))


REMOTE = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}


async def test_bad_pushes_are_refused_naming_what_is_wrong(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with serving(cluster, nats, tmp_path) as session:
        await asked_for(cluster, tail)
        v3 = {**REMOTE, "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v3.Request"}
        cases: list[tuple[dict[str, Any], int, str]] = [
            ({"json": [{"metric": "m"}]}, 400, "samples[0] cannot be read"),
            ({"json": [{**SAMPLE, "value": "many"}]}, 400, "samples[0].value"),
            (
                {"data": b'[{"metric":', "headers": {"Content-Type": "application/json"}},
                400,
                "body is no JSON",
            ),
            ({"data": b"", "headers": {"Content-Type": "application/json"}}, 400, "body is empty"),
            ({"data": b"x", "headers": {"Content-Type": "text/csv"}}, 415, "Content-Type is text/csv"),
            ({"data": b"x", "headers": REMOTE}, 400, "body is no snappy block"),
            ({"data": b"x", "headers": v3}, 415, "valid are prometheus.WriteRequest and"),
            (
                {"data": b"x", "headers": {"Content-Type": "application/x-protobuf"}},
                415,
                "Content-Encoding is identity",
            ),
            ({"data": bytes(MAX_BODY_BYTES + 1)}, 413, f"at most {MAX_BODY_BYTES}"),
            ({"data": b'[{"metric":"requests","value":1e400}]'}, 400, "samples[0].value"),
        ]
        for request, status, text in cases:
            found = await push(session, **request)
            assert (found[0], text in found[1]["error"]) == (status, True), (request, found)
        async with session.get("/v1/metrics") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        async with session.get("/nothing") as answer:
            assert answer.status in (404, 503)  # 503 until all kinds are listed
        assert (await push(session, json=SAMPLE))[0] == 200  # nothing of that did any harm


async def test_where_a_token_is_asked_for_a_push_has_to_bring_it(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# rotated monthly\n{TOKEN}\n{TOKEN[::-1]} other,more\n")
    async with serving(cluster, nats, tmp_path, push=PushOptions(token_file=file)) as session:
        await asked_for(cluster, tail)
        assert (await push(session, json=SAMPLE))[0] == 401
        assert (await push(session, json=SAMPLE, headers=bearer("wrong")))[0] == 401
        status, said = await push(session, json=SAMPLE, headers=bearer(TOKEN[::-1]))
        assert (status, "this token is good for more, other" in said["error"]) == (403, True)
        assert (await push(session, json=SAMPLE, headers=bearer(TOKEN)))[0] == 200
        # Another one takes its place, without a restart.
        file.write_text("a-token-that-was-made-later\n")
        assert (await push(session, json=SAMPLE, headers=bearer(TOKEN)))[0] == 401
        assert (await push(session, json=SAMPLE, headers=bearer("a-token-that-was-made-later")))[0] == 200
        file.unlink()
        assert (await push(session, json=SAMPLE, headers=bearer("a-token-that-was-made-later")))[0] == 401


async def test_beyond_this_machine_nobody_pushes_without_a_token(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with serving(cluster, nats, tmp_path, health_host="0.0.0.0") as session:
        await asked_for(cluster, tail)
        status, said = await push(session, json=SAMPLE)
        assert (status, "--push-token-file" in said["error"]) == (403, True)
    process, anyone = Process(ProcessOptions("watcher"), Health("watcher")), "0.0.0.0"
    with pytest.raises(
        Misconfigured, match=r"--push-host 0.0.0.0: nobody may push to 0.0.0.0 without a token"
    ):
        PushPort(PushOptions(host=anyone, port=0), cast("Sampler", None), process, CollectorRegistry())


async def test_a_page_in_a_browser_may_not_push_although_it_reaches_loopback(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with serving(cluster, nats, tmp_path) as session:
        await asked_for(cluster, tail)
        assert (await push(session, json=SAMPLE, headers={"Origin": "http://evil.example"}))[0] == 403


async def test_slow_bodies_keep_nobody_out(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with serving(cluster, nats, tmp_path) as session:
        await asked_for(cluster, tail)
        url = session._base_url
        assert url is not None
        head = (
            b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n["
        )
        slow = [await asyncio.open_connection(url.host, url.port) for _ in range(3 * AT_ONCE)]
        try:
            for _, writer in slow:
                writer.write(head)
                await writer.drain()
            # All of them are being read by the time another connection is.
            for _ in range(5):
                assert (await push(session, json=SAMPLE))[0] == 200
        finally:
            for _, writer in slow:
                writer.close()


async def test_pushes_come_over_tls_and_its_certificate_is_rotated(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_files, "CHECK_S", 0.01)
    (tmp_path / "tokens").write_text(TOKEN)
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate(tmp_path, "first", host="localhost")
    certificate(tmp_path, "second", host="localhost")

    def issue(name: str) -> None:
        key.write_bytes((tmp_path / f"{name}.key").read_bytes())
        crt.write_bytes((tmp_path / f"{name}.crt").read_bytes())

    issue("first")
    port = free_port()
    options = PushOptions(token_file=tmp_path / "tokens", port=port, certificate_file=crt, key_file=key)
    url = f"https://localhost:{options.port}/v1/metrics"

    async def pushed(trusted: str) -> int:
        context = ssl.create_default_context(cafile=str(tmp_path / f"{trusted}.crt"))
        async with (
            aiohttp.ClientSession() as fresh,
            fresh.post(url, json=SAMPLE, headers=bearer(TOKEN), ssl=context) as answer,
        ):
            return answer.status

    async with serving(cluster, nats, tmp_path, push=options) as session:
        await asked_for(cluster, tail)
        assert (await push(session, json=SAMPLE))[0] in (404, 503)  # not at the port of the probes
        assert await pushed("first") == 200
        key.write_bytes(b"half a rotation")
        await asyncio.sleep(0.05)
        assert await pushed("first") == 200
        issue("second")
        async with asyncio.timeout(90):
            while True:
                try:
                    assert await pushed("second") == 200
                    break
                except aiohttp.ClientConnectorCertificateError:
                    await asyncio.sleep(0.01)


async def test_a_watcher_that_knows_no_other_sends_the_push_elsewhere(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing_on, "said", lambda url: ())  # no other one says where it is
    async with serving(cluster, nats, tmp_path) as first:
        await asked_for(cluster, tail)
        async with serving(cluster, nats, tmp_path) as second:
            await until(lambda: push(second, json=SAMPLE), lambda found: found[0] != 503)
            # The first finds out by its next commit.
            assert (await push(first, json=SAMPLE))[0] == 503
            async with first.post("/v1/metrics", json=SAMPLE) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
                assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("content", ["", None, "short", "a b c"])
async def test_a_token_file_without_a_token_is_refused_at_the_start(
    content: str | None, cluster: Cluster, nats: EmbeddedServer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    options = Options(
        nats_url=nats.url,
        cluster="test",
        kubeconfig=cluster.kubeconfig(tmp_path),
        push=PushOptions(token_file=file),
    )
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await log.ensure(slots=8)
    process = Process(ProcessOptions("watcher"), Health("watcher"))
    with pytest.raises(Misconfigured, match="token file"):
        await service.run(options, process)


async def test_a_push_that_the_log_does_not_take_is_told_to_come_again(
    cluster: Cluster,
    nats: EmbeddedServer,
    log: Log,
    tail: Tail,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await log.say_store(tmp_path)
    monkeypatch.setattr(sampler, "ON_THE_LOG_WITHIN_S", 0.2)
    async with serving(cluster, nats, tmp_path, speed=150.0) as session:
        await asked_for(cluster, tail)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "space", lambda folder: disk.Space(folder, 1000, 0))
            async with session.post("/v1/metrics", json=[SAMPLE]) as answer:
                assert answer.status == 503
                assert int(answer.headers["Retry-After"]) > 0
                assert f"no space left on {tmp_path}" in await answer.text()
        await pause(nats.pid)
        try:
            async with session.post("/v1/metrics", json=[SAMPLE]) as answer:
                assert answer.status == 503
                assert int(answer.headers["Retry-After"]) > 0
                assert "the log did not take it within" in await answer.text()
        finally:
            os.kill(nats.pid, signal.SIGCONT)
        monkeypatch.setattr(sampler, "ON_THE_LOG_WITHIN_S", 60.0)
        await until(lambda: push(session, json=[SAMPLE]), lambda found: found[0] == 200)
