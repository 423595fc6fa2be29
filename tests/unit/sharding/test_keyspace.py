"""How sets of slots are written, and read where anybody may have written them."""

from __future__ import annotations

import pytest

from tidewright.sharding.keyspace import MAX_SLOTS, parse_runs
from tidewright.sharding.source import legal_slot


@pytest.mark.parametrize(
    "text",
    [
        "0-99999999999",
        f"0-{MAX_SLOTS}",
        ",".join(["0-32767"] * 20_000),
        "9" * 5000,
        "1-" + "9" * 5000,
        "\N{SUPERSCRIPT TWO}",
        "5-1",
    ],
)
def test_no_text_has_more_slots_than_there_are(text: str) -> None:
    """A pod's annotation may say so: it took all memory, or days."""
    with pytest.raises(ValueError, match="expected"):
        parse_runs(text)


def test_all_slots_are_read() -> None:
    assert parse_runs(f"7,0-{MAX_SLOTS - 2}") == list(range(MAX_SLOTS - 1))


@pytest.mark.parametrize("value", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "01", "-1", ""])
def test_a_label_that_is_no_slot_is_none(value: str) -> None:
    assert not legal_slot(value, 32)
