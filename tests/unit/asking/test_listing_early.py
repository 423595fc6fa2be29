"""What is decided at other objects is asked for before these are known, and a list is the same however it is found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.console.conftest import LOG
from tidewright.asking.answers.listing import ListedObject
from tidewright.asking.exported import ExportedLog
from tidewright.asking.listing import Board, filled, listed
from tidewright.asking.point_in_time import moment_of
from tidewright.log.batched_get import TooMany
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record


class Asked(ExportedLog):
    """A file that says what it was asked, and answers wildcards of decisions as a server does where too many subjects match."""

    def __init__(self, *, too_many: bool) -> None:
        super().__init__(ExportFile(LOG))
        self.too_many = too_many
        self.asked: list[Sequence[str]] = []

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        self.asked.append(patterns)
        if self.too_many and any(pattern.endswith(".autoscaler.deployment.*.*") for pattern in patterns):
            raise TooMany("more subjects match than the server answers at once")
        return await super().last(patterns, up_to)


@pytest.mark.parametrize("at", ["seq:1200", "seq:3000", ""])
@pytest.mark.parametrize("too_many", [False, True])
async def test_a_list_is_the_same_where_the_server_would_find_too_many(at: str, too_many: bool) -> None:
    source = Asked(too_many=too_many)
    moment = await moment_of(source, at)
    rows = (await listed(source, "watermarkpodautoscaler", moment)).items
    assert [pattern for pattern in source.asked if "tw.chaos.decision.*.autoscaler.deployment.*.*" in pattern]
    one_by_one: list[ListedObject] = []
    for row in rows:
        one_by_one += (
            await listed(source, row.kind, moment, namespace=row.namespace, name=row.name)
        ).items  # of one object nothing is asked for beside it
    assert list(rows) == one_by_one
    assert {row.wanted for row in rows} - {""}


async def test_what_is_decided_at_others_that_are_none_of_the_list_is_left_out() -> None:
    source = Asked(too_many=False)
    board = Board(source, "watermarkpodautoscaler")
    calls: list[int] = []
    found = await filled(board, 3000, lambda: calls.append(len(board.facts)))
    assert calls
    assert calls[0] == len(board.facts)
    others = [record for record in found if ".deployment." in record.subject]
    assert others
    assert {record.subject.rpartition(".")[2] for record in others} <= {place.name for place in board.about}
