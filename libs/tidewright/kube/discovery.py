"""Which path a kind has: asked of the API server, cached.

The version in a reference is ignored, as the autoscaling APIs do: a kind is looked up in its group,
and the group's preferred version comes first.
"""

from __future__ import annotations

import time
from urllib.parse import quote

import msgspec

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

FORGET_S = 60.0
"""A kind that is not there, or that has no scale, is asked for again after this long (wall seconds)."""


class Resource(msgspec.Struct, frozen=True):
    """Where objects of a kind are.

    Attributes:
        group: empty for the core group.
        scale: it has a scale subresource.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    scale: bool

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """Path of the objects of a namespace, or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        return f"{root}{within}/{self.plural}"

    def item(self, namespace: str, name: str, subresource: str = "") -> str:
        """Path of one object, or of a subresource of it."""
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


class _GroupVersion(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []
    preferredVersion: _GroupVersion | None = None  # noqa: N815 - the API's name


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_ApiResource] = []


_group = msgspec.json.Decoder(_Group)
_resources = msgspec.json.Decoder(_ResourceList)


class Discovery:
    """Kinds of one API server."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[tuple[str, str], tuple[list[Resource], float]] = {}

    async def resources(self, group: str, kind: str) -> list[Resource]:
        """All places of a kind, the group's preferred version first; empty when there is none.

        Raises:
            KubeError: the API server could not be asked.
        """
        known = self._known.get((group, kind))
        if known is not None and (any(r.scale for r in known[0]) or time.monotonic() - known[1] < FORGET_S):
            return known[0]
        by_kind: dict[str, list[Resource]] = {kind: []}
        for version in await self._versions(group):
            for resource in await self._of_version(group, version):
                by_kind.setdefault(resource.kind, []).append(resource)
        now = time.monotonic()
        for name, places in by_kind.items():
            self._known[(group, name)] = (places, now)
        return by_kind[kind]

    def forget(self, group: str, kind: str) -> None:
        """A kind is not where it was found: asked for again, it is looked for anew."""
        self._known.pop((group, kind), None)

    def doubt(self, group: str, kind: str) -> bool:
        """An object is not where its kind was found: maybe the kind is not. Whether it is forgotten, and may be found elsewhere.

        Not if it was found just now: most often it is the object that is gone.
        """
        known = self._known.get((group, kind))
        if known is None or time.monotonic() - known[1] < FORGET_S:
            return False
        self.forget(group, kind)
        return True

    async def resource(self, api_version: str, kind: str) -> Resource | None:
        """The place of a kind in just this version; None when it is not there."""
        group, _, version = api_version.rpartition("/")
        places = await self.resources(group, kind)
        return next((place for place in places if place.version == version), None)

    async def _versions(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        try:
            answer = await self._kube.request("GET", f"/apis/{quote(group, safe='')}")
            api_group = _group.decode(answer.body)
        except KubeError as error:
            if error.status == 404:
                return []
            raise
        except msgspec.MsgspecError as error:
            raise KubeError(0, "Garbage", f"discovery of group {group}: {error}") from error
        names = [entry.version for entry in api_group.versions]
        if api_group.preferredVersion is not None:
            first = api_group.preferredVersion.version
            names.sort(key=lambda name: name != first)
        return names

    async def _of_version(self, group: str, version: str) -> list[Resource]:
        path = f"/apis/{quote(group, safe='')}/{version}" if group else f"/api/{version}"
        try:
            answer = await self._kube.request("GET", path)
            listed = _resources.decode(answer.body).resources
        except KubeError as error:
            if error.status == 404:
                return []
            raise
        except msgspec.MsgspecError as error:
            raise KubeError(0, "Garbage", f"discovery of {group}/{version}: {error}") from error
        scaled = {entry.name.removesuffix("/scale") for entry in listed if entry.name.endswith("/scale")}
        return [
            Resource(group, version, entry.name, entry.kind, entry.namespaced, entry.name in scaled)
            for entry in listed
            if "/" not in entry.name
        ]
