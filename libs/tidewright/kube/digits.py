"""Whole numbers that stand in texts which anybody writes: annotations, names of keys, parameters. Pure."""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 18
"""More have no number that anything here counts; and Python reads none of more than 4,300 digits, but raises."""


def whole_number(text: str) -> int | None:
    """The number of a text of the digits 0 to 9; None for any other, and for one of more than `MOST_DIGITS` digits.

    `str.isdigit` and `str.isdecimal` take others: superscripts, which `int` does not read, and texts of any length.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= MOST_DIGITS else None
