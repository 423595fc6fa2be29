"""What is killed, paused or made to fail, and when: all drawn from a seed.

A kill is `kill -9`. A pause (SIGSTOP, then SIGCONT) is what a cut network looks like from both
sides: the process hears nobody, nobody hears it, and then it goes on as if nothing had been.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidewright.cli.supervisor import Child

PAUSES_S = (0.5, 4.0)
"""The longer ones outlast a membership entry: the paused one comes back to slots that are another's."""

Act = Callable[[random.Random], Awaitable[str]]
"""Does one disturbance, and returns what it was."""


@dataclass
class Killer:
    """Kills on and on.

    Attributes:
        every_s: mean wall seconds between two kills; drawn between half and one and a half of it.
        weights: how often a program is chosen, by its name; 1 where nothing is said.
        kills, pauses, faults: what was done, by what it was done to.
    """

    children: Sequence[Child]
    seed: int
    every_s: float
    weights: Mapping[str, float] = field(default_factory=dict)
    pausable: frozenset[str] = frozenset()
    acts: Sequence[Act] = ()
    kills: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def run(self, count: int) -> None:
        """Kill `count` times; now and then pause something, or do one of the other acts, between."""
        draw = random.Random(self.seed)  # repeatable, not secret
        done = 0
        while done < count:
            await asyncio.sleep(self.every_s * draw.uniform(0.5, 1.5))
            if draw.random() < 0.25:
                await self._pause(draw)
            if self.acts and draw.random() < 0.5:
                self.faults[await draw.choice(self.acts)(draw)] += 1
            done += self._kill(draw)

    def _kill(self, draw: random.Random) -> int:
        weights = [self.weights.get(child.program.name, 1.0) for child in self.children]
        chosen = draw.choices(self.children, weights)[0]
        if (pid := chosen.pid) is None:
            return 0  # it is down at the moment
        os.kill(pid, signal.SIGKILL)
        self.kills[chosen.program.name] += 1
        return 1

    async def _pause(self, draw: random.Random) -> None:
        chosen = draw.choice([c for c in self.children if c.program.name in self.pausable] or [None])
        length = draw.uniform(*PAUSES_S)
        if chosen is None or (pid := chosen.pid) is None:
            return
        os.kill(pid, signal.SIGSTOP)
        self.pauses[chosen.program.name] += 1
        try:
            await asyncio.sleep(length)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def told(self) -> list[str]:
        """What was done, for people."""

        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"

        lines = [f"killed: {listed(self.kills)}", f"paused: {listed(self.pauses)}"]
        return [*lines, f"API server made to fail: {listed(self.faults)}"] if self.acts else lines
