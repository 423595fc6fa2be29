"""The recorded log, and what today's deciders make of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidewright.asking.exported import ExportedLog
from tidewright.asking.replaying import Redecided
from tidewright.asking.service_state import deciders, inputs_of
from tidewright.asking.services import DECIDERS, Service, load
from tidewright.asking.starting_states import beginnings
from tidewright.events.base import Decision
from tidewright.host.fold.order import Decided
from tidewright.log.export import ExportFile
from tidewright.log.input_set import InputSet
from tidewright.log.snapshots import Snapshot

HERE = Path(__file__).parent
RECORDED, SNAPSHOTS = HERE / "chaos.twlog", HERE / "snapshots"
FORECASTS = HERE / "forecasts.twlog"
DECISIONS, INPUTS = HERE / "decisions.json", HERE / "inputs.json"

SERVICES: tuple[Service, ...] = deciders(())
NAMES = DECIDERS

Counts = dict[str, dict[str, int]]
"""By service and type of decision, how many."""


UNNAMED = "unnamed"
"""Stands for the version that recorded the log: its checkpoints do not name what they are made of."""


def given_inputs() -> dict[str, dict[str, InputSet]]:
    """By version and service, what it follows of the log."""
    return msgspec.json.decode(INPUTS.read_bytes(), type=dict[str, dict[str, InputSet]])


def the_log() -> ExportedLog:
    """The recorded log."""
    return ExportedLog(ExportFile(RECORDED))


async def folded(service: Service) -> list[Snapshot]:
    """The states of all slots at their last checkpoints, folded by today's code, by slot."""
    source = the_log()
    _, last = await source.bounds()
    return sorted(await beginnings(source, [service], None, last), key=lambda snapshot: snapshot.slot)


async def redecided() -> tuple[Counts, Counts]:
    """Decisions that are recorded, and those that today's code takes in the recorded situations."""
    source, takers = the_log(), []
    recorded: dict[str, Counter[str]] = {service.name: Counter() for service in SERVICES}
    today: dict[str, Counter[str]] = {service.name: Counter() for service in SERVICES}
    for service in SERVICES:
        decider: Any = load(service)

        def heard(
            seq: int, made: Sequence[Decision], said: Sequence[Decided], name: str = service.name
        ) -> None:
            today[name].update(type(decision).__name__ for decision in made)
            recorded[name].update(type(decided.decision).__name__ for decided in said)

        takers.append(Redecided(decider, inputs_of(service, decider, source), heard).take)
    async for record in source.records():
        for take in takers:
            take(record)
    return plain(recorded), plain(today)


def plain(counted: dict[str, Counter[str]]) -> Counts:
    """Counts in the order of names."""
    return {service: dict(sorted(counts.items())) for service, counts in counted.items()}


def stored_in(path: Path) -> list[Snapshot]:
    """The snapshots of a golden file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Snapshot])


def as_stored(snapshots: Sequence[Snapshot]) -> bytes:
    """Snapshots as a golden file; without the number of the software, which says nothing here."""
    bare = [msgspec.structs.replace(snapshot, version="") for snapshot in snapshots]
    return msgspec.json.format(msgspec.json.encode(bare), indent=1) + b"\n"


def golden() -> dict[str, dict[int, Path]]:
    """By service and state version, its golden file."""
    files: dict[str, dict[int, Path]] = {name: {} for name in NAMES}
    for path in sorted(SNAPSHOTS.glob("*.json")):
        name, version = re.fullmatch(r"(.+)-v(\d+)", path.stem).groups()  # type: ignore[union-attr]  # no other files here
        files[name][int(version)] = path
    return files
