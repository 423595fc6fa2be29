"""One child process that cannot outlive its parent.

Each child leads a process group of its own, so that Ctrl-C on the terminal reaches the supervisor
alone, and a stop reaches whatever the child has started. On Linux the kernel kills it when the
parent dies, however that happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

LINE_LIMIT_BYTES = 1 << 22
_PR_SET_PDEATHSIG = 1


async def spawn(command: Sequence[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start a child whose output and errors come through one pipe.

    Must be called from the main thread: the kernel ties the child to the thread that forked it.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=_leading(tether()),
        limit=LINE_LIMIT_BYTES,
    )


def _leading(further: Callable[[], None] | None) -> Callable[[], None]:
    """What a child does first: lead a group of its own. (Not by `process_group`, which the loop of services does not know.)"""

    def in_child() -> None:
        os.setpgid(0, 0)
        if further is not None:
            further()

    return in_child


def tether() -> Callable[[], None] | None:
    """What the child does before it becomes the program: ask to die with its parent."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: nothing may be imported after it
    parent = os.getpid()

    def in_child() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return in_child


def signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the child and all that it has started; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def stop(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """End a child: politely, and after `grace_s` seconds at once."""
    if process.returncode is None:
        signal_group(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()
    signal_group(process, signal.SIGKILL)
    await process.wait()


def ending(returncode: int) -> str:
    """How a process ended, for people."""
    if returncode < 0:
        try:
            return f"killed by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"killed by signal {-returncode}"
    return f"exit code {returncode}"
