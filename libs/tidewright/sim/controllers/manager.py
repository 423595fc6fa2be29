"""All controllers of the simulated controller manager, over one cache and one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tidewright.kube.errors import KubeError
from tidewright.log.clock import Clock
from tidewright.sim.controllers.budgets import DisruptionBudgets
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.daemonsets import DaemonSets
from tidewright.sim.controllers.deployments import Deployments
from tidewright.sim.controllers.jobs import Jobs
from tidewright.sim.controllers.node_lifecycle import NodeLifecycle
from tidewright.sim.controllers.objects import Key
from tidewright.sim.controllers.plan import Controller
from tidewright.sim.controllers.queue import WorkQueue
from tidewright.sim.controllers.recorder import Recorder
from tidewright.sim.controllers.replicasets import ReplicaSets
from tidewright.sim.controllers.statefulsets import StatefulSets
from tidewright.sim.controllers.telling import tell_refusal, telling
from tidewright.sim.controllers.writes import Writer
from tidewright.sim.options import ControllerOptions


def controllers(options: ControllerOptions) -> tuple[Controller, ...]:
    """All of them; one line adds a controller."""
    return (
        Deployments(),
        ReplicaSets(),
        StatefulSets(),
        DaemonSets(),
        Jobs(),
        DisruptionBudgets(),
        NodeLifecycle(options),
    )


class Manager:
    """Runs controllers: changes in the cache become keys, keys become plans, plans become writes."""

    def __init__(
        self,
        cache: Cache,
        writer: Writer,
        clock: Clock,
        controllers: Sequence[Controller],
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._controllers = controllers
        for controller in controllers:
            controller.watches(cache)  # makes the stores, so that the cache follows them

    async def run(self) -> None:
        """Work until cancelled. Starts once every store had its first list."""
        await self._cache.synced()
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(self._drive(controller), name=controller.name)

    async def _drive(self, controller: Controller) -> None:
        queue: WorkQueue[Key] = WorkQueue(controller.name)

        def changed(old: Any, new: Any) -> None:
            seen: dict[Key, None] = {}
            for item in (old, new):
                if item is not None:
                    seen.update(dict.fromkeys(controller.keys(item)))
            for key in seen:
                queue.add(key)

        for store in controller.watches(self._cache):
            store.listen(changed)

        async def work(key: Key) -> float | None:
            plan = controller.reconcile(self._cache, key, self._clock.now())
            on_done = telling(self._recorder, self._cache, controller, key) if plan.writes else None
            try:
                await self._writer.send_all(plan.writes, on_done)
            except KubeError as error:
                tell_refusal(
                    self._recorder, self._cache, controller, key=key, writes=plan.writes, error=error
                )
                raise
            if plan.after:
                # Statuses are computed again from what the writes have changed.
                if plan.writes:
                    plan = controller.reconcile(self._cache, key, self._clock.now())
                await self._writer.send_all(plan.after)
                if plan.writes:
                    return 0.0
            return None if plan.again_s is None else self._clock.wall_seconds(plan.again_s)

        await queue.run(work)
