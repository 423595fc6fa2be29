"""An export without chosen fields, and what can still be checked of one.

A record that lost something keeps the digest of what it was in a header. So the chain of decisions, each of
which names the digest of the one before, can be followed to the checkpoints that sign for it; what was decided
cannot be decided again, because its facts are not what they were. States (snapshots) are made of the same
fields and are left out whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidewright.asking.errors import BadInput
from tidewright.asking.source import Source
from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.fold.order import cause_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import digest_of
from tidewright.log.export import Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

WITHHELD = "Tw-Withheld"
"""Header: digest of the body as it was."""
HIDDEN = "***"
_BLANKS: dict[type, Any] = {dict: {}, list: [], str: HIDDEN, int: 0, float: 0.0, bool: False}
_KEPT_CLASSES = ("checkpoint", "schedule")
"""Of which the content is positions and times alone."""


def left_out_of(source: Source) -> tuple[str, ...]:
    """The fields that were left out of a file; none of a log."""
    manifest = getattr(getattr(source, "file", None), "manifest", None)
    return manifest.without if isinstance(manifest, Manifest) else ()


class Withholding:
    """Leaves fields out of records."""

    def __init__(self, fields: Sequence[str]) -> None:
        """`fields` are names of members, wherever they stand; several in one text with commas between them.

        Raises:
            BadInput: a name is none, or is what makes an event an event.
        """
        names = [name for text in fields for name in text.replace(",", " ").split()]
        if bad := [name for name in names if name in ("type", "at", "id", "prev")]:
            raise BadInput(
                f"--without {bad[0]}: without it nothing on the log could be read; valid are others, as annotations"
            )
        self.fields = tuple(dict.fromkeys(names))
        self.times: Counter[str] = Counter()

    def record(self, record: Record, class_: str) -> Record:
        """The record without the fields.

        Raises:
            BadInput: what is left is no event.
        """
        if not self.fields or class_ in _KEPT_CLASSES:
            return record
        if not any(f'"{name}"'.encode() in record.body for name in self.fields):
            return record
        try:
            body = msgspec.json.decode(record.body)
        except (msgspec.DecodeError, RecursionError):
            return self._put(record, b"{}")  # nobody reads it, and what is in it is not known
        withheld: Counter[str] = Counter()
        remaining: bytes = b""
        for blank in (False, True):  # a field that an event must have is blank instead
            withheld.clear()
            remaining = msgspec.json.encode(self._without(body, withheld, blank=blank))
            try:
                registry.decode(remaining)
                break
            except registry.NotAnEvent as error:
                if blank:
                    raise BadInput(
                        f"--without {','.join(withheld)}: a {body.get('type')} is none without it ({error}); leave out others"
                    ) from error
        self.times.update(withheld)
        return self._put(record, remaining) if withheld else record

    @staticmethod
    def _put(record: Record, body: bytes) -> Record:
        headers = {**record.headers, WITHHELD: digest_of(record.body)}
        return msgspec.structs.replace(record, body=body, headers=headers)

    def _without(self, value: Any, withheld: Counter[str], *, blank: bool) -> Any:
        if isinstance(value, list):
            return [self._without(item, withheld, blank=blank) for item in value]
        if not isinstance(value, dict):
            return value
        kept: dict[str, Any] = {}
        for name, member in value.items():
            if name not in self.fields:
                kept[name] = self._without(member, withheld, blank=blank)
                continue
            withheld[name] += 1
            if blank:
                kept[name] = _BLANKS.get(type(member))
        return kept

    def told(self) -> str:
        """What was left out how often, and what was nowhere."""
        return ", ".join(f"{name} ({self.times[name]} times)" for name in self.fields)


@dataclass
class Followed:
    """What following the chains of an export found.

    Attributes:
        records: all; `withheld` of them lost something.
        torn: what is wrong, in words, the first hundred; `count` counts all.
    """

    records: int = 0
    withheld: int = 0
    decisions: int = 0
    checkpoints: int = 0
    count: int = 0
    torn: list[str] = field(default_factory=list)

    def tear(self, what: str) -> None:
        """Note one."""
        self.count += 1
        if len(self.torn) < 100:
            self.torn.append(what)


class _Chain:
    def __init__(self) -> None:
        self.base: str | None = None
        """As of the last checkpoint; None: it is not known what came before."""
        self.last: str | None = None
        self.since: list[tuple[int, str]] = []


async def followed(records: AsyncIterator[Record], subjects: Subjects) -> Followed:
    """Follow the chains of digests through an export."""
    tally, chains = Followed(), dict[str, _Chain]()
    async for record in records:
        tally.records += 1
        tally.withheld += WITHHELD in record.headers
        class_ = subjects.class_token(record.subject)
        if class_ not in ("decision", "checkpoint"):
            continue
        place = subjects.parse(record.subject)
        name = f"{place.rest[0]} slot {place.slot}"
        if class_ == "decision":
            event = registry.decode(record.body)
            if isinstance(event, Decision):
                tally.decisions += 1
                _decision(chains.setdefault(name, _Chain()), event, record, name, tally)
        elif len(place.rest) == 1 and name in chains:
            try:
                checkpoint = checkpoints.decode(record.body)
            except msgspec.MsgspecError:
                continue
            if not checkpoint.partial:
                tally.checkpoints += 1
                _checkpoint(chains[name], checkpoint, record.seq, name, tally)
    return tally


def _decision(chain: _Chain, decision: Decision, record: Record, name: str, tally: Followed) -> None:
    if chain.last is not None and decision.prev != chain.last:
        tally.tear(
            f"decision {decision.id} ({name}, {record.seq}) names {decision.prev or 'none'} before it, not {chain.last}"
        )
    if chain.base is None:
        chain.base = decision.prev
    chain.last = record.headers.get(WITHHELD) or digest_of(record.body)
    chain.since.append((cause_of(decision.id)[0], chain.last))


def _checkpoint(chain: _Chain, said: checkpoints.Checkpoint, seq: int, name: str, tally: Followed) -> None:
    covered = [digest for cause, digest in chain.since if cause <= said.position]
    expected = covered[-1] if covered else chain.base
    if said.chain != expected:
        tally.tear(
            f"checkpoint {seq} ({name}) names {said.chain or 'none'} as its last decision, not {expected or 'none'}"
        )
    chain.since = [link for link in chain.since if link[0] > said.position]
    chain.base = said.chain
    if not chain.since:
        chain.last = said.chain


def as_json(tally: Followed, name: str, without: Sequence[str]) -> dict[str, Any]:
    """For programs."""
    return {
        "log": name, "verified": False, "without": list(without), "chain": tally.count == 0,
        "records": tally.records, "withheld": tally.withheld, "decisions": tally.decisions,
        "checkpoints": tally.checkpoints, "differences": tally.count, "first": tally.torn,
    }  # fmt: skip


def as_text(tally: Followed, name: str, without: Sequence[str]) -> str:
    """For people."""
    lines = [
        (
            f"{name} was exported without {', '.join(without)}: {tally.withheld} of its {tally.records} records are not "
            "what they were. What was decided cannot be decided again, nor can digests of facts be checked; the log that it "
            "came from can tell."
        ),
        f"Followed the chain of digests through {tally.decisions} decisions and {tally.checkpoints} checkpoints.",
    ]
    if not tally.count:
        return "\n".join([*lines, "The chain is whole: no decision was altered, removed or added."])
    return "\n".join([*lines, f"{tally.count} times it is torn. The first: {tally.torn[0]}."])
