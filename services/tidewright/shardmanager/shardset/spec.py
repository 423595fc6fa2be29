"""A ShardSet's spec (section 3.1): read, with defaults, and with everything that is wrong with it.

parsed          what it says, and what of it cannot be read: the fold keeps that
spec_problems   the rules that what it says breaks: asked by who acts upon it
read_spec       both, for who has nothing but the spec
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.sharding.keyspace import HASHES, HashName, useful_counts, valid_slots
from tidewright.sharding.lease import LeaseTimes
from tidewright.sharding.source import FIELDS, Source, source_of, unknown_fields
from tidewright.shardmanager.propeller.config import ShardMapping
from tidewright.shardmanager.shardset import mapping
from tidewright.shardmanager.shardset.assignment.autosize import Limits, exact
from tidewright.shardmanager.shardset.assignment.handover import HandoverTimes
from tidewright.shardmanager.shardset.pods.inject import (
    MAX_SELECTOR_SLOTS,
    ORDINAL_DRIVEN,
    SELECTOR_DRIVEN,
    Injector,
)
from tidewright.shardmanager.shardset.spec_reader import Problem, SpecReader

GROUP = "shards.tidewright.dev"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "ShardSet"
MEMBER_KIND = "ShardMember"
SET_LABEL = f"{GROUP}/set"
INDEX_LABEL = f"{GROUP}/index"
SLOTS_ANNOTATION = f"{GROUP}/slots"
VALUES_ANNOTATION = f"{GROUP}/values"
GENERATION_ANNOTATION = f"{GROUP}/generation"
DEFAULT_SLOT_LABEL = f"{GROUP}/slot"


class Driver(StrEnum):
    """Who starts the workers."""

    PODS = "pods"
    STATEFULSET = "statefulset"
    EXTERNAL = "external"


class Strategy(StrEnum):
    """How slots are given to members."""

    STICKY = "sticky"
    RANGES = "ranges"
    MAPPING = "mapping"


class Mode(StrEnum):
    """How a slot changes its owner."""

    DRAIN = "drain"
    GATE = "gate"
    RESTART = "restart"


class AutosizeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and target of auto-sizing; `capacity` in busy seconds per 100 seconds of a shard by default.

    `wait_objective_s` is that of the p99 queue wait, 0 for none.
    """

    limits: Limits
    capacity: float = 100.0
    target: float = 0.7
    wait_objective_s: float = 0.0


class CanaryAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """How much worse than the others a canary may be, by ratio, and for how long it is looked at, seconds."""

    period_s: float = 60.0
    error_ratio: float = 1.5
    wait_ratio: float = 1.5
    backlog_ratio: float = 2.0


class SetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A ShardSet's spec as the manager works with it. Times in seconds.

    `mode` is the one that is asked for, see `handover`; `sources` are the keys of the source that are given.
    With the strategy `mapping` a slot is a shard: `slots` and `replicas` are the number of `per_shard`.
    """

    slots: int = 1024
    hash: HashName = "blake2b64"
    slot_label: str = DEFAULT_SLOT_LABEL
    sources: tuple[str, ...] = ()
    objects: Source = Source()
    driver: Driver = Driver.EXTERNAL
    template: str = ""
    container: str = ""
    injector: Injector = Injector.DYNAMIC
    flag: str = ""
    elects: bool = False
    lock_flag: str = ""
    names: tuple[str, ...] = ()
    replicas: int = 1
    weights: dict[str, int] = {}
    strategy: Strategy = Strategy.STICKY
    label: str = ""
    per_shard: tuple[ShardMapping, ...] = ()
    pins: dict[int, str] = {}
    moves: dict[int, str] = {}
    leaving: frozenset[str] = frozenset()
    frozen: bool = False
    mode: Mode = Mode.DRAIN
    times: HandoverTimes = HandoverTimes()
    fence_after_s: float = 300.0
    force_delete: bool = False
    lease: LeaseTimes = LeaseTimes()
    rebalance_interval_s: float = 30.0
    theta_percent: float = 15.0
    max_moves: int = 8
    cooldown_s: float = 600.0
    max_unavailable: int = 1
    min_ready_s: float = 10.0
    progress_deadline_s: float = 600.0
    canary: int = 0
    approved: bool = False
    paused: bool = False
    undo: bool = False
    rollback_auto: bool = False
    resumes: int = 0
    autosize: AutosizeSpec | None = None
    analysis: CanaryAnalysis | None = None

    @property
    def theta(self) -> Fraction:
        return exact(self.theta_percent) / 100

    @property
    def handover(self) -> Mode:
        """How a slot changes its owner: as asked for, but where gate mode cannot be had."""
        return Mode.RESTART if self.gate_refused else self.mode

    @property
    def gate_refused(self) -> str:
        """Why gate mode is asked for and cannot be had; empty when it can, or is not."""
        return _ungated(self) if self.mode is Mode.GATE else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What is worth a notice, and no trouble."""
        return mapping.notices(self.label, self.per_shard) if self.mapped else ()

    @property
    def mapped(self) -> bool:
        """Whether shards have values of a label that objects carry anyway, and no slots of a hash."""
        return self.strategy is Strategy.MAPPING

    @property
    def labels_objects(self) -> bool:
        """Whether workers go by a label on the objects, which is then ours to write."""
        return self.injector in SELECTOR_DRIVEN and bool(self.objects.kind)

    @property
    def dynamic(self) -> bool:
        """Whether the workers follow the assignment themselves."""
        return self.injector is Injector.DYNAMIC


def read_spec(spec: JsonObject) -> tuple[SetSpec, list[Problem]]:
    """A stored spec; with problems nothing of it is acted upon."""
    result, unread = parsed(spec)
    return result, [*unread, *spec_problems(result)]


def parsed(spec: JsonObject) -> tuple[SetSpec, list[Problem]]:
    """What a stored spec says, and what of it cannot be read; defaults stand there."""
    reader = SpecReader()
    keyspace = reader.section(spec, "keyspace", ("slots", "hash", "slotLabel"))
    source = reader.section(spec, "source", ("customResource", "eventStream", "labels"))
    workers = reader.section(
        spec,
        "workers",
        (
            "driver",
            "template",
            "injector",
            "flag",
            "names",
            "leaderElection",
            "lockFlag",
            "replicas",
            "weights",
            "drain",
        ),
    )
    template = reader.section(workers, "template", ("name", "container"), "workers.")
    if "labels" in source:
        reader.section(source, "labels", ("label",), "source.")
    assignment = reader.section(spec, "assignment", ("strategy", "pins", "moves", "perShard", "frozen"))
    handover = reader.section(
        spec,
        "handover",
        (
            "mode",
            "prepareTimeout",
            "drainTimeout",
            "drainHardTimeout",
            "maxConcurrentSlots",
            "fenceAfter",
            "allowForceDelete",
        ),
    )
    lease = reader.section(
        spec, "membership", ("leaseDuration", "renewInterval", "safetyMargin", "skewMargin")
    )
    rebalance = reader.section(spec, "rebalance", ("interval", "theta", "maxMoves", "cooldown"))
    rollout = reader.section(
        spec,
        "rollout",
        (
            "maxUnavailable",
            "minReady",
            "progressDeadline",
            "canary",
            "canaryAnalysis",
            "approved",
            "paused",
            "undo",
            "rollback",
            "resumes",
        ),
    )
    default = SetSpec()
    strategy = Strategy(reader.choice(assignment, "assignment.strategy", Strategy.STICKY, tuple(Strategy)))
    label, per_shard = mapping.read(reader, source, assignment, used=strategy is Strategy.MAPPING)
    shards = {"slots": len(per_shard), "replicas": len(per_shard)} if per_shard else {}
    slots = shards.get("slots") or reader.integer(keyspace, "keyspace.slots", default.slots)
    replicas = reader.integer(workers, "workers.replicas", shards.get("replicas", default.replicas), least=0)
    everything = rollout.get("maxUnavailable") == "all"
    result = SetSpec(
        slots=slots,
        hash=reader.choice(keyspace, "keyspace.hash", default.hash, HASHES),
        slot_label=reader.text(keyspace, "keyspace.slotLabel", DEFAULT_SLOT_LABEL),
        sources=tuple(source),
        objects=source_of(spec),
        driver=Driver(reader.choice(workers, "workers.driver", Driver.EXTERNAL, tuple(Driver))),
        template=reader.text(template, "workers.template.name", ""),
        container=reader.text(template, "workers.template.container", ""),
        injector=Injector(reader.choice(workers, "workers.injector", Injector.DYNAMIC, tuple(Injector))),
        flag=reader.text(workers, "workers.flag", ""),
        elects=reader.boolean(workers, "workers.leaderElection"),
        lock_flag=reader.text(workers, "workers.lockFlag", ""),
        names=tuple(reader.texts(workers, "workers.names")),
        replicas=replicas,
        weights=reader.weights(workers, "workers.weights"),
        strategy=strategy,
        label=label,
        per_shard=per_shard,
        pins=reader.pins(assignment, "assignment.pins", slots),
        moves=reader.pins(assignment, "assignment.moves", slots),
        leaving=frozenset(reader.texts(workers, "workers.drain")),
        frozen=reader.boolean(assignment, "assignment.frozen"),
        mode=Mode(reader.choice(handover, "handover.mode", Mode.DRAIN, tuple(Mode))),
        times=HandoverTimes(
            prepare_timeout_s=reader.seconds(handover, "handover.prepareTimeout", 60.0),
            drain_timeout_s=reader.seconds(handover, "handover.drainTimeout", 20.0),
            drain_hard_timeout_s=reader.seconds(handover, "handover.drainHardTimeout", 60.0),
            max_concurrent=reader.integer(handover, "handover.maxConcurrentSlots", 64),
        ),
        fence_after_s=reader.seconds(handover, "handover.fenceAfter", 300.0),
        force_delete=reader.boolean(handover, "handover.allowForceDelete"),
        lease=LeaseTimes(
            duration_s=reader.seconds(lease, "membership.leaseDuration", 15.0),
            renew_interval_s=reader.seconds(lease, "membership.renewInterval", 5.0),
            safety_margin_s=reader.seconds(lease, "membership.safetyMargin", 3.0),
            skew_margin_s=reader.seconds(lease, "membership.skewMargin", 2.0),
        ),
        rebalance_interval_s=reader.seconds(rebalance, "rebalance.interval", 30.0),
        theta_percent=reader.number(rebalance, "rebalance.theta", 0.15) * 100,
        max_moves=reader.integer(rebalance, "rebalance.maxMoves", 8, least=0),
        cooldown_s=reader.seconds(rebalance, "rebalance.cooldown", 600.0),
        max_unavailable=max(1, replicas)
        if everything
        else reader.integer(rollout, "rollout.maxUnavailable", 1),
        min_ready_s=reader.seconds(rollout, "rollout.minReady", 10.0),
        progress_deadline_s=reader.seconds(rollout, "rollout.progressDeadline", 600.0),
        canary=reader.integer(rollout, "rollout.canary", 0, least=0),
        approved=reader.boolean(rollout, "rollout.approved"),
        paused=reader.boolean(rollout, "rollout.paused"),
        undo=reader.boolean(rollout, "rollout.undo"),
        rollback_auto=reader.choice(rollout, "rollout.rollback", "manual", ("manual", "auto")) == "auto",
        resumes=reader.integer(rollout, "rollout.resumes", 0, least=0),
        autosize=_autosize(reader, spec, slots),
        analysis=_analysis(reader, rollout),
    )
    reader.known(
        spec,
        "",
        (
            "keyspace",
            "source",
            "workers",
            "assignment",
            "handover",
            "membership",
            "rebalance",
            "rollout",
            "autosize",
        ),
    )
    if isinstance(source.get("customResource"), Mapping):
        names = ("group", "kind", "resource", "key", "selector", "allNamespaces")
        reader.known(source["customResource"], "source.customResource.", names)
        if not result.objects.kind:
            reader.refuse("source.customResource.kind", "is missing: expected the kind of the objects")
    return result, reader.problems


def _ungated(spec: SetSpec) -> str:
    """Why gate mode cannot be had, and shards are restarted one at a time instead; empty when it can."""
    if not spec.elects:
        return (
            "spec.handover.mode is gate and spec.workers.leaderElection is not true: workers that do not elect would "
            "not wait for a lock, so shards are restarted one at a time"
        )
    if spec.injector is not Injector.PROPELLER and not spec.lock_flag:
        return (
            f"spec.handover.mode is gate and spec.workers.lockFlag is missing: with the injector {spec.injector.value} "
            "nothing tells a worker its lock, so shards are restarted one at a time"
        )
    return ""


def _autosize(reader: SpecReader, spec: JsonObject, slots: int) -> AutosizeSpec | None:
    if spec.get("autosize") is None:
        return None
    section = reader.section(
        spec, "autosize", ("min", "max", "signal", "capacity", "target", "queueWaitObjective")
    )
    least, most = reader.integer(section, "autosize.min", 1), reader.integer(section, "autosize.max", 16)
    reader.choice(section, "autosize.signal", "busy", ("busy",))
    target = reader.number(section, "autosize.target", 0.7)
    useful = tuple(useful_counts(slots)) if slots == 32 else ()
    limits = Limits(minimum=least, maximum=most, useful=useful)
    return AutosizeSpec(
        limits=limits,
        capacity=reader.number(section, "autosize.capacity", 100.0),
        target=target,
        wait_objective_s=reader.seconds(section, "autosize.queueWaitObjective", 0.0),
    )


def _analysis(reader: SpecReader, rollout: Mapping[str, Any]) -> CanaryAnalysis | None:
    if rollout.get("canaryAnalysis") is None:
        return None
    path, default = "rollout.canaryAnalysis", CanaryAnalysis()
    section = reader.section(
        rollout,
        "canaryAnalysis",
        ("period", "maxErrorRatio", "maxQueueWaitRatio", "maxBacklogRatio"),
        "rollout.",
    )
    return CanaryAnalysis(
        period_s=reader.seconds(section, f"{path}.period", default.period_s),
        error_ratio=reader.number(section, f"{path}.maxErrorRatio", default.error_ratio),
        wait_ratio=reader.number(section, f"{path}.maxQueueWaitRatio", default.wait_ratio),
        backlog_ratio=reader.number(section, f"{path}.maxBacklogRatio", default.backlog_ratio),
    )


def spec_problems(spec: SetSpec) -> list[Problem]:  # noqa: C901  # one rule after the other
    """The rules that a spec breaks by what it says."""
    reader = SpecReader()
    if spec.autosize is not None:
        _judge_autosize(reader, spec.autosize)
    if spec.analysis is not None and not spec.canary:
        message = "is given without rollout.canary: expected the number of shards to look at"
        reader.refuse("rollout.canaryAnalysis", message)
    if spec.replicas > mapping.MOST_SHARDS:
        reader.refuse("workers.replicas", f"is {spec.replicas}: expected {mapping.MOST_SHARDS} at most")
    if spec.mapped:
        mapping.judge(reader, spec)
    elif not valid_slots(spec.slots):
        reader.refuse("keyspace.slots", f"is {spec.slots}: expected a power of two from 32 to 32768")
    if spec.injector in SELECTOR_DRIVEN and spec.slots > MAX_SELECTOR_SLOTS:
        reader.refuse(
            "keyspace.slots",
            f"is {spec.slots} with the injector {spec.injector.value}: expected at most {MAX_SELECTOR_SLOTS}, "
            "because each slot is a value of a list filter",
        )
    if unknown := unknown_fields(spec.objects.key):
        reader.refuse(
            "source.customResource.key",
            f"has {{{unknown[0]}}}: expected fields of {', '.join(f'{{{name}}}' for name in FIELDS)}",
        )
    if len(spec.sources) > 1:
        reader.refuse("source", f"has {', '.join(sorted(spec.sources))}: expected one of them")
    if spec.driver is Driver.STATEFULSET and not spec.template:
        reader.refuse("workers.template", "has no name: the driver statefulset needs that of the StatefulSet")
    if not spec.dynamic and (spec.pins or spec.moves):
        field = "pins" if spec.pins else "moves"
        reader.refuse(
            f"assignment.{field}",
            f"is given with the injector {spec.injector.value}: these workers are told their slots as they start, "
            "expected the injector dynamic",
        )
    if spec.driver is Driver.PODS and not (spec.template and spec.container):
        reader.refuse("workers.template", "has no name or no container: the driver pods needs both")
    if spec.driver is not Driver.PODS and not spec.dynamic:
        reader.refuse(
            "workers.injector", f"is {spec.injector.value}: only the driver pods can inject, expected dynamic"
        )
    if spec.injector in ORDINAL_DRIVEN and spec.strategy is not Strategy.RANGES:
        reader.refuse(
            "assignment.strategy",
            f"is {spec.strategy.value}: with {spec.injector.value} the worker's own formula rules, expected ranges",
        )
    if spec.injector is Injector.ORDINAL_ENV and len(spec.names) not in (0, 2):
        reader.refuse("workers.names", f"has {len(spec.names)} names: expected two, the number and the total")
    if "labels" in spec.sources and not spec.mapped:
        reader.refuse(
            "assignment.strategy",
            f"is {spec.strategy.value} with source.labels: expected mapping, which gives values of a label to shards",
        )
    if spec.mode is Mode.DRAIN and not spec.dynamic:
        reader.refuse(
            "handover.mode",
            f"is drain with the injector {spec.injector.value}: expected restart, "
            "because only dynamic workers can drain a slot",
        )
    if spec.mode is Mode.GATE and spec.dynamic:
        reader.refuse(
            "handover.mode", "is gate with the injector dynamic: expected drain, these workers hand over"
        )
    lease = spec.lease
    if lease.safety_margin_s + lease.renew_interval_s >= lease.duration_s:
        reader.refuse(
            "membership.leaseDuration",
            f"is {lease.duration_s:g} s: expected more than renewInterval and safetyMargin together "
            f"({lease.renew_interval_s + lease.safety_margin_s:g} s), or a member stops between renewals",
        )
    if spec.times.drain_hard_timeout_s < spec.times.drain_timeout_s:
        reader.refuse("handover.drainHardTimeout", "is shorter than handover.drainTimeout")
    return reader.problems


def _judge_autosize(reader: SpecReader, autosize: AutosizeSpec) -> None:
    least, most, target = autosize.limits.minimum, autosize.limits.maximum, autosize.target
    if most > mapping.MOST_SHARDS:
        reader.refuse("autosize.max", f"is {most}: expected {mapping.MOST_SHARDS} at most")
    if least > most:
        reader.refuse("autosize.max", f"is {most}: expected at least autosize.min ({least})")
    if not 0 < target <= 1:
        reader.refuse("autosize.target", f"is {target}: expected a share above 0 and at most 1")
