"""A cluster of valid objects around all deciders, into which others are put.

What the watcher would say of an object goes through bytes to each decider that reads it, and what they decide goes
through bytes to whoever follows. Effects are answered as done, but nothing comes of them: it is not about what is
decided, but whether.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from tests.hostile.mutations import encoded
from tests.hostile.objects import NS, OBJECTS, ZONE
from tidewright.asking.services import BY_NAME as SERVICES
from tidewright.asking.services import DECIDERS, load
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.autoscaler import RecommendationReceived, WatermarkPodAutoscalerObserved
from tidewright.events.base import Event, Fact, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    PatchObject,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.facts import (
    MetricSampled,
    ObjectFact,
    ShapeGone,
    ShapeObserved,
    TemplateObserved,
    WorkloadGone,
)
from tidewright.events.outcomes import Applied
from tidewright.events.shards import ShardSetObserved
from tidewright.events.spread import TargetReplicasObserved, WorkloadSpreadObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold import plan
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.order import Decided, Fold
from tidewright.kube.kinds import BY_NAME, KINDS, TEMPLATE, WatchedKind
from tidewright.kube.mergepatch import merged
from tidewright.kube.projection import workloads
from tidewright.kube.projection.reading import Malformed
from tidewright.log.envelope import Writer
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import ALL, Slot, Subjects
from tidewright.watcher.appender import MAX_SUBJECT_BYTES
from tidewright.watcher.custom_workloads import place_of
from tidewright.watcher.diff import Diff
from tidewright.watcher.labelscan import wanted
from tidewright.watcher.metric_queries import Wishes
from tidewright.watcher.scaled_workloads import target_kind
from tidewright.watcher.whitelisted import Whitelisted, kinds_of, target_of

NOW: Final = 1_795_946_400.0
"""2026-11-29 10:00 UTC, log time."""
CUSTOM_KIND: Final = "customworkload"
FANCY: Final = WatchedKind(
    group="example.com",
    version="v1",
    plural="fancies",
    kind="CustomWorkload",
    project=workloads.workload("example.com/v1", "Fancy", checked_template=False),
    gone=partial(WorkloadGone, api_version="example.com/v1", kind="Fancy"),
    once=TEMPLATE,
)
"""A whitelisted kind, as the watcher's part of custom workloads tells of its objects."""
SUBJECTS: Final = Subjects("test")
READS: Final = {name: load(SERVICES[name]) for name in DECIDERS}

QUERIES: Final = ("external/rps/app=web", "resource/cpu/app=web")

CONFIGS: Final[dict[str, tuple[JsonObject, ...]]] = {
    "provisioning": (
        {},
        {
            "profile": "hold",
            "foresight": "decisions",
            "consolidation": {"*": "underutilised"},
            "scale-down-unneeded-time": "10s",
            "scale-down-delay-after-add": "0s",
            "enable-provisioning-requests": True,
            "expander": "least-cost",
            "fair-share": True,
        },
        {
            "profile": "compat",
            "foresight": "workloads",
            "check-capacity-batch-processing": True,
            "scale-down-unneeded-time": "10s",
            "expander": "least-waste",
        },
    ),
    "autoscaler": ({}, {"strict": True}, {"walk_owner_chain": True, "enforce_bounds_without_metrics": True, "align_after_limits": True}),
    "spread": ({}, {"clean_up_deleted": True}),
    "shardmanager": (
        {
            "managers": [
                {
                    "namespace": NS,
                    "config": {
                        "manager": {
                            "pod-application": "propeller",
                            "pod-template-name": "propeller-template",
                            "pod-template-namespace": NS,
                            "pod-template-container-name": "main",
                            "shard": {"type": "Hash", "shard-count": 2},
                        }
                    },
                }
            ]
        },
    ),
}  # fmt: skip


MAX_BODY: Final = 2**21
"""Bytes of a decision; a server takes eight million."""
MOST_ROUNDS: Final = 1000
"""Events that may follow from one."""


def key_of(kind: str, obj: Any) -> tuple[str, str, str]:
    meta = obj["metadata"]
    return kind, meta.get("namespace") or "", meta["name"]


def token_of(kind: str, fact: Fact) -> str:
    """The kind in the subject of a fact."""
    watched = BY_NAME.get(kind)
    if isinstance(fact, ShapeObserved | ShapeGone):
        return "shape"
    if isinstance(fact, TemplateObserved):
        return "template"
    return watched.name if watched else kind


class Asking:
    """What the watcher makes of the objects that say what else is to be asked for."""

    def __init__(self) -> None:
        self.wishes, self.whitelisted = Wishes(), Whitelisted()

    def observe(self, fact: ObjectFact) -> None:
        self.wishes.observe(fact)
        self.whitelisted.observe(fact)
        match fact:
            case WatermarkPodAutoscalerObserved():
                target_kind(fact)
            case WorkloadSpreadObserved():
                place_of(fact, self.whitelisted.whitelist)
                target_of(fact)
                kinds_of(self.whitelisted.whitelist, [fact])
            case ShardSetObserved():
                if (want := wanted(fact)) is not None:
                    want.query  # noqa: B018  # made of what the object says


class World:
    """All deciders, each with one slot that has everything."""

    def __init__(self, folds: dict[str, Fold[Any]], diffs: dict[str, Diff], now: float) -> None:
        self.folds, self.diffs, self.now = folds, diffs, now
        self.seq = 10_000
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.generations: dict[tuple[str, str, str], int] = {}
        self._inbox: deque[tuple[str, Event]] = deque()
        self._busy = False
        self.decided = 0
        self.refused: list[str] = []
        self.asking = Asking()
        self.tallies = {name: f.decider.exposition.tally() for name, f in folds.items() if f.decider.exposition and f.decider.exposition.tally}  # fmt: skip

    # -- facts ---------------------------------------------------------------------------------------

    def see(self, kind: str, obj: Any) -> None:
        """An object as a watch shows it."""
        obj = self.objects[key_of(kind, obj)] = self._stored(kind, obj)
        try:
            facts = self.diffs[kind].seen(encoded(obj), self.now)
        except Malformed as error:
            self.refused.append(str(error))
            return
        self._say(kind, facts)

    def _stored(self, kind: str, obj: Any) -> Any:
        """As an API server stores it, which counts what is written of a spec."""
        key, meta = key_of(kind, obj), obj["metadata"]
        before = self.objects.get(key)
        if before is None or not isinstance(meta.get("generation"), int):
            return obj
        count = self.generations.get(key, meta["generation"])
        self.generations[key] = count + (before.get("spec") != obj.get("spec"))
        return {**obj, "metadata": {**meta, "generation": self.generations[key]}}

    def lose(self, kind: str, obj: Any) -> None:
        """An object is gone."""
        self.objects.pop(key_of(kind, obj), None)
        try:
            facts = self.diffs[kind].deleted(encoded(obj))
        except Malformed as error:
            self.refused.append(str(error))
            return
        self._say(kind, facts)

    def _say(self, kind: str, facts: list[Fact]) -> None:
        for fact in facts:
            stamped = msgspec.structs.replace(fact, at=self.now)
            token = token_of(kind, fact)
            subject = SUBJECTS.fact(
                ALL, token, getattr(fact, "namespace", ""), getattr(fact, "name", "") or "x"
            )
            if len(subject) > MAX_SUBJECT_BYTES:
                raise AssertionError(f"no subject: {subject[:200]}")
            self._inbox.append((token, stamped))
            if isinstance(stamped, ObjectFact):
                self.asking.observe(stamped)
        self._drain()

    def tell(self, token: str, event: Event) -> None:
        """One event onto the log, to all who read it; then what follows from what they decide."""
        self._inbox.append((token, event))
        self._drain()

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            self._go_on()
        finally:
            self._busy = False

    def _go_on(self) -> None:
        inbox, rounds = self._inbox, 0
        while inbox:
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise AssertionError("they go on and on about one event")
            token, event = inbox.popleft()
            body = registry.encode(event)
            read = registry.decode(body)
            if read != event:
                raise AssertionError(f"{event!r} is read back as {read!r}")
            self.seq += 1
            for name, fold in self.folds.items():
                if reads(fold.decider, token, read):
                    for decided in self.step(name, body, read):
                        inbox.extend(self._followed(name, decided))

    def step(self, name: str, body: bytes, event: Event) -> list[Decided]:
        fold = self.folds[name]
        decided = fold.step(self.seq, body, event)
        for entry in decided:
            self.decided += 1
            if registry.decode(entry.body) != entry.decision:
                raise AssertionError(f"{entry.decision!r} is not read back as it is")
            planned = plan.planned(
                SUBJECTS, fold.slot, WRITERS[name], entry, cause_seq=self.seq, cause={}, wall_of=lambda at: at, step_until=self.now + 3600.0
            )  # fmt: skip
            for message in (planned.message, planned.schedule, planned.entry):
                if message is not None:
                    if (
                        len(message.subject) > MAX_SUBJECT_BYTES
                        or not message.subject.isascii()
                        or " " in message.subject
                    ):
                        raise AssertionError(f"no subject: {message.subject[:200]}")
                    if len(message.body) > MAX_BODY:
                        raise AssertionError(
                            f"a decision of {len(message.body)} bytes: {type(entry.decision).__name__}"
                        )
        if name in self.tallies:
            self.tallies[name].take(fold.state, event, [entry.decision for entry in decided])
        return decided

    def _followed(self, name: str, decided: Decided) -> Iterator[tuple[str, Event]]:
        decision = decided.decision
        if isinstance(decision, ScaleWorkload):
            yield f"decision/{name}", decision
        if isinstance(decision, Effect) and not decision.shadow:
            result: JsonObject = {}
            if isinstance(decision, p.ResolvePod):
                result = {"template": self.model(decision), "replicas": 3}
            yield f"outcome/{name}", Applied(at=self.now, decision=decision.id, result=result)
            self._done(decision)

    def _done(self, effect: Effect) -> None:
        """What the watcher sees of it: objects that were made or deleted, and written statuses."""
        kind, target = effect.target.kind.lower(), effect.target
        key = kind, target.namespace, target.name
        match effect:
            case CreateObject(manifest=manifest) if kind in self.diffs and key not in self.objects:
                meta = {
                    **manifest["metadata"],
                    "uid": f"made-{self.seq}",
                    "name": target.name,
                    "namespace": target.namespace,
                }
                self.see(kind, {**manifest, "metadata": meta})
            case DeleteObject() if key in self.objects:
                self.lose(kind, self.objects[key])
            case SetStatus(status=status) if key in self.objects:
                self.see(
                    kind, {**self.objects[key], "status": merged(self.objects[key].get("status"), status)}
                )
            case PatchObject(patch=patch) if key in self.objects:
                self.see(kind, merged(self.objects[key], patch))

    def model(self, decision: p.ResolvePod) -> JsonObject:
        """What admission makes of the source's pods."""
        source = decision.source
        held = self.folds["provisioning"].state.templates.get(f"{source.namespace}/{source.name}")
        return held if source.kind == "PodTemplate" and held is not None else {"spec": {"containers": []}}

    # -- time ----------------------------------------------------------------------------------------

    def fire(self, count: int, within_s: float = 86_400.0) -> None:
        """The next timers fire."""
        end = self.now + within_s
        for _ in range(count):
            due = [
                (at, name, key) for name, f in self.folds.items() for key, at in f.timers.items() if at <= end
            ]
            if not due:
                return
            at, name, key = min(due)
            self.now = max(self.now, at)
            self.tell(f"timer/{name}", TimerFired(at=at, key=key))

    def sample(self, *values: int) -> None:
        """Metrics of what the valid autoscalers ask for, and whatever else is asked for."""
        for query in QUERIES:
            where = (
                {"series_milli": values}
                if query.startswith("external")
                else {"pods_milli": {f"web-{n}": v for n, v in enumerate(values)}}
            )
            self.tell(
                "metric", MetricSampled(at=self.now, namespace=NS, name=query, sampled_at=self.now, **where)
            )
        self.tell("recommendation", RecommendationReceived(at=self.now, namespace=NS, name="asks", target_replicas=values[0] // 1000))  # fmt: skip

    # -- what must hold ------------------------------------------------------------------------------

    def restart(self) -> None:
        """Each decider goes on from the bytes of its state, which say the same when they are written again."""
        for name, fold in self.folds.items():
            stored = snapshot_of(fold)
            resumed: Fold[Any] = Fold.resumed(fold.decider, stored)
            again = msgspec.json.encode(resumed.state)
            if msgspec.json.decode(again) != msgspec.json.decode(stored.state):
                raise AssertionError(f"the state of {name} is another once it was read back")
            self.folds[name] = resumed

    def series(self) -> None:
        """What would be told to Prometheus."""
        for name, fold in self.folds.items():
            if (exposition := fold.decider.exposition) is not None:
                lines = [*exposition.series(fold.state)]
                if name in self.tallies:
                    lines += self.tallies[name].series(fold.state)
                for line in lines:
                    int(line.value)


WRITERS: Final = {name: Writer(name) for name in DECIDERS}


def reads(decider: Decider[Any, Any], token: str, event: Event) -> bool:
    """Whether a decider is put an event, by where it lies."""
    what, _, service = token.partition("/")
    if what == "config":
        return True
    if what == "timer":
        return service == decider.service
    if what == "outcome":
        return service == decider.service or (
            service in SERVICES[decider.service].follows and bool(decider.outcomes_but)
        )
    if what == "decision":
        return service in SERVICES[decider.service].follows
    return what in decider.kinds


def snapshot_of(fold: Fold[Any]) -> Snapshot:
    taken = fold.snapshot(checkpoint_seq=1, position=fold.position)
    return msgspec.json.decode(msgspec.json.encode(taken), type=Snapshot)


def empty(config: int = 0) -> World:
    """Deciders that know of a cloud and of nothing else."""
    folds = {
        name: Fold(decider, ALL if SERVICES[name].partition == "cluster" else Slot("0"))
        for name, decider in READS.items()
    }
    diffs = {kind.name: Diff(kind) for kind in (*KINDS, FANCY)}
    made = World(folds, diffs, NOW)
    for name, configs in CONFIGS.items():
        made.tell("config", ConfigSet(at=NOW, name=name, data=configs[config % len(configs)]))
    made.tell(
        "cloud",
        p.CloudObserved(at=NOW, name="sim", kind="simulated", promise="key", state="ready", refreshed=NOW),
    )
    for number, zone in enumerate("ab"):
        template = p.TemplateNode(
            labels={ZONE: zone, "kubernetes.io/os": "linux", "size": "4", "tier": "g"},
            allocatable={"cpu": 4000, "memory": 16 * 2**30, "pods": 110, "example.com/foo": 8},
        )
        made.tell(
            "nodegroup",
            p.NodeGroupObserved(
                at=NOW, name=f"g{zone}", cloud="sim", max_size=12, target_size=1, template=template, price_micro=100_000,
                instances=(p.Instance(id=f"sim://n{number}", state="running"),),
            ),
        )  # fmt: skip
    made.tell("targetreplicas", TargetReplicasObserved(at=NOW, namespace=NS, name="web", replicas=3))
    return made


def fill(made: World, instead: dict[tuple[str, int], Any] | None = None) -> None:
    """All the objects, some of them others."""
    for kind, objects in OBJECTS.items():
        for number, obj in enumerate(objects):
            made.see(kind, (instead or {}).get((kind, number), obj))


@lru_cache(maxsize=8)
def _full(config: int) -> tuple[World, dict[str, Snapshot]]:
    made = empty(config)
    fill(made)
    made.sample(9000, 12_000)
    made.fire(30, 120.0)
    if made.refused:
        raise AssertionError(f"not valid: {made.refused}")
    return made, {name: snapshot_of(fold) for name, fold in made.folds.items()}


def full(config: int = 0) -> World:
    """Deciders that have known all the objects for a while."""
    known, stored = _full(config)
    folds = {name: Fold.resumed(READS[name], snapshot) for name, snapshot in stored.items()}
    made = World(folds, {name: _copied(diff) for name, diff in known.diffs.items()}, known.now)
    made.objects, made.generations = dict(known.objects), dict(known.generations)
    return made


def _copied(diff: Diff) -> Diff:
    made = Diff(diff.kind)
    made.objects, made.shapes = dict(diff.objects), dict(diff.shapes)
    made._pods = diff._pods.copy()
    return made
