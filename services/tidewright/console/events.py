"""What happened: filters, counts per stretch of time, and a line each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tidewright.asking.answers.form import stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.events import CLASSES
from tidewright.asking.lines import decision_of, line, subject_object, title
from tidewright.asking.lookups import decoded
from tidewright.asking.objects import SHORT, plain_kind
from tidewright.asking.services import EVERY
from tidewright.asking.source import Source, slot_in
from tidewright.console.asked import Looking
from tidewright.console.backwards import Backwards, latest_first
from tidewright.console.charts import Bucket, histogram
from tidewright.events.base import Outcome
from tidewright.events.outcomes import Applied, Superseded
from tidewright.host.fold.explainer import Reference
from tidewright.log.envelope import WRITER
from tidewright.log.reader import Record
from tidewright.log.subjects import escape

WRITERS = (*EVERY, "install")
"""Who writes on the log."""
SHOWN = 200
LOOKED_AT = 8_000
"""Sequences that are looked through at most."""
BUCKETS = 48
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True)
class Filters:
    """What is wanted; each may be empty for everything."""

    classes: tuple[str, ...]
    kind: str
    namespace: str
    name: str
    service: str
    text: str

    @classmethod
    def of(cls, looking: Looking) -> Filters:
        """Those of a page.

        Raises:
            BadInput: there is no such class or service, or what is given as a kind is none.
        """
        named = tuple(part for part in looking.given("class").split(",") if part)
        if unknown := [name for name in named if name not in CLASSES]:
            raise BadInput(f"class={unknown[0]}: one of {', '.join(CLASSES)}")
        service = looking.given("service")
        if service and service not in WRITERS:
            raise BadInput(f"service={service}: one of {', '.join(WRITERS)}")
        kind = looking.given("kind").lower()
        return cls(
            named or CLASSES, plain_kind(SHORT.get(kind, kind)) if kind else "", looking.given("namespace"),
            looking.given("name"), service, looking.given("text").lower(),
        )  # fmt: skip

    def patterns(self, source: Source) -> list[str]:
        """The narrowest filters that hold all of it, and do not overlap."""
        root = source.subjects.root
        if not (self.kind or self.namespace or self.name):
            return [f"{root}.{name}.>" for name in self.classes]
        kind = self.kind or "*"
        space = escape(self.namespace) if self.namespace else "*"
        name = escape(self.name) if self.name else "*"
        slot = slot_in(source, self.namespace) if self.namespace else "*"
        place = f"{kind}.{space}.{name}"
        by_class = {
            "fact": f"{root}.fact.{slot}.{place}",
            "decision": f"{root}.decision.*.{self.service or '*'}.{place}",
            "outcome": f"{root}.outcome.*.{place}",
        }
        return [by_class[name] for name in self.classes if name in by_class]

    def takes(self, record: Record) -> bool:
        """Whether a record that the patterns found is wanted."""
        if self.service and record.headers.get(WRITER) != self.service:
            return False
        if not self.text:
            return True
        found = decoded(record)
        if found is None:
            return False
        place = "/".join(subject_object(record.subject)[1:])
        return (
            self.text
            in f"{title(found.event)} {place} {line(found.event)} {decision_of(found.event)}".lower()
        )


@dataclass(frozen=True)
class Row:
    """An event on the page."""

    sequence: int
    at: float
    class_: str
    title: str
    about: Reference | None
    text: str
    decision: str
    failed: bool


async def page(source: Source, backwards: Backwards, looking: Looking) -> dict[str, Any]:
    """What the template is given.

    Raises:
        BadInput: a filter names what there is none of.
    """
    filters = Filters.of(looking)
    patterns = filters.patterns(source)
    scan = await backwards.scan(
        ("events", filters), patterns, filters.takes,
        up_to=looking.moment.seq, since=looking.since, enough=LOOKED_AT, most=LOOKED_AT,
    )  # fmt: skip
    start = looking.since if scan.whole or not scan.found else min(at for _, at in scan.found)
    return {
        "filters": filters,
        "classes": CLASSES,
        "writers": WRITERS,
        "rows": [
            row for record, at in latest_first(scan.found[:SHOWN]) if (row := row_of(record, at)) is not None
        ],
        "found": len(scan.found),
        "whole": scan.whole,
        "looked_at": looking.moment.seq - scan.looked_back_to + 1,
        "histogram": histogram(
            buckets(scan.found, start, looking), CLASSES, "Events per stretch of time, by class"
        ),
        "older": looking.link(
            "/events",
            **{**_kept(looking), "at": f"seq:{scan.found[SHOWN - 1][0].seq - 1}"}
            if len(scan.found) > SHOWN
            else {},
        ),
        "kept": _kept(looking),
    }


def _kept(looking: Looking) -> dict[str, str]:
    names = ("class", "kind", "namespace", "name", "service", "text")
    return {name: looking.given(name) for name in names if looking.given(name)}


def buckets(found: tuple[tuple[Record, float], ...], start: float, looking: Looking) -> list[Bucket]:
    """Counts by class, per stretch of a round length."""
    end = looking.moment.at
    length = next((step for step in STEPS_S if (end - start) / step <= BUCKETS), (end - start) / BUCKETS)
    begin = math.floor(start / length) * length
    count = min(2 * BUCKETS, int((end - begin) / length) + 1)
    counts: list[dict[str, int]] = [{} for _ in range(count)]
    for record, at in found:
        place = min(count - 1, max(0, int((at - begin) / length)))
        cls = subject_object(record.subject)[0]
        counts[place][cls] = counts[place].get(cls, 0) + 1
    kept = _kept(looking)
    return [
        Bucket(
            begin + n * length, begin + (n + 1) * length, tally,
            looking.link("/events", **{**kept, "at": stamp(min(end, begin + (n + 1) * length))}),
        )
        for n, tally in enumerate(counts)
    ]  # fmt: skip


def row_of(record: Record, at: float) -> Row | None:
    """An event as a row, at the time that is shown of it; None for one that does not decode."""
    found = decoded(record)
    if found is None:
        return None
    cls, kind, namespace, name = subject_object(record.subject)
    event = found.event
    failed = cls == "halt" or (isinstance(event, Outcome) and not isinstance(event, Applied | Superseded))
    about = (
        Reference(kind, namespace, name)
        if cls in ("fact", "decision", "outcome") and kind != "timer"
        else None
    )
    return Row(record.seq, at, cls, title(event), about, line(event), decision_of(event), failed)
