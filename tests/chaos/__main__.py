"""`python -m tests.chaos [--kills N] [--seed N]`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import live, scripted
from tests.chaos.effects import Effects
from tests.chaos.findings import Ledger, differences
from tests.chaos.live import Ended
from tests.chaos.scenario import Scenario
from tests.chaos.scripted import Played, Script
from tidewright.host.process import configure_logs
from tidewright.host.verify import Report

START = 1_770_000_000.0
CALM_LOAD_S = 20.0
SPEED = 30.0
INTERVAL_S = 60.0
PER_NAMESPACE = 5
"""Workloads in a namespace."""
STEPS = 30
"""Of the script: each waits until everything is decided, answered and fired."""
EXAMPLES = 10
SCRIPTED_NAMESPACES = 10
"""How many of the namespaces are in the script."""
SCRIPTED = 0.2
"""Share of the kills that come under scripted facts."""


@dataclass
class Verdict:
    """Lines for people, and how many decisions are lost and doubled."""

    lines: list[str] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0
    kills: int = 0
    decisions: int = 0

    def add(self, other: Verdict) -> None:
        """Count another one in."""
        self.kills += other.kills
        self.decisions += other.decisions
        self.lost += other.lost
        self.doubled += other.doubled

    def total(self) -> str:
        return f"{self.kills} kills, {self.decisions} decisions, {self.lost} lost, {self.doubled} doubled"

    def say(self, line: str, *more: str) -> None:
        """A line, and a few examples under it."""
        self.lines += [line, *(f"  {one}" for one in more[:EXAMPLES])]

    def recomputed(self, report: Report) -> None:
        self.say(
            f"recomputed from the log: {report.decisions} decisions and {report.checkpoints} checkpoints, "
            f"{report.count} differ",
            *(f"{d.service} slot {d.slot} sequence {d.seq}: {d.cause}: {d.message}" for d in report.differences),
        )  # fmt: skip
        self.lost += report.count

    def answered(self, ledger: Ledger) -> None:
        kinds = Counter(type(found).__name__ for outcomes in ledger.outcomes.values() for found in outcomes)
        self.say(
            f"outcomes: {len(ledger.effects)} effects, {len(ledger.unanswered)} without an outcome, "
            f"{len(ledger.answered_twice)} with more than one, {len(ledger.stray)} outcomes of nothing; "
            f"{len(ledger.twice)} decisions twice on the log; {listed(kinds)}",
            *(f"no outcome: {id_} {type(ledger.decisions[id_]).__name__}" for id_ in ledger.unanswered),
            *(f"outcomes of {id_}: {ledger.outcomes[id_]}" for id_ in ledger.answered_twice),
            *(f"outcome of no decision: {id_}" for id_ in ledger.stray),
        )  # fmt: skip
        self.lost += len(ledger.unanswered)
        self.doubled += len(ledger.twice) + len(ledger.answered_twice) + len(ledger.stray)

    def written(self, effects: Effects) -> None:
        self.say(
            f"the API server's request log: {effects.writes.total()} writes ({listed(effects.writes)}) for "
            f"{effects.applied.total()} effects applied ({listed(effects.applied)}), "
            f"{len(effects.lost)} missing, {len(effects.doubled)} too many",
            *(f"missing: {place}" for place in effects.lost),
            *(f"too many: {place}" for place in effects.doubled),
        )
        self.say(f"the cloud: {effects.ordered} nodes ordered, {effects.machines} machines seen")
        self.lost += len(effects.lost)
        self.doubled += len(effects.doubled)

    def ended(self, calm: Ended, shaken: Ended) -> None:
        state = calm.state
        apart = differences("", shaken.state, state)
        self.say(
            f"the end beside an undisturbed run: {len(state['workloads'])} workloads' replicas, "
            f"{len(state['autoscalers'])} autoscalers' and {len(state['requests'])} requests' conditions, "
            f"{len(state['places'])} workloads' places and their spreads' status, {len(state['sets'])} shard sets' "
            f"conditions, the slots of {len(state['workers'])} workers, and the cloud's nodes: {len(apart)} differ",
            *apart,
        )
        if shaken.wrong:
            self.say(
                f"no fixed point: {len(shaken.wrong)} objects are not where they have to be", *shaken.wrong
            )
        self.lost += len(apart) or len(shaken.wrong)

    def same(self, still: Played, killed: Played) -> None:
        apart = [
            name
            for name in sorted(still.decisions.keys() | killed.decisions.keys())
            if still.decisions.get(name) != killed.decisions.get(name)
        ]
        self.say(
            f"the stream of decisions beside an undisturbed run: {len(killed.ledger.decisions)} decisions about "
            f"{len(still.decisions)} things, {len(apart)} differ",
            *(difference(name, still, killed) for name in apart),
        )
        self.lost += len(apart)


def difference(name: str, still: Played, killed: Played) -> str:
    """The first decision about a thing that is not the same in both runs."""
    one, other = still.decisions.get(name, []), killed.decisions.get(name, [])
    n = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other)))  # fmt: skip
    return f"{name}: {len(other)} decisions, undisturbed {len(one)}; number {n}: {other[n:n + 1]}, undisturbed {one[n:n + 1]}"  # fmt: skip


def listed(counts: Counter[str]) -> str:
    """Counts by name, for people."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


@dataclass(frozen=True)
class Size:
    """How much of what, and how fast."""

    kills: int
    workloads: int
    every_s: float

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
    print("\n".join(verdict.lines), flush=True)
    rest = {scenario.namespace(n) for n in range(SCRIPTED_NAMESPACES, scenario.namespaces)}
    script = scripted.script_of(calm.facts, STEPS, without=rest)
    (folder / "still").mkdir(parents=True)
    return Undisturbed(calm, script, await scripted.play(script, folder / "still", kills=0, seed=0))


async def disturbed(size: Size, folder: Path, seed: int, held: Undisturbed) -> Verdict:
    """Both halves under the kills of one seed, held against the undisturbed ones."""
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    verdict = Verdict()
    shaken = await live.run(
        size.scenario(max(CALM_LOAD_S, 1.1 * size.live_kills * size.every_s)),
        folder / f"shaken-{seed}",
        kills=size.live_kills,
        seed=seed,
        every_s=size.every_s,
    )
    verdict.say(f"disturbed: {len(shaken.ledger.decisions)} decisions in {shaken.wall_s:.0f} s", *shaken.told)
    refusals = Counter({str(code): count for code, count in shaken.refusals.items()})
    verdict.say(f"the API server refused requests: {listed(refusals)}")
    verdict.recomputed(shaken.report)
    verdict.answered(shaken.ledger)
    verdict.written(shaken.effects)
    verdict.ended(held.calm, shaken)
    print("\n".join(verdict.lines), flush=True)
    verdict.lines.clear()
    played = folder / f"killed-{seed}"
    played.mkdir(parents=True)
    killed = await scripted.play(held.script, played, kills=size.scripted_kills, seed=seed)
    facts = sum(len(said) for _, said in held.script)
    verdict.say(f"under {facts} scripted facts in {len(held.script)} steps, killed: {listed(killed.kills)}")
    verdict.recomputed(killed.report)
    verdict.answered(killed.ledger)
    verdict.same(held.still, killed)
    print("\n".join(verdict.lines))
    verdict.kills = shaken.kills + killed.kills.total()
    verdict.decisions = len(shaken.ledger.decisions) + len(killed.ledger.decisions)
    print(f"seed {seed} took {time.monotonic() - began:.0f} s: {verdict.total()}", flush=True)
    return verdict


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
    parser.add_argument("--keep", type=Path, help="keep what the runs leave in this folder")
    given = parser.parse_args()
    configure_logs("error", "console")
    with tempfile.TemporaryDirectory(prefix="tidewright-chaos-") as made:
        folder = given.keep or Path(made)
        size = Size(given.kills, given.workloads, given.every)
        return asyncio.run(compare(size, folder, given.seed))


if __name__ == "__main__":
    sys.exit(main())
