"""The ConfigMaps that users of Cluster Autoscaler's kwok provider have. Pure.

`kwok-provider-config`, key `config`, says how nodes are grouped and where templates are; by default they are in
`kwok-provider-templates`, key `templates`: Node manifests as a List or as several documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import yaml

from tidewright.cloud.errors import Invalid
from tidewright.cloud.provider import NodeTemplate, Taint

API_VERSION: Final = "v1alpha1"
PROVIDER: Final = "kwok:"
"""What provider ids begin with."""
PREFIX: Final = "cluster-autoscaler.kwok.nodegroup/"
"""Of annotations on a template: `name`, `min-count`, `max-count`, `desired-count`."""
MAX_COUNT: Final = 200
MOST_DIGITS: Final = 9
"""Of a count."""
FAKE: Final = {"kwok.x-k8s.io/node": "fake"}
PROVIDER_TAINT: Final = Taint(key="kwok-provider", value="true", effect="NoSchedule")
_HOSTNAME: Final = "kubernetes.io/hostname"


class GpuSettings(msgspec.Struct, frozen=True, kw_only=True):
    gpuLabelKey: str = ""  # noqa: N815 - the file's name
    availableGPUTypes: dict[str, Any] = {}  # noqa: N815


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    skipTaint: bool = False  # noqa: N815
    gpuConfig: GpuSettings = GpuSettings()  # noqa: N815


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    fromNodeLabelKey: str = ""  # noqa: N815
    fromNodeAnnotationKey: str = ""  # noqa: N815


class TemplatesAt(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "kwok-provider-templates"
    key: str = "templates"


class KwokConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The key `config`."""

    apiVersion: str = API_VERSION  # noqa: N815
    readNodesFrom: str = "configmap"  # noqa: N815
    nodegroups: GroupSettings = GroupSettings()
    nodes: NodeSettings = NodeSettings()
    configmap: TemplatesAt = TemplatesAt()

    def group_of(self, node: Mapping[str, Any]) -> str:
        """The group of a node or template; empty when it is of none."""
        metadata = node.get("metadata") or {}
        if self.nodegroups.fromNodeLabelKey:
            return str((metadata.get("labels") or {}).get(self.nodegroups.fromNodeLabelKey) or "")
        return str((metadata.get("annotations") or {}).get(self.nodegroups.fromNodeAnnotationKey) or "")


def config_of(text: str, where: str) -> KwokConfig:
    """Read the key `config`; `where` names the ConfigMap.

    Raises:
        Invalid: it cannot be used; the message names the field.
    """
    try:
        config = msgspec.convert(yaml.safe_load(text) or {}, KwokConfig)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise Invalid(f"{where}: key config: {error}") from error
    if config.apiVersion != API_VERSION:
        raise Invalid(f"{where}: apiVersion {config.apiVersion!r}: valid is {API_VERSION}")
    if config.readNodesFrom not in ("configmap", "cluster"):
        raise Invalid(f"{where}: readNodesFrom {config.readNodesFrom!r}: valid are configmap, cluster")
    groups = config.nodegroups
    if bool(groups.fromNodeLabelKey) == bool(groups.fromNodeAnnotationKey):
        raise Invalid(f"{where}: nodegroups: exactly one of fromNodeLabelKey, fromNodeAnnotationKey")
    if groups.fromNodeLabelKey == _HOSTNAME:
        raise Invalid(
            f"{where}: nodegroups.fromNodeLabelKey {_HOSTNAME}: each node would be a group of its own"
        )
    return config


def manifests_of(text: str, where: str) -> list[dict[str, Any]]:
    """Node manifests: a List, or several documents.

    Raises:
        Invalid: it is not YAML, or something in it is no Node.
    """
    try:
        documents: list[Any] = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        raise Invalid(f"{where}: {error}") from error
    nodes: list[Any] = []
    for document in documents:
        if not isinstance(document, dict):
            raise Invalid(f"{where}: a document is no object")
        listed = str(document.get("kind", "")).endswith("List")
        nodes += document.get("items") or [] if listed else [document]
    for node in nodes:
        if not isinstance(node, dict) or node.get("kind", "Node") != "Node":
            raise Invalid(f"{where}: {node.get('kind') if isinstance(node, dict) else node!r} is no Node")
    return nodes


class GroupTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A group: the first of its templates, and its limits."""

    id: str
    node: dict[str, Any]
    min_size: int = 0
    max_size: int = MAX_COUNT
    initial: int = 0
    problem: str = ""
    """Why its limits cannot be used; it cannot be read then, and nothing is ordered of it."""


def groups_of(config: KwokConfig, nodes: Iterable[Mapping[str, Any]]) -> dict[str, GroupTemplate]:
    """Groups by id; templates of none are passed over."""
    groups: dict[str, GroupTemplate] = {}
    for node in nodes:
        name = config.group_of(node)
        if name and name not in groups:
            groups[name] = _group(name, dict(node))
    return dict(sorted(groups.items()))


def _group(name: str, node: dict[str, Any]) -> GroupTemplate:
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    shown = str(annotations.get(f"{PREFIX}name") or name)
    template = str((node.get("metadata") or {}).get("name") or "without a name")
    where = f"group {shown}: template {template}"
    try:
        low, high = (
            _count(annotations, "min-count", 0, where), _count(annotations, "max-count", MAX_COUNT, where),
        )  # fmt: skip
        wanted = _count(annotations, "desired-count", low, where)
    except Invalid as error:
        return GroupTemplate(id=shown, node=node, max_size=0, problem=error.message)
    if not low <= wanted <= high:
        problem = f"{where}: min-count {low}, desired-count {wanted}, max-count {high}: valid is min <= desired <= max"
        return GroupTemplate(id=shown, node=node, max_size=0, problem=problem)
    return GroupTemplate(id=shown, node=node, min_size=low, max_size=high, initial=wanted)


def _count(annotations: Mapping[str, Any], name: str, default: int, where: str) -> int:
    text = str(annotations.get(f"{PREFIX}{name}") or default)
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Invalid(f"{where}: annotation {PREFIX}{name}: {text!r}: valid is a number from 0")
    return int(text)


def taints_of(config: KwokConfig, node: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Of a node that is made of a template."""
    own = tuple(
        Taint(key=t["key"], value=t.get("value", ""), effect=t.get("effect", "NoSchedule"))
        for t in (node.get("spec") or {}).get("taints") or ()
        if t.get("key") != PROVIDER_TAINT.key
    )
    return own if config.nodes.skipTaint else (*own, PROVIDER_TAINT)


def template_of(config: KwokConfig, group: GroupTemplate) -> NodeTemplate:
    """An empty node as it would join."""
    status = group.node.get("status") or {}
    capacity = {name: str(amount) for name, amount in (status.get("capacity") or {}).items()}
    allocatable = {name: str(amount) for name, amount in (status.get("allocatable") or {}).items()}
    labels = (group.node.get("metadata") or {}).get("labels") or {}
    return NodeTemplate(
        capacity=capacity or allocatable,
        allocatable=allocatable,
        labels={str(k): str(v) for k, v in labels.items() if k != _HOSTNAME},
        taints=taints_of(config, group.node),
    )


def node_manifest(
    config: KwokConfig, group: GroupTemplate, name: str, marks: Mapping[str, str]
) -> dict[str, Any]:
    """A Node of a group; `marks` are annotations beside those of the template."""
    template = template_of(config, group)
    annotations = (group.node.get("metadata") or {}).get("annotations") or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**template.labels, _HOSTNAME: name},
            "annotations": {**{str(k): str(v) for k, v in annotations.items()}, **FAKE, **marks},
        },
        "spec": {
            "providerID": f"{PROVIDER}{name}",
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in template.taints],
        },
        "status": {
            "capacity": template.capacity,
            "allocatable": template.allocatable or template.capacity,
            "nodeInfo": {"kubeletVersion": "fake"},
        },
    }
