"""Object events onto the API server: those of one decision, over its attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidewright.actuator import verdict
from tidewright.actuator.correlate import Correlator, Count, Drop, Write
from tidewright.actuator.requests import MERGE_PATCH
from tidewright.actuator.verdict import Done, Refused, Result
from tidewright.events.base import JsonObject
from tidewright.events.decisions import Effect, RecordObjectEvent
from tidewright.kube.errors import KubeError


class Ask(Protocol):
    """Makes one request. Raises KubeError."""

    async def __call__(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> JsonObject: ...


class Told(msgspec.Struct):
    """How far the object events of one decision have come.

    Attributes:
        done: so many of its messages were written, or dropped.
        next: what is to be done about the one after them; None before that is known.
        written: so many were written or counted up, as the last of them or by somebody `found` there.
        dropped: why some were not, as the last of them.
    """

    done: int = 0
    next: Write | Count | Drop | None = None
    written: int = 0
    found: bool = False
    dropped: str = ""


class ObjectEvents:
    """Object events that are under way, and what was written of others like them."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` gives their stamps, which are for people."""
        self._wall = wall
        self._correlator = Correlator()
        self._pending: dict[str, Told] = {}
        """By their decision."""

    def finished(self, effect: Effect) -> None:
        """The effect has its outcome: no further attempt will come."""
        self._pending.pop(effect.id, None)

    async def attempt(self, effect: RecordObjectEvent, ask: Ask) -> Result:
        """Write what is left of them to write."""
        # Another attempt at the same wish is not another wish: what was written before is not written again.
        told = self._pending.setdefault(effect.id, Told())
        for nth in range(told.done, len(effect.messages)):
            if told.next is None:
                told.next = self._correlator.correlate(effect, self._wall(), nth)
            if isinstance(told.next, Drop):
                told.dropped = told.next.message
            else:
                told.found = await self._write(effect, told.next, ask)
                told.written += 1
            told.done, told.next = nth + 1, None
        if not told.written:
            return Refused(verdict.RATE_LIMITED, told.dropped)
        found = told.found and told.written == len(effect.messages) == 1
        return Done(found=found, result={"written": told.written} if told.dropped else {})

    async def _write(self, effect: RecordObjectEvent, todo: Write | Count, ask: Ask) -> bool:
        """Write an object event, or count it up; whether it was there already."""
        events = f"/api/v1/namespaces/{todo.namespace}/events"
        if isinstance(todo, Count):
            patch = msgspec.json.encode(todo.patch)
            try:
                await ask("PATCH", f"{events}/{todo.name}", patch, MERGE_PATCH)
            except KubeError as error:
                if error.status != 404:
                    raise
                name = str(todo.otherwise["metadata"]["name"])
                self._correlator.renamed(effect, todo.name, name)
                todo = Write(todo.namespace, name, todo.otherwise)
            else:
                return False
        try:
            await ask("POST", events, msgspec.json.encode(todo.body))
        except KubeError as error:
            if error.reason == "AlreadyExists":
                return True
            raise
        return False
