"""Which objects of Cluster API are ours, and in which cluster they are. Pure but for reading files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

GROUP: Final = "cluster.x-k8s.io"
ARCHITECTURES: Final = ("amd64", "arm64", "ppc64le", "s390x")
PREFIX: Final = "clusterapi:"
MANAGEMENT: Final = "management="
"""Of the part that names the management cluster's kubeconfig."""
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
    """What a cloud is, read.

    Attributes:
        selectors: alternatives; none takes everything.
        kubeconfig: of the management cluster; empty for the cluster that the process works for.
        context: of that file; empty for its current one.
        group: the API group, which is the prefix of annotations as well.
        version: of the API; empty for the one that the server prefers.
        architecture: of nodes of which nothing says it.
    """

    selectors: tuple[Selector, ...] = ()
    kubeconfig: str = ""
    context: str = ""
    group: str = GROUP
    version: str = ""
    architecture: str = ARCHITECTURES[0]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where to look; an empty one stands for all of them."""
        named = {selector.namespace for selector in self.selectors}
        return ("",) if "" in named or not named else tuple(sorted(named))

    def takes(self, namespace: str, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether an object is selected by any alternative."""
        return not self.selectors or any(
            selector.matches(namespace, cluster, labels) for selector in self.selectors
        )


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


def config_of(text: str, environment: Mapping[str, str]) -> ClusterApiConfig:
    """What `clusterapi:CONFIG` says: nothing, `management=FILE,namespace=...`, a kubeconfig of the management cluster, or a file.

    `environment` has what users of Cluster Autoscaler set; what CONFIG says goes before it.

    Raises:
        ValueError: it is none of these; the message names file and field.
    """
    said = _said(text)
    selectors = tuple(map(selector_of, said.discovery))
    architecture = environment.get("CAPI_SCALE_ZERO_DEFAULT_ARCH", "")
    return ClusterApiConfig(
        selectors=() if Selector() in selectors else selectors,
        kubeconfig=said.kubeconfig,
        context=said.context,
        group=said.group or environment.get("CAPI_GROUP", "") or GROUP,
        version=said.version or environment.get("CAPI_VERSION", ""),
        architecture=architecture if architecture in ARCHITECTURES else ARCHITECTURES[0],
    )


def _said(text: str) -> ClusterApiFile:
    if not text:
        return ClusterApiFile()
    if text.startswith(PREFIX) or _DISCOVERY.fullmatch(text):
        parts = text.removeprefix(PREFIX).split(",")
        files = [part.removeprefix(MANAGEMENT) for part in parts if part.startswith(MANAGEMENT)]
        discovery = ",".join(part for part in parts if not part.startswith(MANAGEMENT))
        return ClusterApiFile(kubeconfig=files[-1] if files else "", discovery=(discovery,))
    try:
        content = yaml.safe_load(Path(text).read_text(encoding="utf-8")) or {}
        if isinstance(content, dict) and content.get("kind") == "Config":
            return ClusterApiFile(kubeconfig=text)
        said = msgspec.convert(content, ClusterApiFile)
        for discovery in said.discovery:
            selector_of(discovery)
    except OSError as error:
        raise ValueError(
            f"{text}: neither namespace=NS,... nor a file that can be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        fields = ", ".join(ClusterApiFile.__struct_fields__)
        raise ValueError(f"{text}: {error}; valid are a kubeconfig, or {fields}") from error
    return said
