"""States that are kept on the way answer later questions as the log itself does."""

from __future__ import annotations

import asyncio
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
