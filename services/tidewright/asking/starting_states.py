"""The states that a part of a log starts from, as snapshots.

A part verifies alone when it holds, of every service and slot, the state at its last checkpoint
before the part, and every message behind the position of that checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tidewright.asking.progress import progress
from tidewright.asking.service_state import begin_to_follow, inputs_of
from tidewright.asking.services import Service, load
from tidewright.asking.source import Source
from tidewright.host.fold.order import Fold
from tidewright.host.fold.restoring import SlotRestorer
from tidewright.log import checkpoint as checkpoints
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot

EVERY_N = 2000


async def beginnings(
    source: Source, services: Sequence[Service], slots: Sequence[Slot] | None, boundary: int
) -> list[Snapshot]:
    """The state of every service and slot (None: of all) at its last checkpoint up to a sequence."""
    snapshots: list[Snapshot] = []
    restorers: list[tuple[SlotRestorer[Any], dict[int, Slot]]] = []
    for service in services:
        decider: Any = load(service)
        inputs = inputs_of(service, decider, source)
        folds: dict[Slot, Fold[Any]] = {}
        slot_at: dict[int, Slot] = {}
        for slot in (s for s in inputs.every if slots is None or s in slots):
            seq = await last_whole_checkpoint(source, service.name, slot, boundary)
            if not seq:
                continue
            kept = await source.snapshot(service.name, slot, decider.readable, boundary)
            if kept is not None and kept.checkpoint_seq == seq:
                snapshots.append(kept)
                continue
            usable = kept is not None and kept.checkpoint_seq < seq
            folds[slot] = Fold.resumed(decider, kept) if kept is not None and usable else Fold(decider, slot)
            slot_at[seq] = slot
        if folds:
            restorer = SlotRestorer(inputs, folds)
            for restore in restorer.restores.values():
                await begin_to_follow(source, restore, inputs)
            restorers.append((restorer, slot_at))
    if not restorers:
        return snapshots
    after = min(fold.position for restorer, _ in restorers for fold in restorer.folds.values())
    count = 0
    with progress("finding the state to start from", boundary - after) as advance:
        async with aclosing(source.records(after=after)) as records:
            async for record in records:
                if record.seq > boundary:
                    break
                for restorer, slot_at in restorers:
                    for slot, checkpoint in restorer.take(record):
                        if slot_at.get(record.seq) == slot:
                            fold = restorer.folds[slot]
                            snapshots.append(
                                fold.snapshot(checkpoint_seq=record.seq, position=checkpoint.position)
                            )
                count += 1
                if count % EVERY_N == 0:
                    advance(EVERY_N)
    return snapshots


async def last_whole_checkpoint(source: Source, service: str, slot: Slot, boundary: int) -> int:
    """Sequence of a slot's last checkpoint at or before a sequence that covers whole events; 0 without one."""
    subject = source.subjects.checkpoint(slot, service)
    for record in await source.last([subject], boundary):
        if not _partial(record.body):
            return record.seq
        last = 0
        async with aclosing(source.records(subject)) as records:
            async for earlier in records:
                if earlier.seq > boundary:
                    break
                if not _partial(earlier.body):
                    last = earlier.seq
        return last
    return 0


def _partial(body: bytes) -> bool:
    try:
        return checkpoints.decode(body).partial
    except msgspec.MsgspecError:
        return True
