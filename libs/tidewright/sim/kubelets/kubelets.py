"""All kubelets of one process: pods bound to our nodes start, get ready, end, and are deleted.

One timer per pod says what is due; what is due becomes one request. A node that is lost answers to
nothing: its pods stay as they are, its lease runs out. When it returns it takes its pods up again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from tidewright.kube.errors import KubeError
from tidewright.kube.times import rfc3339_micro
from tidewright.log.clock import Clock
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.node_lifecycle import NODE_NOT_READY
from tidewright.sim.controllers.objects import LEASE, NODE, POD, Node, Pod
from tidewright.sim.controllers.writes import STRATEGIC_PATCH, Write, Writer, create, delete, patch
from tidewright.sim.delays import draw
from tidewright.sim.kubelets import pods as pod_status
from tidewright.sim.kubelets.nodes import LEASE_NAMESPACE, conditions, lease_interval_s, lease_manifest
from tidewright.sim.kubelets.timers import Timers
from tidewright.sim.options import NODE_LABEL, KubeletOptions

_log = structlog.get_logger(__name__)

LEASE_RENEWALS = 4
"""Renewals within a lease's duration."""
_UNDER_WAY = frozenset({"start", "ready", "restart", "stop"})
CRASH_BACKOFF_S = 10.0
"""Log seconds before the first restart of a crashed container; doubled with each, up to 300."""


class _State(msgspec.Struct):
    """What a kubelet knows of a pod beyond the pod's own status.

    Attributes:
        next: `start`, `ready`, `finish`, `crash`, `restart` or `stop`.
        taken_up: log time at which the kubelet first saw the pod.
    """

    next: str
    taken_up: float
    ip: str = ""
    running_since: float = 0.0
    failures: int = 0


class Kubelets:
    """The kubelets of all our nodes."""

    def __init__(self, cache: Cache, writer: Writer, clock: Clock, options: KubeletOptions) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._options = options
        self._timers: Timers[str] = Timers()
        self._registering: Timers[str] = Timers()
        self._states: dict[str, _State] = {}
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._lost: set[str] = set()
        self._failed: set[str] = set()
        self._addresses = 0
        cache.of(NODE)

    @property
    def nodes(self) -> list[str]:
        """Names of our nodes that exist, sorted."""
        return sorted(self._nodes)

    async def run(self) -> None:
        """Be the kubelets until cancelled. Starts once nodes and pods had their first list."""
        await self._cache.synced()
        self._cache.of(NODE).listen(self._node_changed)
        self._cache.pods.listen(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._register(group), name="kubelets register")
            if self._options.lease_s is not None:
                group.create_task(self._renew_leases(), name="kubelets leases")
            while True:
                for uid in await self._timers.due():
                    group.create_task(self._act(uid), name=f"kubelet pod {uid}")
                await asyncio.sleep(0)

    # --- faults -------------------------------------------------------------------------------

    def lose(self, node: str) -> None:
        """The node's machine is cut off: no heartbeat, no word about its pods.

        Raises:
            KeyError: no node of ours has this name.
        """
        self._lost.add(self._nodes[node].metadata.name)

    def restore(self, node: str) -> None:
        """The node is back, with the pods that the API server still has on it."""
        self._lost.discard(node)
        if node in self._nodes:
            self._registering.set(node, 0.0)
            for pod in self._cache.pods.on_node(node):
                self._states.pop(pod.metadata.uid, None)
                self._pod_changed(None, pod)

    async def fail(self, node: str, *, ready: bool = False) -> None:
        """The kubelet reports its node as not ready (or as ready again); pods stay.

        Raises:
            KeyError: no node of ours has this name.
            KubeError: the status cannot be written.
        """
        registered = self._nodes[node]
        (self._failed.discard if ready else self._failed.add)(node)
        await self._say_ready(registered, ready=ready)

    @property
    def lost(self) -> frozenset[str]:
        """Names of the nodes that are cut off."""
        return frozenset(self._lost)

    @property
    def failed(self) -> frozenset[str]:
        """Names of the nodes that report themselves not ready."""
        return frozenset(self._failed)

    def crash(self, namespace: str, name: str) -> bool:
        """Let a pod's containers end in place, now; False when it does not run on a node of ours."""
        pod = self._cache.pods.get((namespace, name))
        if pod is None or pod.spec.node_name not in self._nodes or pod.status.phase != "Running":
            return False
        state = self._states.get(pod.metadata.uid)
        if state is None or state.next == "stop":
            return False
        self._set(pod, state, "crash", 0.0)
        return True

    # --- nodes --------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or new.metadata.labels.get(NODE_LABEL) != "true":
            gone = new or old
            if gone is not None:
                self._nodes.pop(gone.metadata.name, None)
                self._lost.discard(gone.metadata.name)
            return
        name = new.metadata.name
        known = name in self._nodes
        self._nodes[name] = new
        if new.ready != "True" and name not in self._failed and name not in self._registering:
            delay_s = draw(self._options.register, self._options.seed, f"{new.metadata.uid}/register")
            self._registering.set(name, self._clock.wall_seconds(delay_s))
        if not known:
            for pod in self._cache.pods.on_node(name):
                self._pod_changed(None, pod)
        elif new.ready == "True" and old is not None and old.ready != "True":
            for pod in self._cache.pods.on_node(name):
                self._say_again(pod)

    async def _register(self, group: asyncio.TaskGroup) -> None:
        while True:
            for name in await self._registering.due():
                group.create_task(self._make_ready(name), name=f"kubelet {name}")

    async def _make_ready(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or name in self._lost or name in self._failed or node.ready == "True":
            return
        try:
            await self._say_ready(node, ready=True)
        except KubeError as error:
            _log.info("a node's status is tried again", node=name, error=str(error))
            self._registering.set(name, 0.5)

    async def _say_ready(self, node: Node, *, ready: bool) -> None:
        change: dict[str, Any] = {"status": {"conditions": conditions(self._clock.now(), ready=ready)}}
        await self._writer.send(
            patch(NODE, node.key, change, subresource="status", content_type=STRATEGIC_PATCH)
        )

    async def _renew_leases(self) -> None:
        """Renew all leases, spread over the interval."""
        assert self._options.lease_s is not None  # noqa: S101 - the caller asked
        floor_s = self._options.lease_floor_wall_s / LEASE_RENEWALS
        wanted_s = max(self._clock.wall_seconds(self._options.lease_s), floor_s)
        while True:
            names = [name for name in self.nodes if name not in self._lost]
            interval_s = lease_interval_s(len(names), wanted_s, self._options.heartbeats_per_s)
            for name in names:
                await self._renew(name, interval_s)
                await asyncio.sleep(interval_s / len(names))
            if not names:
                await asyncio.sleep(min(interval_s, 0.5))

    async def _renew(self, name: str, interval_s: float) -> None:
        node = self._nodes.get(name)
        if node is None or name in self._lost:
            return
        now = self._clock.now()
        key = (LEASE_NAMESPACE, name)
        duration_s = max(1, round(LEASE_RENEWALS * interval_s * self._clock.speed))
        renewal = {
            "spec": {
                "renewTime": rfc3339_micro(now),
                "holderIdentity": name,
                "leaseDurationSeconds": duration_s,
            }
        }
        try:
            if await self._writer.send(patch(LEASE, key, renewal)):
                return
            lease = lease_manifest(name, node.metadata.uid, duration_s, now)
            await self._writer.send(create(LEASE, LEASE_NAMESPACE, lease, tolerate=(404, 409)))
        except KubeError as error:
            _log.info("a lease could not be renewed", node=name, error=str(error))

    # --- pods ---------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._drop(old.metadata.uid)
        if new is None or new.spec.node_name not in self._nodes:
            return
        uid = new.metadata.uid
        self._pods[uid] = new
        state = self._states.get(uid)
        if new.metadata.deletion_timestamp is not None:
            if state is None or state.next != "stop":
                self._stop(new, state)
            return
        if state is None and not new.finished:
            self._take_up(new)
        elif new.finished:
            self._states.pop(uid, None)
            self._timers.cancel(uid)
        else:
            self._say_again(new)

    def _say_again(self, pod: Pod) -> None:
        """Say that a pod is ready that was called unready while its node was silent, once the node is back."""
        state, node = self._states.get(pod.metadata.uid), self._nodes.get(pod.spec.node_name)
        if (
            state is None
            or node is None
            or node.ready != "True"
            or pod.metadata.deletion_timestamp is not None
        ):
            return
        said = pod.condition("Ready")
        silenced = said is not None and (said.status, said.reason) == ("False", NODE_NOT_READY)
        if silenced and pod.status.phase == "Running" and state.next not in _UNDER_WAY:
            self._set(pod, state, "ready", 0.0)

    def _drop(self, uid: str) -> None:
        self._states.pop(uid, None)
        self._pods.pop(uid, None)
        self._timers.cancel(uid)

    def _take_up(self, pod: Pod) -> None:
        now = self._clock.now()
        if pod.status.phase == "Running":
            state = _State("ready", now, ip=pod.status.pod_ip, running_since=now)
            self._states[pod.metadata.uid] = state
            if pod.ready:
                self._after_ready(pod, state)
            else:
                self._set(pod, state, "ready", pod_status.ready_delay_s(pod, self._options))
            return
        self._addresses += 1
        state = _State("start", now, ip=pod_status.pod_ip(self._addresses))
        self._states[pod.metadata.uid] = state
        self._set(pod, state, "start", pod_status.start_delay_s(pod, self._options))

    def _stop(self, pod: Pod, state: _State | None) -> None:
        never_ran = pod.status.phase != "Running"
        delay_s = 0.0 if never_ran else pod_status.stop_delay_s(pod, self._options)
        if state is None:
            state = self._states[pod.metadata.uid] = _State("stop", self._clock.now())
        self._set(pod, state, "stop", delay_s)

    def _set(self, pod: Pod, state: _State, what: str, delay_s: float) -> None:
        state.next = what
        self._timers.set(pod.metadata.uid, self._clock.wall_seconds(delay_s))

    def _after_ready(self, pod: Pod, state: _State) -> None:
        """What comes once a pod is ready: its end, a crash, or nothing."""
        ends_s = pod_status.run_s(pod, self._options)
        crashes_s = pod_status.crash_after_s(pod)
        passed_s = self._clock.now() - state.running_since
        if crashes_s is not None and (ends_s is None or crashes_s < ends_s):
            self._set(pod, state, "crash", max(crashes_s - passed_s, 0.0))
        elif ends_s is not None:
            self._set(pod, state, "finish", max(ends_s - passed_s, 0.0))
        else:
            state.next = ""

    async def _act(self, uid: str) -> None:
        pod, state = self._pods.get(uid), self._states.get(uid)
        if pod is None or state is None or pod.spec.node_name in self._lost:
            return
        what = state.next
        try:
            if what == "stop":
                await self._writer.send(delete(POD, pod.key, uid, grace_s=0))
                return
            await self._writer.send(self._write(pod, state, what))
            state.failures = 0
        except KubeError as error:
            state.failures += 1
            again_s = max(min(10.0, 0.05 * 2**state.failures), error.retry_after_s or 0.0)
            _log.info("a pod's status is tried again", pod=str(pod.key), error=str(error), again_s=again_s)
            self._timers.set(uid, again_s)
            return
        if self._states.get(uid) is state and state.next == what:
            self._go_on(pod, state, what)

    def _write(self, pod: Pod, state: _State, what: str) -> Write:
        now = self._clock.now()
        if what == "crash" and pod.spec.restart_policy != "Never":
            change = pod_status.crashed(pod, restarts=pod.restarts + 1, now=now)
        elif what in ("finish", "crash"):
            code = pod_status.exit_code(pod) or (1 if what == "crash" else 0)
            change = pod_status.finished(pod, code=code, now=now)
        else:
            ready = what == "ready" or pod_status.ready_delay_s(pod, self._options) == 0
            if what in ("start", "restart"):
                state.running_since = now
            change = pod_status.running(
                pod,
                ready=ready,
                started=state.taken_up,
                since=state.running_since,
                now=now,
                pod_ip=state.ip,
                restarts=pod.restarts,
            )
        change["metadata"] = {"uid": pod.metadata.uid}
        return patch(
            POD, pod.key, change, subresource="status", content_type=STRATEGIC_PATCH, tolerate=(404, 409)
        )

    def _go_on(self, pod: Pod, state: _State, what: str) -> None:
        if what in ("start", "restart"):
            delay_s = pod_status.ready_delay_s(pod, self._options)
            if delay_s > 0:
                self._set(pod, state, "ready", delay_s)
                return
            self._after_ready(pod, state)
        elif what == "ready":
            self._after_ready(pod, state)
        elif what == "crash" and pod.spec.restart_policy != "Never":
            backoff_s = min(300.0, CRASH_BACKOFF_S * 2.0 ** min(pod.restarts, 10))
            self._set(pod, state, "restart", backoff_s)
