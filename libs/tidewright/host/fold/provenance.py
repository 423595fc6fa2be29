"""What verification can tell of single messages: whether headers, subject and body say the same. Pure.

Without keys that is all there is to say of headers, and of decisions of endpoints, which nobody can take
again: they are chained by the digest of the one before, and every outcome names its decision.
Who alters one of these has to alter all that agrees with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.fold.inputs import BySubject
from tidewright.log import envelope
from tidewright.log.checkpoint import digest_of
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

INSTALLER = "install"
_REMEMBERED = 20_000
"""Messages whose ids are kept at least, and twice as many at most, to hold causes against."""
_OF_A_FACT = 4
"""Tokens of the id of a fact, at least."""
_COMMIT = re.compile(rb'"commit":(\d+)')
_OWNER = re.compile(rb'"incarnation":"([^"]*)"')
_VERSION = re.compile(rb'"version":"([^"]*)"')
_DECISION = re.compile(rb'"decision":"([^"]*)"')
_CAUSED = re.compile(r"[a-z0-9-]+\.[a-z0-9]+\.([0-9]+)\.[0-9]+(?:\.[a-z]+)?")
"""Ids of decisions and of what is theirs, which name the sequence of their cause."""

Found = Callable[[Record, str, str], None]
"""Takes a message, the service that it is of, and what is wrong with it."""


def _counted(said: str, incarnation: str) -> bool:
    """Whether an id as the watcher gives it (`watcher.<part>.<incarnation>.<n>`) names the incarnation."""
    tokens = said.split(".")
    return len(tokens) < _OF_A_FACT or tokens[-2] == incarnation


def _agrees(record: Record, service: str) -> bool:
    """Whether headers and body of a checkpoint tell of the same commit of the same process."""
    headers, commit, owner = record.headers, _COMMIT.search(record.body), _OWNER.search(record.body)
    if commit is None:
        return True
    said, incarnation = headers.get(envelope.ID, ""), headers.get(envelope.INCARNATION, "")
    counted = commit[1].decode()
    # Whoever names its writer is of a version whose ids said all of it.
    agrees = said.endswith(f".{incarnation}.{counted}") if envelope.WRITER in headers else said == counted
    named = owner[1].decode(errors="replace") if owner else ""
    # A watcher that gives a part up says that it is nobody's.
    return agrees and (named == incarnation or (not named and service == "watcher"))


def _version(record: Record, cls: str) -> str:
    """Of the software that wrote it; where the headers of a checkpoint name none, nor its writer, its body does."""
    said = record.headers.get(envelope.VERSION, "")
    by_body = not said and cls == "checkpoint" and envelope.WRITER not in record.headers
    named = _VERSION.search(record.body) if by_body else None
    return named[1].decode(errors="replace") if named else said


def _answered(outcome: Record) -> str:
    """The decision that the body of an outcome names."""
    named = _DECISION.search(outcome.body)
    return named[1].decode(errors="replace") if named else ""


class Seen(msgspec.Struct, frozen=True):
    """What is known of the messages that were looked at."""

    ids: dict[int, str]
    ids_before: dict[int, str]
    versions: dict[str, str]
    announced: dict[str, set[str]]
    counted: dict[str, int]
    decided: set[str]
    unconfirmed: tuple[Record, ...] = ()


class Provenance:
    """The messages of one log, in order."""

    def __init__(
        self, subjects: Subjects, endpoints: Iterable[str], report: Found, *, since: int = 0
    ) -> None:
        """`since`: the sequence that the log, or the part of it, begins with; what is before cannot be asked for."""
        self._depth = subjects.root.count(".") + 1
        self._endpoints = frozenset(endpoints)
        self._found = report
        self._since = since
        self._ids: dict[int, str] = {}
        self._ids_before: dict[int, str] = {}
        """Those from before: a whole dict is let go at once, for the first key of one is the dearer to find the more were removed."""
        self._places = BySubject(self._place)
        self._versions: dict[str, str] = {}
        self._announced: dict[str, set[str]] = {}
        """By incarnation of an endpoint, the digests of its decisions."""
        self._counted: dict[str, int] = {}
        self._decided: set[str] = set()
        self._unconfirmed: list[Record] = []
        """Facts since the last checkpoint of the watcher, the first of each incarnation: they lie before that of their commit."""

    def _place(self, subject: str) -> tuple[str, str] | None:
        """The class of a subject, and the token behind its slot; None for one that has no class."""
        tokens = subject.split(".", self._depth + 3)[self._depth :]
        return None if len(tokens) < 2 else (tokens[0], tokens[2] if len(tokens) > 2 else "")

    def seen(self) -> Seen:
        """What is known by now."""
        announced = {name: set(digests) for name, digests in self._announced.items()}
        return Seen(
            dict(self._ids), dict(self._ids_before), dict(self._versions), announced, dict(self._counted), set(self._decided),
            tuple(self._unconfirmed),
        )  # fmt: skip

    def go_on(self, seen: Seen) -> None:
        """Go on behind messages that were looked at before."""
        self._ids, self._ids_before, self._versions = (
            dict(seen.ids),
            dict(seen.ids_before),
            dict(seen.versions),
        )
        self._announced = {name: set(digests) for name, digests in seen.announced.items()}
        self._counted, self._decided = dict(seen.counted), set(seen.decided)
        self._unconfirmed = list(seen.unconfirmed)

    def take(self, record: Record) -> None:
        """Look at one message."""
        place = self._places[record.subject]
        if place is None:
            return
        cls, third = place
        headers = record.headers
        writer = headers.get(envelope.WRITER)
        if (
            writer is None
            and cls == "checkpoint"
            and (envelope.INCARNATION in headers or envelope.ID in headers)
        ):
            writer = third  # by its subject
        if writer is not None and envelope.SCHEDULER not in headers:
            problem = self._problem(record, writer, cls, third)
            if problem:
                self._found(record, writer, problem)
        if cls in ("fact", "config"):
            self._fact(record)
        elif cls == "checkpoint" and third == "watcher":
            self._confirm(record)
        if len(self._ids) >= _REMEMBERED:
            self._ids, self._ids_before = {}, self._ids
        self._ids[record.seq] = headers.get(envelope.ID, "")
        if cls == "decision" and third in self._endpoints:
            self._endpoint(record, third)
        elif cls == "outcome":
            self._outcome(record)

    def _problem(self, record: Record, writer: str, cls: str, third: str) -> str:
        """What speaks against the headers of a message; empty when nothing does."""
        headers, body = record.headers, record.body
        said, incarnation = headers.get(envelope.ID, ""), headers.get(envelope.INCARNATION, "")
        match cls:
            case "fact":
                rightful, agrees = "watcher", _counted(said, incarnation) if said else bool(incarnation)
            case "config":
                rightful, agrees = INSTALLER if writer == INSTALLER else "watcher", True
            case "outcome":
                cause = headers.get(envelope.CAUSE, "")
                rightful = "actuator"
                agrees = not cause or (
                    said == f"{writer}.{cause}" and f'"decision":"{cause}"'.encode() in body
                )
            case "checkpoint":
                rightful, agrees = third, _agrees(record, third)
            case "decision":
                rightful, agrees = third, f'"id":"{said}"'.encode() in body
            case "schedule" | "timer" | "halt":
                rightful, agrees = third, said.startswith(f"{third}.")
            case "ledger":
                name, _, rest = said.rpartition(".")
                own = said.startswith((f"{third}.entry.", f"{third}.late."))
                key, value = ("request", rest) if own else ("id", name)
                rightful, agrees = third, not value or f'"{key}":"{value}"'.encode() in body
            case _:
                return ""
        if writer != rightful:
            return f"its header says that {writer} wrote it, and only {rightful} writes there"
        if not agrees:
            return f"its header says that it is {said!r} of {writer} {incarnation}, and its body or the rest of its headers another"
        return self._history(record, cls, incarnation)

    def _history(self, record: Record, cls: str, incarnation: str) -> str:
        """What speaks against the headers of a message in the light of those before it."""
        headers = record.headers
        version = _version(record, cls)
        if incarnation and self._versions.setdefault(incarnation, version) != version:
            known = self._versions[incarnation]
            return f"its header says that {incarnation} is of version {version!r}, which was {known!r} before"
        cause, at = headers.get(envelope.CAUSE, ""), headers.get(envelope.CAUSE_SEQ, "")
        if not at:
            return ""
        if not at.isdigit() or int(at) >= record.seq:
            return f"its header names message {at} as its cause, which was not there before it"
        if not cause:
            named = _CAUSED.fullmatch(headers.get(envelope.ID, ""))
            if named is not None and int(named[1]) != int(at):
                return f"its header names message {at} as its cause, and its id message {named[1]}"
            cause = _answered(record) if cls == "outcome" else ""
        if not cause:
            return ""
        known_id = self._ids.get(int(at))
        if known_id is None:
            known_id = self._ids_before.get(int(at))
        if known_id is not None and known_id != cause:
            return f"its header names {cause!r} at {at} as its cause, where {known_id!r} lies"
        return ""

    def _fact(self, record: Record) -> None:
        """A fact without an id waits for the checkpoint of its commit: both are of one process."""
        incarnation = record.headers.get(envelope.INCARNATION, "")
        if envelope.ID in record.headers or not incarnation:
            return
        if all(other.headers[envelope.INCARNATION] != incarnation for other in self._unconfirmed):
            self._unconfirmed.append(record)

    def _confirm(self, checkpoint: Record) -> None:
        """Facts lie right before the checkpoint of their commit."""
        owner = checkpoint.headers.get(envelope.INCARNATION, "")
        for record in self._unconfirmed:
            said = record.headers[envelope.INCARNATION]
            if said != owner:
                self._found(
                    record,
                    "watcher",
                    f"its header says that {said} wrote it, and its commit is of {owner or 'nobody'}",
                )
        self._unconfirmed.clear()

    def _endpoint(self, record: Record, service: str) -> None:
        event = registry.read(record.body)
        if not isinstance(event, Decision):
            self._found(record, service, "it is no decision")
            return
        name, _, count = event.id.rpartition(".")
        incarnation = name.rpartition(".")[2]
        if not name.startswith(f"{service}.") or not count.isdigit():
            self._found(record, service, f"its id is {event.id!r}, which is none of {service}")
            return
        digests = self._announced.setdefault(name, set())
        if int(count) <= self._counted.get(name, 0):
            self._found(record, service, f"{incarnation} had decided {self._counted[name]} times before")
        elif event.prev and event.prev not in digests and (digests or self._since <= 1):
            self._found(
                record, service, "the decision before it, whose digest it names, was altered or removed"
            )
        digests.add(digest_of(record.body))
        self._counted[name] = max(self._counted.get(name, 0), int(count))
        self._decided.add(event.id)

    def _outcome(self, record: Record) -> None:
        at = record.headers.get(envelope.CAUSE_SEQ, "")
        cause = record.headers.get(envelope.CAUSE, "") or _answered(record)
        service = cause.partition(".")[0]
        if service not in self._endpoints or cause in self._decided:
            return
        if at.isdigit() and int(at) >= self._since:
            self._found(
                record, service, f"it answers decision {cause}, which was removed from the log or altered"
            )
