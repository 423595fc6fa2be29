"""Parts of an evaluation by the names under which the reference tells how long they take. Spec 3.10.

A decider has no clock: it only says when it enters a part and when it leaves it, through a function
that its host gives it, and that does nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias

Part: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Entered by name while a part is done."""

MAIN: Final = "main"
UPDATE_STATE: Final = "updateClusterState"
FILTER: Final = "filterOutSchedulable"
SCALE_UP: Final = "scaleUp"
FIND_UNNEEDED: Final = "findUnneeded"
SCALE_DOWN: Final = "scaleDown"


def unmeasured(_: str) -> AbstractContextManager[None]:
    """A part that nobody measures."""
    return nullcontext()
