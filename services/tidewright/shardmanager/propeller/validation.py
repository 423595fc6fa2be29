"""Validation of a shard configuration: what the original refuses, and what ours refuses besides.

    findings    every problem with a code and the path of the value, first what the original refuses (rules 1 to 6)

The original accepts configurations that give an id two owners or delete every pod; native mode does
not, and compat mode says so in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from tidewright.shardmanager.propeller.config import KEYSPACE, WILDCARD, ShardConfig, ShardType

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Code(StrEnum):
    """What can be wrong with a configuration."""

    OUT_OF_RANGE = "OutOfRange"
    EMPTY_IDS = "EmptyIds"
    WILDCARD_NOT_ALONE = "WildcardNotAlone"
    WILDCARD_TWICE = "WildcardTwice"
    UNKNOWN_TYPE = "UnknownType"
    DUPLICATE_ID = "DuplicateId"
    REPEATED_ID = "RepeatedId"
    EMPTY_ID = "EmptyId"
    NO_SHARDS = "NoShards"
    ILLEGAL_LABEL_VALUE = "IllegalLabelValue"
    NOT_EXHAUSTIVE = "NotExhaustive"
    NOT_AN_INTEGER = "NotAnInteger"
    UNKNOWN_KEY = "UnknownKey"
    BAD_DURATION = "BadDuration"
    NANOSECOND_NUMBER = "NanosecondNumber"
    WRONG_KIND = "WrongKind"
    UNREADABLE = "Unreadable"


class Severity(StrEnum):
    """What a finding leads to. `STRICT`: refused in native mode, a warning in compat mode."""

    ERROR = "Error"
    STRICT = "Strict"
    WARNING = "Warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a configuration, or at least odd.

    Attributes:
        path: the key, as `manager.shard.per-shard-mapping[1].ids[0]`.
        message: names the value found and what would be valid.
    """

    code: Code
    path: str
    message: str
    severity: Severity = Severity.ERROR

    def refused(self, *, native: bool) -> bool:
        return self.severity is Severity.ERROR or (native and self.severity is Severity.STRICT)

    def under(self, prefix: str) -> Finding:
        """The same finding in a section called `prefix`."""
        return msgspec.structs.replace(self, path=f"{prefix}.{self.path}")


def findings(shard: ShardConfig, keyspace: int = KEYSPACE) -> list[Finding]:
    """Everything wrong with a configuration: first what the original refuses, then the rest."""
    return [*_reference_rules(shard, keyspace), *_stricter_rules(shard)]


def legal_label_value(value: str) -> bool:
    """Whether Kubernetes takes this text as the value of a label."""
    return _LABEL_VALUE.fullmatch(value) is not None


def _reference_rules(shard: ShardConfig, keyspace: int) -> Iterator[Finding]:
    if shard.unknown_type:
        message = f"shard strategy '{shard.unknown_type}' does not exist"
        yield Finding(code=Code.UNKNOWN_TYPE, path="shard.type", message=message)
    elif shard.type is ShardType.HASH:
        count, path = shard.shard_count, "shard.shard-count"
        if count <= 0:
            message = f"configured ShardCount ({count}) must be greater than zero"
            yield Finding(code=Code.OUT_OF_RANGE, path=path, message=message)
        elif count > keyspace:
            message = f"configured ShardCount ({count}) is larger than available keyspace size ({keyspace})"
            yield Finding(code=Code.OUT_OF_RANGE, path=path, message=message)
    else:
        yield from _mapping_rules(shard)


def _mapping_rules(shard: ShardConfig) -> Iterator[Finding]:
    """Rules 3 to 5, mapping by mapping: an early mapping's last rule precedes a later one's first."""
    wildcards = 0
    for index, mapping in enumerate(shard.per_shard_mapping):
        path = f"shard.per-shard-mapping[{index}].ids"
        if not mapping.ids:
            message = "unable to create shard with 0 configured ids"
            yield Finding(code=Code.EMPTY_IDS, path=path, message=message)
        elif WILDCARD in mapping.ids:
            wildcards += 1
            if len(mapping.ids) > 1:
                message = "shards responsible for the wildcard id (ie. '*') may only contain one id"
                yield Finding(code=Code.WILDCARD_NOT_ALONE, path=path, message=message)
            elif wildcards > 1:
                message = "may only define one shard responsible for the wildcard id (ie. '*')"
                yield Finding(code=Code.WILDCARD_TWICE, path=path, message=message)


def _stricter_rules(shard: ShardConfig) -> Iterator[Finding]:
    if shard.unknown_type or shard.type is ShardType.HASH:
        return
    path = "shard.per-shard-mapping"
    if not shard.per_shard_mapping:
        message = f"{path} is empty: with no shard every pod is deleted; name at least one shard"
        # Refused in compat mode too: nobody wants the fleet removed by an omission.
        yield Finding(code=Code.NO_SHARDS, path=path, message=message)
        return
    owners: dict[str, int] = {}
    for index, mapping in enumerate(shard.per_shard_mapping):
        for position, value in enumerate(mapping.ids):
            finding = _id_rule(value, f"{path}[{index}].ids[{position}]", owners.get(value), index)
            if finding is not None:
                yield finding
            owners.setdefault(value, index)
    if WILDCARD not in owners:
        message = f"no shard has the id '*': a {shard.type.value.lower()} that no shard names has no owner"
        yield Finding(code=Code.NOT_EXHAUSTIVE, path=path, message=message, severity=Severity.WARNING)


def _id_rule(value: str, path: str, owner: int | None, index: int) -> Finding | None:
    if value == WILDCARD:
        return None
    if value == "":
        message = f"{path} is empty: a shard with it would own everything; give a label value"
        return Finding(code=Code.EMPTY_ID, path=path, message=message, severity=Severity.STRICT)
    if not legal_label_value(value):
        message = f"{path} is {value!r}: expected a label value, at most 63 of A-Z a-z 0-9 - _ ."
        return Finding(code=Code.ILLEGAL_LABEL_VALUE, path=path, message=message, severity=Severity.STRICT)
    if owner is None:
        return None
    if owner == index:
        message = f"{path} repeats {value!r} of the same shard"
        return Finding(code=Code.REPEATED_ID, path=path, message=message, severity=Severity.WARNING)
    message = f"{path} is {value!r}, which shard {owner} has too: every id needs exactly one shard"
    return Finding(code=Code.DUPLICATE_ID, path=path, message=message, severity=Severity.STRICT)
