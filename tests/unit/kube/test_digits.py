"""Whole numbers in texts that anybody writes."""

from __future__ import annotations

import pytest

from tidewright.kube.digits import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("\N{SUPERSCRIPT TWO}", None),
        ("\N{ARABIC-INDIC DIGIT ONE}", None),
        ("", None),
        ("-1", None),
        ("1_000", None),
        (" 1", None),
    ],
)
def test_only_digits_and_not_too_many_are_a_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number
