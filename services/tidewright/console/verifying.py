"""The log verified again and again in the background, in a child at lowest priority, at a small part of a core."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tidewright.asking.answers import LogVerification
from tidewright.asking.errors import CommandError, translated
from tidewright.asking.source import Source
from tidewright.log.diagnostics import get_logger

FIRST_S = 5.0
"""After the start: whoever opens the console has the first page before."""
LEAST_PAUSE_S = 30.0
PAUSES = 9.0
"""Pause after a run as a multiple of it: a tenth of a core."""
LOWEST = 19
SAID = 400
"""Characters that are kept of what a failed run said."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class Ran:
    """A run that came to an answer.

    Attributes:
        up_to: everything on the log up to this sequence was verified.
        log_time: of the end of the log then, seconds; `took_s` wall seconds.
    """

    up_to: int
    log_time: float
    took_s: float
    answer: LogVerification


@dataclass
class Verifying:
    """Verification of one log.

    Attributes:
        command: what answers `verify -o json`; none where nothing is verified.
        environment: of the child.
        running_up_to: of the run that goes on; 0 when none does.
        failure: the last run that found a difference.
        problem: why the last run came to nothing; empty when it did not.
    """

    source: Source
    command: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    latest: Ran | None = None
    failure: Ran | None = None
    running_up_to: int = 0
    problem: str = ""

    async def run(self) -> None:
        """Verify on and on, whenever there is more on the log than was verified."""
        if not self.command:
            return
        pause = FIRST_S
        while True:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            try:
                with translated():
                    await self._once()
            except (CommandError, OSError) as error:  # also that no process can be had
                self.problem = str(error)
                logger.warning("the log was not verified", error=str(error))
            finally:
                self.running_up_to = 0
            pause = max(LEAST_PAUSE_S, PAUSES * (time.monotonic() - begun))

    async def _once(self) -> None:
        from tidewright.asking.point_in_time import end_of

        _, last = await self.source.bounds()
        if last == 0 or (self.latest is not None and self.latest.up_to == last and not self.problem):
            return
        self.running_up_to, log_time, begun = last, await end_of(self.source), time.monotonic()
        child = await asyncio.create_subprocess_exec(
            "nice", "-n", str(LOWEST), *self.command,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=self.environment or None,
        )  # fmt: skip
        try:
            said, complained = await child.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
            raise
        try:
            answer = msgspec.json.decode(said, type=LogVerification)
        except msgspec.MsgspecError:
            words = complained.decode(errors="replace").strip()[-SAID:]
            raise CommandError(words or f"verify ended with {child.returncode} and no answer") from None
        ran = Ran(last, log_time, time.monotonic() - begun, answer)
        self.latest, self.problem = ran, ""
        if answer.differences:
            self.failure = ran
