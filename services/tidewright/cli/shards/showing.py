"""Tables of `tidewright shards` for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidewright.cli.shards.reading import ReadSet
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.tell.preview import Preview


def columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in plain columns."""
    texts = [list(map(str, head)), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in texts) for n in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in texts
    )


def plan(found: ReadSet, made: Preview) -> str:
    """Moves, restarts, and the bound of the gap."""
    lines = [f"Plan for shardset {found.namespace}/{found.name}:"]
    share = f" ({made.moved / made.slots:.1%})" if made.slots and made.moved else ""
    lines.append(f"  moves     {made.moved} of {made.slots} slots{share}")
    for move in made.moves:
        lines.append(
            f"              {move.source or '(nobody)'} -> {move.target}: {move.count} ({_short(move.slots)})"
        )
    for word, names in (("starts", made.starts), ("stops", made.stops), ("restarts", made.restarts)):
        lines.append(f"  {word.ljust(9)} {len(names)}{': ' + ', '.join(names) if names else ''}")
    lines.append(f"  gap       {made.gap}")
    lines.append(f"  crash     {made.crash_gap_s:g} s at most for the slots of a member that fails meanwhile")
    lines += [f"  note      {note}" for note in made.notes]
    return "\n".join(lines)


def overview(found: Sequence[ReadSet]) -> str:
    """All sets, a line each."""
    rows = []
    for one in found:
        ready = condition(one, "Ready")
        states = [record.state for record in one.document.slots]
        rows.append(
            (
                one.namespace,
                one.name,
                len(states),
                len(one.document.members),
                states.count(SlotState.FREE),
                len(one.document.moving),
                "yes" if one.document.frozen else "no",
                ready.get("status", "?"),
                ready.get("reason", "NotSeenYet"),
            )
        )
    head = ("NAMESPACE", "NAME", "SLOTS", "MEMBERS", "UNOWNED", "MOVING", "FROZEN", "READY", "REASON")
    return columns(head, rows)


def details(found: ReadSet) -> str:
    """One set: its members with their slots, and the conditions that are not as they should be."""
    document = found.document
    renewals = {
        f"{m['spec']['member']}#{m['spec']['incarnation']}": (m.get("status") or {}) for m in found.members
    }
    rows: list[tuple[object, ...]] = []
    for member, record in sorted(document.members.items()):
        held = document.owned_by(member)
        busy = sum(v or 0 for v in (renewals.get(member, {}).get("load") or {}).values())
        rows.append(
            (record.name, record.state.value, record.weight, len(held), _short(runs(held)) or "-", busy,
             record.incarnation[:12])
        )  # fmt: skip
    lines = [
        f"shardset {found.namespace}/{found.name}: {len(document.slots)} slots, revision {document.revision}"
        + (", frozen" if document.frozen else ""),
        columns(("MEMBER", "STATE", "WEIGHT", "OWNS", "SLOTS", "BUSY", "INCARNATION"), rows),
    ]
    if free := document.unowned():
        lines.append(f"without owner: {runs(free)}")
    if document.moving:
        lines.append(f"moving: {runs(document.moving)}")
    for one in found.status.get("conditions") or ():
        trouble = one["status"] == ("False" if one["type"] == "Ready" else "True")
        if trouble and one["type"] != "Ready":
            lines.append(f"{one['type']}: {one['reason']}: {one['message']}")
    return "\n".join(lines)


def condition(found: ReadSet, kind: str) -> dict[str, Any]:
    """A condition of a set, empty when it is not there."""
    return next((c for c in found.status.get("conditions") or () if c["type"] == kind), {})


def as_json(found: ReadSet) -> dict[str, Any]:
    """One set for programs."""
    return {
        "namespace": found.namespace,
        "name": found.name,
        "assignment": found.status.get("assignment"),
        "conditions": found.status.get("conditions") or [],
    }


def _short(slots: str, most: int = 60) -> str:
    return slots if len(slots) <= most else f"{slots[: most - 3]}..."
