"""Workloads of kinds that nobody built in: the whitelist of a ConfigMap, and replicas at a path. Pure.

GroupKind           a kind without its version
Whitelist           kinds beyond the built-in ones (WorkloadSpread specification, 2.4)
replicas_at_path    one number out of any object
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidewright.kube.digits import whole_number


class GroupKind(msgspec.Struct, frozen=True, order=True):
    """A kind of the API, without its version."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


BUILT_IN = frozenset(
    GroupKind(group, kind)
    for group, kind in (
        ("apps", "Deployment"),
        ("apps.kruise.io", "CloneSet"),
        ("apps", "ReplicaSet"),
        ("batch", "Job"),
        ("apps", "StatefulSet"),
        ("apps.kruise.io", "StatefulSet"),
    )
)
WHITELIST_CONFIG_MAP = "kruise-configuration"
WHITELIST_KEY = "WorkloadSpread_Watch_Custom_Workload_WhiteList"
_INT64_MAX = 2**63 - 1


class BadApiVersion(ValueError):
    """An apiVersion with more than one slash."""


class BadPath(ValueError):
    """A replicas path that leads to no integer; the message names it."""


class BadWhitelist(ValueError):
    """The whitelist is no JSON of the expected shape."""


class WhitelistEntry(msgspec.Struct, frozen=True):
    """One custom workload; `sub_resources` are kinds between it and its pods."""

    group: str
    version: str
    kind: str
    replicas_path: str = ""
    sub_resources: tuple[GroupKind, ...] = ()


class Whitelist(msgspec.Struct, frozen=True):
    """The custom workloads that are allowed."""

    entries: tuple[WhitelistEntry, ...] = ()

    def known(self, kind: GroupKind) -> bool:
        """Whether owners of this kind are followed: built in, listed, or between a listed kind and its pods."""
        return kind in BUILT_IN or any(
            kind == GroupKind(e.group, e.kind) or kind in e.sub_resources for e in self.entries
        )

    def entry(self, kind: GroupKind) -> WhitelistEntry | None:
        return next((e for e in self.entries if GroupKind(e.group, e.kind) == kind), None)


def whitelist_of(text: str) -> Whitelist:
    """Read the ConfigMap's JSON document; key names are matched without regard to case.

    Raises:
        BadWhitelist: not JSON, or not of the expected shape.
    """
    try:
        document = _lower(msgspec.json.decode(text.encode()))
        return Whitelist(tuple(_entry(e) for e in (document or {}).get("workloads") or ()))
    except (msgspec.DecodeError, AttributeError, TypeError, RecursionError) as error:
        raise BadWhitelist(
            f"ConfigMap {WHITELIST_CONFIG_MAP}, key {WHITELIST_KEY}: {error}; expected "
            '{"workloads": [{"Group": ..., "Version": ..., "Kind": ..., "replicasPath": ...}]}'
        ) from error


def _lower(value: Any) -> Any:
    if isinstance(value, dict):
        return {k.lower(): _lower(v) for k, v in value.items()}
    return [_lower(v) for v in value] if isinstance(value, list) else value


def _entry(read: Mapping[str, Any]) -> WhitelistEntry:
    text = {key: read.get(key) or "" for key in ("group", "version", "kind", "replicaspath")}
    for key, value in text.items():
        if not isinstance(value, str):
            raise TypeError(f"{key} is {value!r}, not text")
    return WhitelistEntry(
        text["group"],
        text["version"],
        text["kind"],
        text["replicaspath"],
        tuple(GroupKind(s.get("group") or "", s.get("kind") or "") for s in read.get("subresources") or ()),
    )


def group_version(api_version: str) -> tuple[str, str]:
    """Split an apiVersion. Raises BadApiVersion."""
    if api_version in ("", "/"):
        return "", ""
    match api_version.split("/"):
        case [version]:
            return "", version
        case [group, version]:
            return group, version
    raise BadApiVersion(f"apiVersion {api_version!r} has more than one slash")


def replicas_at_path(obj: Any, path: str) -> int:
    """The integer at a dotted path; list elements by index; the empty path gives 0.

    Raises:
        BadPath: nothing there, no integer there, or a step into a scalar.
    """
    if not path:
        return 0
    value = obj
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and (at := whole_number(step)) is not None and at < len(value):
            value = value[at]
        else:
            raise BadPath(f"path {path!r} does not exist: no {step!r}")
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _INT64_MAX:
        raise BadPath(f"path {path!r} leads to {value!r}, not to an integer")
    return value


def replicas_at_paths(obj: Any, paths: Iterable[str]) -> int:
    """The sum over several paths. Raises BadPath for the first that fails."""
    return sum(replicas_at_path(obj, path) for path in paths)
