"""Keeps programs running: readiness, restart with backoff, and an end that leaves nothing behind.

A program is ready when a line of its output says that it has started and its probe, where the line
names one, agrees. One that ends with an exit code before it was ever ready cannot start, and the
reason is its own last words; one that was ready, or was killed, is started again, after a pause that
doubles while it keeps crashing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import structlog

from tidewright.asking.errors import CommandError
from tidewright.cli import process as processes

Fields: TypeAlias = Mapping[str, Any]
Sink: TypeAlias = Callable[[str, str], None]
"""Takes the name of a program and one line of its output."""

PROBE_EVERY_S = 0.05

logger = structlog.get_logger(__name__)


class CannotStart(CommandError):
    """A program ended, or stayed silent, before it was ready."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def says_started(line: str) -> Fields | None:
    """The fields of the log line with which a program of ours says that it has started."""
    if '"started"' not in line:
        return None
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return fields if isinstance(fields, dict) and fields.get("event") == "started" else None


@dataclass(frozen=True)
class Program:
    """What to run.

    Attributes:
        name: prefix of its lines.
        env: in addition to the supervisor's own environment; None takes a variable away.
        started: reads one line of its output; the fields of the line that says "started", else None.
            When they have a `health_port`, the program is ready once its `/readyz` says so.
        ready_within_s: wall seconds until it has to be ready at its first start.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    started: Callable[[str], Fields | None] = says_started
    ready_within_s: float = 60.0

    def environment(self) -> dict[str, str]:
        """The environment that the program gets."""
        merged = {**os.environ, **self.env}
        return {name: value for name, value in merged.items() if value is not None}


@dataclass(frozen=True)
class Backoff:
    """Pauses between restarts, in wall seconds; a life of `healthy_s` starts them anew."""

    first_s: float = 0.2
    most_s: float = 15.0
    healthy_s: float = 30.0

    def pause(self, crashes: int) -> float:
        """The pause after so many crashes in a row, >= 1."""
        return min(self.most_s, self.first_s * 2.0 ** min(crashes - 1, 30))


class Child:
    """One program and the process that runs it at present.

    Attributes:
        not_ready: why it was not, the last time that its probe said so.
    """

    def __init__(self, program: Program, sink: Sink, backoff: Backoff, stop_within_s: float) -> None:
        self.program = program
        self.restarts = 0
        self.ready: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()
        self._sink, self._backoff, self._stop_within_s = sink, backoff, stop_within_s
        self._process: asyncio.subprocess.Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self._last_words = ""
        self.not_ready = ""
        self._task = asyncio.create_task(self._keep(), name=f"keep {program.name}")
        self._task.add_done_callback(self._ended)

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def wait_ready(self) -> Fields:
        """The fields of its first line that says "started", once it is ready too.

        Raises:
            CannotStart: it ended before, or was silent for too long.
        """
        try:
            async with asyncio.timeout(self.program.ready_within_s):
                return await asyncio.shield(self.ready)
        except TimeoutError as error:
            said = self.not_ready or self._last_words
            raise CannotStart(
                f"{self.program.name} was not ready within {self.program.ready_within_s:g} s"
                + (f"; it last said: {said}" if said else "")
            ) from error

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whoever waits for readiness is not left waiting when the keeper itself fails."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(f"{self.program.name} cannot be kept running: {type(error).__name__}: {error}", 1)

    def restart(self) -> None:
        """End its process; it is started again as after a crash. Nothing happens while there is none."""
        if self._process is not None and self._process.returncode is None:
            self._ending = asyncio.create_task(processes.stop(self._process, self._stop_within_s))

    async def kept(self) -> None:
        """Return when it is no longer kept running, which only a defect of ours or `stop` does."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """End it, and do not start it again."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        """Run it for as long as we live; a cancellation ends it."""
        crashes = 0
        while True:
            began = time.monotonic()
            try:
                code = await self._live()
            except OSError as error:
                self._fail(f"{self.program.name}: {self.program.command[0]} cannot be run: {error}", 1)
                return
            if not self.ready.done() and code >= 0:
                reason = self._last_words or f"it ended with {processes.ending(code)} and no word"
                self._fail(f"{self.program.name} cannot start: {reason}", code or 1)
                return
            crashes = 1 if time.monotonic() - began >= self._backoff.healthy_s else crashes + 1
            pause_s = self._backoff.pause(crashes)
            self.restarts += 1
            logger.warning(
                "program ended, starting it again",
                program=self.program.name, ending=processes.ending(code), pause_s=pause_s, restarts=self.restarts,
            )  # fmt: skip
            await asyncio.sleep(pause_s)

    async def _live(self) -> int:
        """One life: start, pass its lines on to the last, and return how it ended."""
        self._process = await processes.spawn(self.program.command, self.program.environment())
        pump = asyncio.create_task(self._pump(self._process))
        try:
            await asyncio.shield(pump)
            return await self._process.wait()
        finally:
            await processes.stop(self._process, self._stop_within_s)
            await asyncio.wait([pump], timeout=self._stop_within_s)
            pump.cancel()

    async def _pump(self, process: asyncio.subprocess.Process) -> None:
        probing: asyncio.Task[None] | None = None
        try:
            async for line in _lines(process):
                self._last_words = _words(line) or self._last_words
                self._sink(self.program.name, line)
                if probing is None and (fields := self.program.started(line)) is not None:
                    probing = asyncio.create_task(self._probe(fields))
        finally:
            if probing is not None:
                probing.cancel()

    async def _probe(self, fields: Fields) -> None:
        """Wait until the program's own probe says ready."""
        port = int(fields.get("health_port", 0))
        while port and (reason := await _unready(port)) is not None:
            self.not_ready = reason or self.not_ready
            await asyncio.sleep(PROBE_EVERY_S)
        if not self.ready.done():
            self.ready.set_result(fields)

    def _fail(self, message: str, exit_code: int) -> None:
        if not self.ready.done():
            self.ready.set_exception(CannotStart(message, exit_code))
            self.ready.exception()  # whoever waits gets it; when nobody does, nothing is said


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """What a child says, line by line; a line beyond the limit is dropped as a whole."""
    if process.stdout is None:
        return
    while True:
        try:
            raw = await process.stdout.readline()
        except ValueError:
            continue
        if not raw:
            return
        yield raw.decode(errors="replace").rstrip("\n")


async def _unready(port: int) -> str | None:
    """None when `/readyz` on this loopback port answers 200; otherwise why not, where it says so."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    try:
        writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    except OSError:
        return ""
    finally:
        writer.close()
    return None if b" 200 " in head.split(b"\r\n")[0] else body.decode(errors="replace").strip()


def _words(line: str) -> str:
    """What a line says that may be the reason of an end: an error, or plain text."""
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        text = line.strip().removeprefix("error: ")
        return text if "[INF]" not in text else ""
    if not isinstance(fields, dict) or fields.get("level") not in ("error", "critical"):
        return ""
    return ": ".join(str(fields[k]) for k in ("event", "error", "reason") if fields.get(k))


class Supervisor:
    """Programs started in stages, and ended in the reverse order."""

    def __init__(self, sink: Sink, *, backoff: Backoff | None = None, stop_within_s: float = 10.0) -> None:
        """`stop_within_s` wall seconds after a polite request each program is killed."""
        self._sink, self._backoff, self._stop_within_s = sink, backoff or Backoff(), stop_within_s
        self._stages: list[list[Child]] = []

    async def start(self, *programs: Program) -> Sequence[Fields]:
        """Start a stage, all at once, and wait until all of it is ready; returns their ready lines.

        Raises:
            CannotStart: one of them did not get ready; the others of the stage still run.
        """
        stage = [Child(p, self._sink, self._backoff, self._stop_within_s) for p in programs]
        self._stages.append(stage)
        return await asyncio.gather(*(child.wait_ready() for child in stage))

    async def wait(self) -> None:
        """Wait while everything is kept running; raises what a keeper failed with."""
        keepers = [asyncio.create_task(child.kept()) for child in self.children()]
        try:
            done, _ = await asyncio.wait(keepers, return_when=asyncio.FIRST_COMPLETED)
            for keeper in done:
                keeper.result()
        finally:
            for keeper in keepers:
                keeper.cancel()

    async def stop_last(self) -> None:
        """End the stage that was started last."""
        await asyncio.gather(*(child.stop() for child in self._stages.pop()))

    async def stop(self) -> None:
        """End everything, the last stage first."""
        while self._stages:
            await self.stop_last()

    def last(self, name: str) -> Child:
        """What keeps the program of this name that was started last. Raises LookupError."""
        for child in reversed(list(self.children())):
            if child.program.name == name:
                return child
        raise LookupError(name)

    def children(self) -> Iterable[Child]:
        """Everything that is kept running, in the order of the start."""
        return [child for stage in self._stages for child in stage]
