"""OpenAPI documents, v3 per group and version and v2 as a whole: for `kubectl explain` and validation.

They are made when first asked for and kept until the kinds change. Built-in kinds take their schemas from
`schemas.py`, custom ones from their definitions. Paths are listed as far as clients look at them: which
verbs there are, of which kind, with which query parameters (`fieldValidation`, `dryRun`, ...).
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from tidewright.sim.api import errors
from tidewright.sim.api.http.discovery import SERVER_VERSION
from tidewright.sim.api.kinds import schemas
from tidewright.sim.api.kinds.resources import Kind

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
_V3_REFERENCE = "#/components/schemas/"
_V2_REFERENCE = "#/definitions/"
_METADATA = "V1ObjectMeta"
_WRITE_PARAMETERS = ("pretty", "dryRun", "fieldManager", "fieldValidation")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_PROTOBUF_ANSWER = _PROTOBUF.replace("@", ".")  # an "@" is no part of a media type's name


def _bare_document() -> bytes:
    """The version 2 document without a single definition, in protobuf.

    kubectl asks for it only about kinds that the version 3 documents do not have; what it looks for is
    not there, and so it tells its user.
    """

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    info = field(1, b"Kubernetes") + field(2, SERVER_VERSION["gitVersion"].encode())
    return field(1, b"2.0") + field(2, info) + field(8, b"") + field(9, b"")


class Documents:
    """The documents of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[str, bytes] = {}
        self._generation = -1

    async def serve(self, http: web.BaseRequest, path: str) -> web.Response:
        """Answer `/openapi/v2`, `/openapi/v3` and the documents below it. Raises 404, 406."""
        if self._generation != self._api.registry.generation:
            self._made.clear()
            self._generation = self._api.registry.generation
        accept = http.headers.get("Accept", "")
        if "protobuf" in accept and "json" not in accept and "*/*" not in accept:
            if path.rstrip("/") == "/openapi/v2" and _PROTOBUF in accept:
                return web.Response(body=_bare_document(), headers={"Content-Type": _PROTOBUF_ANSWER})
            raise errors.not_acceptable(("application/json",))
        body = self._made.get(path)
        if body is None:
            # the first one reads the models' sources, which takes a moment: not in the way of requests
            document = await asyncio.to_thread(self._document, path)
            if document is None:
                raise errors.page_not_found()
            body = self._made[path] = msgspec.json.encode(document)
        return web.Response(body=body, headers={"Content-Type": "application/json"})

    def _document(self, path: str) -> Object | None:
        match path.strip("/").split("/"):
            case ["openapi", "v2"]:
                return self._v2()
            case ["openapi", "v3"]:
                return self._index()
            case ["openapi", "v3", "api", "v1"]:
                return self._v3("", "v1")
            case ["openapi", "v3", "apis", group, version]:
                return self._v3(group, version)
        return None

    def _kinds(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self._api.registry if kind.group == group and version in kind.versions]

    def _index(self) -> Object:
        paths = {}
        for group, versions in self._api.registry.groups().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else "api/v1"
                named = [(kind.name, id(kind) if kind.custom else 0) for kind in self._kinds(group, version)]
                digest = hashlib.sha256(repr(named).encode()).hexdigest()[:32].upper()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _v3(self, group: str, version: str) -> Object | None:
        kinds = self._kinds(group, version)
        if not kinds:
            return None
        definitions: Object = {}
        paths: Object = {}
        for kind in kinds:
            _define(definitions, kind, version, _V3_REFERENCE)
            _describe(paths, kind, version, _V3_REFERENCE, v3=True)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
            "paths": paths,
            "components": {"schemas": definitions},
        }

    def _v2(self) -> Object:
        definitions: Object = {}
        paths: Object = {}
        for kind in self._api.registry:
            for version in kind.versions:
                _define(definitions, kind, version, _V2_REFERENCE)
                _describe(paths, kind, version, _V2_REFERENCE, v3=False)
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
            "paths": paths,
            "definitions": definitions,
        }


def _group_version_kind(kind: Kind, version: str) -> Object:
    return {"group": kind.group, "version": version, "kind": kind.kind}


def _definition_name(kind: Kind, version: str) -> str:
    if kind.custom:
        return ".".join([*reversed(kind.group.split(".")), version, kind.kind])
    model = schemas.model_name(kind.group, version, kind.kind)
    return schemas.dotted(model) if model is not None else f"io.k8s.api.{version}.{kind.kind}"


def _define(definitions: Object, kind: Kind, version: str, reference: str) -> None:
    name = _definition_name(kind, version)
    if kind.custom:
        schema = dict(kind.custom[version].schema) or {"type": "object"}
        schema["properties"] = dict(schema.get("properties") or {}) | {
            "apiVersion": {
                "type": "string",
                "description": "APIVersion defines the versioned schema of this object.",
            },
            "kind": {"type": "string", "description": "Kind is the type of this object."},
            "metadata": {
                "description": "Standard object's metadata.",
                "allOf": [{"$ref": f"{reference}{schemas.dotted(_METADATA)}"}],
            },
        }
        definitions[name] = schema
        _define_model(definitions, _METADATA, reference)
    else:
        model = schemas.model_name(kind.group, version, kind.kind)
        if model is None:
            return
        _define_model(definitions, model, reference)
    definitions[name]["x-kubernetes-group-version-kind"] = [_group_version_kind(kind, version)]


def _define_model(definitions: Object, model: str, reference: str) -> None:
    waiting = [model]
    while waiting:
        name = waiting.pop()
        if schemas.dotted(name) not in definitions:
            definitions[schemas.dotted(name)] = schemas.definition(name, reference)
            waiting.extend(schemas.references(name))


def _describe(paths: Object, kind: Kind, version: str, reference: str, *, v3: bool) -> None:
    prefix = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{prefix}{scope}/{kind.plural}"
    path_item: Object = {}
    ref = {"$ref": f"{reference}{_definition_name(kind, version)}"}

    def operation(action: str, parameters: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Object:
        described: Object = {
            "operationId": f"{action}{version.title()}{kind.kind}",
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _group_version_kind(kind, version),
            "parameters": [_parameter(name, v3=v3) for name in parameters],
        }
        if v3:
            described["responses"] = {
                "200": {"description": "OK", "content": {"application/json": {"schema": ref}}}
            }
            if types:
                described["requestBody"] = {"content": {name: {"schema": ref} for name in types}}
        else:
            described["responses"] = {"200": {"description": "OK", "schema": ref}}
            if types:
                described["consumes"] = list(types)
        return described

    if "list" in kind.verbs:
        path_item["get"] = operation("list")
    if "create" in kind.verbs:
        path_item["post"] = operation("post", _WRITE_PARAMETERS, ("application/json",))
    paths[collection] = path_item
    if "get" not in kind.verbs:
        return
    types = _PATCH_TYPES if kind.custom else (*_PATCH_TYPES, "application/strategic-merge-patch+json")
    paths[collection + "/{name}"] = {
        "get": operation("get"),
        "put": operation("put", _WRITE_PARAMETERS, ("application/json",)),
        "patch": operation("patch", (*_WRITE_PARAMETERS, "force"), types),
        "delete": operation("delete", ("dryRun", "gracePeriodSeconds", "propagationPolicy")),
    }


def _parameter(name: str, *, v3: bool) -> Object:
    kind = {"force": "boolean", "gracePeriodSeconds": "integer"}.get(name, "string")
    typed: Object = (
        {"schema": {"type": kind, "uniqueItems": True}} if v3 else {"type": kind, "uniqueItems": True}
    )
    return {"name": name, "in": "query"} | typed
