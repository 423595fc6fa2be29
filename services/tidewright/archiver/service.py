"""The archiver's loop: when it seals, what it waits for, and what it says of itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from tidewright.archive.errors import Overtaken
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.sealing import Sealer
from tidewright.archive.store import Store, opened
from tidewright.archiver.stretches import next_stretch
from tidewright.asking.archived import same_log
from tidewright.asking.running_log import RunningLog
from tidewright.host.process.process import Process
from tidewright.host.process.service import LogOptions, connect, find_stream, pause
from tidewright.log.diagnostics import get_logger
from tidewright.log.errors import LogError, LogUnavailable

LOOK_S = 2.0
"""Between two looks at the log, wall seconds."""
EARLY_N = 10_000
"""So many messages are sealed without waiting for their time."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class Options:
    """What the archiver takes.

    Attributes:
        log: which log, and as whom.
        archive: URL of the archive.
        key: file of its key, made where the archive is new.
        every_s: a message is sealed at most so long after it was seen, wall seconds.
    """

    log: LogOptions
    archive: str
    key: Path
    every_s: float


class Archiver:
    """One process that seals.

    Attributes:
        sealed: how many segments it has sealed.
    """

    def __init__(self, source: RunningLog, store: Store, keys: ArchiverKeys, every_s: float) -> None:
        self._source, self._every_s = source, every_s
        self._sealer = Sealer(store, keys)
        self._looked = False
        self._empty_at = 0
        """Up to here there was nothing to seal: what was there is gone."""
        self._waits_since: float | None = None
        self._end = 0
        self._more = False
        """The last segment was cut for its size."""
        self.sealed = 0

    @property
    def last(self) -> int:
        """The last sequence that is sealed."""
        return self._sealer.tail.head.last if self._sealer.tail is not None else 0

    @property
    def behind(self) -> int:
        """How many sequences of the log are not sealed, as of the last look."""
        return max(0, self._end - max(self.last, self._empty_at))

    @property
    def waits_s(self) -> float:
        """For how long the oldest message that is not sealed has waited, as far as it is known."""
        return max(0.0, time.time() - self._waits_since) if self._waits_since is not None else 0.0

    async def turn(self) -> bool:
        """Look at the log, and seal a segment when one is due; returns whether another one is due at once.

        Raises:
            BadArchive, BadKey: the archive cannot be gone on with.
            LogUnavailable: the log or the archive does not answer.
        """
        if not self._looked:
            await self._sealer.look()
            self._looked = True
        tail = self._sealer.tail
        if tail is not None:
            await same_log(self._source, tail.head)
        _, self._end = await self._source.bounds()
        if not self.behind:
            self._waits_since = None
            return False
        if self._waits_since is None:
            # At a start it is not known since when, but not for longer than since the last seal.
            self._waits_since = tail.head.sealed_at if tail is not None and not self.sealed else time.time()
        if self.behind < EARLY_N and self.waits_s < self._every_s and not self._more:
            return False
        self._more = await self._seal()
        return self._more

    async def _seal(self) -> bool:
        """Seal one segment; whether another is to follow at once."""
        tail = self._sealer.tail
        stretch, more = await next_stretch(self._source, tail.head if tail is not None else None)
        if stretch is None:
            self._empty_at, self._waits_since = self._end, None
            return False
        self._looked = False  # until it is known what became of it
        try:
            seal = await self._sealer.seal(stretch)
        except Overtaken as error:
            logger.info("another archiver was quicker", error=str(error))
            return False
        self._looked, self._waits_since = True, None
        self.sealed += 1
        head = seal.head
        logger.info(
            "sealed",
            segment=head.number,
            first=head.first,
            last=head.last,
            records=head.records,
            key=seal.signer,
        )
        if head.successor:
            logger.info("another key signs from here on", segment=head.number)
        return more


def measure(archiver: Archiver, registry: CollectorRegistry) -> Counter:
    """Put the archiver's figures on `/metrics`; returns the counter of segments."""
    last = Gauge(
        "tidewright_archive_sealed_sequence", "Last sequence of the log that is sealed.", registry=registry
    )
    last.set_function(lambda: archiver.last)
    behind = Gauge(
        "tidewright_archive_behind_events", "Sequences of the log that are not sealed yet.", registry=registry
    )
    behind.set_function(lambda: archiver.behind)
    waits = Gauge(
        "tidewright_archive_age_seconds",
        "How long the oldest message that is not sealed has waited.",
        registry=registry,
    )
    waits.set_function(lambda: archiver.waits_s)
    return Counter("tidewright_archive_segments_total", "Segments sealed by this process.", registry=registry)


async def run(options: Options, process: Process) -> None:
    """Seal the log until the process is told to stop."""
    async with (
        await connect(options.log, process) as log,
        opened(options.archive, options.log.cluster) as store,
    ):
        log.directly = True  # a reader's rights: no consumer
        await find_stream(log, process)
        archiver = Archiver(RunningLog(log), store, ArchiverKeys(options.key), options.every_s)
        segments = measure(archiver, process.health.metrics.registry)
        said, counted = "", 0
        while not process.stop.is_set():
            process.health.tick()
            more = False
            try:
                more = await archiver.turn()
            except LogError as error:
                process.health.not_ready = str(error)
                process.health.metrics.errors.labels(error.reason).inc()
                if str(error) != said:
                    tell = logger.warning if isinstance(error, LogUnavailable) else logger.error
                    tell("nothing is sealed", reason=error.reason, error=str(error))
                said = str(error)
            else:
                process.health.not_ready = said = ""
            segments.inc(archiver.sealed - counted)
            counted = archiver.sealed
            if not more:
                await pause(process, min(LOOK_S, options.every_s))
