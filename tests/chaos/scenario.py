"""The cluster's objects and their load: recorded, in compressed time, constant at the end.

The end has one fixed point whatever happened before: for each workload exactly one number of
replicas lies between its watermarks at its last load, and the load stays there for longer than every
window of the autoscaler.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

HIGH, LOW = 10, 8
"""Watermarks per replica. From 5 replicas on more than one number could lie between them."""
MAX_REPLICAS = 12
PEAK, FINAL = 70.0, 38.0
"""Load per workload: the recording's peak, and the last value, which 4 replicas carry: 9.5 each."""
FINAL_REPLICAS = 4
WINDOW_UP_S, WINDOW_DOWN_S = 60, 120
IMAGE = "registry.k8s.io/pause:3.10"
PATTERNS = 8


def fixed_points() -> list[int]:
    """Numbers of replicas at which the last load lies between the watermarks."""
    return [n for n in range(1, MAX_REPLICAS + 1) if LOW <= FINAL / n <= HIGH]


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

    def namespace(self, n: int) -> str:
        """The namespace of the n-th workload."""
        return f"team-{n % self.namespaces}"

    def name(self, n: int) -> str:
        """The name of the n-th workload and of its autoscaler."""
        return f"app-{n}"

    def metric(self, n: int) -> str:
        """The n-th workload's metric."""
        return f"app-{n}.load"

    @property
    def settled_after_s(self) -> float:
        """Wall seconds of constant load that outlast every window, twice."""
        return 2 * (WINDOW_UP_S + WINDOW_DOWN_S + self.interval_s) / self.speed

    def traces(self, folder: Path) -> list[Path]:
        """The recording as files, each beginning elsewhere in it, all ending in the constant."""
        recorded = recording()
        scale = PEAK / max(recorded)
        step = self.load_s * self.speed / len(recorded)
        paths = []
        for pattern in range(PATTERNS):
            shift = pattern * len(recorded) // PATTERNS
            values = [scale * v for v in recorded[shift:] + recorded[:shift]]
            rows = [(self.start + i * step, max(4.0, round(v, 3))) for i, v in enumerate(values)]
            rows.append((self.start + self.load_s * self.speed, FINAL))
            path = folder / f"load-{pattern}.csv"
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([("timestamp", "value"), *rows])
            paths.append(path)
        return paths

    def metrics(self, folder: Path) -> Path:
        """The metrics that the embedded cluster serves, as its file wants them."""
        folder.mkdir(parents=True, exist_ok=True)
        traces = self.traces(folder)
        served = [
            {
                "name": self.metric(n), "namespace": self.namespace(n), "labels": {"app": self.name(n)},
                "source": "trace", "trace": str(traces[n % PATTERNS]), "value": 10.0,
            }
            for n in range(self.workloads)
        ]  # fmt: skip
        path = folder / "metrics.yaml"
        path.write_text(yaml.safe_dump(served))
        return path

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """Path of the collection and object, in the order in which they are made."""
        made: list[tuple[str, dict[str, Any]]] = []
        for i in range(self.namespaces):
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace(i)}}
            made.append(("/api/v1/namespaces", manifest))
        for n in range(self.workloads):
            namespace, name = self.namespace(n), self.name(n)
            made.append(
                (f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(namespace, name, 1 + n % 3))
            )
            made.append(
                (
                    f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers",
                    autoscaler(namespace, name, self.metric(n)),
                )
            )
        return made


def recording() -> list[float]:
    """The recorded day that the demo plays, too."""
    text = (files("tidewright.cli.demo") / "load.csv").read_text()
    return [float(row["value"]) for row in csv.DictReader(text.splitlines())]


def deployment(namespace: str, name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(namespace: str, name: str, metric: str) -> dict[str, Any]:
    external = {
        "metricName": metric,
        "metricSelector": {"matchLabels": {"app": name}},
        "highWatermark": str(HIGH),
        "lowWatermark": str(LOW),
    }
    return {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
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


def nodes_for(workloads: int) -> int:
    """Simulated nodes that hold every workload at its most replicas (110 pods each)."""
    return max(2, math.ceil(workloads * MAX_REPLICAS / 100))
