"""Recommenders: what they are told, how they answer badly, and TLS of their own."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from tests.answering import answering
from tests.nats_server import EmbeddedServer
from tests.unit.watcher.certificates import certificate
from tests.unit.watcher.cluster import Cluster, refusal
from tests.unit.watcher.test_service import WPAS, Tail, cluster, tail, watching
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.log.clock import Clock
from tidewright.watcher.metric_queries import Recommendation
from tidewright.watcher.outbound import Hosts
from tidewright.watcher.recommenders import Recommenders
from tidewright.watcher.sampler import Sampler, Sources
from tidewright.watcher.tls import BadTls, Tls, context_of, merged

__all__ = ["cluster", "tail"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POD_PATH = "/api/v1/namespaces/shop/pods"
SCALE = "/apis/apps/v1/namespaces/shop/deployments/web/scale"


@asynccontextmanager
async def recommender(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async with answering(handler, context) as url:
        yield f"{url}/"


def pod(name: str, *, ready: bool, owner: str = "web-5f7") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u"}],
        },
        "spec": {},
        "status": {
            "phase": "Running",
            "startTime": "2026-11-21T12:00:00Z",
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-21T12:00:09Z"}
            ],
        },
    }


def with_target(cluster: Cluster) -> None:
    cluster.answers["/apis/apps"] = {"versions": [{"version": "v1"}]}
    cluster.answers["/apis/apps/v1"] = {
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        ]
    }
    cluster.answers[SCALE] = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 4},
        "status": {"replicas": 5, "selector": "app=web"},
    }
    pods = [
        pod("a", ready=True),
        pod("b", ready=True),
        pod("c", ready=False),
        pod("d", ready=True, owner="x"),
    ]
    cluster.answers[POD_PATH] = {"metadata": {"resourceVersion": "1"}, "items": pods}


def spec_of(url: str, **recommender: Any) -> dict[str, Any]:
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 20,
        "recommender": {
            "url": url,
            "targetType": "cpu",
            "lowWatermark": "500m",
            "highWatermark": "2",
            "settings": {"b": "2", "a": "1"},
            **recommender,
        },
    }


@asynccontextmanager
async def asking(on: Cluster, **options: Any) -> AsyncIterator[Recommenders]:
    async with Kube.at(on.url) as kube:
        sources = Sources(kube=kube, external=kube, resource=kube)
        nothing: Any = None
        sampler = Sampler(sources, Discovery(kube), nothing, appender=nothing, stamp=nothing, clock=Clock())
        options.setdefault("hosts", Hosts(["127.0.0.1"]))
        made = Recommenders(kube, sampler.scale_of, Clock().now, **options)
        try:
            yield made
        finally:
            await made.close()


async def ask(
    on: Cluster, url: str, own: dict[str, Any] | None = None, **options: Any
) -> RecommendationReceived:
    spec = spec_of(url, **({"tlsConfig": own} if own is not None else {}))
    async with asking(on, **options) as recommenders:
        return await recommenders.ask(Recommendation("shop", "w", msgspec.json.encode(spec)))


async def test_a_recommender_is_told_requested_and_ready_replicas_and_its_answer_is_a_fact(
    cluster: Cluster,
) -> None:
    with_target(cluster)
    asked: list[tuple[dict[str, str], dict[str, Any]]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((dict(request.headers), await request.json()))
        found = {"targetReplicas": 7, "lowerBoundReplicas": 3, "upperBoundReplicas": 9, "reason": "busy"}
        return web.json_response(found | {"observedTargets": [{"type": "cpu", "targetValue": 2.5}]})

    registry = CollectorRegistry()
    async with recommender(answer) as url:
        fact = await ask(cluster, url, cluster="prod", registry=registry)
    assert fact == RecommendationReceived(
        at=0.0, namespace="shop", name="w", target_replicas=7, lower_bound_replicas=3, upper_bound_replicas=9,
        observed_value=2.5, details="busy",
    )  # fmt: skip
    headers, body = asked[0]
    assert (headers["Content-Type"], headers["User-Agent"]) == ("application/json", "wpa-controller")
    assert body == {
        "targetRef": {
            "cluster": "prod", "namespace": "shop", "kind": "Deployment", "name": "web", "apiVersion": "apps/v1"
        },
        "constraints": {"minReplicas": 2, "maxReplicas": 20},
        "state": {"desiredReplicas": 4, "currentReplicas": 4, "readyReplicas": 2},
        "targets": [{"type": "cpu", "lowerBound": 0.5, "upperBound": 2.0}],
        "settings": {"a": "1", "b": "2"},
    }  # fmt: skip
    series = generate_latest(registry).decode()
    assert f'http_client_requests_total{{client="{url}",code="200",method="POST"}} 1.0' in series
    assert f'http_client_requests_inflight{{client="{url}"}} 0.0' in series


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 302])
async def test_every_other_status_is_said_and_nothing_of_the_body(status: int, cluster: Cluster) -> None:
    with_target(cluster)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="root:x:0:0", headers={"Location": "/elsewhere"})

    async with recommender(answer) as url:
        fact = await ask(cluster, url)
    assert fact.error == f"unexpected response code: {status}"
    wanted = {401: "forbidden", 403: "forbidden", 404: "not-found", 429: "throttled"}
    assert fact.error_class == wanted.get(status, "unavailable")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "unable to read the recommendation"),
        (b'{"targetReplicas": "many"}', "unable to read the recommendation"),
        (b'{"targetReplicas": -4}', "$.targetReplicas"),
        (b'{"targetReplicas": 99999999999}', "$.targetReplicas"),
        (b"[7]", "unable to read the recommendation"),
        (b'{"targetReplicas": 7, "surprise": 1}', "contains a member that the protocol has not"),
        (b'{"targetReplicas": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"error": {"code": 3, "message": "no model"}}', "error from recommender: 3 no model"),
        (b"x" * (2**20 + 1), "longer than"),
    ],
)
async def test_garbage_is_no_recommendation(body: bytes, text: str, cluster: Cluster) -> None:
    with_target(cluster)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with recommender(answer) as url:
        fact = await ask(cluster, url)
    assert (fact.error_class, text in fact.error) == ("garbage", True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"targetReplicas": 7, "upperBoundReplicas": 9, "observedTargets": [{"targetValue": 1.5}]}',
        b'{"target_replicas": "7", "upper_bound_replicas": "9", "observed_targets": [{"target_value": "1.5"}]}',
        b'{"targetReplicas": 7.0, "upperBoundReplicas": 9, "observedTargets": [{"targetValue": 1.5}], "error": null}',
    ],
)
async def test_every_json_form_of_the_protocol_is_read(body: bytes, cluster: Cluster) -> None:
    with_target(cluster)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with recommender(answer) as url:
        fact = await ask(cluster, url)
    assert fact.error == ""
    assert (fact.target_replicas, fact.lower_bound_replicas, fact.upper_bound_replicas) == (7, None, 9)
    assert fact.observed_value == 1.5


@pytest.mark.parametrize("value", [b'"NaN"', b'"Infinity"', b'"-Infinity"'])
async def test_what_was_observed_is_left_out_where_it_is_no_number(value: bytes, cluster: Cluster) -> None:
    """The protocol has such values, and a fact has not: what is recommended beside it holds."""
    with_target(cluster)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b'{"targetReplicas": 7, "observedTargets": [{"targetValue": %s}]}' % value)

    async with recommender(answer) as url:
        fact = await ask(cluster, url)
    assert (fact.error, fact.target_replicas, fact.observed_value) == ("", 7, 0.0)


async def test_one_that_hangs_and_one_that_is_not_there_are_given_up(cluster: Cluster) -> None:
    with_target(cluster)
    never = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    async with recommender(answer) as url:
        fact = await ask(cluster, url, timeout_s=0.05)
        never.set()
    assert fact.error_class == "timeout"
    fact = await ask(cluster, url)
    assert (fact.error_class, url in fact.error) == ("unavailable", True)
    assert (await ask(cluster, "ftp://x")).error.startswith(
        "spec.recommender.url 'ftp://x' is not asked: valid are http:// and"
    )


async def test_without_a_target_it_is_not_asked_and_the_reason_is_said(cluster: Cluster) -> None:
    with_target(cluster)
    cluster.answers[SCALE] = refusal(404, "NotFound", "no web")
    fact = await ask(cluster, "http://127.0.0.1:1/")
    assert (fact.error_class, "scale not found" in fact.error) == ("not-found", True)


async def test_the_recommender_of_an_autoscaler_is_asked_on_the_interval(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    with_target(cluster)
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"targetReplicas": asked})

    own = {"speed": 150.0, "recommender_hosts": ("127.0.0.1",)}
    async with recommender(answer) as url, watching(cluster, nats, tmp_path, **own):
        await cluster.put(WPAS, "shop", "w", spec=spec_of(url))
        await tail.until(lambda e: isinstance(e, RecommendationReceived) and e.target_replicas >= 3)


# TLS


async def test_tls_settings_of_an_object_are_its_own(cluster: Cluster, tmp_path: Path) -> None:
    with_target(cluster)
    ca = certificate(tmp_path, "ca")
    certificate(tmp_path, "server", issuer=ca, host="recommender.test")
    certificate(tmp_path, "client", issuer=ca)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server.load_verify_locations(tmp_path / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"targetReplicas": 7})

    files = {
        "caFile": str(tmp_path / "ca.crt"),
        "certFile": str(tmp_path / "client.crt"),
        "keyFile": str(tmp_path / "client.key"),
    }
    async with recommender(answer, server) as url:
        whole = {**files, "serverName": "recommender.test", "minVersion": "TLS12"}
        assert (await ask(cluster, url, own=whole, tls_folder=tmp_path)).target_replicas == 7
        # The name is checked, unless nothing is to be.
        assert "certificate" in (await ask(cluster, url, own=files, tls_folder=tmp_path)).error
        trusting = {**files, "insecureSkipVerify": True}
        assert (await ask(cluster, url, own=trusting, tls_folder=tmp_path)).target_replicas == 7
        # The process's files fill in what the object leaves out.
        process = Tls(ca_file=files["caFile"], cert_file=files["certFile"], key_file=files["keyFile"])
        named = {"serverName": "recommender.test"}
        assert (await ask(cluster, url, own=named, tls=process)).target_replicas == 7
        assert (await ask(cluster, url, own=named)).error_class == "unavailable"


def test_settings_are_merged_by_file_and_otherwise_come_from_one_place() -> None:
    process = Tls(ca_file="ca", cert_file="crt", key_file="key", server_name="p", min_version="TLS12")
    assert merged(None, process) == process
    assert merged(None, Tls(server_name="p")) == Tls()  # counts only with a file
    assert merged({"caFile": "/own/ca", "insecureSkipVerify": True}, process, Path("/own")) == Tls(
        ca_file="/own/ca", cert_file="crt", key_file="key", insecure_skip_verify=True
    )
    with pytest.raises(BadTls, match=r"tlsConfig.*insecureSkipVerify"):
        merged({"insecureSkipVerify": "yes"}, process)


def test_versions_and_missing_keys_are_refused_by_name(tmp_path: Path) -> None:
    context = context_of(Tls(min_version="TLS12", max_version="TLS13"))
    assert (context.minimum_version, context.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    with pytest.raises(BadTls, match="maxVersion is 'TLS9'; valid are TLS10"):
        context_of(Tls(max_version="TLS9"))
    with pytest.raises(BadTls, match="keyFile"):
        context_of(Tls(cert_file="a"))
    with pytest.raises(BadTls, match="certFile"):
        context_of(Tls(cert_file=str(tmp_path / "none"), key_file=str(tmp_path / "none")))
    assert json.loads(msgspec.json.encode(Tls(ca_file="x")))["caFile"] == "x"
