"""The shard manager end to end with workers that somebody else starts: joins, a leave, a kill.

Who worked on what is read from the objects that the example controller wrote, not from the manager.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.shards.world import (
    CRASH_GAP_S,
    PLANNED_GAP_S,
    Seen,
    Workers,
    make_orders,
    owners,
    sets_path,
    shard_set,
)
from tests.e2e.sim.world import send, until
from tidewright.kube.client import Kube

ORDERS = 24


@pytest.mark.slow
async def test_no_object_is_worked_on_by_two_workers_and_none_is_left_alone_for_long(
    kube: Kube, namespace: str, services: Services, workers: Workers
) -> None:
    sets = sets_path(namespace)

    async def shared_by(**expected: int) -> None:
        def shared(found: Any) -> bool:
            return owners(found.get("orders", {})) == expected

        await until(kube, sets, shared)

    await services.start("watcher", "shard-manager", "actuator")
    # By number alone: slots would follow what is measured of each, which on a busy machine is anything.
    await send(kube, "POST", sets, shard_set(rebalance={"maxMoves": 0}))
    await make_orders(kube, namespace, ORDERS)
    seen = Seen(ORDERS)
    follow = asyncio.create_task(seen.follow(kube, namespace))
    try:
        await workers.start("a")
        await workers.start("b")
        await shared_by(a=32, b=32)
        await seen.more(4)
        assert len(seen.writes) == ORDERS
        assert seen.worked() == {"a", "b"}

        await workers.start("c")  # planned moves
        await shared_by(a=22, b=21, c=21)
        await seen.more(4)
        seen.assert_never_two_at_once()
        planned = seen.longest_gap_s()

        assert await workers.stop("b", signal.SIGTERM) == 0  # leaves in good order
        await shared_by(a=32, c=32)
        await seen.more(4)
        seen.assert_never_two_at_once()
        leaving = seen.longest_gap_s()

        await workers.stop("c", signal.SIGKILL)
        await shared_by(a=64)
        await seen.more(4)
        seen.assert_never_two_at_once()
        crash = seen.longest_gap_s()
    finally:
        follow.cancel()
    print(f"longest gap of an object: planned {planned:.2f} s, leave {leaving:.2f} s, crash {crash:.2f} s")
    assert seen.worked() == {"a"}
    assert max(planned, leaving) < PLANNED_GAP_S
    assert crash < CRASH_GAP_S
