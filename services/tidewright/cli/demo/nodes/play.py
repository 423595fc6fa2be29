"""The story of nodes as it is played: what the cloud has, which pods come and go, and when."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tidewright.asking.answers.form import builtins
from tidewright.cli.demo.nodes.story import NAMESPACE, NodesStory
from tidewright.cli.demo.nodes.summary import NodesRun, as_text, summary
from tidewright.cli.demo.nodes.view import view_for
from tidewright.cli.stack import StackOptions
from tidewright.cli.typed import typed
from tidewright.kube.client import Kube
from tidewright.log.clock import Clock

SERVICES = ("watcher", "provisioning", "actuator")
DURATION_S = 80 * 60.0
"""How long the story is, log seconds."""
SECONDS = 40.0
"""Wall seconds that it takes at the default speed."""
SETTLE_WITHIN_S = 10.0
"""Wall seconds that removals which are under way at the end may take."""
CONFIG_MAP = "tidewright"
APART = 2
"""Pods of the shop that may be away at once, by its disruption budget."""

WORKLOADS = {"shop": ("1", "2Gi"), "batch": ("6", "8Gi")}
"""Deployments: CPU and memory that each of their pods asks for."""
TIMETABLE = (
    (0, "shop", 4), (4, "shop", 12), (12, "batch", 6), (16, "shop", 32),
    (30, "batch", 0), (34, "shop", 14), (50, "shop", 5),
)  # fmt: skip
"""Minute of the story, Deployment, and how many replicas it has from then on."""


def groups() -> dict[str, Any]:
    """What the simulated cloud has: small machines, of which one always stays, and large ones."""

    def group(name: str, cpu: int, price: float, **sizes: int) -> dict[str, Any]:
        capacity = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
        return {
            "id": name, "boot": "uniform:40:70", "price_per_hour": price, **sizes,
            "template": {"capacity": capacity, "labels": {"pool": name}},
        }  # fmt: skip

    return {"groups": [group("small", 4, 0.20, min=1, max=12, initial=1), group("large", 16, 0.72, max=4)]}


def settings(speed: float) -> dict[str, Any]:
    """Settings of provisioning for a speed in log seconds per wall second.

    Waits are Cluster Autoscaler's or shorter, so that the story shows more than waiting; where time is compressed
    further they grow, as what is done takes more log seconds to show.
    """
    wait = f"{max(240, round(2 * speed))}s"
    return {
        "namespace": NAMESPACE,
        "expander": "least-cost",
        "scale-down-unneeded-time": wait,
        "scale-down-delay-after-add": wait,
        "scale-down-delay-after-failure": f"{max(60, round(speed))}s",
        "unremovable-node-recheck-timeout": f"{max(60, round(speed))}s",
        "scan-interval": f"{max(10, round(0.2 * speed))}s",
        "max-pod-eviction-time": f"{max(120, round(10 * speed))}s",
        "max-node-provision-time": f"{max(900, round(15 * speed))}s",
    }


def manifests(speed: float) -> list[tuple[str, dict[str, Any]]]:
    """Path of the collection and object, in the order in which they are made."""
    made: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP},
                "data": {"provisioning": yaml.safe_dump(settings(speed))},
            },
        ),
        (
            f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
            {
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "shop"},
                "spec": {"maxUnavailable": APART, "selector": {"matchLabels": {"app": "shop"}}},
            },
        ),
    ]  # fmt: skip
    made += [
        (f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", _deployment(name, *asks))
        for name, asks in WORKLOADS.items()
    ]
    return made


def _deployment(name: str, cpu: str, memory: str) -> dict[str, Any]:
    """A Deployment without pods as yet."""
    container = {
        "name": name,
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


class NodesPlay:
    """Pods come and go by the timetable, and nodes follow."""

    end: float
    settle_within_s = SETTLE_WITHIN_S

    def __init__(self, folder: Path, speed: float | None, *, json_output: bool) -> None:
        self.folder, self._json = folder, json_output
        self._speed = speed or DURATION_S / SECONDS
        start = float(int(time.time()))
        self.end = start + DURATION_S
        self.telling = NodesStory()
        self._run = NodesRun(
            start=start, end=self.end, speed=self._speed, folder=str(folder), cluster="demo",
            command=typed("tidewright"),
        )  # fmt: skip

    def heading(self) -> str:
        """What is played, and where to look at it."""
        return (
            f"story: {DURATION_S / 60:,.0f} minutes of pods that come and go, at {self._speed:,.0f} times the speed\n"
            f"logs of the services: {self.folder / 'services.log'}\n"
            "look at it meanwhile, in another terminal:\n"
            f"  {typed('kubectl')} --kubeconfig {self.folder / 'kubeconfig'} get nodes,deployments,pods,pdb -n {NAMESPACE}\n"
            f"  {typed('tidewright')} console\n"
            f"starting: log, cluster, cloud, {', '.join(SERVICES)}"
        )

    def options(self, wall: float) -> StackOptions:
        """The stack; the timetable begins at `wall`."""
        cloud = self.folder / "groups.yaml"
        cloud.write_text(yaml.safe_dump(groups()))
        return StackOptions(
            data=self.folder, made_by="demo", max_age_s=0.0, cluster=self._run.cluster, services=SERVICES, slots=4,
            speed=self._speed, log_start=self._run.start, clock_wall=wall,
            sim=("--nodes", "0"), node_groups=cloud,
            watcher=("--config-map", f"{NAMESPACE}/{CONFIG_MAP}"),
            stop_within_s=5.0,
        )  # fmt: skip

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """The workloads without pods, and the settings."""
        return manifests(self._speed)

    @contextmanager
    def view(self) -> Iterator[Callable[[], None]]:
        """Shows what is known, each time it is called."""
        with view_for(self._run, json_output=self._json) as view:
            yield lambda: view.update(self.telling)

    async def perform(self, kube: Kube, clock: Clock) -> None:
        """Scale the Deployments by the timetable."""
        for minute, name, replicas in TIMETABLE:
            begins = clock.wall_seconds(self._run.start + 60 * minute - clock.now())
            await asyncio.sleep(max(0.0, begins))
            await kube.request(
                "PATCH",
                f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/scale",
                body=msgspec.json.encode({"spec": {"replicas": replicas}}),
                content_type="application/merge-patch+json",
            )

    def summary(self) -> str:
        """What happened and what it saved, as it is printed at the end."""
        if self._json:
            return json.dumps(builtins(summary(self.telling, self._run)), indent=2)
        return as_text(self.telling, self._run)
