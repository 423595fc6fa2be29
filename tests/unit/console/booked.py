"""A log on which one request holds the room that another one waits for: provisioning's own fold decides, in a played cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.exports import write_export
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome, target_of
from tidewright.events.config import ConfigSet
from tidewright.events.timers import TimerFired
from tidewright.host.fold.plan import checkpoint_of, planned
from tidewright.host.process.software import software_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.envelope import WRITER, Writer
from tidewright.log.export import Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, SLOT_HASH, Subjects, slot_of
from tidewright.provisioning.decide import DECIDER

CHECK = "check-capacity.autoscaling.x-k8s.io"
SLOTS = 4
SPACE, HOLDS, WAITS = "ns", "nightly", "report"
KINDS: dict[type[Event], str] = {
    f.NodeObserved: "node", f.PodObserved: "pod", f.ShapeObserved: "shape", p.NodeGroupObserved: "nodegroup",
    p.PodTemplateObserved: "podtemplate", p.ProvisioningRequestObserved: "provisioningrequest",
}  # fmt: skip


class Recorded(Cluster):
    """A played cluster of which every message is kept, as it would lie on the log."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.subjects = Subjects("test")
        self.records: list[Record] = []
        self._writer = Writer(DECIDER.service, "b" * 16, software_of(DECIDER))
        self._effects: dict[str, Decision] = {}
        super().__init__(config)

    def tell(self, event: Event) -> None:
        self._inbox.append(event)
        while self._inbox:
            following = self._inbox.pop(0)
            body = registry.encode(following)
            writer = "actuator" if isinstance(following, Outcome) else "watcher"
            seq = self._stored(self._subject(following), body, {WRITER: writer})
            for decided in self.fold.step(seq, body, following):
                message = planned(
                    self.subjects, ALL, self._writer, decided, cause_seq=seq, cause={}, wall_of=lambda at: at, step_until=None
                ).message  # fmt: skip
                self._stored(message.subject, message.body, message.headers or {})
                self._effects[decided.decision.id] = decided.decision
                self.said.append(decided.decision)
                self._act(decided.decision)
            said = checkpoint_of(self.fold, position=seq, epoch=1, incarnation="b" * 16, commit=seq)
            place = self.subjects.checkpoint(ALL, DECIDER.service)
            self._stored(place, checkpoints.encode(said), self._writer.headers(f"c.{seq}"))

    def _stored(self, subject: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.seq += 1
        self.records.append(Record(self.seq, subject, body, dict(headers)))
        return self.seq

    def _subject(self, event: Event) -> str:
        match event:
            case ConfigSet():
                return self.subjects.config(event.name)
            case TimerFired():
                return self.subjects.timer(ALL, DECIDER.service, event.key)
            case Outcome():
                target = target_of(self._effects[event.decision])
                assert target is not None
                return self.subjects.outcome(ALL, target.kind.lower(), target.namespace, target.name)
        namespace = getattr(event, "namespace", "")
        name = getattr(event, "name", "") or getattr(event, "digest", "")
        return self.subjects.fact(slot_of(namespace, SLOTS), KINDS[type(event)], namespace, name)


def booked_log(folder: Path, more: int = 0) -> Path:
    """An export of it: three nodes, as many as there may be; `nightly` has booked them but for a little, `report` waits, and as many `more`."""
    cluster = Recorded({"profile": "hold"})
    cluster.add_group("general", cpu=4000, maximum=3)
    for number in (1, 2, 3):
        cluster.add_node(f"general-{number}", "general")
    cluster.groups["general"].target = 3
    cluster.observe_group("general")
    cluster.template("worker", "1900m")
    cluster.template("small", "700m")
    cluster.request(HOLDS, CHECK, [("worker", 6)])
    cluster.settle()
    cluster.advance(240)
    for name in (WAITS, *(f"{WAITS}-{number}" for number in range(more))):
        cluster.request(name, CHECK, [("small", 10)])
    cluster.settle()
    manifest = Manifest(
        cluster="test", stream="TW_test", slots=SLOTS, slot_hash=SLOT_HASH, first_seq=1, last_seq=cluster.seq, version="0"
    )  # fmt: skip
    path = folder / "booked.twlog"
    write_export(path, manifest, (), cluster.records)
    return path
