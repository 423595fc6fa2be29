"""The first page: what is wrong, what is there, and what changed lately."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidewright.asking.answers.listing import ListedObject
from tidewright.asking.lines import line, subject_object, title
from tidewright.asking.lookups import decoded
from tidewright.asking.source import Source
from tidewright.console.asked import Looking
from tidewright.console.backwards import Backwards, latest_first
from tidewright.console.lists import TITLES, Lists, Rows
from tidewright.console.standing import standing
from tidewright.console.words import money
from tidewright.events import decisions as d
from tidewright.events import provisioning as p
from tidewright.events import shards as s
from tidewright.events.base import Decision
from tidewright.events.outcomes import Failed, Rejected
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import Record

SHOWN, WRONG_SHOWN, CHANGES_SHOWN = 10, 25, 40
LOOKED_AT = 6_000
"""Sequences that are looked through at most for what changed."""
TOLD = (
    d.ScaleWorkload, d.CreateObject, d.DeleteObject, d.EvictPod, p.IncreaseNodeGroup, p.DecreaseNodeGroup, p.CreateNodeGroup,
    p.DeleteNodeGroup, p.DeleteInstances, p.RemoveNode, p.UndoRemoval, p.AcceptRequest, p.BookCapacity, p.ReleaseCapacity,
    p.BackOffGroup, s.ChangeAssignment, s.ChangeRollout, s.SizeShards,
)  # fmt: skip
"""Decisions that change something which people look for; statuses, events and timers follow from these."""
_UNTOLD = frozenset({"timer", "configmap", "none"})


@dataclass(frozen=True)
class Change:
    """A decision, or an outcome that is not as it should be.

    Attributes:
        about: the object, None where there is none.
        decision: id of the decision that is told, or that the outcome is of.
        failed: it is an outcome, and nothing came of the decision.
    """

    sequence: int
    at: float
    title: str
    text: str
    about: Reference | None
    decision: str
    failed: bool
    shadow: bool


@dataclass(frozen=True)
class Section:
    """Objects of a kind, the first of them."""

    kind: str
    title: str
    items: tuple[ListedObject, ...]
    objects: int
    wrong: int
    moving: int


@dataclass(frozen=True)
class GroupRow:
    """A node group: nodes that are wanted, ready, on their way and leaving, and the price of all that are wanted."""

    item: ListedObject
    wanted: int
    ready: int
    coming: int
    leaving: int
    price: str


async def page(source: Source, lists: Lists, backwards: Backwards, looking: Looking) -> dict[str, Any]:
    """What the template is given."""
    sections, wrong, groups = [], [], []
    listed, (changes, whole), stand = await asyncio.gather(
        lists.of_all(tuple(TITLES), looking.moment),
        changed(source, backwards, looking),
        standing(source, looking.moment),
    )
    for (kind, name), rows in zip(TITLES.items(), listed, strict=True):
        items = rows.items()
        bad = [item for item in items if item.wrong]
        wrong += bad
        moving = sum(item.now != item.wanted and bool(item.wanted) for item in items)
        lately = rows.whole(_lately(bad, items))
        sections.append(Section(kind, name, lately, len(items), len(bad), moving))
        if kind == "nodegroup":
            groups = [group_row(rows, item) for item in lately]
    return {
        "sections": sections,
        "wrong": wrong[:WRONG_SHOWN],
        "wrong_in_all": len(wrong),
        "groups": groups,
        "changes": [change for change in changes if not change.failed][:CHANGES_SHOWN],
        "failures": [change for change in changes if change.failed][:SHOWN],
        "changes_whole": whole,
        "halted": stand.halted,
    }


def _lately(bad: Sequence[ListedObject], items: Sequence[ListedObject]) -> list[ListedObject]:
    """The first ones that are shown: what is wrong, then the others, each from the last change on."""
    first = _by_change(bad)[:SHOWN]
    if len(first) < SHOWN:
        good = [item for item in items if not item.wrong]
        first += _by_change([item for item in good if item.last_change])[: SHOWN - len(first)]
        first += [item for item in good if not item.last_change][: SHOWN - len(first)]
    return first


def _by_change(items: Sequence[ListedObject]) -> list[ListedObject]:
    """From the last change on; what never changed stands last."""
    return sorted(items, key=lambda item: item.last_change or "", reverse=True)


def group_row(rows: Rows, item: ListedObject) -> GroupRow:
    """A node group's machines, counted."""
    fact = rows.board.facts.get(Reference(item.kind, item.namespace, item.name))
    if not isinstance(fact, p.NodeGroupObserved):
        return GroupRow(item, 0, 0, 0, 0, money(None))
    states = [machine.state for machine in fact.machines]
    coming, leaving = states.count("creating"), states.count("deleting")
    wanted = int(item.wanted) if item.wanted.isdigit() else fact.target_size
    price = None if fact.price_micro is None else fact.price_micro * wanted
    return GroupRow(
        item,
        wanted,
        len(states) - coming - leaving,
        max(coming, wanted - (len(states) - coming - leaving)),
        leaving,
        money(price),
    )


async def changed(source: Source, backwards: Backwards, looking: Looking) -> tuple[list[Change], bool]:
    """What was decided in the stretch, the last first, and what came to nothing; whether all of it was looked at."""
    root = source.subjects.root
    scan = await backwards.scan(
        ("changes",), [f"{root}.decision.>", f"{root}.outcome.>"], _may_tell,
        up_to=looking.moment.seq, since=looking.since, enough=2 * CHANGES_SHOWN, most=LOOKED_AT,
    )  # fmt: skip
    changes = [
        change for record, at in latest_first(scan.found) if (change := _change(record, at)) is not None
    ]
    return changes, scan.whole


def _may_tell(record: Record) -> bool:
    cls, kind, _, _ = subject_object(record.subject)
    if cls == "outcome":
        return b'"outcome.rejected' in record.body[:200] or b'"outcome.failed' in record.body[:200]
    return kind not in _UNTOLD and not any(tag in record.body[:80] for tag in _QUIET)


_QUIET = (
    b"decision.set-status",
    b"decision.record-object-event",
    b"decision.patch-object",
    b"decision.hold-",
)


def _change(record: Record, at: float) -> Change | None:
    found = decoded(record)
    if found is None:
        return None
    _, kind, namespace, name = subject_object(record.subject)
    event = found.event
    about = Reference(kind, namespace, name)
    if isinstance(event, Rejected | Failed):
        return Change(
            record.seq, at, title(event), line(event), about, event.decision, failed=True, shadow=False
        )
    if isinstance(event, TOLD) and isinstance(event, Decision):
        return Change(
            record.seq,
            at,
            title(event),
            line(event),
            _owner(event) or about,
            event.id,
            failed=False,
            shadow=event.shadow,
        )
    return None


def _owner(event: Decision) -> Reference | None:
    """On whose behalf: a scale of a workload is told at its autoscaler."""
    if isinstance(event, d.ScaleWorkload) and event.owner.count("/") == 2:
        kind, namespace, name = event.owner.split("/")
        return Reference(kind.lower(), namespace, name)
    return None
