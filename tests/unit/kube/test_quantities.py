"""Quantities: exact, rounded away from zero, printed as the API machinery prints them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube import quantities
from tidewright.kube.quantities import NotAQuantity, Quantity, format_milli, milli, parse, printed, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1u", 1),
        ("4000.5m", 4001),
        ("-0.1m", -1),
        ("0.01", 10),
        ("1", 1000),
        ("1k", 1_000_000),
        ("1Ki", 1_024_000),
        ("2e3", 2_000_000),
        ("2E3", 2_000_000),
        ("1E", 10**21),
        ("+5", 5000),
        (".5", 500),
        ("5.", 5000),
        ("1e-12", 1),
        ("0", 0),
        (12, 12_000),
        (0.25, 250),
        (1e-05, 1),
    ],
)
def test_milli_is_exact_and_rounds_away_from_zero(text: str | float, expected: int) -> None:
    assert milli(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("500m", 1), ("1n", 1), ("-1n", -1), ("1.5Gi", 1_610_612_736), ("100M", 10**8)]
)
def test_whole_rounds_away_from_zero(text: str, expected: int) -> None:
    assert whole(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ".", "-", "1.2.3", "abc", "1Kb", "1 Gi", "NaN", "inf", "1K", "1e", "0x1", "1\n", "١", True, False],
)
def test_what_is_no_quantity_is_refused_by_name(text: str | bool) -> None:
    with pytest.raises(NotAQuantity, match=r"is not a quantity; valid are"):
        parse(text)


def test_amounts_beyond_the_range_are_cut_without_building_huge_numbers() -> None:
    assert whole("1e999999999") == 2**63 - 1
    assert whole("-1e999999999") == -(2**63) + 1
    assert milli("1e-999999999") == 1


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("134", "134"),
        ("-1m", "-1m"),
        ("1024Mi", "1Gi"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1.0001Ki", "1024102400u"),
        ("1e3", "1e3"),
        ("1e1", "10"),
        ("0", "0"),
        ("1000m", "1"),
        ("0.0000001", "100n"),
    ],
)
def test_the_canonical_text(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.5", "1500m"),
        ("1.234", "1.234"),
        ("1.500", "1.500"),
        ("1.000", "1"),
        ("0.125", "125m"),
        ("+5", "+5"),
        ("007", "007"),
        ("5000m", "5"),
        ("1e1", "10"),
        ("2e0", "2e0"),
        ("9Ki", "9Ki"),
        ("1024Ki", "1Mi"),
        ("0", "0"),
        (134, "134"),
    ],
)
def test_one_that_was_read_keeps_the_spelling_that_looks_canonical(text: str | int, found: str) -> None:
    assert printed(text) == found


@given(st.integers(-(10**15), 10**15))
def test_formatted_millis_read_back(value: int) -> None:
    assert milli(format_milli(value)) == value


@given(
    st.integers(-(10**9), 10**9),
    st.integers(0, 12),
    st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e2", "e-3"]),
)
def test_milli_agrees_with_rational_arithmetic(digits: int, places: int, suffix: str) -> None:
    text = f"{abs(digits):0{places + 1}d}"
    text = f"{text[: len(text) - places]}.{text[len(text) - places :]}{suffix}"
    factors = {"n": "1e-9", "u": "1e-6", "m": "1e-3", "k": "1e3", "M": "1e6", "e2": "1e2", "e-3": "1e-3"}
    factor = {"Ki": Fraction(1024), "Mi": Fraction(2**20)}.get(suffix) or Fraction(factors.get(suffix, "1"))
    nanos = -((-Fraction(abs(digits), 10**places) * factor * 10**9) // 1)
    expected = -(-nanos // 10**6)
    assert milli(text) == expected
    assert milli("-" + text) == -expected


@given(st.integers(-(10**30), 10**30))
def test_the_printed_form_is_the_same_amount(nanos: int) -> None:
    bound = quantities.MAX_UNITS * quantities.NANOS_PER_UNIT
    quantity = Quantity(max(-bound, min(bound, nanos)))
    assert parse(str(quantity)).nanos == quantity.nanos


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1" * 5000, quantities.MAX_UNITS * 1000),
        ("-" + "1" * 5000, -quantities.MAX_UNITS * 1000),
        ("0" * 5000 + "5", 5000),
        ("0." + "0" * 5000 + "1", 1),
        ("1" * 5000 + "e-4999", 1112),
        ("2" + "0" * 4999 + "e-4999", 2000),
        ("1e" + "0" * 5000 + "3", 1_000_000),
        ("1e" + "9" * 5000, quantities.MAX_UNITS * 1000),
        ("1e-" + "9" * 5000, 1),
    ],
)
def test_a_quantity_of_thousands_of_digits_is_one(text: str, expected: int) -> None:
    """An API server takes it, and Python reads no number of more than 4,300 digits."""
    assert milli(text) == expected
    assert printed(text)
