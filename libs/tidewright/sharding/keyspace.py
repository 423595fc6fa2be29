"""The keyspace: which slot a key has, which range a shard has, how sets of slots are written.

Pure, and shared by the shard manager, the labelling webhook and the workers: two implementations of
a hash are two owners of an object.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, get_args

from tidewright.kube.digits import whole_number

HashName = Literal["fnv1a32", "blake2b64"]
HASHES: tuple[HashName, ...] = get_args(HashName)

COMPAT_SLOTS = 32
"""The keyspace of the propeller manager: a constant (section 1.4)."""
MIN_SLOTS, MAX_SLOTS = 32, 32768
SHOWN = 80
"""Characters of a text that a message shows."""

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_WORD = 0xFFFFFFFF


def fnv1a32(data: bytes) -> int:
    """FNV-1a, 32 bit (section 2.1)."""
    digest = _FNV_OFFSET
    for byte in data:
        digest = (digest ^ byte) * _FNV_PRIME & _WORD
    return digest


def blake2b64(data: bytes) -> int:
    """BLAKE2b with an 8-byte digest, read big-endian (section 3.1)."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def slot_of(key: str, slots: int, name: HashName = "blake2b64") -> int:
    """The slot of a key: its hash modulo the number of slots."""
    data = key.encode("utf-8", "surrogateescape")
    return (fnv1a32(data) if name == "fnv1a32" else blake2b64(data)) % slots


def shard_range(slots: int, count: int, index: int) -> range:
    """The contiguous slots of shard `index` of `count` (section 1.4).

    The first `slots mod count` shards have one slot more; with more shards than slots the last ones
    have none.
    """
    each, extra = divmod(slots, count)

    def start(i: int) -> int:
        return min(i, extra) * (each + 1) + max(0, i - extra) * each

    return range(start(index), start(index + 1))


def shard_ranges(slots: int, count: int) -> list[range]:
    """The ranges of all shards; they tile the keyspace."""
    return [shard_range(slots, count, index) for index in range(count)]


def useful_counts(slots: int) -> list[int]:
    """The shard counts that lower the largest range: any count between two of them adds pods for nothing."""
    counts: list[int] = []
    largest = slots + 1
    for count in range(1, slots + 1):
        size = -(-slots // count)
        if size < largest:
            counts.append(count)
            largest = size
    return counts


def valid_slots(slots: int) -> bool:
    """A power of two between 32 and 32768 (section 3.1)."""
    return MIN_SLOTS <= slots <= MAX_SLOTS and slots & (slots - 1) == 0


def runs(slots: Iterable[int]) -> str:
    """A set of slots as text: `0-7,12,20-31`, ascending."""
    parts: list[str] = []
    first = last = None
    for slot in sorted(set(slots)):
        if last is not None and slot == last + 1:
            last = slot
            continue
        if first is not None:
            parts.append(f"{first}" if first == last else f"{first}-{last}")
        first = last = slot
    if first is not None:
        parts.append(f"{first}" if first == last else f"{first}-{last}")
    return ",".join(parts)


def parse_runs(text: str) -> list[int]:
    """The slots in such a text, ascending.

    Raises:
        ValueError: a part is neither a slot nor `first-last`, or they are more than `MAX_SLOTS`; the message names it.
    """
    slots: set[int] = set()
    count = 0
    for part in filter(None, (p.strip() for p in text.split(","))):
        head, dash, tail = part.partition("-")
        first = whole_number(head)
        last = whole_number(tail) if dash else first
        if first is None or last is None or last < first:
            raise ValueError(
                f"{part[:SHOWN]!r} in {text[:SHOWN]!r} is no run of slots: expected a slot or first-last, such as 3 or 0-7"
            )
        count += last - first + 1
        if count > MAX_SLOTS:
            raise ValueError(f"{text[:SHOWN]!r} has more slots than there are: expected {MAX_SLOTS} at most")
        slots.update(range(first, last + 1))
    return sorted(slots)
