"""Events of a slot that are read and not folded yet, and the last words on what only some sets of inputs have. Pure.

Which events a service decided about is known when the next checkpoint comes, which names their set. So what
some of its versions followed and others did not waits apart, and of what lies behind, the last message of each
subject is kept: a version that learns to follow more begins with these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from operator import attrgetter, itemgetter

import msgspec

from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.host.fold.order import Waiting, taken_off

_SEQ = itemgetter(0)


class Word(msgspec.Struct, frozen=True, gc=False):
    """An event that only some sets of inputs have.

    Attributes:
        token: by which the sets name it, see `Tokens`.
    """

    token: str
    subject: str
    seq: int
    body: bytes
    event: Event | registry.Unknown


class Inbox:
    """What waits in one slot.

    Attributes:
        waiting: events that every set has, in stream order.
    """

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []
        self._apart: list[Word] = []
        self._last: dict[str, Word] = {}
        """By subject, the last word at or before the position up to which everything is folded."""

    def put_apart(self, word: Word, position: int) -> None:
        """One more of those that only some sets have, `position` being up to where everything is folded."""
        if word.seq > position:
            self._apart.append(word)
        else:
            self._last[word.subject] = word

    def due(self, position: int, tokens: Container[str]) -> list[Waiting]:
        """The events up to a position, which wait no longer: those of them that a set has, in stream order."""
        due = taken_off(self.waiting, position)
        if not self._apart:
            return due
        count = bisect_right(self._apart, position, key=attrgetter("seq"))
        passed = self._apart[:count]
        del self._apart[:count]
        self._last.update((word.subject, word) for word in passed)
        return sorted([*due, *_of(passed, tokens)], key=_SEQ)

    def last_words(self, tokens: Container[str]) -> list[Waiting]:
        """The last words on the subjects of some tokens, in stream order."""
        return sorted(_of(self._last.values(), tokens), key=_SEQ)

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self.waiting and not self._apart

    def knows_more(self, tokens: Container[str]) -> bool:
        """Whether there are words of other tokens than these: a version that learns to follow them would begin with them."""
        return any(word.token not in tokens for word in self._last.values())

    def left(self, tokens: Container[str]) -> list[Waiting]:
        """What waits still and a set has, in stream order."""
        if not self._apart:
            return self.waiting
        return sorted([*self.waiting, *_of(self._apart, tokens)], key=_SEQ)


def _of(words: Iterable[Word], tokens: Container[str]) -> list[Waiting]:
    return [(word.seq, word.body, word.event) for word in words if word.token in tokens]
