"""States that are kept on the way answer later questions as the log itself does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewright.asking import kept_folds
from tidewright.asking.exported import ExportedLog
from tidewright.asking.fold_files import Whose
from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME
from tidewright.host.fold.order import Fold
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
NAMESPACES = {"autoscaler": "team-0", "provisioning": "", "spread": "team-1", "shard-manager": "team-0"}


def source() -> ExportedLog:
    return ExportedLog(ExportFile(LOG))


def folded(log: ExportedLog, service: str, seq: int) -> Fold[Any]:
    return asyncio.run(restored(log, Asked.about(log, BY_NAME[service], NAMESPACES[service]), seq))


@cache
def of_the_log(service: str, seq: int) -> bytes:
    """The state as it is folded of a log of which nothing is kept."""
    return state_of(folded(source(), service, seq))


def state_of(fold: Fold[Any]) -> bytes:
    return msgspec.json.encode(
        msgspec.to_builtins((fold.state, fold.at, fold.timers), str_keys=True, order="deterministic")
    )


@pytest.fixture(autouse=True)
def every_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_folds, "WORTH", 0.0)


@pytest.mark.parametrize("service", NAMESPACES)
def test_in_whatever_order_moments_are_asked_for_the_state_is_that_of_the_log(service: str) -> None:
    log = source()
    first, last = asyncio.run(log.bounds())

    @settings(deadline=None, max_examples=12)
    @given(st.integers(first, last))
    def holds(seq: int) -> None:
        assert state_of(folded(log, service, seq)) == of_the_log(service, seq)

    holds()
    assert log.folds.bytes > 0


def test_a_question_after_another_reads_what_lies_between_alone() -> None:
    log = source()
    _, last = asyncio.run(log.bounds())
    folded(log, "provisioning", last)
    kept = log.folds.nearest(Whose("provisioning", 5, "all", ""), last - 200)
    assert kept is not None
    assert last - 200 - kept.position < 500
    read: list[int] = []
    merged = log.merged

    def counted(patterns: Any, after: int = 0) -> Any:
        read.append(after)
        return merged(patterns, after)

    log.merged = counted  # type: ignore[method-assign]  # how far back it reads is the point
    folded(log, "provisioning", last - 200)
    assert read == [kept.position]


def test_a_checkpoint_that_comes_while_it_is_read_is_not_gone_by() -> None:
    """A running log is read by a reader for each kind of messages, and that of decisions may have ended before."""
    ends = range(400, asyncio.run(source().bounds())[1], 397)
    for end in ends:
        log = source()
        whole, bounds = log.merged, log.bounds

        async def so_far() -> tuple[int, int]:
            return 1, end  # noqa: B023  # called in this turn alone

        async def unevenly(patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
            async with aclosing(whole(patterns, after)) as records:  # noqa: B023
                async for record in records:
                    if record.seq <= end or ".checkpoint." in record.subject:  # noqa: B023
                        yield record

        log.bounds, log.merged = so_far, unevenly  # type: ignore[method-assign]
        folded(log, "autoscaler", end)
        log.bounds, log.merged = bounds, whole  # type: ignore[method-assign]
        assert state_of(folded(log, "autoscaler", end)) == of_the_log("autoscaler", end)


def test_states_of_another_log_are_forgotten() -> None:
    log = source()
    _, last = asyncio.run(log.bounds())
    folded(log, "provisioning", last)
    key = Whose("provisioning", 5, "all", "")
    kept = log.folds.nearest(key, last)
    assert kept is not None
    other = kept_folds.KeptFolds()
    changed = msgspec.structs.replace(kept.checkpoint, body=b"{}")
    other._kept[key, kept.position] = msgspec.structs.replace(
        kept, checkpoint=changed, data=b"of another log"
    )
    log.folds = other
    assert state_of(folded(log, "provisioning", last)) == of_the_log("provisioning", last)


def test_what_is_kept_is_bounded_and_what_was_used_least_goes_first() -> None:
    log = source()
    _, last = asyncio.run(log.bounds())
    folded(log, "provisioning", last)
    one = log.folds.bytes // max(1, len(log.folds._kept))
    log.folds = kept_folds.KeptFolds(most_bytes=4 * one)
    folded(log, "provisioning", last)
    assert 0 < log.folds.bytes <= 4 * one
    assert log.folds.bytes == sum(len(kept.data) for kept in log.folds._kept.values())
    assert log.folds.nearest(Whose("provisioning", 5, "all", ""), 100) is None
