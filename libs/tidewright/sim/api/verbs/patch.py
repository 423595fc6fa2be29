"""Patches: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.

All three return a new object and leave their arguments alone where they differ from the result (shared
subtrees are not copied). How a strategic merge patch merges is in `kube.strategicmerge`; here it gets the server's
codes. Server-side apply is in `managed.py`.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from tidewright.kube import strategicmerge
from tidewright.sim.api import errors
from tidewright.sim.api.http import go_text
from tidewright.sim.api.http.request import json_type
from tidewright.sim.api.kinds import schemas

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


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


def strategic(target: dict[str, Any], patch: dict[str, Any], model: str | None) -> dict[str, Any]:
    """Strategic merge of a patch into an object of a built-in kind, of this model (`kinds.schemas`).

    Raises 400, 422 or 500 for what is no such patch, in the API server's words.
    """
    try:
        return strategicmerge.merge(target, patch, model or "", schemas.merging)
    except strategicmerge.MalformedDirective as error:
        raise errors.bad_request(f"invalid patch format of {_FORMATS[error.directive]}") from None
    except strategicmerge.ListOfLists:
        raise errors.ApiError(422, "lists of lists are not supported", reason="") from None
    except strategicmerge.UnknownDirective as error:
        directive, within = go_text.value(error.directive), go_text.value(error.within)
        raise errors.ApiError(500, f"unknown patch type: {directive} in map: {within}", reason="") from None
    except strategicmerge.NoMergeKey as error:
        element = go_text.value(error.element)
        message = f"map: {element} does not contain declared merge key: {error.key}"
        raise errors.ApiError(500, message, reason="") from None
    except strategicmerge.InvalidPatch as error:
        raise errors.ApiError(500, str(error), reason="") from None


_FORMATS = {
    strategicmerge.RETAIN_KEYS: "retainKeys",
    strategicmerge.DELETE_FROM_LIST: "primitive list",
    strategicmerge.SET_ELEMENT_ORDER: "setElementOrder list",
}


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
