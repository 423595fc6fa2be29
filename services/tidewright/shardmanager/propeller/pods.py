"""The pod of a shard: the template's, with the manager's metadata and arguments (section 1.6).

pod_manifest       compat: name, labels, annotations, owner references, arguments
owner_references   what a pod inherits from the manager's own pod (section 1.10)
wanted             the two annotations that decide whether a pod is stale
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from tidewright.events.base import Json, JsonObject
from tidewright.shardmanager.propeller.config import ManagerConfig
from tidewright.shardmanager.propeller.config_hash import config_hash
from tidewright.shardmanager.propeller.strategy import shard_args

TEMPLATE_VERSION = "podTemplateResourceVersion"
CONFIG_HASH = "shardConfigHash"
APP_LABEL = "app"


class ContainerMissing(ValueError):
    """The template has no container of the configured name."""


def wanted(template_version: str, shard_hash: str) -> dict[str, str]:
    """The annotations of all pods of one pass."""
    return {TEMPLATE_VERSION: template_version, CONFIG_HASH: shard_hash}


def pod_manifest(
    config: ManagerConfig,
    template: JsonObject,
    template_version: str,
    index: int,
    *,
    namespace: str,
    owner_references: Sequence[JsonObject] = (),
) -> JsonObject:
    """The pod of one shard.

    `template` is the `template` of the PodTemplate (pod metadata and spec), `template_version` that
    object's resourceVersion; an empty `namespace` keeps the template's.

    Raises:
        ContainerMissing: tested before the index.
        IndexOutOfRange: there is no such shard.
    """
    spec = deepcopy(template.get("spec") or {})
    container = find_container(spec, config.pod_template_container_name)
    container["args"] = [*(container.get("args") or []), *shard_args(config.shard, index)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(
            template.get("metadata") or {},
            name=config.pod_name(index),
            namespace=namespace,
            labels={APP_LABEL: config.pod_application},
            annotations=wanted(template_version, config_hash(config.shard)),
            owner_references=owner_references,
        ),
        "spec": spec,
    }


def pod_metadata(
    base: JsonObject,
    *,
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner_references: Sequence[JsonObject] = (),
) -> JsonObject:
    """The template's pod metadata with the manager's over it; its values win key by key."""
    metadata = deepcopy(base)
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    references = [*(metadata.get("ownerReferences") or []), *deepcopy(list(owner_references))]
    if references:
        metadata["ownerReferences"] = references
    metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    return metadata


def find_container(spec: JsonObject, name: str) -> dict[str, Any]:
    """The first container of this name. Raises ContainerMissing."""
    containers: Sequence[dict[str, Any]] = spec.get("containers") or ()
    for container in containers:
        if container.get("name") == name:
            return container
    raise ContainerMissing(f"container '{name}' not found in podtemplate, ")


def update_error(config: ManagerConfig, index: int, error: ValueError) -> str:
    """The pass's message when a pod's spec cannot be made."""
    return f"failed to update pod spec for '{config.pod_name(index)}' [{error}]"


def create_error(name: str, error: str) -> str:
    """The pass's message when the API refuses a pod."""
    return f"failed to create pod '{name}' [{error}]"


def owner_references(manager_pod_owners: Sequence[Json]) -> list[JsonObject]:
    """The references of the manager's own pod, as its shards carry them: neither controlling nor blocking."""
    return [{**owner, "controller": False, "blockOwnerDeletion": False} for owner in manager_pod_owners]


def manager_pod(environment: Mapping[str, str], default_namespace: str) -> tuple[str, str]:
    """The manager's own pod name (empty: no references) and the namespace of its shards."""
    name, namespace = environment.get("POD_NAME", ""), environment.get("POD_NAMESPACE", "")
    return (name if namespace else ""), (namespace or default_namespace)


def manager_pod_error(name: str, namespace: str, error: str) -> str:
    """The original's last words when it cannot read its own pod."""
    return f"failed to get pod '{name}' in namespace '{namespace}' [{error}]"
