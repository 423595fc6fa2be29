"""`python -m tests.chaos [--kills N] [--seed N]`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos import live, scripted
from tests.chaos.findings import differences
from tests.chaos.live import Ended
from tests.chaos.scenario import Scenario
from tests.chaos.scripted import Played
from tidewright.host.process import configure_logs

START = 1_770_000_000.0
CALM_LOAD_S = 15.0
STEPS = 8
"""Of the script: each waits until everything is decided, answered and fired."""


def told(calm: Ended, shaken: Ended) -> tuple[list[str], int, int]:
    """Lines for people, and how many decisions are lost and doubled."""
    ledger, report, effects = shaken.ledger, shaken.report, shaken.effects
    apart = differences("", shaken.state, calm.state)
    lines = [
        *shaken.told,
        f"recomputed from the log: {report.decisions} decisions and {report.checkpoints} checkpoints, {report.count} differ",
        *(f"  {d.service} slot {d.slot} sequence {d.seq}: {d.cause}: {d.message}" for d in report.differences[:5]),
        (
            f"outcomes: {len(ledger.effects)} effects, {len(ledger.unanswered)} without an outcome, "
            f"{len(ledger.answered_twice)} with more than one; {len(ledger.twice)} decisions twice on the log"
        ),
        *(f"  no outcome: {id_} {type(ledger.decisions[id_]).__name__}" for id_ in ledger.unanswered[:5]),
        *(f"  outcomes of {id_}: {ledger.outcomes[id_]}" for id_ in ledger.answered_twice[:5]),
        (
            f"the API server's request log: {effects.writes} scale writes for {effects.applied} applied scale decisions, "
            f"{len(effects.lost)} missing, {len(effects.doubled)} too many"
        ),
        *(f"  missing at {name}" for name in effects.lost[:5]),
        *(f"  too many at {name}" for name in effects.doubled[:5]),
        (
            f"the end beside an undisturbed run: {len(calm.state['workloads'])} workloads' replicas, "
            f"{len(calm.state['autoscalers'])} autoscalers' and {len(calm.state['requests'])} requests' conditions, "
            f"{len(calm.state['places'])} workloads' places and their spreads' status, and the cloud's nodes: {len(apart)} differ"
        ),
        *(f"  {line}" for line in apart[:10]),
    ]  # fmt: skip
    lost = report.count + len(ledger.unanswered) + len(effects.lost) + len(apart)
    doubled = len(ledger.twice) + len(ledger.answered_twice) + len(effects.doubled)
    return lines, lost, doubled


async def compare(folder: Path, *, kills: int, seed: int, workloads: int, every_s: float) -> int:
    namespaces = max(2, workloads // 6)

    def scenario(load_s: float) -> Scenario:
        return Scenario(
            workloads=workloads,
            namespaces=namespaces,
            speed=60.0,
            load_s=load_s,
            start=START,
        )

    calm = await live.run(scenario(CALM_LOAD_S), folder / "calm", kills=0, seed=seed, every_s=every_s)
    print(f"undisturbed: {len(calm.ledger.decisions)} decisions in {calm.wall_s:.0f} s", flush=True)
    shaken = await live.run(
        scenario(max(CALM_LOAD_S, 1.1 * kills * every_s)),
        folder / "shaken",
        kills=kills,
        seed=seed,
        every_s=every_s,
    )
    lines, lost, doubled = told(calm, shaken)
    print("\n".join(lines), flush=True)
    script = scripted.script_of(calm.facts)
    script = script[:: max(1, len(script) // STEPS)][:STEPS]
    for name in ("still", "killed"):
        (folder / name).mkdir(parents=True)
    still = await scripted.play(script, folder / "still", kills=0, seed=seed)
    killed = await scripted.play(script, folder / "killed", kills=min(kills, 2 * STEPS), seed=seed)
    lines, more_lost, more_doubled = told_scripted(still, killed)
    print("\n".join(lines))
    count = len(shaken.ledger.decisions) + len(killed.ledger.decisions)
    lost, doubled = lost + more_lost, doubled + more_doubled
    print(f"{shaken.kills + killed.kills.total()} kills, {count} decisions, {lost} lost, {doubled} doubled")
    return 1 if lost or doubled else 0


def told_scripted(still: Played, killed: Played) -> tuple[list[str], int, int]:
    """The same for the run under scripted facts."""
    apart = [
        name
        for name in sorted(still.decisions.keys() | killed.decisions.keys())
        if still.decisions.get(name) != killed.decisions.get(name)
    ]
    ledger = killed.ledger
    lines = [
        "under scripted facts, killed: " + ", ".join(f"{n} {name}" for name, n in sorted(killed.kills.items())),
        (
            f"the stream of decisions beside an undisturbed run: {len(ledger.decisions)} decisions about "
            f"{len(still.decisions)} things, {len(apart)} differ"
        ),
        *(f"  {name}: {len(killed.decisions.get(name, []))} decisions, undisturbed {len(still.decisions.get(name, []))}" for name in apart[:5]),
        f"outcomes: {len(ledger.effects)} effects, {len(ledger.unanswered)} without one, {len(ledger.answered_twice)} with more than one",
    ]  # fmt: skip
    return lines, len(apart) + len(ledger.unanswered), len(ledger.twice) + len(ledger.answered_twice)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Kill at random, then compare."
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--every", type=float, default=2.5, help="mean wall seconds between two kills")
    parser.add_argument("--keep", type=Path, help="keep what the runs leave in this folder")
    given = parser.parse_args()
    configure_logs("error", "console")
    with tempfile.TemporaryDirectory(prefix="tidewright-chaos-") as made:
        folder = given.keep or Path(made)
        return asyncio.run(
            compare(
                folder, kills=given.kills, seed=given.seed, workloads=given.workloads, every_s=given.every
            )
        )


if __name__ == "__main__":
    sys.exit(main())
