"""`POST /v1/metrics`: samples that are pushed become facts at once.

    Content-Type: application/json        [{"metric": ..., "value": ..., "namespace": ..., "labels": {...}}]
    Content-Type: application/x-protobuf  Prometheus remote-write 1.0 or 2.0, Content-Encoding: snappy

A watcher that does not sample passes it on (`passing_on`). It answers when the facts are on the log: 200 (JSON) or 204 (remote-write). 400, 408, 413 and 415 name
what is wrong; 401 without a token that holds, where one is asked for, and 403 where nobody may push or
a token is good for other namespaces; 429 and 503 (no watcher samples yet, or none that can be reached)
say when to try again. What is wrong with one sample keeps no other out.

Only who may push is read from, and only a body that is there as a whole counts among those that wait
for the log: who sends slowly keeps nobody out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from tidewright.host.ports.bodies import BadBody, Bodies
from tidewright.host.ports.tokens import EVERYTHING, Token, Tokens, challenge
from tidewright.host.process.once import Once
from tidewright.watcher import pushed, remotewrite
from tidewright.watcher.passing_on import PassingOn
from tidewright.watcher.pushed import BadPush, Refusals, Sample
from tidewright.watcher.sampler import NotSampling, SampledElsewhere, Sampler

PATH: Final = "/v1/metrics"
MAX_BODY_BYTES: Final = 4 * 2**20
AT_ONCE: Final = 16
"""Pushes that wait for the log together; further ones are asked to come again."""
BODY_S: Final = 10.0
"""From the first byte of a body to its last."""
DECODED_HERE_BYTES: Final = 2**16
"""What is longer is decoded beside the loop, which goes on meanwhile."""

_log = structlog.get_logger(__name__)


class Intake:
    """The endpoint."""

    def __init__(
        self,
        sampler: Sampler,
        *,
        tokens: Tokens | None = None,
        closed: str = "",
        passing_on: PassingOn | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Take pushes for a sampler.

        Args:
            sampler: what they are for.
            tokens: what `Authorization: Bearer` has to bring; None: nothing.
            closed: why nobody may push here; empty where somebody may.
            passing_on: the way to the watcher that samples, where this one does not; None: there is none.
            registry: gets the counters.
        """
        self._sampler = sampler
        self._passing_on = passing_on
        self._tokens = tokens
        self._closed = closed
        self._waiting = 0
        self._bodies = Bodies(max_bytes=MAX_BODY_BYTES, within_s=BODY_S, registry=registry)
        self._once = Once()
        self._samples = Counter(
            "tidewright_pushed_samples_total",
            "Samples that were pushed: used, unused (nobody asks for them), old, refused.",
            ["result"],
            registry=registry,
        )
        self._refusals = Counter(
            "tidewright_pushed_samples_refused_total",
            "Samples that were refused, and pushes that were as a whole, by why.",
            ["why"],
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
            self._refusals.labels(error.why).inc()
            refusals = Refusals()
            refusals.add(error)
            response = _refused(refusals)
        except BadBody as error:
            later = {"Retry-After": "1"} if error.status == 503 else {}
            response = _said(error.status, f"body {error}", **later)
            response.force_close()
        self._pushes.labels(str(response.status)).inc()
        if response.status in (400, 401, 403, 408, 413, 415) and (
            times := self._once.due(response.status, request.remote)
        ):
            _log.warning(
                "push refused",
                status=response.status,
                remote=request.remote,
                error=response.text,
                times=times,
            )
        return response

    def _caller(self, request: web.Request) -> Token | web.Response:
        """What the caller of a request may push, or why it may not."""
        if self._closed:
            return _said(403, self._closed)
        if "Origin" in request.headers:  # a page in somebody's browser, which reaches loopback
            return _said(403, "Origin: pushes come from programs, not from pages in a browser")
        if self._tokens is None:
            return EVERYTHING
        return self._tokens.of(request) or challenge(PATH)

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return _said(405, f"{request.method} is not answered here; POST samples", Allow="POST")
        token = self._caller(request)
        if isinstance(token, web.Response):
            token.force_close()
            return token
        remote = _remote_write(request)
        body = await self._bodies.read(request)
        if not body:
            raise BadPush("body", "is empty: push at least one sample")
        if self._waiting >= AT_ONCE:
            return _said(429, f"{AT_ONCE} pushes wait for the log already", **{"Retry-After": "1"})
        self._waiting += 1
        try:
            samples = await _decoded(body, remote)
            if remote:
                samples = self._in_log_time(samples)
            taken = await self._sampler.push(samples, token)
        except NotSampling as error:
            if isinstance(error, SampledElsewhere) and self._passing_on is not None:
                answer = await self._passing_on.answer(PATH, request.headers, body)
                if answer is not None:
                    return answer
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
        for why, count in taken.refused.by_why.items():
            self._refusals.labels(why).inc(count)
        written = _written(len(samples) - len(taken.refused)) if remote == remotewrite.SECOND else {}
        if taken.refused:
            return _refused(taken.refused, written)
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


async def _decoded(body: bytes, remote: str) -> list[Sample]:
    """The samples of a body; `remote` is the remote-write message that it holds.

    Raises:
        BadPush: it cannot be read.
    """
    if not remote:
        return pushed.decode_json(body)  # in C, which is quick
    if len(body) <= DECODED_HERE_BYTES:
        return remotewrite.decode(body, remote)
    return await asyncio.to_thread(remotewrite.decode, body, remote)


def _refused(errors: Refusals, headers: Mapping[str, str] | None = None) -> web.Response:
    more = f"; and {len(errors) - len(errors.first)} more" if len(errors) > len(errors.first) else ""
    content = {
        "error": "; ".join(str(error) for error in errors.first) + more,
        "fields": [error.field for error in errors.first],
    }
    return web.json_response(content, status=errors.status, headers=headers)


def _said(status: int, text: str, **headers: str) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
