"""When what came onto the log, by its server's stamps: how long nothing came, of which class."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from tidewright.log.connection import Log
from tidewright.log.errors import LogUnavailable

AT_ONCE = 1000
CLASSES = ("fact", "decision", "outcome")


@dataclass(frozen=True)
class Came:
    """A message: its sequence, its class, and its stamp in wall seconds."""

    seq: int
    kind: str
    at: float


async def since(log: Log, after: int) -> list[Came]:
    """What came after a sequence, in the order of the log. Raises LogUnavailable."""
    found: list[Came] = []
    _, last = await log.bounds()
    inbox = log.client.new_inbox()
    answers = await log.client.subscribe(inbox)
    try:
        while after < last:
            asked = msgspec.json.encode({"seq": after + 1, "batch": AT_ONCE})
            await log.client.publish(f"$JS.API.DIRECT.GET.{log.stream}", asked, reply=inbox)
            while True:
                answer = await answers.next_msg(timeout=10.0)
                headers = answer.headers or {}
                if (status := headers.get("Status")) is not None:
                    if status == "404":
                        return found
                    break
                after = int(headers["Nats-Sequence"])
                kind = headers["Nats-Subject"].split(".", 3)[2]
                at = dt.datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp()
                found.append(Came(after, kind, at))
    except TimeoutError as error:
        raise LogUnavailable("no answer to a batched get") from error
    finally:
        await answers.unsubscribe()
    return found


def longest(came: Iterable[Came], kind: str, begin: float, end: float) -> float:
    """The longest time without a message of a class that touches the time from `begin` to `end`, wall seconds."""
    times = [c.at for c in came if c.kind == kind]
    before = max((t for t in times if t <= begin), default=begin)
    after = min((t for t in times if t >= end), default=end)
    within: Sequence[float] = sorted([before, *(t for t in times if begin < t < end), after])
    return max((b - a for a, b in pairwise(within)), default=0.0)


def first_after(came: Iterable[Came], kind: str, moment: float) -> float | None:
    """How long after a moment the first message of a class came; None: none did."""
    later = [c.at - moment for c in came if c.kind == kind and c.at >= moment]
    return min(later, default=None)


def count(came: Iterable[Came], kind: str, begin: float, end: float) -> int:
    """Messages of a class that came between two moments."""
    return sum(1 for c in came if c.kind == kind and begin < c.at < end)
