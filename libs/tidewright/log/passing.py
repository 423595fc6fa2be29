"""Which records of a whole log are believed, as they come by: no look-ups, so that a file will do. Pure.

A message waits for the end of its commit, which carries the signature; at most a batch waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidewright.log import belief, signing
from tidewright.log.belief import Cause
from tidewright.log.envelope import EXPECTED
from tidewright.log.keyring import AUTHENTICATED, Keyring, Keys
from tidewright.log.reader import Record
from tidewright.log.signing import Commit
from tidewright.log.subjects import Subjects

Judged = tuple[Record, Cause | None]
"""A record, and why it is not believed."""


class Passed(msgspec.Struct, frozen=True):
    """What is known of the messages that were judged, where none waits.

    Attributes:
        last: subject to the sequence of the last message on it.
    """

    last: dict[str, int]
    commits: int
    signed: int


class Passing:
    """Judges the records of one log in order. The keyring has taken all key records already."""

    def __init__(
        self, subjects: Subjects, keyring: Keyring | None, *, partial: bool = False, since: int = 1
    ) -> None:
        """Without a keyring nothing needs a signature. Of a `partial` log the ends of some commits are left out:
        what cannot be told of a message for want of it is not held against it, but counted in `unknown`.
        `since` is the sequence that the log begins with.
        """
        self._subjects, self._keyring, self._partial = subjects, keyring, partial
        self._waiting: list[tuple[Record, int, Cause | None]] = []
        self._until = 0
        self._since = since
        self._last: dict[str, int] = {}
        """Subject to the sequence of the last message on it, believed or not: what the server compared."""
        self.commits = 0
        """Commits whose signature was found to be good."""
        self.signed = 0
        """Messages that are believed for one."""
        self.unknown = 0
        self.missing: list[int] = []
        """Sequences of messages that were signed, do not go by themselves, and are not there."""

    def take(self, record: Record) -> Iterable[Judged]:
        """Take the next record; gives those of which all is known now, in order."""
        if self._keyring is None:  # then none waits for a signature
            return ((record, belief.refused(self._subjects, record.subject, record.headers)),)
        return self._taken(record)

    def _taken(self, record: Record) -> Iterator[Judged]:
        if self._waiting and record.seq > self._until:
            yield from self._settle()
        cause = belief.refused(self._subjects, record.subject, record.headers)
        remaining = 0
        if cause is None:
            remaining, cause = self._place(record)
        if remaining < 0:  # nothing to wait for
            if not self._waiting:
                self._last[record.subject] = record.seq
                yield record, cause
                return
            remaining = 0
        self._waiting.append((record, record.seq + remaining, cause))
        self._until = max(self._until, record.seq + remaining)
        if record.seq >= self._until:
            yield from self._settle()

    def passed(self) -> Passed | None:
        """What is known by now; None while messages wait for the end of their commit, or where something is held against any."""
        if self._waiting or self.missing or self.unknown:
            return None
        return Passed(dict(self._last), self.commits, self.signed)

    def go_on(self, passed: Passed) -> None:
        """Go on behind messages that were judged before."""
        self._last, self.commits, self.signed = dict(passed.last), passed.commits, passed.signed

    def finish(self) -> Iterable[Judged]:
        """No more records."""
        yield from self._settle()

    def _place(self, record: Record) -> tuple[int, Cause | None]:
        """How many messages of its commit come after it, -1 where that does not matter; and what is wrong already."""
        keyring = self._keyring
        if keyring is None:
            return -1, None
        if record.subject == keyring.subject:
            return -1, keyring.believes(record)
        if keyring.is_history(record.seq):
            return -1, None
        if self._subjects.class_token(record.subject) not in AUTHENTICATED:
            # What needs no signature may be the first of a commit, whose end says that it was there.
            remaining = signing.left_of(record)
            return (remaining if 0 < remaining < 1000 else -1), None
        if keyring.latest is None:
            return -1, Cause.KEYS
        remaining = signing.left_of(record)
        return (remaining, None) if 0 <= remaining < 1000 else (-1, Cause.ALTERED)

    def _settle(self) -> Iterator[Judged]:
        """Judge what waits: the ends of all commits are here, or do not come."""
        waiting, self._waiting = self._waiting, []
        keyring = self._keyring
        here = {record.seq: record for record, _, cause in waiting if cause is None}
        commits: dict[int, Commit] = {}
        before: dict[int, int] = {}
        for record, _, _ in waiting:
            before[record.seq] = self._last.get(record.subject, 0)
            self._last[record.subject] = record.seq
        for record, end, cause in waiting:
            if cause is not None or keyring is None or not self._needs(record, keyring):
                yield record, cause
                continue
            keys = keyring.at(end)
            if keys is None:
                yield record, Cause.KEYS
                continue
            commit = commits.get(end)
            if commit is None:
                commit = commits[end] = self._commit(here.get(end), keys, before.get(end, 0))
                self.commits += commit.cause is None
            if self._partial and commit.cause is Cause.INCOMPLETE:
                self.unknown += 1
                yield record, None
                continue
            cause = signing.judged(record, end - record.seq, commit, keys)
            self.signed += cause is None
            yield record, cause
        if not self._partial:
            there = {record.seq for record, _, _ in waiting}
            for end, commit in commits.items():
                self._miss(end, commit, there)

    def _miss(self, end: int, commit: Commit, there: set[int]) -> None:
        if commit.cause is not None:
            return
        size = signing.DIGEST_BYTES
        for place, seq in enumerate(range(end - commit.count + 1, end + 1)):
            gone = seq not in there and seq >= self._since
            if gone and not signing.goes(commit.manifest[place * size : (place + 1) * size]):
                self.missing.append(seq)

    def _commit(self, record: Record | None, keys: Keys, before: int) -> Commit:
        """The end of a commit, which lies where its writer expected it: right after the message that it names."""
        commit = signing.commit_of(record, keys)
        if commit.cause is not None or record is None or self._partial:
            return commit
        expected = record.headers[EXPECTED]
        if not expected.isdigit() or (int(expected) != before and (int(expected) >= self._since or before)):
            return Commit(Cause.ALTERED)
        return commit

    def _needs(self, record: Record, keyring: Keyring) -> bool:
        return (
            record.subject != keyring.subject
            and self._subjects.class_token(record.subject) in AUTHENTICATED
            and not keyring.is_history(record.seq)
        )
