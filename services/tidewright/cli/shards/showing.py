"""Tables of `tidewright shards` for people, and the same for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidewright.cli.shards.answers import ShardPlan, ShardSetStanding, SlotsMoved, SpecProblem
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


def plan(shard_set: ReadSet, preview: Preview) -> str:
    """Moves, restarts, and the bound of the gap."""
    lines = [f"Plan for shardset {shard_set.namespace}/{shard_set.name}:"]
    share = f" ({preview.moved / preview.slots:.1%})" if preview.slots and preview.moved else ""
    lines.append(f"  moves     {preview.moved} of {preview.slots} slots{share}")
    for move in preview.moves:
        lines.append(
            f"              {move.source or '(nobody)'} -> {move.target}: {move.count} ({_short(move.slots)})"
        )
    for word, names in (("starts", preview.starts), ("stops", preview.stops), ("restarts", preview.restarts)):
        lines.append(f"  {word.ljust(9)} {len(names)}{': ' + ', '.join(names) if names else ''}")
    lines.append(f"  gap       {preview.gap}")
    lines.append(
        f"  crash     {preview.crash_gap_s:g} s at most for the slots of a member that fails meanwhile"
    )
    lines += [f"  note      {note}" for note in preview.notes]
    return "\n".join(lines)


def overview(shard_sets: Sequence[ReadSet]) -> str:
    """All sets, a line each."""
    rows = []
    for shard_set in shard_sets:
        ready = condition(shard_set, "Ready")
        states = [record.state for record in shard_set.document.slots]
        rows.append(
            (
                shard_set.namespace,
                shard_set.name,
                len(states),
                len(shard_set.document.members),
                states.count(SlotState.FREE),
                len(shard_set.document.moving),
                "yes" if shard_set.document.frozen else "no",
                ready.get("status", "?"),
                ready.get("reason", "NotSeenYet"),
            )
        )
    head = ("NAMESPACE", "NAME", "SLOTS", "MEMBERS", "UNOWNED", "MOVING", "FROZEN", "READY", "REASON")
    return columns(head, rows)


def details(shard_set: ReadSet) -> str:
    """One set: its members with their slots, and the conditions that are not as they should be."""
    document = shard_set.document
    renewals = {
        f"{m['spec']['member']}#{m['spec']['incarnation']}": (m.get("status") or {})
        for m in shard_set.members
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
        f"shardset {shard_set.namespace}/{shard_set.name}: {len(document.slots)} slots, revision {document.revision}"
        + (", frozen" if document.frozen else ""),
        columns(("MEMBER", "STATE", "WEIGHT", "OWNS", "SLOTS", "BUSY", "INCARNATION"), rows),
    ]
    if free := document.unowned():
        lines.append(f"without owner: {runs(free)}")
    if document.moving:
        lines.append(f"moving: {runs(document.moving)}")
    for status_condition in shard_set.status.get("conditions") or ():
        trouble = status_condition["status"] == ("False" if status_condition["type"] == "Ready" else "True")
        if trouble and status_condition["type"] != "Ready":
            lines.append(
                f"{status_condition['type']}: {status_condition['reason']}: {status_condition['message']}"
            )
    return "\n".join(lines)


def condition(shard_set: ReadSet, kind: str) -> dict[str, Any]:
    """A condition of a set, empty when it is not there."""
    return next((c for c in shard_set.status.get("conditions") or () if c["type"] == kind), {})


def named(shard_set: ReadSet) -> str:
    """A set as `-o name` says it."""
    return f"shardset/{shard_set.name}"


def standing(shard_set: ReadSet) -> ShardSetStanding:
    """One set for programs."""
    return ShardSetStanding(
        namespace=shard_set.namespace,
        name=shard_set.name,
        assignment=shard_set.status.get("assignment"),
        conditions=tuple(shard_set.status.get("conditions") or ()),
    )


def planned(shard_set: ReadSet, preview: Preview) -> ShardPlan:
    """A plan for programs."""
    return ShardPlan(
        namespace=shard_set.namespace,
        name=shard_set.name,
        problems=tuple(SpecProblem(path=p.path, message=p.message) for p in preview.problems),
        moves=tuple(
            SlotsMoved(slots=m.slots, count=m.count, source=m.source or None, target=m.target)
            for m in preview.moves
        ),
        moved=preview.moved,
        slots=preview.slots,
        starts=preview.starts,
        stops=preview.stops,
        restarts=preview.restarts,
        gap_seconds=preview.gap_s,
        gap=preview.gap,
        crash_gap_seconds=preview.crash_gap_s,
        notes=preview.notes,
    )


def _short(slots: str, most: int = 60) -> str:
    return slots if len(slots) <= most else f"{slots[: most - 3]}..."
