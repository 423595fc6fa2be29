"""`python -m tests.chaos [--kills N] [--seed N]`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos import live
from tests.chaos.findings import differences
from tests.chaos.live import Ended
from tests.chaos.scenario import Scenario
from tidewright.host.process import configure_logs

START = 1_770_000_000.0
CALM_LOAD_S = 15.0


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
            f"the end beside an undisturbed run: {len(calm.state['workloads'])} workloads' replicas and "
            f"{len(calm.state['autoscalers'])} autoscalers' conditions, {len(apart)} differ"
        ),
        *(f"  {line}" for line in apart[:10]),
    ]  # fmt: skip
    lost = report.count + len(ledger.unanswered) + len(effects.lost) + len(apart)
    doubled = len(ledger.twice) + len(ledger.answered_twice) + len(effects.doubled)
    return lines, lost, doubled


async def compare(folder: Path, *, kills: int, seed: int, workloads: int, every_s: float) -> int:
    namespaces = max(2, workloads // 6)

    def scenario(load_s: float) -> Scenario:
        return Scenario(workloads=workloads, namespaces=namespaces, speed=60.0, load_s=load_s, start=START)

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
    print("\n".join(lines))
    print(f"{shaken.kills} kills, {len(shaken.ledger.decisions)} decisions, {lost} lost, {doubled} doubled")
    return 1 if lost or doubled else 0


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
