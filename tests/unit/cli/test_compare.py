"""`tidewright compare`: what it says when there is nothing to compare."""

from __future__ import annotations

from tidewright.cli.compare.command import _text


def test_no_change_at_all_is_no_agreement() -> None:
    assert _text([], "stream TW_local").endswith(
        "stream TW_local: 0 changes by anybody: there is nothing to compare yet."
    )
