"""Why a key is where it is: its slot, the slot's owner, and what led to that."""

from __future__ import annotations

from tidewright.asking.answers.form import builtins, stamp_if_set
from tidewright.asking.errors import BadInput, CommandError, translated
from tidewright.asking.opening import opened
from tidewright.asking.options import LogOptions, Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.shards import history, showing
from tidewright.cli.shards import ours as services
from tidewright.cli.shards.answers import ExplainedOwnSlot, ExplainedSlot
from tidewright.cli.shards.reading import ReadSet
from tidewright.log.subjects import ALL, Slot
from tidewright.log.subjects import slot_of as log_slot_of
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import slot_of
from tidewright.shardmanager.shardset.mapping import shard_of
from tidewright.shardmanager.shardset.spec import read_spec


async def explain(
    shard_set: ReadSet, key: str, log: LogOptions | None, output: Output, *, is_slot: bool
) -> int:
    """Explain a key of a ShardSet."""
    slots = len(shard_set.document.slots)
    who = f"shardset {shard_set.namespace}/{shard_set.name}"
    if not slots:
        raise CommandError(f"{who} has no assignment yet: is the shard manager running?")
    name = shard_set.section("keyspace").get("hash", "blake2b64")
    if is_slot:
        slot = _number(key)
    else:
        slot = _mapped(shard_set, key) if shard_set.mapped else slot_of(key, slots, name)
    shard_set.check_slot(slot)
    record = shard_set.document.slots[slot]
    lines, since, unknown = list[str](), None, ""
    try:
        async with opened(log, None) as source:
            ledger = await history.ledger(source, shard_set.namespace, shard_set.name)
        about = ledger.about(slot)
        lines = history.lines(about, slot)
        grants = [entry for entry, _epoch in about if entry.kind == "grant"]
        since = grants[-1].at if grants else None
    except CommandError as error:
        unknown = str(error)
    answer = ExplainedSlot(
        key=None if is_slot else key,
        slot=slot,
        keyspace=slots,
        hash=None if shard_set.mapped else name,
        label=(shard_set.section("source").get("labels") or {}).get("label") if shard_set.mapped else None,
        state=record.state.value,
        owner=record.owner or None,
        epoch=record.epoch,
        incoming=record.incoming or None,
        pinned=(shard_set.section("assignment").get("pins") or {}).get(str(slot)),
        since=stamp_if_set(since),
        history=tuple(line.strip() for line in lines),
        unknown=unknown,
    )
    emit(
        builtins(answer), output, lambda: plain(_text(answer, lines)),
        names=lambda: [showing.named(shard_set)],
    )  # fmt: skip
    return 0


def _mapped(shard_set: ReadSet, value: str) -> int:
    """The shard, which is the slot, of a value of the label."""
    spec, _problems = read_spec(shard_set.spec)
    shard = shard_of(spec.per_shard, value)
    if shard is None:
        raise CommandError(
            f"{spec.label}={value} has no owner: no shard of {shard_set.namespace}/{shard_set.name} names it, and none has '*'"
        )
    return shard


def _text(answer: ExplainedSlot, lines: list[str]) -> str:
    head = f"slot {answer.slot} of {answer.keyspace}"
    if answer.key is not None:
        how = f"{answer.hash}({answer.key!r}) mod {answer.keyspace}"
        if answer.label:
            how = f"the shard that assignment.perShard gives {answer.label}={answer.key} to"
        head = f"{answer.key!r} -> {head} ({how})"
    said = [head]
    if answer.owner is None:
        said.append(f"owner: nobody (it is {answer.state})")
    else:
        since = f", since {answer.since.replace('T', ' ')}" if answer.since else ""
        said.append(f"owner: {answer.owner}, epoch {answer.epoch}{since}")
    if answer.state == SlotState.DRAINING.value:
        said.append(f"it is being stopped there, for {answer.incoming}")
    elif answer.incoming:
        said.append(f"{answer.incoming} prepares to take it over")
    if answer.pinned:
        said.append(f"pinned to {answer.pinned}")
    if lines:
        said += ["why:", *lines]
    elif answer.unknown:
        said.append(f"why: not known here: {answer.unknown}")
    return "\n".join(said)


async def ours(name: str, key: str, log: LogOptions | None, output: Output, *, is_slot: bool) -> int:
    """Explain a namespace of one of our own services."""
    which = services.service(name)
    with translated():
        async with services.opened(log) as connection:
            standing = await services.standing(connection, which)
            slots = connection.slots
    if which.partition == "cluster":
        slot: Slot = ALL
    elif is_slot:
        slot = Slot(str(_number(key)))
        if slot not in standing.owners:
            raise BadInput(f"slot {key}: service/{which.name} has the slots 0 to {slots - 1}")
    else:
        slot = log_slot_of(key, slots)
    checkpoint, owner = standing.checkpoints.get(slot), standing.owners[slot]
    answer = ExplainedOwnSlot(
        namespace=None if is_slot or slot == ALL else key,
        slot=str(slot),
        owner=owner,
        epoch=checkpoint.epoch if checkpoint else 0,
        claimed=checkpoint is not None and checkpoint.incarnation == owner,
        sequence=checkpoint.position if checkpoint else 0,
    )

    def text() -> str:
        head = f"slot {slot} of service/{which.name}"
        if not is_slot and slot != ALL:
            head = f"namespace {key!r} -> {head} (blake2b of the namespace mod {slots})"
        why = (
            f"owner: replica {owner}, epoch {answer.epoch}, at sequence {answer.sequence}\n"
            f"why: of {len(standing.members)} live replicas it has the highest rendezvous hash for this slot"
            if owner
            else "owner: nobody: no replica is alive"
        )
        waits = "" if answer.claimed or not owner else "\nit has not claimed the slot yet"
        trouble = standing.troubles.get(slot)
        return f"{head}\n{why}{waits}" + (f"\n{trouble}" if trouble else "")

    emit(
        builtins(answer), output, lambda: plain(text()), names=lambda: [f"{services.PREFIX}{which.name}"]
    )  # fmt: skip
    return 0


def _number(text: str) -> int:
    if not text.isdecimal():
        raise BadInput(f"--slot {text!r}: expected the number of a slot")
    return int(text)
