"""Which objects of Cluster API are ours, and in which cluster they are. Pure but for reading files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

PREFIX: Final = "clusterapi:"
_DISCOVERY = re.compile(r"[^/=:]+=.*")


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """What an object must have, all of it; empty parts match everything."""

    namespace: str = ""
    cluster: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def matches(self, namespace: str, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether an object is selected."""
        return (
            self.namespace in ("", namespace)
            and self.cluster in ("", cluster)
            and all(labels.get(key) == value for key, value in self.labels)
        )


class ClusterApiFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of a cloud.

    Attributes:
        kubeconfig: of the management cluster; empty for the cluster that the process works for.
        context: of that file.
        discovery: as `--node-group-auto-discovery`: `clusterapi:[namespace=NS][,clusterName=NAME][,LABEL=VALUE]`;
            each one an alternative. Without any, everything is taken.
        group: API group; empty for `CAPI_GROUP`, else cluster.x-k8s.io.
        version: API version; empty for `CAPI_VERSION`, else the one that the server prefers.
    """

    kubeconfig: str = ""
    context: str = ""
    discovery: tuple[str, ...] = ()
    group: str = ""
    version: str = ""


class ClusterApiConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a cloud is, read."""

    selectors: tuple[Selector, ...] = ()
    kubeconfig: str = ""
    context: str = ""
    group: str = ""
    version: str = ""


def selector_of(text: str) -> Selector:
    """Read `clusterapi:[namespace=NS][,clusterName=NAME][,LABEL=VALUE]...`.

    Raises:
        ValueError: it is none.
    """
    selector = Selector()
    for part in filter(None, text.removeprefix(PREFIX).split(",")):
        key, given, value = part.partition("=")
        if not (key and given and value):
            raise ValueError(f"{text!r}: {part!r}: write namespace=NS, clusterName=NAME or LABEL=VALUE")
        match key:
            case "namespace":
                selector = msgspec.structs.replace(selector, namespace=value)
            case "clusterName":
                selector = msgspec.structs.replace(selector, cluster=value)
            case _:
                selector = msgspec.structs.replace(selector, labels=(*selector.labels, (key, value)))
    return selector


def config_of(text: str) -> ClusterApiConfig:
    """What `clusterapi:CONFIG` says: nothing, `namespace=...`, a kubeconfig of the management cluster, or a file.

    Raises:
        ValueError: it is none of these; the message names file and field.
    """
    if not text:
        return ClusterApiConfig()
    if text.startswith(PREFIX) or _DISCOVERY.fullmatch(text):
        return ClusterApiConfig(selectors=(selector_of(text),))
    try:
        content = yaml.safe_load(Path(text).read_text(encoding="utf-8")) or {}
        if isinstance(content, dict) and content.get("kind") == "Config":
            return ClusterApiConfig(kubeconfig=text)
        said = msgspec.convert(content, ClusterApiFile)
        selectors = tuple(map(selector_of, said.discovery))
    except OSError as error:
        raise ValueError(
            f"{text}: neither namespace=NS,... nor a file that can be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        fields = ", ".join(ClusterApiFile.__struct_fields__)
        raise ValueError(f"{text}: {error}; valid are a kubeconfig, or {fields}") from error
    return ClusterApiConfig(
        selectors=selectors,
        kubeconfig=said.kubeconfig,
        context=said.context,
        group=said.group,
        version=said.version,
    )
