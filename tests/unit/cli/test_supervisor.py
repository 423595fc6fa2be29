"""The supervisor, against trivial programs: restart, reasons, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tidewright.cli.supervisor import Backoff, CannotStart, Child, Program, Supervisor

WORKS = """
import json, os, sys, time
print(json.dumps({"event": "started", "pid": os.getpid()}), flush=True)
while True: time.sleep(60)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + WORKS
PARENT = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    "; print(p.pid, flush=True)" + WORKS
)
PROBED = """
import http.server, json, pathlib, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path(sys.argv[1]).exists() else 503)
        self.end_headers()
        self.wfile.write(b"waiting for a file\\n")
    def log_message(self, *_):
        print("asked", flush=True)
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(json.dumps({"event": "started", "health_port": server.server_port}), flush=True)
server.serve_forever()
"""


def program(name: str, source: str, *arguments: str, within_s: float = 90.0) -> Program:
    return Program(name, (sys.executable, "-c", source, *arguments), ready_within_s=within_s)


class Lines(list[tuple[str, str]]):
    """A sink that can be awaited."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.append((name, line))
        self._more.set()

    async def has(self, text: str, times: int = 1) -> None:
        async with asyncio.timeout(90):
            while sum(text in line for _, line in self) < times:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
async def supervisor(lines: Lines) -> AsyncIterator[Supervisor]:
    made = Supervisor(lines, backoff=Backoff(first_s=0.01), stop_within_s=1.0)
    yield made
    await made.stop()


def only(supervisor: Supervisor) -> Child:
    (child,) = supervisor.children()
    return child


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def gone(pid: int) -> None:
    """Wait until a process that is not ours to wait for has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=30)
    assert not alive(pid)


async def test_it_waits_until_a_program_says_that_it_has_started(supervisor: Supervisor) -> None:
    (fields,) = await supervisor.start(program("a", WORKS))
    assert fields["pid"] == only(supervisor).pid


async def test_a_program_with_a_probe_is_ready_when_the_probe_says_so(
    supervisor: Supervisor, lines: Lines, tmp_path: Path
) -> None:
    starting = asyncio.create_task(supervisor.start(program("a", PROBED, str(tmp_path / "ready"))))
    await lines.has("asked", times=2)
    assert not starting.done()
    assert only(supervisor).not_ready == "waiting for a file"
    (tmp_path / "ready").touch()
    await starting


async def test_a_killed_program_is_started_again(supervisor: Supervisor, lines: Lines) -> None:
    (fields,) = await supervisor.start(program("a", WORKS))
    os.kill(fields["pid"], signal.SIGKILL)
    await lines.has("started", times=2)
    assert only(supervisor).restarts == 1
    assert only(supervisor).pid not in (None, fields["pid"])


async def test_a_program_that_fails_after_it_was_ready_is_started_again(
    supervisor: Supervisor, lines: Lines
) -> None:
    await supervisor.start(
        program("a", 'import sys; print(\'{"event": "started"}\', flush=True); sys.exit(1)')
    )
    await lines.has("started", times=3)


def test_the_pause_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first_s=0.2, most_s=5.0)
    assert [backoff.pause(n) for n in (1, 2, 3, 6, 500)] == [0.2, 0.4, 0.8, 5.0, 5.0]


@pytest.mark.parametrize(
    ("source", "said", "code"),
    [
        ("import sys; print('error: port 4222 is in use'); sys.exit(69)", "port 4222 is in use", 69),
        (
            'import sys; print(\'{"level":"error","event":"cannot start","error":"no NATS"}\'); sys.exit(2)',
            "cannot start: no NATS",
            2,
        ),
        ("pass", "ended with exit code 0 and no word", 1),
    ],
)
async def test_a_program_that_ends_before_it_is_ready_cannot_start_and_the_reason_is_its_own(
    supervisor: Supervisor, source: str, said: str, code: int
) -> None:
    with pytest.raises(CannotStart, match=said) as caught:
        await supervisor.start(program("watcher", source))
    assert str(caught.value).startswith("watcher ")
    assert caught.value.exit_code == code


async def test_a_program_that_does_not_exist_cannot_start(supervisor: Supervisor) -> None:
    with pytest.raises(CannotStart, match=r"/no/such/program cannot be run"):
        await supervisor.start(Program("a", ("/no/such/program",)))


async def test_a_silent_program_cannot_start(supervisor: Supervisor) -> None:
    with pytest.raises(CannotStart, match=r"a was not ready within 0.2 s"):
        await supervisor.start(program("a", "import time; time.sleep(60)", within_s=0.2))


async def test_stopping_leaves_no_process_not_even_a_stubborn_one_or_a_grandchild(
    supervisor: Supervisor, lines: Lines
) -> None:
    fields = await supervisor.start(program("a", WORKS), program("b", STUBBORN), program("c", PARENT))
    grandchild = next(int(line) for name, line in lines if name == "c" and line.isdigit())
    pids = [f["pid"] for f in fields]
    await supervisor.stop()
    for pid in (*pids, grandchild):
        gone(pid)
    assert not list(supervisor.children())


async def test_stages_end_in_reverse(lines: Lines) -> None:
    supervisor = Supervisor(lines, stop_within_s=60.0)  # who has not said it by then is killed
    says = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))"
    await supervisor.start(program("first", says + WORKS))
    await supervisor.start(program("second", says + WORKS))
    await supervisor.stop()
    assert [name for name, line in lines if line == "bye"] == ["second", "first"]


HOST = """
import asyncio, sys
from tidewright.cli.supervisor import Program, Supervisor
async def main():
    supervisor = Supervisor(lambda name, line: print(line, flush=True))
    await supervisor.start(Program("a", (sys.executable, "-c", sys.argv[1])))
    print("up", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux does it")
async def test_a_supervisor_killed_with_9_leaves_no_process() -> None:
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, STUBBORN, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    async with asyncio.timeout(90):
        while (await host.stdout.readline()).strip() != b"up":
            pass
    (child,) = psutil.Process(host.pid).children(recursive=True)
    host.kill()
    await host.wait()
    gone(child.pid)


async def test_a_failure_of_the_supervisor_itself_is_not_silent(tmp_path: Path) -> None:
    def breaks(name: str, line: str) -> None:
        if line == "now":
            raise RuntimeError("the sink is broken")

    supervisor = Supervisor(breaks, stop_within_s=1.0)
    waits = "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint('now', flush=True)\n"
    source = WORKS.replace("while True:", f"{waits}while True:")
    await supervisor.start(program("a", source, str(tmp_path / "now")))
    (tmp_path / "now").touch()
    with pytest.raises(RuntimeError, match="the sink is broken"):
        async with asyncio.timeout(90):
            await supervisor.wait()
    await supervisor.stop()


async def test_a_failure_of_the_supervisor_before_a_program_is_ready_is_said_at_once() -> None:
    def breaks(name: str, line: str) -> None:
        raise RuntimeError("the sink is broken")

    supervisor = Supervisor(breaks, stop_within_s=1.0)
    with pytest.raises(CannotStart, match=r"a cannot be kept running: RuntimeError: the sink is broken"):
        await supervisor.start(program("a", WORKS))
    await supervisor.stop()
