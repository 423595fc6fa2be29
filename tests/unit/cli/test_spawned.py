"""A child that leads a group of its own, whichever loop starts it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest
import uvloop

from tidewright.cli import process

ASKED = "import os; print(os.getpgrp() == os.getpid(), flush=True); import time; time.sleep(600)"


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_leads_a_group_of_its_own_and_ends_when_it_is_stopped(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def started() -> tuple[bytes, int | None]:
        child = await process.spawn((sys.executable, "-c", ASKED), os.environ)
        assert child.stdout is not None
        try:
            async with asyncio.timeout(60):
                line = await child.stdout.readline()
        finally:
            await process.stop(child, 30.0)
        return line, child.returncode

    with asyncio.Runner(loop_factory=loop) as runner:
        line, code = runner.run(started())
    assert line.strip() == b"True"
    assert code == -15
