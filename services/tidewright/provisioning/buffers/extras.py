"""What annotations of ours add to a buffer: when it wants room, and whose burst it is for. [B8]

buffer-schedule   windows in which it wants its chunks; outside it has none
buffer-for        a label selector: while pods of the namespace wait that it means, as many chunks are not ordered
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.windows import Standing, Window, standing, windows

SCHEDULE = "tidewright.dev/buffer-schedule"
FOR = "tidewright.dev/buffer-for"


class Extras(msgspec.Struct, frozen=True):
    """`windows`: none where it always wants room; `pods`: None where it is for no pods in particular.

    `wrong`: what cannot be read of them; such a buffer has no room.
    """

    windows: tuple[Window, ...] = ()
    pods: LabelSelector | None = None
    wrong: str = ""

    def standing(self, now: float) -> Standing:
        """Whether it wants room at a time, and when that may change."""
        if self.wrong:
            return Standing(open=False, until=None)
        return standing(self.windows, now) if self.windows else Standing(open=True, until=None)


def parse(annotations: Mapping[str, str]) -> Extras:
    """The annotations, typed.

    Raises:
        ValueError: one of them cannot be read; the message names it, its value and what would be valid.
    """
    return _parsed(annotations.get(SCHEDULE, ""), annotations.get(FOR, ""))


def readable(annotations: Mapping[str, str]) -> Extras:
    """The same; where they cannot be read, whoever works the buffer's status out says so."""
    try:
        return parse(annotations)
    except ValueError as error:
        return Extras(wrong=str(error))


@lru_cache(maxsize=4096)
def _parsed(schedule: str, pods: str) -> Extras:
    try:
        opens = windows(schedule) if schedule else ()
    except ValueError as error:
        raise ValueError(f"metadata.annotations[{SCHEDULE}]: {error}") from error
    try:
        means = LabelSelector.parse(pods) if pods else None
    except SelectorError as error:
        raise ValueError(
            f"metadata.annotations[{FOR}]: {pods!r} is no label selector ({error}); valid is for instance 'app=web,tier in (a,b)'"
        ) from error
    return Extras(opens, means)
