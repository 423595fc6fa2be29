"""Work apart: at lowest priority, and not longer than whoever asked for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import psutil
import pytest

from tidewright.asking.errors import Unavailable
from tidewright.console.apart import LOWEST, Apart, Turns

ASKS = """
import asyncio, os, sys
from tidewright.console.apart import Apart

async def main():
    print(await Apart().run(os.getpid), flush=True)
    await asyncio.sleep(600)

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_it_is_done_at_lowest_priority_by_one_child() -> None:
    apart = Apart()
    try:
        first, second = await asyncio.gather(apart.run(os.getpid), apart.run(os.getpid))
        assert first == second != os.getpid()
        assert await apart.run(os.nice, 0) == LOWEST
        with pytest.raises(Unavailable):
            await apart.run(os._exit, 3)
        assert await apart.run(os.getpid) not in (first, os.getpid())
    finally:
        apart.close()


def test_it_ends_with_whoever_asked_even_when_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        child = psutil.Process(int(asking.stdout.readline()))
        asking.kill()
    gone, _ = psutil.wait_procs([child], timeout=60)
    assert gone == [child]


async def test_what_nobody_waits_for_makes_room_for_what_somebody_does() -> None:
    turns = Turns()
    apart = Apart(turns=turns)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
    try:
        with turns.background(child) as made_room:
            assert not made_room()
            await apart.run(os.getpid)
            assert await asyncio.wait_for(child.wait(), 60)
            assert made_room()
        await asyncio.wait_for(turns.free(), 60)
    finally:
        apart.close()
