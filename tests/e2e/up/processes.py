"""Services as processes of their own, started by the command line, and what they say."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.waiting import until

WITHIN_S = 10.0
"""What a service is given, as the issue says it. Kubernetes gives 30 s."""
SLACK_S = 50.0
"""For a machine that does much else."""


class Run:
    """A service's process, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.said += line.decode()

    async def until(self, *words: str) -> None:
        found = [*words]
        await until(
            lambda: self.said,
            lambda said: self.process.returncode is not None or any(word in said for word in found),
            what=f"{found} in what it says",
            within_s=90.0,
        )
        assert self.process.returncode is None, self.said

    async def read(self) -> None:
        """To the end of what it says."""
        await self._reading

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S + SLACK_S):
            code = await self.process.wait()
        await self._reading
        return code


MODULE = ("-m", "tidewright.cli.main")


@asynccontextmanager
async def started(*arguments: str, program: Sequence[str] = MODULE) -> AsyncIterator[Run]:
    """A process with these arguments; killed at the end, when it is there still."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Run(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
