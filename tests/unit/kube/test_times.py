"""Time stamps of Kubernetes, and times that people type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.times import (
    readable,
    rfc3339,
    rfc3339_micro,
    seconds,
    seconds_if_set,
    seconds_or_none,
    typed_seconds,
)

AT = 1795262400.0
STAMP = "2026-11-21T12:00:00Z"
TIMES = st.integers(0, 4_000_000_000)


def test_stamps_are_read_and_written() -> None:
    assert seconds(STAMP) == AT
    assert seconds("2026-11-21T13:00:00.5+01:00") == AT + 0.5
    assert rfc3339(AT + 0.9) == STAMP
    assert rfc3339(-0.5) == "1969-12-31T23:59:59Z"
    assert rfc3339_micro(AT + 0.25) == "2026-11-21T12:00:00.250000Z"


@pytest.mark.parametrize("text", ["2026-11-21T12:00:00", "yesterday", "", "2026-11-21"])
def test_a_time_without_a_zone_is_no_stamp(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        seconds(text)


@pytest.mark.parametrize("value", [None, 7, {}, "", "soon", "2026-11-21T12:00:00"])
def test_what_is_no_stamp_is_none(value: object) -> None:
    assert seconds_or_none(value) is None


def test_a_field_that_is_not_set_has_no_time() -> None:
    assert seconds_if_set(None) is None
    assert seconds_if_set(STAMP) == AT
    with pytest.raises(ValueError, match="soon"):
        seconds_if_set("soon")


@pytest.mark.parametrize(
    "text",
    [
        STAMP,
        "2026-11-21T13:00:00+01:00",
        "2026-11-21T12:00:00.000000Z",
        "2026-11-21T12:00:00",
        "2026-11-21 12:00:00",
        "2026-11-21 12:00",
        " 1795262400",
    ],
)
def test_people_may_leave_out_what_is_clear(text: str) -> None:
    assert typed_seconds(text) == AT


def test_a_day_is_its_beginning() -> None:
    assert typed_seconds("2026-11-21") == AT - 12 * 3600


@given(TIMES)
def test_what_is_written_reads_back(at: int) -> None:
    assert seconds(rfc3339(at)) == seconds_or_none(rfc3339_micro(at)) == typed_seconds(readable(at)) == at
