"""Objects of a Kubernetes API server, for clouds that are made of them: kwok and Cluster API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import (
    CloudError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

MERGE_PATCH = "application/merge-patch+json"
PAGE = 500
"""Objects per page of a list."""

_OF_CLASS: dict[str, type[CloudError]] = {
    "conflict": Conflict,
    "throttled": Throttled,
    "gone": NotFound,
    "forbidden": Forbidden,
    "invalid": Invalid,
    "unavailable": Unavailable,
}


_REMEDIES: dict[int, str] = {
    401: "; the credentials are not valid, or not any more: give others in the kubeconfig",
    403: "; allow it: deploy/clouds has the roles of watcher and actuator",
}


def cloud_error(error: KubeError, what: str) -> CloudError:
    """What an API server said to `what`, as a cloud's answer."""
    remedy = _REMEDIES.get(error.status, "")
    return _OF_CLASS[error.error_class](
        f"{what}: {error.message}{remedy}", code=error.reason, retry_after_s=error.retry_after_s
    )


class Cluster:
    """One API server; connected to with the first request."""

    def __init__(
        self,
        calls: Calls,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        in_cluster: bool = False,
        url: str = "",
    ) -> None:
        """`url` is of a server that wants no authentication, in place of a configuration."""
        self.calls = calls
        self._kubeconfig = kubeconfig
        self._context = context
        self._in_cluster = in_cluster
        self._url = url
        self._kube: Kube | None = None
        self._connecting = asyncio.Lock()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """One request; the object in the answer.

        Raises:
            CloudError: as the API server says; `Unavailable` without an answer.
        """
        content = None if body is None else msgspec.json.encode(body)
        async with self.calls.call(f"{method} {path}"):
            try:
                kube = await self.connected()
                answer = await kube.request(
                    method, path, query=query, body=content, content_type=content_type, timeout_s=3600.0
                )
            except KubeError as error:
                raise cloud_error(error, f"{method} {path}") from error
        try:
            return msgspec.json.decode(answer.body) if answer.body else {}
        except msgspec.DecodeError as error:
            raise Unavailable(f"{method} {path}: not an answer of an API server: {error}") from error

    async def items(self, path: str, *, label: str = "") -> list[dict[str, Any]]:
        """All objects of a list, page by page; `label` selects.

        Raises:
            CloudError: as `ask`.
        """
        found: list[dict[str, Any]] = []
        query = {"limit": str(PAGE), **({"labelSelector": label} if label else {})}
        while True:
            page = await self.ask("GET", path, query=query)
            found += page.get("items") or []
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def connected(self) -> Kube:
        """The connection itself, for watches: they last, and are not calls of the budget.

        Raises:
            KubeError: the configuration cannot be used.
        """
        async with self._connecting:
            if self._kube is None:
                if self._url:
                    self._kube = Kube.at(self._url)
                else:
                    self._kube = await Kube.connect(self._kubeconfig, self._in_cluster, self._context)
            return self._kube

    async def close(self) -> None:
        """Close all connections."""
        if self._kube is not None:
            await self._kube.close()
            self._kube = None
