"""The second run of the cases about scale-down: which come out otherwise in our way, and by which difference.

A case differs by the smallest set of differences ([B] by number) without which it comes out as in the reference. What ours is
expected to do where a case says so (`expected_ours`) is compared too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tests.vectors import provisioning_scaledown as kinds
from tests.vectors import provisioning_scaledown_plans as plans
from tests.vectors.provisioning_world import Found
from tests.vectors.suite import Case
from tidewright.provisioning.differences import DIFFERENCES

UNEXPLAINED = ("by none of them",)


def found(case: Case, ways: tuple[str, ...]) -> Found:
    """Where a case departs from the reference with these differences taken back."""
    if case["kind"] in plans.KINDS:
        return plans.compared(case, ways)
    return kinds.compared(case, case["expected"], ways)


def by_which(case: Case) -> tuple[str, ...]:
    """The differences that make a case come out otherwise; none when it does not."""
    if not found(case, ()):
        return ()
    for size in range(1, len(DIFFERENCES) + 1):
        for numbers in combinations(DIFFERENCES, size):
            if not found(case, numbers):
                return numbers
    return UNEXPLAINED


def differing(cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """Name of each case that comes out otherwise to the numbers of what makes it so."""
    known = [case for case in cases if case.get("kind") in (*kinds.FOUND, *plans.KINDS)]
    said = {case["name"]: by_which(case) for case in known}
    return {name: numbers for name, numbers in said.items() if numbers}


def not_as_ours(cases: Sequence[Case]) -> list[str]:
    """Cases that say what ours is to do, and do not come out so."""
    return [
        case["name"]
        for case in cases
        if case.get("kind") in kinds.FOUND
        and "expected_ours" in case
        and kinds.compared(case, case["expected_ours"], ())
    ]


def lines(cases: Sequence[Case]) -> list[str]:
    """For people: what the second run found."""
    otherwise = differing(cases)
    said = [f"without as-reference: {len(otherwise)} come out otherwise"] if otherwise else []
    for numbers in sorted(set(otherwise.values())):
        names = [name for name, others in otherwise.items() if others == numbers]
        said.append(f"  [{', '.join(numbers)}] {len(names)}: {', '.join(names)}")
    return said + [f"  not as ours is to be: {name}" for name in not_as_ours(cases)]
