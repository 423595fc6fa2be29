"""Where the kinds of an API group are at an API server, as it says."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tidewright.cloud.errors import NotFound
from tidewright.cloud.kubernetes import Cluster
from tidewright.kube.discovery import Resource


class Places:
    """The kinds of one group, in one version of it."""

    def __init__(self, cluster: Cluster, group: str, version: str = "") -> None:
        """`version`: empty for the one that the server prefers."""
        self.group = group
        self._cluster = cluster
        self._wanted = version
        self._version = version
        self._kinds: dict[str, Resource] = {}

    async def read(self) -> None:
        """Ask what is served: one call, two where the version is not known yet.

        Raises:
            CloudError: `NotFound` where the group, or the version, is not served.
        """
        try:
            if not self._version:
                group = await self._cluster.ask("GET", f"/apis/{quote(self.group)}")
                self._version = str((group.get("preferredVersion") or {}).get("version") or "")
            listed = await self._cluster.ask("GET", f"/apis/{quote(self.group)}/{quote(self._version)}")
        except NotFound as error:
            shown = f"{self.group}/{self._wanted}" if self._wanted else self.group
            self._version, self._kinds = self._wanted, {}
            raise NotFound(
                f"the API server does not serve {shown}: {error.message}", code="NotServed"
            ) from error
        self._kinds = self._of(listed.get("resources") or ())

    def _of(self, resources: Any) -> dict[str, Resource]:
        scaled = {str(it["name"]) for it in resources if str(it["name"]).endswith("/scale")}
        return {
            str(it["kind"]): Resource(
                self.group, self._version, str(it["name"]), str(it["kind"]),
                bool(it.get("namespaced")), f"{it['name']}/scale" in scaled,
            )
            for it in resources
            if "/" not in str(it["name"])
        }  # fmt: skip

    async def resource(self, kind: str) -> Resource:
        """Where a kind is; asks where that is not known.

        Raises:
            CloudError: `NotFound` where it is not served.
        """
        if kind not in self._kinds:
            await self.read()
        if kind not in self._kinds:
            raise NotFound(
                f"the API server has no kind {kind} in {self.group}/{self._version}", code="NotServed"
            )
        return self._kinds[kind]

    def known(self, kind: str) -> Resource | None:
        """Where a kind is, as of the last answer."""
        return self._kinds.get(kind)
