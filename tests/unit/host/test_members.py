"""Who is there, by what is heard of a bucket that takes nothing for a while."""

from __future__ import annotations

from typing import cast

from tidewright.host.loop.membership import HEARTBEAT_S, STALE_S, BucketMembership
from tidewright.log.connection import Log


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Named:
    stream = "TW_c"


def heard_of(clock: Clock, *others: str) -> BucketMembership:
    """A member that has heard of itself and of others."""
    membership = BucketMembership(cast("Log", Named()), "actuator", "me", monotonic=clock)
    for name in ("me", *others):
        membership._hear(name, b"1")
    membership._judge()
    assert membership.members == {"me", *others}
    return membership


def test_nobody_is_gone_whose_entry_expired_while_none_was_taken() -> None:
    """Servers without a leader: all entries expire, and are there again one after the other."""
    clock = Clock()
    membership = heard_of(clock, "owner")
    clock.now += 5.0
    for expired, back in (("owner", "me"), ("me", "owner")):
        membership._hear(expired, b"", expired=True)
        membership._judge()
        assert membership.members == {"me", "owner"}
        membership._hear(back, b"1")
        membership._judge()
        assert membership.members == {"me", "owner"}
        clock.now += HEARTBEAT_S


def test_who_died_meanwhile_is_gone_once_he_had_the_time_to_be_heard() -> None:
    clock = Clock()
    membership = heard_of(clock, "dead")
    clock.now += 5.0
    membership._hear("dead", b"", expired=True)
    back_at = clock.now
    while "dead" in membership.members:
        membership._hear("me", b"1")
        membership._judge()
        clock.now += HEARTBEAT_S
    assert STALE_S < clock.now - back_at <= STALE_S + 2 * HEARTBEAT_S


def test_who_expires_while_others_are_heard_is_gone_at_once() -> None:
    clock = Clock()
    membership = heard_of(clock, "dead")
    clock.now += 2.0
    membership._hear("me", b"1")
    membership._hear("dead", b"", expired=True)
    membership._judge()
    assert membership.members == {"me"}


def test_who_takes_his_entry_back_is_gone_at_once_also_after_an_outage() -> None:
    clock = Clock()
    membership = heard_of(clock, "stopped")
    clock.now += 5.0
    membership._hear("me", b"1")
    membership._hear("stopped", b"")
    membership._judge()
    assert membership.members == {"me"}
