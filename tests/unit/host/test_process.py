"""How a process ends, and what it says then."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from tidewright.host.process.health import Health
from tidewright.host.process.process import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE

SERVICE = """
import sys
from tidewright.host.process.process import ProcessOptions, run
from tidewright.log.errors import LogUnavailable, WrongStream

async def main(process):
    raise {error}

sys.exit(run(ProcessOptions("watcher"), main))
"""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("LogUnavailable('nobody answers')", EXIT_UNAVAILABLE, "nobody answers"),
        ("ExceptionGroup('a', [ExceptionGroup('b', [LogUnavailable('late')])])", EXIT_UNAVAILABLE, "late"),
        ("ExceptionGroup('a', [KeyError('x'), WrongStream('another')])", EXIT_USAGE, "another"),
        ("ExceptionGroup('a', [RuntimeError('a defect')])", EXIT_FAILED, "RuntimeError: a defect"),
    ],
)
def test_the_cause_is_said_and_not_the_group_it_came_in(error: str, code: int, words: str) -> None:
    command = [sys.executable, "-c", SERVICE.format(error=error)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == code
    assert msgspec.json.decode(ended.stderr.splitlines()[-1])["error"] == words


LEFT = """
import asyncio, sys
from tidewright.host.process.process import ProcessOptions, run

async def stubborn():
    lost = 0
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            lost += 1
            if lost > {loses}:
                raise

async def main(process):
    process.left = asyncio.create_task(stubborn())
    await asyncio.sleep(0)

sys.exit(run(ProcessOptions("watcher"), main))
"""


@pytest.mark.parametrize("loses", [1, 10**9])
def test_a_task_that_loses_its_cancellation_keeps_no_process_alive(loses: int) -> None:
    """Seen with a connection that was reconnecting: its service had said `stopped` and was there two hours later."""
    ended = subprocess.run(
        [sys.executable, "-c", LEFT.format(loses=loses)], capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 0
    assert msgspec.json.decode(ended.stderr.splitlines()[-1])["event"] == "stopped"


KEPT = """
import io, sys
import structlog
from tidewright.host.process.process import configure_logs

real, sys.stderr = sys.stderr, io.StringIO()
configure_logs("info", "json")
logger = structlog.get_logger()
logger.info("first")
sys.stderr.close()
sys.stderr = real
logger.info("second")
"""


def test_a_kept_logger_writes_where_standard_error_goes_by_then() -> None:
    ended = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, timeout=60, check=True)
    assert msgspec.json.decode(ended.stderr)["event"] == "second"


async def test_a_series_says_what_readyz_says() -> None:
    """By it somebody is woken up: while the log is away nothing else of a service changes."""
    health = Health("autoscaler")
    for not_ready, halted, ready in (("starting", "", 0), ("", "", 1), ("", "the log was made anew", 0)):
        health.not_ready, health.halted = not_ready, halted
        assert f"\ntidewright_ready {ready}.0\n" in (await health.exposition()).decode()


OVERHEARD = """
import asyncio, gc, logging, socket, sys
from tidewright.host.process.process import ProcessOptions, run

def failed(error):
    asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect()  # which is when Python says that nobody waited for it

async def waited_for_in_vain():
    raise socket.gaierror(-2, "of a task")

async def main(process):
    failed(socket.gaierror(-2, "Name or service not known"))
    failed(RuntimeError("of a library"))
    task = asyncio.create_task(waited_for_in_vain())
    await asyncio.sleep(0)
    del task
    gc.collect()
    logging.getLogger("library").warning("gone from %s\\nfor good", "nats://user:secret@nats:4222")
    logging.getLogger("library").info("of no interest")
    process.stop.set()

sys.exit(run(ProcessOptions("watcher"{options}), main))
"""


def test_what_libraries_say_is_lines_like_ours_and_a_name_looked_up_for_nobody_is_not_said() -> None:
    command = [sys.executable, "-c", OVERHEARD.format(options="")]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
    lines = [msgspec.json.decode(line) for line in ended.stderr.splitlines()]
    assert all(line["service"] == "watcher" for line in lines)
    said = [
        (line["level"], line["library"], line["event"].splitlines()) for line in lines if "library" in line
    ]
    assert [(level, library, event[0]) for level, library, event in said] == [
        ("error", "asyncio", "Future exception was never retrieved"),
        ("error", "asyncio", "Task exception was never retrieved"),
        ("warning", "library", "gone from nats://***@nats:4222"),
    ]
    assert "of a library" in said[0][2][1]
    assert "of a task" in said[1][2][1]


def test_below_the_level_that_was_asked_for_libraries_are_not_heard() -> None:
    command = [sys.executable, "-c", OVERHEARD.format(options=', log_level="error"')]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    lines = [msgspec.json.decode(line) for line in ended.stderr.splitlines()]
    assert [line["library"] for line in lines] == ["asyncio", "asyncio"]
