"""A service's state as of a moment: its snapshot, and what came after it.

Of a service with a state per slot only the namespace that is asked about is read, each kind of
message by its own filter, so that the server's subject index finds them. Recorded decisions are
folded, not taken anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tidewright.asking.errors import BadInput
from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.asking.halted import halt_in, why
from tidewright.asking.progress import progress
from tidewright.asking.services import SERVICES, Service, load
from tidewright.asking.services import Role as ServiceRole
from tidewright.asking.source import Source
from tidewright.events import registry
from tidewright.events.acting import INCUMBENT
from tidewright.events.base import Decision, Event
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inbox import Word
from tidewright.host.fold.inputs import BySubject, Inputs, Role
from tidewright.host.fold.order import Decided, Fold
from tidewright.host.fold.restore import Restore
from tidewright.host.process.software import software_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.batched_get import TooMany
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import VERSION
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, escape, slot_of

CLUSTER = frozenset(("node", "nodegroup", "cloud", "provisioningclass"))
"""Kinds of facts in slot `all`."""

NEAR = 5_000
"""Sequences behind a state that was kept, up to which it takes the place of a snapshot: as far as services take theirs apart."""
FAR = 25_000
"""Sequences from which a namespace alone is looked for in files: up to there, a little more than services take snapshots apart,
it is folded in less time than the look takes, for which all of the code is digested."""
TOLD_EVERY = 5_000
"""Sequences between two steps of the bar."""

logger = get_logger(__name__)


class Asked(msgspec.Struct, frozen=True):
    """A service, and the part of it that is asked about."""

    service: Service
    decider: Decider[Any, Any]
    inputs: Inputs
    slot: Slot
    namespace: str

    @classmethod
    def about(cls, source: Source, service: Service, namespace: str) -> Asked:
        """What a service knows of a namespace (of the whole cluster, when its state is one)."""
        decider: Decider[Any, Any] = load(service)
        slot = ALL if service.partition == "cluster" else slot_of(namespace, source.slots)
        return cls(service, decider, inputs_of(service, decider, source), slot, namespace)

    @property
    def software(self) -> str:
        """Which code folds here."""
        return software_of(self.decider)

    @property
    def read_of(self) -> str:
        """The namespace that alone is read; empty where everything is."""
        return "" if self.slot == ALL else self.namespace

    def patterns(self) -> list[str]:
        """Filters that do not overlap, for all that the service reads and writes about the namespace."""
        subjects, slot = self.inputs.subjects, self.slot
        if slot == ALL:
            return [subjects.everything]
        root, name, space = subjects.root, self.decider.service, escape(self.namespace)
        filters = [
            f"{root}.fact.{slot}.*.{space}.*",
            f"{root}.config.>",
            f"{root}.outcome.{slot}.*.{space}.*",
            f"{root}.timer.{slot}.{name}.>",
            f"{root}.decision.{slot}.{name}.*.{space}.*",
            f"{root}.decision.{slot}.{name}.timer.>",
            f"{root}.checkpoint.{slot}.{name}",
            *(f"{root}.decision.{slot}.{other}.*.{space}.*" for other in sorted(self.inputs.follows)),
        ]
        if CLUSTER & self.decider.kinds:
            filters.append(f"{root}.fact.{ALL}.>")
        elif INCUMBENT in self.decider.kinds:
            filters.append(f"{root}.fact.{ALL}.{INCUMBENT}.>")
        if self.inputs.ledgers:
            filters.append(f"{root}.ledger.{slot}.{name}.{space}.*")
        return filters


def deciders(names: Sequence[str]) -> tuple[Service, ...]:
    """The deciders of these names; all of them when none is given.

    Raises:
        BadInput: one is not a decider.
    """
    every = tuple(s for s in SERVICES if s.role is ServiceRole.DECIDER)
    unknown = set(names) - {s.name for s in every}
    if unknown:
        raise BadInput(f"--service {min(unknown)}: one of {', '.join(s.name for s in every)}")
    return tuple(s for s in every if not names or s.name in names)


def inputs_of(service: Service, decider: Decider[Any, Any], source: Source) -> Inputs:
    """What a service reads of this log."""
    return Inputs(
        decider.service,
        decider.kinds,
        source.subjects,
        source.slots,
        service.partition,
        service.follows,
        decider.ledgers,
        decider.formerly,
        decider.outcomes,
        decider.outcomes_but,
    )


async def restored(source: Source, asked: Asked, up_to: int) -> Fold[Any]:
    """The fold as of a sequence: every input up to it, with the decisions that it caused.

    What nobody has decided yet is folded, too.
    """
    whose = Whose(asked.service.name, asked.decider.state_version, str(asked.slot), asked.read_of)
    kept, filing = await _kept(source, whose, up_to), False
    if kept is None:
        fold = await _begun(source, asked, up_to)
        if up_to - fold.position > (FAR if asked.read_of else NEAR):
            fold = await _filed(source, asked, whose, up_to, fold)
            filing = (await source.bounds())[0] <= fold.position + 1  # else it lacks what was before
    else:
        fold = Fold.resumed(asked.decider, kept.snapshot())
    restore = Restore(fold, asked.inputs)
    await begin_to_follow(source, restore, asked.inputs)
    restore.fold.digesting = False  # of a namespace alone they would be of nothing
    roles = _roles(asked)
    begun = restore.fold.position
    # Each pattern is read to the end that it has when it is asked: a checkpoint from behind here may have been read, and what was
    # decided before it not.
    _, end = await source.bounds()
    patterns = await source.narrowed(asked.patterns(), begun)
    with progress(f"restoring {asked.service.name} as of sequence {up_to}", up_to - begun) as advance:
        advanced_to, since = begun, time.perf_counter()
        async with aclosing(source.merged(patterns, begun)) as records:
            async for record in records:
                if record.seq > end:
                    break
                if record.seq >= advanced_to + TOLD_EVERY:
                    advance(record.seq - advanced_to)
                    advanced_to = record.seq
                if _folded(restore, asked, roles[record.subject], record, up_to):
                    return restore.fold
                if (
                    roles[record.subject] is Role.CHECKPOINT
                    and restore.fold.position > begun
                    and source.folds.is_due(whose, folded_s := time.perf_counter() - since)
                ):
                    source.folds.keep(whose, restore.fold, record, asked.software if filing else "", folded_s)
                    begun, since = restore.fold.position, time.perf_counter()
    for seq, body, event in restore.undecided:
        restore.fold.replay(seq, body, event, [])
    return restore.fold


async def _kept(source: Source, whose: Whose, up_to: int) -> KeptFold | None:
    """A state that was folded before and can be gone on from, when it is near enough to do without a snapshot."""
    kept = source.folds.nearest(whose, up_to)
    if kept is None or up_to - kept.position > NEAR:
        return None
    of_this_log = await _is_of(source, kept)
    if of_this_log is False:
        source.folds.forget()
    return kept if of_this_log else None


async def _is_of(source: Source, kept: KeptFold) -> bool | None:
    """Whether the log has the checkpoint of a state; None when it cannot be gone on from there any more."""
    (first, _), there = await asyncio.gather(source.bounds(), source.at(kept.checkpoint.seq))
    if there is None or first > kept.position + 1:
        return None  # retention has removed what comes after it
    return (there.subject, there.body) == (kept.checkpoint.subject, kept.checkpoint.body)


async def _filed(source: Source, asked: Asked, whose: Whose, up_to: int, fold: Fold[Any]) -> Fold[Any]:
    """The fold of a state that is further on than that of a snapshot, in memory or in a file; else the one of the snapshot."""
    if source.folds.files is None:
        source.folds.files = FoldFiles(await source.identity())
    in_memory, in_file = source.folds.nearest(whose, up_to), source.folds.filed(whose, asked.software, up_to)
    kept = max((one for one in (in_memory, in_file) if one), key=lambda one: one.position, default=None)
    if kept is None or kept.position <= fold.position:
        return fold
    of_this_log = await _is_of(source, kept)
    if of_this_log:
        try:
            return Fold.resumed(asked.decider, kept.snapshot())
        except (ValueError, msgspec.MsgspecError) as error:
            logger.warning("a state that was kept is not readable, and is ignored", problem=str(error))
            of_this_log = False
    if of_this_log is False:
        source.folds.unfile(whose, asked.software, kept)
    return fold


class Hands(msgspec.Struct, frozen=True):
    """Who looks after a slot, as of a sequence.

    Attributes:
        halted: why nobody decides there; empty while somebody does, or would.
        folded_by: the software that folds here, where another one decided there, or went by other inputs; else empty.
        decided_by: that one.
    """

    halted: str = ""
    folded_by: str = ""
    decided_by: str = ""

    @property
    def told(self) -> str:
        """For people; empty where it is the same software."""
        return f"folded by {self.folded_by}, decided by {self.decided_by}" if self.folded_by else ""


async def hands_on(source: Source, asked: Asked, up_to: int) -> Hands:
    """Who looks after the slot, as of a sequence (0: the end)."""
    service = asked.service.name
    position, halts = (
        source.subjects.checkpoint(asked.slot, service),
        source.subjects.halt(asked.slot, service),
    )
    found = {record.subject: record for record in await source.last([position, halts], up_to)}
    if (record := found.get(position)) is not None:
        try:
            checkpoint = checkpoints.usable(record)
        except Unsound as error:
            return Hands(halted=str(error))
        if problem := why(halt_in(found.get(halts)), record, checkpoint):
            return Hands(halted=f"{service} has halted in slot {asked.slot}, {problem}")
        decided_by = record.headers.get(VERSION, "")
        inputs = asked.inputs.today.digest
        other = checkpoint.inputs or asked.inputs.unnamed.digest
        if (decided_by and decided_by != asked.software) or other != inputs:
            by_inputs = f" (inputs {other})" if other != inputs else ""
            return Hands(
                folded_by=asked.software + (f" (inputs {inputs})" if by_inputs else ""),
                decided_by=(decided_by or "software that does not say which") + by_inputs,
            )
    return Hands()


def _roles(asked: Asked) -> BySubject[Role | None]:
    """What the messages of each subject are to the service in its slot; None for what it does not read."""
    inputs, owned = asked.inputs, frozenset((asked.slot,))
    return BySubject(
        lambda subject: inputs.role(subject) if inputs.reads(subject, owned, recorded=True) else None
    )


def _folded(restore: Restore[Any], asked: Asked, role: Role | None, record: Record, up_to: int) -> bool:
    """Take one record; True when everything up to the sequence is folded."""
    if role is None:
        return False
    if role is Role.CHECKPOINT:
        try:
            checkpoint = checkpoints.usable(record)
        except Unsound:  # nobody goes on from it
            return False
        if checkpoint.position >= up_to:
            # Decisions about what is later lie behind this one's; and what it follows, it follows from later on.
            reads = restore.fold.reads
            named = "" if reads is None else reads.digest
            restore.checkpoint(
                msgspec.structs.replace(checkpoint, position=up_to, at=0.0, inputs=named, reads=reads)
            )
            return True
        restore.checkpoint(checkpoint)
        return False
    event = registry.read(record.body)
    if role is Role.DECISION and isinstance(event, Decision):
        restore.decision(record.body, event)
    elif role is Role.INPUT and record.seq <= up_to and asked.inputs.concerns(event):
        if token := asked.inputs.token(record.subject):
            restore.word(Word(token, record.subject, record.seq, record.body, event))
        else:
            restore.event(record.seq, record.body, event)
    return False


async def begin_to_follow(source: Source, restore: Restore[Any], inputs: Inputs) -> None:
    """What was said before a snapshot on what this software follows, and who took the snapshot did not."""
    up_to = restore.fold.position
    filters = inputs.filters(restore.unfollowed, restore.fold.slot) if up_to else []
    for record in await source.last_of_all(filters, up_to) if filters else ():
        token = inputs.token(record.subject)
        if token and inputs.concerns(event := registry.read(record.body)):
            restore.word(Word(token, record.subject, record.seq, record.body, event))


class Seen(msgspec.Struct, frozen=True):
    """What `decide` saw.

    Attributes:
        words: the last words that the fold was made of, by subject, where it was made of these.
    """

    fold: Fold[Any]
    words: Mapping[str, Record]


async def seen_by(
    source: Source, asked: Asked, cause: Record, event: Event | registry.Unknown, decision: Decision
) -> Seen:
    """The fold as `decide` saw it: everything up to and with the cause of a decision, the decision not yet.

    First tried with the last word on each subject alone, which takes a look into the index, however
    long the log is. Where the service then decides what it did decide, that was all that counted; else
    the state is restored from everything.
    """
    if asked.slot != ALL and (seen := await glimpsed(source, asked, cause.seq - 1)) is not None:
        answer = seen.fold.answer(cause.seq, cause.body, event)
        if any(bare(recomputed) == bare(decision) for recomputed in answer):
            return Seen(seen.fold, {**seen.words, cause.subject: cause})
    fold = await restored(source, asked, cause.seq - 1)
    if asked.inputs.concerns(event):
        fold.replay(cause.seq, cause.body, event, [])
    return Seen(fold, {})


def bare(decision: Decision) -> Decision:
    """A decision without what only its place on a log gives it."""
    return msgspec.structs.replace(decision, id="", prev="")


async def glimpsed(source: Source, asked: Asked, up_to: int) -> Seen | None:
    """A fold of the last word on each subject of the namespace; None when these are too many to ask for."""
    fold, roles = Fold(asked.decider, asked.slot), _roles(asked)
    try:
        records = await source.last(asked.patterns(), up_to)
    except TooMany:
        return None
    for record in records:
        role = roles[record.subject]
        if role is None or role is Role.CHECKPOINT:
            continue
        event = registry.read(record.body)
        if role is Role.DECISION and isinstance(event, Decision):
            fold.replay_decision(Decided(event, record.body))
        elif asked.inputs.concerns(event):
            fold.replay(record.seq, record.body, event, [])
    return Seen(fold, {record.subject: record for record in records})


async def _begun(source: Source, asked: Asked, up_to: int) -> Fold[Any]:
    decider = asked.decider
    snapshot = await source.snapshot(decider.service, asked.slot, decider.readable, up_to)
    if snapshot is None:
        first, _ = await source.bounds()
        if first > 1:
            logger.warning(
                "no snapshot from before is kept: the state is what was said from there on", sequence=first
            )
        return Fold(decider, asked.slot)
    try:
        return Fold.resumed(decider, snapshot)
    except msgspec.MsgspecError as error:
        logger.warning("snapshot ignored, the log is folded instead", slot=asked.slot, problem=str(error))
        return Fold(decider, asked.slot)
