"""From signs to what is said of each of our services. Pure.

    seen -> signs, each with the moment of its last beat -> those that count -> a verdict

What counts: a Deployment that runs; a lock or a status that was renewed within its time; a webhook
configuration, unless the rival's Deployment is known to stand still (it stays behind when its owner is
stopped), and so with statuses that were written before it stopped. An incumbent of which nothing counts
any longer is gone after a quiet time, so that a restart or a roll-out of it is no gap to act in.

Beats are measured on this process's clock, from when they were seen to change: clocks of others are
compared only for what was never seen before, and roughly.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events.incumbents import Evidence, IncumbentObserved
from tidewright.watcher.incumbents.rivals import RIVALS, Rival
from tidewright.watcher.incumbents.signs import Key, Sign, Weight

QUIET_S = 60.0
"""For how long nothing may show an incumbent before it counts as gone, wall seconds."""
ROUGHLY_S = 60.0
"""How far another clock may be off: what was renewed longer ago when it is first seen is a leftover."""
MOST_SHOWN = 20
"""Pieces of evidence in one fact."""


class _Known(msgspec.Struct):
    """A sign, and since when its present beat has been known here, seconds; None: a leftover."""

    sign: Sign
    beaten_at: float | None


class Book:
    """The signs of all rivals, and what was said of them."""

    def __init__(self, *, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._signs: dict[Key, _Known] = {}
        self._stopped_at: dict[str, float] = {}
        """By service: when the last Deployment of its rival was seen to stop, or that none runs."""
        self._quiet_since: dict[str, float] = {}
        self._unseen: dict[str, dict[str, None]] = {}
        self.said: dict[str, IncumbentObserved] = {}

    # -- what is seen ----------------------------------------------------------------------------

    def seen(self, key: Key, sign: Sign | None, now: float, wall: float) -> None:
        """An object shows this now; None: nothing (any more).

        `now` is of a clock that never goes back, `wall` of the one that stamps are compared with; seconds.
        """
        before = self._signs.pop(key, None)
        if sign is not None:
            at: float | None = now
            if before is not None and before.sign.beat == sign.beat:
                at = before.beaten_at
            elif before is None and sign.beat_at is not None:
                age = wall - sign.beat_at
                at = None if age > sign.lasts_s + ROUGHLY_S else now
            self._signs[key] = _Known(sign, at)
        for rival in {
            known.sign.rival.service: known.sign.rival for known in (before, self._signs.get(key)) if known
        }.values():
            self._mind_deployments(rival, before, now)

    def _mind_deployments(self, rival: Rival, before: _Known | None, now: float) -> None:
        deployments = [
            k.sign for k in self._signs.values() if k.sign.rival is rival and k.sign.weight is Weight.RUNS
        ]
        if any(sign.holds for sign in deployments):
            self._stopped_at.pop(rival.service, None)
        elif deployments or (before is not None and before.sign.weight is Weight.RUNS):
            self._stopped_at.setdefault(rival.service, now)

    def __contains__(self, key: Key) -> bool:
        return key in self._signs

    def keys(self, kind: str, name: str = "") -> list[Key]:
        """What is known of a kind, or of its objects of one name."""
        return [key for key in self._signs if key[0] == kind and name in ("", key[2])]

    def unseen(self, services: Iterable[str], right: str, *, lacking: bool) -> bool:
        """A right to look is lacking, or is there; whether that is new."""
        new = False
        for service in services:
            rights = self._unseen.setdefault(service, {})
            if lacking != (right in rights):
                new = True
                if lacking:
                    rights[right] = None
                else:
                    del rights[right]
        return new

    # -- what is said ----------------------------------------------------------------------------

    def news(self, now: float) -> list[IncumbentObserved]:
        """What is to be said now, with `at` and a new `since` of 0: whoever says it fills them in, and calls `told`."""
        return [fact for rival in RIVALS if (fact := self._news_of(rival, now)) is not None]

    def told(self, fact: IncumbentObserved) -> None:
        """This was said, now or by whoever had this part before."""
        self.said[fact.service] = fact
        if not fact.present:
            self._quiet_since.pop(fact.service, None)

    def next_at(self, now: float) -> float | None:
        """When something ends by time alone, if nothing new is seen; None: nothing does."""
        ends = [
            known.beaten_at + known.sign.lasts_s
            for known in self._signs.values()
            if known.sign.beat and known.beaten_at is not None and self._counts(known, now)
        ]
        ends += [since + self._quiet_s for since in self._quiet_since.values()]
        return min(ends, default=None)

    def _news_of(self, rival: Rival, now: float) -> IncumbentObserved | None:
        counted = [
            known.sign
            for _, known in sorted(self._signs.items())
            if known.sign.rival is rival and self._counts(known, now)
        ]
        before = self.said.get(rival.service)
        unseen = tuple(sorted(self._unseen.get(rival.service, ())))
        if counted:
            self._quiet_since.pop(rival.service, None)
            namespaces = _scope(counted)
            fact = IncumbentObserved(
                at=0.0,
                service=rival.service,
                rival=rival.name,
                present=True,
                evidence=_shown(counted),
                everywhere=namespaces is None,
                namespaces=namespaces or (),
                since=before.since if before is not None and before.present else 0.0,
                unseen=unseen,
            )
        elif before is not None and before.present:
            quiet_since = self._quiet_since.setdefault(rival.service, now)
            if now - quiet_since < self._quiet_s:
                fact = msgspec.structs.replace(before, at=0.0, unseen=unseen)
            else:
                fact = IncumbentObserved(
                    at=0.0, service=rival.service, rival=rival.name, quiet_s=self._quiet_s, unseen=unseen
                )
        elif before is not None:
            fact = msgspec.structs.replace(before, at=0.0, unseen=unseen)
        elif unseen:
            fact = IncumbentObserved(at=0.0, service=rival.service, unseen=unseen)
        else:
            return None
        plain = None if before is None else msgspec.structs.replace(before, at=0.0, refresh=False)
        return None if fact == plain else fact

    def _counts(self, known: _Known, now: float) -> bool:
        sign, stopped_at = known.sign, self._stopped_at.get(known.sign.rival.service)
        if not sign.holds or known.beaten_at is None:
            return False
        if sign.beat and now >= known.beaten_at + sign.lasts_s:
            return False
        match sign.weight:
            case Weight.TRACE:
                return stopped_at is None
            case Weight.WRITES:
                return stopped_at is None or known.beaten_at > stopped_at
        return True


def _shown(counted: list[Sign]) -> tuple[Evidence, ...]:
    shown = tuple(sign.evidence for sign in counted)
    if len(shown) <= MOST_SHOWN:
        return shown
    rest = len(shown) - MOST_SHOWN + 1
    return (*shown[: MOST_SHOWN - 1], Evidence(kind="", shows=f"and {rest} more"))


def _scope(counted: list[Sign]) -> tuple[str, ...] | None:
    """Where the rival acts, given the signs that count; None: everywhere.

    A Deployment says it best. A lock beside it is its own, and so are what it leaves behind and what it
    writes there.
    """
    running = [sign for sign in counted if sign.weight is Weight.RUNS]
    homes = {sign.evidence.namespace for sign in running}
    locks = [s for s in counted if s.weight is Weight.LOCK and s.evidence.namespace not in homes]
    telling = running + locks + [s for s in counted if s.weight is Weight.WRITES and s.scope is not None]
    namespaces: set[str] = set()
    for sign in telling or counted:
        if sign.scope is None:
            return None
        namespaces.update(sign.scope)
    return tuple(sorted(namespaces))
