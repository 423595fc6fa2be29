"""A long log for the benchmarks of asking: an autoscaler over many namespaces, decided for real.

The facts are made up, the decisions are not: the autoscaler's own fold takes them, with decisions,
outcomes and checkpoints where its host and the actuator would write them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tidewright.autoscaler.decide import DECIDER
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.decisions import Effect, ScaleWorkload
from tidewright.events.facts import MetricSampled, Owner, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied
from tidewright.host.fold.order import Fold
from tidewright.host.fold.plan import checkpoint_of
from tidewright.host.process.software import software_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.envelope import Writer
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot, Subjects, slot_of

CLUSTER = "bench"
SLOTS = 32
NAMESPACES, APPS, PODS = 50, 4, 10
FETCH = 500
"""Facts between two commits of the host."""
BEGIN = 1_772_400_000.0
STEP_S = 0.02


KINDS: dict[type[Event], str] = {
    PodObserved: "pod",
    MetricSampled: "metric",
    WorkloadObserved: "deployment",
    WatermarkPodAutoscalerObserved: "watermarkpodautoscaler",
}


class MadeUp:
    """A log of about so many records; iterate once.

    Before all else `idle` autoscalers are seen that have no target. `evaluated` of the facts' share makes the autoscaler
    evaluate an object: 0.05 for one in twenty.
    While it is `settled`, the folds stand at their last checkpoints: what is a snapshot then, is one.
    """

    def __init__(self, records: int, evaluated: float, idle: int = 0) -> None:
        self.subjects = Subjects(CLUSTER)
        self.folds = {Slot(str(i)): Fold(DECIDER, Slot(str(i))) for i in range(SLOTS)}
        self.last_checkpoint: dict[Slot, int] = {}
        self.settled = True
        self.passes = 0
        self._records, self._evaluated, self._idle = records, evaluated, idle
        self._seq, self._at = 0, BEGIN
        self._random = random.Random(7)
        self._writer = Writer("autoscaler", "b" * 16, software_of(DECIDER))
        self._watcher, self._actuator = Writer("watcher", "c" * 16), Writer("actuator", "d" * 16)
        self._commits: dict[Slot, int] = {}
        self._due: list[tuple[Slot, ScaleWorkload]] = []
        self._wanted: dict[tuple[str, str], int] = {}

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, self._idle, FETCH):
            some = range(start, min(self._idle, start + FETCH))
            yield from self._committed([self._told(self.seen(f"more-{n % 50}", f"app-{n}")) for n in some])
        yield from self._committed([self._told(fact) for fact in self._beginning()])
        while self._seq < self._records:
            facts = [self._told(self._fact()) for _ in range(FETCH)]
            yield from self._committed(facts)
            outcomes = []
            for slot, scale in self._due:
                outcomes += self._applied(slot, scale)
            self._due.clear()
            if outcomes:
                yield from self._committed(outcomes)

    def snapshots(self) -> list[Snapshot]:
        """Of every slot, as the host would store them at its last commit."""
        return [
            fold.snapshot(checkpoint_seq=self.last_checkpoint[slot], position=fold.position)
            for slot, fold in self.folds.items()
            if slot in self.last_checkpoint
        ]

    @property
    def end(self) -> float:
        """The log time that was reached, seconds."""
        return self._at

    # -- facts -----------------------------------------------------------------------------------

    def _beginning(self) -> Iterator[Event]:
        for n in range(NAMESPACES):
            for a in range(APPS):
                space, app = f"team-{n}", f"app-{a}"
                self._wanted[space, app] = PODS
                yield self.seen(space, app)
                yield self._workload(space, app)
                for p in range(PODS):
                    yield self._pod(space, app, p, 0)

    def _fact(self) -> Event:
        choose = self._random
        self._at += STEP_S
        space, app = f"team-{choose.randrange(NAMESPACES)}", f"app-{choose.randrange(APPS)}"
        if choose.random() < self._evaluated:
            self.passes += 1
            value = self._wanted[space, app] * choose.randrange(4_000, 12_500)
            return MetricSampled(
                at=self._at,
                namespace=space,
                name=f"external/rps/app={app}",
                series_milli=(value,),
                sampled_at=self._at,
            )
        return self._pod(space, app, choose.randrange(PODS), choose.randrange(1, 1000))

    def _pod(self, space: str, app: str, n: int, restarts: int) -> PodObserved:
        return PodObserved(
            at=self._at, namespace=space, name=f"{app}-5d8f6c7b9-{n:05d}", uid=f"{space}-{app}-{n}", shape="0a1b2c3d",
            phase="Running", node=f"node-{n}", ready=True, ready_changed_at=BEGIN - 600, created_at=BEGIN - 660,
            started_at=BEGIN - 650, restarts=restarts, labels={"app": app, "tier": "front"},
            owners=(Owner(kind="ReplicaSet", name=f"{app}-5d8f6c7b9", controller=True),),
        )  # fmt: skip

    def seen(self, space: str, app: str) -> WatermarkPodAutoscalerObserved:
        """An autoscaler, as it is all the time."""
        return WatermarkPodAutoscalerObserved(
            at=self._at, namespace=space, name=app, uid=f"uid-{space}-{app}", generation=1, created_at=BEGIN,
            spec=_spec(app),
        )  # fmt: skip

    def _workload(self, space: str, app: str) -> WorkloadObserved:
        wanted = self._wanted[space, app]
        return WorkloadObserved(
            at=self._at, namespace=space, name=app, uid=f"{space}-{app}", api_version="apps/v1", kind="Deployment",
            replicas=wanted, status_replicas=PODS, ready_replicas=PODS, selector=f"app={app}",
        )  # fmt: skip

    # -- as records ------------------------------------------------------------------------------

    def _told(self, fact: Any) -> tuple[Slot, Record, Event]:
        slot = slot_of(fact.namespace, SLOTS)
        kind = KINDS[type(fact)]
        subject = self.subjects.fact(slot, kind, fact.namespace, fact.name)
        return (
            slot,
            self._record(subject, registry.encode(fact), self._watcher.headers(f"w.{self._seq}")),
            fact,
        )

    def _applied(self, slot: Slot, scale: ScaleWorkload) -> list[tuple[Slot, Record, Event]]:
        space, app = scale.target.namespace, scale.target.name
        outcome = Applied(at=self._at, decision=scale.id, attempts=1)
        subject = self.subjects.outcome(slot, "deployment", space, app)
        self._wanted[space, app] = scale.replicas
        headers = self._actuator.headers(f"actuator.{scale.id}", cause=scale.id)
        return [
            (slot, self._record(subject, registry.encode(outcome), headers), outcome),
            self._told(self._workload(space, app)),
        ]

    def _committed(self, inputs: list[tuple[Slot, Record, Event]]) -> Iterator[Record]:
        """Inputs as they lie on the log, and behind them the host's commit."""
        for _, record, _ in inputs:
            yield record
        end, touched = self._seq, dict[Slot, None]()
        self.settled = False
        for slot, record, event in inputs:
            touched[slot] = None
            for decided in self.folds[slot].step(record.seq, record.body, event):
                decision: Any = decided.decision
                target = getattr(decision, "target", None)
                kind, space, name = (
                    ("timer", "", decision.key)
                    if target is None
                    else (target.kind.lower(), target.namespace, target.name)
                )
                subject = self.subjects.decision(slot, "autoscaler", kind, space, name)
                yield self._record(
                    subject, decided.body, self._writer.headers(decision.id, cause_seq=record.seq)
                )
                if isinstance(decision, ScaleWorkload) and isinstance(decision, Effect):
                    self._due.append((slot, decision))
        for slot in touched:
            fold = self.folds[slot]
            fold.position = end
            commit = self._commits[slot] = self._commits.get(slot, 0) + 1
            body = checkpoints.encode(
                checkpoint_of(fold, position=end, epoch=1, incarnation="b" * 16, commit=commit)
            )
            record = self._record(
                self.subjects.checkpoint(slot, "autoscaler"),
                body,
                self._writer.headers(f"autoscaler.{slot}.{self._writer.incarnation}.{commit}"),
            )
            self.last_checkpoint[slot] = record.seq
            yield record
        self.settled = True

    def _record(self, subject: str, body: bytes, headers: dict[str, str]) -> Record:
        self._seq += 1
        return Record(self._seq, subject, body, headers)


def _spec(app: str) -> dict[str, Any]:
    return {
        "scaleTargetRef": {"kind": "Deployment", "name": app, "apiVersion": "apps/v1"},
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metricName": "rps",
                    "metricSelector": {"matchLabels": {"app": app}},
                    "lowWatermark": "5",
                    "highWatermark": "11",
                },
            }
        ],
        "minReplicas": 2,
        "maxReplicas": 30,
        "algorithm": "average",
    }
