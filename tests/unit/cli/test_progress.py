"""A bar is for what takes more than a second, on a terminal, one at a time, and never on stdout."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from tidewright.asking import progress as module
from tidewright.asking.progress import PATIENCE_S, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wall]:
    clock = Wall()
    monkeypatch.setattr(module, "time", clock)
    yield clock
    assert module._shown == []


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from here on; a fixture could not, for capturing starts after it."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_what_is_done_within_a_second_shows_nothing(wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress("verifying", 100) as advance:
        for _ in range(100):
            wall.now += PATIENCE_S / 101
            advance(1)
    assert stream.getvalue() == ""


def test_what_takes_longer_shows_what_it_is_and_how_far(wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress("verifying", 100) as advance:
        advance(40)
        wall.now += PATIENCE_S + 0.1
        advance(10)
        with progress("restoring", 10) as inner:  # beside it: a terminal takes one bar at a time
            wall.now += 2 * PATIENCE_S
            inner(5)
    shown = stream.getvalue()
    assert "verifying" in shown
    assert "50/100" in shown
    assert "restoring" not in shown


def test_what_is_no_terminal_is_left_alone(wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("verifying", 100) as advance:
        wall.now += 10 * PATIENCE_S
        advance(50)
    assert stream.getvalue() == ""
