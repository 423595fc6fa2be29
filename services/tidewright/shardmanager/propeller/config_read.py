"""From a YAML tree, environment and flags to a `ManagerConfig` (section 1.2).

parsed            any letter case, no guessing; what cannot be read, each with its path
read              the same, with every finding of the rules
merged            several files, later ones win; lists replace as a whole
with_environment  environment variables over a tree
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from tidewright.kube.digits import MOST_DIGITS
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
    environment_name,
)
from tidewright.shardmanager.propeller.validation import Code, Finding, Severity, findings

Tree: TypeAlias = Mapping[str, Any]

MIN_INTERVAL_S = 1.0
_INTEGER = re.compile(r"[+-]?\d+")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration as ours reads it, with all findings.

    Attributes:
        config: what could be read; defaults stand where something was refused.
    """

    config: ManagerConfig
    findings: tuple[Finding, ...] = ()

    def refusals(self, *, native: bool) -> list[Finding]:
        """The findings for which this configuration is not used."""
        return [f for f in self.findings if f.refused(native=native)]

    def warnings(self, *, native: bool) -> list[Finding]:
        return [f for f in self.findings if not f.refused(native=native)]


def merged(trees: Sequence[Tree]) -> dict[str, Any]:
    """Several files as one tree: mappings merge, anything else of a later file replaces."""
    result: dict[str, Any] = {}
    for tree in trees:
        for key, value in tree.items():
            before = result.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            result[key] = merged([before, value]) if both else value  # type: ignore[list-item]  # narrowed by `both`
    return result


def with_environment(tree: Tree, environment: Mapping[str, str]) -> dict[str, Any]:
    """A tree with the values of environment variables over those of the files."""
    overlay: dict[str, Any] = {}
    for key in (*TEXT_KEYS, INTERVAL_KEY):
        if (value := environment.get(environment_name(f"{SECTION}.{key}"))) is not None:
            overlay[key] = value
    for key in SHARD_KEYS:
        if (value := environment.get(environment_name(f"{SECTION}.{SHARD_KEY}.{key}"))) is not None:
            overlay.setdefault(SHARD_KEY, {})[key] = value
    return merged([tree, {SECTION: overlay}]) if overlay else dict(tree)


def read(tree: Tree, base: ManagerConfig) -> Reading:
    """The configuration as ours reads it, with everything that is wrong with it."""
    reading, path = parsed(tree, base), f"{SECTION}.{SHARD_KEY}"
    if any(f.path.startswith(path) and f.code is not Code.UNKNOWN_KEY for f in reading.findings):
        return reading
    judged = [finding.under(SECTION) for finding in findings(reading.config.shard)]
    return msgspec.structs.replace(reading, findings=(*reading.findings, *judged))


def parsed(tree: Tree, base: ManagerConfig) -> Reading:
    """The configuration as ours reads it, with what of it cannot be read."""
    reader = _Reader()
    section = reader.mapping(tree.get(SECTION), SECTION)
    reader.known(section, SECTION, (*TEXT_KEYS, INTERVAL_KEY, SHARD_KEY))
    changes: dict[str, Any] = {}
    for key in TEXT_KEYS:
        if section.get(key) is not None:
            changes[key.replace("-", "_")] = reader.text(section[key], f"{SECTION}.{key}")
    if section.get(INTERVAL_KEY) is not None:
        interval = reader.interval(section[INTERVAL_KEY], f"{SECTION}.{INTERVAL_KEY}")
        changes["scan_interval_s"] = base.scan_interval_s if interval is None else interval
    shard = _read_shard(reader, section.get(SHARD_KEY), base.shard)
    config = msgspec.structs.replace(base, shard=shard, **changes)
    return Reading(config=config, findings=tuple(reader.found))


def _read_shard(reader: _Reader, tree: Any, base: ShardConfig) -> ShardConfig:
    path = f"{SECTION}.{SHARD_KEY}"
    section = reader.mapping(tree, path)
    reader.known(section, path, (*SHARD_KEYS, MAPPING_KEY))
    changes: dict[str, Any] = {}
    if section.get("type") is not None and (kind := reader.kind(section["type"], f"{path}.type")):
        changes["type"] = kind
    if section.get("shard-count") is not None:
        count = reader.integer(section["shard-count"], f"{path}.shard-count")
        changes["shard_count"] = base.shard_count if count is None else count
    if section.get(MAPPING_KEY) is not None:
        changes["per_shard_mapping"] = reader.mappings(section[MAPPING_KEY], f"{path}.{MAPPING_KEY}")
    return msgspec.structs.replace(base, **changes)


class _Reader:
    """Reads values strictly and remembers what was wrong."""

    def __init__(self) -> None:
        self.found: list[Finding] = []

    def refuse(self, code: Code, path: str, message: str, severity: Severity = Severity.ERROR) -> None:
        self.found.append(Finding(code=code, path=path, message=f"{path} {message}", severity=severity))

    def mapping(self, value: Any, path: str) -> Tree:
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return value
        self.refuse(Code.WRONG_KIND, path, f"is {value!r}: expected a map of keys")
        return {}

    def known(self, section: Tree, path: str, keys: Sequence[str]) -> None:
        for key in section:
            if key not in keys:
                message = f"is not a key of this section: expected one of {', '.join(keys)}"
                self.refuse(Code.UNKNOWN_KEY, f"{path}.{key}", message, Severity.STRICT)

    def text(self, value: Any, path: str) -> str:
        if isinstance(value, str) and value:
            return value
        self.refuse(Code.WRONG_KIND, path, f"is {value!r}: expected text")
        return ""

    def kind(self, value: Any, path: str) -> ShardType | None:
        for kind in ShardType:
            if isinstance(value, str) and value.lower() == kind.value.lower():
                return kind
        self.refuse(Code.UNKNOWN_TYPE, path, f"is {value!r}: expected {', '.join(ShardType)}")
        return None

    def integer(self, value: Any, path: str) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _INTEGER.fullmatch(value) and len(value) <= MOST_DIGITS:
            return int(value)
        self.refuse(Code.NOT_AN_INTEGER, path, f"is {value!r}: expected a whole number")
        return None

    def interval(self, value: Any, path: str) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1_000_000_000
            if value:
                message = f"is the number {value}, read as nanoseconds ({seconds:g} s): write a unit"
                self.refuse(Code.NANOSECOND_NUMBER, path, message, Severity.WARNING)
        elif value == "":
            seconds = 0.0
        else:
            try:
                seconds = parse_duration(value if isinstance(value, str) else repr(value))
            except ValueError as error:
                self.refuse(Code.BAD_DURATION, path, f"cannot be read: {error}")
                return None
        if seconds < MIN_INTERVAL_S:
            self.refuse(Code.OUT_OF_RANGE, path, f"is {seconds:g} s: expected at least {MIN_INTERVAL_S:g} s")
        return seconds

    def mappings(self, value: Any, path: str) -> tuple[ShardMapping, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.refuse(Code.WRONG_KIND, path, f"is {value!r}: expected a list of {{ids: [...]}}")
            return ()
        result = []
        for index, entry in enumerate(value):
            section = self.mapping(entry, f"{path}[{index}]")
            self.known(section, f"{path}[{index}]", ("ids",))
            ids = section.get("ids") or ()
            if isinstance(ids, str) or not all(isinstance(i, str | int) for i in ids):
                self.refuse(Code.WRONG_KIND, f"{path}[{index}].ids", f"is {ids!r}: expected a list of texts")
                ids = ()
            result.append(ShardMapping(tuple(str(i) for i in ids)))
        return tuple(result)
