"""`python -m tests.chaos [--kills N] [--seed N ...] [--workloads N]`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import live, scripted
from tests.chaos.live import Ended
from tests.chaos.scenario import Scenario
from tests.chaos.scripted import Played, Script
from tests.chaos.verdict import Verdict, listed
from tidewright.host.process.process import configure_logs

START = 1_770_000_000.0
CALM_LOAD_S = 20.0
SPEED = 30.0
INTERVAL_S = 60.0
PER_NAMESPACE = 5
"""Workloads in a namespace."""
STEPS = 30
"""Of the script: each waits until everything is decided, answered and fired."""
SCRIPTED_NAMESPACES = 10
"""How many of the namespaces are in the script."""
SCRIPTED = 0.2
"""Share of the kills that come under scripted facts."""


@dataclass(frozen=True)
class Size:
    """How much of what, and how fast."""

    kills: int
    workloads: int
    every_s: float
    three: bool = False
    """Three servers keep the log under kills of anything."""

    @property
    def scripted_kills(self) -> int:
        return round(self.kills * SCRIPTED)

    @property
    def live_kills(self) -> int:
        return self.kills - self.scripted_kills

    def scenario(self, load_s: float) -> Scenario:
        """The same cluster, with a recorded load that takes so many wall seconds."""
        return Scenario(
            workloads=self.workloads,
            namespaces=max(2, self.workloads // PER_NAMESPACE),
            speed=SPEED,
            load_s=load_s,
            start=START,
            interval_s=INTERVAL_S,
        )


@dataclass
class Undisturbed:
    """What the runs of all seeds are held against."""

    calm: Ended
    script: Script
    still: Played


async def undisturbed(size: Size, folder: Path) -> Undisturbed:
    """Both halves without a kill."""
    scenario = size.scenario(CALM_LOAD_S)
    print(f"{size.workloads} workloads in {scenario.namespaces} namespaces", flush=True)
    calm = await live.run(scenario, folder / "calm", kills=0, seed=0, every_s=size.every_s)
    verdict = Verdict()
    verdict.say(
        f"undisturbed: {len(calm.ledger.decisions)} decisions in {calm.wall_s:.0f} s", *calm.told[-1:]
    )
    if calm.wrong:
        verdict.say(f"no fixed point: {len(calm.wrong)} objects are not where they have to be", *calm.wrong)
    verdict.tell()
    rest = {scenario.namespace(n) for n in range(SCRIPTED_NAMESPACES, scenario.namespaces)}
    script = scripted.script_of(calm.facts, STEPS, without=rest)
    (folder / "still").mkdir(parents=True)
    return Undisturbed(calm, script, await scripted.play(script, folder / "still", kills=0, seed=0))


async def disturbed(size: Size, folder: Path, seed: int, held: Undisturbed) -> Verdict:
    """Both halves under the kills of one seed, held against the undisturbed ones."""
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    verdict = Verdict()
    for what, half in (("the run", _of_anything), ("the run under scripted facts", _under_the_script)):
        try:
            await half(size, folder, seed, held, verdict)
        except TimeoutError as error:
            verdict.unfinished(what, error)
        verdict.tell()
    print(f"seed {seed} took {time.monotonic() - began:.0f} s: {verdict.total()}", flush=True)
    return verdict


async def _of_anything(size: Size, folder: Path, seed: int, held: Undisturbed, verdict: Verdict) -> None:
    """Kills of anything."""
    shaken = await live.run(
        size.scenario(max(CALM_LOAD_S, 1.1 * size.live_kills * size.every_s)),
        folder / f"shaken-{seed}",
        kills=size.live_kills,
        seed=seed,
        every_s=size.every_s,
        three=size.three,
    )
    verdict.kills += shaken.kills
    verdict.decisions += len(shaken.ledger.decisions)
    verdict.say(f"disturbed: {len(shaken.ledger.decisions)} decisions in {shaken.wall_s:.0f} s", *shaken.told)
    refusals = Counter({str(code): count for code, count in shaken.refusals.items()})
    verdict.say(f"the API server refused requests: {listed(refusals)}")
    verdict.recomputed(shaken.report)
    verdict.answered(shaken.ledger)
    verdict.written(shaken.effects)
    verdict.drained(shaken.drains, shaken.kills, shaken.amid)
    verdict.ended(held.calm, shaken)


async def _under_the_script(size: Size, folder: Path, seed: int, held: Undisturbed, verdict: Verdict) -> None:
    """Kills of deciders, actuator and nats-server under scripted facts."""
    played = folder / f"killed-{seed}"
    played.mkdir(parents=True)
    killed = await scripted.play(held.script, played, kills=size.scripted_kills, seed=seed)
    verdict.kills += killed.kills.total()
    verdict.decisions += len(killed.ledger.decisions)
    facts = sum(len(said) for _, said in held.script)
    verdict.say(f"under {facts} scripted facts in {len(held.script)} steps, killed: {listed(killed.kills)}")
    verdict.recomputed(killed.report)
    verdict.answered(killed.ledger)
    verdict.same(held.still, killed)


async def compare(size: Size, folder: Path, seeds: Sequence[int]) -> int:
    """Everything under kills of anything, and the deciders under scripted facts; the exit code."""
    held = await undisturbed(size, folder)
    total = Verdict(lost=len(held.calm.wrong))
    for seed in seeds:
        total.add(await disturbed(size, folder, seed, held))
    print(total.total())
    return 1 if total.lost or total.doubled else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Kill at random, then compare."
    )
    parser.add_argument(
        "--kills", type=int, default=40, help="%(default)s by default, a fifth of them under scripted facts"
    )
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one after the other")
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--every", type=float, default=2.5, help="mean wall seconds between two kills")
    parser.add_argument(
        "--nats", type=int, choices=[1, 3], default=1, help="servers that keep the log of the disturbed runs"
    )
    parser.add_argument("--keep", type=Path, help="keep what the runs leave in this folder")
    given = parser.parse_args()
    configure_logs("error", "console")
    with tempfile.TemporaryDirectory(prefix="tidewright-chaos-") as made:
        for variable, what in (("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
            os.environ[variable] = (
                f"{made}/{what}"  # nothing of the user's is found, and nothing left to them
            )
        folder = given.keep or Path(made)
        size = Size(given.kills, given.workloads, given.every, given.nats == 3)
        return asyncio.run(compare(size, folder, given.seed))


if __name__ == "__main__":
    sys.exit(main())
