"""The specification's cases about scale-down: as the reference does it, and what ours does otherwise, by number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors import provisioning, provisioning_scaledown_ours
from tests.vectors.suite import Case, Verdict

VECTORS = Path(__file__).parents[3] / ".." / "shared" / "spec" / "vectors"
FILES = ("scale-down.json", "scale-down-generated.json")

pytestmark = pytest.mark.skipif(
    not VECTORS.exists(), reason="the specification's cases lie beside the repository"
)

OTHERWISE: dict[str | int, tuple[str, ...]] = {
    "simulate-pod-moved-twice-is-charged-twice": ("B16",),
    "select-zero-or-max-with-one-on-completion": ("B17",),
    "budget-slice-stops-later-slices": ("B18",),
    "cooldown-add-delay-zero-scale-up-in-this-loop": ("B19",),
    **dict.fromkeys((1, 58, 74), ("B16",)),
    102: ("B16", "B17", "B20", "B21"),
    138: ("B17",),
    101: ("B17", "B22"),
    **dict.fromkeys((133, 189), ("B20",)),
    **dict.fromkeys((9, 96, 109, 114, 119, 132, 142, 157, 165, 168, 179, 181, 190), ("B21",)),
    93: ("B21", "B22"),
    164: ("B22",),
}
"""Every case that comes out otherwise without `as-reference` (numbers: of `scale-down-plan`), and by which differences."""


def cases(name: str) -> list[Case]:
    found: list[Case] = json.loads((VECTORS / name).read_text())["cases"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_case_comes_out_as_in_the_reference(name: str) -> None:
    results = [provisioning.run(case) for case in cases(name)]
    assert [result for result in results if result.verdict is not Verdict.PASSED] == []


def test_what_comes_out_otherwise_in_our_way_does_so_by_a_difference_that_has_a_number() -> None:
    found = provisioning_scaledown_ours.differing([case for name in FILES for case in cases(name)])
    expected = {
        name if isinstance(name, str) else f"scale-down-plan-{name:03}": numbers
        for name, numbers in OTHERWISE.items()
    }
    assert found == expected


@pytest.mark.parametrize("name", FILES)
def test_what_a_case_says_that_ours_does_it_does(name: str) -> None:
    assert provisioning_scaledown_ours.not_as_ours(cases(name)) == []
