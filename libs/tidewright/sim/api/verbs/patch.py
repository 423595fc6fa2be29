"""Patches: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.

All three return a new object and leave their arguments alone where they differ from the result (shared
subtrees are not copied). A strategic merge patch merges the lists that the built-in kinds declare by key
(`STRATEGIC_KEYS`) and knows the directives `$patch`, `$retainKeys`, `$setElementOrder/...` and
`$deleteFromPrimitiveList/...`. Server-side apply is in `managed.py`.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from tidewright.sim.api import errors
from tidewright.sim.api.http import go_text
from tidewright.sim.api.http.request import json_type

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

# lists that merge by a key of their elements, by the field's name
STRATEGIC_KEYS: dict[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
PRIMITIVE_SETS = frozenset({"finalizers", "podCIDRs"})


def json_patch(target: dict[str, Any], operations: Any) -> Any:
    """RFC 6902. Raises 400 for what is no patch, 422 for a patch that does not apply."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        wrong = (
            operations
            if not isinstance(operations, list)
            else next(one for one in operations if not isinstance(one, dict))
        )
        wanted = "[]handlers.jsonPatchOp" if wrong is operations else "handlers.jsonPatchOp"
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(wrong)} into Go value of type {wanted}"
        )
    if len(operations) > 10_000:
        raise errors.ApiError(
            413, f"The allowed maximum operations in a JSON patch is 10000, got {len(operations)}"
        )
    try:
        return jsonpatch.JsonPatch(operations).apply(target)
    except _NOT_APPLICABLE:
        raise _unprocessable(_why(target, operations)) from None


_NOT_APPLICABLE = (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError)


def _why(target: dict[str, Any], operations: list[Any]) -> str:
    """What is wrong with the first operation that cannot be applied."""
    document: Any = target
    for one in operations:
        try:
            document = jsonpatch.JsonPatch([one]).apply(document)
        except jsonpatch.JsonPatchTestFailed:
            return f"testing value {one.get('path')} failed: test failed"
        except _NOT_APPLICABLE:
            name, path = one.get("op"), one.get("path")
            if name not in {"add", "remove", "replace", "move", "copy", "test"}:
                return f"Unexpected kind: {name or 'unknown'}"
            if not isinstance(path, str):
                return f"{name} operation failed to decode path: missing value"
            if name in {"move", "copy"}:
                return f"{name} operation does not apply: doc is missing from path: {one.get('from')}: missing value"
            return f'{name} operation does not apply: doc is missing path: "{path}": missing value'
    return "the patch does not apply"


def _unprocessable(message: str) -> errors.ApiError:
    return errors.ApiError(
        422, f"the server rejected our request due to an error in our request: {message}", details={}
    )


def strategic(target: Any, patch: dict[str, Any], field: str = "", kind: str = "") -> Any:  # noqa: C901  # a case per directive
    """Strategic merge of a patch into an object of a built-in kind.

    Args:
        target: the object, or the part of it under `field`; None when there is none yet.
        patch: what to merge into it.
        field: the name of the field that holds both, for the merge keys of `ports`.
        kind: the kind of the whole object.
    """
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise errors.ApiError(
            500, f"unknown patch type: {go_text.value(directive)} in map: {go_text.value(patch)}", reason=""
        )
    result = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if retain is not None:
        result = {key: value for key, value in result.items() if key in retain}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            if isinstance(result.get(name), list):
                result[name] = [item for item in result[name] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            merged = strategic(result.get(key), value, key, kind)
            result[key] = merged
        elif isinstance(value, list):
            result[key] = _merge_list(result.get(key), value, key, field, kind)
        else:
            result[key] = value
    for key, value in patch.items():
        if isinstance(value, list) and key[0] != "$" and isinstance(result.get(key), list):
            merge_key = strategic_key(key, kind)
            if merge_key is not None and not any(isinstance(one, dict) and "$patch" in one for one in value):
                before = target.get(key) if isinstance(target, dict) else None
                order = patch.get(f"$setElementOrder/{key}")
                result[key] = _ordered(
                    result[key], value if order is None else order, before or [], merge_key
                )
    for key, order in patch.items():
        name = key.partition("/")[2]
        if (
            key.startswith("$setElementOrder/")
            and isinstance(order, list)
            and isinstance(result.get(name), list)
        ):
            before = target.get(name) if isinstance(target, dict) else None
            result[name] = _ordered(result[name], order, before or [], strategic_key(name, kind))
    return result


def strategic_key(field: str, kind: str) -> str | None:
    """The key by which a list merges; None when it is replaced as a whole."""
    if field == "ports":
        return "port" if kind == "Service" else "containerPort"
    if field == "addresses" and kind != "Node":
        return None
    return STRATEGIC_KEYS.get(field)


def _merge_list(target: Any, patch: list[Any], field: str, parent: str, kind: str) -> list[Any]:
    merge_key = strategic_key(field, kind)
    existing: list[Any] = list(target) if isinstance(target, list) else []
    if merge_key is None:
        if field in PRIMITIVE_SETS and parent in {"metadata", "spec"}:
            return existing + [item for item in patch if item not in existing]
        return patch
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    for item in patch:
        if not isinstance(item, dict):
            raise errors.bad_request(f"list element of {field} in a strategic merge patch is not an object")
        if merge_key not in item:
            raise errors.ApiError(
                500, f"map: {go_text.value(item)} does not contain declared merge key: {merge_key}", reason=""
            )
        at = next(
            (
                i
                for i, old in enumerate(existing)
                if isinstance(old, dict) and old.get(merge_key) == item[merge_key]
            ),
            None,
        )
        if item.get("$patch") == "delete":
            existing = [
                old for old in existing if not isinstance(old, dict) or old.get(merge_key) != item[merge_key]
            ]
        elif at is None:
            existing.append(strategic({}, item, field, kind))
        else:
            existing[at] = strategic(existing[at], item, field, kind)
    return existing


def _ordered(items: list[Any], order: list[Any], before: list[Any], merge_key: str | None) -> list[Any]:
    """Items in the order given; others stay where they were relative to those that were there before.

    Args:
        items: merged.
        order: what the patch names, in its order.
        before: the list as it was.
        merge_key: tells the items apart; None for a list of plain values.
    """

    def identity(item: Any) -> bytes:
        return msgspec.json.encode(item.get(merge_key) if merge_key and isinstance(item, dict) else item)

    wanted = {identity(entry): index for index, entry in enumerate(order)}
    was = {identity(item): index for index, item in enumerate(before)}
    named = sorted(
        (item for item in items if identity(item) in wanted), key=lambda item: wanted[identity(item)]
    )
    others = [item for item in items if identity(item) not in wanted]
    result: list[Any] = []
    while named and others:
        left, right = was.get(identity(others[0])), was.get(identity(named[0]))
        earlier = left is not None and right is not None and left < right
        result.append(others.pop(0) if earlier else named.pop(0))
    return result + named + others


_OPERATION = frozenset({"op", "path", "from", "value"})


def unknown_of_operations(operations: Any) -> list[str]:
    """What a strict decoder says of a JSON patch: members of operations that nobody knows."""
    return [
        f'json patch unknown field "[{index}].{key}"'
        for index, one in enumerate(operations if isinstance(operations, list) else ())
        for key in (one if isinstance(one, dict) else ())
        if key not in _OPERATION
    ]


def decode_patch(body: bytes, before: str = "error decoding patch: ") -> Any:
    """The JSON of a patch. Raises 400; `before` is what its message begins with."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"{before}{go_text.json_trouble(body, error)}") from None
