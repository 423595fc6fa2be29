"""`POST /v1/metrics`: samples that are pushed become facts at once.

    Content-Type: application/json        [{"metric": ..., "value": ..., "namespace": ..., "labels": {...}}]
    Content-Type: application/x-protobuf  Prometheus remote-write 1.0 or 2.0, Content-Encoding: snappy

It answers when the facts are on the log: 200 (JSON) or 204 (remote-write). 400, 408, 413 and 415 name
what is wrong; 401 without the token, where one is asked for; 429 and 503 (another watcher samples at
the moment, or none yet) say when to try again. What is wrong with one sample keeps no other out.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from tidewright.watcher import pushed, remotewrite
from tidewright.watcher.pushed import BadPush, Sample
from tidewright.watcher.sampler import NotSampling, Sampler

PATH: Final = "/v1/metrics"
MAX_BODY_BYTES: Final = 4 * 2**20
AT_ONCE: Final = 16
"""Pushes that wait for the log together; further ones are asked to come again."""
BODY_S: Final = 10.0
"""A body that takes longer would keep others out."""
SAID: Final = 5
"""Refused samples that an answer names."""

_log = structlog.get_logger(__name__)


class Intake:
    """The endpoint."""

    def __init__(
        self, sampler: Sampler, *, token: str = "", registry: CollectorRegistry | None = None
    ) -> None:
        """`token` is what `Authorization: Bearer` has to bring; empty for none."""
        self._sampler = sampler
        self._token = token
        self._waiting = 0
        self._samples = Counter(
            "tidewright_pushed_samples_total",
            "Samples that were pushed: used, unused (nobody asks for them), old, refused.",
            ["result"],
            registry=registry,
        )
        self._pushes = Counter(
            "tidewright_pushes_total", "Pushes of metrics, by HTTP status.", ["code"], registry=registry
        )

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one push."""
        try:
            response = await self._answer(request)
        except BadPush as error:
            response = _refused(error.status, [error])
        self._pushes.labels(str(response.status)).inc()
        if response.status in (400, 413, 415):
            _log.warning("push refused", status=response.status, remote=request.remote, error=response.text)
        return response

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return _said(405, f"{request.method} is not answered here; POST samples", Allow="POST")
        if self._token and not hmac.compare_digest(
            request.headers.get("Authorization", "").encode(), f"Bearer {self._token}".encode()
        ):
            return _said(401, "Authorization: a bearer token is needed", **{"WWW-Authenticate": "Bearer"})
        if self._waiting >= AT_ONCE:
            return _said(429, f"{AT_ONCE} pushes wait for the log already", **{"Retry-After": "1"})
        self._waiting += 1
        try:
            remote = _remote_write(request)
            body = await _body(request)
            if remote:
                samples = self._in_log_time(remotewrite.decode(body, remote))
            else:
                samples = pushed.decode_json(body)
            taken = await self._sampler.push(samples)
        except NotSampling as error:
            later = _said(503, str(error), **{"Retry-After": "5"})
            later.force_close()  # so that the next attempt may reach the watcher that samples
            return later
        finally:
            self._waiting -= 1
        counts = {
            "used": taken.used,
            "unused": taken.unused,
            "old": taken.old,
            "refused": len(taken.refused),
        }
        for result, count in counts.items():
            self._samples.labels(result).inc(count)
        written = _written(len(samples) - len(taken.refused)) if remote == remotewrite.SECOND else {}
        if taken.refused:
            return _refused(max(error.status for error in taken.refused), taken.refused, written)
        if remote:
            return web.Response(status=204, headers=written)
        return web.json_response(counts)

    def _in_log_time(self, samples: list[Sample]) -> list[Sample]:
        """Prometheus stamps with the wall's time."""
        log_of = self._sampler.clock.log_of
        if self._sampler.clock.setting is None:
            return samples
        return [
            msgspec.structs.replace(s, timestamp=None if s.timestamp is None else log_of(s.timestamp))
            for s in samples
        ]


def _written(samples: int) -> dict[str, str]:
    """What 2.0 asks an answer to say."""
    prefix = "X-Prometheus-Remote-Write"
    return {
        f"{prefix}-Samples-Written": str(samples),
        f"{prefix}-Histograms-Written": "0",
        f"{prefix}-Exemplars-Written": "0",
    }


def _remote_write(request: web.Request) -> str:
    """The remote-write message that it holds; empty for JSON.

    Raises:
        BadPush: none that is known.
    """
    kind = request.content_type
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if kind == remotewrite.CONTENT_TYPE:
        proto = _parameter(request, "proto") or remotewrite.FIRST
        if proto not in (remotewrite.FIRST, remotewrite.SECOND):
            valid = f"{remotewrite.FIRST} and {remotewrite.SECOND}"
            raise BadPush("Content-Type", f"proto={proto}: valid are {valid}", status=415)
        if encoding != "snappy":
            raise BadPush("Content-Encoding", f"is {encoding}; remote-write is snappy", status=415)
        return proto
    if kind in ("application/json", "application/octet-stream"):  # the latter: none was said
        if encoding != "identity":
            raise BadPush("Content-Encoding", f"is {encoding}; JSON comes as it is", status=415)
        return ""
    raise BadPush(
        "Content-Type", f"is {kind}; valid are application/json and {remotewrite.CONTENT_TYPE}", status=415
    )


def _parameter(request: web.Request, name: str) -> str:
    for part in request.headers.get("Content-Type", "").split(";")[1:]:
        key, _, value = part.strip().partition("=")
        if key.lower() == name:
            return value.strip('"')
    return ""


async def _body(request: web.Request) -> bytes:
    """The body, as long as it is not too long.

    Raises:
        BadPush: it is, or there is none.
    """
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise BadPush("body", f"is {request.content_length} bytes, at most {MAX_BODY_BYTES}", status=413)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise BadPush("body", f"is more than {MAX_BODY_BYTES} bytes", status=413)
    except TimeoutError as error:
        raise BadPush("body", f"was not there after {BODY_S:g} s", status=408) from error
    if not body:
        raise BadPush("body", "is empty: push at least one sample")
    return bytes(body)


def _refused(status: int, errors: list[BadPush], headers: Mapping[str, str] | None = None) -> web.Response:
    more = f"; and {len(errors) - SAID} more" if len(errors) > SAID else ""
    content = {
        "error": "; ".join(str(error) for error in errors[:SAID]) + more,
        "fields": [error.field for error in errors[:SAID]],
    }
    return web.json_response(content, status=status, headers=headers)


def _said(status: int, text: str, **headers: str) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
