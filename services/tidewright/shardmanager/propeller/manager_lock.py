"""The manager's own lock in compat mode: the original's Lease, held by us (sections 1.11 and 3.14).

With `propeller.leader-election.enabled` a fleet is acted upon only while its Lease is ours. So ours
stands by while an original manager renews it, and an original that is started by mistake stands by
while ours runs.

    ask     HoldLease, every half renew deadline while it is ours, every retry period while it is not
    yes     ours until the renew deadline, counted from when it was asked for
    no      the record that stands there; taken when it stays the same for its duration, in log time

Which of our replicas acts is decided by fenced commits and not by the Lease: all have one identity.
"""

from __future__ import annotations

from hashlib import blake2b
from math import ceil

import msgspec

from tidewright.events.base import Because, ObjectRef, Outcome
from tidewright.events.decisions import HoldLease, PatchObject
from tidewright.events.outcomes import Applied, Rejected
from tidewright.kube.times import rfc3339_micro
from tidewright.shardmanager.propeller.election import HOLDER, LOCK_KIND, Election, native_identity

LEASE_API = "coordination.k8s.io/v1"
HELD = "LeaseHeld"


class Lock(msgspec.Struct, kw_only=True):
    """A fleet's lock.

    Attributes:
        holder: our identity on it: another installation, with a log of its own, has another.
        due: it is to be asked for now, and the timer for the next time to be set.
        asked_at: log time at which it was last asked for, seconds; None: never.
        held_from: log time at which it was asked for when it was last granted, seconds; None: another has it.
        held_anew: the last answer gave it to us after another had it.
        other: who has it instead; record: how that one's claim was last told; since: log time since when it
            was told unchanged; duration_s: how long that one says it counts.
        error: why the last attempt said nothing of who has it, empty when it did.
    """

    election: Election
    holder: str
    due: bool = True
    asked_at: float | None = None
    held_from: float | None = None
    held_anew: bool = False
    other: str = ""
    record: str = ""
    since: float = 0.0
    duration_s: float = 0.0
    error: str = ""

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(
            api_version=LEASE_API,
            kind=LOCK_KIND,
            namespace=self.election.namespace,
            name=self.election.name,
        )

    def leads(self, now: float) -> bool:
        """Whether the fleet may be acted upon."""
        return self.held_from is not None and now < self.held_from + self.election.renew_deadline_s

    def why_not(self, now: float) -> str:
        """Why the fleet is not acted upon; empty when it is."""
        if self.leads(now):
            return ""
        lease = f"lease {self.election.manager_lease}"
        if self.other:
            return f"standing by: {self.other} holds {lease} and renews it; stop that manager to let this one act"
        return f"standing by: {lease} is not held" + (f": {self.error}" if self.error else " yet")

    def answered(self, outcome: Outcome, now: float) -> None:
        """How that came out. An answer that says nothing of the Lease leaves it as it was, until its deadline."""
        self.error, self.held_anew = "", False
        match outcome:
            case Applied():
                self.held_anew, self.held_from = self.held_from is None, self.asked_at or 0.0
                self.other = self.record = ""
            case Rejected(reason=reason, result=result) if reason == HELD:
                self.held_from = None
                record = str(result.get("record", ""))
                if record != self.record:
                    self.record, self.since, self.other = record, now, str(result.get("holder", ""))
                    self.duration_s = float(result.get("duration_s") or 0.0)
            case _:
                self.error = outcome.message or outcome.reason

    def ask(self, now: float) -> HoldLease:
        """Make, renew or take the Lease."""
        duration_s = max(self.duration_s, self.election.lease_duration_s)
        stopped = self.record if self.record and now >= self.since + duration_s else ""
        values: dict[str, str | int | float | bool | None] = {"lock": self.election.manager_lease}
        rule = "FleetLockHeld" if self.leads(now) else "FleetLockWanted"
        if stopped:
            rule = "FleetLockStopped"
            values |= {"holder": self.other, "duration_s": duration_s}
        return HoldLease(
            at=now,
            target=self.ref,
            holder=self.holder,
            duration_s=ceil(self.election.lease_duration_s),
            stopped=stopped,
            because=(Because(rule=rule, values=values),),
        )

    def next_at(self, now: float) -> float:
        """When to ask again."""
        ours = self.leads(now)
        return now + (self.election.renew_deadline_s / 2 if ours else self.election.retry_period_s)

    def give_back(self, now: float) -> PatchObject:
        """Leave the Lease to whoever waits for it, if it is still ours."""
        return PatchObject(
            at=now,
            target=self.ref,
            patch={
                "spec": {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "renewTime": rfc3339_micro(now),
                }
            },
            expect={"/spec/holderIdentity": self.holder},
            because=(Because(rule="FleetLockReturned", values={"lock": self.election.manager_lease}),),
        )


def lock_for(election: Election, fleet: str, at: float) -> Lock | None:
    """The lock of a fleet that was configured at a log time; None when its managers do not elect."""
    if not election.enabled or not election.name:
        return None
    digest = blake2b(f"{fleet} {at!r}".encode(), digest_size=5).hexdigest()
    return Lock(election=election, holder=native_identity(HOLDER, digest))
