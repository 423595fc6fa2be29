"""Times as people type them, and the moments of a log that they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewright.asking.answers.form import stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.exported import ExportedLog
from tidewright.asking.objects import moment
from tidewright.asking.point_in_time import moment_of
from tidewright.kube.times import seconds
from tidewright.log.export import ExportFile

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
NOW = seconds("2026-03-02T14:20:30Z")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("14:14", "2026-03-02T14:14:00Z"),
        ("9:05:07", "2026-03-02T09:05:07Z"),
        ("14:20:30", "2026-03-02T14:20:30Z"),
        ("14:21", "2026-03-01T14:21:00Z"),
        ("15m", "2026-03-02T14:05:30Z"),
        ("2026-03-01 12:00", "2026-03-01T12:00:00Z"),
    ],
)
def test_a_time_of_day_is_the_last_one_that_has_been(text: str, meant: str) -> None:
    assert moment(text, NOW) == seconds(meant)


@pytest.mark.parametrize("text", ["24:00", "12:60", "12:30:99", "noon"])
def test_what_is_no_time_is_told_with_what_would_be(text: str) -> None:
    with pytest.raises(BadInput, match=r"or 14:14 \(UTC\), seconds since the epoch, or how long ago"):
        moment(text, NOW)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e30", "-1e30", "9999999d", f"{'9' * 400}d"])
@pytest.mark.parametrize("option", ["--at", "--since", "--until"])
async def test_a_time_outside_the_calendar_is_told_with_the_field_and_what_would_be_valid(
    text: str, option: str
) -> None:
    with pytest.raises(BadInput) as refused:
        await moment_of(ExportedLog(ExportFile(LOG)), text, option)
    assert str(refused.value).startswith(f"{option} {text}: ")
    assert "valid are 0001-01-01 to 9999-12-31" in str(refused.value)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar_are_times(text: str) -> None:
    assert stamp(moment(text, NOW))


@pytest.mark.parametrize("text", ["05:49", "2026-02-02 05:49", "2026-02-02T05:49Z"])
async def test_what_happened_in_a_minute_is_part_of_it(text: str) -> None:
    source = ExportedLog(ExportFile(LOG))
    begin, end = (
        await moment_of(source, "2026-02-02T05:49:00Z"),
        await moment_of(source, "2026-02-02T05:49:59.999Z"),
    )
    assert begin.seq < end.seq
    assert await moment_of(source, text) == end
    assert (await moment_of(source, text, "--until")).seq == end.seq
    assert await moment_of(source, text, "--since") == begin


async def test_the_minute_that_goes_on_ends_where_the_log_does() -> None:
    source = ExportedLog(ExportFile(LOG))
    end = await moment_of(source, "")
    found = await moment_of(source, time_of_day(end.at))
    assert (found.seq, found.at, found.ended) == (end.seq, end.at, None)


def time_of_day(at: float) -> str:
    """The time of day, to the minute."""
    minutes = int(at) % 86_400 // 60
    return f"{minutes // 60:02}:{minutes % 60:02}"
