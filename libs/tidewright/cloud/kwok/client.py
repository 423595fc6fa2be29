"""The provider interface over Node objects that a kwok controller keeps ready.

The nodes of an order are named by its key, so that a repeat finds them: nothing is made twice, whatever was lost.
"""

from __future__ import annotations

import os
import time
from base64 import b32encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote

from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import Conflict, Invalid, NotFound
from tidewright.cloud.kubernetes import Cluster
from tidewright.cloud.kwok import config as kwok
from tidewright.cloud.optional import MadeElsewhere, WithoutOptionalCalls
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    InstanceState,
    NodeTemplate,
    Promise,
)
from tidewright.cloud.providers import Surroundings

CONFIG_MAP: Final = "kwok-provider-config"
NAMESPACE: Final = "kube-system"
DECISION: Final = "tidewright.dev/decision"
"""Annotation of nodes: the key of the order that made them."""
NODES: Final = "/api/v1/nodes"
NEVER_SPOKE: Final = "NodeStatusNeverUpdated"
"""Reason of the condition Ready of a node of which no kubelet has said anything."""
KNOWN_S: Final = 60.0
"""How long templates are taken as they were read, wall seconds, where nobody refreshes."""
_SUFFIX: Final = 5
_NAME_ROOM: Final = 253 - _SUFFIX - 1
_TRIES: Final = 16


class KwokGroup(MadeElsewhere):
    """One group: a template and the Node objects made of it, as they were read."""

    CLOUD = "kwok"
    NOT_MADE = "groups of kwok are made by their templates"
    NOT_REMOVED = "groups of kwok go with their templates"

    def __init__(
        self, provider: KwokProvider, template: kwok.GroupTemplate, nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        self._provider = provider
        self._template = template
        self._nodes = {str(node["metadata"]["name"]): node for node in nodes}

    @property
    def id(self) -> str:
        return self._template.id

    @property
    def debug(self) -> str:
        problem = f", {self._template.problem}" if self._template.problem else ""
        return f"{self.id} ({self.min_size}..{self.max_size}{problem})"

    @property
    def min_size(self) -> int:
        return self._template.min_size

    @property
    def max_size(self) -> int:
        return self._template.max_size

    @property
    def price_per_hour(self) -> float | None:
        return None

    @property
    def machine_type(self) -> str:
        return self._label("node.kubernetes.io/instance-type")

    @property
    def zone(self) -> str:
        return self._label("topology.kubernetes.io/zone")

    def _label(self, name: str) -> str:
        labels = (self._template.node.get("metadata") or {}).get("labels") or {}
        return str(labels.get(name, ""))

    @property
    def initial(self) -> int:
        return self._template.initial

    @property
    def ignored(self) -> tuple[str, ...]:
        return ()

    @property
    def _size(self) -> int:
        return sum(not _leaving(node) for node in self._nodes.values())

    async def target_size(self) -> int:
        if self._template.problem:
            raise Invalid(self._template.problem)
        return self._size

    async def begun(self, key: str) -> int:
        return self._made_for(key)

    def _made_for(self, key: str) -> int:
        return sum(_key(node) == key and not _leaving(node) for node in self._nodes.values())

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        if delta <= 0:
            raise Invalid(f"{self.id}: increase by {delta}; the delta must be > 0")
        size = await self.target_size() - self._made_for(key)
        if expect is not None and size != expect:
            raise Conflict(f"{self.id}: target size is {size}, not {expect}")
        if size + delta > self.max_size:
            raise Invalid(f"{self.id}: size {size} + {delta} is above the maximum {self.max_size}")
        for number in range(delta):
            node = await self._provider.make(self._template, f"{key}/{number}", key)
            self._nodes[node["metadata"]["name"]] = node

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        del key  # what is gone is gone
        names = [self._own(instance_id) for instance_id in dict.fromkeys(instance_ids)]
        there = [name for name in names if name in self._nodes and not _leaving(self._nodes[name])]
        if self._size - len(there) < self.min_size:
            raise Invalid(f"{self.id}: size {self._size} - {len(there)} is below the minimum {self.min_size}")
        for name in there:
            await self._provider.unmake(self._nodes[name])
            del self._nodes[name]

    def _own(self, instance_id: str) -> str:
        name = instance_id.removeprefix(kwok.PROVIDER)
        owner = self._provider.owner(instance_id)
        if owner not in ("", self.id) or not instance_id.startswith(kwok.PROVIDER):
            raise Invalid(f"{self.id}: instance {instance_id} is of {owner or 'no'} group")
        return name

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        """Remove the newest nodes that never were ready: one that became so meanwhile stays."""
        del key
        if delta >= 0:
            raise Invalid(f"{self.id}: decrease by {delta}; the delta must be < 0")
        if expect is not None and self._size != expect:
            raise Conflict(f"{self.id}: target size is {self._size}, not {expect}")
        coming = sorted(
            (node for node in self._nodes.values() if not _leaving(node) and not _was_ready(node)),
            key=lambda node: (node["metadata"].get("creationTimestamp") or "", node["metadata"]["name"]),
        )
        if len(coming) < -delta:
            raise Invalid(
                f"{self.id}: decrease by {-delta}, but only {len(coming)} orders are unfulfilled;"
                " existing nodes are deleted by id"
            )
        for node in coming[delta:]:
            await self._provider.unmake(node, unready=True)
            del self._nodes[str(node["metadata"]["name"])]

    async def nodes(self) -> Sequence[Instance]:
        return [
            Instance(
                id=str((node.get("spec") or {}).get("providerID", "")),
                state=InstanceState.DELETING
                if _leaving(node)
                else InstanceState.RUNNING
                if _was_ready(node)
                else InstanceState.CREATING,
                zone=self.zone,
            )
            for _, node in sorted(self._nodes.items())
        ]

    async def template(self) -> NodeTemplate:
        return kwok.template_of(self._provider.settings, self._template)

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        return defaults


class KwokProvider(WithoutOptionalCalls):
    """Groups of the ConfigMaps of one namespace. Call `refresh` before reading groups."""

    NO_PRICES = "kwok has no prices"
    NO_MACHINE_TYPES = "kwok has no machine types"
    NO_NEW_GROUPS = KwokGroup.NOT_MADE

    name = "kwok"
    promise = Promise.KEY

    def __init__(self, cluster: Cluster, namespace: str, config_map: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._config_map = config_map
        self._groups: dict[str, KwokGroup] = {}
        self._templates: dict[str, kwok.GroupTemplate] = {}
        self._owners: dict[str, str] = {}
        self._read_at = float("-inf")
        self.settings = kwok.KwokConfig()

    async def refresh(self) -> None:
        await self._read_templates()
        by_group: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self._templates}
        owners: dict[str, str] = {}
        ids = {group.id: name for name, group in self._templates.items()}
        for node in await self._made():
            name = self.settings.group_of(node)
            if name in by_group:
                by_group[name].append(node)
                owners[str(node["spec"]["providerID"])] = self._templates[name].id
        self._owners = owners
        self._groups = {
            group_id: KwokGroup(self, self._templates[name], by_group[name]) for group_id, name in ids.items()
        }

    async def _read_templates(self) -> None:
        settings = kwok.config_of(await self._data(self._config_map, "config"), self._config_map)
        if settings.readNodesFrom == "configmap":
            at = settings.configmap
            nodes = kwok.manifests_of(await self._data(at.name, at.key), f"ConfigMap {at.name}, key {at.key}")
        else:
            nodes = [node for node in await self._cluster.items(NODES) if not _is_made(node)]
        self.settings = settings
        self._templates = kwok.groups_of(settings, nodes)
        self._read_at = time.monotonic()

    async def _data(self, name: str, key: str) -> str:
        path = f"/api/v1/namespaces/{quote(self._namespace)}/configmaps/{quote(name)}"
        data = (await self._cluster.ask("GET", path)).get("data") or {}
        if key not in data:
            raise Invalid(f"ConfigMap {self._namespace}/{name} has no key {key}")
        return str(data[key])

    async def _made(self) -> list[dict[str, Any]]:
        """Node objects of all groups, or of one value of the label."""
        label = self.settings.nodegroups.fromNodeLabelKey
        return [node for node in await self._cluster.items(NODES, label=label) if _is_made(node)]

    def node_groups(self) -> Sequence[KwokGroup]:
        return [group for _, group in sorted(self._groups.items())]

    async def group(self, group_id: str) -> KwokGroup:
        old = time.monotonic() - self._read_at > KNOWN_S
        if old or group_id not in {template.id for template in self._templates.values()}:
            await self._read_templates()
        value = next((n for n, template in self._templates.items() if template.id == group_id), None)
        if value is None:
            known = ", ".join(sorted(template.id for template in self._templates.values())) or "none"
            raise NotFound(f"no node group {group_id!r}; there are: {known}")
        key = self.settings.nodegroups.fromNodeLabelKey
        listed = await self._cluster.items(NODES, label=f"{key}={value}" if key else "")
        nodes = [node for node in listed if _is_made(node) and self.settings.group_of(node) == value]
        for node in nodes:
            self._owners[str(node["spec"]["providerID"])] = group_id
        return KwokGroup(self, self._templates[value], nodes)

    def owner(self, provider_id: str) -> str:
        """The group of a node that was read; empty for one that was not."""
        return self._owners.get(provider_id, "")

    async def make(self, template: kwok.GroupTemplate, seed: str, key: str) -> dict[str, Any]:
        """One Node, named by the order and its number in it; one that this order has made is found.

        Raises:
            CloudError: it was not made.
        """
        for attempt in range(_TRIES):
            digest = b32encode(blake2b(f"{seed}/{attempt}".encode(), digest_size=4).digest()).decode().lower()
            name = f"{template.id[:_NAME_ROOM]}-{digest[:_SUFFIX]}"
            manifest = kwok.node_manifest(self.settings, template, name, {DECISION: key})
            try:
                made: dict[str, Any] = await self._cluster.ask("POST", NODES, manifest)
            except Conflict:
                found: dict[str, Any] = await self._cluster.ask("GET", f"{NODES}/{quote(name)}")
                if _key(found) == key:
                    return found
                continue  # another order's node has the name
            self._owners[f"{kwok.PROVIDER}{name}"] = template.id
            return made
        raise Conflict(f"{template.id}: no free name for a node after {_TRIES} tries")

    async def unmake(self, node: Mapping[str, Any], *, unready: bool = False) -> None:
        """Remove a Node object, if it is still the one that was read.

        Args:
            node: as it was read.
            unready: only as long as it never was ready: others write on nodes that are new, which is looked at again.

        Raises:
            CloudError: `Conflict` for one that is ready, or another one, or changes all the time.
        """
        path = f"{NODES}/{quote(str(node['metadata']['name']))}"
        for _ in range(_TRIES):
            preconditions = {"uid": node["metadata"].get("uid")}
            if unready:
                preconditions["resourceVersion"] = node["metadata"].get("resourceVersion")
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
            try:
                await self._cluster.ask("DELETE", path, body)
            except NotFound:
                return
            except Conflict:
                if not unready:
                    return  # another one of that name
                with suppress(NotFound):
                    node = await self._cluster.ask("GET", path)
                if node["metadata"].get("uid") != preconditions["uid"] or _was_ready(node):
                    raise
            else:
                return
        raise Conflict(f"DELETE {path}: it changes all the time")

    async def node_group_for_node(self, provider_id: str, labels: Mapping[str, str]) -> KwokGroup | None:
        del labels
        return self._groups.get(self._owners.get(provider_id, ""))

    def gpu_label(self) -> str:
        return self.settings.nodes.gpuConfig.gpuLabelKey

    async def gpu_types(self) -> Sequence[str]:
        return sorted(self.settings.nodes.gpuConfig.availableGPUTypes)

    async def cleanup(self) -> None:
        """Close the connection. Nodes stay: they are what this cloud has."""
        await self._cluster.close()


def _is_made(node: Mapping[str, Any]) -> bool:
    return str((node.get("spec") or {}).get("providerID", "")).startswith(kwok.PROVIDER)


def _leaving(node: Mapping[str, Any]) -> bool:
    return bool((node.get("metadata") or {}).get("deletionTimestamp"))


def _was_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node is ready, or its kubelet has gone silent: it had one, and what runs there is not known to have ended.

    One of which no kubelet ever spoke is `Unknown`, too, and is still to come.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
    silent = ready.get("status") == "Unknown" and ready.get("reason") != NEVER_SPOKE
    return ready.get("status") == "True" or silent


def _key(node: Mapping[str, Any]) -> str:
    return str(((node.get("metadata") or {}).get("annotations") or {}).get(DECISION, ""))


def provider(config: str, calls: Calls, around: Surroundings) -> KwokProvider:
    """Groups of a ConfigMap, `[NAMESPACE/]NAME`, in the cluster that the process works for.

    Raises:
        ValueError: that is none.
    """
    namespace, slash, name = config.rpartition("/")
    if "/" in namespace or (slash and not (namespace and name)):
        raise ValueError(
            f"kwok:{config}: write [NAMESPACE/]NAME of the ConfigMap, as in {NAMESPACE}/{CONFIG_MAP}"
        )
    cluster = Cluster(
        calls, kubeconfig=around.kubeconfig, context=around.context, in_cluster=around.in_cluster
    )
    return KwokProvider(
        cluster,
        namespace or os.environ.get("POD_NAMESPACE", "") or NAMESPACE,
        name or os.environ.get("KWOK_PROVIDER_CONFIGMAP", "") or CONFIG_MAP,
    )
