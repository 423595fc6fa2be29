"""Deployment arithmetic: surge, unavailability, proportional scaling."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidewright.sim.controllers.rollout import Bounds, Sizes, grow_new, proportional, shrink_old


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (10, 0, 0, (0, 1)),
        (4, 0, "1%", (0, 1)),
        (3, 2, 5, (2, 3)),
    ],
)
def test_surge_rounds_up_and_unavailability_down(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    bounds = Bounds.of(replicas, surge, unavailable)
    assert (bounds.surge, bounds.unavailable) == expected


def test_the_new_set_grows_as_far_as_the_surge_allows() -> None:
    bounds = Bounds(10, 3, 2)
    assert grow_new(Sizes("new", 0, 0), [Sizes("old", 10, 10)], bounds) == 3
    assert grow_new(Sizes("new", 3, 0), [Sizes("old", 8, 8)], bounds) == 5
    assert grow_new(Sizes("new", 12, 12), [], bounds) == 10


def test_old_pods_that_are_down_go_before_old_pods_that_serve() -> None:
    bounds = Bounds(10, 3, 2)
    old = [Sizes("sick", 5, 0, created=2), Sizes("well", 5, 5, created=1)]
    assert shrink_old(Sizes("new", 3, 0), old, bounds) == {"sick": 3}
    assert shrink_old(Sizes("new", 3, 3), old, bounds) == {"sick": 0}


def test_nothing_goes_while_the_minimum_is_not_available() -> None:
    assert shrink_old(Sizes("new", 3, 0), [Sizes("old", 8, 8)], Bounds(10, 3, 2)) == {}


def test_scaling_in_mid_rollout_keeps_the_proportions() -> None:
    sets = [Sizes("old", 8, 8, created=1), Sizes("new", 5, 2, created=2)]
    assert proportional(sets, 26, "new") == {"old": 16, "new": 10}


@given(
    st.integers(1, 60),
    st.integers(0, 100),
    st.integers(0, 100),
    st.data(),
)
def test_a_rollout_ends_and_never_breaks_its_bounds(
    replicas: int, surge: int, unavailable: int, data: st.DataObject
) -> None:
    """Pods get ready or fail in any order; the totals hold at each step, and the end is reached."""
    bounds = Bounds.of(replicas, f"{surge}%", f"{unavailable}%")
    old, old_ready = replicas, replicas
    new = new_ready = 0
    for _ in range(20 * replicas + 50):
        sizes_old = [Sizes("old", old, old_ready)]
        size = grow_new(Sizes("new", new, new_ready), sizes_old, bounds)
        assert size + old <= bounds.replicas + bounds.surge
        new = size
        smaller = shrink_old(Sizes("new", new, new_ready), sizes_old, bounds)
        target = smaller.get("old", old)
        assert target <= old
        if target < old:
            # What is left available after the real controller removed pods that are down first.
            old_ready = min(old_ready, target)
            assert old_ready + new_ready >= bounds.replicas - bounds.unavailable
        old = target
        if (old, new, new_ready) == (0, replicas, replicas):
            return
        new_ready = min(new, new_ready + data.draw(st.integers(1, 5)))
    raise AssertionError(f"stuck at old {old}, new {new}, ready {new_ready}")


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(0, 200))
@example([2, 2, 2, 2], 2)
def test_proportional_sizes_add_up_to_the_limit(replicas: list[int], limit: int) -> None:
    sets = [Sizes(f"s{index}", size, size, created=index) for index, size in enumerate(replicas)]
    sizes = {one.name: one.replicas for one in sets}
    sizes.update(proportional(sets, limit, "s0"))
    assert all(size >= 0 for size in sizes.values())
    if sum(replicas):
        # what rounding leaves is taken from the largest only, which has it to give or ends at nothing
        left = sum(sizes.values())
        assert left == limit or (left > limit and 0 in sizes.values())
