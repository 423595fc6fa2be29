"""A propeller fleet (compat mode) as a fold: what is known of it, and what its passes left.

The original looks every `scan-interval`; here a pass also starts at once when something it would
judge differently has changed: the template, the configuration, a pod that failed or is gone. One
pass runs at a time; what changes meanwhile makes another one follow. What a pass is to do is judged
once, by `passes`, and stands here as its `BeginPass` said it.

Nothing of this is needed by the pods: when the manager dies they keep running.
"""

from __future__ import annotations

from copy import copy

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.facts import PodObserved
from tidewright.events.shards import BeginPass, RecordPass
from tidewright.shardmanager.propeller.config import ManagerConfig, ShardConfig, ShardType
from tidewright.shardmanager.propeller.fleet_config import FleetConfig
from tidewright.shardmanager.propeller.manager_lock import Lock, lock_for
from tidewright.shardmanager.propeller.pods import APP_LABEL, CONFIG_HASH, TEMPLATE_VERSION

DECISION = "tidewright.dev/decision"
"""The annotation that the actuator puts on what it makes for us."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A PodTemplate as it was last seen."""

    version: str
    template: JsonObject


class KnownPod(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pod that the manager may have to do with.

    Attributes:
        deleting_since: log time at which it was first seen to be on its way out, seconds.
        ours: made by this system, not by another manager.
        expected: made by us and not observed yet; forgotten when it does not appear.
        owners: its owner references, kept for the manager's own pod.
        args: arguments by container.
    """

    name: str
    uid: str = ""
    phase: str = "Pending"
    ready: bool = False
    ready_changed_at: float | None = None
    created_at: float | None = None
    deleting: bool = False
    deleting_since: float | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: list[JsonObject] = []
    args: dict[str, tuple[str, ...]] = {}
    ours: bool = False
    expected: bool = False

    @property
    def made_by_a_manager(self) -> bool:
        return TEMPLATE_VERSION in self.annotations and CONFIG_HASH in self.annotations


class Pass(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pass that deletes or creates, under way: as it was begun, and how its effects came out.

    Attributes:
        deletions: names of pods still to delete, in order; the first one is asked for.
        creations: indexes of shards whose creation is not answered.
        running: expected pods in phase Running when it began; adopted: those that were as they should be.
        foreign: pods that no manager made.
        refusals: why creations were refused, by index; refusal: why a deletion was, empty while none is.
        again: what a pass depends on has changed since it began.
        changed: pods that look otherwise since then.
    """

    deletions: list[str] = []
    creations: list[int] = []
    running: int = 0
    adopted: int = 0
    foreign: list[str] = []
    deleted: int = 0
    created: int = 0
    refusals: dict[int, str] = {}
    refusal: str = ""
    again: bool = False
    changed: list[str] = []

    def pod_changed(self, before: KnownPod | None, after: KnownPod | None) -> None:
        """Note the change of a pod of the fleet."""
        if before is None or after is None:
            self.again = True
        elif before.annotations != after.annotations or before.phase != after.phase:
            self.again = self.again or after.phase == "Failed"
            if after.name not in self.changed:
                self.changed.append(after.name)

    def deletion_answered(self, name: str, refusal: str) -> None:
        """How the deletion that was asked for came out."""
        if not self.deletions or self.deletions[0] != name:
            return
        if refusal:
            self.refusal = refusal
        else:
            del self.deletions[0]
            self.deleted += 1

    def creation_answered(self, index: int, refusal: str) -> None:
        """How one creation came out."""
        if self.deletions or index not in self.creations:
            return
        self.creations.remove(index)
        if refusal:
            self.refusals[index] = refusal
        else:
            self.created += 1


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was last recorded of a fleet's passes.

    Attributes:
        error: as it was recorded; pass_error: of the last pass, also while something else was recorded.
        standing_by: another manager may act, because the fleet's lock is not ours.
        refused: the last configuration is not acted upon.
        warnings: about the configuration.
    """

    created: int = 0
    deleted: int = 0
    running: int | None = None
    adopted: int = 0
    foreign: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    error: str = ""
    pass_error: str = ""
    standing_by: bool = False
    refused: bool = False
    warnings: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether an entry of the configuration is acted upon.

    Attributes:
        refused: why it is not, empty when it is.
        warnings: what is odd about it.
    """

    refused: str = ""
    warnings: tuple[str, ...] = ()


class OtherMaker(msgspec.Struct, frozen=True):
    """The last pod that another manager made with one configuration, and the log time at which it was first seen."""

    pod: str
    at: float


class Fleet(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One configuration of the original's manager, at work.

    A configuration is in force as it comes. A record that it is refused puts the one before back; what comes after
    that is in force when a record says that it is not refused.

    Attributes:
        config, namespace, manager_pod, metrics_prefix: as the entry that is in force says: how pods are made, where, the
            manager's own pod (whose owner references the shards inherit; empty: none), and how the original's series begin.
        entry: that is in force, as it is configured.
        asked: the last entry, where it is not in force; None where it is.
        void: nothing is in force, because the first entry was refused.
        former: as the fleet was under the entry before, until something is recorded that follows from the present one.
        judged: what a version of before made of the entry, which is not known; None where it is.
        doubled: how many further entries there are for this fleet.
        resized_from: the number of hash shards before the last change of it; 0: there was none.
        current: the pass under way; None where none deletes or creates.
        scan_due: the timer for the next pass; None while none is set.
        scanned: a pass has ended.
        drifted: pods of others that were told other things than this configuration says, as last judged.
        recorded: what was last recorded; None before anything was.
        local: the fleet's namespace belongs to this slot, because its template was seen here.
        rival: pod that another manager with another configuration has made while this one runs; while
            that goes on nothing is written, or the two would undo each other for ever.
        other_makers: who else has made pods of the fleet, by the hash of the configuration.
        lock: of the manager; None when its configuration does not elect.
    """

    config: ManagerConfig
    namespace: str
    manager_pod: str = ""
    entry: JsonObject = {}
    asked: JsonObject | None = None
    void: bool = False
    former: Fleet | None = None
    judged: Verdict | None = None
    doubled: int = 0
    resized_from: int = 0
    current: Pass | None = None
    scan_due: float | None = None
    scanned: bool = False
    drifted: list[str] = []
    recorded: Recorded | None = None
    local: bool = False
    metrics_prefix: str = "kozmo"
    rival: str = ""
    other_makers: dict[str, OtherMaker] = {}
    lock: Lock | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.config.pod_application}"

    @property
    def template_key(self) -> str:
        return f"{self.config.pod_template_namespace}/{self.config.pod_template_name}"

    @property
    def last_entry(self) -> JsonObject:
        """The entry that was configured last, in force or not."""
        return self.entry if self.asked is None else self.asked

    def take(self, read: FleetConfig, at: float) -> bool:
        """An entry is in force from a log time on. True when it asks for something else than the one before."""
        before, after = _hashed(self.config.shard), _hashed(read.config.shard)
        self.resized_from = before if 0 not in (before, after) and before != after else 0
        lock = lock_for(read.election, self.key, at)
        elects = (self.lock and self.lock.election) != (lock and lock.election)
        if elects:
            self.lock = lock
        changed = elects or (self.config, self.manager_pod, self.void) != (
            read.config,
            read.manager_pod,
            False,
        )
        self.config, self.manager_pod, self.metrics_prefix = (
            read.config,
            read.manager_pod,
            read.metrics_prefix,
        )
        self.entry, self.asked, self.void, self.judged = read.entry, None, False, None
        if changed:
            # Indexes of the pass under way may mean other pods now: what it asked for is answered to nobody.
            self.current, self.rival = None, ""
            self.other_makers = {}
        return changed

    def put_back(self) -> Fleet:
        """The fleet when its entry is refused: as it was under the one before, or with nothing in force."""
        fleet = copy(self if self.former is None else self.former)
        fleet.asked, fleet.void, fleet.former = self.entry, self.former is None, None
        fleet.judged = self.judged
        fleet.doubled, fleet.resized_from = self.doubled, 0
        return fleet

    def leads(self, now: float) -> bool:
        """Whether no other manager may act on this fleet now."""
        return self.lock is None or self.lock.leads(now)

    def has(self, pod: KnownPod | None) -> bool:
        """Whether a pod carries the application's label."""
        return pod is not None and pod.labels.get(APP_LABEL) == self.config.pod_application

    def pods_of(self, pods: dict[str, KnownPod]) -> list[KnownPod]:
        """The pods with the application's label, by name: the order in which the API lists them."""
        return [pods[name] for name in sorted(pods) if self.has(pods[name])]

    def pod_changed(self, before: KnownPod | None, after: KnownPod | None, now: float) -> None:
        """Note the change of a pod of the fleet."""
        if self.current is not None:
            self.current.pod_changed(before, after)
        new = after is not None and (before is None or before.uid not in ("", after.uid))
        if after is not None and new and after.made_by_a_manager and not after.ours and not after.deleting:
            self.other_makers[after.annotations[CONFIG_HASH]] = OtherMaker(after.name, now)

    def begun(self, event: BeginPass) -> None:
        """A pass has begun."""
        self.former = None
        self.current = Pass(
            deletions=list(event.deletions),
            creations=list(event.creations),
            running=event.running,
            adopted=event.adopted,
            foreign=list(event.foreign),
        )
        self.drifted = list(event.drifted)

    def scan_set(self, due: float) -> None:
        """The timer for the next pass is set: none is under way."""
        self.former = None
        self.scan_due = due
        self.scanned = self.scanned or not self.rival
        self.current = None

    def was_recorded(self, event: RecordPass) -> None:
        """What is known of the passes was recorded."""
        self.former = None
        aside = bool(event.standing_by or event.rival or self.void)
        before = self.recorded.pass_error if self.recorded is not None else ""
        self.recorded = recorded(event, before if aside else event.error)
        self.rival, self.drifted = event.rival, list(event.drifted)
        if event.standing_by or event.rival:
            self.current = None  # another manager may act from now on: what is under way ends here


def recorded(event: RecordPass, pass_error: str = "") -> Recorded:
    """What a record says."""
    return Recorded(
        created=event.created,
        deleted=event.deleted,
        running=event.running,
        adopted=event.adopted,
        foreign=event.foreign,
        drifted=event.drifted,
        error=event.error,
        pass_error=pass_error,
        standing_by=event.standing_by,
        refused=event.refused,
        warnings=tuple(str(reason.values.get("message", "")) for reason in event.because),
    )


def _hashed(shard: ShardConfig) -> int:
    return shard.pod_count if shard.type is ShardType.HASH else 0


def known(event: PodObserved) -> KnownPod:
    """What is kept of a pod."""
    kept = {
        k: v for k, v in event.annotations.items() if k in (TEMPLATE_VERSION, CONFIG_HASH) or "shards." in k
    }
    return KnownPod(
        name=event.name,
        uid=event.uid,
        phase=event.phase,
        ready=bool(event.ready),
        ready_changed_at=event.ready_changed_at,
        created_at=event.created_at,
        deleting=event.deleting_at is not None,
        labels=event.labels,
        annotations=kept,
        args=event.args,
        ours=DECISION in event.annotations,
        owners=[
            {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "uid": o.uid} for o in event.owners
        ],
    )
