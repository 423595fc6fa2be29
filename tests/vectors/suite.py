"""The contract between the runner and the adapter of one schema of cases.

An adapter is a module beside this one that defines `SUITE`, a `Suite`. It translates a case into
calls of the decider's own functions, and compares; it decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

Case: TypeAlias = Mapping[str, Any]


class Verdict(Enum):
    """How a case came out."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_COVERED = "not covered"


@dataclass(frozen=True)
class Result:
    """What came of one case.

    Attributes:
        stage: for the counts.
        reference: empty for a case that the product was asked, by a decider or an endpoint or what they call;
            else the tag, listed in `tests.vectors.reference`, that says why it was not.
        decided: a decider was asked for it; the runner sees to that (`asked`).
        intended: the product was asked and answers otherwise than the case expects, as these tags say, listed likewise.
    """

    name: str
    stage: str
    verdict: Verdict
    differences: tuple[str, ...] = field(default=())
    reference: str = ""
    decided: bool = False
    intended: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """One schema of cases.

    Attributes:
        name: for people.
        cases: the file's cases when its content (parsed JSON) is of this schema, else None.
        run: runs one case.
        besides: lines that are printed after a file's counts: what else is to be known of its cases.
    """

    name: str
    cases: Callable[[Any], Sequence[Case] | None]
    run: Callable[[Case], Result]
    besides: Callable[[Sequence[Case]], Sequence[str]] = lambda cases: ()


def differences(expected: Any, actual: Any, path: str = "$") -> list[str]:
    """Where `actual` departs from `expected`; members of objects that are not expected do not count."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        found: list[str] = []
        for key, value in expected.items():
            if key not in actual:
                found.append(f"{path}.{key}: expected {value!r}, found nothing")
            else:
                found.extend(differences(value, actual[key], f"{path}.{key}"))
        return found
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            return [f"{path}: expected {list(expected)!r}, found {list(actual)!r}"]
        return [
            d
            for i, (e, a) in enumerate(zip(expected, actual, strict=True))
            for d in differences(e, a, f"{path}[{i}]")
        ]
    return [] if expected == actual else [f"{path}: expected {expected!r}, found {actual!r}"]
