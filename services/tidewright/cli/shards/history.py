"""Why a slot is where it is: the set's ledger on the log, read and folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidewright.asking.errors import CommandError
from tidewright.asking.source import Source, slot_in
from tidewright.events import registry
from tidewright.events.shards import AssignmentEntry, ChangeAssignment
from tidewright.sharding.document import Document, Refused, apply
from tidewright.sharding.keyspace import parse_runs
from tidewright.shardmanager.tell.sentences import sentence


@dataclass
class Ledger:
    """All entries of one ledger, and the document that they make."""

    entries: list[AssignmentEntry] = field(default_factory=list)
    document: Document = field(default_factory=Document)
    refused: list[str] = field(default_factory=list)

    def about(self, slot: int) -> list[tuple[AssignmentEntry, int]]:
        """The entries that touched a slot, each with the epoch that the slot had after it."""
        document, touching = Document(), []
        for entry in self.entries:
            try:
                apply(document, entry)
            except Refused:
                continue
            here = slot % len(document.slots) if document.slots else slot
            if entry.kind in ("create", "double") or here in parse_runs(entry.slots):
                touching.append((entry, document.slots[here].epoch))
        return touching


async def ledger(source: Source, namespace: str, name: str) -> Ledger:
    """The ledger of a set.

    Raises:
        CommandError: the log has none.
    """
    set_ledger = Ledger()
    slot = slot_in(source, namespace)
    async for record in source.records(source.subjects.ledger(slot, "shard-manager", namespace, name)):
        event = registry.decode(record.body)
        if isinstance(event, ChangeAssignment):
            set_ledger.entries.append(event.entry)
            try:
                apply(set_ledger.document, event.entry)
            except Refused as error:
                set_ledger.refused.append(str(error))
    if not set_ledger.entries:
        raise CommandError(
            f"log {source.name} has no ledger of shardset {namespace}/{name}: "
            "name the cluster with --cluster, or its server with --nats"
        )
    return set_ledger


def lines(about: Sequence[tuple[AssignmentEntry, int]], slot: int, most: int = 8) -> list[str]:
    """What happened to a slot, the newest last."""
    shown = about[-most:]
    recent = [f"  {stamp(entry.at)}  epoch {epoch}  {sentence(entry, slot)}" for entry, epoch in shown]
    return [f"  ({len(about) - len(shown)} earlier changes)", *recent] if len(about) > len(shown) else recent


def stamp(at: float) -> str:
    """A log time for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
