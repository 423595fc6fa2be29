"""What a pod may act on, as it was told when it was made; and when two pods must not run at once."""

from __future__ import annotations

import msgspec

from tidewright.sharding.keyspace import parse_runs
from tidewright.shardmanager.propeller.fleet import KnownPod
from tidewright.shardmanager.shardset.spec import SLOTS_ANNOTATION, VALUES_ANNOTATION

_IN, _NOT_IN = "in:", "notin:"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Slots, or with `mapped` values of a label; `rest`: all but these, objects without the label too."""

    slots: frozenset[int] = frozenset()
    values: frozenset[str] = frozenset()
    mapped: bool = False
    rest: bool = False

    @property
    def annotation(self) -> str:
        """The values as text; label values have neither commas nor colons."""
        return (_NOT_IN if self.rest else _IN) + ",".join(sorted(self.values)) if self.mapped else ""


def overlap(a: Claim, b: Claim) -> bool:
    """Whether there may be an object that both act on."""
    if a.mapped is not b.mapped:
        return True  # nothing says which object of one kind is which of the other
    if not a.mapped:
        return not a.slots.isdisjoint(b.slots)
    if a.rest and b.rest:
        return True
    if a.rest or b.rest:
        rest, listed = (a, b) if a.rest else (b, a)
        return not listed.values <= rest.values
    return not a.values.isdisjoint(b.values)


def told(pod: KnownPod) -> Claim:
    """The claim of a pod."""
    text = pod.annotations.get(VALUES_ANNOTATION, "")
    if text.startswith((_IN, _NOT_IN)):
        kind, _colon, values = text.partition(":")
        listed = frozenset(filter(None, values.split(",")))
        return Claim(values=listed, mapped=True, rest=f"{kind}:" == _NOT_IN)
    return Claim(slots=frozenset(slots_of(pod)))


def slots_of(pod: KnownPod) -> list[int]:
    """The slots that a pod was told; with a mapping its shard."""
    try:
        return parse_runs(pod.annotations.get(SLOTS_ANNOTATION, ""))
    except ValueError:
        return []
