"""What is killed, paused or made to fail, and when: all drawn from a seed.

A kill is `kill -9`. A pause (SIGSTOP, then SIGCONT) leaves a process as it is while the world goes on,
clocks included. Cuts of the network (`network`) run beside both.
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

from tests.chaos.network import Cutter
from tidewright.cli.supervisor import Child

PAUSES_S = (0.5, 4.0)
"""The longer ones outlast a membership entry: the paused one comes back to slots that are another's."""

AIMED = 0.4
"""Share of kills that are aimed, where there is something to aim at."""

Act = Callable[[random.Random], Awaitable[str]]
"""Does one disturbance, and returns what it was."""


@dataclass
class Killer:
    """Kills on and on.

    Attributes:
        every_s: mean wall seconds between two kills; drawn between half and one and a half of it.
        weights: how often a program is chosen, by its name; 1 where nothing is said.
        cutter: cuts the network, where there is something to cut.
        aim: which programs are in the middle of what shall be interrupted; some kills wait for that a while.
        aimed: kills that met it so.
        kills, pauses, faults, cuts: what was done, by what it was done to.
    """

    children: Sequence[Child]
    seed: int
    every_s: float
    weights: Mapping[str, float] = field(default_factory=dict)
    pausable: frozenset[str] = frozenset()
    acts: Sequence[Act] = ()
    cutter: Cutter | None = None
    aim: Callable[[], Awaitable[frozenset[str]]] | None = None
    kills: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    aimed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)  # repeatable, not secret

    async def run(self, count: int) -> None:
        """Kill `count` times; now and then pause something, cut, or do one of the other acts, between.

        Returns when every cut is healed. A further run goes on with the same draws.
        """
        draw, done = self._draw, 0
        while done < count:
            await asyncio.sleep(self.every_s * draw.uniform(0.5, 1.5))
            if draw.random() < 0.25:
                await self._pause(draw)
            if self.acts and draw.random() < 0.5:
                self.faults[await draw.choice(self.acts)(draw)] += 1
            if self.cutter is not None and draw.random() < 0.5:
                self.cuts.update(self.cutter.cut(draw))
            at_work = await self.aim() if self.aim is not None and draw.random() < AIMED else frozenset()
            done += self._kill(draw, at_work)
        if self.cutter is not None:
            await self.cutter.healed()

    def _kill(self, draw: random.Random, at_work: frozenset[str]) -> int:
        children = [child for child in self.children if not at_work or child.program.name in at_work]
        weights = [self.weights.get(child.program.name, 1.0) for child in children]
        chosen = draw.choices(children, weights)[0]
        if (pid := chosen.pid) is None:
            return 0  # it is down at the moment
        os.kill(pid, signal.SIGKILL)
        self.kills[chosen.program.name] += 1
        self.aimed[chosen.program.name] += bool(at_work)
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

        lines = [f"killed: {listed(self.kills)}"]
        lines += [f"of these in the middle of a drain: {listed(+self.aimed)}"] if self.aim is not None else []
        lines.append(f"paused: {listed(self.pauses)}")
        lines += [f"cut: {listed(self.cuts)}"] if self.cutter is not None else []
        return [*lines, f"API server made to fail: {listed(self.faults)}"] if self.acts else lines
