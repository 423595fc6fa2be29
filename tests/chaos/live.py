"""The whole of Tidewright, every service and server an OS process, while they are killed.

Compared with an undisturbed run of the same scenario: replicas, conditions and placements at the end,
which is a fixed point. Checked for itself: every decision against its recomputation from the log,
one outcome for each effect, and the effects in the API server's own request log.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos import findings
from tests.chaos.findings import Effects, Ledger
from tests.chaos.killer import Killer
from tests.chaos.scenario import FINAL_REPLICAS, Scenario, nodes_for
from tidewright.cli.asking.source import RunningLog
from tidewright.cli.asking.verify import verified
from tidewright.cli.console import Printer
from tidewright.cli.services import SERVICES, Role
from tidewright.cli.stack import Stack, StackOptions
from tidewright.cli.supervisor import Backoff, Supervisor
from tidewright.host.verify import Report
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log

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
)
"""Some twice, so that a killed one's work is taken over and not only taken up again."""
LEAD_S = 10.0
"""Wall seconds in which everything comes up before the load begins."""
QUIET_S = 3.0
PATIENCE_S = 120.0


@dataclass
class Ended:
    """What a run left behind."""

    state: dict[str, Any]
    ledger: Ledger
    report: Report
    effects: Effects
    kills: int = 0
    told: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    facts: list[tuple[str, bytes]] = field(default_factory=list)
    """Subjects and bodies of the facts, in the order of the log."""


async def run(
    scenario: Scenario, folder: Path, *, kills: int, seed: int, every_s: float, lead_s: float = LEAD_S
) -> Ended:
    """One run; with `kills` 0 an undisturbed one.

    Raises:
        TimeoutError: it never settled; the message says what was missing.
    """
    began, begins = time.monotonic(), time.time() + lead_s
    requests = folder / "requests.jsonl"
    options = StackOptions(
        data=folder, fresh=True, cluster=CLUSTER, services=RUNNING, slots=SLOTS,
        speed=scenario.speed, log_start=scenario.start, clock_wall=begins,
        sim=(
            "--nodes", str(nodes_for(scenario.workloads)), "--node-cpu", "64", "--request-log", str(requests),
            "--metrics", str(scenario.metrics(folder)),
        ),
        watcher=("--metrics-interval", repr(scenario.interval_s)), stop_within_s=5.0,
    )  # fmt: skip
    with (folder / "services.log").open("w") as lines:
        sink = Printer(lines, as_json=True)
        stack = Stack(options, sink)
        stack.supervisor = Supervisor(sink, backoff=Backoff(most_s=1.0, healthy_s=5.0), stop_within_s=5.0)
        async with stack:
            await _create(stack, scenario)
            killer = _killer(stack, seed, every_s)
            await killer.run(kills)
            await _faults(stack, "DELETE", b"")
            await asyncio.sleep(max(0.0, begins + scenario.load_s - time.time()))
            async with await Log.connect(stack.nats_url, CLUSTER, name="chaos", timeout_s=5.0) as log:
                await log.adopt_slots()
                await _settled(stack, log, scenario)
                ledger = await _answered(log)
                async with _kube(stack) as kube:
                    state = await final_state(kube)
                source = RunningLog(log)
                facts = await _facts(log)
                report = (await verified(source, tuple(s for s in SERVICES if s.role is Role.DECIDER))).report
    return Ended(
        state, ledger, report, findings.effects(ledger, findings.requests(requests)),
        killer.kills.total(), killer.told(), time.monotonic() - began, facts,
    )  # fmt: skip


def _killer(stack: Stack, seed: int, every_s: float) -> Killer:
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

    return Killer(
        list(stack.supervisor.children()),
        seed,
        every_s,
        weights={"cluster": 0.5},
        pausable=frozenset({"autoscaler", "actuator", "watcher", "nats", "spread", "provisioning"}),
        acts=(fail_some, drop_watches, expire_watches, drop_answers),
    )


@asynccontextmanager
async def _kube(stack: Stack) -> AsyncIterator[Kube]:
    async with await Kube.connect(stack.kubeconfig) as kube:
        yield kube


async def _faults(stack: Stack, method: str, body: bytes) -> bool:
    async with _kube(stack) as kube:
        try:
            await kube.request(method, "/sim/faults", body=body or None, timeout_s=2.0)
        except (KubeError, OSError, TimeoutError):
            return False
        return True


async def _create(stack: Stack, scenario: Scenario) -> None:
    async with _kube(stack) as kube:
        for path, manifest in scenario.manifests():
            await kube.request("POST", path, body=msgspec.json.encode(manifest))


async def _settled(stack: Stack, log: Log, scenario: Scenario) -> None:
    """Wait for the fixed point: the replicas that the last load needs, and nothing decided for a while."""
    deadline = time.monotonic() + PATIENCE_S + scenario.settled_after_s
    await asyncio.sleep(scenario.settled_after_s)
    quiet_since, seen = time.monotonic(), -1
    async with _kube(stack) as kube:
        while True:
            decided, state = 0, dict[str, Any]()
            async for record in log.last_per_subject([log.subjects.decisions("*", "*")]):
                decided = max(decided, record.seq)
            if decided != seen:
                quiet_since, seen = time.monotonic(), decided
            try:
                state = await final_state(kube)
            except (KubeError, OSError, TimeoutError):
                state.clear()
            wrong = [n for n, w in state.get("workloads", {}).items() if w["ready"] != FINAL_REPLICAS]
            if state and not wrong and time.monotonic() - quiet_since > QUIET_S:
                return
            if time.monotonic() > deadline:
                if state and not wrong:
                    return  # it never falls silent, but it is where it has to be
                raise TimeoutError(
                    f"{len(wrong)} of {len(state.get('workloads', {}))} workloads are not at {FINAL_REPLICAS} replicas:"
                    f" {[(n, state['workloads'][n]) for n in wrong[:5]]}; the services' words are in {stack.folder.path}/services.log"
                )
            await asyncio.sleep(0.5)


async def final_state(kube: Kube) -> dict[str, Any]:
    """Replicas, conditions and placements, without what says when."""

    async def listed(path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = msgspec.json.decode((await kube.request("GET", path)).body)["items"]
        return [i for i in items if i["metadata"].get("namespace", "").startswith("team-")]

    def key(item: dict[str, Any]) -> str:
        return f"{item['metadata']['namespace']}/{item['metadata']['name']}"

    def conditions(item: dict[str, Any]) -> dict[str, str]:
        found = item.get("status", {}).get("conditions", [])
        # Said only after the metrics were stale once, which depends on who was killed.
        found = [c for c in found if (c["type"], c["status"]) != ("MetricsFresh", "True")]
        return {c["type"]: f"{c['status']} {c.get('reason', '')}: {c.get('message', '')}" for c in found}

    workloads = {
        key(d): {"replicas": d["spec"]["replicas"], "ready": d.get("status", {}).get("readyReplicas", 0)}
        for d in await listed("/apis/apps/v1/deployments")
    }
    autoscalers = {
        key(w): {
            "conditions": conditions(w),
            "desired": w.get("status", {}).get("desiredReplicas"),
            "current": w.get("status", {}).get("currentReplicas"),
        }
        for w in await listed("/apis/datadoghq.com/v1alpha1/watermarkpodautoscalers")
    }
    return {"workloads": workloads, "autoscalers": autoscalers}


async def _facts(log: Log) -> list[tuple[str, bytes]]:
    async with log.reader([f"{log.subjects.root}.fact.>"]) as reader:
        return [(record.subject, record.body) async for record in reader.until_current()]


async def _answered(log: Log) -> Ledger:
    """The log's decisions and outcomes, once every effect is answered or a while has passed."""
    deadline = time.monotonic() + 60.0
    while True:
        ledger = Ledger()
        async with log.reader([log.subjects.everything]) as reader:
            async for record in reader.until_current():
                ledger.take(record)
        if not ledger.unanswered or time.monotonic() > deadline:
            return ledger
        await asyncio.sleep(0.5)
