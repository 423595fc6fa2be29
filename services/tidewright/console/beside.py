"""What an incumbent did to an autoscaler's target beside what we would have done, where we decide in shadow."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.asking.answers.comparing import ComparedRow
from tidewright.asking.point_in_time import Moment
from tidewright.asking.source import Source
from tidewright.console.asked import Looking
from tidewright.console.kept import Kept
from tidewright.console.lists import Rows
from tidewright.host.fold.explainer import Reference

SHOWN = 20
"""Changes that are told one by one, the last first."""
SAID = {"same": "alike", "different": "otherwise", "onlyOurs": "only we", "onlyTheirs": "only the other"}


@dataclass(frozen=True)
class Beside:
    """What both did in the stretch.

    Attributes:
        counts: what is said of a change, and how many there are of it.
        left_out: changes that are not told one by one.
    """

    counts: tuple[tuple[str, int], ...]
    rows: tuple[ComparedRow, ...]
    left_out: int


def is_shadowed(rows: Rows, asked: Reference) -> bool:
    """Whether the last decisions about an object were not carried out."""
    return any(decision.shadow for _, decision in rows.board.decided.get(asked, {}).values())


async def beside_the_incumbent(
    source: Source, kept: Kept, rows: Rows, looking: Looking, asked: Reference
) -> Beside | None:
    """What both did to the target of an autoscaler; None where we do not decide in shadow."""
    if not is_shadowed(rows, asked):
        return None
    key = f"beside/{asked.namespace}/{asked.name}/{looking.window}"
    found, _ = await kept.of(
        key, looking.moment, lambda: _compared(source, looking.moment, looking.since, asked)
    )
    return found


async def _compared(source: Source, moment: Moment, since: float, asked: Reference) -> Beside:
    from tidewright.asking import comparing  # it imports what is compared

    compared = await comparing.comparisons(
        source, moment, namespace=asked.namespace, name=asked.name, since=since
    )
    answer = comparing.answer(source, moment, since, compared).items[0]
    rows = tuple(reversed(answer.rows))
    counts = tuple((said, answer.counts.get(verdict, 0)) for verdict, said in SAID.items())
    return Beside(counts, rows[:SHOWN], len(rows[SHOWN:]))
