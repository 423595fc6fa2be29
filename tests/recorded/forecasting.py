"""Record five days of two forecast autoscalers: `python -m tests.recorded.forecasting` writes `forecasts.twlog` anew.

Only for a version that is meant to decide otherwise about forecasts, and was not given out yet: what an earlier version recorded has to verify.
`web` asks by its annotation, and learns from nothing; `api` is selected by the configuration on the third day, with a model, and follows
the confidence that is worth its price.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.alone import Alone
from tests.exports import write_export
from tests.nats_server import EmbeddedServer
from tests.recorded.ended import FORECASTS
from tests.unit.autoscaler.world import external, spec
from tests.waiting import until
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.forecast.asked import ANNOTATION, asked
from tidewright.autoscaler.forecast.learnt import Model, as_data, learn
from tidewright.autoscaler.forecast.load import digest
from tidewright.autoscaler.passes.forecasts import bands
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled, Owner, PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.log.checkpoint import decode
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.export import Manifest
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import SLOT_HASH

DAY_S, EVERY_S, DAYS = 86400, 1800, 5
BEGIN = 20_000 * DAY_S
SELECTED_AT = BEGIN + 2 * DAY_S
NAMESPACE = "shop"
NAMES = ("api", "web")
MOST = 12


def load(at: float) -> int:
    """Busy from 8 to 20 o'clock, and never twice quite the same; milli."""
    busy = 90_000 if 8 <= at % DAY_S / 3600 < 20 else 18_000
    return busy + int(at // EVERY_S) * 7919 % 4001


def query(name: str) -> str:
    return f"external/{name}/app={name}"


def members(name: str) -> dict[str, Any]:
    """The spec of an autoscaler."""
    return spec(
        external(name, app=name), maxReplicas=MOST, scaleUpLimitFactor="500", scaleDownLimitFactor="90",
        scaleTargetRef={"kind": "Deployment", "name": name, "apiVersion": "apps/v1"},
    )  # fmt: skip


class Recording:
    """The cluster's side of the log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.slot = log.slot_of(NAMESPACE)
        self.answered = 0

    def message(self, event: Event, kind: str, name: str) -> Message:
        return Message(self.log.subjects.fact(self.slot, kind, NAMESPACE, name), registry.encode(event))

    def workload(self, at: float, name: str, replicas: int) -> Iterator[Message]:
        fact = WorkloadObserved(
            at=at, namespace=NAMESPACE, name=name, api_version="apps/v1", kind="Deployment", uid=name,
            replicas=replicas, status_replicas=replicas, selector=f"app={name}",
        )  # fmt: skip
        yield self.message(fact, "deployment", name)
        for n in range(MOST):
            pod = f"{name}-77-{n}"
            if n < replicas:
                there = PodObserved(
                    at=at, namespace=NAMESPACE, name=pod, phase="Running", ready=True, ready_changed_at=at, started_at=at,
                    labels={"app": name}, owners=(Owner(kind="ReplicaSet", name=f"{name}-77"),),
                )  # fmt: skip
                yield self.message(there, "pod", pod)
            else:
                yield self.message(PodGone(at=at, namespace=NAMESPACE, name=pod), "pod", pod)

    def autoscaler(self, name: str) -> Message:
        fact = WatermarkPodAutoscalerObserved(
            at=BEGIN, namespace=NAMESPACE, name=name, uid=name, generation=1, created_at=BEGIN,
            spec=members(name),
            annotations={ANNOTATION: "lead=60m,confidence=0.5"} if name == "web" else {},
            labels={"app": name},
        )  # fmt: skip
        return self.message(fact, "watermarkpodautoscaler", name)

    async def say(self, messages: Sequence[Message]) -> None:
        """Commit, and wait until the decider has answered."""
        for n in range(0, len(messages), 100):
            last = (await self.log.commit(messages[n : n + 100])).last_seq
        await until(self.position, lambda position: position >= last)

    async def position(self) -> int:
        record = await self.log.last(self.log.subjects.checkpoint(self.slot, DECIDER.service))
        return 0 if record is None else decode(record.body).position

    async def carry_out(self, at: float) -> bool:
        """Do what was decided and not done yet; whether there was anything."""
        async with self.log.reader(
            [self.log.subjects.decisions(str(self.slot), DECIDER.service)], after=self.answered
        ) as reader:
            records = [record async for record in reader.until_current()]
        messages: list[Message] = []
        for record in records:
            self.answered = record.seq
            decision = registry.decode(record.body)
            if isinstance(decision, ScaleWorkload):
                applied = Applied(at=at, decision=decision.id)
                name = decision.target.name
                subject = self.log.subjects.outcome(self.slot, "deployment", NAMESPACE, name)
                messages += (
                    Message(subject, registry.encode(applied)),
                    *self.workload(at, name, decision.replicas),
                )
        if messages:
            await self.say(messages)
        return bool(messages)


def configuration(at: float) -> ConfigSet:
    """`api` is selected, and what is known of its load is that of the week before."""
    asks = asked("lead=30m")
    band = bands(compiled(members("api"), namespace=NAMESPACE, name="api"))[digest(query("api"))]
    loads = [(at - n * EVERY_S, load(at - n * EVERY_S)) for n in range(7 * DAY_S // EVERY_S, 0, -1)]
    model = Model(
        lead_s=asks.lead_s,
        confidence=asks.confidence,
        seasons={digest(query("api")): learn(loads, asks, band)},
    )
    data = {
        "status_interval_s": 1e9, "forecast": "lead=30m", "forecast_selector": "app=api",
        "forecast_models": {f"{NAMESPACE}/api": as_data(model)},
    }  # fmt: skip
    return ConfigSet(at=at, name="autoscaler", data=data, source="tidewright/tidewright")


async def play(recording: Recording) -> None:
    """Five days, a sample of each every half hour."""
    log = recording.log
    begin = ConfigSet(at=BEGIN, name="autoscaler", data={"status_interval_s": 1e9})
    await log.append(Message(log.subjects.config("autoscaler"), registry.encode(begin)))
    await recording.say(
        [
            *(recording.autoscaler(name) for name in NAMES),
            *(message for name in NAMES for message in recording.workload(BEGIN + 1.0, name, 2)),
        ]
    )
    for at in range(BEGIN + EVERY_S, BEGIN + DAYS * DAY_S, EVERY_S):
        if at == SELECTED_AT:
            set_ = configuration(float(at))
            await log.append(Message(log.subjects.config("autoscaler"), registry.encode(set_)))
        await recording.say(
            [
                recording.message(
                    MetricSampled(
                        at=float(at), namespace=NAMESPACE, name=query(name), series_milli=(load(at),)
                    ),
                    "metric",
                    query(name),
                )
                for name in NAMES
            ]
        )
        while await recording.carry_out(at + 1.0):
            pass


async def record() -> None:
    """Play it on a server of its own, and export what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        url = await server.start()
        try:
            async with await Log.connect(url, "recorded", timeout_s=30.0) as log:
                await install_log(log, Plan(slots=2, deciders=(DECIDER.service,)))
                writer = Writer(DECIDER.service)
                host = Host(DECIDER, log, Alone(writer.incarnation), Health(DECIDER.service), writer=writer)
                stop = asyncio.Event()
                running = asyncio.create_task(host.run(stop))
                await play(Recording(log))
                stop.set()
                await running
                async with log.reader([log.subjects.everything]) as reader:
                    records = [record async for record in reader.until_current()]
                told = Manifest(
                    cluster="recorded", stream=log.stream, slots=log.slots, slot_hash=SLOT_HASH, first_seq=1,
                    last_seq=records[-1].seq,
                )  # fmt: skip
                write_export(FORECASTS, told, [], records)
        finally:
            await server.stop()
    print(f"written: {FORECASTS.name}, {len(records)} records, {FORECASTS.stat().st_size} bytes")


if __name__ == "__main__":
    asyncio.run(record())
