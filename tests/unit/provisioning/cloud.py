"""The simulated cloud's books behind the provider interface, without a network: for tests of who uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.cloud.errors import CloudError
from tidewright.cloud.provider import GroupOptions, Instance, NodeTemplate, Promise
from tidewright.sim.cloud.config import CloudConfig, GroupConfig
from tidewright.sim.cloud.engine import Engine

SHAPE = NodeTemplate(capacity={"cpu": "4", "memory": "16Gi", "pods": "110"}, labels={"kind": "m4"})


def group(name: str = "g", **more: Any) -> GroupConfig:
    return GroupConfig(**{"id": name, "max": 10, "boot": "10", "template": SHAPE, **more})


class Cloud:
    """A provider at a moment that the test moves.

    Attributes:
        refuse: called before every call with its name; what it raises is the cloud's answer.
        lose: names of calls that are done without an answer, each once.
    """

    name = "books"
    promise = Promise.KEY

    def __init__(self, *groups: GroupConfig, **config: Any) -> None:
        self.now = 0.0
        self.engine = Engine(CloudConfig(groups=groups, **config), self.now)
        self.calls: list[str] = []
        self.refuse: Callable[[str], None] = lambda name: None
        self.lose: list[tuple[str, CloudError]] = []

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.engine.due(self.now)

    def asked(self, name: str) -> None:
        self.calls.append(name)
        self.refuse(name)

    def answered(self, name: str) -> None:
        for entry in self.lose:
            if entry[0] == name:
                self.lose.remove(entry)
                raise entry[1]

    async def refresh(self) -> None:
        self.asked("refresh")

    def node_groups(self) -> Sequence[Any]:
        return [CloudGroup(self, name) for name in sorted(self.engine.groups)]

    async def group(self, name: str) -> CloudGroup:
        self.asked("group")
        self.engine.group(name)
        return CloudGroup(self, name)

    async def new_node_group(self, machine_type: str, **wanted: Any) -> CloudGroup:
        config = group(
            wanted["group_id"], max=wanted["max_size"], machine_type=machine_type, autoprovisioned=True
        )
        return CloudGroup(self, config.id, config)

    async def machine_types(self) -> Sequence[Any]:
        return ()

    async def cleanup(self) -> None:
        self.calls.append("cleanup")


class CloudGroup:
    """One group of a `Cloud`."""

    def __init__(self, cloud: Cloud, name: str, new: GroupConfig | None = None) -> None:
        self._cloud, self.id, self._new = cloud, name, new

    @property
    def _config(self) -> GroupConfig:
        return self._new or self._cloud.engine.group(self.id).config

    def __getattr__(self, name: str) -> Any:
        fields = {"min_size": "min", "max_size": "max"}
        if name in ("ignored", "initial"):
            return {"ignored": (), "initial": 0}[name]
        if name == "zone":
            return self._config.zones[0] if len(self._config.zones) == 1 else ""
        return getattr(self._config, fields.get(name, name))

    async def target_size(self) -> int:
        self._cloud.asked("target")
        return self._cloud.engine.group(self.id).target

    async def nodes(self) -> Sequence[Instance]:
        self._cloud.asked("nodes")
        return self._cloud.engine.instances(self.id)

    async def template(self) -> NodeTemplate:
        return self._config.template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        found: Mapping[str, Any] = msgspec.to_builtins(self._config.options)
        return msgspec.structs.replace(defaults, **found)

    async def begun(self, key: str) -> int:
        return 0

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        self._cloud.asked("increase")
        self._cloud.engine.increase(self.id, delta, self._cloud.now, key=key, expect=expect)
        self._cloud.answered("increase")

    async def atomic_increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        self._cloud.asked("atomic")
        self._cloud.engine.increase(self.id, delta, self._cloud.now, key=key, expect=expect, atomic=True)
        self._cloud.answered("atomic")

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        self._cloud.asked("decrease")
        self._cloud.engine.decrease(self.id, delta, self._cloud.now, key=key, expect=expect)
        self._cloud.answered("decrease")

    async def delete_nodes(self, ids: Sequence[str], *, key: str) -> None:
        self._cloud.asked("delete")
        self._cloud.engine.delete(self.id, ids, self._cloud.now, key=key)
        self._cloud.answered("delete")

    async def force_delete_nodes(self, ids: Sequence[str], *, key: str) -> None:
        self._cloud.asked("force")
        self._cloud.engine.delete(self.id, ids, self._cloud.now, key=key, force=True)

    async def create(self, *, key: str) -> CloudGroup:
        self._cloud.asked("create")
        self._cloud.engine.create_group(self._config, key=key)
        return CloudGroup(self._cloud, self.id)

    async def delete(self, *, key: str) -> None:
        self._cloud.asked("remove")
        self._cloud.engine.delete_group(self.id, key=key)
