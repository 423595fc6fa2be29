"""A controller whose objects are shared out among its workers: four callbacks, a guard, and the work.

    python examples/sharded_controller.py --namespace shop --name worker-0

It works on ConfigMaps with the label `example=order`: every round it counts each object of its slots
up by one. What it did stands in the object, written under the resourceVersion that it read:

    count    how often it was worked on
    worker   by whom last, epoch: under which epoch of its slot
    began    seconds since the epoch at which that work began, ended: at which it was written
    clashes  how often a worker found that another one had worked on it at the same time

So the objects themselves tell whether two workers ever acted on one of them, and how long one was
left alone. A write under an older epoch than the object carries is not made (R5).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sharding.member import NotOwner
from tidewright.sharding.worker import Worker

MERGE_PATCH = "application/merge-patch+json"
REQUEST_S = 2.0
"""Less than the safety margin of the lease: a write that is on its way is over before others may act."""


class Orders:
    """The work of one process."""

    def __init__(self, kube: Kube, namespace: str, name: str, period_s: float, work_s: float) -> None:
        self.kube, self.namespace, self.name = kube, namespace, name
        self.period_s, self.work_s = period_s, work_s
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.active: set[int] = set()
        self.in_flight: Counter[int] = Counter()
        self.idle = asyncio.Condition()
        self.clashes: Counter[str] = Counter()

    # The four callbacks.

    async def prepare(self, slot: int, epoch: int) -> None:
        """There is no cache to warm up here."""

    async def activate(self, slot: int, epoch: int, checkpoint: str) -> None:
        """The epoch in the next write to each object is the fence record."""
        self.active.add(slot)

    async def drain(self, slot: int, epoch: int) -> str:
        """Begin nothing new, and wait for what is in flight. The objects themselves are the checkpoint."""
        self.active.discard(slot)
        async with self.idle:
            await self.idle.wait_for(lambda: not self.in_flight[slot])
        return ""

    async def revoke(self, slot: int, epoch: int) -> None:
        """Begin nothing new; the guard refuses what is in flight."""
        self.active.discard(slot)

    # The work.

    async def work(self, worker: Worker) -> None:
        """Count every object of our slots up, round after round."""
        while True:
            start = time.monotonic()
            with contextlib.suppress(KubeError):  # the next round tries again
                for name in await self.orders():
                    await self.count(worker, name)
            await asyncio.sleep(max(0.0, self.period_s - (time.monotonic() - start)))

    async def orders(self) -> list[str]:
        answer = await self.kube.request("GET", self.path, query={"labelSelector": "example=order"})
        return [item["metadata"]["name"] for item in msgspec.json.decode(answer.body).get("items") or ()]

    async def count(self, worker: Worker, name: str) -> None:
        """Count one object up, if it is ours."""
        try:
            slot = worker.slot_of(f"{self.namespace}/{name}")
        except NotOwner:
            return
        if slot not in self.active:
            return
        self.in_flight[slot] += 1
        start = time.monotonic()
        try:
            await self.process(worker, slot, name)
        except NotOwner:
            self.active.discard(slot)
        except KubeError as error:
            if error.status == 409:
                # Somebody wrote between our reading and our writing, while the slot was ours.
                self.clashes[name] += 1
            elif error.status != 404:
                worker.done(failed=True)
                raise
        else:
            worker.done()
        finally:
            worker.busy(slot, time.monotonic() - start, name)
            async with self.idle:
                self.in_flight[slot] -= 1
                self.idle.notify_all()

    async def process(self, worker: Worker, slot: int, name: str) -> None:
        """Read, work, write; the guard is asked before each effect."""
        began = time.time()
        worker.guard(slot)
        found = await self.request("GET", name)
        await asyncio.sleep(self.work_s)
        epoch = worker.guard(slot)  # raises when the lease has run out meanwhile, whatever we believe
        data = found.get("data") or {}
        if epoch < int(data.get("epoch", 0)):
            worker.fenced()
            return
        said = {
            "count": str(int(data.get("count", 0)) + 1),
            "worker": self.name,
            "epoch": str(epoch),
            "began": f"{began:.3f}",
            "ended": f"{time.time():.3f}",
            "clashes": str(int(data.get("clashes", 0)) + self.clashes[name]),
        }
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        await self.request("PATCH", name, {"metadata": version, "data": said})
        del self.clashes[name]

    async def request(self, method: str, name: str, body: Any = None) -> dict[str, Any]:
        answer = await self.kube.request(
            method,
            f"{self.path}/{name}",
            body=None if body is None else msgspec.json.encode(body),
            content_type=MERGE_PATCH,
            timeout_s=REQUEST_S,
        )
        decoded: dict[str, Any] = msgspec.json.decode(answer.body)
        return decoded


async def main(options: argparse.Namespace) -> None:
    async with await Kube.connect(options.kubeconfig) as kube:
        orders = Orders(kube, options.namespace, options.name, options.period, options.work)
        worker = Worker(
            kube, orders, namespace=options.namespace, shard_set=options.shard_set, name=options.name
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
    parser.add_argument(
        "--name", default=os.environ.get("POD_NAME"), help="of this worker (default: POD_NAME)"
    )
    parser.add_argument("--period", type=float, default=0.5, help="seconds between rounds (default: 0.5)")
    parser.add_argument(
        "--work", type=float, default=0.01, help="seconds of work on an object (default: 0.01)"
    )
    found = parser.parse_args()
    if not found.name:
        parser.error("--name: give the worker a name, such as its pod's, or set POD_NAME")
    return found


if __name__ == "__main__":
    asyncio.run(main(arguments()))
