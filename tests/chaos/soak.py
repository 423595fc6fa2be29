"""`python -m tests.chaos.soak`: mixed load for hours on three servers with a kill every half minute, and what everybody takes.

As under `faults`: three nats-servers with synced writes, every service twice, the embedded cluster, a load that goes up
and down, nodes that come and go, fleets that are rolled, all in compressed time. Anything is killed (`kill -9`), one at a
time; from half time on one replica of each service, one server and the cluster are left alone, so that something lives
long enough to grow. Memory and disk of every process are written down all the while. The log keeps a message for a part
of the run, since what keeps everything grows.

At the end: whether each process took no more in the last quarter than in the one before; lost and doubled over the whole
run; what is still on the log against its recomputation; who ended by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.chaos import faults, growth
from tests.chaos.faults import Looked, Pace, Trial
from tests.chaos.findings import Ledger
from tests.chaos.growth import Followed, Grown
from tidewright.events import registry
from tidewright.events.provisioning import NodeGroupObserved
from tidewright.host.process.process import configure_logs
from tidewright.log.errors import LogError
from tidewright.log.install import Plan, install_log

SPEED, INTERVAL_S = 20.0, 20.0
LOOK_S = 5.0
"""Wall seconds between two looks at the processes."""
READ_S = 10.0
"""Wall seconds between two reads of what came onto the log."""
DOWN_S = 5.0
"""How long a killed server is away, wall seconds."""
KEPT = 6
"""The log keeps a message for a part of the run: one in so many."""
KEPT_S = (300.0, 600.0)
"""And for so long at least and at most, wall seconds: what is not carried out before it is forgotten never is."""
TOLD_S = 60.0
CALM_S = 30.0
"""Wall seconds after the last kill, before anything is judged."""


@dataclass
class LogSoFar:
    """What was on the log, also of what it has forgotten since.

    Attributes:
        missed: messages that were forgotten before they were read.
    """

    trial: Trial
    ledger: Ledger = field(default_factory=Ledger)
    facts: list[object] = field(default_factory=list)
    position: int = 0
    missed: int = 0

    async def catch_up(self) -> Looked:
        """Read what came since. Raises LogError: call again."""
        log = self.trial.log
        first, _ = await log.bounds()
        self.missed += max(0, first - self.position - 1)
        async with log.reader([log.subjects.everything], after=self.position) as reader:
            async for record in reader.until_current():
                self.ledger.take(record)
                if f"{log.subjects.root}.fact." in record.subject:
                    fact = registry.decode(record.body)
                    if isinstance(fact, NodeGroupObserved):
                        self.facts.append(fact)
                self.position = record.seq
        return Looked(self.ledger, frozenset(self.ledger.unanswered), list(self.facts))

    async def keep_up(self) -> None:
        """Read on, for ever."""
        while True:
            with contextlib.suppress(LogError):
                await self.catch_up()
            await asyncio.sleep(READ_S)


@dataclass
class Killings:
    """Kills one at a time, with the same time between any two.

    Attributes:
        spared: names of those that are left alone.
        done: by name, seconds after the beginning at which it was killed.
    """

    trial: Trial
    draw: random.Random
    since: Callable[[], float]
    spared: frozenset[str] = frozenset()
    done: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def count(self) -> int:
        return sum(map(len, self.done.values()))

    async def run(self, every_s: float, until_s: float) -> None:
        """Kill every so many seconds, until so many seconds after the beginning."""
        due = self.since() + every_s
        while due < until_s:
            await asyncio.sleep(max(0.0, due - self.since()))
            await self._kill()
            due += every_s

    async def _kill(self) -> None:
        servers = {server.name: server.number for server in self.trial.servers.all}
        children = {child.program.name: child for child in self.trial.stack.supervisor.children()}
        running = [name for name, child in children.items() if child.pid is not None]
        name = self.draw.choice(sorted({*servers, *running} - self.spared))
        self.done[name].append(self.since())
        if name in servers:
            await self.trial.servers.kill(servers[name])
            await asyncio.sleep(DOWN_S)
            await self.trial.servers.start(servers[name])
        else:
            self.trial.stack.end(children[name], signal.SIGKILL)


SPARED = frozenset({*(f"{service} 2" for service in faults.SERVED), "nats-2", "cluster"})
"""Who is left alone from half time on."""


class Ended(msgspec.Struct):
    """What a run came to."""

    minutes: float
    speed: float
    kept_s: float
    kills: dict[str, list[float]]
    decisions: int
    lost: int
    doubled: int
    differ: int
    missed: int
    dead: list[str]
    grown: list[Grown]

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.differ or self.missed or self.dead) and all(
            one.flat for one in self.grown
        )


async def run(folder: Path, workloads: int, *, minutes: float, every_s: float, seed: int) -> Ended:
    """One run; tables and pictures are left in the folder."""
    wall_s = 60 * minutes
    least_s, most_s = KEPT_S
    kept_s = max(least_s, min(most_s, wall_s / KEPT))
    pace = Pace(speed=SPEED, interval_s=INTERVAL_S, load_s=wall_s + 600.0, max_age_s=kept_s)
    with (folder / "growth.csv").open("w", newline="") as file:
        table = growth.Table(file)
        async with faults.trial_of(folder / "run", workloads, spaces=False, pace=pace) as trial:
            began = time.monotonic()
            since = _clock(began)
            so_far = LogSoFar(trial)
            killings = Killings(trial, random.Random(seed), since)  # repeatable, not secret
            beside = [
                asyncio.create_task(_looking(trial, table, since), name="look"),
                asyncio.create_task(so_far.keep_up(), name="read"),
                asyncio.create_task(_telling(table, killings, so_far, since), name="tell"),
            ]
            try:
                await killings.run(every_s, wall_s / 2)
                killings.spared = SPARED
                await killings.run(every_s, wall_s - CALM_S)
                await asyncio.sleep(max(0.0, wall_s - since()))
                end_s = since()
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.wait(beside)
            (folder / "growth.svg").write_text(growth.drawn(table.samples, killings.done, end_s))
            await install_log(trial.log, Plan(max_age_s=0.0))  # nothing goes while it is recomputed
            lost, doubled, differ = await faults.judged(trial, so_far.catch_up)
            ended = Ended(
                end_s / 60, SPEED, kept_s, dict(killings.done), len(so_far.ledger.decisions), lost, doubled, differ, so_far.missed,
                trial.dead, growth.judged(table.samples, end_s),
            )  # fmt: skip
    (folder / "soak.json").write_bytes(msgspec.json.format(msgspec.json.encode(ended)))
    return ended


def _clock(began: float) -> Callable[[], float]:
    return lambda: time.monotonic() - began


async def _looking(trial: Trial, table: growth.Table, since: Callable[[], float]) -> None:
    """Look at all processes, again and again."""
    while True:
        servers = [
            Followed(server.name, pid, server.store)
            for server in trial.servers.all
            if (pid := trial.servers.pid(server.number))
        ]
        data = trial.stack.folder.path
        programs = [
            Followed(child.program.name, child.pid, data / "cluster" if child.program.name == "cluster" else None)
            for child in trial.stack.supervisor.children()
            if child.pid is not None
        ]  # fmt: skip
        table.add(await asyncio.to_thread(growth.look, since(), [*servers, *programs]))
        await asyncio.sleep(LOOK_S)


async def _telling(
    table: growth.Table, killings: Killings, so_far: LogSoFar, since: Callable[[], float]
) -> None:
    """A line a minute."""
    while True:
        await asyncio.sleep(TOLD_S)
        last = {sample.name: sample for sample in table.samples[-100:]}
        most = sorted(last.values(), key=lambda sample: -sample.memory)[:4]
        disk = sum(sample.disk for sample in last.values())
        print(
            f"{since() / 60:.0f} min: {killings.count} kills, {len(so_far.ledger.decisions)} decisions; "
            + ", ".join(f"{sample.name} {sample.memory >> 20} MiB" for sample in most)
            + f"; disk {disk >> 20} MiB",
            flush=True,
        )


def told(ended: Ended) -> str:
    """The end of a run in words."""
    kills = sum(map(len, ended.kills.values()))
    grown = [one.told() for one in ended.grown]
    return "\n".join(
        [
            *grown,
            f"ended by themselves: {', '.join(ended.dead) or 'none'}; forgotten before it was read: {ended.missed}",
            (
                f"{ended.minutes:.0f} min at {ended.speed:g} times real speed, {kills} kills, {ended.decisions} decisions, "
                f"{ended.lost} lost, {ended.doubled} doubled, {ended.differ} differ, "
                f"{sum(not one.flat for one in ended.grown)} of {len(grown)} grow"
            ),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.soak", description="Hours of load under kills: does anything grow?"
    )
    parser.add_argument("--minutes", type=float, default=120.0, help="%(default)g by default")
    parser.add_argument(
        "--every", type=float, default=30.0, help="wall seconds between two kills, %(default)g by default"
    )
    parser.add_argument("--workloads", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave growth.csv, growth.svg and soak.json in this folder, and the run's own files")  # fmt: skip
    given = parser.parse_args()
    configure_logs("error", "console")
    with tempfile.TemporaryDirectory(prefix="tidewright-soak-") as made:
        if given.keep is not None:
            given.keep.mkdir(parents=True, exist_ok=True)
        ended = asyncio.run(
            run(
                given.keep or Path(made),
                given.workloads,
                minutes=given.minutes,
                every_s=given.every,
                seed=given.seed,
            )
        )
    print(told(ended))
    return 0 if ended.good else 1


if __name__ == "__main__":
    sys.exit(main())
