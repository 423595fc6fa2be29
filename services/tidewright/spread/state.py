"""What the decider remembers: pods, workloads, nodes, and per spread what follows from them.

    Row          one pod, compactly: 20,000 of them are a normal spread
    Workload     anything that owns pods or owns their owners
    SpreadState  one spread: its rules, its ledger, its pods, what was last written
    Settings     the service's part of the configuration
    State        one slot

Owners are resolved here, from ownerReferences as facts carry them, whatever arrives first: a pod whose
owners do not (yet) lead to a target waits among the strays of its controller.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from tidewright.events.acting import Acting
from tidewright.events.base import JsonObject
from tidewright.events.facts import Owner as OwnerReference
from tidewright.events.facts import PodObserved
from tidewright.kube.customworkloads import GroupKind, Whitelist
from tidewright.kube.podapi.nodeterms import Node
from tidewright.kube.workloadspreads.placements import Placement
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, Spread
from tidewright.spread.ledger.ledger import Ledger, count_of
from tidewright.spread.match.pods import VERSION_IGNORED, revision_of

TIMER = "spread/"
"""Begins the keys of timers."""
DELETING, READY, UNSCHEDULABLE, HELD, CALLED, ADOPTING = 1, 2, 4, 8, 16, 32
"""Flags of a row. HELD: its place is counted in the ledger. CALLED: its deletion was decided. ADOPTING: it was
decided to annotate it, and that was not seen yet."""

LIMIT_VALID = "LimitValid"
"""A condition of ours: False where a stored limit is no number, and offers no slot [Q-2]."""

_PHASES = ("Pending", "Unknown", "Running", "Succeeded", "Failed")
_FIRST_FINISHED = 3
_PACKED_BYTES = 16
_DASHES = (8, 13, 18, 23)


class Row(msgspec.Struct, gc=False, omit_defaults=True):
    """One pod. Texts that many pods share are one object.

    Attributes:
        uid: packed, see `pack_uid`.
        owner: uid of its controller; without one, of its first owner.
        kind: of its controller, in lower case; "" without one.
        revision: of its template, as its labels say. Whether that is a version of its own, `versions` judges.
        placed_by: the spread whose annotation it carries, "" without one.
        subset: the subset that it names; one that the spec does not have is no subset.
        phase: index into the API's phases.
        ready_at: while it is ready.
        cost: the deletion cost annotation as it is.
        asked: the deletion cost that was decided last, "" for none.
    """

    name: str
    uid: bytes = b""
    labels: dict[str, str] = {}
    shape: str = ""
    owner: str = ""
    kind: str = ""
    revision: str = ""
    placed_by: str = ""
    subset: str = ""
    node: str = ""
    phase: int = 0
    flags: int = 0
    ready_at: float | None = None
    created_at: float | None = None
    restarts: int = 0
    sidecar_restarts: int = 0
    cost: str = ""
    asked: str = ""

    @property
    def active(self) -> bool:
        return not self.flags & DELETING and self.phase < _FIRST_FINISHED

    @property
    def held(self) -> bool:
        return bool(self.flags & HELD)

    @property
    def waiting(self) -> bool:
        """Pending, on no node, refused by the scheduler."""
        return self.flags & (UNSCHEDULABLE | DELETING) == UNSCHEDULABLE and self.phase == 0 and not self.node

    def leaving_order(self) -> tuple[bool, int, bool, float, int, int, float, str]:
        """Sort key: pods of a subset that are cheapest to lose come first (specification, 3.6); by name in the end,
        so that the order never depends on arrival.
        """
        ready = bool(self.flags & READY)
        return (
            self.node != "",
            self.phase,
            ready,
            -(self.ready_at if self.ready_at is not None else 2.0**62) if ready else 0.0,
            -self.restarts,
            -self.sidecar_restarts,
            -(self.created_at if self.created_at is not None else 2.0**62),
            self.name,
        )


def pack_uid(uid: str) -> bytes:
    """A uid in 16 bytes when it is one of the usual form, else as text."""
    if len(uid) == 36 and all(uid[i] == "-" for i in _DASHES):
        try:
            return bytes.fromhex(uid.replace("-", ""))
        except ValueError:
            pass
    text = b"=" + uid.encode() if uid else b""
    return text + b"\0" if len(text) == _PACKED_BYTES else text  # that length is for packed ones alone


def unpack_uid(packed: bytes) -> str:
    """The uid that `pack_uid` packed."""
    if len(packed) != _PACKED_BYTES:
        return packed[1:].removesuffix(b"\0").decode(errors="replace")
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def owner_of(fact: PodObserved) -> OwnerReference | None:
    """A pod's controller; without one, its first owner."""
    return next((o for o in fact.owners if o.controller), fact.owners[0] if fact.owners else None)


def row_of(fact: PodObserved, labels: dict[str, str], placement: Placement | None) -> Row:
    """A row of a pod's fact, and the placement in its annotation. `labels` is the shared copy of its labels."""
    intern = sys.intern
    above = owner_of(fact)
    flags = DELETING if fact.deleting_at is not None else 0
    if fact.ready:
        flags |= READY
    if fact.unschedulable_since is not None:
        flags |= UNSCHEDULABLE
    return Row(
        name=fact.name,
        uid=pack_uid(fact.uid),
        labels=labels,
        shape=intern(fact.shape),
        owner=intern(above.uid) if above is not None else "",
        kind=intern(above.kind.lower()) if above is not None and above.controller else "",
        revision=intern(revision_of(labels)),
        placed_by=intern(placement.name) if placement is not None else "",
        subset=intern(placement.subset) if placement is not None else "",
        node=intern(fact.node),
        phase=_PHASES.index(fact.phase) if fact.phase in _PHASES else 0,
        flags=flags,
        ready_at=fact.ready_changed_at if fact.ready else None,
        created_at=fact.created_at,
        restarts=fact.restarts,
        sidecar_restarts=fact.sidecar_restarts,
        cost=intern(fact.annotations.get(DELETION_COST_ANNOTATION, "")),
    )


class Workload(msgspec.Struct):
    """An object that owns pods, or owns their owners.

    Attributes:
        owner: uid of its controller.
        selector: of a custom workload's scale, in text form; "" without one.
        pods: how many pods it owns itself.
        seen: False while the owner references of its pods are all that is known of it.
    """

    kind: GroupKind
    name: str
    uid: str
    namespace: str = ""
    replicas: int = 0
    revision: str = ""
    template_hash: str = ""
    owner: str = ""
    deleting: bool = False
    selector: str = ""
    pods: int = 0
    seen: bool = True


class Condition(msgspec.Struct, frozen=True):
    """Condition `Schedulable`: whether the subset takes pods in Adaptive; `at` is its last transition."""

    open: bool
    at: float


class SpreadState(msgspec.Struct):
    """One spread.

    Attributes:
        spec: as stored; the rules on the ledger carry it to admission.
        spread: the same, typed; None when it cannot be read (`invalid` says why).
        pods: the target's pods that the filter selects, by name.
        active: active pods per kind of controller, revision and subset; "" is no subset.
        conditions: subset to its Schedulable condition, while rescheduling is on; shared by all
            versions [Q-14].
        waiting: pods that the scheduler refuses, with the time they were created.
        awaited: id of a decision about a pod, whose outcome is not known yet, to the pod.
        adopting: the same for decisions to adopt one.
        status: as last decided, and when.
        due: due time of its timer, None when none is set.
        target_uid: the target, "" while there is none.
        latest: revision of the target's current template.
        path_replicas: the target's replicas as paths give them; None when they do not override. While
            they cannot be read, the last ones hold.
        path_fault: why they cannot be read now.
        recount: pods went elsewhere without giving their places back one by one.
        brought_back_at: when a pod was last evicted to go to an earlier subset.
        recorded: what was last recorded about it that changes nothing outside.
        fault_since: subset to the time since when its stored limit is known to be no number.
        fail_open_since: since when it fails open; 0 while it does not.
        unfenced_at: when a pod was last placed without the log; 0 for never.
        foreseen: replicas of the scale-in that was foreseen last; -1 since the target wants more again.
        foreseen_at: when that was.
        mode: the mode that its annotation asks for; empty without one.
        created_at: when it was made, by the API server's clock; 0 for one that an earlier version folded.
        taken_by: name of an older spread that has its target and may select the same pods, so that it has none;
            "" for none.
        taken_since: since when that is so; 0 while it is not.
    """

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    spec: JsonObject = {}
    spread: Spread | None = None
    invalid: str = ""
    fail_open: bool = False
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    pods: dict[str, Row] = {}
    active: dict[str, dict[str, dict[str, int]]] = {}
    conditions: dict[str, Condition] = {}
    waiting: dict[str, float] = {}
    awaited: dict[str, str] = {}
    adopting: dict[str, str] = {}
    status: JsonObject | None = None
    status_at: float = 0.0
    due: float | None = None
    target_uid: str = ""
    latest: str = VERSION_IGNORED
    path_replicas: int | None = None
    path_fault: str = ""
    recount: bool = False
    brought_back_at: float = 0.0
    recorded: str = ""
    fault_since: dict[str, float] = {}
    foreseen: int = -1
    foreseen_at: float = 0.0
    fail_open_since: float = 0.0
    unfenced_at: float = 0.0
    mode: str = ""
    created_at: float = 0.0
    taken_by: str = ""
    taken_since: float = 0.0

    def count(self, row: Row, by: int) -> None:
        """Count an active pod in or out; another spread's annotation puts it in no subset."""
        subset = row.subset if row.placed_by == self.name else ""
        revisions = self.active.setdefault(row.kind, {})
        count_of(revisions, row.revision, subset, by)
        if not revisions:
            del self.active[row.kind]

    def active_in(self, subset: str) -> int:
        """Active pods in a subset, of all versions."""
        return sum(
            counts.get(subset, 0) for revisions in self.active.values() for counts in revisions.values()
        )


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """The service's part of the configuration (`spread`).

    Attributes:
        unseen_bound_seconds: a placement whose pod does not appear for so long never came to exist.
        leaving_bound_seconds: an admitted delete whose pod is still active after this was refused.
        status_every_seconds: a status in which only counts differ is not written more often.
        versioned_kinds: kinds with a ledger per revision, besides Deployment and ReplicaSet [Q-8].
        clean_up_deleted: take costs and annotations off the pods of a deleted spread [Q-20].
        bring_back_seconds: at most one pod in so many seconds is evicted from a later subset when an
            earlier one has room again; 0: never.
        whitelist: the custom workloads, as the ConfigMap of the reference has them.
    """

    unseen_bound_seconds: float = 10.0
    leaving_bound_seconds: float = 10.0
    status_every_seconds: float = 1.0
    versioned_kinds: tuple[str, ...] = ()
    clean_up_deleted: bool = False
    bring_back_seconds: float = 0.0
    whitelist: str = ""


class State(msgspec.Struct):
    """One slot. Keys of spreads are `namespace/name`, of pods per namespace their names.

    Attributes:
        now: greatest log time so far, seconds.
        whitelist_fault: why the whitelist as it stands cannot be read; the last one that could holds.
        refusals: kind to why its objects may not be read.
        strays: per namespace, pods that belong to no spread.
        children: uid of a workload to the uids of those that it controls.
        labels: label sets that rows share, by their own text.
        targets: `namespace|group|kind|name` to the spreads that ask for this target, the oldest first; those
            that are not `taken_by` another one have it.
        selecting: per namespace, spreads whose target's scale has a selector.
        acting: the modes in force.
    """

    now: float = 0.0
    settings: Settings = Settings()
    whitelist: Whitelist = Whitelist()
    whitelist_fault: str = ""
    refusals: dict[str, str] = {}
    spreads: dict[str, SpreadState] = {}
    targets: dict[str, list[str]] = {}
    selecting: dict[str, list[str]] = {}
    workloads: dict[str, Workload] = {}
    children: dict[str, list[str]] = {}
    strays: dict[str, dict[str, Row]] = {}
    nodes: dict[str, Node] = {}
    shapes: dict[str, JsonObject] = {}
    labels: dict[str, dict[str, str]] = {}
    acting: Acting = msgspec.field(default_factory=Acting)

    def shared_labels(self, labels: dict[str, str]) -> dict[str, str]:
        """The one copy of a label set that all rows with it use."""
        text = "\n".join([f"{key}={labels[key]}" for key in sorted(labels)])
        return self.labels.setdefault(text, labels)

    def having(self, target: str) -> list[SpreadState]:
        """The spreads that have a target, the oldest first."""
        return [spread for key in self.targets.get(target, ()) if not (spread := self.spreads[key]).taken_by]

    def find(self, namespace: str, name: str) -> tuple[SpreadState | None, Row | None]:
        """A pod's row, and the spread that has it."""
        row = self.strays.get(namespace, {}).get(name)
        if row is not None:
            return None, row
        for spread in self.spreads.values():
            if spread.namespace == namespace and (row := spread.pods.get(name)) is not None:
                return spread, row
        return None, None

    def chain(self, owner_uid: str) -> Iterator[Workload]:
        """The known controllers from `owner_uid` upwards."""
        seen: set[str] = set()
        while owner_uid and owner_uid not in seen:
            seen.add(owner_uid)
            workload = self.workloads.get(owner_uid)
            if workload is None:
                return
            yield workload
            owner_uid = workload.owner


def spread_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def target_key(namespace: str, kind: GroupKind, name: str) -> str:
    return f"{namespace}|{kind.group}|{kind.kind}|{name}"
