"""How the original reads its configuration, and what it says and does with it: quirks that ours refuses.

It decodes weakly ("your `type: 1` meant Project"), stops at the first error, and goes by names that come back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tidewright.kube.durations import parse_duration
from tidewright.shardmanager.propeller.config import (
    INTERVAL_KEY,
    MAPPING_KEY,
    SECTION,
    SHARD_KEY,
    SHARD_KEYS,
    TEXT_KEYS,
    ManagerConfig,
    ShardConfig,
    ShardMapping,
    ShardType,
)
from tidewright.shardmanager.propeller.config_read import Tree
from tidewright.shardmanager.propeller.validation import Code, findings
from tidewright.shardmanager.propeller.worker import TERMINATED, PropellerWorker, Requirement, selector_text

ENUMERATION = (ShardType.DOMAIN, ShardType.PROJECT, ShardType.HASH)
"""The order in which the original numbers the strategies, from 0."""

RELEASE_ON_CANCEL = False
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
COMPLETED_LABEL = "completed-time"
LEGACY_COMPLETED_LABEL = "hour-of-day"
_SUFFIX_LENGTH = 10
_INTEGER = re.compile(r"[+-]?\d+")
_REFUSED = frozenset(
    {Code.UNKNOWN_TYPE, Code.OUT_OF_RANGE, Code.EMPTY_IDS, Code.WILDCARD_NOT_ALONE, Code.WILDCARD_TWICE}
)
"""What the original refuses; ours names that first."""


class CannotRead(ValueError):
    """The original would not start with this configuration."""


def read_reference(tree: Tree, base: ManagerConfig) -> ManagerConfig:
    """The configuration as the original's weakly typed decoder takes it.

    Raises:
        CannotRead: the original's start would fail.
    """
    section = tree.get(SECTION) or {}
    if not isinstance(section, Mapping):
        raise CannotRead(f"cannot parse '{SECTION}': expected a map, found {section!r}")
    changes: dict[str, Any] = {
        key.replace("-", "_"): _weak_text(section[key]) for key in TEXT_KEYS if section.get(key) is not None
    }
    if section.get(INTERVAL_KEY) is not None:
        changes["scan_interval_s"] = _weak_interval(section[INTERVAL_KEY])
    if section.get(SHARD_KEY) is not None:
        changes["shard"] = reference_shard(section[SHARD_KEY], base.shard)
    return msgspec.structs.replace(base, **changes)


def reference_shard(tree: Tree, base: ShardConfig) -> ShardConfig:
    """The `shard` section as the original takes it. Raises CannotRead."""
    if not isinstance(tree, Mapping):
        raise CannotRead(f"cannot parse '{SHARD_KEY}': expected a map, found {tree!r}")
    changes: dict[str, Any] = {}
    if tree.get("type") is not None:
        changes["type"], changes["unknown_type"] = _weak_type(tree["type"])
    if tree.get("shard-count") is not None:
        changes["shard_count"] = _weak_int(tree["shard-count"], "shard-count")
    if tree.get(MAPPING_KEY) is not None:
        changes["per_shard_mapping"] = tuple(_weak_mapping(entry) for entry in tree[MAPPING_KEY])
    return msgspec.structs.replace(base, **changes)


def _weak_type(value: Any) -> tuple[ShardType, str]:
    if value in tuple(ShardType):
        return ShardType(value), ""
    if isinstance(value, str) and value.startswith("ShardType(") and value.endswith(")"):
        return ShardType.HASH, value
    number = _weak_int(value, "type")
    if 0 <= number < len(ENUMERATION):
        return ENUMERATION[number], ""
    return ShardType.HASH, f"ShardType({number})"


def _weak_int(value: Any, key: str) -> int:
    if isinstance(value, bool | int | float):
        return int(value)
    if value == "":
        return 0
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise CannotRead(f"cannot parse '{key}' as int: {value!r}")


def _weak_text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str | int | float):
        return str(value)
    raise CannotRead(f"cannot parse {value!r} as a string")


def _weak_interval(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1_000_000_000
    if value == "":
        return 0.0
    try:
        return parse_duration(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise CannotRead(f"cannot parse '{INTERVAL_KEY}': {error}") from error


def _weak_mapping(entry: Any) -> ShardMapping:
    if not isinstance(entry, Mapping):
        raise CannotRead(f"cannot parse '{MAPPING_KEY}': expected a map, found {entry!r}")
    ids = entry.get("ids") or ()
    return ShardMapping(tuple(_weak_text(i) for i in ([ids] if isinstance(ids, str) else ids)))


def reference_error(shard: ShardConfig) -> str | None:
    """The message with which the original refuses this configuration, None when it accepts it."""
    return next((finding.message for finding in findings(shard) if finding.code in _REFUSED), None)


def fatal_log(message: str) -> str:
    """The original's last line after such an error."""
    return f"failed to start manager [failed to initialize shard strategy [{message}]]"


def flags() -> list[str]:
    """The command-line flags, in the order of the keys; the mapping has none."""
    keys = [*TEXT_KEYS, INTERVAL_KEY, *(f"{SHARD_KEY}.{key}" for key in SHARD_KEYS)]
    return [f"--{SECTION}.{key}" for key in keys]


def identity(environment: Mapping[str, str], hostname: str, entropy: bytes) -> str:
    """The identity that the original takes: the pod's name, else the host's with a random end.

    `entropy` is at least ten random bytes, drawn by the caller.
    """
    if name := environment.get("POD_NAME"):
        return name
    suffix = "".join(SAFE_ALPHABET[byte % len(SAFE_ALPHABET)] for byte in entropy[:_SUFFIX_LENGTH])
    return f"{hostname}_{suffix}"


def collects(worker: PropellerWorker, retention_hours: int, now: datetime) -> str:
    """The selector of its garbage collection: terminated, completed before the hours to keep."""
    hour = now.astimezone(UTC)
    keep = [(hour - timedelta(hours=h)).strftime("%Y-%m-%d.%H") for h in range(retention_hours + 1)]
    return selector_text(
        [
            *worker.requirements,
            Requirement(COMPLETED_LABEL, "NotIn", tuple(keep)),
            Requirement(LEGACY_COMPLETED_LABEL, "DoesNotExist"),
            Requirement(TERMINATED[0], "Equals", TERMINATED[1:]),
        ]
    )
