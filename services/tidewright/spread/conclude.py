"""What follows for one spread: rules, places, costs, adoption, rescheduling, status, the next wake-up.

    Conclusion(state, spread).whole()       look at everything: the spread, its target or time changed
    Conclusion(state, spread).one_pod(...)  look at one pod: most events

Both give decisions in one order: the ledger first, then pods, then the status, then the timer. All
are absolute, and none is given that was given before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tidewright.events.base import Because, Decision, JsonObject, ObjectRef
from tidewright.events.decisions import (
    DeleteObject,
    EvictPod,
    PatchObject,
    RecordObjectEvent,
    SetStatus,
    SetTimer,
)
from tidewright.events.spread import (
    ChangeLedger,
    LedgerChange,
    LedgerRules,
    PassedOver,
    RecordSpread,
    SubsetRule,
)
from tidewright.spread import limits
from tidewright.spread.adoption import best_subset
from tidewright.spread.costs import COST_KINDS, regular_cost, surplus_cost, unmatched_cost
from tidewright.spread.evolve import TIMER, refused_kinds
from tidewright.spread.inject import adoption_patch
from tidewright.spread.matching import group_kind
from tidewright.spread.reconcile import CLOSED_FOR_S
from tidewright.spread.spec import COMPONENT, DELETION_COST_ANNOTATION, GROUP, KIND, Spread, Subset
from tidewright.spread.state import CALLED, HELD, Row, SpreadState, State, spread_key, unpack_uid
from tidewright.spread.status import EXACT, LIMIT_VALID, POD_UNSCHEDULABLE, SCHEDULABLE, SUFFICIENT, rfc3339

RETRY_S = 30.0
CHANGES_AT_ONCE = 2000
"""Changes of a ledger in one decision."""


@lru_cache(maxsize=256)
def _cost_patch(text: str) -> JsonObject:
    """The patch that sets a cost: one object for all pods, which nobody changes."""
    return {"metadata": {"annotations": {DELETION_COST_ANNOTATION: text}}}


class Conclusion:
    """Decisions about one spread, gathered while looking at it."""

    def __init__(self, state: State, spread: SpreadState) -> None:
        self.state = state
        self.s = spread
        self.now = state.now
        self.ref = ObjectRef(
            api_version=f"{GROUP}/v1alpha1",
            kind=KIND,
            namespace=spread.namespace,
            name=spread.name,
            uid=spread.uid,
        )
        self.changes: list[LedgerChange] = []
        self.reasons: list[Because] = []
        self.rules: LedgerRules | None = None
        self.pod_decisions: list[Decision] = []
        self.object_events: list[Decision] = []
        self.urgent = False
        self.renewing = False
        self.held_delta: dict[tuple[str, str], int] = {}
        self.placed_gone: set[str] = set()
        self.leaving_gone: set[str] = set()
        self.conditions: dict[str, bool] = {
            name: condition.open for name, condition in spread.conditions.items()
        }

    # -- entry points --------------------------------------------------------------------------

    def whole(self) -> list[Decision]:
        """Look at the spread, all its pods, and the time."""
        spread = self.s.spread
        if spread is None or spread.target is None or spread.deleting or self.s.invalid:
            self._set_rules(LedgerRules(spec=self.s.spec, generation=self.s.generation, gone=True))
            return [*self._finish(), *self._record()]
        self._in_flight()
        failed = self._timed_out(spread)
        self._closures(spread, failed)
        self._set_rules(self._current_rules(spread))
        adopted: dict[str, Subset] = {}
        for row in self.s.pods.values():
            if row.flags & HELD and row.active:
                continue  # most are as they should be
            self._holding(row)
            if self._adoptable(spread, row) and (best := self._adopt(spread, row)) is not None:
                adopted[row.name] = best
        self._costs(spread, adopted)
        self._reschedule(spread, failed)
        self._bring_back(spread)
        return [*self._finish(), *self._record()]

    def one_pod(self, before: Row | None, after: Row | None, key: str) -> list[Decision]:
        """Look at one pod that changed, came or went."""
        spread = self.s.spread
        if spread is None or spread.target is None or spread.deleting:
            return []
        self._place_of(before, after, key)
        adopted: dict[str, Subset] = {}
        if (
            after is not None
            and self._adoptable(spread, after)
            and (best := self._adopt(spread, after)) is not None
        ):
            adopted[after.name] = best
        self._costs_after(spread, before, after, adopted)
        if after is not None and after.waiting and spread.adaptive:
            failed = self._timed_out(spread)
            if failed:
                self._closures(spread, failed)
                self._set_rules(self._current_rules(spread))
                self._reschedule(spread, failed)
        return self._finish(after)

    def entry(self, *, unfenced: bool = False) -> list[Decision]:
        """The admission endpoint appended an entry: the status changes, and a bound begins to run."""
        for key, pod, version, subset in self.state.touched.uncounted:
            self._change("Uncounted", key, version, subset, pod, "NotCounted")
        if unfenced:
            self._event(
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
                self._event("Warning", "Invalid", self.s.invalid)
                yield from self.object_events
            reason = "Invalid" if self.s.invalid else "Valid"
            yield RecordSpread(at=self.now, target=self.ref, reason=reason, message=self.s.invalid)

    def failed(self, pod: str, *, deletion: bool) -> list[Decision]:
        """A decision about a pod did not come about: say so, and try again later."""
        reason = "DeletePodFailed" if deletion else "PatchPodDeletionCostFailed"
        verb = "deleting" if deletion else "writing the deletion cost of"
        self._event("Warning", reason, f"{verb} pod {pod} failed, trying again")
        return [*self._finish(), *self._timer(self.now + RETRY_S)]

    def replicas_unknown(self) -> list[Decision]:
        """The target's replicas cannot be read at their paths: say so; the last ones that were read hold."""
        held = "none were ever read" if self.s.path_replicas is None else f"{self.s.path_replicas} hold"
        self._event("Warning", "TargetReplicasUnknown", f"{self.s.path_fault}; {held}")
        return self._finish()

    def unreadable(self) -> list[Decision]:
        """A kind between the pods and the target may not be read: say what that means."""
        for kind in sorted(refused_kinds(self.state, self.s)):
            self._event(
                "Warning",
                "WorkloadUnreadable",
                f"{kind} may not be read ({self.state.refusals[kind]}): pods that are found through it are left alone, "
                "and replicas that stand there are not known",
            )
        return self._finish()

    # -- rules ---------------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """Of the target; 0 while it is not known."""
        if self.s.path_replicas is not None and self._read_at_paths():
            return self.s.path_replicas
        target = self.state.workloads.get(self.s.target_uid)
        return 0 if target is None else target.replicas

    def _read_at_paths(self) -> bool:
        """Whether paths override the target's ordinary replicas (3.2)."""
        spread = self.s.spread
        if spread is None or spread.target is None:
            return False
        if spread.target_filter is not None and spread.target_filter.replicas_path_list:
            return True
        entry = self.state.whitelist.entry(group_kind(spread.target))
        return entry is not None and bool(entry.replicas_path)

    def _current_rules(self, spread: Spread) -> LedgerRules:
        replicas = self.replicas
        return LedgerRules(
            subsets=tuple(
                SubsetRule(s.name, self.limit(s, replicas), not self.conditions.get(s.name, True))
                for s in spread.subsets
            ),
            spec=self.s.spec,
            generation=self.s.generation,
            # Only where limits depend on it: otherwise scaling changes no rule, and needs no entry.
            replicas=replicas if limits.needs_replicas(s.limit for s in spread.subsets) else 0,
            fail_open=self.s.fail_open,
            uid=self.s.uid,
        )

    def limit(self, subset: Subset, replicas: int) -> int | None:
        """The subset's limit in pods; 0 for one that is no number, None for unlimited."""
        if subset.limit is None:
            return None
        try:
            return max(0, limits.strict(subset.limit, replicas))
        except limits.NotALimit:
            return 0

    def _set_rules(self, rules: LedgerRules) -> None:
        if rules != self.s.ledger.rules:
            self.rules = rules
            numbers: dict[str, Any] = {"replicas": self.replicas, "generation": rules.generation}
            for rule in rules.subsets:
                numbers[f"limit[{rule.name}]"] = rule.limit
            self.reasons.append(Because(rule="RulesInForce", values=numbers))

    # -- places --------------------------------------------------------------------------------

    def _change(
        self,
        kind: Any,
        key: str,
        row_version: str,
        subset: str,
        pod: str,
        reason: str,
        passed: tuple[PassedOver, ...] = (),
    ) -> None:
        self.changes.append(LedgerChange(kind, key, pod, row_version, subset, reason, passed))
        step = {"Held": 1, "Released": -1, "Uncounted": 1}.get(kind, 0)
        if step:
            place = (row_version, subset)
            self.held_delta[place] = self.held_delta.get(place, 0) + step
        if kind == "Seen" or (kind == "Released" and not pod):
            self.placed_gone.add(key)
        if kind in ("Held", "Gone", "Uncounted"):
            self.leaving_gone.add(pod)

    def _belongs(self, row: Row) -> bool:
        return row.placed_by == self.s.name and bool(row.subset)

    def _place_of(self, before: Row | None, after: Row | None, key: str) -> None:
        """Bring the ledger in line with one pod."""
        same = before is not None and after is not None and before.uid == after.uid
        if before is not None and before.held and not same:
            self._change("Released", before.name, before.version, before.subset, before.name, "Deleted")
        elif after is None and before is not None and before.name in self.s.ledger.leaving:
            self._change("Gone", before.name, before.version, before.subset, before.name, "Deleted")
        if after is None:
            return
        if (
            same
            and before is not None
            and before.held
            and (before.version, before.subset) != (after.version, after.subset)
        ):
            self._change("Released", before.name, before.version, before.subset, before.name, "Moved")
            if after.active and self._belongs(after):
                self._change("Held", after.name, after.version, after.subset, after.name, "Moved")
            return
        self._holding(after, key)

    def _holding(self, row: Row, key: str = "") -> None:
        """A pod holds its place while it is active, unless its delete was admitted."""
        leaving = row.name in self.s.ledger.leaving
        if row.held:
            if not row.active:
                reason = "Deleted" if row.flags & 1 else "Finished"
                self._change("Released", row.name, row.version, row.subset, row.name, reason)
            return
        if leaving and not row.active:
            self._change("Gone", row.name, row.version, row.subset, row.name, "Deleted")
        elif not leaving and row.active and self._belongs(row):
            placed = key and self.s.ledger.placed.get(key)
            if placed:
                told = placed.passed if key != row.name else ()
                self._change("Seen", key, row.version, row.subset, row.name, "Seen", told)
                if (placed.version, placed.subset) != (row.version, row.subset):
                    self._change("Released", key, placed.version, placed.subset, "", "Moved")
                    self._change("Held", row.name, row.version, row.subset, row.name, "Moved")
            elif row.name in self.s.ledger.placed:
                self._change("Seen", row.name, row.version, row.subset, row.name, "Seen")
            else:
                self._change("Held", row.name, row.version, row.subset, row.name, "Found")

    def _in_flight(self) -> None:
        """Placements whose pod never came, and deletes that were refused after all."""
        ledger, settings = self.s.ledger, self.state.settings
        for key, held in ledger.placed.items():
            if held.at + settings.unseen_bound_seconds > self.now:
                break
            self._change("Released", key, held.version, held.subset, "", "NeverSeen")
            self.reasons.append(
                Because(
                    rule="NeverSeen",
                    values={"key": key, "subset": held.subset, "bound_s": settings.unseen_bound_seconds},
                )
            )
            self._event(
                "Warning", "CreatePodFailed", f"no pod appeared for {held.pod or key} in {held.subset}"
            )
        for pod, held in ledger.leaving.items():
            if held.at + settings.leaving_bound_seconds > self.now:
                break
            row = self.s.pods.get(pod)
            if row is not None and row.active:
                self._change("Held", pod, held.version, held.subset, pod, "DeleteRefused")
                self._event(
                    "Warning", "DeletePodFailed", f"pod {pod} is still active after its delete was admitted"
                )
            elif row is None:
                self._change("Gone", pod, held.version, held.subset, pod, "Deleted")

    def _recount(self) -> dict[str, dict[str, int]]:
        """Places held after these changes: by pods that hold one, and by placements not seen yet."""
        places = dict(self.held_delta)
        held = [(row.version, row.subset) for row in self.s.pods.values() if row.held]
        for place in (*held, *((h.version, h.subset) for h in self.s.ledger.placed.values())):
            places[place] = places.get(place, 0) + 1
        counts: dict[str, dict[str, int]] = {}
        for (version, subset), number in places.items():
            if number:
                counts.setdefault(version, {})[subset] = number
        return counts

    # -- adoption ------------------------------------------------------------------------------

    def _adoptable(self, spread: Spread, row: Row) -> bool:
        return bool(row.node) and row.active and not self._belongs(row) and row.node in self.state.nodes

    def _adopt(self, spread: Spread, row: Row) -> Subset | None:
        """Where the node that a pod without a place runs on fits best (3.3)."""
        obj: JsonObject = {
            "metadata": {"name": row.name, "labels": row.labels},
            "spec": self.state.shapes.get(row.shape, {}),
        }
        room = {}
        replicas = self.replicas
        for subset in spread.subsets:
            limit = self.limit(subset, replicas)
            # Places of pods that were not seen yet are taken, too.
            seen, held = self.s.active_in(row.version, subset.name), self._held(row.version, subset.name)
            taken = max(seen, held)
            room[subset.name] = limits.UNLIMITED if limit is None else limit - taken
        best = best_subset(spread, obj, self.state.nodes[row.node], room)
        if best is None:
            return None
        patch = adoption_patch(spread, best)
        because = Because(rule="Adopted", values={"pod": row.name, "node": row.node, "subset": best.name})
        self._patch_pod(row, patch, because)
        self._change("Held", row.name, row.version, best.name, row.name, "Adopted")
        return best

    def _patch_pod(self, row: Row, patch: JsonObject, because: Because) -> None:
        self.pod_decisions.append(
            PatchObject(at=self.now, target=self._pod_ref(row), patch=patch, because=(because,))
        )

    def _pod_ref(self, row: Row) -> ObjectRef:
        return ObjectRef(
            api_version="v1", kind="Pod", namespace=self.s.namespace, name=row.name, uid=unpack_uid(row.uid)
        )

    # -- costs ---------------------------------------------------------------------------------

    @property
    def _costed(self) -> bool:
        spread = self.s.spread
        return spread is not None and spread.target is not None and spread.target.kind in COST_KINDS

    def _costs(self, spread: Spread, adopted: dict[str, Subset]) -> None:
        """The costs of all pods (3.6)."""
        if not self._costed:
            return
        groups: dict[str, dict[str, list[Row]]] = {}
        mine, known = self.s.name, {subset.name for subset in spread.subsets}
        for row in self.s.pods.values():
            if not row.active:
                continue
            subset = row.subset if row.placed_by == mine and row.subset in known else ""
            if adopted and row.name in adopted:
                subset = adopted[row.name].name
            of_version = groups.get(row.version)
            if of_version is None:
                of_version = groups[row.version] = {}
            rows = of_version.get(subset)
            if rows is None:
                of_version[subset] = [row]
            else:
                rows.append(row)
        for version, of_version in groups.items():
            for subset, rows in of_version.items():
                self._group_costs(spread, version, subset, rows)

    def _subset_of(self, spread: Spread, row: Row) -> str:
        """The subset that a pod counts in; "" when it is in none (any more)."""
        return row.subset if self._belongs(row) and spread.subset(row.subset) is not None else ""

    def _group_costs(self, spread: Spread, version: str, subset: str, rows: list[Row]) -> None:
        count = len(spread.subsets)
        position = next((i for i, s in enumerate(spread.subsets) if s.name == subset), None)
        if position is None:
            for row in rows:
                self._ask(row, unmatched_cost(count), "Unmatched", subset)
            return
        index = position if version == self.s.latest else count - 1 - position
        limit = self.limit(spread.subsets[position], self.replicas)
        surplus = 0 if limit is None else max(0, len(rows) - limit)
        leaving: set[str] = set()
        if surplus:
            leaving = {row.name for row in sorted(rows, key=Row.leaving_order)[:surplus]}
        regular, extra = regular_cost(index, count), surplus_cost(index)
        usual = str(regular)
        for row in rows:
            if leaving and row.name in leaving:
                self._ask(row, extra, "Surplus", subset)
            elif (row.asked or row.cost) != usual:
                self._ask(row, regular, "WithinLimit", subset)

    def _ask(self, row: Row, cost: int, rule: str, subset: str) -> None:
        text = str(cost)
        if text == (row.asked or row.cost):
            return
        because = Because(rule=rule, values={"pod": row.name, "subset": subset, "cost": cost})
        self._patch_pod(row, _cost_patch(text), because)

    def _costs_after(
        self, spread: Spread, before: Row | None, after: Row | None, adopted: dict[str, Subset]
    ) -> None:
        """The costs that one pod's change may have changed: its own, and its group's when that is over its limit."""
        if not self._costed:
            return
        if before is not None and after is not None and not adopted and self._unmoved(spread, before, after):
            return
        count = len(spread.subsets)
        for row in (before, after):
            if row is None or (row is before and after is not None and self._same_group(before, after)):
                continue
            best = adopted.get(row.name) if row is after else None
            subset = best.name if best is not None else self._subset_of(spread, row)
            position = next((i for i, s in enumerate(spread.subsets) if s.name == subset), None)
            if position is None:
                if row is after and row.active:
                    self._ask(row, unmatched_cost(count), "Unmatched", subset)
                continue
            limit = self.limit(spread.subsets[position], self.replicas)
            active = self.s.active_in(row.version, subset) + (1 if best is not None else 0)
            index = position if row.version == self.s.latest else count - 1 - position
            was = active + self._was_more(before, after, row)
            if limit is None or max(active, was) <= limit:
                if row is after and row.active:
                    self._ask(row, regular_cost(index, count), "WithinLimit", subset)
            elif not self._settled(before, after, surplus_cost(index)):
                rows = [
                    r
                    for r in self.s.pods.values()
                    if r.active
                    and r.version == row.version
                    and (r is row or self._subset_of(spread, r) == subset)
                ]
                self._group_costs(spread, row.version, subset, rows)

    def _unmoved(self, spread: Spread, before: Row, after: Row) -> bool:
        """The usual event: an active pod within its subset's limit stays so, and has its cost already."""
        if not (before.active and after.active and self._same_group(before, after)):
            return False
        known = after.asked or after.cost
        if not known or known.startswith("-") or known != (before.asked or before.cost):
            return False
        subset = spread.subset(after.subset) if after.placed_by == self.s.name else None
        if subset is None:
            return False
        limit = self.limit(subset, self.replicas) if subset.limit is not None else None
        if limit is not None and self.s.active_in(after.version, after.subset) > limit:
            return False
        count, position = len(spread.subsets), spread.subsets.index(subset)
        index = position if after.version == self.s.latest else count - 1 - position
        return known == str(regular_cost(index, count))

    def _same_group(self, before: Row | None, after: Row) -> bool:
        return before is not None and (before.version, before.subset, before.placed_by) == (
            after.version,
            after.subset,
            after.placed_by,
        )

    def _was_more(self, before: Row | None, after: Row | None, row: Row) -> int:
        """How many more active pods the row's group had before the change."""
        if after is None or row is before:
            return 1 if before is not None and before.active else 0
        if before is not None and self._same_group(before, after):
            return int(before.active) - int(after.active)
        return -1 if after.active else 0

    def _settled(self, before: Row | None, after: Row | None, surplus: int) -> bool:
        """Whether the order of leaving is what it was: a surplus pod went, or nothing that ranks a pod changed."""
        if before is None:
            return False
        if after is None or (before.active and not after.active):
            return before.active and (before.asked or before.cost) == str(surplus)
        return (
            self._same_group(before, after)
            and before.active == after.active
            and before.leaving_order() == after.leaving_order()
            and before.cost == after.cost
            and bool(after.asked or after.cost)
        )

    # -- rescheduling --------------------------------------------------------------------------

    def _timed_out(self, spread: Spread) -> dict[str, list[Row]]:
        """Per subset but the last, pods that the scheduler has refused for too long."""
        if not spread.adaptive or not self.s.waiting:
            return {}
        movable = {s.name for s in spread.subsets[:-1]}
        found: dict[str, list[Row]] = {}
        for name, created in self.s.waiting.items():
            row = self.s.pods.get(name)
            if row is None or created + spread.reschedule_after_s > self.now:
                continue
            subset = self._subset_of(spread, row)
            if subset in movable:
                found.setdefault(subset, []).append(row)
        return found

    def _closures(self, spread: Spread, failed: dict[str, list[Row]]) -> None:
        """Which subsets are open (3.8); recovery is by time alone."""
        if not spread.adaptive:
            self.conditions = {}
            return
        opened: dict[str, bool] = {}
        for i, subset in enumerate(spread.subsets):
            old = self.s.conditions.get(subset.name)
            if i == len(spread.subsets) - 1:
                opened[subset.name] = True
            elif subset.name in failed:
                opened[subset.name] = False
                if old is None or old.open:
                    self.reasons.append(
                        Because(
                            rule="SubsetClosed",
                            values={
                                "subset": subset.name,
                                "pods": len(failed[subset.name]),
                                "after_s": spread.reschedule_after_s,
                            },
                        )
                    )
            elif old is None or old.open:
                opened[subset.name] = True
            elif old.at + CLOSED_FOR_S <= self.now:
                opened[subset.name] = True
                self.reasons.append(
                    Because(rule="SubsetReopened", values={"subset": subset.name, "closed_s": CLOSED_FOR_S})
                )
                self._event("Normal", "RecoverSchedulable", f"subset {subset.name} takes pods again")
            else:
                opened[subset.name] = False
        self.urgent = self.urgent or opened != {n: c.open for n, c in self.s.conditions.items()}
        self.conditions = opened

    def _reschedule(self, spread: Spread, failed: dict[str, list[Row]]) -> None:
        for subset in spread.subsets[:-1]:
            for row in failed.get(subset.name, ()):
                if row.flags & CALLED:
                    continue
                because = Because(
                    rule="Rescheduled",
                    values={"pod": row.name, "subset": subset.name, "after_s": spread.reschedule_after_s},
                )
                self.pod_decisions.append(
                    DeleteObject(at=self.now, target=self._pod_ref(row), because=(because,))
                )

    def _bring_back(self, spread: Spread) -> None:
        """Optionally, one pod of a later subset makes way for an earlier one that has room again."""
        every_s = self.state.settings.bring_back_seconds
        rules = self.rules or self.s.ledger.rules
        if every_s <= 0 or rules is None or self.s.brought_back_at + every_s > self.now:
            return
        for rule in rules.subsets:
            if rule.closed:
                continue
            if self.s.ledger.missing(rule, self.s.latest) in (0, -1):
                if rule.limit is None:
                    return
                continue
            later = [s.name for s in spread.subsets]
            later = later[later.index(rule.name) + 1 :]
            candidates = [
                row
                for row in self.s.pods.values()
                if row.active
                and not row.flags & CALLED
                and row.version == self.s.latest
                and self._subset_of(spread, row) in later
            ]
            if candidates:
                row = max(candidates, key=lambda r: (later.index(r.subset), r.name))
                because = Because(
                    rule="BroughtBack", values={"pod": row.name, "from": row.subset, "to": rule.name}
                )
                self.pod_decisions.append(
                    EvictPod(at=self.now, target=self._pod_ref(row), because=(because,))
                )
            return

    # -- status and time -----------------------------------------------------------------------

    def _event(self, kind: str, reason: str, message: str) -> None:
        self.object_events.append(
            RecordObjectEvent(
                at=self.now,
                target=self.ref,
                event_type=kind,
                reason=reason,
                message=message,
                component=COMPONENT,
            )
        )

    def _finish(self, row: Row | None = None) -> list[Decision]:
        decisions: list[Decision] = []
        counts = self._recount() if self.s.recount or self.renewing else None
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
                        because=tuple(self.reasons) if start == 0 else (),
                    )
                )
        decisions.extend(self.pod_decisions)
        decisions.extend(self.object_events)
        status_due: float | None = None
        if self.s.spread is not None and not self.s.spread.deleting:
            wait_until = self.s.status_at + self.state.settings.status_every_seconds
            changed = self.urgent or (self.rules is not None and not self.renewing)
            if changed or self.now >= wait_until:
                status = self.status()
                if status != self.s.status:
                    decisions.append(
                        SetStatus(
                            at=self.now,
                            target=self.ref,
                            status=status,
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
                and pod.subset in movable
            )
            for name, is_open in self.conditions.items():
                if not is_open:
                    old = self.s.conditions.get(name)
                    since = old.at if old is not None and not old.open else self.now
                    dues.append(since + CLOSED_FOR_S)
        if settings.bring_back_seconds > 0:
            dues.append(max(self.now, self.s.brought_back_at) + settings.bring_back_seconds)
        return min(dues, default=None)

    def _timer(self, due: float | None) -> Iterator[Decision]:
        """Set the spread's one timer, unless it is set to fire no later."""
        if due is not None and (self.s.due is None or due < self.s.due):
            key = TIMER + spread_key(self.s.namespace, self.s.name)
            yield SetTimer(at=self.now, key=key, due=max(due, self.now))

    def status(self) -> JsonObject:
        """The status as it shall be: counts of active pods, free slots, what is in flight (1.3)."""
        spread = self.s.spread
        if spread is None:
            return {}
        rules = self.rules or self.s.ledger.rules or LedgerRules()
        limit_of = {rule.name: rule.limit for rule in rules.subsets}
        versions = sorted(
            {*self.s.active, *self.s.ledger.counts, *(v for v, _ in self.held_delta)}
            | {h.version for h in self.s.ledger.leaving.values()}
        )
        written: JsonObject = {}
        if self.s.generation:
            written["observedGeneration"] = self.s.generation
        written["subsetStatuses"] = [
            self._entry(
                s,
                sum(self.s.active_in(v, s.name) for v in self.s.active),
                self._held(None, s.name),
                limit_of.get(s.name),
            )
            for s in spread.subsets
        ]
        by_version = {}
        for version in versions:
            entries = []
            for subset in spread.subsets:
                entry = self._entry(
                    subset,
                    self.s.active_in(version, subset.name),
                    self._held(version, subset.name),
                    limit_of.get(subset.name),
                )
                self._add_in_flight(entry, version, subset.name)
                entries.append(entry)
            if any(e["replicas"] or "creatingPods" in e or "deletingPods" in e for e in entries):
                by_version[version] = entries
        if by_version:
            written["versionedSubsetStatuses"] = by_version
        return written

    def _held(self, version: str | None, subset: str) -> int:
        if version is None:
            return self.s.ledger.held_in_all(subset) + sum(
                by for (_, name), by in self.held_delta.items() if name == subset
            )
        return self.s.ledger.held(version, subset) + self.held_delta.get((version, subset), 0)

    def _entry(self, subset: Subset, active: int, held: int, limit: int | None) -> JsonObject:
        entry: JsonObject = {
            "name": subset.name,
            "replicas": active,
            "missingReplicas": -1 if limit is None else max(0, limit - held),
        }
        conditions = []
        if subset.name in self.conditions and self.s.spread is not None and self.s.spread.adaptive:
            old, is_open = self.s.conditions.get(subset.name), self.conditions[subset.name]
            since = old.at if old is not None and old.open == is_open else self.now
            conditions.append(
                {
                    "type": SCHEDULABLE,
                    "status": "True" if is_open else "False",
                    "reason": SUFFICIENT if is_open else POD_UNSCHEDULABLE,
                    "lastTransitionTime": rfc3339(since),
                }
            )
        if self.s.fail_open:
            conditions.append(self._inexact())
        if (fault := self._limit_fault(subset)) is not None:
            conditions.append(
                {
                    "type": LIMIT_VALID,
                    "status": "False",
                    "reason": "NotANumber",
                    "message": fault,
                    "lastTransitionTime": rfc3339(self._fault_since(subset.name)),
                }
            )
        if conditions:
            entry["conditions"] = conditions
        return entry

    def _inexact(self) -> JsonObject:
        """A spread that fails open is exempt from exactness, and its status says so."""
        happened = self.s.unfenced_at > 0
        return {
            "type": EXACT,
            "status": "False",
            "reason": "AdmittedUnfenced" if happened else "FailOpen",
            "message": "pods were placed while the log was away: limits may be exceeded"
            if happened
            else "while the log is away pods are placed by the last known state",
            "lastTransitionTime": rfc3339(self.s.unfenced_at or self.s.fail_open_since),
        }

    def _limit_fault(self, subset: Subset) -> str | None:
        """Why a stored limit is no number: it slipped past validation, and offers no slot [Q-2]."""
        if subset.limit is None:
            return None
        try:
            value = limits.strict(subset.limit, 100)
        except limits.NotALimit as error:
            return str(error)
        return None if value >= 0 else f"maxReplicas {subset.limit!r} is negative"

    def _fault_since(self, name: str) -> float:
        """When it was found: as the last status has it, so that a status does not change by being written."""
        return self.s.fault_since.get(name, self.now)

    def _add_in_flight(self, entry: JsonObject, version: str, subset: str) -> None:
        for field, held_by, gone in (
            ("creatingPods", self.s.ledger.placed, self.placed_gone),
            ("deletingPods", self.s.ledger.leaving, self.leaving_gone),
        ):
            found = {
                key: rfc3339(h.at)
                for key, h in held_by.items()
                if h.version == version and h.subset == subset and key not in gone
            }
            if found:
                entry[field] = found
