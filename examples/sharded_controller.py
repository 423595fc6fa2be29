"""A controller whose objects are shared out among its workers: four callbacks, a guard, and the work.

    python examples/sharded_controller.py --namespace shop --name worker-0

It works on ConfigMaps with the label `example=order`: every round it counts each object of its slots
up by one. The count, the worker, the slot's epoch and the time stand in the object, written under its
resourceVersion, so the objects themselves tell whether two workers ever acted on one of them and how
long one was left alone. A write under an older epoch than the object carries is not made (R5).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import msgspec

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sharding.keyspace import slot_of
from tidewright.sharding.lease import LeaseTimes
from tidewright.sharding.member import NotOwner
from tidewright.sharding.worker import Worker


class Orders:
    """The work of one process."""

    def __init__(self, kube: Kube, namespace: str, name: str, slots: int, period_s: float) -> None:
        self.kube, self.namespace, self.name = kube, namespace, name
        self.slots, self.period_s = slots, period_s
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.active: set[int] = set()
        self.in_flight: dict[int, int] = {}
        self.idle = asyncio.Condition()
        self.worker: Worker | None = None

    # The four callbacks.

    async def prepare(self, slot: int, epoch: int) -> None:
        """There is no cache to warm up here."""

    async def activate(self, slot: int, epoch: int, checkpoint: str) -> None:
        """The epoch of the next write to each object is the fence record."""
        self.active.add(slot)

    async def drain(self, slot: int, epoch: int) -> str:
        """Wait for the writes that are on their way."""
        self.active.discard(slot)
        async with self.idle:
            await self.idle.wait_for(lambda: not self.in_flight.get(slot))
        return str(time.time())

    async def revoke(self, slot: int, epoch: int) -> None:
        self.active.discard(slot)

    # The work.

    async def work(self, worker: Worker) -> None:
        """Count every object of our slots up, round after round."""
        self.worker = worker
        while True:
            start = time.monotonic()
            with contextlib.suppress(KubeError):  # the next round tries again
                for found in await self.orders():
                    await self.count(found)
            await asyncio.sleep(max(0.0, self.period_s - (time.monotonic() - start)))

    async def orders(self) -> list[dict[str, Any]]:
        answer = await self.kube.request("GET", self.path, query={"labelSelector": "example=order"})
        items: list[dict[str, Any]] = msgspec.json.decode(answer.body).get("items") or []
        return items

    async def count(self, found: dict[str, Any]) -> None:
        """Count one object up, if it is ours."""
        meta, data = found["metadata"], found.get("data") or {}
        slot = slot_of(f"{self.namespace}/{meta['name']}", self.slots)
        if slot not in self.active or self.worker is None:
            return
        self.in_flight[slot] = self.in_flight.get(slot, 0) + 1
        start = time.monotonic()
        try:
            epoch = self.worker.guard(slot)  # raises when the lease has run out, whatever we believe
            if epoch < int(data.get("epoch", 0)):
                return
            said = {
                "count": str(int(data.get("count", 0)) + 1),
                "worker": self.name,
                "epoch": str(epoch),
                "at": f"{time.time():.3f}",
            }
            body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": said}
            await self.kube.request(
                "PATCH",
                f"{self.path}/{meta['name']}",
                body=msgspec.json.encode(body),
                content_type="application/merge-patch+json",
                timeout_s=2.0,
            )
        except NotOwner:
            self.active.discard(slot)
        except KubeError as error:
            if error.status not in (404, 409):
                raise
        finally:
            self.worker.busy(slot, time.monotonic() - start)
            async with self.idle:
                self.in_flight[slot] -= 1
                self.idle.notify_all()


async def main(options: argparse.Namespace) -> None:
    async with await Kube.connect(options.kubeconfig) as kube:
        orders = Orders(kube, options.namespace, options.name, options.slots, options.period)
        worker = Worker(
            kube,
            orders,
            namespace=options.namespace,
            shard_set=options.shard_set,
            name=options.name,
            times=LeaseTimes(
                duration_s=options.lease,
                renew_interval_s=options.lease / 3,
                safety_margin_s=options.lease / 5,
                skew_margin_s=options.lease / 8,
            ),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        work = asyncio.create_task(orders.work(worker))
        try:
            await worker.run()
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", type=Path, help="default: KUBECONFIG, or that of kubectl")
    parser.add_argument("--namespace", default="default", help="of the ShardSet and the orders")
    parser.add_argument("--shard-set", default="orders", help="name of the ShardSet (default: orders)")
    parser.add_argument("--name", required=True, help="name of this worker, such as its pod's")
    parser.add_argument("--slots", type=int, default=64, help="slots of the keyspace (default: 64)")
    parser.add_argument("--period", type=float, default=0.5, help="seconds between rounds (default: 0.5)")
    parser.add_argument(
        "--lease", type=float, default=15.0, help="duration of the lease, seconds (default: 15)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
