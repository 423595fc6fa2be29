"""Entries of an assignment's ledger, and passes over fleets, as sentences. Pure; for `explain` and lists of events."""

from __future__ import annotations

from tidewright.events.shards import AssignmentEntry, BeginPass

_GRANT = {
    "free": "nobody had owned it before",
    "planned": "its owner before had stopped and acknowledged that",
    "crash": "the lease of its owner before had run out and was taken",
    "exit": "its owner before had ended in good order",
}
_OFFER = {
    "rebalance": "so that everybody has their share",
    "load": "because its owner is busier than the others",
    "operator": "because the spec asks for this move",
}
_LEAVE = {"crash": "its lease was taken", "exit": "it ended in good order"}
_TAKE = {"crash": "its lease ran out, or it did not stop in time", "exit": "it released its lease"}


def sentence(entry: AssignmentEntry, slot: int | None = None) -> str:  # noqa: C901  # a sentence per kind of entry
    """What an entry did; `slot` for one slot alone instead of all that it touched."""
    what = f"slot {slot}" if slot is not None else f"slots {entry.slots}" if entry.slots else "it"
    member = entry.member.partition("#")[0]
    match entry.kind:
        case "create":
            return f"The keyspace of {entry.keyspace} slots was made."
        case "reshape":
            return f"The set has {entry.keyspace} shards from now on."
        case "double":
            return "The keyspace was doubled: every slot became two, with the same owner."
        case "join":
            return f"{member} joined with weight {entry.weight}."
        case "leave":
            return f"{member} is no member any more: {_LEAVE.get(entry.cause, entry.cause)}."
        case "expire":
            return f"The lease of {member} was not renewed in time."
        case "recover":
            return f"{member} is ready again."
        case "take":
            return f"{member} is over: {_TAKE.get(entry.cause, entry.cause)}."
        case "depart":
            return f"{member} is to give up all its slots."
        case "offer":
            return f"{member} was asked to prepare for {what}, {_OFFER.get(entry.cause, entry.cause)}."
        case "withdraw":
            return f"The move of {what} to {member} was given up before anybody stopped ({entry.cause})."
        case "drain":
            return f"{member} was asked to stop {what}: its next owner is warm."
        case "cancel":
            return f"{member} keeps {what}: who was to take over is gone."
        case "release":
            return f"{member} stopped {what} and said where."
        case "grant":
            return f"{member} became the owner of {what}: {_GRANT.get(entry.cause, entry.cause)}."
        case "force":
            return f"{what[:1].upper()}{what[1:]} was taken from {member}, who may not act any more ({entry.cause})."
        case "freeze":
            return "Moves were frozen."
        case "unfreeze":
            return "Moves were allowed again."


def begins(event: BeginPass) -> str:
    """What a pass is to do."""
    parts = [f"delete {', '.join(event.deletions)}"] if event.deletions else []
    if event.creations:
        plural = "s" * (len(event.creations) != 1)
        parts.append(f"make the pod{plural} of shard{plural} {', '.join(map(str, event.creations))}")
    return " and then ".join(parts)
