"""The scheduler as a client: pods without a node come in, bindings and conditions go out.

One pod at a time is placed, in order of priority and then arrival; bindings are sent side by side
while the next pods are placed on the assumption that they succeed. A pod that fits nowhere gets the
condition and an object event, and comes back when something changes that could help. Where pods of lower
priority are in its way they are deleted; the room is kept for it until they have gone.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import Any, Final

import msgspec
import structlog

from tidewright.kube.errors import KubeError
from tidewright.kube.quantities import NotAQuantity
from tidewright.kube.times import rfc3339
from tidewright.log.clock import Clock
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import DISRUPTION_BUDGET, NODE, POD, Node, Pod
from tidewright.sim.controllers.recorder import Recorder
from tidewright.sim.controllers.writes import STRATEGIC_PATCH, Write, Writer, delete, patch
from tidewright.sim.scheduler.placement import Placer, Refusal, Shape, shape_of
from tidewright.sim.scheduler.preemption import NEVER, Preemption

_log = structlog.get_logger(__name__)

NAME: Final = "default-scheduler"
QUIET_S: Final = 0.02
"""Changes within so many wall seconds give unschedulable pods one new chance together."""
_AT_ONCE: Final = 32  # pods placed before other tasks get their turn


class _Nominated(msgspec.Struct, frozen=True):
    """A pod for which room is made: it takes that room already, beside those who leave."""

    pod: Pod
    shape: Shape
    node: str
    victims: frozenset[str]


class Scheduler:
    """One scheduler over a cache."""

    def __init__(self, cache: Cache, writer: Writer, clock: Clock, recorder: Recorder) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._recorder = recorder
        self.placer = Placer()
        self._preemption = Preemption(self.placer)
        self._nominated: dict[str, _Nominated] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._placed: dict[str, tuple[Pod, Shape, str]] = {}
        self._waiting: dict[str, Pod] = {}
        self._heap: list[tuple[int, float, int, str]] = []
        self._arrivals = 0
        self._stuck: dict[str, Pod] = {}
        self._said: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._refused: dict[tuple[bytes, int, str], str] = {}
        self._work = asyncio.Event()
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(64)
        self.bound = 0
        cache.of(NODE)
        self._budgets = cache.of(DISRUPTION_BUDGET)

    async def run(self) -> None:
        """Schedule until cancelled. Starts once nodes and pods had their first list."""
        await self._cache.synced()
        self._cache.of(NODE).listen(self._node_changed)
        self._cache.pods.listen(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._retry(), name="scheduler retry")
            while True:
                await self._work.wait()
                self._work.clear()
                await self._drain(group)

    # --- what the cache says ------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                name = old.metadata.name
                for uid in [uid for uid, (_, _, node) in self._placed.items() if node == name]:
                    self._unplace(uid)
                for uid in [uid for uid, one in self._nominated.items() if one.node == name]:
                    self._free(uid)
                self.placer.table.drop(name)
        else:
            if old is not None and not _matters(old, new):
                return
            known = new.metadata.name in self.placer.table.row_of
            self.placer.table.put(new)
            if not known:
                for pod in self._cache.pods.on_node(new.metadata.name):
                    self._pod_changed(None, pod)
        self._retry_later()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.finished:
            gone = new if new is not None else old
            if gone is not None:
                self._forget(gone.metadata.uid)
            return
        uid = new.metadata.uid
        if old is not None and old.metadata.uid != uid:
            self._forget(old.metadata.uid)
        if new.spec.node_name:
            self._free(uid)
            self._waiting.pop(uid, None)
            self._stuck.pop(uid, None)
            known = self._placed.get(uid)
            if known is not None and known[2] != new.spec.node_name:
                self._unplace(uid)
                known = None
            if known is None:
                self._place(new, self._shape(new), new.spec.node_name)
            elif known[0].metadata.labels != new.metadata.labels:
                self._unplace(uid)
                self._place(new, self._shape(new), new.spec.node_name)
                self._retry_later()
            return
        if uid in self._placed or not self._ours(new):
            return
        if uid in self._stuck and old is not None and not _reconsider(old, new):
            self._stuck[uid] = new
            return
        self._stuck.pop(uid, None)
        if uid not in self._waiting:
            self._enqueue(new)
        self._waiting[uid] = new

    def _ours(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name == NAME
            and not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
        )

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._stuck.pop(uid, None)
        self._said.pop(uid, None)
        self._failures.pop(uid, None)
        freed = self._free(uid)
        if self._unplace(uid) or freed:
            self._retry_later()

    def _shape(self, pod: Pod) -> Shape:
        try:
            shape = shape_of(pod)
        except NotAQuantity as error:
            _log.warning("a pod's requests cannot be read", pod=str(pod.key), error=str(error))
            shape = Shape(key=b"", static="", requests={"pods": 1}, scored=(0, 0))
        known = self._shapes.get(shape.key)
        if known is None:
            if len(self._shapes) > 10_000:
                self._shapes.clear()
            known = self._shapes[shape.key] = shape
        return known

    def _place(self, pod: Pod, shape: Shape, node: str) -> None:
        row = self.placer.table.row_of.get(node)
        if row is not None:
            self._placed[pod.metadata.uid] = (pod, shape, node)
            self.placer.place(pod, shape, row)
            self._preemption.placed(pod, shape, node)

    def _unplace(self, uid: str) -> bool:
        placed = self._placed.pop(uid, None)
        if placed is None:
            return False
        pod, shape, node = placed
        self._preemption.gone(pod)
        row = self.placer.table.row_of.get(node)
        if row is not None:
            self.placer.unplace(pod, shape, row)
        return True

    def _nominate(self, one: _Nominated) -> None:
        """Keep the room that is made for a pod."""
        row = self.placer.table.row_of.get(one.node)
        if row is not None:
            self._nominated[one.pod.metadata.uid] = one
            self.placer.place(one.pod, one.shape, row)

    def _free(self, uid: str) -> _Nominated | None:
        """Keep it no more."""
        one = self._nominated.pop(uid, None)
        row = self.placer.table.row_of.get(one.node) if one is not None else None
        if one is not None and row is not None:
            self.placer.unplace(one.pod, one.shape, row)
        return one

    # --- the queue ----------------------------------------------------------------------------

    def _enqueue(self, pod: Pod) -> None:
        self._arrivals += 1
        entry = (-pod.spec.priority, pod.metadata.created, self._arrivals, pod.metadata.uid)
        heapq.heappush(self._heap, entry)
        self._waiting[pod.metadata.uid] = pod
        self._work.set()

    def _retry_later(self) -> None:
        self._refused.clear()
        if self._stuck:
            self._changed.set()

    async def _retry(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(QUIET_S)
            self._changed.clear()
            stuck, self._stuck = self._stuck, {}
            for pod in stuck.values():
                self._enqueue(pod)

    async def _drain(self, group: asyncio.TaskGroup) -> None:
        done = 0
        while self._heap:
            pod = self._waiting.pop(heapq.heappop(self._heap)[3], None)
            if pod is None:
                continue
            shape = self._shape(pod)
            kept = self._free(pod.metadata.uid)
            message = self._refused.get(_alike(pod, shape)) if kept is None else None
            if message is None:
                choice = self.placer.choose(pod, shape)
                if isinstance(choice, int):
                    node = self.placer.table.nodes[choice]
                    assert node is not None  # noqa: S101 - chosen among present rows
                    self._place(pod, shape, node.metadata.name)
                    await self._slots.acquire()
                    group.create_task(self._bind(pod, node.metadata.name), name=f"bind {pod.metadata.name}")
                else:
                    message, victims = self._refuse(pod, shape, choice, kept)
                    for victim in victims:
                        await self._slots.acquire()
                        group.create_task(
                            self._displace(victim, pod), name=f"displace {victim.metadata.name}"
                        )
            if message is not None:
                self._stuck[pod.metadata.uid] = pod
                if self._said.get(pod.metadata.uid) != message:
                    self._said[pod.metadata.uid] = message
                    await self._slots.acquire()
                    group.create_task(self._report(pod, message), name=f"refuse {pod.metadata.name}")
            done += 1
            if done % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _refuse(
        self, pod: Pod, shape: Shape, refusal: Refusal, kept: _Nominated | None
    ) -> tuple[str, list[Pod]]:
        """What is said of a pod that has no place, and who has to go for it; the room is kept for it from then on."""
        if kept is not None and not kept.victims.isdisjoint(self._placed):
            self._nominate(kept)
            return refusal.message(made=True), []
        found = self._preemption.victims(pod, shape, list(self._budgets.objects.values()))
        if found is not None:
            node = self.placer.table.nodes[found.row]
            assert node is not None  # noqa: S101 - victims are placed on present rows
            uids = frozenset(victim.metadata.uid for victim in found.pods)
            self._nominate(_Nominated(pod, shape, node.metadata.name, uids))
            return refusal.message(made=True), found.pods
        message = refusal.message(preempts=pod.spec.preemption_policy != NEVER)
        if shape.lonely:
            self._refused[_alike(pod, shape)] = message
        return message, []

    # --- writes -------------------------------------------------------------------------------

    async def _bind(self, pod: Pod, node: str) -> None:
        metadata = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        body = msgspec.json.encode(binding)
        try:
            await self._writer.send(Write("POST", POD, pod.key, body, subresource="binding"))
        except KubeError as error:
            self._unbound(pod, error)
        else:
            self.bound += 1
            self._failures.pop(metadata.uid, None)
            self._said.pop(metadata.uid, None)
            message = f"Successfully assigned {metadata.namespace}/{metadata.name} to {node}"
            self._recorder.record(
                POD, metadata, "Normal", reason="Scheduled", message=message, component=NAME
            )
        finally:
            self._slots.release()

    async def _displace(self, victim: Pod, by: Pod) -> None:
        """Delete a pod that is in the way of a more important one."""
        metadata = victim.metadata
        try:
            known = self._cache.pods.get(victim.key)
            if known is None or known.metadata.deletion_timestamp is None:
                await self._writer.send(delete(POD, victim.key, metadata.uid))
        except KubeError as error:
            _log.info("a pod could not be displaced", pod=str(victim.key), error=str(error))
            self._free(by.metadata.uid)
            self._retry_later()
        else:
            message = f"Preempted by pod {by.metadata.uid} on node {victim.spec.node_name}"
            self._recorder.record(
                POD, metadata, "Normal", reason="Preempted", message=message, component=NAME
            )
        finally:
            self._slots.release()

    def _unbound(self, pod: Pod, error: KubeError) -> None:
        """Give the place back, and try again unless the pod is gone or bound by somebody else."""
        uid = pod.metadata.uid
        known = self._cache.pods.get(pod.key)
        if known is not None and known.metadata.uid == uid and known.spec.node_name:
            return
        self._unplace(uid)
        self._retry_later()
        if error.status == 404 or known is None or known.metadata.uid != uid:
            return
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        wait_s = max(min(5.0, 0.01 * 2**failures), error.retry_after_s or 0.0)
        _log.info("a binding is tried again", pod=str(pod.key), error=str(error), again_s=wait_s)
        asyncio.get_running_loop().call_later(wait_s, self._again, uid, pod.key)

    def _again(self, uid: str, key: tuple[str, str]) -> None:
        pod = self._cache.pods.get(key)
        if pod is not None and pod.metadata.uid == uid and not pod.spec.node_name and uid not in self._placed:
            self._enqueue(pod)

    async def _report(self, pod: Pod, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
        }
        before = pod.condition("PodScheduled")
        if before is None or before.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.now())
        change: dict[str, Any] = {
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [condition]},
        }
        kept = self._nominated.get(pod.metadata.uid)
        if kept is not None or pod.status.nominated_node_name:
            change["status"]["nominatedNodeName"] = kept.node if kept is not None else None
        try:
            await self._writer.send(
                patch(
                    POD,
                    pod.key,
                    change,
                    subresource="status",
                    content_type=STRATEGIC_PATCH,
                    tolerate=(404, 409),
                )
            )
        except KubeError as error:
            self._said.pop(pod.metadata.uid, None)
            _log.info("a condition could not be written", pod=str(pod.key), error=str(error))
        finally:
            self._slots.release()
        self._recorder.record(
            POD, pod.metadata, "Warning", reason="FailedScheduling", message=message, component=NAME
        )


def _alike(pod: Pod, shape: Shape) -> tuple[bytes, int, str]:
    """Equal for pods that are refused alike, and displace the same pods."""
    return shape.key, pod.spec.priority, pod.spec.preemption_policy


def _matters(old: Node, new: Node) -> bool:
    """Whether scheduling could differ: heartbeats and conditions change nothing here."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.spec != new.spec
        or old.status.allocatable != new.status.allocatable
    )


def _reconsider(old: Pod, new: Pod) -> bool:
    """Whether a pod that fitted nowhere has changed in what was looked at."""
    return old.spec != new.spec or old.metadata.labels != new.metadata.labels
