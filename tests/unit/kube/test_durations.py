"""Durations as Go reads and prints them; the examples are those of its documentation and of its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("-0", 0.0),
        ("+5s", 5.0),
        ("-5.5s", -5.5),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("-2ms", -0.002),
        ("10.5s4m", 250.5),
        ("12µs", 0.000012),
        ("12μs", 0.000012),
        ("0.0000000019s", 0.000000001),
        ("2562047h47m16.854775807s", 9223372036.854775807),
        ("-9223372036854775808ns", -9223372036.854775808),
        ("00000000000000000000000000000001s", 1.0),
        ("0.100000000000000000000h", 360.0),
    ],
)
def test_durations_are_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "5x", "1h-5m", "-", "+", "s", ".", "-.", ".s", "+.s", "1d", "1s ", "--5s", "١s"],
)  # the last is a digit, but not one of Go's
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 10s"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["3000000h", "9223372036854775808ns", "9223372036854ms775us808ns", "9" * 5000 + "s"]
)
def test_what_go_cannot_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="292 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.1e-6, "1.1µs"),
        (2.2e-3, "2.2ms"),
        (0.999999999, "999.999999ms"),
        (3.3, "3.3s"),
        (45, "45s"),
        (90, "1m30s"),
        (245, "4m5s"),
        (245.001, "4m5.001s"),
        (3600, "1h0m0s"),
        (18367.001, "5h6m7.001s"),
        (480.000000001, "8m0.000000001s"),
        (-1.5, "-1.5s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_durations_read_back_what_they_print(nanoseconds: int) -> None:
    seconds = nanoseconds / 1_000_000_000
    assert parse_duration(format_duration(seconds)) == seconds
