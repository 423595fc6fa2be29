"""`events --follow` goes on with what comes, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

from tests.e2e.asking.conftest import Ask
from tests.e2e.asking.world import SPACE
from tests.e2e.conftest import tidewright
from tidewright.events import registry
from tidewright.events.facts import PodGone
from tidewright.log.connection import Log, Message


def test_what_comes_is_shown_as_it_comes(running: tuple[str, ...]) -> None:
    _, url, _, cluster = running
    name = "comes-later"
    command = tidewright("events", "--follow", "--for", f"pod/{name}", "-n", SPACE, "-o", "json", *running)

    async def append() -> None:
        async with await Log.connect(url, cluster, timeout_s=10.0) as log:
            await log.adopt_slots()
            slot = log.slot_of(SPACE)
            for other in ("not-asked-for", name):
                fact = PodGone(at=1_772_500_000.0, namespace=SPACE, name=other)
                subject = log.subjects.fact(slot, "pod", SPACE, other)
                await log.commit([Message(subject, registry.encode(fact))])

    # A shell starts what it puts into the background with SIGINT ignored, and so would the command here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    with process:
        asyncio.run(append())
        assert process.stdout is not None
        line = process.stdout.readline()  # ends the test when nothing comes, by the suite's time limit
        assert f'"name": "{name}"' in line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")


def test_a_file_cannot_be_followed(ask: Ask, whole: Path) -> None:
    answer = ask("events", "--follow", "--log", whole)
    assert (answer.code, "nothing is added to a file" in answer.err) == (2, True)
