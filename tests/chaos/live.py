"""The whole of Tidewright, every service and server an OS process, while they are killed.

Compared with an undisturbed run of the same scenario: replicas, conditions, placements and the cloud's
nodes at the end, which is a fixed point. Checked for itself: every decision against its recomputation
from the log, one outcome for each effect, and the effects in the API server's own request log.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.chaos import findings
from tests.chaos.findings import Effects, Ledger
from tests.chaos.killer import Killer
from tests.chaos.network import Cutter, Linked
from tests.chaos.scenario import (
    FINAL,
    FINAL_PLACES,
    FINAL_REPLICAS,
    FIRST,
    GROUP,
    PEAK,
    VALLEY,
    VALLEY_PLACES,
    VALLEY_REPLICAS,
    Scenario,
    fixed_points,
    nodes_for,
)
from tidewright.cli.asking.source import RunningLog
from tidewright.cli.asking.verify import verified
from tidewright.cli.console import Printer
from tidewright.cli.services import SERVICES, Role
from tidewright.cli.stack import StackOptions
from tidewright.cli.supervisor import Backoff, Supervisor
from tidewright.host.verify import Report
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log
from tidewright.log.errors import LogUnavailable
from tidewright.spread.spec import DELETION_COST_ANNOTATION

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
SPREADS = "/apis/apps.kruise.io/v1alpha1/workloadspreads"
LEAD_S = 10.0
"""Wall seconds in which everything comes up before the load begins."""
QUIET_S = 2.0
PATIENCE_S = 120.0
LAST_KILLS = 0.25
"""Share of the kills that come while the end is reached."""


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
        watcher=("--metrics-interval", repr(scenario.interval_s), "--cloud-interval", "30"), stop_within_s=5.0,
        node_groups=scenario.cloud(folder),
    )  # fmt: skip
    with (folder / "services.log").open("w") as lines:
        sink = Printer(lines, as_json=True)
        stack = Linked(options, sink)
        stack.supervisor = Supervisor(sink, backoff=Backoff(most_s=1.0, healthy_s=5.0), stop_within_s=5.0)
        async with stack:
            await _create(stack, scenario)
            killer = _killer(stack, seed, every_s)
            last = round(kills * LAST_KILLS)
            await killer.run(kills - last)
            await _faults(stack, "DELETE", b"")
            await asyncio.sleep(max(0.0, begins + scenario.load_s - time.time()))
            await _reached(stack, lambda state: off_the_plateau(state, scenario))
            await _load(stack, scenario, VALLEY)
            await _reached(stack, lambda state: off_the_valley(state, scenario))
            await _load(stack, scenario, FINAL)
            await killer.run(last)
            await _faults(stack, "DELETE", b"")
            async with await _connected(stack.nats_url) as log:
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

    return Killer(
        list(stack.supervisor.children()),
        seed,
        every_s,
        weights={"cluster": 0.5},
        pausable=frozenset({"autoscaler", "actuator", "watcher", "nats", "spread", "provisioning"}),
        acts=(fail_some, drop_watches, expire_watches, drop_answers),
        cutter=Cutter(stack.links),
    )


@asynccontextmanager
async def _kube(stack: Linked) -> AsyncIterator[Kube]:
    async with await Kube.connect(stack.kubeconfig) as kube:
        yield kube


async def _faults(stack: Linked, method: str, body: bytes) -> bool:
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
            return await Log.connect(url, CLUSTER, name="chaos", timeout_s=5.0)
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def _create(stack: Linked, scenario: Scenario) -> None:
    async with _kube(stack) as kube:
        await _until(kube, "the webhook of spread", WEBHOOKS, lambda found: WEBHOOK in found)
        for path, manifest in scenario.before():
            await kube.request("POST", path, body=msgspec.json.encode(manifest))
        await _until(
            kube, "WorkloadSpreads that are looked after", SPREADS,
            lambda found: all("observedGeneration" in f.get("status", {}) for f in found.values()),
        )  # fmt: skip
        for path, manifest in scenario.manifests():
            await kube.request("POST", path, body=msgspec.json.encode(manifest))


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
    scenario.constant(stack.folder.path, load)
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
    deadline, found = time.monotonic() + PATIENCE_S, ["nothing was read"]
    async with _kube(stack) as kube:
        while found:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{len(found)} objects are not where they have to be, the first: {'; '.join(found[:5])}; "
                    f"the services' words are in {stack.folder.path}/services.log"
                )
            await asyncio.sleep(0.2)
            with contextlib.suppress(KubeError, OSError, TimeoutError):
                found = wrong(await final_state(kube))


def off_the_plateau(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """Who is not up there, or has no costs yet by which the first subset's pods go last."""
    wanted = fixed_points(PEAK)
    lines = [f"{n}: {w}, not {wanted}" for n, w in state["workloads"].items() if w["ready"] not in wanted]
    for name in scenario.spread:
        costs = state["costs"].get(name, [])
        last = [subset for _, subset in sorted(costs)[-FIRST:]]
        if last != ["first"] * FIRST or sorted(costs)[-FIRST][0] <= 0:
            lines.append(f"{name}: costs {costs}")
    return lines


def off_the_valley(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """Who is not down there, or elsewhere than in the first subset."""
    lines = [f"{n}: {w}" for n, w in state["workloads"].items() if w["ready"] != VALLEY_REPLICAS]
    placed = {name: state["places"].get(name) for name in scenario.spread}
    return lines + [f"{n}: placed {p}" for n, p in placed.items() if p != VALLEY_PLACES]


async def _settled(stack: Linked, log: Log, scenario: Scenario) -> None:
    """Wait for the fixed point: the replicas that the last load needs, and nothing decided for a while."""
    deadline = time.monotonic() + PATIENCE_S + scenario.window_s
    await asyncio.sleep(scenario.window_s)
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
            wrong = unsettled(state, scenario) if state else []
            if state and not wrong and time.monotonic() - quiet_since > QUIET_S:
                return
            if time.monotonic() > deadline:
                if state and not wrong:
                    return  # it never falls silent, but it is where it has to be
                raise TimeoutError(
                    f"{len(wrong)} objects are not where they have to end, the first: {'; '.join(wrong[:5])}; "
                    f"the services' words are in {stack.folder.path}/services.log"
                )
            await asyncio.sleep(0.5)


def unsettled(state: dict[str, Any], scenario: Scenario) -> list[str]:
    """What is not as it has to be at the end, a line each."""
    lines = [f"{n}: {w}" for n, w in state["workloads"].items() if w["ready"] != FINAL_REPLICAS]
    for name, found in state["autoscalers"].items():
        # Silence alone does not say it: who would speak may be on the way up again.
        said = [found["conditions"].get(c, "").startswith("True") for c in ("AbleToScale", "ScalingActive")]
        if not all(said) or (found["desired"], found["current"]) != (FINAL_REPLICAS, FINAL_REPLICAS):
            lines.append(f"autoscaler {name}: {found}")
    for name in scenario.spread:
        if (found := state["places"].get(name)) != FINAL_PLACES:
            lines.append(f"{name}: placed {found}, not {FINAL_PLACES}")
    for name, found in state["requests"].items():
        if not found.get("BookingExpired", "").startswith("True") and not found.get("Failed", "").startswith(
            "True"
        ):
            lines.append(f"request {name}: {found}")
    lines += [f"node {name} of the cloud" for name in state["cloud"]]
    return lines


async def final_state(kube: Kube) -> dict[str, Any]:
    """Replicas, conditions and placements, without what says when."""

    async def listed(path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = msgspec.json.decode((await kube.request("GET", path)).body)["items"]
        return [i for i in items if i["metadata"].get("namespace", "").startswith("team-")]

    workloads = {
        _key(d): {"replicas": d["spec"]["replicas"], "ready": d.get("status", {}).get("readyReplicas", 0)}
        for d in await listed("/apis/apps/v1/deployments")
    }
    autoscalers = {
        _key(w): {
            "conditions": _conditions(w),
            "desired": w.get("status", {}).get("desiredReplicas"),
            "current": w.get("status", {}).get("currentReplicas"),
        }
        for w in await listed("/apis/datadoghq.com/v1alpha1/watermarkpodautoscalers")
    }
    places: dict[str, Counter[str]] = defaultdict(Counter)
    costs: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for pod in await listed("/api/v1/pods"):
        labels = pod["metadata"].get("labels", {})
        if "deletionTimestamp" not in pod["metadata"] and "subset" in labels:
            name = f"{pod['metadata']['namespace']}/{labels['app']}"
            places[name][labels["subset"]] += 1
            cost = pod["metadata"].get("annotations", {}).get(DELETION_COST_ANNOTATION, "0")
            costs[name].append((int(cost), labels["subset"]))
    spreads = {
        _key(w): [
            {name: subset.get(name) for name in ("name", "replicas", "missingReplicas", "conditions")}
            for subset in w.get("status", {}).get("subsetStatuses", [])
        ]
        for w in await listed(SPREADS)
    }
    requests = {
        _key(r): _conditions(r) for r in await listed("/apis/autoscaling.x-k8s.io/v1/provisioningrequests")
    }
    nodes = msgspec.json.decode((await kube.request("GET", "/api/v1/nodes")).body)["items"]
    cloud = sorted(
        n["metadata"]["name"] for n in nodes if n["metadata"].get("labels", {}).get("group") == GROUP
    )
    return {
        "workloads": workloads, "autoscalers": autoscalers, "places": {k: dict(v) for k, v in places.items()},
        "spreads": spreads, "costs": {k: sorted(v) for k, v in costs.items()}, "requests": requests, "cloud": cloud,
    }  # fmt: skip


def _key(item: dict[str, Any]) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _conditions(item: dict[str, Any]) -> dict[str, str]:
    found = item.get("status", {}).get("conditions", [])
    # Said only after the metrics were stale once, which depends on who was killed.
    found = [c for c in found if (c["type"], c["status"]) != ("MetricsFresh", "True")]
    return {c["type"]: f"{c['status']} {c.get('reason', '')}: {c.get('message', '')}" for c in found}


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
