"""The kinds that the watcher follows: one line each. Pure.

Facts, subjects, checkpoints, RBAC and the watcher's tasks derive from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import msgspec

from tidewright.events.facts import (
    NodeGone,
    ObjectFact,
    PodGone,
    WatermarkPodAutoscalerGone,
    WatermarkPodAutoscalerObserved,
    WorkloadGone,
)
from tidewright.events.spread import WorkloadSpreadGone, WorkloadSpreadObserved
from tidewright.kube import projection
from tidewright.kube.projection import Project

Gone: TypeAlias = Callable[..., ObjectFact]
"""Makes the fact that an object is gone, of `at`, `namespace`, `name` and `uid`."""


class WatchedKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of objects.

    Attributes:
        group: empty for the core group.
        plural: its name in paths.
        project: raw bytes to a fact.
        gone: makes the fact that one of them vanished.
        after_others: listed when the other kinds have been, because its facts refer to theirs.
        shaped: its projections carry shapes.
    """

    group: str = ""
    version: str
    plural: str
    kind: str
    project: Project
    gone: Gone
    after_others: bool = False
    shaped: bool = False

    @property
    def name(self) -> str:
        """Its name in subjects and checkpoints: the kind in lower case."""
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return (
            f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/{self.version}/{self.plural}"
        )


def _apps(kind: str, plural: str) -> WatchedKind:
    return WatchedKind(
        group="apps",
        version="v1",
        plural=plural,
        kind=kind,
        project=projection.workload("apps/v1", kind),
        gone=partial(WorkloadGone, api_version="apps/v1", kind=kind),
    )


KINDS: tuple[WatchedKind, ...] = (
    WatchedKind(
        version="v1",
        plural="pods",
        kind="Pod",
        project=projection.pod,
        gone=PodGone,
        shaped=True,
    ),
    WatchedKind(version="v1", plural="nodes", kind="Node", project=projection.node, gone=NodeGone),
    _apps("ReplicaSet", "replicasets"),
    _apps("Deployment", "deployments"),
    _apps("StatefulSet", "statefulsets"),
    WatchedKind(
        group="datadoghq.com",
        version="v1alpha1",
        plural="watermarkpodautoscalers",
        kind="WatermarkPodAutoscaler",
        project=projection.resource("WatermarkPodAutoscaler", WatermarkPodAutoscalerObserved),
        gone=WatermarkPodAutoscalerGone,
        after_others=True,
    ),
    WatchedKind(
        group="apps.kruise.io",
        version="v1alpha1",
        plural="workloadspreads",
        kind="WorkloadSpread",
        project=projection.resource("WorkloadSpread", WorkloadSpreadObserved),
        gone=WorkloadSpreadGone,
        after_others=True,
    ),
)

BY_NAME: dict[str, WatchedKind] = {kind.name: kind for kind in KINDS}
BY_KIND: dict[tuple[str, str], WatchedKind] = {(kind.group, kind.kind): kind for kind in KINDS}
