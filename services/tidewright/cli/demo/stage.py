"""What every story of the demo is played on: everything up, its objects made, the log followed to its end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidewright.asking.errors import INTERRUPTED, CommandError, translated
from tidewright.cli.console import Printer
from tidewright.cli.datafolder import DataFolder
from tidewright.cli.stack import Stack, StackOptions
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.clock import Clock
from tidewright.log.connection import Log

LEAD_S, MOST_LEAD_S = 8.0, 30.0
"""Wall seconds from the start to the beginning of the story, in which everything comes up."""
WITH_CONSOLE = 1.3
"""So much longer is the lead where the console comes up, too."""
LEAD_PER_IMPORT = 8.0
"""The lead as a multiple of what one service's imports take here and now: on a busy machine it is longer."""
LEAD_AGAIN = 1.5
"""The lead as a multiple of what everything took to come up, where that was longer than the first lead."""

TOLD = frozenset(("fact", "decision", "outcome"))
"""Classes of messages that stories are made of."""


class Telling(Protocol):
    """What happened, folded from the log."""

    def fold(self, event: Event) -> None:
        """Take one event, in the order of the log."""

    @property
    def settled(self) -> bool:
        """Whether nothing is under way any more."""


class Play(Protocol):
    """One story to be played.

    Attributes:
        folder: the data folder.
        end: log time of its end, seconds.
        settle_within_s: wall seconds that what is under way then may still take.
    """

    folder: Path
    end: float
    settle_within_s: float

    @property
    def telling(self) -> Telling:
        """What is known of it so far."""

    def heading(self) -> str:
        """What is said before everything is started."""

    def options(self, wall: float) -> StackOptions:
        """The stack; the story begins at `wall`."""

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """Path of the collection and object, in the order in which they are made."""

    def view(self) -> AbstractContextManager[Callable[[], None]]:
        """Shows what is known, each time it is called."""

    async def perform(self, kube: Kube, clock: Clock) -> None:
        """What is done to the cluster meanwhile."""

    def summary(self) -> str:
        """What happened, as it is printed at the end."""


class _Late(Exception):  # nothing is wrong: it is begun once more
    """Everything was up after the story had begun.

    Attributes:
        took_s: wall seconds from the start until it was.
    """

    def __init__(self, took_s: float) -> None:
        super().__init__(took_s)
        self.took_s = took_s


async def run(play: Play, *, console: bool = False) -> int:
    """Play a story in its folder, which is made anew, with the web console if that is wanted; returns the exit code.

    A story of which the beginning was missed is begun once more, and not a third time.
    """
    lead_s: float | None = None
    while True:
        folder = DataFolder.open(play.folder, "demo", fresh=True)  # before anything is written there
        try:
            return await _run_in(folder, play, lead_s, console=console)
        except _Late as late:
            lead_s = LEAD_AGAIN * late.took_s
        finally:
            folder.close()


async def _run_in(folder: DataFolder, play: Play, lead_s: float | None, *, console: bool) -> int:
    """Play it once. With a lead that was measured it is played however late everything is up.

    Raises:
        _Late: the story had begun by then.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    if lead_s is None:
        print(play.heading(), file=sys.stderr, flush=True)
    begun = time.time()
    wall = begun + (await _lead_s() * (WITH_CONSOLE if console else 1.0) if lead_s is None else lead_s)
    options = replace(play.options(wall), console=console)
    try:
        with (play.folder / "services.log").open("w") as logs:
            async with Stack(options, Printer(logs, as_json=True), folder) as stack:
                took_s = time.time() - begun
                if lead_s is None and begun + took_s > wall:
                    print(
                        f"this took {took_s:.0f} s, and the story had begun by then: once more from the beginning",
                        file=sys.stderr,
                        flush=True,
                    )
                    raise _Late(took_s)
                if stack.console_url:
                    print(
                        f"console: {stack.console_url} (lets in one browser, once)",
                        file=sys.stderr,
                        flush=True,
                    )
                await _play(stack, play)
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    print(play.summary())
    return 0


async def _lead_s() -> float:
    """How long everything may take to come up on this machine, wall seconds."""
    begun = time.monotonic()
    imports = await asyncio.create_subprocess_exec(sys.executable, "-c", "import tidewright.watcher.service")
    await imports.wait()
    return min(MOST_LEAD_S, max(LEAD_S, LEAD_PER_IMPORT * (time.monotonic() - begun)))


async def _play(stack: Stack, play: Play) -> None:
    """Make the objects, and follow the log until the story is over and nothing is under way."""
    with translated():
        async with await Kube.connect(stack.kubeconfig) as kube:
            await _create(kube, play.manifests())
            performing = asyncio.create_task(play.perform(kube, stack.clock))
            try:
                async with await Log.connect(
                    stack.nats_url, stack.options.cluster, name="demo", timeout_s=5.0
                ) as log:
                    await log.adopt_slots()
                    with play.view() as show:
                        await _follow(log, stack.clock, play, performing, show)
            finally:
                performing.cancel()
                await asyncio.wait([performing])


async def _create(kube: Kube, manifests: list[tuple[str, dict[str, Any]]]) -> None:
    for path, manifest in manifests:
        try:
            await kube.request("POST", path, body=msgspec.json.encode(manifest))
        except KubeError as error:
            raise CommandError(f"{manifest['kind']} of the demo: {error}") from error


async def _follow(
    log: Log, clock: Clock, play: Play, performing: asyncio.Task[None], show: Callable[[], None]
) -> None:
    patience = 0.0
    # One wide filter: with several, the server is slow where it is writing (decision record 3).
    async with log.reader([log.subjects.everything]) as reader:
        while True:
            for record in await reader.fetch(timeout_s=0.2):
                if log.subjects.class_token(record.subject) not in TOLD:
                    continue
                event = registry.decode(record.body)
                if isinstance(event, Event):
                    play.telling.fold(event)
            show()
            if performing.done():
                performing.result()  # what went wrong with it ends the demo
            if clock.now() < play.end:
                continue
            patience = patience or time.monotonic() + play.settle_within_s
            if play.telling.settled or time.monotonic() > patience:
                return
