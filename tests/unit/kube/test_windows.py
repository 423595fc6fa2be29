"""Windows of time that come again, as annotations say them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidewright.kube.windows import EXAMPLE, standing, windows


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "now", "is_open", "until"),
    [
        ("0 8 * * mon-fri 10h", "2026-11-23T07:59:59", False, "2026-11-23T08:00:00"),
        ("0 8 * * mon-fri 10h", "2026-11-23T08:00:00", True, "2026-11-23T18:00:00"),
        ("0 8 * * mon-fri 10h", "2026-11-23T17:59:59", True, "2026-11-23T18:00:00"),
        ("0 8 * * mon-fri 10h", "2026-11-27T18:00:00", False, "2026-11-30T08:00:00"),
        ("0 20 * * * 8h", "2026-11-23T03:00:00", True, "2026-11-23T04:00:00"),  # over midnight
        ("0 0 29 2 * 24h", "2026-11-23T03:00:00", False, "2028-02-29T00:00:00"),
        ("0 8 * * 1 1h; 0 9 * * 1 2h30m", "2026-11-23T09:15:00", True, "2026-11-23T11:30:00"),
        ("0 8 * * 1 1h;0 13 * * 1 1h", "2026-11-23T10:00:00", False, "2026-11-23T13:00:00"),
    ],
)
def test_a_window_is_open_from_its_hour_for_its_time(text: str, now: str, is_open: bool, until: str) -> None:
    found = standing(windows(text), at(now))
    assert (found.open, found.until) == (is_open, at(until))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 8 * * 10h", "'0 8 * * 10h' has 5 parts"),
        ("61 8 * * * 1h", "'61 8 * * * 1h': its minute cannot be read"),
        ("0 8 * * someday 1h", "its day-of-week cannot be read"),
        ("0 0 31 2 * 1h", "its day-of-month cannot be read"),  # there is no such day
        ("0 8 * * * 10", "'10' is no duration"),
        ("0 8 * * * 30s", "is open for less than a minute"),
        ("0 8 * * * -2h", "is open for less than a minute"),
        ("0 8 * * * 1h;", "'' has 0 parts"),
        ("", "'' has 0 parts"),
    ],
)
def test_what_is_no_window_is_quoted_with_one_that_is(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="valid is for instance") as caught:
        windows(text)
    assert says in str(caught.value)
    assert EXAMPLE in str(caught.value)
