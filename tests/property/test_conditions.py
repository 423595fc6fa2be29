"""What holds of conditions for any sequence of settings."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.conditions import (
    Condition,
    by_type,
    entry,
    find,
    is_true,
    parse,
    render,
    transition,
    with_condition,
)
from tidewright.kube.times import rfc3339

types = st.sampled_from(("Ready", "Stuck", "Failed", "Accepted"))
statuses = st.sampled_from(("True", "False", "Unknown"))
texts = st.text(max_size=20)
settings = st.lists(
    st.builds(
        lambda type_, status, reason, message: Condition(
            type=type_, status=status, reason=reason, message=message
        ),
        types,
        statuses,
        texts,
        texts,
    ),
    max_size=30,
)


def lived_through(said: list[Condition]) -> list[tuple[Condition, ...]]:
    """The conditions after each setting, one a minute."""
    conditions: tuple[Condition, ...] = ()
    lived = []
    for minute, new in enumerate(said, 1):
        conditions = with_condition(conditions, new, 60.0 * minute, generation=minute)
        lived.append(conditions)
    return lived


@given(settings)
def test_the_transition_time_is_that_of_the_last_change_of_status(said: list[Condition]) -> None:
    for count, conditions in enumerate(lived_through(said), 1):
        for condition in conditions:
            told = [(n, c.status) for n, c in enumerate(said[:count], 1) if c.type == condition.type]
            others = [n for n, status in told if status != condition.status]
            first = next(n for n, _ in told if n > max(others, default=0))
            assert condition.changed_at == 60.0 * first


@given(settings)
def test_there_is_one_of_each_type_in_the_order_in_which_they_came_and_it_says_what_was_said_last(
    said: list[Condition],
) -> None:
    for count, conditions in enumerate(lived_through(said), 1):
        assert [c.type for c in conditions] == list(dict.fromkeys(c.type for c in said[:count]))
        for condition in conditions:
            number, last = [(n, c) for n, c in enumerate(said[:count], 1) if c.type == condition.type][-1]
            assert (condition.status, condition.reason, condition.message) == (
                last.status,
                last.reason,
                last.message,
            )
            assert condition.observed_generation == number
            assert find(conditions, condition.type) is condition
            assert is_true(conditions, condition.type) is (condition.status == "True")


@given(settings, types, statuses)
def test_setting_one_leaves_the_others_as_they_are(said: list[Condition], type_: str, status: str) -> None:
    before = (lived_through(said) or [()])[-1]
    after = with_condition(before, Condition(type=type_, status=status), 1e6)
    assert [c for c in after if c.type != type_] == [c for c in before if c.type != type_]


@given(settings)
def test_what_is_written_is_read_back(said: list[Condition]) -> None:
    conditions = (lived_through(said) or [()])[-1]
    written = render(conditions)
    assert all(one["reason"] for one in written)
    assert parse(written) == tuple(
        msgspec.structs.replace(c, reason=c.reason or "Unknown") for c in conditions
    )
    assert list(by_type(written)) == [c.type for c in conditions]


@given(st.booleans(), st.floats(0, 4e9), texts, st.none() | texts, st.integers(0, 9))
def test_an_entry_has_what_was_given_and_no_more(
    status: bool, at: float, reason: str, message: str | None, generation: int
) -> None:
    written = entry("Ready", status, at, reason=reason, message=message, generation=generation)
    assert written["status"] == str(status)
    assert written["lastTransitionTime"] == rfc3339(at)
    assert written == entry(
        "Ready", str(status), rfc3339(at), reason=reason, message=message, generation=generation
    )
    assert ("reason" in written, "message" in written, "observedGeneration" in written) == (
        bool(reason),
        message is not None,
        bool(generation),
    )


def test_a_status_that_was_not_there_is_so_since_now() -> None:
    assert transition(None, "True", 7.0) == 7.0


def test_a_refreshed_condition_is_dated_anew_though_its_status_is_the_same() -> None:
    before = with_condition((), Condition(type="Provisioned", status="False"), 10.9)
    assert before[0].changed_at == 10.0
    assert with_condition(before, before[0], 20.0)[0].changed_at == 10.0
    assert with_condition(before, before[0], 20.0, refresh=True)[0].changed_at == 20.0


def test_what_is_no_condition_is_not_read() -> None:
    assert parse([{"type": 7}, "Ready", {"type": "Ready", "lastTransitionTime": "soon"}]) == (
        Condition(type="Ready", status="Unknown"),
    )
    assert parse({"type": "Ready"}) == ()
