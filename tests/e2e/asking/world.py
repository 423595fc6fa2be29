"""A log to ask: made-up facts, the autoscaler's own decisions; as a file, and altered in every way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tests.bench.askedlog import MadeUp
from tests.bench.asking import manifest
from tests.exports import write_export
from tests.nats_server import EmbeddedServer
from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.fold.inputs import Inputs
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import digest_of
from tidewright.log.envelope import VERSION
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects

RECORDS = 7_000
SPACE, APP = "team-7", "app-2"
T = TypeVar("T")


def recorded() -> list[Record]:
    """The log."""
    return list(MadeUp(RECORDS, 0.2))


def stored(path: Path, records: Sequence[Record], **fields: Any) -> Path:
    """Records as an exported file."""
    given = msgspec.structs.replace(manifest(records[-1].seq), **fields)
    write_export(path, given, [], records)
    return path


def records_in(path: Path) -> list[Record]:
    return list(ExportFile(path).records())


def place(records: Sequence[Record], holds: Callable[[Record], bool], n: int = 0) -> int:
    """Index of the n-th record of some kind."""
    return [i for i, record in enumerate(records) if holds(record)][n]


def with_body(record: Record, body: bytes) -> Record:
    return Record(record.seq, record.subject, body, record.headers)


def rechained(records: list[Record], slot: Slot, version: str) -> list[Record]:
    """The chain of a slot made whole again after an alteration, as another version would have written it."""
    subjects = Subjects("bench")
    inputs = Inputs("autoscaler", frozenset(), subjects, 32)
    chain, altered = "", list[Record]()
    for record in records:
        cls = subjects.class_token(record.subject)
        if cls in ("decision", "checkpoint") and inputs.slot(record.subject) == slot:
            if cls == "decision":
                decision = registry.decode(record.body)
                assert isinstance(decision, Decision)
                registry.stamped(decision, decision_id=decision.id, prev=chain)
                body = registry.encode(decision)
                chain = digest_of(body)
                record = Record(record.seq, record.subject, body, record.headers | {VERSION: version})
            else:
                kept = msgspec.structs.replace(checkpoints.decode(record.body), chain=chain)
                record = with_body(record, checkpoints.encode(kept))
        altered.append(record)
    return altered


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A nats-server, run from a thread of its own, since commands bring their own event loops."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(90)

    nats = EmbeddedServer(folder)
    try:
        yield run(nats.start())
    finally:
        run(nats.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
