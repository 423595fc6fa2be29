"""The order of tests for several workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.dealing import SLOW_S, dealt, usual_s

Test = tuple[str, int, float]
TESTS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([0.1, 1.0, 5.0, 30.0])), max_size=60
).map(lambda drawn: [(module, n, takes_s) for n, (module, takes_s) in enumerate(sorted(drawn))])


def order(tests: list[Test], workers: int) -> list[Test]:
    return dealt(tests, workers, lambda test: test[0], lambda test: test[2])


@given(TESTS, st.integers(1, 9))
def test_each_test_is_run_once(tests: list[Test], workers: int) -> None:
    assert sorted(order(tests, workers)) == tests


def test_each_worker_begins_with_something_long() -> None:
    tests = [("long", n, 30.0) for n in range(2)] + [("longer", n, 40.0) for n in range(2)]
    tests += [("short", n, 0.1) for n in range(36)]
    found = order(tests, 2)
    assert [test[0] for test in (found[0], found[20])] == ["longer", "long"]
    assert {test[0] for test in (*found[2:20], *found[22:])} == {"short"}


def test_what_is_marked_is_slow_wherever_it_is() -> None:
    assert usual_s("tests/unit/a.py", slow=True) == SLOW_S
    assert usual_s("tests/unit/a.py", slow=False) < usual_s("tests/e2e/up/a.py", slow=False) < SLOW_S
