"""An API server's authorizer in front of one that has none: roles and bindings decide, as they stand in the cluster.

Who asks is the ServiceAccount that its token names, `NAMESPACE:NAME`; a cluster with an authorizer of its own is asked for tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from tests.answering import answering
from tidewright.kube.client import Kube

Object = dict[str, Any]
_API = "/apis/rbac.authorization.k8s.io/v1"
_HOP = frozenset({"host", "authorization", "connection", "content-length", "transfer-encoding"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Asked(NamedTuple):
    """What a request asks for; `name` is the one object that it is about, also of a list or watch by name."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def asked(method: str, path: str, query: dict[str, str]) -> Asked | None:
    """What a request asks for; None for discovery, which anybody may read."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
        return None
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    resource += f"/{rest[2]}" if len(rest) > 2 else ""
    verb = _VERBS.get(method, "get")
    if method == "GET" and not name:
        verb = "watch" if query.get("watch") in ("true", "1") else "list"
        field, _, value = query.get("fieldSelector", "").partition("=")
        name = value if field == "metadata.name" else ""
    elif method == "DELETE" and not name:
        verb = "deletecollection"
    return Asked(verb, group, resource, namespace, name)


def allows(rule: Object, it: Asked) -> bool:
    """Whether a rule of a role allows it."""
    _, _, sub = it.resource.partition("/")
    resources = {"*", it.resource, *([f"*/{sub}"] if sub else [])}
    return (
        bool({"*", it.verb} & {*rule.get("verbs", ())})
        and bool({"*", it.group} & {*rule.get("apiGroups", ())})
        and bool(resources & {*rule.get("resources", ())})
        and (not rule.get("resourceNames") or it.name in rule["resourceNames"])
    )


class Gate:
    """In front of one API server.

    Attributes:
        url: where it listens.
        refused: who asked for what and was refused.
        passed: who was let through for what.
    """

    def __init__(self, upstream: str) -> None:
        self.url = ""
        self.refused: list[tuple[str, Asked]] = []
        self.passed: set[tuple[str, Asked]] = set()
        self._upstream = upstream.rstrip("/")
        self._rules: dict[str, list[tuple[str, Object]]] = {}

    async def learn(self, kube: Kube) -> None:
        """Take over the roles and bindings as they are now."""
        roles: dict[tuple[str, str, str], list[Object]] = {}
        for kind, plural in (("ClusterRole", "clusterroles"), ("Role", "roles")):
            for found in await _listed(kube, plural):
                metadata = found["metadata"]
                roles[kind, metadata.get("namespace", ""), metadata["name"]] = found.get("rules") or []
        self._rules = {}
        for plural in ("clusterrolebindings", "rolebindings"):
            for found in await _listed(kube, plural):
                within, role = found["metadata"].get("namespace", ""), found["roleRef"]
                home = within if role["kind"] == "Role" else ""
                for rule in roles.get((role["kind"], home, role["name"]), ()):
                    for subject in found.get("subjects") or ():
                        who = f"{subject.get('namespace', '')}:{subject['name']}"
                        self._rules.setdefault(who, []).append((within, rule))

    def may(self, who: str, it: Asked) -> bool:
        """Whether somebody may do that."""
        return any(
            within in ("", it.namespace) and allows(rule, it) for within, rule in self._rules.get(who, ())
        )

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(auto_decompress=False, timeout=timeout)
        self._answering = answering(self._handle)
        self.url = await self._answering.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._answering.__aexit__(None, None, None)
        await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        who = request.headers.get("Authorization", "").removeprefix("Bearer ")
        it = asked(request.method, request.path, dict(request.query))
        if it is not None and not self.may(who, it):
            self.refused.append((who, it))
            message = f"{it.resource}.{it.group} is forbidden: {who} cannot {it.verb} it"
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": "Forbidden",
                "code": 403,
            }
            return web.json_response(status | {"message": message}, status=403)
        if it is not None:
            self.passed.add((who, it))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = URL(self._upstream + request.path_qs, encoded=True)
        body = await request.read()
        async with self._session.request(request.method, url, headers=headers, data=body) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


async def _listed(kube: Kube, plural: str) -> list[Object]:
    items: list[Object] = msgspec.json.decode((await kube.request("GET", f"{_API}/{plural}")).body)["items"]
    return items
