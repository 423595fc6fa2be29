"""The cluster's objects and their load: recorded, in compressed time, constant at the end.

The end has one fixed point whatever happened before: for each workload exactly one number of
replicas lies between its watermarks at its last load, and the load stays there for longer than every
window of the autoscaler. Requests for capacity run out and leave an empty cloud.

Some workloads have nodes of their own, one for each pod, which are ordered as soon as the autoscaler decides: so at the
peak there are as many of them as replicas, and whatever is ordered twice is more than that. They have forecasts, too,
which learn and do not take part: two days are not played.

Places take more. A place is kept for 30 s for a pod that nobody has seen yet, and in compressed time that
is less than a watcher is away when it was killed; so in between a subset may have a pod too many. Hence a
plateau after the recorded load, on which nothing is killed and costs are written for what is there; then
a valley, to which scale-downs by these costs leave the first subset's pods alone; and from there up, while
more is killed: what comes then belongs into the second subset, whoever forgets what.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from tests.chaos import moving
from tests.chaos.shards import Shards
from tidewright.autoscaler.forecast.asked import ANNOTATION as FORECAST

HIGH, LOW = 10, 8
"""Watermarks per replica. From 5 replicas on more than one number could lie between them."""
MAX_REPLICAS = 12
PEAK, VALLEY, FINAL = 70.0, 18.0, 38.0
"""Load per workload: the recording's peak, the valley, which 2 replicas carry (9 each), and the last value, 4: 9.5 each."""
VALLEY_REPLICAS, FINAL_REPLICAS = 2, 4
FIRST = 2
"""Pods in the first subset of a spread workload; the others go to the second one."""
VALLEY_PLACES = {"first": FIRST}
FINAL_PLACES = {"first": FIRST, "second": FINAL_REPLICAS - FIRST}
SPREAD_EVERY = 3
"""Workloads from one with a WorkloadSpread to the next."""
ATOMIC, CHECK = (f"{name}.autoscaling.x-k8s.io" for name in ("best-effort-atomic-scale-up", "check-capacity"))
ALONE = "alone"
"""The node group of workloads whose pods have a node each."""
REQUESTED_PODS = 2
GROUP = "asked"
"""The node group that the atomic requests ask for; a node of it holds one of their pods, and no others."""
WINDOW_UP_S, WINDOW_DOWN_S = 60, 120
IMAGE = "registry.k8s.io/pause:3.10"
PATTERNS = 8


def fixed_points(load: float) -> list[int]:
    """Numbers of replicas at which a load lies between the watermarks."""
    return [n for n in range(1, MAX_REPLICAS + 1) if LOW <= load / n <= HIGH]


@dataclass(frozen=True)
class Scenario:
    """How much of what.

    Attributes:
        workloads: Deployments with a WatermarkPodAutoscaler each.
        namespaces: over which they are spread.
        speed: log seconds per wall second.
        load_s: wall seconds that the recorded load takes.
        start: log time at which it begins.
        interval_s: log seconds between two samples of a metric.
    """

    workloads: int
    namespaces: int
    speed: float
    load_s: float
    start: float
    interval_s: float = 30.0

    @cached_property
    def shards(self) -> Shards:
        """The ShardSets and fleets in some of the namespaces."""
        return Shards([f"team-{i}" for i in range(self.namespaces)])

    def namespace(self, n: int) -> str:
        """The namespace of the n-th workload."""
        return f"team-{n % self.namespaces}"

    def name(self, n: int) -> str:
        """The name of the n-th workload and of its autoscaler."""
        return f"app-{n}"

    def is_spread(self, n: int) -> bool:
        """Whether the n-th workload has a WorkloadSpread."""
        return n % SPREAD_EVERY == 0

    def is_alone(self, n: int) -> bool:
        """Whether each pod of the n-th workload has a node of its own."""
        return self.namespace(n) == self.alone_in and not self.is_spread(n)

    @property
    def alone_in(self) -> str:
        """The namespace of those, the last one."""
        return f"team-{self.namespaces - 1}"

    @property
    def alone(self) -> int:
        """How many there are."""
        return sum(map(self.is_alone, range(self.workloads)))

    @property
    def spread(self) -> list[str]:
        """Namespace and name of the workloads that have one."""
        return [f"{self.namespace(n)}/{self.name(n)}" for n in range(self.workloads) if self.is_spread(n)]

    def metric(self, n: int) -> str:
        """The n-th workload's metric."""
        return f"app-{n}.load"

    @property
    def window_s(self) -> float:
        """Wall seconds that outlast every window of the autoscaler, and a sample."""
        return (WINDOW_UP_S + WINDOW_DOWN_S + self.interval_s) / self.speed

    def traces(self, folder: Path) -> list[Path]:
        """The recording as files, each beginning elsewhere in it, all ending on the plateau."""
        recorded = recording()
        scale = PEAK / max(recorded)
        step = self.load_s * self.speed / len(recorded)
        paths = []
        for pattern in range(PATTERNS):
            shift = pattern * len(recorded) // PATTERNS
            values = [scale * v for v in recorded[shift:] + recorded[:shift]]
            rows = [(self.start + i * step, max(4.0, round(v, 3))) for i, v in enumerate(values)]
            rows.append((self.start + self.load_s * self.speed, PEAK))
            path = folder / f"load-{pattern}.csv"
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([("timestamp", "value"), *rows])
            paths.append(path)
        return paths

    def metrics(self, folder: Path) -> Path:
        """The metrics that the embedded cluster serves, as its file wants them."""
        folder.mkdir(parents=True, exist_ok=True)
        traces = self.traces(folder)
        return self._served(folder, [{"source": "trace", "trace": str(trace)} for trace in traces])

    def constant(self, folder: Path, load: float) -> Path:
        """The same file with one load for everybody."""
        return self._served(folder, [{"source": "constant", "value": load}])

    def _served(self, folder: Path, sources: list[dict[str, Any]]) -> Path:
        served = [{**self.series(n), **sources[n % len(sources)]} for n in range(self.workloads)]
        path = folder / "metrics.yaml"
        path.write_text(yaml.safe_dump(served))
        return path

    def series(self, n: int) -> dict[str, Any]:
        """What names the n-th workload's metric where it is served."""
        return {"name": self.metric(n), "namespace": self.namespace(n), "labels": {"app": self.name(n)}}

    def cloud(self, folder: Path) -> Path:
        """The cloud with the group that requests order from and that of loads that come and go, as its file wants it."""
        folder.mkdir(parents=True, exist_ok=True)
        asked = moving.group(
            GROUP, most=2 * REQUESTED_PODS * self.namespaces, boot="uniform:20:40", machine_type="g8"
        )
        alone = moving.group(ALONE, most=2 * MAX_REPLICAS * self.alone)
        path = folder / "cloud.yaml"
        path.write_text(yaml.safe_dump({"groups": [asked, alone, moving.group()]}))
        return path

    def before(self) -> list[tuple[str, dict[str, Any]]]:
        """Path of the collection and object, in the order in which they are made: what has to be there first."""
        made: list[tuple[str, dict[str, Any]]] = []
        for i in range(self.namespaces):
            name = f"team-{i}"
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            made.append(("/api/v1/namespaces", manifest))
            made += [
                (f"/api/v1/namespaces/{name}/podtemplates", t)
                for t in (template_anywhere(), template_in_group())
            ]
        for n in range(self.workloads):
            if self.is_spread(n):
                path = f"/apis/apps.kruise.io/v1alpha1/namespaces/{self.namespace(n)}/workloadspreads"
                made.append((path, workload_spread(self.name(n))))
        return made

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """The rest, likewise."""
        made: list[tuple[str, dict[str, Any]]] = []
        for n in range(self.workloads):
            namespace, name = self.namespace(n), self.name(n)
            alone = self.is_alone(n)
            made.append(
                (
                    f"/apis/apps/v1/namespaces/{namespace}/deployments",
                    deployment(namespace, name, 1 + n % 3, alone=alone),
                )
            )
            made.append(
                (
                    f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers",
                    autoscaler(namespace, name, self.metric(n), forecast="lead=1m" if alone else ""),
                )
            )
        for i in range(self.namespaces):
            path = f"/apis/autoscaling.x-k8s.io/v1/namespaces/team-{i}/provisioningrequests"
            made.append(
                (path, request("check", CHECK, "anywhere") if i % 2 else request("atomic", ATOMIC, GROUP))
            )
        return made + self.shards.manifests() + moving.manifests(IMAGE)


def recording() -> list[float]:
    """The recorded day that the demo plays, too."""
    text = (files("tidewright.cli.demo") / "load.csv").read_text()
    return [float(row["value"]) for row in csv.DictReader(text.splitlines())]


def deployment(namespace: str, name: str, replicas: int, *, alone: bool) -> dict[str, Any]:
    labels = {"app": name}
    requests = {"cpu": "7" if alone else "10m", "memory": "16Mi"}
    container = {"name": "app", "image": IMAGE, "resources": {"requests": requests}}
    where = moving.only_in(ALONE) if alone else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **where}},
        },
    }


def autoscaler(namespace: str, name: str, metric: str, *, forecast: str = "") -> dict[str, Any]:
    external = {
        "metricName": metric,
        "metricSelector": {"matchLabels": {"app": name}},
        "highWatermark": str(HIGH),
        "lowWatermark": str(LOW),
    }
    annotations = {FORECAST: forecast} if forecast else {}
    return {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "algorithm": "average",
            "minReplicas": 1,
            "maxReplicas": MAX_REPLICAS,
            "tolerance": "10m",
            "scaleUpLimitFactor": "100",
            "scaleDownLimitFactor": "90",
            "upscaleForbiddenWindowSeconds": WINDOW_UP_S,
            "downscaleForbiddenWindowSeconds": WINDOW_DOWN_S,
            "metrics": [{"type": "External", "external": external}],
        },
    }


def workload_spread(name: str) -> dict[str, Any]:
    """At most `FIRST` pods in one subset, the others in a second one."""

    def subset(of: str, **more: int) -> dict[str, Any]:
        return {"name": of, "patch": {"metadata": {"labels": {"subset": of}}}, **more}

    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "subsets": [subset("first", maxReplicas=FIRST), subset("second")],
        },
    }


def template_anywhere() -> dict[str, Any]:
    """A small pod that fits on the nodes that are there."""
    return pod_template("anywhere", "10m", {})


def template_in_group() -> dict[str, Any]:
    """A pod that takes a node of the group for itself."""
    return pod_template(GROUP, "5", moving.only_in(GROUP))


def pod_template(name: str, cpu: str, more: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "work", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {"metadata": {"labels": {"app": "worker"}}, "spec": {"containers": [container], **more}},
    }


def request(name: str, cls: str, template: str) -> dict[str, Any]:
    """Ask for capacity; nobody comes to use it."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name},
        "spec": {
            "provisioningClassName": cls,
            "podSets": [{"count": REQUESTED_PODS, "podTemplateRef": {"name": template}}],
        },
    }


def nodes_for(workloads: int) -> int:
    """Simulated nodes that hold every workload at its most replicas (110 pods each)."""
    return max(2, math.ceil(workloads * MAX_REPLICAS / 90))
