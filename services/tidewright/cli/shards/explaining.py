"""Why a key is where it is: its slot, the slot's owner, and what led to that."""

from __future__ import annotations

from typing import Any

from tidewright.cli.asking.source import opened
from tidewright.cli.errors import BadInput, CommandError, translated
from tidewright.cli.options import LogOptions, Output, emit
from tidewright.cli.shards import history
from tidewright.cli.shards import ours as services
from tidewright.cli.shards.reading import ReadSet
from tidewright.log.subjects import ALL, Slot
from tidewright.log.subjects import slot_of as log_slot_of
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import slot_of
from tidewright.shardmanager.shardset.mapping import shard_of
from tidewright.shardmanager.shardset.spec import read_spec


async def explain(found: ReadSet, key: str, log: LogOptions | None, output: Output, *, is_slot: bool) -> int:
    """Explain a key of a ShardSet."""
    slots = len(found.document.slots)
    who = f"shardset {found.namespace}/{found.name}"
    if not slots:
        raise CommandError(f"{who} has no assignment yet: is the shard manager running?")
    name = found.section("keyspace").get("hash", "blake2b64")
    slot = _number(key) if is_slot else _mapped(found, key) if found.mapped else slot_of(key, slots, name)
    found.check_slot(slot)
    record = found.document.slots[slot]
    made: dict[str, Any] = {
        "key": None if is_slot else key,
        "slot": slot,
        "keyspace": slots,
        "hash": None if found.mapped else name,
        "label": (found.section("source").get("labels") or {}).get("label") if found.mapped else None,
        "state": record.state.value,
        "owner": record.owner or None,
        "epoch": record.epoch,
        "incoming": record.incoming or None,
        "pinned": (found.section("assignment").get("pins") or {}).get(str(slot)),
        "since": None,
        "history": [],
        "log": "",
    }
    lines: list[str] = []
    try:
        async with opened(log, None) as source:
            ledger = await history.ledger(source, found.namespace, found.name)
        about = ledger.about(slot)
        lines = history.lines(about, slot)
        made["history"] = [line.strip() for line in lines]
        grants = [entry for entry, _epoch in about if entry.kind == "grant"]
        made["since"] = grants[-1].at if grants else None
    except CommandError as error:
        made["log"] = str(error)
    emit(made, output, lambda: _text(made, lines))
    return 0


def _mapped(found: ReadSet, value: str) -> int:
    """The shard, which is the slot, of a value of the label."""
    spec, _problems = read_spec(found.spec)
    shard = shard_of(spec.per_shard, value)
    if shard is None:
        raise CommandError(
            f"{spec.label}={value} has no owner: no shard of {found.namespace}/{found.name} names it, and none has '*'"
        )
    return shard


def _text(made: dict[str, Any], lines: list[str]) -> str:
    head = f"slot {made['slot']} of {made['keyspace']}"
    if made["key"] is not None:
        how = f"{made['hash']}({made['key']!r}) mod {made['keyspace']}"
        if made["label"]:
            how = f"the shard that assignment.perShard gives {made['label']}={made['key']} to"
        head = f"{made['key']!r} -> {head} ({how})"
    said = [head]
    if made["owner"] is None:
        said.append(f"owner: nobody (it is {made['state']})")
    else:
        since = f", since {history.stamp(made['since'])}" if made["since"] else ""
        said.append(f"owner: {made['owner']}, epoch {made['epoch']}{since}")
    if made["state"] == SlotState.DRAINING.value:
        said.append(f"it is being stopped there, for {made['incoming']}")
    elif made["incoming"]:
        said.append(f"{made['incoming']} prepares to take it over")
    if made["pinned"]:
        said.append(f"pinned to {made['pinned']}")
    if lines:
        said += ["why:", *lines]
    elif made["log"]:
        said.append(f"why: not known here: {made['log']}")
    return "\n".join(said)


async def ours(name: str, key: str, log: LogOptions | None, output: Output, *, is_slot: bool) -> int:
    """Explain a namespace of one of our own services."""
    which = services.service(name)
    with translated():
        connection = await services.opened(log)
        async with connection:
            found = await services.standing(connection, which)
            slots = connection.slots
    if which.partition == "cluster":
        slot: Slot = ALL
    elif is_slot:
        slot = Slot(str(_number(key)))
        if slot not in found.owners:
            raise BadInput(f"slot {key}: service/{which.name} has the slots 0 to {slots - 1}")
    else:
        slot = log_slot_of(key, slots)
    checkpoint, owner = found.checkpoints.get(slot), found.owners[slot]
    made = {
        "namespace": None if is_slot else key,
        "slot": str(slot),
        "owner": owner,
        "epoch": checkpoint.epoch if checkpoint else 0,
        "claimed": checkpoint is not None and checkpoint.incarnation == owner,
        "position": checkpoint.position if checkpoint else 0,
    }

    def text() -> str:
        head = f"slot {slot} of service/{which.name}"
        if not is_slot and slot != ALL:
            head = f"namespace {key!r} -> {head} (blake2b of the namespace mod {slots})"
        why = (
            f"owner: replica {owner}, epoch {made['epoch']}, at sequence {made['position']}\n"
            f"why: of {len(found.members)} live replicas it has the highest rendezvous hash for this slot"
            if owner
            else "owner: nobody: no replica is alive"
        )
        waits = "" if made["claimed"] or not owner else "\nit has not claimed the slot yet"
        return f"{head}\n{why}{waits}"

    emit(made, output, text)
    return 0


def _number(text: str) -> int:
    if not text.isdecimal():
        raise BadInput(f"--slot {text!r}: expected the number of a slot")
    return int(text)
