"""The slot label on objects that missed it: one patch each, and what is said about those that lack it.

An object without the label, or with one that names no slot, is listed by no worker. A legal label that
a user has set is respected: it has one owner like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewright.events.base import Because, Event, ObjectRef
from tidewright.events.decisions import PatchObject
from tidewright.events.shards import SlotLabelsScanned, UnlabelledObject
from tidewright.sharding.source import Identity, slot_label_value
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State

SHOWN = 5
"""Names in a message."""


def fold(state: State, event: Event) -> list[str]:
    """Keep what the last look found; the keys of the sets that it concerns."""
    match event:
        case SlotLabelsScanned():
            shard_set = state.sets.get(f"{event.namespace}/{event.name}")
            if shard_set is None:
                return []
            shard_set.lacking, shard_set.to_label = event, list(event.objects)
            return [shard_set.key]
        case PatchObject(target=target):
            for shard_set in state.sets.values():
                if shard_set.to_label and shard_set.lacking and shard_set.lacking.kind == target.kind:
                    shard_set.to_label = [o for o in shard_set.to_label if o.uid != target.uid]
    return []


def patches(state: State, shard_set: ShardSetState) -> Iterator[PatchObject]:
    """The label for each object of the last look, once."""
    lacking, spec = shard_set.lacking, shard_set.spec
    if lacking is None or not spec.labels_objects or lacking.label != spec.slot_label:
        return
    pointer = f"/metadata/labels/{spec.slot_label.replace('~', '~0').replace('/', '~1')}"
    for obj in shard_set.to_label:
        value = slot_label_value(spec.objects, _identity(obj), spec.slots, spec.hash)
        if value is None:
            continue
        yield PatchObject(
            at=state.now,
            target=ObjectRef(
                api_version=lacking.api_version,
                kind=lacking.kind,
                namespace=obj.namespace,
                name=obj.name,
                uid=obj.uid,
            ),
            patch={"metadata": {"labels": {spec.slot_label: value}}},
            expect={pointer: obj.value},
            because=(
                Because(
                    rule="SlotLabelMissing" if obj.value is None else "SlotLabelIllegal",
                    values={"shard_set": shard_set.key, "found": obj.value, "slot": value},
                ),
            ),
        )


def troubles(shard_set: ShardSetState) -> dict[str, str]:
    """Reason to message; empty where all is well."""
    lacking, label = shard_set.lacking, shard_set.spec.slot_label
    said = {"UnlabelledObjects": "", "IllegalSlotLabels": ""}
    if lacking is None or not shard_set.spec.labels_objects:
        return said
    missing = [o for o in lacking.objects if o.value is None]
    illegal = [o for o in lacking.objects if o.value is not None]
    more = f" and {lacking.remaining} more" if lacking.remaining else ""
    if missing:
        said["UnlabelledObjects"] = f"{len(missing)}{more} without {label}: {_names(missing)}"
    if illegal:
        values = ", ".join(sorted({str(o.value) for o in illegal})[:SHOWN])
        said["IllegalSlotLabels"] = (
            f"{len(illegal)}{more} have a {label} that is no slot ({values}), set by somebody else: "
            f"{_names(illegal)}; they get that of their key"
        )
    return said


def _names(objects: list[UnlabelledObject]) -> str:
    names = [f"{o.namespace}/{o.name}" for o in objects[:SHOWN]]
    return ", ".join([*names, "..."] if len(objects) > SHOWN else names)


def _identity(obj: UnlabelledObject) -> Identity:
    return Identity(
        namespace=obj.namespace, name=obj.name, uid=obj.uid, parent=obj.parent, parent_uid=obj.parent_uid
    )
