"""What is said of a log that does not answer: once an outage, by whomever it is met, and that it is over."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tidewright.log.errors import Conflict, LogUnavailable
from tidewright.log.outage import CALM_S, OVER_S, Outage

AWAY, BACK = "the log does not answer, going on when it does", "the log answers again"
NO_ANSWER = LogUnavailable("no answer in 1 s")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_is_said_once_for_as_long_as_it_lasts_whatever_waits(clock: Clock) -> None:
    outage = Outage(clock)
    with capture_logs() as lines:
        for _ in range(100):
            for waiting in ("reading", "deciding"):
                outage.met(waiting, NO_ANSWER)
            outage.answered()  # some questions are, while servers look for a leader
            clock.now += OVER_S / 2
        assert [(line["event"], line["waiting"]) for line in lines if line["log_level"] == "warning"] == [
            (AWAY, "reading")
        ]
        clock.now += OVER_S
        outage.met("deciding", NO_ANSWER)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [AWAY, AWAY]


def test_that_it_is_over_is_said_once_when_nothing_has_failed_for_a_while(clock: Clock) -> None:
    outage = Outage(clock)
    with capture_logs() as lines:
        outage.answered()
        outage.met("reading", NO_ANSWER)
        clock.now += 7.0
        outage.met("reading", NO_ANSWER)
        outage.answered()
        assert [line["event"] for line in lines] == [AWAY]
        clock.now += CALM_S
        outage.answered()
        outage.answered()
    assert [line["event"] for line in lines] == [AWAY, BACK]
    assert lines[-1]["after_s"] == 7.0


def test_what_fails_after_it_was_said_to_be_over_is_said_again(clock: Clock) -> None:
    outage = Outage(clock)
    with capture_logs() as lines:
        for _ in range(2):
            outage.met("reading", NO_ANSWER)
            clock.now += CALM_S
            outage.answered()
    assert [line["event"] for line in lines] == [AWAY, BACK, AWAY, BACK]


def test_what_is_no_outage_is_told_by_whoever_meets_it(clock: Clock) -> None:
    outage = Outage(clock)
    with capture_logs() as lines:
        assert not outage.explains("placing", Conflict("wrong last sequence"))
        assert not lines
        assert outage.explains("placing", NO_ANSWER)
    assert [line["event"] for line in lines] == [AWAY]


def test_a_server_is_said_to_be_left_once_an_outage(clock: Clock) -> None:
    outage = Outage(clock)
    for _ in range(2):
        with capture_logs():
            outage.met("reading", NO_ANSWER)
        assert outage.leaves()
        assert not outage.leaves()
        clock.now += OVER_S + 1.0
