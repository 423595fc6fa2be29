"""The shard configuration hash of the propeller manager (section 1.7): FNV-1a over a gob encoding.

Existing fleets carry this hash in an annotation, so adopting one without a restart needs the very
bytes. Only the part of the gob format that the two strategy types need is here: one struct, its
type definitions and its value. The first user type number differs between tool-chains, hence two
historical values for one configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.sharding.keyspace import fnv1a32
from tidewright.shardmanager.propeller.config import ShardConfig, ShardType

CURRENT_BASE = 64
"""First user type number with current tool-chains; what a new pod is annotated with."""
LEGACY_BASE = 65
"""The same with older ones; accepted on pods that exist."""

_INT, _STRING = 2, 6
_STRUCT_DEFINITION, _SLICE_DEFINITION = 3, 2
_ENV_TYPE = {ShardType.PROJECT: 0, ShardType.DOMAIN: 1}


def config_hash(shard: ShardConfig, base: int = CURRENT_BASE) -> str:
    """The hash as it stands in the annotation: decimal text."""
    return str(fnv1a32(preimage(shard, base)))


def accepted_hashes(shard: ShardConfig) -> tuple[str, str]:
    """Both historical values of one configuration, the current one first."""
    return config_hash(shard, CURRENT_BASE), config_hash(shard, LEGACY_BASE)


def preimage(shard: ShardConfig, base: int) -> bytes:
    """The bytes that are hashed: definition messages, then the value message."""
    if shard.type is ShardType.HASH:
        value = _signed(base) + _fields([_signed(shard.shard_count) if shard.shard_count else b""])
        return _struct("HashShardStrategy", base, [("ShardCount", _INT)]) + _message(value)
    inner, outer = base + 1, base + 2
    env_type = _ENV_TYPE[shard.type]
    fields = [_signed(env_type) if env_type else b"", _lists([m.ids for m in shard.per_shard_mapping])]
    return (
        _struct("EnvironmentShardStrategy", base, [("EnvType", _INT), ("PerShardIDs", outer)])
        + _slice("[][]string", outer, inner)
        + _slice("", inner, _STRING)
        + _message(_signed(base) + _fields(fields))
    )


def _struct(name: str, number: int, fields: Sequence[tuple[str, int]]) -> bytes:
    described = b"".join(_fields([_text(field), _signed(kind)]) for field, kind in fields)
    body = _fields([_common(name, number), _unsigned(len(fields)) + described])
    return _message(_signed(-number) + _unsigned(_STRUCT_DEFINITION) + body + b"\0")


def _slice(name: str, number: int, element: int) -> bytes:
    body = _fields([_common(name, number), _signed(element)])
    return _message(_signed(-number) + _unsigned(_SLICE_DEFINITION) + body + b"\0")


def _common(name: str, number: int) -> bytes:
    return _fields([_text(name) if name else b"", _signed(number)])


def _fields(values: Sequence[bytes]) -> bytes:
    """A struct: every field that is not empty after the distance to the one before, then 0."""
    encoded, distance = b"", 0
    for value in values:
        distance += 1
        if value:
            encoded += _unsigned(distance) + value
            distance = 0
    return encoded + b"\0"


def _lists(lists: Sequence[Sequence[str]]) -> bytes:
    if not lists:
        return b""
    rows = (_unsigned(len(row)) + b"".join(map(_text, row)) for row in lists)
    return _unsigned(len(lists)) + b"".join(rows)


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return _unsigned(len(data)) + data


def _signed(value: int) -> bytes:
    return _unsigned(~value << 1 | 1 if value < 0 else value << 1)


def _unsigned(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - len(data)]) + data


def _message(body: bytes) -> bytes:
    return _unsigned(len(body)) + body
