"""Discovery: which groups, versions and resources there are, unaggregated and aggregated (v2)."""

from __future__ import annotations

from typing import Any

from tidewright.sim.api.kinds.resources import Kind, Registry, version_order

Object = dict[str, Any]
SERVER_VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0-tidewright-sim",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
AGGREGATED = "APIGroupDiscoveryList"

# kubectl resolves short names in the order of the groups: those that people mean come first
_FIRST = ("apps", "events.k8s.io", "batch", "autoscaling", "policy")


class MountedGroup:
    """A group that another handler serves: what discovery says of it."""

    def __init__(self, group: str, version: str, resources: list[Object]) -> None:
        self.group = group
        self.version = version
        self.resources = resources


def core_versions(address: str) -> Object:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _ordered_groups(registry: Registry, mounted: list[MountedGroup]) -> dict[str, list[str]]:
    groups = registry.groups()
    for mount in mounted:
        versions = groups.setdefault(mount.group, [])
        if mount.version not in versions:
            versions.append(mount.version)
            versions.sort(key=version_order)
    groups.pop("", None)
    return dict(
        sorted(
            groups.items(),
            key=lambda item: (_FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST), item[0]),
        )
    )


def _group(group: str, versions: list[str]) -> Object:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def group_list(registry: Registry, mounted: list[MountedGroup]) -> Object:
    groups = _ordered_groups(registry, mounted)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, versions) for group, versions in groups.items()],
    }


def group(registry: Registry, mounted: list[MountedGroup], name: str) -> Object | None:
    versions = _ordered_groups(registry, mounted).get(name)
    if versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions)


def resource_list(registry: Registry, mounted: list[MountedGroup], group: str, version: str) -> Object | None:
    """The APIResourceList of one group and version; None when it is not served."""
    kinds = [kind for kind in registry if kind.group == group and version in kind.versions]
    resources = [resource for kind in kinds for resource in _resources(kind)]
    for mount in mounted:
        if (mount.group, mount.version) == (group, version):
            resources += mount.resources
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _resources(kind: Kind) -> list[Object]:
    main: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    resources = [main]
    if kind.status:
        resources.append(_subresource(kind, "status", kind.kind, ("get", "patch", "update")))
    if kind.scale is not None:
        resources.append(
            _subresource(kind, "scale", "Scale", ("get", "patch", "update"))
            | {"group": "autoscaling", "version": "v1"}
        )
    for sub in kind.subresources:
        entry = _subresource(kind, sub.name, sub.kind, sub.verbs)
        if sub.group is not None:
            entry |= {"group": sub.group, "version": sub.version}
        resources.append(entry)
    return resources


def _subresource(kind: Kind, name: str, of: str, verbs: tuple[str, ...]) -> Object:
    return {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": of,
        "verbs": list(verbs),
    }


def aggregated(registry: Registry, mounted: list[MountedGroup], *, core: bool) -> Object:
    """APIGroupDiscoveryList (apidiscovery.k8s.io/v2) of `/api` (core) or `/apis`."""
    groups = {"": ["v1"]} if core else _ordered_groups(registry, mounted)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None}
                if name
                else {"creationTimestamp": None},
                "versions": [_version_discovery(registry, mounted, name, version) for version in versions],
            }
            for name, versions in groups.items()
        ],
    }


def _version_discovery(registry: Registry, mounted: list[MountedGroup], group: str, version: str) -> Object:
    listed = resource_list(registry, mounted, group, version) or {"resources": []}
    resources: dict[str, Object] = {}
    for entry in listed["resources"]:
        kind = {
            "group": entry.get("group", group),
            "version": entry.get("version", version),
            "kind": entry["kind"],
        }
        name, _, sub = entry["name"].partition("/")
        if sub:
            resources[name].setdefault("subresources", []).append(
                {"subresource": sub, "responseKind": kind, "verbs": entry["verbs"]}
            )
            continue
        resources[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
        }
        for field in ("shortNames", "categories"):
            if field in entry:
                resources[name][field] = entry[field]
    return {"version": version, "freshness": "Current", "resources": list(resources.values())}
