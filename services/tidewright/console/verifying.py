"""The log verified again and again in the background, in a child at lowest priority, at a small part of a core.

What the last run found is kept among the asker's own files, so that the next console goes on from there: it says how
far the log is verified, and begins the next run when that would have been due. It counts only with the log and the code that it
is of, and for a day: who stops and starts it every few minutes would verify a long log from its beginning each time otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tidewright.asking.answers.verify import LogVerification
from tidewright.asking.errors import CommandError, translated
from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.asking.point_in_time import INTERLEAVED, end_of
from tidewright.asking.source import Source
from tidewright.console.apart import LOWEST, Turns
from tidewright.console.budget import SHARE
from tidewright.host.process.software import software_in
from tidewright.log.diagnostics import get_logger
from tidewright.log.reader import Record

FIRST_S = 5.0
"""After the start: whoever opens the console has the first page before."""
LEAST_PAUSE_S = 30.0
PAUSES = 1 / SHARE - 1
"""Pause after a run as a multiple of it: that part of a core in all."""
KEPT_S = 86_400.0
"""For so long what a run found counts for a later console: the log may have been altered since."""
WHOSE = Whose("verify", 1, "", "")
"""Of what is kept: beside the states that are kept of services. The number is that of its form."""
SAID = 400
"""Characters that are kept of what a failed run said."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class Ran:
    """A run that came to an answer.

    Attributes:
        up_to: everything on the log up to this sequence was verified.
        log_time: of the end of the log then, seconds; `took_s` wall seconds.
        ended: wall time, seconds.
    """

    up_to: int
    log_time: float
    took_s: float
    answer: LogVerification
    ended: float


@dataclass(frozen=True)
class _Kept:
    latest: Ran
    failure: Ran | None


@dataclass
class Verifying:
    """Verification of one log.

    Attributes:
        command: what answers `verify -o json`; none where nothing is verified.
        environment: of the child.
        turns: in which it makes room for a child that is waited for.
        running_up_to: of the run that goes on; 0 when none does.
        failure: the last run that found a difference.
        problem: why the last run came to nothing; empty when it did not.
        earlier: the latest run was that of a console before this one.
    """

    source: Source
    command: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)
    latest: Ran | None = None
    failure: Ran | None = None
    running_up_to: int = 0
    problem: str = ""
    earlier: bool = False

    async def run(self) -> None:
        """Verify on and on, whenever there is more on the log than was verified."""
        if not self.command:
            return
        await asyncio.sleep(FIRST_S)
        pause = 0.0
        try:
            with translated():
                pause = await self._resumed()
        except (CommandError, OSError) as error:
            logger.warning("what was verified before is not known", error=str(error))
        await asyncio.sleep(pause)
        while True:
            async with self.turns.one_behind:  # its pause, too: the part of a core is that of all logs
                await self.turns.free()
                begun, others_s = time.monotonic(), self.turns.owed_s()
                try:
                    with translated():
                        await self._once()
                except (CommandError, OSError) as error:  # also that no process can be had
                    self.problem = str(error)
                    logger.warning("the log was not verified", error=str(error))
                finally:
                    self.running_up_to = 0
                await asyncio.sleep(_pause_after(time.monotonic() - begun, others_s))

    async def _once(self) -> None:
        _, last = await self.source.bounds()
        if last == 0 or (self.latest is not None and self.latest.up_to == last and not self.problem):
            return
        self.running_up_to, log_time, begun = last, await end_of(self.source), time.monotonic()
        mark, (files, software) = await self._mark(last), await self._files()
        child = await asyncio.create_subprocess_exec(
            "nice", "-n", str(LOWEST), *self.command,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=self.environment or None,
        )  # fmt: skip
        with self.turns.background(child) as made_room:
            try:
                said, complained = await child.communicate()
            except asyncio.CancelledError:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
                raise
        if made_room() and child.returncode:
            return  # the next one goes on from where it stood
        try:
            answer = msgspec.json.decode(said, type=LogVerification)
        except msgspec.MsgspecError:
            words = complained.decode(errors="replace").strip()[-SAID:]
            raise CommandError(words or f"verify ended with {child.returncode} and no answer") from None
        ran = Ran(last, log_time, time.monotonic() - begun, answer, time.time())
        before, self.latest, self.problem, self.earlier = self.latest, ran, "", False
        if answer.differences:
            self.failure = ran
        if mark is not None:
            files.put(WHOSE, software, KeptFold(mark, last, msgspec.msgpack.encode(_Kept(ran, self.failure))))
            if before is not None and before.up_to != last:
                files.drop(WHOSE, software, before.up_to)

    async def _resumed(self) -> float:
        """Go on from what a console before found; how long to wait until the next run, seconds."""
        _, last = await self.source.bounds()
        files, software = await self._files()
        kept = files.nearest(WHOSE, software, last)
        if kept is None:
            return 0.0
        mark = await self.source.at(kept.checkpoint.seq)
        found: _Kept | None = None
        if mark == kept.checkpoint:
            with contextlib.suppress(msgspec.MsgspecError):
                found = msgspec.msgpack.decode(kept.data, type=_Kept)
        if found is None or not 0 <= (since := time.time() - found.latest.ended) <= KEPT_S:
            files.drop(WHOSE, software, kept.position)
            return 0.0
        self.latest, self.failure, self.earlier = found.latest, found.failure, True
        return max(0.0, _pause_after(found.latest.took_s) - since)

    async def _files(self) -> tuple[FoldFiles, str]:
        """Where it is kept, and under the name of what code: any of ours, as verification rests on most of it."""
        return FoldFiles(await self.source.identity()), await asyncio.to_thread(software_in, "tidewright")

    async def _mark(self, last: int) -> Record | None:
        """A message near the end by which the log is known again; schedules are taken away when they fire."""
        subjects = self.source.subjects
        near = [record for record in await self.source.tail(INTERLEAVED) if record.seq <= last]
        near = [record for record in near if subjects.class_token(record.subject) != "schedule"]
        return max(near, key=lambda record: record.seq, default=None)


def _pause_after(took_s: float, others_s: float = 0.0) -> float:
    """After a run, wall seconds. What others took in between, which it made room for, is of the same part of a core."""
    return max(LEAST_PAUSE_S, PAUSES * took_s + others_s / SHARE)
