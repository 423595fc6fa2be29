"""In which order tests are run by several workers: what takes long first, and each worker some of it.

`xdist --dist worksteal` gives each worker a run of the collection, all of the same length, and lets who is done
take over the end of another's. As collected, one worker has nearly all that takes long, and is alone with it at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

T = TypeVar("T")

SLOW_S = 30.0
"""What a test that is marked `slow` is taken to need, in seconds."""
USUAL_S = {
    "tests/e2e/demo": 40.0,
    "tests/e2e/shards": 15.0,
    "tests/e2e/provisioning": 10.0,
    "tests/e2e/clouds": 8.0,
    "tests/e2e/spread": 8.0,
    "tests/e2e/up": 8.0,
    "tests/e2e/pipeline": 8.0,
    "tests/e2e/autoscaler": 3.0,
    "tests/e2e": 0.5,
    "tests/attacks": 0.7,
    "tests/unit/host": 0.6,
}
"""What any other test of a folder was seen to need; the first that fits counts."""
OTHER_S = 0.1
LONG_S = 4.0
"""A module that is taken to need as long is dealt out; the others fill up."""


class _Module(NamedTuple):
    takes_s: float
    numbers: Sequence[int]


def usual_s(path: str, *, slow: bool) -> float:
    """What a test is taken to need, seconds, by the path of its module from the project's folder."""
    if slow:
        return SLOW_S
    return next((takes_s for folder, takes_s in USUAL_S.items() if path.startswith(f"{folder}/")), OTHER_S)


def dealt(
    tests: Sequence[T], workers: int, module: Callable[[T], str], takes_s: Callable[[T], float]
) -> list[T]:
    """The tests in an order of which each worker gets a run that begins with its share of what takes long.

    Tests of a module stay together as far as that goes, so that what they share is made once. Every
    worker must come to the same order: it depends on the arguments alone.
    """
    modules = [
        _Module(sum(takes_s(tests[n]) for n in numbers), numbers)
        for _, group in groupby(range(len(tests)), key=lambda n: module(tests[n]))
        for numbers in [list(group)]
    ]
    long = [m for m in modules if m.takes_s >= LONG_S]
    long.sort(key=lambda m: (-max(takes_s(tests[n]) for n in m.numbers), -m.takes_s))
    piles: list[list[int]] = [[] for _ in range(workers)]
    total_s = [0.0] * workers
    for each in long:
        least = total_s.index(min(total_s))
        piles[least] += sorted(each.numbers, key=lambda n: -takes_s(tests[n]))
        total_s[least] += each.takes_s
    rest = iter([n for m in modules if m.takes_s < LONG_S for n in m.numbers])
    to_come = len(tests)
    for number, pile in enumerate(piles):
        length = to_come // (workers - number)  # of a worker's run, as xdist has it
        pile += islice(rest, max(0, length - len(pile)))
        to_come -= len(pile)
    piles[-1] += rest
    return [tests[n] for pile in piles for n in pile]
