"""`python -m tests.chaos.faults`: each fault of the log's servers and of the services, several times, measured.

Three nats-servers with synced writes, everything on three of them, every service twice, and the loads of the chaos run. No
process is started again but one that was killed on purpose: who ends otherwise is told. Of each round: how long nothing
was decided, seen and carried out, how soon after the fault's end something was, who was not ready and for how long,
and how much the noisiest process said. After each kind: lost, doubled, and everything recomputed from the log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp
import msgspec

from tests.chaos import live, shards, timeline
from tests.chaos.effects import effects, requests
from tests.chaos.findings import Ledger
from tests.chaos.network import START_S, Balanced
from tests.chaos.scenario import PEAK, VALLEY, Scenario, nodes_for
from tests.chaos.servers import COUNT, Servers
from tests.chaos.timeline import Came
from tests.waiting import until
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import DECIDERS, SERVICES, Role, Service
from tidewright.asking.verify import verified
from tidewright.cli.console import Printer
from tidewright.cli.stack import HOST, Stack, StackOptions
from tidewright.cli.supervisor import Backoff, Child, Program, Sink, Supervisor
from tidewright.events import registry
from tidewright.host.process.process import configure_logs
from tidewright.log.connection import Log
from tidewright.log.errors import LogError
from tidewright.log.install import Plan, install_log

CLUSTER, SLOTS = live.CLUSTER, live.SLOTS
SERVED = (
    "watcher", "actuator", "autoscaler", "provisioning", "spread", "shard-manager", "spread-admission", "shard-labels",
)  # fmt: skip
EACH = 2
SPEED, INTERVAL_S = 10.0, 10.0
PERIOD_S = 20.0
"""Wall seconds from one peak of the load to the next."""
LOAD_S = 3600.0
"""Wall seconds of load: longer than any run."""
START = 1_770_000_000.0
DOWN_S, PAUSED_S, QUORUM_S = 15.0, 15.0, 30.0
APART_S, APART_FOR_S = 30.0, 30.0
AFTER_S = 15.0
"""Wall seconds after a fault's end in which its effects are still looked for."""
READY_S = 90.0
ANSWERED_S = 10.0
"""Wall seconds in which every effect is answered while nothing is wrong."""
NEVER_S: Final = 1e6


@dataclass(frozen=True)
class Pace:
    """How fast the load goes, and for how long.

    Attributes:
        speed: log seconds per wall second.
        interval_s: log seconds between two samples of a metric.
        load_s: wall seconds that the load lasts.
        max_age_s: how long the log keeps a message, wall seconds; 0: for ever.
    """

    speed: float = SPEED
    interval_s: float = INTERVAL_S
    load_s: float = LOAD_S
    max_age_s: float = 0.0


PACE = Pace()


class Waves(Scenario):
    """The scenario under a load that goes up and down all the while, so that there is something to decide."""

    def traces(self, folder: Path) -> list[Path]:
        """Eight waves, one behind the other."""
        paths, step, patterns = [], self.interval_s, 8
        rows = int(self.load_s * self.speed / step)
        steps = int(PERIOD_S * self.speed / step)
        for pattern in range(patterns):
            lines = ["timestamp,value"]
            for row in range(rows):
                place = ((row + pattern * steps / patterns) % steps) / steps
                high = 2 * place if place < 0.5 else 2 - 2 * place
                lines.append(f"{self.start + row * step},{VALLEY + (PEAK - VALLEY) * high:.3f}")
            path = folder / f"wave-{pattern}.csv"
            path.write_text("\n".join(lines) + "\n")
            paths.append(path)
        return paths


@dataclass(frozen=True)
class ByHand(Backoff):
    """Nobody is started again but whom we ended."""

    ours: list[int] = field(default_factory=list)
    """An entry for each that is to come back."""

    def pause(self, crashes: int) -> float:
        return 0.2 if self.ours and self.ours.pop() else NEVER_S


class Twice(Stack):
    """Every service several times; an endpoint's replicas behind one address."""

    def __init__(self, options: StackOptions, sink: Sink) -> None:
        super().__init__(options, sink)
        self.hand = ByHand()
        self.supervisor = Supervisor(sink, backoff=self.hand, stop_within_s=5.0)
        self._numbers: Counter[str] = Counter()
        self._fronts: dict[str, Balanced] = {}

    async def stop(self) -> None:
        await super().stop()
        for front in self._fronts.values():
            await front.close()

    def _service(self, service: Service) -> Program:
        program = super()._service(service)
        self._numbers[service.name] += 1
        command = list(program.command)
        if service.role is Role.WATCHER:
            command[command.index("--health-port") + 1] = "0"
        if service.role is Role.ENDPOINT:
            front = self._fronts.setdefault(service.name, Balanced("API server", service.name))
            port = front.another()
            command[command.index("--port") + 1] = str(port)
            command += ["--url", f"https://{HOST}:{front.port}"]
        return replace(
            program,
            name=f"{service.name} {self._numbers[service.name]}",
            command=tuple(command),
            ready_within_s=START_S,
        )

    @property
    def children(self) -> list[Child]:
        """The services."""
        return [
            child for child in self.supervisor.children() if child.program.name.partition(" ")[0] in SERVED
        ]

    def of(self, service: str) -> list[Child]:
        return [child for child in self.children if child.program.name.partition(" ")[0] == service]

    def end(self, child: Child, which: signal.Signals = signal.SIGKILL) -> None:
        """End one, which comes back as a kubelet would have it."""
        if (pid := child.pid) is not None:
            self.hand.ours.append(1)
            os.kill(pid, which)


class Words:
    """What the services say, and how much of it is a warning or worse."""

    def __init__(self, under: Sink) -> None:
        self._under = under
        self.said: list[tuple[float, str, str]] = []
        self.ports: dict[str, int] = {}

    def __call__(self, name: str, line: str) -> None:
        self._under(name, line)
        if name.partition(" ")[0] not in SERVED:
            return
        try:
            fields = msgspec.json.decode(line)
        except msgspec.DecodeError:
            self.said.append((time.time(), name, line[:200]))
            return
        if fields.get("event") == "started":
            self.ports[name] = int(fields.get("health_port", 0))
        elif fields.get("level") in ("warning", "error", "critical"):
            self.said.append((time.time(), name, f"{fields['event']}: {fields.get('error', '')}"[:200]))

    def between(self, begin: float, end: float) -> Counter[str]:
        """How many warnings and errors each process said."""
        return Counter(name for at, name, _ in self.said if begin <= at <= end)


@dataclass
class Probed:
    """Readiness over time: at each look, who was not ready."""

    looks: list[tuple[float, frozenset[str]]] = field(default_factory=list)

    def after(self, moment: float) -> float | None:
        """How long after a moment everybody was ready for good; None: not by the last look."""
        ready = None
        for at, unready in self.looks:
            if at >= moment:
                ready = None if unready else (at - moment if ready is None else ready)
        return ready

    def most(self, begin: float, end: float) -> int:
        return max((len(unready) for at, unready in self.looks if begin <= at <= end), default=0)

    def unready_s(self, begin: float, end: float) -> float:
        """How long somebody was not ready."""
        looks = [(at, unready) for at, unready in self.looks if begin <= at <= end]
        return sum(b[0] - a[0] for a, b in pairwise(looks) if a[1])


@dataclass
class Round:
    """What one fault did."""

    kind: str
    decisions_s: float
    facts_s: float
    outcomes_s: float
    after_s: float | None
    meanwhile: int
    unready: int
    ready_after_s: float | None
    words: int
    dead: list[str]
    load: float

    def told(self) -> str:
        def of(value: float | None) -> str:
            return "never" if value is None else f"{value:.1f} s"

        return (
            f"{self.kind}: longest without decisions {of(self.decisions_s)}, facts {of(self.facts_s)}, outcomes "
            f"{of(self.outcomes_s)}; after the end {of(self.after_s)}; decided meanwhile {self.meanwhile}; not ready at "
            f"most {self.unready}, all ready {of(self.ready_after_s)} after; most said by one {self.words}; "
            f"ended: {', '.join(self.dead) or 'none'}; load {self.load:.1f}"
        )


@dataclass
class Trial:
    """Everything that a fault is done to."""

    servers: Servers
    stack: Twice
    words: Words
    probed: Probed
    log: Log
    asked: Path

    @property
    def dead(self) -> list[str]:
        return [child.program.name for child in self.stack.children if child.pid is None]


Fault: TypeAlias = Callable[[Trial], Awaitable[tuple[float, float]]]
"""Does it and undoes it; wall times at which it began and ended."""


async def calm(trial: Trial) -> tuple[float, float]:
    """Nothing: what the others are held against."""
    began = time.time()
    await asyncio.sleep(DOWN_S)
    return began, time.time()


async def leader_killed(trial: Trial) -> tuple[float, float]:
    """kill -9 of the server that leads the stream; started again after 15 s."""
    number = await trial.servers.leader(trial.log.stream)
    began = time.time()
    await trial.servers.kill(number)
    await asyncio.sleep(DOWN_S)
    await trial.servers.start(number)
    return began, time.time()


async def leader_paused(trial: Trial) -> tuple[float, float]:
    """SIGSTOP of the server that leads the stream for 15 s."""
    number = await trial.servers.leader(trial.log.stream)
    began = time.time()
    trial.servers.signal(number, signal.SIGSTOP)
    await asyncio.sleep(PAUSED_S)
    trial.servers.signal(number, signal.SIGCONT)
    return began, time.time()


async def quorum_lost(trial: Trial) -> tuple[float, float]:
    """kill -9 of the leader and of one other; both back after 30 s."""
    number = await trial.servers.leader(trial.log.stream)
    gone = (number, (number + 1) % 3)
    began = time.time()
    for one in gone:
        await trial.servers.kill(one)
    await asyncio.sleep(QUORUM_S)
    for one in gone:
        await trial.servers.start(one)
    return began, time.time()


async def _cut(trial: Trial, *, wholly: bool) -> tuple[float, float]:
    spaces = trial.servers.spaces
    assert spaces is not None
    number = await trial.servers.leader(trial.log.stream)
    began = time.time()
    await spaces.cut(number, wholly=wholly)
    await asyncio.sleep(DOWN_S)
    await spaces.cut(number, wholly=wholly, cut=False)
    return began, time.time()


async def leader_cut_from_servers(trial: Trial) -> tuple[float, float]:
    """The leader no longer reaches the other two for 15 s; clients still reach it."""
    return await _cut(trial, wholly=False)


async def leader_cut_from_all(trial: Trial) -> tuple[float, float]:
    """The leader reaches nobody for 15 s."""
    return await _cut(trial, wholly=True)


async def store_wiped(trial: Trial) -> tuple[float, float]:
    """kill -9 of a server, its store emptied, started again: it gets everything from the other two."""
    number = await trial.servers.leader(trial.log.stream)
    began = time.time()
    await trial.servers.kill(number)
    trial.servers.wipe(number)
    await asyncio.sleep(1.0)
    await trial.servers.start(number)
    ended = time.time()
    await trial.servers.in_sync()
    print(f"  refilled in {time.time() - ended:.1f} s", flush=True)
    return began, ended


async def servers_rolled(trial: Trial) -> tuple[float, float]:
    """Each server in turn: stopped in good order, started again, and everything in sync before the next."""
    began = time.time()
    for server in trial.servers.all:
        await trial.servers.stop(server.number)
        await trial.servers.start(server.number)
        await asyncio.sleep(1.0)
        await trial.servers.in_sync()
    return began, time.time()


async def services_rolled(trial: Trial) -> tuple[float, float]:
    """Each service's processes in turn: told to stop, back and ready before the next."""
    began = time.time()
    for child in trial.stack.children:
        await _rolled(trial, child)
    return began, time.time()


async def _rolled(trial: Trial, child: Child) -> None:
    """Tell one to stop; return when it is back and ready."""
    restarts = child.restarts
    trial.stack.end(child, signal.SIGTERM)
    await _back(trial, [(child, restarts)])


async def clocks_apart(trial: Trial) -> tuple[float, float]:
    """The clock of each service's second process goes 30 s ahead of all others', and is right again after 30 s."""
    ahead = {"LD_PRELOAD": str(_fake_clock()), "FAKETIME": f"+{APART_S:g}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}  # fmt: skip
    seconds = [child for child in trial.stack.children if child.program.name.endswith(f" {EACH}")]
    usual = {child: child.program for child in seconds}
    began = time.time()
    try:
        for child in seconds:
            child.program = replace(child.program, env={**child.program.env, **ahead})
            await _rolled(trial, child)
        await asyncio.sleep(APART_FOR_S)
    finally:
        for child, program in usual.items():
            child.program = program
    for child in seconds:
        await _rolled(trial, child)
    return began, time.time()


def _fake_clock() -> Path:
    """The library that gives a process another clock. Raises FileNotFoundError."""
    for folder in (Path("/usr/lib"), Path("/usr/local/lib"), Path("/usr/lib64")):
        for found in sorted(folder.glob("**/libfaketimeMT.so.1")):
            return found
    raise FileNotFoundError("libfaketimeMT.so.1: clocks that are apart need libfaketime")


def one_killed(service: str) -> Fault:
    async def fault(trial: Trial) -> tuple[float, float]:
        began = time.time()
        for child in trial.stack.of(service):  # one after the other: one of them is the active one
            restarts = child.restarts
            trial.stack.end(child)
            await _back(trial, [(child, restarts)])
            await asyncio.sleep(2.0)
        return began, time.time()

    fault.__doc__ = f"kill -9 of one {service}, and of the other when the first is back."
    return fault


def all_killed(service: str) -> Fault:
    async def fault(trial: Trial) -> tuple[float, float]:
        began = time.time()
        gone = [(child, child.restarts) for child in trial.stack.of(service)]
        for child, _ in gone:
            trial.stack.end(child)
        await _back(trial, gone)
        return began, time.time()

    fault.__doc__ = f"kill -9 of all {service}; they come back at once."
    return fault


async def disk_slow(trial: Trial) -> tuple[float, float]:
    """The leader's disk takes 200 ms for every fsync, for 15 s (`strace` delays the call)."""
    number = await trial.servers.leader(trial.log.stream)
    slow = await asyncio.create_subprocess_exec(
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=200ms",
        "-p", str(trial.servers.pid(number)),
    )  # fmt: skip
    began = time.time()
    try:
        await asyncio.sleep(DOWN_S)
    finally:
        slow.terminate()
        await slow.wait()
    return began, time.time()


async def _back(trial: Trial, gone: Iterable[tuple[Child, int]]) -> None:
    """Return when those that were ended run again and are ready. Raises AssertionError."""
    names = {child.program.name for child, _ in gone}
    await until(
        lambda: all(child.restarts > restarts and child.pid for child, restarts in gone), within_s=READY_S
    )
    since = time.time()
    await until(
        lambda: any(at > since and not names & unready for at, unready in trial.probed.looks[-3:]),
        within_s=READY_S,
    )


FAULTS: dict[str, Fault] = {
    "calm": calm,
    "leader-killed": leader_killed,
    "leader-paused": leader_paused,
    "leader-cut-from-servers": leader_cut_from_servers,
    "leader-cut-from-all": leader_cut_from_all,
    "quorum-lost": quorum_lost,
    "store-wiped": store_wiped,
    "servers-rolled": servers_rolled,
    "services-rolled": services_rolled,
    "clocks-apart": clocks_apart,
    "disk-slow": disk_slow,
    **{f"one-{service}-killed": one_killed(service) for service in SERVED},
    **{f"all-{service}-killed": all_killed(service) for service in SERVED},
}
CUTS = frozenset({"leader-cut-from-servers", "leader-cut-from-all"})


async def measured(trial: Trial, kind: str) -> Round:
    """One round of a fault."""
    await _all_ready(trial)
    _, before = await trial.log.bounds()
    dead = set(trial.dead)
    began, ended = await FAULTS[kind](trial)
    await asyncio.sleep(AFTER_S)
    await _all_ready(trial)
    await trial.servers.in_sync()
    end = time.time()
    came = await _came(trial.log, max(0, before - 50))
    last = min(end, ended + AFTER_S)
    said = trial.words.between(began, end)
    return Round(
        kind,
        timeline.longest(came, "decision", began, last),
        timeline.longest(came, "fact", began, last),
        timeline.longest(came, "outcome", began, last),
        timeline.first_after(came, "decision", ended),
        timeline.count(came, "decision", began + 1, ended),
        trial.probed.most(began, ended),
        trial.probed.after(ended),
        max(said.values(), default=0),
        sorted(set(trial.dead) - dead),
        os.getloadavg()[0],
    )


async def _came(log: Log, after: int) -> Sequence[Came]:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                return await timeline.since(log, after)
            except LogError:
                await asyncio.sleep(0.5)


async def _all_ready(trial: Trial) -> None:
    """Wait until everybody alive is ready; who does not become it is told."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        look = trial.probed.looks[-1][1] if trial.probed.looks else frozenset({"nobody was asked"})
        if not look - set(trial.dead):
            return
        await asyncio.sleep(0.2)
    print(f"  not ready after {READY_S:g} s: {', '.join(sorted(trial.probed.looks[-1][1]))}", flush=True)


async def _probe(stack: Twice, words: Words, probed: Probed) -> None:
    """Ask everybody twice a second whether it is ready, for ever."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1.0)) as session:

        async def unready(child: Child) -> str:
            name = child.program.name
            try:
                async with session.get(f"http://{HOST}:{words.ports[name]}/readyz") as answer:
                    return "" if child.pid is not None and answer.status == 200 else name
            except (OSError, TimeoutError, aiohttp.ClientError, KeyError):
                return name

        while True:
            found = await asyncio.gather(*map(unready, stack.children))
            probed.looks.append((time.time(), frozenset(filter(None, found))))
            await asyncio.sleep(0.5)


@asynccontextmanager
async def trial_of(folder: Path, workloads: int, *, spaces: bool, pace: Pace = PACE) -> AsyncIterator[Trial]:
    """Three servers, everything on them, and the loads."""
    scenario = Waves(workloads, max(2, workloads // 5), pace.speed, pace.load_s, START, pace.interval_s)
    asked, begins = folder / "requests.jsonl", time.time() + live.LEAD_S
    async with (
        Servers(folder / "servers", spaces=spaces) as servers,
        AsyncExitStack() as opened,
    ):
        log = await opened.enter_async_context(
            await Log.connect(servers.url, CLUSTER, name="chaos", timeout_s=5.0, patience_s=live.PATIENCE_S)
        )
        plan = Plan(slots=SLOTS, replicas=COUNT, max_age_s=pace.max_age_s, deciders=DECIDERS)
        await install_log(log, plan)
        options = StackOptions(
            data=folder / "data", fresh=True, cluster=CLUSTER, services=SERVED * EACH, slots=SLOTS, nats=servers.url,
            speed=pace.speed, log_start=START, clock_wall=begins,
            sim=(
                "--nodes", str(nodes_for(workloads)), "--node-cpu", "64", "--no-node-leases", "--request-log", str(asked),
                "--metrics", str(scenario.metrics(folder)),
            ),
            watcher=(
                "--metrics-interval", repr(pace.interval_s), "--cloud-interval", "30", "--config-map", "/".join(shards.CONFIG),
            ),
            stop_within_s=5.0, node_groups=scenario.cloud(folder),
        )  # fmt: skip
        with (folder / "services.log").open("w") as lines:
            words, probed = Words(Printer(lines, as_json=True)), Probed()
            stack = Twice(options, words)
            async with stack:
                probing = asyncio.create_task(_probe(stack, words, probed))
                try:
                    await live.create(stack, scenario)
                    async with live.turning(stack, scenario, 1), live.moved(stack, 1):
                        await log.adopt_slots()
                        yield Trial(servers, stack, words, probed, log, asked)
                finally:
                    probing.cancel()


@dataclass(frozen=True)
class Looked:
    """What is on the log at a moment, or was."""

    ledger: Ledger
    unanswered: frozenset[str]
    facts: Sequence[object]


async def _looked(log: Log) -> Looked:
    facts, ledger = await _facts(log), await live.read(log)
    return Looked(ledger, frozenset(ledger.unanswered), facts)


async def judged(trial: Trial, look: Callable[[], Awaitable[Looked]] | None = None) -> tuple[int, int, int]:
    """Lost, doubled, and decisions that differ from their recomputation, over the whole log.

    All goes on meanwhile. So what was written until now is held against what is decided a moment later, and what is
    answered then against what is written later still; an effect is unanswered when it is so on both looks.
    """
    look = look or partial(_looked, trial.log)
    until_now = requests(trial.asked)
    earlier = await look()
    await asyncio.sleep(ANSWERED_S)
    now = await look()
    ledger, later = now.ledger, requests(trial.asked)
    unanswered = earlier.unanswered & now.unanswered
    report = (
        await verified(RunningLog(trial.log), tuple(s for s in SERVICES if s.role is Role.DECIDER))
    ).report
    lost = [*unanswered, *effects(ledger, later, now.facts).lost]
    doubled = [*ledger.twice, *ledger.answered_twice, *effects(ledger, until_now, earlier.facts).doubled]
    print(
        f"  so far {len(ledger.decisions)} decisions, {len(lost)} lost, {len(doubled)} doubled; recomputed {report.decisions}, "
        f"{report.count} differ",
        flush=True,
    )
    for line in (*lost[:5], *doubled[:5], *(d.message for d in report.differences[:5])):
        print(f"    {line}", flush=True)
    return len(lost), len(doubled), report.count


async def _facts(log: Log) -> list[object]:
    """All facts on the log."""
    async with log.reader([f"{log.subjects.root}.fact.>"]) as reader:
        return [registry.decode(record.body) async for record in reader.until_current()]


async def run(
    folder: Path, kinds: Sequence[str], rounds: int, workloads: int, *, spaces: bool, pace: Pace = PACE
) -> int:
    """All of them; the exit code."""
    bad = 0
    async with trial_of(folder, workloads, spaces=spaces, pace=pace) as trial:
        await asyncio.sleep(live.LEAD_S)
        for kind in kinds:
            print(f"{kind}: {(FAULTS[kind].__doc__ or '').strip()}", flush=True)
            for _ in range(rounds):
                with contextlib.suppress(TimeoutError, AssertionError):
                    print(f"  {(await measured(trial, kind)).told()}", flush=True)
            bad += sum(await judged(trial))
        print(f"ended by themselves: {', '.join(trial.dead) or 'none'}")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.faults", description="Faults, one by one, measured."
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(FAULTS), default=[k for k in FAULTS if k not in CUTS]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", type=int, default=10)
    parser.add_argument(
        "--speed", type=float, default=SPEED, help="log seconds per wall second, %(default)g by default"
    )
    parser.add_argument("--spaces", action="store_true", help="network namespaces, for cuts; as root")
    parser.add_argument("--keep", type=Path, help="keep what the run leaves in this folder")
    given = parser.parse_args()
    if CUTS & set(given.only) and not given.spaces:
        parser.error(f"{', '.join(sorted(CUTS))} need --spaces")
    configure_logs("error", "console")
    with tempfile.TemporaryDirectory(prefix="tidewright-faults-") as made:
        return asyncio.run(
            run(
                given.keep or Path(made),
                given.only,
                given.rounds,
                given.workloads,
                spaces=given.spaces,
                pace=Pace(given.speed, min(INTERVAL_S, given.speed)),
            )
        )


if __name__ == "__main__":
    sys.exit(main())
