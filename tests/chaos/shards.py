"""Sharding objects of the scenario: ShardSets whose pods the manager starts, and fleets of the propeller manager.

Both are resized and rolled out at random while things are killed, and told their last size at the end. Slots
go to pods by ranges, so that the end is one whatever went before it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.chaos import moving
from tests.chaos.moving import Change
from tidewright.sharding.keyspace import runs, shard_range
from tidewright.shardmanager.propeller.config import FLYTE, ShardConfig
from tidewright.shardmanager.propeller.config_hash import config_hash

SET = "shards"
SETS = "/apis/shards.tidewright.dev/v1alpha1/shardsets"
CONFIG = ("team-0", "tidewright")
"""Namespace and name of the ConfigMap in which the fleets stand."""
SLOTS = 32
FIRST_SIZE, LAST_SIZE = 2, 4
MOST = 6
LAST_RELEASE = "last"
RELEASE = "release"
EVERY = 6
"""Namespaces from one with a ShardSet, or with a fleet, to the next."""
FLEET = FLYTE.application
TEMPLATES = {SET: "work", FLYTE.template: FLEET}
"""PodTemplates and their containers."""
END_S = 2
"""Grace period of the pods, log seconds."""


class Shards:
    """The ShardSets and fleets of some namespaces, and what was last asked of them."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        self.sets = [name for i, name in enumerate(namespaces) if i % EVERY == 0]
        self.fleets = [name for i, name in enumerate(namespaces) if i % EVERY == min(3, len(namespaces) - 1)]
        self._sizes = dict.fromkeys(self.fleets, FIRST_SIZE)

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """Path of the collection and object, in the order in which they are made."""
        made = [
            (f"/api/v1/namespaces/{namespace}/podtemplates", _template(name))
            for name, namespaces in ((SET, self.sets), (FLYTE.template, self.fleets))
            for namespace in namespaces
        ]
        for namespace in self.sets:
            path = f"/apis/shards.tidewright.dev/v1alpha1/namespaces/{namespace}/shardsets"
            made.append((path, _shard_set(FIRST_SIZE)))
        namespace, name = CONFIG
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **self._config()}
        return [*made, (f"/api/v1/namespaces/{namespace}/configmaps", config)]

    def change(self, draw: random.Random) -> Change:
        """A new size, or a new template, of something."""
        if draw.random() < 0.5:
            return self._sized(draw.choice([*self.sets, *self.fleets]), draw.randint(1, MOST), draw)
        namespace = draw.choice([*self.sets, *self.fleets])
        return self._released(namespace, str(draw.randrange(1000)))

    def last(self) -> list[Change]:
        """What everything ends with."""
        for namespace in self.fleets:
            self._sizes[namespace] = LAST_SIZE
        changes = [(self._set_path(namespace), _size(LAST_SIZE)) for namespace in self.sets]
        changes.append((self._config_path(), self._config()))
        return changes + [self._released(namespace, LAST_RELEASE) for namespace in [*self.sets, *self.fleets]]

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the end: what each was told, by namespace and name."""
        wanted = {
            f"{namespace}/{SET}-{i}": {"slots": runs(shard_range(SLOTS, LAST_SIZE, i))}
            for namespace in self.sets
            for i in range(LAST_SIZE)
        }
        hash_ = config_hash(ShardConfig(shard_count=LAST_SIZE))
        wanted |= {
            f"{namespace}/{FLEET}-{i}": {"hash": hash_} for namespace in self.fleets for i in range(LAST_SIZE)
        }
        return {name: {**told, "phase": "Running", RELEASE: LAST_RELEASE} for name, told in wanted.items()}

    def owners(self) -> dict[str, int]:
        """Slots of each shard of a ShardSet at the end."""
        return {f"{SET}-{i}": len(shard_range(SLOTS, LAST_SIZE, i)) for i in range(LAST_SIZE)}

    def _sized(self, namespace: str, size: int, draw: random.Random) -> Change:
        if namespace in self.sets and (namespace not in self.fleets or draw.random() < 0.5):
            return self._set_path(namespace), _size(size)
        self._sizes[namespace] = size
        return self._config_path(), self._config()

    def _released(self, namespace: str, release: str) -> Change:
        name = SET if namespace in self.sets else FLYTE.template
        path = f"/api/v1/namespaces/{namespace}/podtemplates/{name}"
        return path, {"template": {"metadata": {"labels": {RELEASE: release}}}}

    def _config(self) -> dict[str, Any]:
        managers = [
            {
                "namespace": namespace,
                "brand": FLYTE.namespace,
                "config": {
                    "manager": {
                        "pod-template-namespace": namespace,
                        "shard": {"type": "Hash", "shard-count": size},
                    }
                },
            }
            for namespace, size in self._sizes.items()
        ]
        shared = msgspec.json.encode({"managers": managers}).decode()
        return {"data": {"shardmanager.yaml": shared, **moving.config()}}

    @staticmethod
    def _config_path() -> str:
        return "/api/v1/namespaces/{}/configmaps/{}".format(*CONFIG)

    @staticmethod
    def _set_path(namespace: str) -> str:
        return f"/apis/shards.tidewright.dev/v1alpha1/namespaces/{namespace}/shardsets/{SET}"


def _size(replicas: int) -> dict[str, Any]:
    return {"spec": {"workers": {"replicas": replicas}}}


def _shard_set(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "shards.tidewright.dev/v1alpha1",
        "kind": "ShardSet",
        "metadata": {"name": SET},
        "spec": {
            "keyspace": {"slots": SLOTS},
            "workers": {
                "driver": "pods",
                "injector": "slots-env",
                "replicas": replicas,
                "template": {"name": SET, "container": TEMPLATES[SET]},
            },
            "assignment": {"strategy": "ranges"},
            # A pod of a node that is away for a while is not given up, and a rollout not paused.
            "handover": {"mode": "restart", "fenceAfter": "24h"},
            "rollout": {"minReady": "1s", "progressDeadline": "24h"},
        },
    }


def _template(name: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    container = {"name": TEMPLATES[name], "image": "registry.k8s.io/pause:3.10", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {
            "metadata": {"labels": {RELEASE: "first"}},
            "spec": {"terminationGracePeriodSeconds": END_S, "containers": [container]},
        },
    }
