"""Whether segments are what was sealed, in their order, by the keys that were to: pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tidewright.archive.segment import Seal, named
from tidewright.log.keyfiles import encoded, key_id

SUFFIX = ".twlog"
LATEST = "latest.json"
"""The object that names the last segment, so that a cut tail is noticed."""


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of the last segment."""

    number: int
    last: int
    seal: str


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is wrong with an archive.

    Attributes:
        segment: its name; of a missing one the name that it would have.
        seq: the first sequence that it concerns.
        what: in words.
    """

    segment: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"segment {self.segment}: {self.what}"


def name_of(number: int) -> str:
    """Under which the segment of a number lies."""
    return f"{number:010d}{SUFFIX}"


def segments_of(names: Collection[str]) -> list[str]:
    """The names of segments among those of a store, in their order."""
    return sorted(name for name in names if name.endswith(SUFFIX))


def judged(
    segments: Sequence[tuple[str, Seal | str]],
    latest: Latest | None,
    anchors: Sequence[Ed25519PublicKey] | None = None,
) -> list[Found]:
    """What is wrong with a chain, in its order; nothing: it is whole.

    Args:
        segments: name and seal of each, in the order of names; in place of a seal, why it cannot be read.
        latest: what the archive says of its last segment; None: nothing.
        anchors: keys of which the archive has to have one; None: nobody asked.
    """
    found: list[Found] = []
    previous: Seal | None = None
    expected = 1
    after = 0
    for name, seal in segments:
        if isinstance(seal, str):
            found.append(Found(name, after + 1, seal))
            previous, expected = None, expected + 1
            continue
        head = seal.head
        if (problem := _of_one(name, seal, expected)) or (problem := _behind(seal, previous, expected)):
            found.append(Found(name, min(head.first, after + 1) if after else head.first, problem))
        previous, expected, after = seal, head.number + 1, head.last
    seals = [seal for _, seal in segments if isinstance(seal, Seal)]
    found += _cut(seals, latest)
    if anchors is not None and not found:
        found += _foreign(seals, anchors)
    return found


def _of_one(name: str, seal: Seal, expected: int) -> str:
    """What is wrong with a segment by itself and its name."""
    head = seal.head
    if name != name_of(head.number):
        return f"it is the one of number {head.number}: segments were put into another order"
    if head.number > expected:
        missing = (
            name_of(expected)
            if head.number == expected + 1
            else f"{name_of(expected)} to {name_of(head.number - 1)}"
        )
        return f"{missing} before it {'is' if head.number == expected + 1 else 'are'} missing: removed"
    if not seal.good:
        return f"its signature is not that of key {seal.signer} over what it says: one of the two was altered"
    return ""


def _behind(seal: Seal, previous: Seal | None, expected: int) -> str:
    """What is wrong with a segment behind the one before."""
    head = seal.head
    if previous is None:
        return "" if expected > 1 or not head.previous else "it names one before it, and is the first"
    before = previous.head
    if head.key != before.next_key:
        return (
            f"it is signed with key {seal.signer}, where the segment before names {named(before.next_key)} as the one to follow: "
            "a wrong key"
        )
    if head.previous != previous.digest:
        return f"it does not follow {name_of(before.number)} as that is now: the seal of one of the two was replaced"
    if (head.cluster, head.stream) != (before.cluster, before.stream):
        return (
            f"it is of stream {head.stream} of cluster {head.cluster}, the segments before of {before.stream}"
        )
    if head.first <= before.last:
        return f"it begins with sequence {head.first}, and the one before ends with {before.last}"
    return ""


def _cut(seals: Sequence[Seal], latest: Latest | None) -> list[Found]:
    """Whether the end is there."""
    last = seals[-1] if seals else None
    if latest is None:
        if len(seals) < 2:  # who sealed the first one may have ended before it said so
            return []
        return [
            Found(
                LATEST, seals[-1].head.last + 1, "it is missing, so whether the tail was cut off is not known"
            )
        ]
    if last is None or latest.number > last.head.number:
        at = last.head.last + 1 if last is not None else 1
        return [
            Found(
                name_of(latest.number), at,
                f"it is missing, and was sealed (up to sequence {latest.last}): the tail was cut off",
            )
        ]  # fmt: skip
    for seal in seals:
        if seal.head.number == latest.number and seal.digest != latest.seal:
            return [
                Found(
                    name_of(latest.number), seal.head.first,
                    f"its seal is another than {LATEST} has: it was replaced",
                )
            ]  # fmt: skip
    return []


def _foreign(seals: Sequence[Seal], anchors: Sequence[Ed25519PublicKey]) -> list[Found]:
    """Whether a trusted key is among those that sealed: it vouches for what is before by digests, for what is behind by successors."""
    trusted = {encoded(key) for key in anchors}
    if not seals or any(seal.head.key in trusted for seal in seals):
        return []
    first = seals[0]
    return [
        Found(
            name_of(first.head.number), first.head.first,
            f"it is signed with key {first.signer}, and no segment with {', '.join(key_id(key) for key in anchors)}: a wrong key",
        )
    ]  # fmt: skip


def altered(name: str, seal: Seal, data: bytes) -> Found | None:
    """What is wrong with the content of a segment; None when it is what was sealed."""
    if sha256(memoryview(data)[: len(data) - seal.size]).hexdigest() == seal.head.digest:
        return None
    head = seal.head
    return Found(
        name,
        head.first,
        f"its content (sequences {head.first} to {head.last}) is not what was sealed: it was altered",
    )
