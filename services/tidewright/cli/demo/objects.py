"""What the demo's load is put on: a Deployment, and a WatermarkPodAutoscaler with marks that fit the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMESPACE, NAME, METRIC = "demo", "shop", "shop.requests"
CONFIG_MAP = "tidewright"
"""The services' configuration, in the same namespace."""
LABELS = {"app": NAME}
MAX_REPLICAS = 20
PEAK_REPLICAS = 10
"""Replicas that the highest load shall need."""


@dataclass(frozen=True)
class Marks:
    """Watermarks per replica, in the metric's own unit: above `high` more replicas, below `low` fewer."""

    high: int
    low: int


def marks_for(values: Sequence[float]) -> Marks:
    """Marks under which the 98th percentile of the load needs about `PEAK_REPLICAS` replicas."""
    ordered = sorted(values)
    peak = ordered[min(len(ordered) - 1, math.ceil(0.98 * len(ordered)))]
    high = max(2, math.ceil(peak / PEAK_REPLICAS))
    return Marks(high=high, low=max(1, int(high * 0.6)))


@dataclass(frozen=True)
class Windows:
    """Cooldowns and patience of the autoscaler in log seconds, whole, at least its defaults.

    In compressed time a scaled workload and a sample take more log seconds to show, so they grow with the
    speed: an autoscaler that looks again before it can see its last step takes the same step twice, and
    one that is told late takes every value for a stale one.
    """

    up_s: int
    down_s: int
    stale_s: int

    @classmethod
    def at(cls, speed: float) -> Windows:
        """Windows for a speed in log seconds per wall second."""
        return cls(
            up_s=max(60, round(0.4 * speed)),
            down_s=max(300, round(0.5 * speed)),
            stale_s=max(300, round(speed)),
        )


def manifests(marks: Marks, windows: Windows) -> list[tuple[str, dict[str, Any]]]:
    """Path of the collection and object, in the order in which they are made."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": {"autoscaler": f"stale_after_s: {windows.stale_s}\n"},
    }
    container = {
        "name": "shop",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
        },
    }
    external = {
        "metricName": METRIC,
        "metricSelector": {"matchLabels": LABELS},
        "highWatermark": str(marks.high),
        "lowWatermark": str(marks.low),
    }
    autoscaler = {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "algorithm": "average",
            "minReplicas": 1,
            "maxReplicas": MAX_REPLICAS,
            "tolerance": "50m",
            "tolerateZero": True,
            "scaleUpLimitFactor": "100",
            "scaleDownLimitFactor": "50",
            "upscaleForbiddenWindowSeconds": windows.up_s,
            "downscaleForbiddenWindowSeconds": windows.down_s,
            "metrics": [{"type": "External", "external": external}],
        },
    }
    return [
        ("/api/v1/namespaces", namespace),
        (f"/api/v1/namespaces/{NAMESPACE}/configmaps", configuration),
        (f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", deployment),
        (f"/apis/datadoghq.com/v1alpha1/namespaces/{NAMESPACE}/watermarkpodautoscalers", autoscaler),
    ]
