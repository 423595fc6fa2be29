"""A played cluster whose watcher tells what rules about removing nodes ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.explaining import EXPLAINER

GIB = 2**30
OWNER = f.Owner(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)


class Watched(Cluster):
    """A cluster whose watcher tells what rules about removing nodes ask for."""

    def __init__(self, config: JsonObject | None = None, **how: Any) -> None:
        super().__init__(config, **how)
        self.tell(
            f.WorkloadObserved(
                at=self.now, namespace="ns", name="web", api_version="apps/v1", kind="ReplicaSet", replicas=9
            )
        )
        self.small = self.shape({"cpu": 500, "memory": GIB}, labels={"app": "web"})

    def nodes(self, count: int, group: str = "g", minimum: int = 0, **extra: Any) -> None:
        self.add_group(group, minimum=minimum, target=count, **extra)
        for i in range(count):
            self.known(f"{group}{i}", group)

    def known(self, name: str, group: str, **more: Any) -> None:
        """A node that has been there for long."""
        template = self.groups[group].template
        self.groups[group].instances.append(p.Instance(id=f"sim://{name}", state="running"))
        self.observe_group(group)
        self.again(name, template.allocatable, **more)

    def again(self, name: str, allocatable: Mapping[str, int], **more: Any) -> None:
        fields: dict[str, Any] = {
            "labels": {"kubernetes.io/hostname": name},
            "ready": True,
            "ready_changed_at": self.now - 7200,
            "created_at": self.now - 7200,
            "delays": (),
            "provider_id": f"sim://{name}",
            **more,
        }
        self.tell(
            f.NodeObserved(
                at=self.now,
                name=name,
                uid=f"uid-{name}",
                allocatable=dict(allocatable),
                **fields,
            )
        )

    def placed(self, name: str, node: str, **more: Any) -> None:
        fields: dict[str, Any] = {"owners": (OWNER,), "removal": f.Removal(), **more}
        self.pod(name, fields.pop("shape", self.small), node=node, **fields)

    def gone(self, name: str) -> None:
        self.tell(f.PodGone(at=self.now, namespace="ns", name=name, uid=f"uid-{name}"))

    def budget(self, allowed: int) -> None:
        self.tell(
            p.PodDisruptionBudgetObserved(
                at=self.now,
                namespace="ns",
                name="web",
                selector={"matchLabels": {"app": "web"}},
                allowed=allowed,
            )
        )

    @property
    def unneeded(self) -> set[str]:
        return set(self.state.unneeded)

    def standing(self, node: str) -> str:
        """What `explain` says of a node as it is now."""
        copied = msgspec.json.decode(msgspec.json.encode(self.state), type=State)
        return " ".join(EXPLAINER.standing(copied, Reference("node", "", node), self.now))


def three_nodes(config: JsonObject | None = None) -> Watched:
    """One empty, one with a pod, one with many."""
    cluster = Watched(config)
    cluster.nodes(3)
    cluster.placed("one", "g1")
    for i in range(6):
        cluster.placed(f"many{i}", "g2")
    return cluster
