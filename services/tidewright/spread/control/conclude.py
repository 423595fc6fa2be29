"""What follows for one spread: rules, places, costs, adoption, rescheduling, status, the next wake-up.

    Conclusion(state, spread).whole()       look at everything: the spread, its target or time changed
    Conclusion(state, spread).one_pod(...)  look at one pod: most events

Both give decisions in one order: the ledger first, then pods, then the status, then the timer. All
are absolute, and none is given that was given before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tidewright.events.base import Decision
from tidewright.events.decisions import SetStatus, SetTimer
from tidewright.events.spread import ChangeLedger, LedgerRules, RecordSpread
from tidewright.kube.conditions import transition
from tidewright.kube.workloadspreads.spec import Subset
from tidewright.spread.control.adopting import adopt, adoptable
from tidewright.spread.control.costing import all_costs, costs_after
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.control.places import current_rules, hold, overdue, place_of, recount, set_rules
from tidewright.spread.control.rescheduling import CLOSED_FOR_S, bring_back, closures, reschedule, timed_out
from tidewright.spread.control.wanted_status import status
from tidewright.spread.fold.ledger import NOT_ADOPTED
from tidewright.spread.fold.spreads import refused_kinds
from tidewright.spread.fold.touched import Uncounted
from tidewright.spread.ledger.ledger import (
    EVICTED_WITHIN_S,
    REQUEST_LIFETIME_S,
    UNSAID_EVICTED_WITHIN_S,
    UNSAID_REQUEST_LIFETIME_S,
)
from tidewright.spread.state import CALLED, HELD, TIMER, Row, spread_key

RETRY_S = 30.0
CHANGES_AT_ONCE = 2000
"""Changes of a ledger in one decision."""


class Conclusion(Gathering):
    """Decisions about one spread, gathered while looking at it."""

    def whole(self, pod: str = "", key: str = "", *, recounting: bool = False) -> list[Decision]:
        """Look at the spread, all its pods, and the time. `key` is that of the pod which has just changed, if any;
        `recounting`: pods count in other versions than before.
        """
        self.recounting = recounting
        spread = self.s.spread
        if spread is None or spread.target is None or spread.deleting or self.s.invalid:
            set_rules(self, LedgerRules(spec=self.s.spec, generation=self.s.generation, gone=True))
            return [*self._finish(), *self._record()]
        overdue(self)
        failed = timed_out(self, spread)
        closures(self, spread, failed)
        set_rules(self, current_rules(self, spread))
        adopted: dict[str, Subset] = {}
        counted = Counter[tuple[str, str]]()
        for row in self.s.pods.values():
            if row.flags & HELD and row.active:
                continue  # most are as they should be
            hold(self, row, key if row.name == pod else "")
        # Once all that have a place hold it: what they leave is the room of the others.
        for row in self.s.pods.values():
            if row.held:
                continue
            if adoptable(self, spread, row) and (best := adopt(self, spread, row, counted)) is not None:
                adopted[row.name] = best
        all_costs(self, spread, adopted)
        reschedule(self, spread, failed)
        bring_back(self, spread)
        return [*self._finish(), *self._record()]

    def one_pod(self, before: Row | None, after: Row | None, key: str) -> list[Decision]:
        """Look at one pod that changed, came or went."""
        spread = self.s.spread
        if spread is None or spread.target is None or spread.deleting:
            return []
        place_of(self, before, after, key)
        adopted: dict[str, Subset] = {}
        if (
            after is not None
            and adoptable(self, spread, after)
            and (best := adopt(self, spread, after, Counter())) is not None
        ):
            adopted[after.name] = best
        costs_after(self, spread, before, after, adopted)
        if after is not None and after.waiting and spread.adaptive:
            failed = timed_out(self, spread)
            if failed:
                closures(self, spread, failed)
                set_rules(self, current_rules(self, spread))
                reschedule(self, spread, failed)
        return self._finish(after)

    def entry(self, uncounted: Iterable[Uncounted], *, unfenced: bool = False) -> list[Decision]:
        """The admission endpoint appended an entry: the status changes, and a bound begins to run."""
        for key, pod, version, subset, uid in uncounted:
            self.change("Uncounted", key, version, subset=subset, pod=pod, reason="NotCounted", uid=uid)
        if unfenced:
            self.tell(
                "Warning",
                "AdmittedUnfenced",
                "a pod was placed while the log was away: limits may be exceeded",
            )
        return self._finish()

    def renewed(self) -> list[Decision]:
        """Rules and counts once more, before the log's retention forgets the entries that they come from."""
        self.rules, self.renewing = self.s.ledger.rules, True
        return self._finish() if self.rules is not None else []

    def _record(self) -> Iterator[Decision]:
        """Say once why a stored spread cannot be followed."""
        if self.s.invalid != self.s.recorded:
            if self.s.invalid:
                self.object_events.clear()
                self.tell("Warning", "Invalid", self.s.invalid)
                yield from self.object_events
            reason = "Invalid" if self.s.invalid else "Valid"
            yield RecordSpread(at=self.now, target=self.ref, reason=reason, message=self.s.invalid)

    def failed(self, pod: str, *, deletion: bool) -> list[Decision]:
        """A decision about a pod did not come about: say so, and try again later."""
        reason = "DeletePodFailed" if deletion else "PatchPodDeletionCostFailed"
        verb = "deleting" if deletion else "writing the deletion cost of"
        self.tell("Warning", reason, f"{verb} pod {pod} failed, trying again")
        return [*self._finish(), *self._timer(self.now + RETRY_S)]

    def not_adopted(self, pod: str, *, refused: bool) -> list[Decision]:
        """A pod was not annotated: it is in no subset; where that was `refused` it is looked at again later."""
        row = self.s.pods[pod]
        self.change(
            "Released", row.name, self.version(row), subset=row.subset, pod=row.name, reason=NOT_ADOPTED
        )
        if not refused:
            return self._finish()
        self.tell(
            "Warning", "AdoptPodFailed", f"annotating pod {pod} for subset {row.subset} failed, trying again"
        )
        return [*self._finish(), *self._timer(self.now + RETRY_S)]

    def replicas_unknown(self) -> list[Decision]:
        """The target's replicas cannot be read at their paths: say so; the last ones that were read hold."""
        held = "none were ever read" if self.s.path_replicas is None else f"{self.s.path_replicas} hold"
        self.tell("Warning", "TargetReplicasUnknown", f"{self.s.path_fault}; {held}")
        return self._finish()

    def unreadable(self) -> list[Decision]:
        """A kind between the pods and the target may not be read: say what that means."""
        for kind in sorted(refused_kinds(self.state, self.s)):
            self.tell(
                "Warning",
                "WorkloadUnreadable",
                f"{kind} may not be read ({self.state.refusals[kind]}): pods that are found through it are left alone, "
                "and replicas that stand there are not known",
            )
        return self._finish()

    def _finish(self, row: Row | None = None) -> list[Decision]:
        decisions: list[Decision] = []
        counts = recount(self) if self.s.recount or self.renewing or self.recounting else None
        if self.changes or self.rules is not None or counts is not None:
            # Each is one message, which the log's server limits in size.
            starts = range(0, len(self.changes), CHANGES_AT_ONCE) or range(1)
            for start in starts:
                last = start == starts[-1]
                decisions.append(
                    ChangeLedger(
                        at=self.now,
                        target=self.ref,
                        rules=self.rules if start == 0 else None,
                        changes=tuple(self.changes[start : start + CHANGES_AT_ONCE]),
                        counts=counts if last else None,
                        through=self.s.ledger.last if last else "",
                        request_lifetime_s=_said(REQUEST_LIFETIME_S, UNSAID_REQUEST_LIFETIME_S),
                        evicted_within_s=_said(EVICTED_WITHIN_S, UNSAID_EVICTED_WITHIN_S),
                        because=tuple(self.reasons) if start == 0 else (),
                    )
                )
        decisions.extend(self.pod_decisions)
        decisions.extend(self.object_events)
        status_due: float | None = None
        if self.s.spread is not None and not self.s.spread.deleting and self.mode.reports:
            wait_until = self.s.status_at + self.state.settings.status_every_seconds
            changed = self.urgent or (self.rules is not None and not self.renewing)
            if changed or self.now >= wait_until:
                new_status = status(self)
                if new_status != self.s.status:
                    decisions.append(
                        SetStatus(
                            at=self.now,
                            target=self.ref,
                            status=new_status,
                            observed_generation=self.s.generation,
                            urgent=self.urgent or self.s.status is None,
                        )
                    )
            else:
                status_due = wait_until
        decisions.extend(self._timer(self._due(status_due, row)))
        return decisions

    def _due(self, status_due: float | None, row: Row | None) -> float | None:
        """When time alone changes something. While a timer is set, only what `row` adds can be earlier."""
        settings, spread = self.state.settings, self.s.spread
        dues = [] if status_due is None else [status_due]
        ledger = self.s.ledger
        unseen = next((h.at for k, h in ledger.placed.items() if k not in self.placed_gone), None)
        leaving = next((h.at for p, h in ledger.leaving.items() if p not in self.leaving_gone), None)
        if unseen is not None:
            dues.append(unseen + settings.unseen_bound_seconds)
        if leaving is not None:
            dues.append(leaving + settings.leaving_bound_seconds)
        if spread is not None and spread.adaptive:
            after = spread.reschedule_after_s
            movable = {s.name for s in spread.subsets[:-1]}
            waiting = self.s.waiting
            names = waiting if self.s.due is None else () if row is None else (row.name,)
            dues.extend(
                waiting[name] + after
                for name in names
                if name in waiting
                and (pod := self.s.pods.get(name)) is not None
                and not pod.flags & CALLED
                and waiting[name] + after > self.now
                and self.subset_of(spread, pod) in movable
            )
            for name, is_open in self.conditions.items():
                if not is_open:
                    old = self.s.conditions.get(name)
                    since = transition(None if old is None else (old.open, old.at), False, self.now)
                    # Past that it stays closed for pods that still wait there: nobody has taken them away.
                    again = self.now + (RETRY_S if self.mode.acts else CLOSED_FOR_S)
                    dues.append(since + CLOSED_FOR_S if since + CLOSED_FOR_S > self.now else again)
        if settings.bring_back_seconds > 0:
            dues.append(max(self.now, self.s.brought_back_at) + settings.bring_back_seconds)
        return min(dues, default=None)

    def _timer(self, due: float | None) -> Iterator[Decision]:
        """Set the spread's one timer, unless it is set to fire no later."""
        if due is not None and (self.s.due is None or due < self.s.due):
            key = TIMER + spread_key(self.s.namespace, self.s.name)
            yield SetTimer(at=self.now, key=key, due=max(due, self.now))


def _said(seconds: float, unsaid: float) -> float | None:
    """What a ledger is told to count by; nothing where it does so untold."""
    return None if seconds == unsaid else seconds
