"""Streams of decisions that are held against each other: what they may differ in, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.scripted import canonical, script_of
from tidewright.events import registry
from tidewright.events.base import Because, ObjectRef
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import SetTimer
from tidewright.events.provisioning import AttemptRequest, IncreaseNodeGroup

WAIT_S = 0.01
"""The short wait of a decider that is woken several times in a moment."""
AT = 1_770_000_420.0


def attempt(at: float) -> AttemptRequest:
    return AttemptRequest(
        id=f"provisioning.all.{at:.0f}.1", at=at, namespace="shop", name="batch", uid="u", result="Successful", attempt=1,
        retry_at=at + 60.0, because=(Because(rule="RoomShort", values={"pods": 2}),),
    )  # fmt: skip


def order(at: float, size: int = 4) -> IncreaseNodeGroup:
    plan = f"{int(at * 1_000_000):x}-1"
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="a")
    return IncreaseNodeGroup(at=at, target=group, size=size, from_size=2, plan=plan, request="shop/batch")


@pytest.mark.parametrize("made", [attempt, order, lambda at: SetTimer(at=at, key="evaluate", due=at + 10.0)])
def test_a_pass_at_the_end_of_some_short_waits_says_the_same(made) -> None:  # type: ignore[no-untyped-def]  # of any decision
    """Whether a timer or a fact of the same moment comes first is nobody's to choose: both orders are right."""
    for waits in (1, 6):
        assert canonical(made(AT + waits * WAIT_S)) == canonical(made(AT))
    assert canonical(made(AT + 1.0)) != canonical(made(AT))


def test_what_is_decided_is_compared_as_it_is() -> None:
    assert canonical(order(AT, 5)) != canonical(order(AT))
    body = canonical(attempt(AT))
    assert body["because"][0]["values"] == {"pods": 2}
    assert "id" not in body


def test_the_script_orders_no_nodes_for_decisions_whose_order_is_nobodys_to_choose() -> None:
    def told(name: str, **data: Any) -> tuple[str, bytes]:
        return f"tw.c.config.all.{name}", registry.encode(ConfigSet(at=AT, name=name, data=data))

    ((_, said),) = script_of(
        [told("provisioning", foresight="decisions", expander="random"), told("spread", x=1)], most=1
    )
    assert [setting.data for _, setting in said if isinstance(setting, ConfigSet)] == [
        {"foresight": "workloads", "expander": "random"},
        {"x": 1},
    ]
