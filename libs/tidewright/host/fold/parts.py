"""The parts of a decider's work, by name, for whoever measures how long they take.

A decider has no clock. It enters each part by name, which does nothing by itself; the process puts a
stopwatch behind it (`tidewright.host.process.measuring`). Nothing of it comes back to the decider.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

Measure: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Entered by name while a part of the work is done."""


def unmeasured(_: str) -> AbstractContextManager[None]:
    """Nobody measures."""
    return nullcontext()


@dataclass(kw_only=True)
class Parts:
    """The names under which a decider's parts are measured, and who measures them.

    Attributes:
        durations: name of the histogram of how long each took, by `function`.
        activity: name of the gauge of when each was last done, by `activity`.
        loop: the activity that is the host's loop itself.
        measure: entered while a part is done.
    """

    durations: str
    activity: str
    loop: str
    measure: Measure = unmeasured
