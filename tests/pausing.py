"""A process that stands still, as over a disk that does not answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.waiting import until


async def pause(pid: int) -> None:
    """Stop a process, and return when all of it stands still: on a busy machine its threads run on for a while."""
    os.kill(pid, signal.SIGSTOP)
    await until(
        lambda: all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()), every_s=0.005
    )


def _state(task: Path) -> str:
    """One letter, behind the name in brackets."""
    return (task / "stat").read_text().rpartition(") ")[2][0]
