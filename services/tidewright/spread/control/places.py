"""Places on the ledger: the rules in force, and which pods hold a place.

current_rules, set_rules   limits as numbers, closed subsets
place_of, hold             one pod that changed; one pod as it is
overdue                    placements whose pod never came, deletes that were refused
recount                    all that is held, counted anew
"""

from __future__ import annotations

from typing import Any

from tidewright.events.base import Because
from tidewright.events.spread import ChangeKind, LedgerRules, SubsetRule
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.ledger.ledger import leaving_key
from tidewright.spread.state import DELETING, Row, unpack_uid


def set_rules(g: Gathering, rules: LedgerRules) -> None:
    """Put rules in force, unless they are."""
    if rules != g.s.ledger.rules:
        g.rules = rules
        numbers: dict[str, Any] = {"generation": rules.generation}
        if any(rule.limit is not None for rule in rules.subsets) and rules.replicas:
            numbers["replicas"] = rules.replicas
        for rule in rules.subsets:
            numbers[f"limit[{rule.name}]"] = rule.limit
        g.reasons.append(Because(rule="RulesInForce", values=numbers))


def current_rules(g: Gathering, spread: Spread) -> LedgerRules:
    """The rules as they follow from the spec, the replicas and the conditions."""
    replicas = g.replicas
    return LedgerRules(
        subsets=tuple(
            SubsetRule(s.name, g.limit(s, replicas), not g.conditions.get(s.name, True))
            for s in spread.subsets
        ),
        spec=g.s.spec,
        generation=g.s.generation,
        # Only where limits depend on it: otherwise scaling changes no rule, and needs no entry.
        replicas=replicas if limits.needs_replicas(s.limit for s in spread.subsets) else 0,
        fail_open=g.s.fail_open,
        uid=g.s.uid,
        held_back=not g.mode.acts,
    )


def place_of(g: Gathering, before: Row | None, after: Row | None, key: str) -> None:
    """Bring the ledger in line with one pod."""
    same = before is not None and after is not None and before.uid == after.uid
    if before is not None and before.held and not same:
        _of(g, "Released", before, "Deleted")
    elif before is not None and not same and _leaving(g, before):
        _of(g, "Gone", before, "Deleted")
    if after is None:
        return
    if (
        same
        and before is not None
        and before.held
        and not (g.belongs(after) and before.subset == after.subset and g.versions.same(before, after))
    ):
        _of(g, "Released", before, "Moved")
        if after.active and g.belongs(after):
            _of(g, "Held", after, "Moved")
        return
    hold(g, after, key)


def hold(g: Gathering, row: Row, key: str = "") -> None:
    """A pod holds its place while it is active, unless its delete was admitted."""
    if row.held:
        if not row.active:
            _of(g, "Released", row, "Deleted" if row.flags & DELETING else "Finished")
        return
    leaving = _leaving(g, row)
    if leaving and not row.active:
        _of(g, "Gone", row, "Deleted")
    elif not leaving and row.active and g.belongs(row):
        key = key if key in g.s.ledger.placed else row.name
        placed = g.s.ledger.placed.get(key) if key not in g.placed_gone else None
        if placed is None:
            _of(g, "Held", row, "Found")
            return
        passed = placed.passed if key != row.name else ()
        place = (g.version(row), row.subset)
        g.change(
            "Seen",
            key,
            g.version(row),
            subset=row.subset,
            pod=row.name,
            reason="Seen",
            passed=passed,
            request=placed.request,
        )
        if (placed.version, placed.subset) != place:
            g.change(
                "Released",
                key,
                placed.version,
                subset=placed.subset,
                pod="",
                reason="Moved",
                request=placed.request,
            )
            _of(g, "Held", row, "Moved")


def _of(g: Gathering, kind: ChangeKind, row: Row, reason: str) -> None:
    """What became of the place of a pod that was seen."""
    g.change(
        kind,
        row.name,
        g.version(row),
        subset=row.subset,
        pod=row.name,
        reason=reason,
        uid=unpack_uid(row.uid),
    )


def _leaving(g: Gathering, row: Row) -> bool:
    """Whether this very pod's delete was admitted."""
    ledger = g.s.ledger
    return bool(ledger.leaving) and leaving_key(ledger, row.name, unpack_uid(row.uid)) != ""


def overdue(g: Gathering) -> None:
    """Placements whose pod never came, and deletes that were refused after all."""
    ledger, settings = g.s.ledger, g.state.settings
    for key, held in ledger.placed.items():
        if held.at + settings.unseen_bound_seconds > g.now:
            break
        g.change(
            "Released",
            key,
            held.version,
            subset=held.subset,
            pod="",
            reason="NeverSeen",
            request=held.request,
        )
        g.reasons.append(
            Because(
                rule="NeverSeen",
                values={"key": key, "subset": held.subset, "bound_s": settings.unseen_bound_seconds},
            )
        )
        g.tell("Warning", "CreatePodFailed", f"no pod appeared for {held.pod or key} in {held.subset}")
    for key, held in ledger.leaving.items():
        if held.at + settings.leaving_bound_seconds > g.now:
            break
        pod = held.pod
        row = g.s.pods.get(pod)
        if row is not None and key not in (pod, unpack_uid(row.uid)):
            row = None  # another one of its name
        if row is not None and row.active:
            g.change("Held", pod, held.version, subset=held.subset, pod=pod, reason="DeleteRefused", uid=key)
            g.tell("Warning", "DeletePodFailed", f"pod {pod} is still active after its delete was admitted")
        elif row is None:
            g.change("Gone", pod, held.version, subset=held.subset, pod=pod, reason="Deleted", uid=key)


def recount(g: Gathering) -> dict[str, dict[str, int]]:
    """Places held after these changes: by pods that hold one, and by placements not seen yet."""
    places = dict(g.held_delta)
    held = [(g.version(row), row.subset) for row in g.s.pods.values() if row.held]
    for place in (*held, *((h.version, h.subset) for h in g.s.ledger.placed.values())):
        places[place] = places.get(place, 0) + 1
    counts: dict[str, dict[str, int]] = {}
    for (version, subset), number in places.items():
        if number:
            counts.setdefault(version, {})[subset] = number
    return counts
