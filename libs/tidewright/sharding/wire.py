"""The assignment document as it stands in a ShardSet's status, and back.

    {revision, keyspace, frozen, slots: [{slots: "0-7,12", state, owner, epoch, incoming, checkpoint}],
     members: [{id, weight, state}]}

Slots with the same record share an entry, as runs, so that 32768 slots stay small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tidewright.sharding.document import Document, MemberRecord, MemberState, SlotRecord, SlotState
from tidewright.sharding.keyspace import parse_runs, runs


def assignment_of(document: Document) -> dict[str, Any]:
    """The document as JSON values."""
    groups: dict[tuple[str, str, int, str, str], list[int]] = defaultdict(list)
    for slot, r in enumerate(document.slots):
        groups[r.state.value, r.owner, r.epoch, r.incoming, r.checkpoint].append(slot)
    rows: list[dict[str, Any]] = []
    for (state, owner, epoch, incoming, checkpoint), slots in sorted(groups.items(), key=lambda g: g[1]):
        row: dict[str, Any] = {"slots": runs(slots), "state": state, "epoch": epoch}
        row |= {"owner": owner} if owner else {}
        row |= {"incoming": incoming} if incoming else {}
        row |= {"checkpoint": checkpoint} if checkpoint else {}
        rows.append(row)
    return {
        "revision": document.revision,
        "keyspace": len(document.slots),
        "frozen": document.frozen,
        "slots": rows,
        "members": [
            {"id": member, "weight": record.weight, "state": record.state.value}
            for member, record in sorted(document.members.items())
        ],
    }


def document_of(assignment: Mapping[str, Any]) -> Document:
    """The document in a status.

    Raises:
        ValueError: it is not one; the message names the part.
    """
    try:
        slots = [SlotRecord() for _slot in range(int(assignment["keyspace"]))]
        for row in assignment["slots"]:
            for slot in parse_runs(row["slots"]):
                slots[slot] = SlotRecord(
                    state=SlotState(row["state"]),
                    owner=row.get("owner", ""),
                    epoch=int(row["epoch"]),
                    incoming=row.get("incoming", ""),
                    checkpoint=row.get("checkpoint", ""),
                )
        members = {}
        for row in assignment["members"]:
            name, _hash, incarnation = row["id"].rpartition("#")
            members[row["id"]] = MemberRecord(
                name=name,
                incarnation=incarnation,
                weight=int(row["weight"]),
                state=MemberState(row["state"]),
            )
        return Document(
            revision=int(assignment["revision"]),
            frozen=bool(assignment.get("frozen")),
            slots=slots,
            members=members,
            moving=[s for s, r in enumerate(slots) if r.incoming or r.state is SlotState.DRAINING],
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not an assignment: {error!r}") from error
