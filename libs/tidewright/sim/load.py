"""Recorded clusters: lists of nodes and pods, replayed in log time against any API server.

Nodes   CSV with `sn,cpu_milli,memory_mib,gpu,model`
Pods    CSV with `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,
        creation_time,deletion_time,scheduled_time` (times in seconds from the start of the recording)

A pod is created when its time comes, runs for as long as it ran in the recording from whenever it
starts here, and is deleted when it has ended.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from tidewright.kube.client import Kube
from tidewright.kube.csvtext import lines
from tidewright.kube.errors import KubeError
from tidewright.log.clock import Clock
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import NODE, POD, Pod
from tidewright.sim.controllers.writes import Writer, create, delete
from tidewright.sim.kubelets.nodes import node_manifest
from tidewright.sim.kubelets.pods import EXIT_CODE, RUN_SECONDS

_log = structlog.get_logger(__name__)

LOAD_LABEL: Final = "sim.tidewright.dev/load"
MODEL_LABEL: Final = "sim.tidewright.dev/gpu-model"
GPU: Final = "nvidia.com/gpu"
GPU_MILLI: Final = "sim.tidewright.dev/gpu-milli"

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


class LoadError(ValueError):
    """A recording cannot be used; the message names file, line, column and what would be valid."""


class RecordedNode(msgspec.Struct, frozen=True):
    """One node of a recording."""

    name: str
    cpu_millis: int
    memory_mib: int
    gpus: int = 0
    model: str = ""


class RecordedPod(msgspec.Struct, frozen=True):
    """One pod of a recording.

    Attributes:
        gpu_milli: share of one GPU in thousandths, when it asks for a single one.
        models: the GPU models that it can use; empty for any.
        created_s, run_s: seconds from the start of the recording, and how long it ran.
    """

    name: str
    cpu_millis: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()
    qos: str = ""
    failed: bool = False
    created_s: float = 0.0
    run_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What to replay, and how.

    Attributes:
        pods: the pod list.
        nodes: the node list; None leaves the cluster's nodes as they are.
        namespace: where the pods go; made when it is missing.
        limit: replay only the first so many pods, in order of creation; None for all.
        at_once: create all pods now and let them run until they are deleted.
        gpu_shares: ask for thousandths of GPUs (`sim.tidewright.dev/gpu-milli`) as recorded, instead of
            whole ones (`nvidia.com/gpu`) with shares rounded up.
        keep: do not delete pods that have ended.
    """

    pods: Path
    nodes: Path | None = None
    namespace: str = "default"
    limit: int | None = None
    at_once: bool = False
    gpu_shares: bool = False
    keep: bool = False


class LoadReport(msgspec.Struct):
    """How far a replay is.

    Attributes:
        peak_pending: the most pods that had no node at one time.
        waited_s: log seconds that pods were without a node, summed over those that got one.
    """

    pods: int
    nodes: int = 0
    created: int = 0
    bound: int = 0
    ended: int = 0
    peak_pending: int = 0
    waited_s: float = 0.0


def read_nodes(path: Path) -> list[RecordedNode]:
    """Read a node list.

    Raises:
        LoadError: see there.
    """
    nodes = []
    for where, row in _rows(path, NODE_COLUMNS):
        nodes.append(
            RecordedNode(
                name=row["sn"],
                cpu_millis=_whole(row, "cpu_milli", where),
                memory_mib=_whole(row, "memory_mib", where),
                gpus=_whole(row, "gpu", where),
                model=row["model"],
            )
        )
    return nodes


def read_pods(path: Path) -> list[RecordedPod]:
    """Read a pod list, ordered by creation and then name.

    Raises:
        LoadError: see there.
    """
    pods = []
    for where, row in _rows(path, POD_COLUMNS):
        created = _whole(row, "creation_time", where)
        # A pod that was never bound there has no time of it: it runs from its creation.
        started = _whole(row, "scheduled_time", where) if row["scheduled_time"] else created
        pods.append(
            RecordedPod(
                name=row["name"],
                cpu_millis=_whole(row, "cpu_milli", where),
                memory_mib=_whole(row, "memory_mib", where),
                gpus=_whole(row, "num_gpu", where),
                gpu_milli=_whole(row, "gpu_milli", where),
                models=tuple(sorted(filter(None, row["gpu_spec"].split("|")))),
                qos=row["qos"],
                failed=row["pod_phase"] == "Failed",
                created_s=float(created),
                run_s=float(max(0, _whole(row, "deletion_time", where) - started)),
            )
        )
    return sorted(pods, key=lambda pod: (pod.created_s, pod.name))


def node_of(node: RecordedNode, options: LoadOptions, now: float) -> dict[str, Any]:
    """The Node manifest of a recorded node."""
    capacity = {"cpu": f"{node.cpu_millis}m", "memory": f"{node.memory_mib}Mi", "pods": "110"}
    labels = {LOAD_LABEL: "true"}
    if node.gpus:
        capacity[GPU_MILLI if options.gpu_shares else GPU] = str(
            node.gpus * (1000 if options.gpu_shares else 1)
        )
        labels[MODEL_LABEL] = node.model
    return node_manifest(node.name, capacity=capacity, labels=labels, now=now)


def pod_of(pod: RecordedPod, options: LoadOptions) -> dict[str, Any]:
    """The Pod manifest of a recorded pod."""
    requests = {"cpu": f"{pod.cpu_millis}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus and options.gpu_shares:
        requests[GPU_MILLI] = str(pod.gpus * (pod.gpu_milli or 1000))
    elif pod.gpus:
        requests[GPU] = str(pod.gpus)
    extended = {name: value for name, value in requests.items() if name not in ("cpu", "memory")}
    annotations = {} if options.at_once else {RUN_SECONDS: f"{pod.run_s:g}"}
    if pod.failed and not options.at_once:
        annotations[EXIT_CODE] = "1"
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "recorded",
                "resources": {"requests": requests, **({"limits": extended} if extended else {})},
            }
        ],
    }
    if pod.models:
        terms = [{"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": list(pod.models)}]}]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    labels = {LOAD_LABEL: "true", **({"qos": pod.qos} if pod.qos else {})}
    metadata = {"name": pod.name, "labels": labels, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def replay(
    kube: Kube, clock: Clock, options: LoadOptions, progress: Callable[[LoadReport], None] | None = None
) -> LoadReport:
    """Replay a recording from now on; returns when its last pod has ended (or, at once, was created).

    Raises:
        LoadError: a file cannot be used; nothing was created then.
        KubeError: the API server refuses a node or a pod.
    """
    pods = (await asyncio.to_thread(read_pods, options.pods))[: options.limit]
    nodes = await asyncio.to_thread(read_nodes, options.nodes) if options.nodes is not None else []
    return await _Replay(kube, clock, options, pods=pods, nodes=nodes, progress=progress).run()


class _Replay:
    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        options: LoadOptions,
        *,
        pods: Sequence[RecordedPod],
        nodes: Sequence[RecordedNode],
        progress: Callable[[LoadReport], None] | None,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._options = options
        self._pods = pods
        self._nodes = nodes
        self._progress = progress
        self._cache = Cache()
        self._cache.restrict(POD, {"labelSelector": f"{LOAD_LABEL}=true"})
        self._writer = Writer(kube, self._cache, concurrency=32)
        self._pending: dict[str, float] = {}
        self._ended: asyncio.Queue[Pod] = asyncio.Queue()
        self._done = asyncio.Event()
        self.report = LoadReport(pods=len(pods), nodes=len(nodes))

    async def run(self) -> LoadReport:
        now = self._clock.now()
        manifests = [node_of(node, self._options, now) for node in self._nodes]
        await self._writer.send_all(create(NODE, "", manifest, tolerate=(409,)) for manifest in manifests)
        await self._make_namespace()
        following = asyncio.create_task(self._cache.run(self._kube), name="load follow")
        try:
            await self._cache.synced()
            self._cache.pods.listen(self._changed)
            async with asyncio.TaskGroup() as group:
                clearing = group.create_task(self._clear(), name="load clear")
                await self._create()
                if self._pods and not self._options.at_once:
                    await self._done.wait()
                clearing.cancel()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return self.report

    async def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._options.namespace}}
        try:
            await self._kube.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))
        except KubeError as error:
            if error.status != 409:
                raise

    async def _create(self) -> None:
        """Create the pods as their times come; those that are due together side by side."""
        start = self._clock.now()
        index = 0
        while index < len(self._pods):
            due: list[RecordedPod] = []
            passed_s = self._clock.now() - start
            while index < len(self._pods) and (
                self._options.at_once or self._pods[index].created_s <= passed_s
            ):
                due.append(self._pods[index])
                index += 1
            await self._writer.send_all(
                create(POD, self._options.namespace, pod_of(pod, self._options), tolerate=(409,))
                for pod in due
            )
            self.report.created += len(due)
            self._tell()
            if index < len(self._pods):
                ahead_s = self._pods[index].created_s - (self._clock.now() - start)
                # At least a moment, so that pods of neighbouring seconds go out together.
                await asyncio.sleep(max(self._clock.wall_seconds(ahead_s), 0.005))

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        if pod is None or pod.metadata.namespace != self._options.namespace:
            return
        uid = pod.metadata.uid
        if new is None or new.spec.node_name:
            since = self._pending.pop(uid, None)
            if since is not None and new is not None:
                self.report.bound += 1
                self.report.waited_s += self._clock.now() - since
        else:
            self._pending.setdefault(uid, self._clock.now())
            self.report.peak_pending = max(self.report.peak_pending, len(self._pending))
        if (new is None and old is not None and not old.finished) or (
            new is not None and new.finished and (old is None or not old.finished)
        ):
            self._ended.put_nowait(pod)

    async def _clear(self) -> None:
        while True:
            pod = await self._ended.get()
            self.report.ended += 1
            self._tell()
            if not self._options.keep and pod.finished:
                await self._writer.send(delete(POD, pod.key, pod.metadata.uid, grace_s=0))
            if self.report.ended >= self.report.pods:
                self._done.set()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.report)


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(lines(file))
            header = reader.fieldnames or ()
            missing = [column for column in columns if column not in header]
            if missing:
                raise LoadError(
                    f"{path}, line 1: column {missing[0]!r} is missing; a recording has {','.join(columns)}"
                )
            rows = []
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if None in row or any(value is None for value in row.values()):
                    raise LoadError(f"{where}: {len(columns)} columns expected")
                rows.append((where, row))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LoadError(f"{path}: cannot be read: {error}") from error
    return rows


def _whole(row: dict[str, str], column: str, where: str) -> int:
    text = row[column]
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        value = -1
    if value < 0:
        raise LoadError(f"{where}: column {column}: {text!r} is no number of at least 0")
    return value
