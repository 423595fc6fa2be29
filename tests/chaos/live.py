"""The whole of Tidewright, every service and server an OS process, while they are killed.

Compared with an undisturbed run of the same scenario: replicas, conditions, placements and the cloud's
nodes at the end, which is a fixed point. Checked for itself: every decision against its recomputation
from the log, one outcome for each effect, and the effects in the API server's own request log.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.chaos import drains, moving, shards
from tests.chaos.drains import Drains
from tests.chaos.effects import OURS, Effects, effects, refusals, requests
from tests.chaos.findings import Ledger
from tests.chaos.killer import Killer
from tests.chaos.network import Cutter, Linked
from tests.chaos.scenario import FINAL, VALLEY, Scenario, nodes_for
from tests.chaos.servers import COUNT, Servers
from tests.chaos.state import SPREADS, final_state, off_the_plateau, off_the_valley, unsettled
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import DECIDERS, SERVICES, Role
from tidewright.asking.verify import verified
from tidewright.cli.console import Printer
from tidewright.cli.stack import Stack, StackOptions
from tidewright.cli.supervisor import Backoff, Fields, Program, Supervisor
from tidewright.events import registry
from tidewright.events.decisions import SetTimer
from tidewright.host.fold.verify import Report
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log
from tidewright.log.errors import LogUnavailable
from tidewright.log.install import Plan, install_log
from tidewright.sim.api.http.request_log import Entry

CLUSTER = "chaos"
SLOTS = 8
RUNNING = (
    "watcher",
    "autoscaler",
    "autoscaler",
    "spread",
    "provisioning",
    "shard-manager",
    "actuator",
    "actuator",
    "spread-admission",
    "shard-labels",
)
"""Some twice, so that a killed one's work is taken over and not only taken up again."""
WEBHOOK = "tidewright-spread"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LEAD_S = 10.0
"""Wall seconds in which everything comes up before the load begins."""
QUIET_S = 2.0
PATIENCE_S = 180.0
MERGE_PATCH = "application/merge-patch+json"
TURN_S = 3.0
"""Mean wall seconds between two changes of what the shard manager is asked for."""
MOVE_S = 6.0
"""Mean wall seconds between two changes of the loads that come and go."""
DRAINING_WITHIN_S = 10.0
"""Wall seconds that a kill waits for a node that is being drained."""
BACK_S = 30.0
"""Wall seconds after which no node carries our mark without being drained, when everything is back."""
LAST_KILLS = 0.25
"""Share of the kills that come while the end is reached."""


class Phases:
    """How long each part of a run took, in wall seconds."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._took: list[str] = []

    def ended(self, name: str) -> None:
        """The part of this name is over."""
        now = time.monotonic()
        self._took.append(f"{name} {now - self._since:.0f} s")
        self._since = now

    def told(self) -> str:
        return "took: " + ", ".join(self._took)


@dataclass
class Ended:
    """What a run left behind."""

    state: dict[str, Any]
    ledger: Ledger
    report: Report
    effects: Effects
    drains: Drains
    kills: int = 0
    amid: int = 0
    """Kills that met a drain."""
    told: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    """What was not where it has to be at the end, after a long wait."""
    refusals: Counter[int] = field(default_factory=Counter)
    """How often the API server refused, by code."""
    facts: list[tuple[str, bytes]] = field(default_factory=list)
    """Subjects and bodies of facts and configuration, in the order of the log."""


async def run(
    scenario: Scenario,
    folder: Path,
    *,
    kills: int,
    seed: int,
    every_s: float,
    lead_s: float = LEAD_S,
    three: bool = False,
) -> Ended:
    """One run; with `kills` 0 an undisturbed one. `three`: three servers keep the log, not the stack's one.

    Raises:
        TimeoutError: it never settled; the message says what was missing.
    """
    began, begins, phases = time.monotonic(), time.time() + lead_s, Phases()
    asked = folder / "requests.jsonl"
    servers = Servers(folder / "servers") if three else None
    options = StackOptions(
        data=folder / "data", fresh=True, max_age_s=0.0, cluster=CLUSTER, services=RUNNING, slots=SLOTS,
        speed=scenario.speed, log_start=scenario.start, clock_wall=begins,
        sim=(
            "--nodes", str(nodes_for(scenario.workloads)), "--node-cpu", "64", "--no-node-leases", "--request-log", str(asked),
            "--metrics", str(scenario.metrics(folder)),
        ),
        watcher=(
            "--metrics-interval", repr(scenario.interval_s), "--cloud-interval", "30",
            "--config-map", "/".join(shards.CONFIG),
        ),
        stop_within_s=5.0, node_groups=scenario.cloud(folder), nats=servers.url if servers is not None else None,
    )  # fmt: skip
    with (folder / "services.log").open("w") as lines:
        sink = Printer(lines, as_json=True)
        stack = Linked(options, sink)
        stack.supervisor = Supervisor(sink, backoff=Backoff(most_s=1.0, healthy_s=5.0), stop_within_s=5.0)
        async with _up(stack, servers):
            phases.ended("start")
            await create(stack, scenario)
            phases.ended("creation")
            killer = _killer(stack, seed, every_s)
            last = round(kills * LAST_KILLS)
            async with turning(stack, scenario, seed), moved(stack, seed):
                await killer.run(kills - last)
            await _faults(stack, "DELETE", b"")
            await asyncio.sleep(max(0.0, begins + scenario.load_s - time.time()))
            phases.ended("recorded load")
            await _reached(stack, lambda state: off_the_plateau(state, scenario))
            phases.ended("plateau")
            await _load(stack, scenario, VALLEY)
            await _reached(stack, lambda state: off_the_valley(state, scenario))
            phases.ended("valley")
            await _load(stack, scenario, FINAL)
            for path, patch in (*scenario.shards.last(), moving.last()):
                await _changed(stack, path, patch)
            await killer.run(last)
            await _faults(stack, "DELETE", b"")
            phases.ended("last kills")
            async with await _connected(stack.nats_url) as log:
                await log.adopt_slots()
                stray = await _stray(stack, log)
                wrong = await _settled(stack, log, scenario)
                phases.ended("fixed point")
                ledger, entries = await _together(log, asked)
                async with _kube(stack) as kube:
                    state = await final_state(kube)
                source = RunningLog(log)
                facts = [record async for record in _said(log)]
                decoded = [registry.decode(body) for _, body in facts]
                untold = await drains.untold(source, ledger, decoded)
                report = (await verified(source, tuple(s for s in SERVICES if s.role is Role.DECIDER))).report
                phases.ended("verification")
    found = effects(ledger, entries, decoded)
    drained = drains.drains(ledger, entries)
    drained.untold, drained.stray = untold, stray
    return Ended(
        state, ledger, report, found, drained, killer.kills.total(), killer.aimed.total(), [*killer.told(), phases.told()], time.monotonic() - began, wrong,
        refusals(entries), facts,
    )  # fmt: skip


@asynccontextmanager
async def _up(stack: Linked, servers: Servers | None) -> AsyncIterator[None]:
    """The stack, on its own server or on three that are kept running beside its programs."""
    try:
        if servers is not None:
            await stack.supervisor.start(
                *(Program(server.name, server.command, started=_listens) for server in servers.all)
            )
            await servers.formed()
            async with await _connected(servers.url) as log:
                await install_log(log, Plan(slots=SLOTS, replicas=COUNT, deciders=DECIDERS))
        async with stack:
            yield
    finally:
        await stack.supervisor.stop()


def _listens(line: str) -> Fields | None:
    return {} if "Server is ready" in line else None


@asynccontextmanager
async def turning(stack: Stack, scenario: Scenario, seed: int) -> AsyncIterator[None]:
    """Ask something else of the shard manager, again and again."""

    async def turn() -> None:
        draw = random.Random(seed)  # repeatable, not secret
        while True:
            await asyncio.sleep(TURN_S * draw.uniform(0.5, 1.5))
            await _changed(stack, *scenario.shards.change(draw))

    turning = asyncio.create_task(turn())
    try:
        yield
    finally:
        turning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turning


@asynccontextmanager
async def moved(stack: Stack, seed: int) -> AsyncIterator[None]:
    """Let loads come and go, again and again."""

    async def move() -> None:
        draw = random.Random(seed)  # repeatable, not secret
        while True:
            await asyncio.sleep(MOVE_S * draw.uniform(0.5, 1.5))
            await _changed(stack, *moving.change(draw))

    moves = asyncio.create_task(move())
    try:
        yield
    finally:
        moves.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await moves


async def _changed(stack: Stack, path: str, patch: dict[str, Any]) -> None:
    """Make a change, whatever happens to the API server meanwhile.

    Raises:
        TimeoutError: it did not answer for long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with _kube(stack) as kube:
                body = msgspec.json.encode(patch)
                await kube.request(
                    "PATCH", f"{path}?{OURS}", body=body, content_type=MERGE_PATCH, timeout_s=5.0
                )
                return
        except (KubeError, OSError, TimeoutError) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"cannot change {path}: {error}") from error
        await asyncio.sleep(0.2)


def _killer(stack: Linked, seed: int, every_s: float) -> Killer:
    async def fail_some(draw: random.Random) -> str:
        status = draw.choice((500, 429, 409, 503))
        count = draw.randint(5, 40)
        match = {"verbs": ["PUT", "PATCH", "POST"] if status == 409 else [], "user_agent": "(?i)tidewright"}
        rule = {"match": match, "action": {"status": status}, "probability": 0.5, "seed": draw.randrange(1000), "count": count}  # fmt: skip
        return f"{status}" if await _faults(stack, "POST", msgspec.json.encode(rule)) else "unreachable"

    async def drop_watches(draw: random.Random) -> str:
        rule = {"match": {"verbs": ["WATCH"]}, "action": {"drop_watches": True}, "count": 0}
        return "dropped watches" if await _faults(stack, "POST", msgspec.json.encode(rule)) else "unreachable"

    async def expire_watches(draw: random.Random) -> str:
        gone = {"match": {"verbs": ["WATCH"]}, "action": {"status": 410}, "count": draw.randint(1, 6)}
        await _faults(stack, "POST", msgspec.json.encode(gone))
        return "410 " + await drop_watches(draw)

    async def drop_answers(draw: random.Random) -> str:
        rule = {"action": {"drop": True}, "probability": 0.5, "seed": draw.randrange(1000), "count": draw.randint(1, 10)}  # fmt: skip
        return "cut connections" if await _faults(stack, "POST", msgspec.json.encode(rule)) else "unreachable"

    async def draining() -> frozenset[str]:
        deadline = time.monotonic() + DRAINING_WITHIN_S
        while time.monotonic() < deadline:
            if any(map(moving.drained_for, await _nodes(stack))):
                return frozenset({"actuator", "provisioning"})
            await asyncio.sleep(0.1)
        return frozenset()

    return Killer(
        list(stack.supervisor.children()),
        seed,
        every_s,
        weights={"cluster": 0.5},
        pausable=frozenset(
            {
                "autoscaler",
                "actuator",
                "watcher",
                "spread",
                "provisioning",
                "nats",
                "nats-0",
                "nats-1",
                "nats-2",
            }
        ),
        acts=(fail_some, drop_watches, expire_watches, drop_answers),
        cutter=Cutter(stack.links),
        aim=draining,
    )


@asynccontextmanager
async def _kube(stack: Stack) -> AsyncIterator[Kube]:
    async with await Kube.connect(stack.kubeconfig) as kube:
        yield kube


async def _nodes(stack: Stack) -> list[dict[str, Any]]:
    """All nodes; none while the API server does not answer."""
    with contextlib.suppress(KubeError, OSError, TimeoutError):
        async with _kube(stack) as kube:
            answer = await kube.request("GET", "/api/v1/nodes", timeout_s=2.0)
            found: list[dict[str, Any]] = msgspec.json.decode(answer.body)["items"]
            return found
    return []


async def _faults(stack: Stack, method: str, body: bytes) -> bool:
    async with _kube(stack) as kube:
        try:
            await kube.request(method, "/sim/faults", body=body or None, timeout_s=2.0)
        except (KubeError, OSError, TimeoutError):
            return False
        return True


async def _connected(url: str) -> Log:
    """The log, also when its server was killed just now."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await Log.connect(url, CLUSTER, name="chaos", timeout_s=5.0, patience_s=PATIENCE_S)
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def create(stack: Stack, scenario: Scenario) -> None:
    async with _kube(stack) as kube:
        await _until(kube, "the webhook of spread", WEBHOOKS, lambda found: WEBHOOK in found)
        for path, manifest in scenario.before():
            await kube.request("POST", f"{path}?{OURS}", body=msgspec.json.encode(manifest))
        await _until(
            kube, "WorkloadSpreads that are looked after", SPREADS,
            lambda found: all("observedGeneration" in f.get("status", {}) for f in found.values()),
        )  # fmt: skip
        for path, manifest in scenario.manifests():
            await kube.request("POST", f"{path}?{OURS}", body=msgspec.json.encode(manifest))


async def _until(
    kube: Kube, what: str, path: str, holds: Callable[[dict[str, dict[str, Any]]], bool]
) -> None:
    """Wait until a collection is as wanted, by name."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = msgspec.json.decode((await kube.request("GET", path)).body)["items"]
        if holds({item["metadata"]["name"]: item for item in found}):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not there after {PATIENCE_S:g} s: {what}")
        await asyncio.sleep(0.2)


async def _load(stack: Linked, scenario: Scenario, load: float) -> None:
    """One load for everybody from now on, also after a kill of the cluster."""
    scenario.constant(stack.folder.path.parent, load)
    pushed = [{**scenario.series(n), "value": load} for n in range(scenario.workloads)]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stack.side_url}/sim/metrics", data=msgspec.json.encode(pushed)) as answer,
    ):
        answer.raise_for_status()


async def _reached(stack: Linked, wrong: Callable[[dict[str, Any]], list[str]]) -> None:
    """Wait until nothing is wrong with the state.

    Raises:
        TimeoutError: something stayed wrong; the message names the first.
    """
    found, many, pause_s, patience = ["nothing was read"], math.inf, 0.2, Patience()
    async with _kube(stack) as kube:
        while found:
            if patience.ended(many):
                raise TimeoutError(
                    f"{len(found)} objects are not where they have to be, the first: {'; '.join(found[:5])}; "
                    f"the services' words are in {stack.folder.path.parent}/services.log"
                )
            await asyncio.sleep(pause_s)
            began = time.monotonic()
            with contextlib.suppress(KubeError, OSError, TimeoutError):
                found = wrong(await final_state(kube))
                many = len(found)
            pause_s = _pause_s(began)


class Patience:
    """Waiting that ends when nothing gets better any more: a busy machine takes its time."""

    def __init__(self) -> None:
        self._least = math.inf
        self._until = time.monotonic() + PATIENCE_S

    def ended(self, wrong: float) -> bool:
        """Whether so much has been wrong, or more, for the last `PATIENCE_S` wall seconds."""
        now = time.monotonic()
        if wrong < self._least:
            self._least, self._until = wrong, now + PATIENCE_S
        return now > self._until


def _pause_s(began: float) -> float:
    """How long to wait after a look that began then: looking takes a fifth of the time at most."""
    return max(0.2, 4 * (time.monotonic() - began))


async def _settled(stack: Stack, log: Log, scenario: Scenario) -> list[str]:
    """Wait for the fixed point: the replicas that the last load needs, and nothing decided for a while.

    Returns:
        What is not where it has to be after a long time, a line each.
    """
    await asyncio.sleep(scenario.window_s)
    wrong, patience, quiet_since, seen = ["nothing was read"], Patience(), time.monotonic(), -1
    async with _kube(stack) as kube:
        while True:
            decided, many, began = 0, math.inf, time.monotonic()
            with contextlib.suppress(LogUnavailable):
                async for record in log.last_per_subject([log.subjects.decisions("*", "*")]):
                    if not isinstance(registry.decode(record.body), SetTimer):  # a fleet's scans never end
                        decided = max(decided, record.seq)
            if decided != seen:
                quiet_since, seen = began, decided
            with contextlib.suppress(KubeError, OSError, TimeoutError):
                wrong = unsettled(await final_state(kube), scenario)
                many = len(wrong)
            if not many and began - quiet_since > QUIET_S:
                return []
            if patience.ended(many):
                return wrong  # when that is nothing: it never falls silent, but it is where it has to be
            await asyncio.sleep(_pause_s(began))


async def _stray(stack: Stack, log: Log) -> list[str]:
    """Nodes that still carry our mark and are not being drained, a while after everything is back."""
    deadline = time.monotonic() + BACK_S
    while True:
        last = time.monotonic() > deadline  # before the look: to read the log may take as long
        nodes = [node for node in await _nodes(stack) if moving.drained_for(node)]
        found = drains.strays(await read(log), nodes) if nodes else []
        if not found or last:
            return found
        await asyncio.sleep(0.5)


async def _said(log: Log) -> AsyncIterator[tuple[str, bytes]]:
    """Subjects and bodies of facts and configuration, but for the clock."""
    async with log.reader([log.subjects.everything]) as reader:
        async for record in reader.until_current():
            cls = record.subject.split(".", 3)[2]
            if cls == "fact" or (cls == "config" and record.subject != log.subjects.config("clock")):
                yield record.subject, record.body


async def answered(log: Log) -> Ledger:
    """The log's decisions and outcomes, once every effect is answered or a while has passed."""
    deadline = time.monotonic() + 60.0
    while True:
        ledger = await read(log)
        if not ledger.unanswered or time.monotonic() > deadline:
            return ledger
        await asyncio.sleep(0.5)


async def _together(log: Log, asked: Path) -> tuple[Ledger, list[Entry]]:
    """The log's decisions and outcomes, and the requests of the same moment: of one that is decided later there is no request yet."""
    deadline = time.monotonic() + 60.0
    while True:
        ledger, entries = await answered(log), requests(asked)
        if (await read(log)).decisions.keys() == ledger.decisions.keys() or time.monotonic() > deadline:
            return ledger, entries


async def read(log: Log) -> Ledger:
    """The log's decisions and outcomes as they are now."""
    ledger = Ledger()
    async with log.reader([log.subjects.everything]) as reader:
        async for record in reader.until_current():
            ledger.take(record)
    return ledger
