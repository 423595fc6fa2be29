"""What the spread service sees, records and decides beyond the shared vocabulary.

Facts      WorkloadSpreadObserved/Gone, TargetReplicasObserved, KindRefused
Ledger     PodPlaced, PodLeaving, EntriesAppended (written by the admission endpoint), ChangeLedger (by the
           decider)
Records    RecordSpread (why a spread is as it is), ForeseeScaleIn (who goes when a workload shrinks)

A spread's ledger is one subject of the log. Everything that a choice of a subset depends on is there:
the rules in force, placements, and what came of them. `tidewright.spread.ledger.ledger` folds it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewright.events.base import Decision, Event, JsonObject, ObjectRef
from tidewright.events.facts import ObjectFact, ResourceFact


class WorkloadSpreadObserved(ResourceFact, frozen=True, kw_only=True, tag="fact.workload-spread-observed.v1"):
    """A WorkloadSpread (`apps.kruise.io`)."""


class WorkloadSpreadGone(ObjectFact, frozen=True, kw_only=True, tag="fact.workload-spread-gone.v1"):
    """A WorkloadSpread is no longer there."""


class TargetReplicasObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.target-replicas-observed.v1"):
    """Replicas of a spread's target, read at replicas paths; `name` is the spread's.

    Attributes:
        replicas: the sum over the paths.
        error: why they cannot be read; `replicas` means nothing then.
    """

    replicas: int = 0
    error: str = ""


class KindRefused(ObjectFact, frozen=True, kw_only=True, tag="fact.kind-refused.v1"):
    """Objects of a whitelisted kind may not be read, or of one that autoscalers scale; `name` is `<kind>.<group>`.

    Attributes:
        error: what the API server says; empty once they can be read (again), or nobody asks any longer.
        scaled: it is said of what autoscalers scale, whatever is said of it as a whitelisted kind.
    """

    group: str
    kind: str
    error: str = ""
    scaled: bool = False


class SubsetRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One subset as choices see it.

    Attributes:
        limit: in pods, None for unlimited.
        closed: rescheduling has closed it.
    """

    name: str
    limit: int | None = None
    closed: bool = False


class LedgerRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules in force on a ledger, whole.

    Attributes:
        subsets: in the order of the spec.
        spec: the spread's spec as stored, from which pods are injected.
        replicas: of the target, from which percentages were made limits; -1 when it has none.
        fail_open: when the log cannot be reached, admit by the last known state.
        gone: the spread is deleted, or has no target: pods go in untouched.
        uid: of the spread.
        held_back: the modes in force do not let the service act on it: pods go in untouched.
    """

    subsets: tuple[SubsetRule, ...] = ()
    spec: JsonObject = {}
    generation: int = 0
    replicas: int = 0
    fail_open: bool = False
    gone: bool = False
    uid: str = ""
    held_back: bool = False


class PassedOver(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subset that a choice passed over: `Closed`, `Full` or `OrdinalBeyond`, with its numbers then."""

    subset: str
    why: str
    held: int = 0
    limit: int | None = None


class LedgerEntry(Event, frozen=True, kw_only=True):
    """An entry that the admission endpoint appends under the ledger's expected sequence.

    Attributes:
        name: of the spread.
        key: of the placement: the pod's name, or the request's uid for a pod without a name yet.
        request: uid of the admission request.
        version: revision of the pod template.
        spread: uid of the spread whose rules were in force.
    """

    namespace: str
    name: str
    key: str
    spread: str = ""
    request: str = ""
    version: str = ""
    subset: str = ""


class PodPlaced(LedgerEntry, frozen=True, kw_only=True, tag="ledger.pod-placed.v1"):
    """A new pod was given a place; without a `subset` it found none, and went in untouched.

    Attributes:
        pod: its name, or its generateName.
        passed: the subsets before the chosen one, and why they were not it.
        unfenced: recorded after the fact, because the log could not be reached.
    """

    pod: str = ""
    passed: tuple[PassedOver, ...] = ()
    unfenced: bool = False


class PodLeaving(LedgerEntry, frozen=True, kw_only=True, tag="ledger.pod-leaving.v1"):
    """The delete of a pod was admitted: its place is offered again at once.

    Attributes:
        evicted: it was an eviction, which a budget may still refuse: the place is free when the pod is
            seen leaving, and whoever needs it waits for that.
        uid: of the pod: another one of its name may come and go before anybody was told of this one.
    """

    pod: str
    evicted: bool = False
    uid: str = ""


class EntriesAppended(Event, frozen=True, kw_only=True, tag="ledger.entries-appended.v1"):
    """Entries of requests that waited at the same time, in their order, as one message: all of them or none."""

    namespace: str
    name: str
    entries: tuple[PodPlaced | PodLeaving, ...]


ChangeKind = Literal["Seen", "Held", "Released", "Gone", "Uncounted"]


class LedgerChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a place.

    Attributes:
        kind: `Seen`: the placed pod exists; `Held`: a pod holds a place that was not counted (or no
            longer); `Released`: a place is free; `Gone`: a pod whose delete was admitted is gone;
            `Uncounted`: that pod held no place, so its delete has freed none.
        reason: CamelCase: `Adopted`, `NeverSeen`, `Finished`, `Deleted`, `DeleteRefused`, ...
        passed: of a pod that had no name when it was placed: the subsets that were passed over then.
        uid: of the pod.
        request: of the placement that this is about; the same key may have been placed again since.
    """

    kind: ChangeKind
    key: str
    pod: str
    version: str = ""
    subset: str = ""
    reason: str = ""
    passed: tuple[PassedOver, ...] = ()
    uid: str = ""
    request: str = ""


class ChangeLedger(Decision, frozen=True, kw_only=True, tag="decision.change-ledger.v1"):
    """Rules and facts as entries of a spread's ledger.

    It goes to the ledger's subject without an expectation: whatever stands before it, it holds.

    Attributes:
        target: the spread.
        rules: when given, the rules from here on.
        counts: when given, places held per version and subset: a recount, as of `through`.
        through: request of the last entry of admission that was folded before this was decided.
        request_lifetime_s: how long an attempt of an admission request may be on its way: older placements whose pod
            was seen are forgotten. None: 30 s.
        evicted_within_s: an admitted eviction that is not seen as a leaving pod after so long was refused, and is
            forgotten. None: 2 s.
    """

    target: ObjectRef
    rules: LedgerRules | None = None
    changes: tuple[LedgerChange, ...] = ()
    counts: dict[str, dict[str, int]] | None = None
    through: str = ""
    request_lifetime_s: float | None = None
    evicted_within_s: float | None = None


class Foreseen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that will leave."""

    pod: str
    subset: str = ""
    cost: str = ""


class ForeseeScaleIn(Decision, frozen=True, kw_only=True, tag="decision.foresee-scale-in.v1"):
    """Which pods leave when the target shrinks to `replicas`, first one first.

    Attributes:
        pods: the first ones by name; at most as many as one message holds well.
        count: how many leave in all.
        alike: pods that stay and are like the last one named in all that the target's controller compares:
            any of them may go in its stead.
    """

    target: ObjectRef
    replicas: int
    pods: tuple[Foreseen, ...] = ()
    count: int = 0
    alike: int = 0


class RecordSpread(Decision, frozen=True, kw_only=True, tag="decision.record-spread.v1"):
    """Something about a spread that changes nothing outside: why it rests, or what it found."""

    target: ObjectRef
    reason: str
    message: str = ""
