"""How often a server is asked for an answer, and for what: each question takes the way there and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.bench import asking as bench
from tests.bench.askedlog import CLUSTER, SLOTS, MadeUp
from tests.nats_server import EmbeddedServer
from tidewright.asking import explain, lookups
from tidewright.asking.explain import explained
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source, matches
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import ObjectRef
from tidewright.host.fold.explainer import Reference
from tidewright.log import batched_get
from tidewright.log.bus import Bus
from tidewright.log.connection import Log
from tidewright.log.reader import Record
from tidewright.log.subjects import slot_of

APP = Reference("watermarkpodautoscaler", "team-7", "app-1")
WPA = ObjectRef(
    api_version="datadoghq.com/v1alpha1", kind="WatermarkPodAutoscaler", namespace="team-7", name="app-1"
)


@contextmanager
def counted() -> Iterator[list[str]]:
    """What the server is asked meanwhile."""
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        request, ask = Bus.requested, batched_get.ask

        async def requested(of: Bus, subject: str, *rest: Any) -> bytes:
            asked.append(subject)
            return await request(of, subject, *rest)

        async def got(of: Log, query: Any) -> tuple[list[Record], int]:
            asked.append(str(query))
            return await ask(of, query)

        patch.setattr(Bus, "requested", requested)
        patch.setattr(batched_get, "ask", got)
        yield asked


async def test_an_explanation_takes_few_questions(
    nats: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "EARLIER", 0)  # so that the scale lies behind what is told
    await bench.into_a_server(nats.url, MadeUp(9_000, 0.2), 9_000)
    async with await Log.connect(nats.url, CLUSTER, timeout_s=30.0) as log:
        await log.adopt_slots()
        log.directly = True
        with counted() as asked:
            source = RunningLog(log)
            answer = await explained(source, APP, await moment_of(source, ""))
    assert isinstance(answer.why[0].decided.event, HoldReplicas)
    assert len(asked) <= 30, "\n".join(asked)
    # What it says of itself is looked through once, however far the scale lies behind it.
    of_itself = f"decision.{slot_of(APP.namespace, SLOTS)}.autoscaler.watermarkpodautoscaler.team-7.app-1'"
    assert sum(f"'next_by_subj': 'tw.{CLUSTER}.{of_itself}" in question for question in asked) == 1


class Far:
    """A log of many sequences that holds few records, as far as decisions are looked for."""

    def __init__(self, seqs: Sequence[int], last: int) -> None:
        hold = registry.encode(HoldReplicas(at=1.0, target=WPA, replicas=3, reason="WithinWatermarks"))
        self.kept = [Record(seq=seq, subject="tw.x.decision.1.it.a", headers={}, body=hold) for seq in seqs]
        self.last_seq, self.read = last, list[int]()

    async def bounds(self) -> tuple[int, int]:
        return 1, self.last_seq

    async def narrowed(self, patterns: Sequence[str], after: int) -> Sequence[str]:
        there = [record.subject for record in self.kept if record.seq > after]
        return [pattern for pattern in patterns if any(matches(pattern, subject) for subject in there)]

    async def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        self.read.append(after)
        for record in self.kept:
            if record.seq > after:
                yield record


def looked_for(log: Far, enough: int, pattern: str = "tw.x.decision.1.it.a") -> list[int]:
    found = asyncio.run(
        lookups.decisions(cast("Source", log), [pattern], log.last_seq, lambda _: True, enough=enough)
    )
    return [entry.seq for entry in found]


def test_nothing_is_read_where_nothing_was_decided() -> None:
    log = Far([100, 300_000, 999_000], 1_000_000)
    assert looked_for(log, 3, "tw.x.decision.1.it.b") == []
    assert log.read == []
    assert looked_for(log, 1) == [999_000]
    assert log.read == [950_000]


def test_a_part_of_the_log_is_read_once_and_what_lies_behind_the_last_word_not_at_all() -> None:
    log = Far([100, 300_000], 1_000_000)
    assert looked_for(log, 2) == [300_000, 100]
    assert log.read == [250_000, 0]
