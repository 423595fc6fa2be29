"""Deciders, the actuator and nats-server killed under scripted facts: the same decisions as undisturbed.

The facts are those that the calm live run recorded, in steps of log time. Between two steps the clock goes from
one timer that is due to the next, and stands still in between, so that timers, outcomes and decisions have the same
stamps in every run; it goes on when everything up to there is decided, answered and fired. A clock that jumped
over several scans of scale-down would let the answers to the first come before or after the second: nobody could say
what is right. What is killed, is killed while facts are said.
The actuator runs as a shadow: each effect has its outcome, and of the cluster it asks the name alone.
Nodes are ordered for workloads, and not for decisions to scale them: these are answered the moment they are read, each before
the next one, and which of several slots decides first in a moment nobody can say.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.findings import Ledger
from tests.looking import looked_at
from tests.ports import free_port
from tidewright.asking.running_log import RunningLog
from tidewright.asking.service_state import inputs_of
from tidewright.asking.services import BY_NAME, DECIDERS, load
from tidewright.asking.verify import verified
from tidewright.cli.console import Printer
from tidewright.cli.stack import HOST
from tidewright.cli.supervisor import Backoff, Program, Supervisor
from tidewright.events import registry
from tidewright.events.base import Decision, Fact
from tidewright.events.config import ClockSet, ConfigSet
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.facts import ObjectFact
from tidewright.events.timers import TimerFired
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.verify import Report
from tidewright.log import checkpoint as checkpoints
from tidewright.log import errors
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Record
from tidewright.sim.api.server import ApiServer
from tidewright.sim.nats_server import configuration, find_binary

CLUSTER, SLOTS = "chaos", 8
RUNNING = ("autoscaler", "autoscaler", "spread", "provisioning", "shard-manager", "actuator")
STILL = 1e-9
"""Log seconds per wall second: a step takes less than the least difference between two stamps."""
STEP_S = 60.0
WITHIN_S = 120.0
KUBECONFIG = """{"apiVersion": "v1", "kind": "Config", "current-context": "script",
"contexts": [{"name": "script", "context": {"cluster": "script", "user": "nobody"}}],
"clusters": [{"name": "script", "cluster": {"server": "%s"}}], "users": [{"name": "nobody", "user": {}}]}"""

Script = Sequence[tuple[float, Sequence[tuple[str, Fact]]]]
"""Steps: their log time, and the facts with their subjects."""


def script_of(facts: Iterable[tuple[str, bytes]], most: int, without: Collection[str] = ()) -> Script:
    """Recorded facts and configuration in at most so many steps; each is stamped with its step's time.

    What is in one of the namespaces `without` is left out.
    """
    steps: dict[float, list[tuple[str, Fact]]] = defaultdict(list)
    last = 0.0
    for subject, body in facts:
        event = registry.decode(body)
        told = isinstance(event, ObjectFact) and not event.refresh and event.namespace not in without
        if isinstance(event, ConfigSet):
            event = _in_any_order(event)
        if isinstance(event, ConfigSet) or (isinstance(event, Fact) and told):
            last = max(last, (event.at // STEP_S + 1) * STEP_S)
            steps[last].append((subject, event))
    joined, each = sorted(steps.items()), math.ceil(len(steps) / most)
    script: list[tuple[float, list[tuple[str, Fact]]]] = []
    for start in range(0, len(joined), each):
        part = joined[start : start + each]
        at = part[-1][0]
        said = [(subject, msgspec.structs.replace(f, at=at)) for _, facts_ in part for subject, f in facts_]
        script.append((at, said))
    return script


def _in_any_order(setting: ConfigSet) -> ConfigSet:
    """A setting by which what is decided does not go by the order in which other services decide in one moment."""
    if setting.data.get("foresight") != "decisions":
        return setting
    return msgspec.structs.replace(setting, data={**setting.data, "foresight": "workloads"})


@dataclass
class Followed:
    """The log as it has been read so far, and what is still to come of it."""

    inputs: Sequence[Inputs]
    ledger: Ledger = field(default_factory=Ledger)
    wanted: dict[tuple[str, str], int] = field(default_factory=dict)
    decided: dict[tuple[str, str], int] = field(default_factory=dict)
    timers: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        _, _, cls, slot, *rest = record.subject.split(".")
        if cls == "checkpoint":
            if rest[0] in DECIDERS:
                self.decided[rest[0], slot] = checkpoints.decode(record.body).position
            return
        if cls == "schedule":
            return
        event = registry.decode(record.body)
        self.ledger.take(record)
        for inputs in self.inputs:
            if inputs.reads(record.subject, inputs.every, recorded=False) and inputs.concerns(event):
                found = inputs.slot(record.subject)
                for one in inputs.every if found is None else (found,):
                    self.wanted[inputs.service, one] = record.seq
        match event:
            case SetTimer(key=key, due=due):
                self.timers[rest[0], slot, key] = due
            case CancelTimer(key=key):
                self.timers.pop((rest[0], slot, key), None)
            case TimerFired(key=key, at=at) if self.timers.get((rest[0], slot, key)) == at:
                del self.timers[rest[0], slot, key]

    def open(self, now: float) -> list[str]:
        """What is to come of what was said up to `now`."""
        behind = [f"{s} slot {n}" for (s, n), seq in self.wanted.items() if self.decided.get((s, n), 0) < seq]
        due = [f"timer {key}" for key, at in self.timers.items() if at <= now]
        return behind + due + self.ledger.unanswered


@dataclass
class Played:
    """What one run decided.

    Attributes:
        decisions: by service, slot and target, the decisions in their order, without what names a place
            on the log (id, and the digest of the one before). Timers of two services that are due at the
            same moment fire in any order, and what one of them leads to may be read by the other: of what
            is decided in one moment each type is in its order. What comes in one moment wakes a decider once or
            several times: of what it then says of one timer the last counts, which takes the place of the others.
            Two timers of one service, too, and a timer and a fact: what the first leads to is answered with the second, or at the
            end of the short wait (10 ms) that it asks for, which may ask for another. A moment is as long as some of
            these, for every time that a decision has.
    """

    decisions: dict[str, list[dict[str, Any]]]
    ledger: Ledger
    report: Report
    kills: Counter[str]


async def play(script: Script, folder: Path, *, kills: int, seed: int) -> Played:
    """Play the script in an empty folder that exists; kill `kills` times, evenly over its steps."""
    killed = Counter[str]()
    with (folder / "services.log").open("w") as lines:
        sink = Printer(lines, as_json=True)
        supervisor = Supervisor(sink, backoff=Backoff(most_s=0.5, healthy_s=2.0), stop_within_s=5.0)
        cluster = ApiServer()
        try:
            await cluster.start()
            (folder / "kubeconfig").write_text(KUBECONFIG % cluster.url)
            url = await _start(supervisor, folder)
            async with await Log.connect(url, CLUSTER, name="script", timeout_s=10.0) as log:
                await install_log(log, Plan(slots=SLOTS, deciders=DECIDERS))
                await _clock(log, script[0][0])
                source = RunningLog(log)
                async with looked_at(log):
                    await supervisor.start(*(_service(name, url, folder) for name in RUNNING))
                    followed = await _follow(
                        script, source, Killing(supervisor, kills, random.Random(seed), killed)
                    )
                deciders = tuple(BY_NAME[name] for name in DECIDERS)
                report = (await verified(source, deciders)).report
        finally:
            await supervisor.stop()
            await cluster.stop()
    return Played(_canonical(followed.ledger), followed.ledger, report, killed)


@dataclass(frozen=True)
class Killing:
    """What is killed, how often in all, and what was so far."""

    supervisor: Supervisor
    kills: int
    draw: random.Random
    killed: Counter[str]

    def kill(self) -> None:
        _kill(self.supervisor, self.draw, self.killed)


async def _follow(script: Script, source: RunningLog, killing: Killing) -> Followed:
    """Say the facts step by step, and kill evenly over the steps; what everybody made of them."""
    log, draw = source.log, killing.draw
    inputs = [inputs_of(BY_NAME[name], load(BY_NAME[name]), source) for name in DECIDERS]
    followed = Followed(inputs)
    async with log.reader([log.subjects.everything]) as reader:
        for n, (at, facts) in enumerate(script):
            while (due := min(followed.timers.values(), default=math.inf)) < at:
                await _quiet(followed, reader, due, await _clock(log, due))
            said = await _clock(log, at)
            await _quiet(followed, reader, at, said)
            for start in range(0, len(facts), MAX_BATCH // 2):
                part = facts[start : start + MAX_BATCH // 2]
                said = await _say(log, [Message(s, registry.encode(f)) for s, f in part])
                if killing.killed.total() < killing.kills * (n + 1) / len(script):
                    await asyncio.sleep(draw.uniform(0.0, 0.3))
                    killing.kill()
                # Or answers to this part would lie before or after the next one's facts.
                await _quiet(followed, reader, at, said)
            while killing.killed.total() < killing.kills * (n + 1) // len(script):
                await asyncio.sleep(draw.uniform(0.0, 0.5))
                killing.kill()
            await _quiet(followed, reader, at, said)
    return followed


MOMENT = 0
"""Decimals of a moment, log seconds: of the deciders' short waits of 10 ms one may lead to the next, and what is due by rules is due at
whole seconds."""
ERA_S = 1e9
"""Numbers from here on are times."""

_NUMBERED = re.compile(rb'"([a-z-]+\.(?:all|\d+))\.\d+\.\d+"')
"""Ids of decisions that others refer to: kills and repeats take up sequences."""
_PLANNED = re.compile(rb'"([0-9a-f]{13})-(\d+)"')
"""Names of plans: the time in microseconds, and a number."""


def _canonical(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for id_, decision in ledger.decisions.items():
        service, slot, _, _ = id_.rsplit(".", 3)
        body = canonical(decision)
        target = getattr(decision, "target", None)
        name = f"{target.kind}/{target.namespace}/{target.name}" if target else getattr(decision, "key", "")
        found[f"{service} slot {slot} {name}"].append(body)
    return {about: sorted(_standing(bodies), key=lambda body: (body["at"], body["type"])) for about, bodies in found.items()}  # fmt: skip


def canonical(decision: Decision) -> dict[str, Any]:
    """What a decision says, without what names a place on the log, and with moments for times."""
    text = _NUMBERED.sub(rb'"\1"', registry.encode(decision))
    text = _PLANNED.sub(lambda plan: b'"%d-%s"' % (_moment(int(plan[1], 16) / 1e6), plan[2]), text)
    body: dict[str, Any] = _in_moments(msgspec.json.decode(text))
    for place in ("id", "prev"):
        body.pop(place, None)
    return body


def _in_moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_moments(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_moments(item) for item in value]
    return _moment(value) if isinstance(value, float) and value >= ERA_S else value


def _moment(at: float) -> float:
    return round(at, MOMENT)


def _standing(bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decisions about one thing in their order, and of a timer what was said last in each moment."""
    about_timer = (SetTimer.__struct_config__.tag, CancelTimer.__struct_config__.tag)
    last = {body["at"]: n for n, body in enumerate(bodies) if body["type"] in about_timer}
    return [body for n, body in enumerate(bodies) if body["type"] not in about_timer or last[body["at"]] == n]


async def _start(supervisor: Supervisor, folder: Path) -> str:
    port = free_port()
    store = folder / "nats"
    store.mkdir(exist_ok=True)
    config = store / "nats-server.conf"
    config.write_text(configuration(store, HOST, port, sync_always=False, max_store_bytes=None))
    await supervisor.start(
        Program(
            "nats",
            (str(find_binary()), "-c", str(config)),
            started=lambda line: {} if "Server is ready" in line else None,
        )
    )
    return f"nats://{HOST}:{port}"


def _service(name: str, url: str, folder: Path) -> Program:
    command = [sys.executable, "-m", "tidewright.cli.main", "run", name, "--nats", url, "--cluster", CLUSTER]
    command += ["--log-format", "json", "--health-port", "0"]
    if name == "actuator":
        command += ["--mode", "shadow", "--kubeconfig", str(folder / "kubeconfig")]
    return Program(name, tuple(command))


def _kill(supervisor: Supervisor, draw: random.Random, killed: Counter[str]) -> None:
    alive = [child for child in supervisor.children() if child.pid is not None]
    chosen = draw.choice(alive)
    if chosen.pid is not None:
        os.kill(chosen.pid, signal.SIGKILL)
        killed[chosen.program.name] += 1


async def _clock(log: Log, at: float) -> int:
    setting = ClockSet(at=at, wall=time.time(), log=at, speed=STILL)
    return await _say(log, [Message(log.subjects.config("clock"), registry.encode(setting))])


async def _say(log: Log, messages: Sequence[Message]) -> int:
    """Append once, and return the last one's sequence, whatever the server does meanwhile: what lies on the last subject tells whether it is there."""
    before = await _last(log, messages[-1].subject)
    while True:
        try:
            return (await log.commit(messages)).last_seq
        except errors.LogUnavailable:
            await asyncio.sleep(0.2)
            found = await _last(log, messages[-1].subject)
            if found is not None and (before is None or found.seq > before.seq):
                return found.seq


async def _last(log: Log, subject: str) -> Record | None:
    while True:
        try:
            return await log.last(subject)
        except errors.LogUnavailable:
            await asyncio.sleep(0.2)


async def _quiet(followed: Followed, reader: Any, now: float, said: int) -> None:
    """Return when everything that was said, up to the sequence `said`, is decided, answered and fired."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            for record in await reader.fetch(timeout_s=0.1):
                followed.take(record)
        except errors.LogUnavailable:
            continue
        waiting = followed.open(now)
        if reader.position >= said and reader.pending == 0 and not waiting:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"still open after {WITHIN_S:g} s: {waiting[:5]} of {len(waiting)}")
