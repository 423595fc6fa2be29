"""Changing who owns what: move, pin, unpin, drain, freeze, unfreeze."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.cli.shards.reading import ReadSet
from tidewright.cli.shards.where import (
    CHANGE,
    SetOptions,
    Yes,
    changed,
)

SlotNumber = Annotated[int, Parameter(help="Its number, as `shards get` lists them.")]
MemberName = Annotated[str, Parameter(help="A member, as `shards get` lists them.")]


def _dynamic(shard_set: ReadSet, doing: str) -> None:
    injector = shard_set.section("workers").get("injector", "dynamic")
    if injector != "dynamic":
        raise BadInput(
            f"shardset {shard_set.namespace}/{shard_set.name} cannot {doing}: its workers are told their slots as they start "
            f"(injector {injector}); change the number of shards, or make them follow the assignment (injector dynamic)"
        )


def move(
    slot: SlotNumber,
    member: MemberName,
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Hand one slot over to a member, once; later it is treated like any other."""

    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(shard_set, "move a slot")
        shard_set.check_slot(slot)
        shard_set.check_member(member)
        if shard_set.document.frozen:
            raise BadInput(f"shardset {shard_set.namespace}/{shard_set.name} is frozen: unfreeze it first")
        owner = shard_set.document.slots[slot].owner.partition("#")[0]
        if owner == member:
            raise BadInput(f"slot {slot} belongs to {member} already")
        if pinned := (shard_set.section("assignment").get("pins") or {}).get(str(slot)):
            raise BadInput(f"slot {slot} is pinned to {pinned}: unpin it first, or pin it to {member}")
        moves = {str(slot): member}
        # Moves that were made are not kept: the list would only grow.
        done_moves = {
            s: None
            for s, m in (shard_set.section("assignment").get("moves") or {}).items()
            if s != str(slot) and int(s) < len(shard_set.document.slots)
            and shard_set.document.slots[int(s)].owner.partition("#")[0] == m
        }  # fmt: skip
        return f"Move slot {slot} to {member}.", {"assignment": {"moves": {**done_moves, **moves}}}

    return changed(where, build, yes=yes)


def pin(
    slot: SlotNumber,
    member: MemberName,
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Keep a slot at a member for as long as that is there."""

    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(shard_set, "pin a slot")
        shard_set.check_slot(slot)
        shard_set.check_member(member)
        moves = shard_set.section("assignment").get("moves") or {}
        forgotten = {"moves": {str(slot): None}} if str(slot) in moves else {}
        return f"Pin slot {slot} to {member}.", {"assignment": {"pins": {str(slot): member}, **forgotten}}

    return changed(where, build, yes=yes)


def unpin(
    slot: SlotNumber,
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Treat a pinned slot like any other again."""

    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        pins = shard_set.section("assignment").get("pins") or {}
        if str(slot) not in pins:
            pinned = ", ".join(sorted(pins, key=int)) or "none"
            raise BadInput(f"slot {slot} is not pinned; pinned are: {pinned}")
        return f"Unpin slot {slot} from {pins[str(slot)]}.", {"assignment": {"pins": {str(slot): None}}}

    return changed(where, build, yes=yes)


def drain(
    member: MemberName,
    *,
    undo: Annotated[bool, Parameter(help="Let it own slots again.", negative="", group=CHANGE)] = False,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Make a member hand over all its slots, and give it none."""

    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(shard_set, "drain a member")
        drained = set(shard_set.section("workers").get("drain") or ())
        if undo:
            if member not in drained:
                raise BadInput(
                    f"{member} is not drained; drained are: {', '.join(sorted(drained)) or 'none'}"
                )
            return f"Let {member} own slots again.", {
                "workers": {"drain": sorted(drained - {member}) or None}
            }
        shard_set.check_member(member)
        if not set(shard_set.member_names()) - drained - {member}:
            raise BadInput(f"{member} is the only member that can own slots: nobody could take them over")
        return f"Drain {member}.", {"workers": {"drain": sorted(drained | {member})}}

    return changed(where, build, yes=yes)


def freeze(*, where: SetOptions | None = None) -> int:
    """Begin no move; the slots of members that are lost are given to others all the same."""
    patch = {"assignment": {"frozen": True}}
    return changed(where, lambda _found: ("Freeze.", patch), yes=True, ask=False)


def unfreeze(
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Begin moves again."""
    patch = {"assignment": {"frozen": None}}
    return changed(where, lambda _found: ("Unfreeze.", patch), yes=yes)
