"""Where an incumbent and we differ."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.form import Answer


class ComparedChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A count that was, or would have been, set.

    Attributes:
        times: how often it was decided, one time after the other, without anything having come of it.
    """

    at: str
    from_: int = msgspec.field(name="from")
    to: int
    times: int


class ComparedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change of theirs and ours that belong together, or one alone.

    Attributes:
        verdict: `same`, `different`, `onlyOurs`, `onlyTheirs`.
        why: why we decided so, or left it.
    """

    at: str
    verdict: str
    ours: ComparedChange | None
    theirs: ComparedChange | None
    why: tuple[str, ...]


class ComparedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of which we and the incumbent decide.

    Attributes:
        written_by_us: decisions of ours that were written in the stretch that is told: there is no incumbent to compare them with.
        counts: verdict to how many rows say so.
    """

    namespace: str
    name: str
    written_by_us: int
    counts: dict[str, int]
    rows: tuple[ComparedRow, ...]


class ComparisonList(Answer, frozen=True, kw_only=True):
    """Answer to `compare`.

    Attributes:
        since: the log time before which nothing is told.
    """

    since: str
    items: tuple[ComparedObject, ...]
