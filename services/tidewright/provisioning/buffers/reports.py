"""What is told about buffers when an evaluation orders nodes, or none can be ordered: object events on them. Spec 5.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

NOT_TRIGGERED = "NotTriggerScaleUp"
TRIGGERED = "TriggeredScaleUp"


class Report(NamedTuple):
    """One object event, type Normal; `chunks` is what it counts."""

    buffer: str
    reason: str
    chunks: int
    message: str


def reports(
    *,
    placed: Mapping[str, int],
    lacking: Mapping[str, int],
    increases: Mapping[str, str],
    why: Mapping[str, str],
    silent: bool,
) -> Iterator[Report]:
    """The events of one plan: one for each buffer and reason, however many chunks it has.

    Args:
        placed: buffer to how many of its chunks the plan holds.
        lacking: buffer to how many have no place, with or without it.
        increases: group to its part of the plan, as pods are told of it; empty when nothing is ordered.
        why: buffer to the reason for which nothing helps it.
        silent: of chunks that lack a place nothing is said: the plan was made, or could not be.
    """
    for buffer, count in sorted(lacking.items()):
        if count and not silent:
            message = f"capacity buffer {count} fake pods didn't trigger scale-up: {why.get(buffer, '')}"
            yield Report(buffer, NOT_TRIGGERED, count, message)
    parts = " ".join(f"{{{group} {sizes}}}" for group, sizes in increases.items())
    for buffer, count in sorted(placed.items()):
        if count and increases:
            yield Report(
                buffer, TRIGGERED, count, f"capacity buffer {count} fake pods triggered scale-up: [{parts}]"
            )
