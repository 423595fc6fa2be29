from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from tests.answering import answering
from tests.unit.kube.api import Api, serving, status
from tidewright.kube import client
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError, error_of


async def test_an_answer_comes_back_as_bytes_with_lower_case_headers() -> None:
    api = Api()
    api.lists = [web.Response(body=b'{"a":1}', headers={"X-Thing": "yes"})]
    async with serving(api), Kube.at(api.url) as kube:
        answer = await kube.request("GET", "/api/v1/x", query={"limit": "5"})
    assert (answer.status, answer.body, answer.headers["x-thing"]) == (200, b'{"a":1}', "yes")
    assert api.requests[0].query["limit"] == "5"


async def test_a_quoted_path_is_not_quoted_or_unquoted_again() -> None:
    api = Api()
    api.lists = [web.Response(body=b"{}")]
    async with serving(api), Kube.at(api.url) as kube:
        await kube.request("GET", "/apis/a%2Fb/c")
    assert api.requests[0].raw_path == "/apis/a%2Fb/c"


async def test_a_refusal_carries_status_reason_message_and_retry_after() -> None:
    api = Api()
    api.lists = [status(429, "TooManyRequests", "slow down", **{"Retry-After": "7"})]
    async with serving(api), Kube.at(api.url) as kube:
        with pytest.raises(KubeError) as caught:
            await kube.request("GET", "/api/v1/x")
    error = caught.value
    assert (error.status, error.reason, error.message) == (429, "TooManyRequests", "slow down")
    assert (error.retry_after_s, error.error_class, error.retriable) == (7.0, "throttled", True)


async def test_no_server_is_unavailable_and_names_the_url() -> None:
    async with Kube.at("http://127.0.0.1:9") as kube:
        with pytest.raises(KubeError, match=r"http://127\.0\.0\.1:9/version") as caught:
            await kube.request("GET", "/version")
    assert (caught.value.status, caught.value.reason) == (0, "Unreachable")


async def test_a_late_answer_is_a_timeout() -> None:
    api = Api()

    async def never(_: web.Request) -> web.StreamResponse:
        await api.closing.wait()
        return web.Response()

    api.lists = [never]
    async with serving(api), Kube.at(api.url) as kube:
        with pytest.raises(KubeError) as caught:
            await kube.request("GET", "/x", timeout_s=0.05)
        api.closing.set()
    assert caught.value.reason == "Timeout"


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (400, "invalid"),
        (401, "forbidden"),
        (403, "forbidden"),
        (404, "gone"),
        (409, "conflict"),
        (410, "gone"),
        (422, "invalid"),
        (429, "throttled"),
        (500, "unavailable"),
        (503, "unavailable"),
        (504, "unavailable"),
    ],
)
def test_every_status_has_a_class(code: int, error_class: str) -> None:
    assert error_of(code, b"plain text").error_class == error_class


def test_a_body_that_is_no_status_becomes_the_message() -> None:
    error = error_of(502, b"<html>bad gateway</html>")
    assert "bad gateway" in error.message
    assert error.reason == "HTTP502"


@pytest.mark.parametrize("status_object", [True, False])
def test_the_token_in_a_webhooks_path_is_not_told(status_object: bool) -> None:
    """The API server quotes the URL that it called in vain; who reads outcomes may not call the endpoint."""
    said = (
        'Internal error occurred: failed calling webhook "spread.tidewright.dev": failed to call webhook: '
        'Post "https://tidewright-spread.tidewright.svc:443/s3cr3t/mutate-pod?a=b&timeout=5s": '
        "dial tcp 10.0.0.7:443: connect: connection refused"
    )
    body = (
        json.dumps(
            {
                "kind": "Status",
                "reason": "InternalError",
                "message": said,
                "details": {"causes": [{"message": said}]},
                "code": 500,
            }
        )
        if status_object
        else said
    )
    error = error_of(500, body.encode())
    told = f"{error!r} {error} {error.details} {error.body.decode()}"
    assert "s3cr3t" not in told
    assert "https://tidewright-spread.tidewright.svc:443/..." in error.message
    assert "connection refused" in error.message


def test_a_url_in_a_message_about_a_field_stays() -> None:
    said = 'spec.url: Invalid value: "http://recommender/v1": must be https'
    body = json.dumps({"kind": "Status", "reason": "Invalid", "message": said, "code": 422})
    assert error_of(422, body.encode()).message == said


def _kubeconfig(folder: Path, url: str, **user: object) -> Path:
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


async def test_the_token_of_a_kubeconfig_is_sent(tmp_path: Path) -> None:
    api = Api()
    api.lists = [web.Response(body=b"{}")]
    async with serving(api):
        path = _kubeconfig(tmp_path, api.url, token="secret")
        async with await Kube.connect(path) as kube:
            await kube.request("GET", "/version")
    assert api.requests[0].headers["Authorization"] == "Bearer secret"


async def test_a_login_in_a_netrc_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else")
    monkeypatch.setenv("NETRC", str(netrc))
    api = Api()
    api.lists = [web.Response(body=b"{}")]
    async with serving(api):
        path = _kubeconfig(tmp_path, api.url, token="secret")
        async with await Kube.connect(path) as kube:
            await kube.request("GET", "/version")
    assert api.requests[0].headers["Authorization"] == "Bearer secret"


async def test_the_proxy_of_the_environment_is_asked_but_for_hosts_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        asked.append(f"{request.headers['Host']}{request.path}")
        return web.Response(body=b"{}")

    async with answering(proxy) as url:
        direct = url.removeprefix("http://")
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        async with await Kube.connect(_kubeconfig(tmp_path, "http://api.invalid:81")) as kube:
            await kube.request("GET", "/a")
        async with Kube.at("http://api.invalid:81") as kube:
            await kube.request("GET", "/b")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with Kube.at(url) as kube:
            await kube.request("GET", "/c")
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("http_proxy", "https://127.0.0.1:1")
        async with Kube.at(url) as kube:
            await kube.request("GET", "/d")
    assert asked == ["api.invalid:81/a", "api.invalid:81/b", f"{direct}/c", f"{direct}/d"]


async def test_a_login_that_expired_is_renewed_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "old")
    api = Api()
    api.lists = [status(401, "Unauthorized"), web.Response(body=b"{}")]
    async with serving(api):
        path = _kubeconfig(tmp_path, api.url, tokenFile=str(token))
        async with await Kube.connect(path) as kube:
            await asyncio.to_thread(token.write_text, "new")
            await kube.request("GET", "/version")
    assert [r.headers["Authorization"] for r in api.requests] == ["Bearer old", "Bearer new"]


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match="nothere: no such file"):
        await Kube.connect(tmp_path / "nothere")


async def test_a_kubeconfig_that_is_not_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("just: text")
    with pytest.raises(KubeError, match="config"):
        await Kube.connect(path)


async def test_stream_lines_are_whole_however_they_arrive() -> None:
    api = Api()
    api.watches = [[b'{"a"', b":1}\n{", b'"b":2}\n']]
    async with serving(api), Kube.at(api.url) as kube:
        lines = [line async for line in kube.stream("/x", query={"watch": "true"})]
    assert lines == [b'{"a":1}', b'{"b":2}']


async def test_a_silent_stream_is_a_timeout() -> None:
    api = Api()
    async with serving(api), Kube.at(api.url) as kube:
        with pytest.raises(KubeError) as caught:
            async for _ in kube.stream("/x", query={"watch": "true"}, read_timeout_s=0.05):
                pass
        assert caught.value.reason == "Timeout"


async def test_answers_and_events_that_do_not_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_LINE_BYTES", 10_000)
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse(status=int(request.query.get("status", "200")))
        await answer.prepare(request)
        with suppress(ConnectionError):
            while sent < 2**30:
                await answer.write(b"x" * 2**16)
                sent += 2**16
        return answer

    async with answering(endless) as url, Kube.at(url) as kube:
        with pytest.raises(KubeError, match="more than 100000 bytes"):
            await kube.request("GET", "/a", limit_bytes=100_000)
        with pytest.raises(KubeError, match="more than 10000 bytes"):
            async for _ in kube.stream("/a", query={}):
                pass
        with pytest.raises(KubeError, match="more than 1048576 bytes"):
            async for _ in kube.stream("/a", query={"status": "500"}):
                pass
    assert sent < 2**28


async def test_a_password_in_a_url_is_in_no_message() -> None:
    async with Kube.at("http://user:s3cret@127.0.0.1:9") as kube:
        with pytest.raises(KubeError) as refused:
            await kube.request("GET", "/a")
    assert "s3cret" not in str(refused.value)
    assert "http://***@127.0.0.1:9/a" in str(refused.value)
