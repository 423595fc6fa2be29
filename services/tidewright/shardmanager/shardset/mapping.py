"""Objects shared out by the value of a label that they carry anyway (strategy `mapping`, section 3.3).

    source:     {labels: {label: team}}
    assignment: {strategy: mapping, perShard: [{ids: [a, b]}, {ids: ["*"]}]}

A shard is one slot of the document. The shard with `*` takes every object that no other one names, those
without the label too; without such a shard these have no owner, which a condition says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidewright.shardmanager.propeller.config import WILDCARD, ShardConfig, ShardMapping, ShardType
from tidewright.shardmanager.propeller.validation import findings
from tidewright.shardmanager.shardset.pods.inject import SELECTOR_DRIVEN, Injector
from tidewright.shardmanager.shardset.spec_reader import SpecReader

if TYPE_CHECKING:
    from tidewright.shardmanager.shardset.spec import SetSpec

PROPELLER_LABELS = ("project", "domain")
"""The labels for which the propeller has a flag, apart from the shard key."""
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
MOST_SHARDS = 4096
"""Of one set. Each change of a pod of it is looked at beside all the others, so that many more would keep the sets beside it waiting."""
MOST_IDS = 10_000
"""Values of the label that the shards of one set have: each worker is told its own, and the one with `*` all the others."""
_PATH = "shard.per-shard-mapping"


def read(
    reader: SpecReader, source: Mapping[str, Any], assignment: Mapping[str, Any], *, used: bool
) -> tuple[str, tuple[ShardMapping, ...]]:
    """The label, and the values of each shard."""
    given = assignment.get("perShard")
    if not used:
        if given:
            reader.refuse("assignment.perShard", "is given without the strategy mapping: expected none")
        return "", ()
    label = (source.get("labels") or {}).get("label") if isinstance(source.get("labels"), Mapping) else None
    if not isinstance(label, str) or not _LABEL_KEY.fullmatch(label):
        reader.refuse(
            "source.labels.label",
            f"is {label!r}: the strategy mapping expects the key of a label that the objects carry",
        )
        label = ""
    shards = tuple(_shard(reader, index, entry) for index, entry in enumerate(_entries(reader, given)))
    if (count := sum(len(shard.ids) for shard in shards)) > MOST_IDS:
        reader.refuse("assignment.perShard", f"has {count} ids: expected {MOST_IDS} at most")
        return label, ()
    return label, shards


def notices(label: str, shards: tuple[ShardMapping, ...]) -> tuple[str, ...]:
    """What is worth a notice about mappings."""
    return tuple(f"spec.{path}: {message}" for path, message in _findings(label, shards, refused=False))


def _findings(label: str, shards: tuple[ShardMapping, ...], *, refused: bool) -> Iterator[tuple[str, str]]:
    """By the rules of the original's mappings, and the stricter ones of native mode (section 1.3): paths and messages."""
    for finding in findings(ShardConfig(type=ShardType.PROJECT, per_shard_mapping=shards)):
        if finding.refused(native=True) is refused:
            message = finding.message.removeprefix(finding.path).replace("a project that", f"a {label} that")
            yield finding.path.replace(_PATH, "assignment.perShard"), message.strip()


def _entries(reader: SpecReader, given: Any) -> Sequence[Any]:
    if given is None:
        return ()
    if isinstance(given, list) and len(given) > MOST_SHARDS:
        reader.refuse("assignment.perShard", f"has {len(given)} entries: expected {MOST_SHARDS} at most")
        return ()
    if isinstance(given, list):
        return given
    reader.refuse("assignment.perShard", f"is {given!r}: expected a list of {{ids: [...]}}")
    return ()


def _shard(reader: SpecReader, index: int, entry: Any) -> ShardMapping:
    path = f"assignment.perShard[{index}]"
    if not isinstance(entry, Mapping):
        reader.refuse(path, f"is {entry!r}: expected {{ids: [...]}}")
        return ShardMapping()
    reader.known(entry, f"{path}.", ("ids",))
    return ShardMapping(tuple(reader.texts(entry, f"{path}.ids")))


def judge(reader: SpecReader, spec: SetSpec) -> None:
    """Rules of a mapped set."""
    for path, message in _findings(spec.label, spec.per_shard, refused=True):
        reader.refuse(path, message)
    if spec.injector not in SELECTOR_DRIVEN:
        reader.refuse(
            "workers.injector",
            f"is {spec.injector.value} with the strategy mapping: expected propeller or selector-flag, "
            "because these workers list by a label",
        )
    elif spec.injector is Injector.PROPELLER and spec.label and spec.label not in PROPELLER_LABELS:
        reader.refuse(
            "source.labels.label",
            f"is {spec.label}: the injector propeller has flags for {' and '.join(PROPELLER_LABELS)}, "
            "expected one of them or the injector selector-flag",
        )
    if spec.replicas != len(spec.per_shard):
        reader.refuse(
            "workers.replicas",
            f"is {spec.replicas}: expected {len(spec.per_shard)}, one for each of assignment.perShard, or none",
        )
    if spec.autosize is not None:
        reader.refuse(
            "autosize", "is given with the strategy mapping: its number of shards is that of perShard"
        )


def included(shards: Sequence[ShardMapping], index: int) -> tuple[tuple[str, ...], bool]:
    """The values of a shard, in order, and whether they are those that it excludes (the shard with `*`)."""
    ids = shards[index].ids
    if WILDCARD not in ids:
        return ids, False
    return tuple(value for other, shard in enumerate(shards) if other != index for value in shard.ids), True


def shard_of(shards: Sequence[ShardMapping], value: str | None) -> int | None:
    """The shard that takes objects with this value of the label (None: without the label), None for none."""
    for index, shard in enumerate(shards):
        if value is not None and value in shard.ids and value != WILDCARD:
            return index
    return next((index for index, shard in enumerate(shards) if WILDCARD in shard.ids), None)
