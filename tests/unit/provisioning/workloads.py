"""A played cluster in which workloads are told of, with their templates and their pods."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.kube.templates import Templates

ON: JsonObject = {"foresight": "workloads"}
_templates = Templates()


def replica_set(name: str, **more: Any) -> f.Owner:
    fields: dict[str, Any] = {
        "api_version": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True,
    }  # fmt: skip
    return f.Owner(**{**fields, **more})


class Workloads(Cluster):
    """Tells of workloads as the watcher does: the template first, once, then who has it."""

    def __init__(self, config: JsonObject | None = None, **how: Any) -> None:
        super().__init__(ON if config is None else config, **how)
        self.told: dict[str, f.WorkloadObserved] = {}

    def form(self, cpu: str = "3", **spec: Any) -> str:
        """A template of pods that ask for so much; its digest."""
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        whole = {"containers": [container], **spec}
        template = _templates.of("ns", msgspec.json.encode(whole), b"null")
        self.tell(msgspec.structs.replace(template, at=self.now))
        return template.digest

    def workload(self, kind: str, name: str, replicas: int, **more: Any) -> None:
        """A workload as it is by now; what is not said is as it was."""
        version = {"Job": "batch/v1", "CloneSet": "apps.kruise.io/v1alpha1"}.get(kind, "apps/v1")
        before = self.told.get(f"{kind}/{name}")
        if before is None:
            before = f.WorkloadObserved(
                at=self.now, namespace="ns", name=name, uid=f"uid-{name}", api_version=version, kind=kind
            )
        fact = msgspec.structs.replace(before, **{"at": self.now, "replicas": replicas, **more})
        self.told[f"{kind}/{name}"] = fact
        self.tell(fact)

    def deployment(self, name: str, replicas: int, **more: Any) -> None:
        self.workload("Deployment", name, replicas, **more)

    def replicas_of(self, deployment: str, name: str, replicas: int, **more: Any) -> None:
        """A ReplicaSet of a Deployment."""
        owner = replica_set(deployment, kind="Deployment")
        self.workload("ReplicaSet", name, replicas, owners=(owner,), **more)

    def scaled(self, name: str, replicas: int, *, kind: str = "Deployment", **more: Any) -> str:
        """The autoscaler decides to scale a workload; the decision's id."""
        fact = self.told[f"{kind}/{name}"]
        decided = f"autoscaler.3.{len(self.log)}.0"
        self.tell(
            ScaleWorkload(
                at=self.now,
                id=decided,
                target=ObjectRef(
                    api_version=fact.api_version, kind=kind, namespace="ns", name=name, uid=fact.uid
                ),
                replicas=replicas,
                from_replicas=fact.replicas,
                owner=f"WatermarkPodAutoscaler/ns/{name}",
                **more,
            )
        )
        return decided

    def made(self, name: str, shape: str, owner: f.Owner, **more: Any) -> None:
        """A pod that its controller has made; the scheduler has not looked at it unless more is said."""
        self.tell(
            f.PodObserved(
                at=self.now,
                namespace="ns",
                name=name,
                uid=f"uid-{name}",
                shape=shape,
                phase="Running" if more.get("node") else "Pending",
                created_at=self.now,
                owners=(owner,),
                removal=f.Removal(),
                **more,
            )
        )
