"""Kubernetes quantities (`250m`, `1.5Gi`, `2e3`), exactly, in integers.

The API machinery keeps a quantity to the nano, and rounds what is finer away from zero when it
parses; so an integer of nanos *is* the quantity. Reading one in milli or in whole units rounds away
from zero again, as the API machinery does: `1u` is 1 milli, `500m` is 1 whole.

parse      text or JSON number to `Quantity`
milli      straight to milli units: millicores, milli of a metric value
whole      straight to whole units: bytes, counts
canonical  the text that the API machinery prints for an amount
printed    the text that it prints for one that it has read
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import msgspec

NANOS_PER_UNIT = 10**9
NANOS_PER_MILLI = 10**6
MAX_UNITS = 2**63 - 1
"""Larger magnitudes are cut to this when parsed."""

QuantityText: TypeAlias = str | int | float
"""As JSON carries it; a number means its own text."""


class NotAQuantity(ValueError):
    """The text is no quantity; the message says what one looks like."""


class Notation(Enum):
    """The family of suffixes that a quantity was written with, and is printed with."""

    DECIMAL_SI = "decimal"
    BINARY_SI = "binary"
    DECIMAL_EXPONENT = "exponent"


class Quantity(msgspec.Struct, frozen=True):
    """An exact amount."""

    nanos: int
    notation: Notation = Notation.DECIMAL_SI

    @property
    def milli(self) -> int:
        """In thousandths, rounded away from zero."""
        return away_from_zero(self.nanos, NANOS_PER_MILLI)

    @property
    def whole(self) -> int:
        """In units, rounded away from zero: only an exact 0 is 0."""
        return away_from_zero(self.nanos, NANOS_PER_UNIT)

    def __str__(self) -> str:
        return canonical(self)


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_PATTERN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII)
_MAX_EXPONENT = 64  # beyond it every amount is either cut to the maximum or rounded to one nano

_MOST_DIGITS = 100
"""Python reads no number of more than 4,300 digits, an API server does: beyond so many none changes what a quantity holds."""
_FAR = 10**9


def away_from_zero(value: int, divisor: int) -> int:
    """`value / divisor` for a positive divisor, rounded away from zero."""
    return -(-value // divisor) if value >= 0 else value // divisor


@lru_cache(maxsize=65536, typed=True)
def parse(text: QuantityText) -> Quantity:
    """Read a quantity.

    Raises:
        NotAQuantity: it is none; the message quotes it and shows valid ones.
    """
    match = _PATTERN.fullmatch(str(text)) if not isinstance(text, bool) else None
    if match is None or not (match[2] or match[3]):
        raise NotAQuantity(f"{text!r} is not a quantity; valid are for instance 250m, 0.5, 12, 1.5Gi, 2e3")
    sign, integer, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits, left_out = _significant(integer + fraction)
    exponent, binary, notation = left_out - len(fraction), 0, Notation.DECIMAL_SI
    if suffix in _BINARY:
        binary, notation = _BINARY[suffix], Notation.BINARY_SI
    elif suffix in _DECIMAL:
        exponent += _DECIMAL[suffix]
    else:
        exponent, notation = exponent + _power(suffix), Notation.DECIMAL_EXPONENT
    return Quantity(_nanos(digits, exponent, binary) * (-1 if sign == "-" else 1), notation)


def _significant(text: str) -> tuple[int, int]:
    """Digits as a number, and how many of them it does without: beyond the first, all that they do is to round it up."""
    digits = text.lstrip("0")
    left_out = max(0, len(digits) - _MOST_DIGITS)
    kept = int(digits[: len(digits) - left_out] or "0")
    return kept + bool(digits[len(digits) - left_out :].strip("0")), left_out


def _power(suffix: str) -> int:
    """The exponent of a suffix such as `e-3`; of one with many digits a number that is as good as any."""
    digits = suffix[1:].lstrip("+-").lstrip("0")
    power = int(digits or "0") if len(digits) <= _MOST_DIGITS else _FAR
    return -power if "-" in suffix else power


def _nanos(digits: int, exponent: int, binary: int) -> int:
    """`digits * 10**exponent * 2**binary` in nanos, rounded up, cut to the maximum."""
    if digits == 0:
        return 0
    magnitude = exponent + len(str(digits))  # the amount lies below 10**magnitude
    if magnitude > _MAX_EXPONENT:
        return MAX_UNITS * NANOS_PER_UNIT
    if magnitude < -_MAX_EXPONENT:
        return 1
    power = exponent + 9
    amount = digits << binary
    nanos: int = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    return min(nanos, MAX_UNITS * NANOS_PER_UNIT)


def milli(text: QuantityText) -> int:
    """The quantity in thousandths (millicores, milli of a metric), rounded away from zero.

    Raises:
        NotAQuantity: it is none.
    """
    return parse(text).milli


def whole(text: QuantityText) -> int:
    """The quantity in units (bytes, counts), rounded away from zero.

    Raises:
        NotAQuantity: it is none.
    """
    return parse(text).whole


def of_milli(value: int) -> Quantity:
    """The quantity of so many thousandths."""
    return Quantity(value * NANOS_PER_MILLI)


def canonical(quantity: Quantity) -> str:
    """The text that the API machinery prints: no fraction, the largest suffix that allows it."""
    nanos, notation = quantity.nanos, quantity.notation
    if notation is Notation.BINARY_SI and (abs(nanos) < 1024 * NANOS_PER_UNIT or nanos % NANOS_PER_UNIT):
        notation = Notation.DECIMAL_SI
    if nanos == 0:
        return "0"
    if notation is Notation.BINARY_SI:
        value, exponent = quantity.whole, 0
        while value % 1024 == 0 and exponent < 60:
            value, exponent = value // 1024, exponent + 10
        return f"{value}{_BINARY_SUFFIX.get(exponent, '')}"
    value, exponent = nanos, -9
    while value % 1000 == 0 and exponent < 18:
        value, exponent = value // 1000, exponent + 3
    if notation is Notation.DECIMAL_EXPONENT:
        return f"{value}e{exponent}" if exponent else str(value)
    return f"{value}{_DECIMAL_SUFFIX[exponent]}"


_KEPT_DIGITS = 18
_KEPT_BINARY_DIGITS = 14


def printed(text: QuantityText) -> str:
    """The text that the API machinery prints for a quantity that it has read.

    It keeps the spelling that it read where that looks canonical to it (`1.234`, `+5`), and makes
    a canonical one otherwise (`1.5` is `1500m`).

    Raises:
        NotAQuantity: it is none.
    """
    quantity, spelling = parse(text), str(text)
    match = _PATTERN.fullmatch(spelling)
    if match is None or not quantity.nanos:
        return canonical(quantity)
    integer, fraction, suffix = match[2].lstrip("0") or "0", match[3] or "", match[4] or ""
    if suffix in _BINARY:
        digits = len(integer) + _BINARY[suffix] * 3 // 10
        kept = not fraction and digits <= _KEPT_BINARY_DIGITS and int(integer) % 8 != 0
    else:
        digits = len(integer) + len(fraction)
        scale = _DECIMAL[suffix] if suffix in _DECIMAL else _power(suffix)
        scale -= len(fraction)
        kept = digits <= _KEPT_DIGITS and scale >= _DECIMAL["n"] and scale % 3 == 0
        kept = kept and integer != "0" and not (integer + fraction).endswith("000")
    return spelling if kept else canonical(quantity)


def format_milli(value: int) -> str:
    """The canonical text of so many thousandths: 1500 is `1500m`, 2000 is `2`, 2000000 is `2k`."""
    return canonical(of_milli(value))
