"""What is said of a log that does not answer: once an outage."""

from __future__ import annotations

from tidewright.log.outage import OVER_S, Outage


def test_each_thing_is_said_once_for_as_long_as_it_lasts() -> None:
    now = 0.0
    outage = Outage(lambda: now)
    assert outage.is_new("reading")
    assert outage.is_new("deciding")
    for _ in range(100):
        now += OVER_S / 2
        assert not outage.is_new("reading")
    assert not outage.is_new("deciding")
    now += OVER_S + 1.0
    assert outage.is_new("reading")
    assert outage.is_new("deciding")
