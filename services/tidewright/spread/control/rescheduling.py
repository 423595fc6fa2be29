"""Adaptive (specification, 3.8): pods that cannot be scheduled move on, subsets close and open again, pods come back.

timed_out    pods that the scheduler has refused for too long
closures     which subsets are open
reschedule   delete what timed out
bring_back   optionally, evict from a later subset when an earlier one has room again
"""

from __future__ import annotations

from tidewright.events.base import Because
from tidewright.events.decisions import DeleteObject, EvictPod
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.state import CALLED, Row

CLOSED_FOR_S = 300.0
"""How long a subset in which pods could not be scheduled takes none."""


def timed_out(g: Gathering, spread: Spread) -> dict[str, list[Row]]:
    """Per subset but the last, pods that the scheduler has refused for too long."""
    if not spread.adaptive or not g.s.waiting:
        return {}
    movable = {s.name for s in spread.subsets[:-1]}
    late: dict[str, list[Row]] = {}
    for name, created in g.s.waiting.items():
        row = g.s.pods.get(name)
        if row is None or created + spread.reschedule_after_s > g.now:
            continue
        subset = g.subset_of(spread, row)
        if subset in movable:
            late.setdefault(subset, []).append(row)
    return late


def closures(g: Gathering, spread: Spread, failed: dict[str, list[Row]]) -> None:
    """Which subsets are open (3.8); recovery is by time alone."""
    if not spread.adaptive:
        g.conditions = {}
        return
    opened: dict[str, bool] = {}
    for i, subset in enumerate(spread.subsets):
        old = g.s.conditions.get(subset.name)
        if i == len(spread.subsets) - 1:
            opened[subset.name] = True
        elif subset.name in failed:
            opened[subset.name] = False
            if old is None or old.open:
                g.reasons.append(
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
        elif old.at + CLOSED_FOR_S <= g.now:
            opened[subset.name] = True
            g.reasons.append(
                Because(rule="SubsetReopened", values={"subset": subset.name, "closed_s": CLOSED_FOR_S})
            )
            g.tell("Normal", "RecoverSchedulable", f"subset {subset.name} takes pods again")
        else:
            opened[subset.name] = False
    g.urgent = g.urgent or opened != {n: c.open for n, c in g.s.conditions.items()}
    g.conditions = opened


def reschedule(g: Gathering, spread: Spread, failed: dict[str, list[Row]]) -> None:
    """Delete the pods that timed out; the replacements find their subset closed (3.8)."""
    for subset in spread.subsets[:-1]:
        for row in failed.get(subset.name, ()):
            if row.flags & CALLED:
                continue
            because = Because(
                rule="Rescheduled",
                values={"pod": row.name, "subset": subset.name, "after_s": spread.reschedule_after_s},
            )
            g.pod_decisions.append(DeleteObject(at=g.now, target=g.pod_ref(row), because=(because,)))


def bring_back(g: Gathering, spread: Spread) -> None:
    """Optionally, one pod of a later subset makes way for an earlier one that has room again."""
    every_s = g.state.settings.bring_back_seconds
    rules = g.rules or g.s.ledger.rules
    if every_s <= 0 or rules is None or g.s.brought_back_at + every_s > g.now:
        return
    for rule in rules.subsets:
        if rule.closed:
            continue
        if g.s.ledger.missing(rule, g.latest) in (0, -1):
            if rule.limit is None:
                return
            continue
        later = [s.name for s in spread.subsets]
        later = later[later.index(rule.name) + 1 :]
        candidates = [
            row
            for row in g.s.pods.values()
            if row.active
            and not row.flags & CALLED
            and g.version(row) == g.latest
            and g.subset_of(spread, row) in later
        ]
        if candidates:
            row = max(candidates, key=lambda r: (later.index(r.subset), r.name))
            because = Because(
                rule="BroughtBack", values={"pod": row.name, "from": row.subset, "to": rule.name}
            )
            g.pod_decisions.append(EvictPod(at=g.now, target=g.pod_ref(row), because=(because,)))
        return
