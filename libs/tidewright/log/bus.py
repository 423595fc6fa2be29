"""`Bus`: one connection to a server, what it is asked, and how its refusals are raised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import nats.errors

from tidewright.log import errors
from tidewright.log.cancellation import heeded
from tidewright.log.diagnostics import get_logger
from tidewright.log.elsewhere import Course, Elsewhere, alone, leads
from tidewright.log.identity import ALIVE_S, BusClient, shown
from tidewright.log.opening import described
from tidewright.log.outage import OUTAGE
from tidewright.log.refusals import NO_MESSAGE, NOT_FOUND, leaderless, refusal

ASK_AGAIN_S = 0.2
"""Between a question that was not answered and the next."""
SILENT_S = 2.0
"""Seconds without an answer after which that is said: an election takes less."""
DENIED_FOR_S = 30.0
"""A subject that was refused is not tried again for so long; permissions can change meanwhile."""
LIMITS_S = 60.0
"""Between two connections that are made for what the server takes by now."""

ASKING, APPENDING = "asking", "appending"

logger = get_logger(__name__)


class Bus:
    """A connection, and the stream that is asked for over it.

    Attributes:
        timeout_s: bounds each answer that is waited for.
        patience_s: what is asked without appending is asked again for so long when no answer comes.
        outage: what this process has said of a log that does not answer.
        denied: subjects, in lower case, that the server refused to take from us, and when (monotonic).
    """

    def __init__(
        self, client: BusClient, url: str, stream: str, *, timeout_s: float, patience_s: float = 0.0
    ) -> None:
        self.client = client
        self.url = url
        self.stream = stream
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self._silent_since: float | None = None
        self._unanswered = ""
        self.outage = OUTAGE
        self._elsewhere = Elsewhere()
        self.denied: dict[str, float] = {}
        self._limited_at: float | None = None

    @property
    def max_message_bytes(self) -> int:
        """What the server takes of one message, headers included."""
        return int(self.client.max_payload)

    async def renew_limits(self) -> None:
        """Something is larger than the server takes it: when that goes on, connect anew.

        A server says what it takes when it is connected to, and not when that is changed.
        """
        now = time.monotonic()
        if self._limited_at is None:
            self._limited_at = now
        elif now - self._limited_at >= LIMITS_S:
            self._limited_at = now
            await self.client.force_reconnect()

    async def asked(self, verb: str, query: Mapping[str, Any], stream: str = "") -> dict[str, Any] | None:
        """The answer to a look-up; None when there is no such message, or no such `stream` (not the log's own)."""
        answer = await self.answer_of(verb, query)
        if "error" not in answer:
            return answer
        code = answer["error"].get("err_code")
        if code == NO_MESSAGE or (code == NOT_FOUND and stream not in ("", self.stream)):
            return None
        raise self.refused(answer["error"], verb)

    async def api(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """One request of the JetStream API, its error raised as one of ours."""
        answer = await self.answer_of(verb, body)
        if "error" in answer:
            raise self.refused(answer["error"], verb)
        return answer

    async def answer_of(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request of the JetStream API, which may be an error.

        That nobody leads the cluster is no answer to who has patience: that passes.

        Raises:
            LogUnavailable: no answer in time.
            LogForbidden: the credentials may not ask.
        """
        payload = msgspec.json.encode(body) if body else b""
        patient_until = time.monotonic() + self.patience_s
        while True:
            try:
                answer: dict[str, Any] = msgspec.json.decode(
                    await self.requested(f"$JS.API.{verb}", payload, None)
                )
                if not leaderless(answer.get("error", {})):
                    self._elsewhere.answered(ASKING)
                else:
                    await self.missed(ASKING)
                    if self.patience_s:
                        raise self.refused(answer["error"], verb)
            except errors.LogUnavailable as error:
                if time.monotonic() >= patient_until:
                    raise
                self._silent(verb, error)
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                self._silent_since = None
                self.outage.answered()
                return answer

    @property
    def silence(self) -> str:
        """What has not been answered for a while, to those who have patience; empty while questions are answered."""
        if self._silent_since is None or time.monotonic() - self._silent_since < SILENT_S:
            return ""
        return self._unanswered

    def _silent(self, verb: str, error: errors.LogUnavailable) -> None:
        self._unanswered = str(error)
        if self._silent_since is None:
            self._silent_since = time.monotonic()
        self.outage.met(f"asking {verb}", error)

    async def missed(self, what: str, already_s: float = 0.0) -> None:
        """Take note that something of this kind was not answered, and not for `already_s` before: when that goes on, try
        another server.
        """
        client = self.client
        if not (client.is_connected and client.has_others):
            return
        course, server = self._elsewhere.missed(what, already_s), client.server
        if course is Course.STAY or await self._is_good(client, course):
            return
        if client.server == server:
            if self.outage.leaves():
                logger.info("a server answers nothing, trying another", server=shown(server), unanswered=what)
            self._elsewhere.left()
            await client.leave()

    async def _is_good(self, client: BusClient, course: Course) -> bool:
        """Whether the server that is spoken to is stayed with: the log's leader is behind it, or may come to be there."""
        told, alive = await asyncio.gather(self._told(), client.is_alive())
        if told is not None and leads(told):
            return True  # what is not answered has a leader of its own, who is sought, and no server answers
        lost = told is not None and "error" not in told and alone(told.get("cluster") or {})
        return course is Course.LEAVE_UNLESS_ALIVE and alive and not lost

    async def is_taking(self) -> bool:
        """Whether the log has a leader, as far as can be told soon, that hears enough of the others to take something."""
        told = await self._told()
        return told is not None and leads(told)

    async def _told(self) -> dict[str, Any] | None:
        """What the log's leader says of its stream, once; None when nobody answers soon."""
        subject = f"$JS.API.STREAM.INFO.{self.stream}"
        try:
            answer = await heeded(self.client.request(subject, timeout=min(self.timeout_s, ALIVE_S)))
        except (nats.errors.Error, OSError, TimeoutError):
            return None
        told: dict[str, Any] = msgspec.json.decode(answer.data)
        return told

    async def published(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        """Send a message that nothing is answered to; raises LogUnavailable."""
        try:
            await heeded(self.client.publish(subject, body, headers=headers))
        except (nats.errors.Error, OSError) as error:
            raise errors.LogUnavailable(
                f"nats-server at {shown(self.url)} is not reached: {error}"
            ) from error

    async def requested(self, subject: str, body: bytes, headers: dict[str, str] | None) -> bytes:
        """The answer to a message; raises as `answer_of`."""
        self.check_allowed(subject)
        what = ASKING if subject.startswith("$JS.API.") else APPENDING
        asked_at = time.monotonic()
        try:
            answer = await heeded(self.client.request(subject, body, timeout=self.timeout_s, headers=headers))
        except nats.errors.NoRespondersError as error:
            await self.missed(what)
            raise errors.LogUnavailable(
                f"nobody at {shown(self.url)} answers for stream {self.stream}: JetStream is off there, the stream has no leader, or these credentials see neither"
            ) from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self.check_allowed(subject)
            await self.missed(what, time.monotonic() - asked_at)
            if self.client.turned_away:
                raise errors.LogUnavailable(
                    f"nats-server at {shown(self.url)} does not let us in any more ({self.client.turned_away}): have it know "
                    "these credentials, or replace their file, which is read anew at each try"
                ) from error
            raise errors.LogUnavailable(
                f"nats-server at {shown(self.url)} did not answer in {self.timeout_s:g} s ({described(error)})"
            ) from error
        if what == APPENDING and answer.data and b'"error"' not in answer.data:
            # The beginning of a batch is taken (with an empty answer) by a leader that the others do not hear, too.
            self._elsewhere.answered(what)
            self.outage.answered()
        return answer.data

    def check_allowed(self, subject: str) -> None:
        """Raise LogForbidden when the server has lately refused this subject: it answers nothing then."""
        if not self.denied:
            return
        refused = self.denied.get(subject.lower())
        if refused is not None and time.monotonic() - refused < DENIED_FOR_S:
            # Asked first of all: whose cluster has another name asks for a log that these credentials are not for.
            other = " or name another cluster with --cluster" * (
                subject == f"$JS.API.STREAM.INFO.{self.stream}"
            )
            raise errors.LogForbidden(
                f"nats-server at {shown(self.url)} does not let these credentials publish on {subject}: allow it in the server's permissions{other}"
            )

    def refused(self, error: Mapping[str, Any], what: str) -> errors.LogError:
        """What the server says is wrong, as one of our errors."""
        return refusal(error, what, self.url)
