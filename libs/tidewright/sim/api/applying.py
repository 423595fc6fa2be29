"""Server-side apply: a manager says which fields it wants, and owns exactly these from then on.

What is applied is merged into the live object; fields that the manager applied before and leaves out now are
removed, unless somebody else owns them too; fields of others that it wants otherwise are a conflict (409),
which `force` settles by taking them over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewright.sim.api import errors, managed
from tidewright.sim.api.request import Request, is_true
from tidewright.sim.api.writing import Outcome, create_object, modify

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]


async def server_side_apply(api: Api, request: Request, applied: Any) -> Outcome:
    """Apply a configuration. Raises 409 with the conflicting fields, 400 for a patch that cannot be applied."""
    kind = request.kind
    if not isinstance(applied, dict):
        raise errors.bad_request("error decoding YAML: an apply configuration is an object")
    manager = request.query.get("fieldManager")
    if not manager:
        raise errors.invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            [
                errors.Cause(
                    "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
                )
            ],
        )
    warnings = api.decode(request, applied)
    meta = applied["metadata"]
    if meta.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    if meta.get("name") not in (None, request.name):
        raise errors.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({request.name})"
        )
    if kind.namespaced and meta.get("namespace") not in (None, "", request.namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    typing = api.typing(kind, request.version)
    fields = managed.object_fields(
        applied, typing, without_status=kind.status and request.subresource != "status", applied=True
    )
    if api.store.table(kind.table_name).get(request.namespace, request.name) is None:
        if request.subresource:
            raise errors.not_found(kind.group, kind.plural, request.name)
        if meta.get("uid"):
            raise errors.conflict(
                kind.group,
                kind.plural,
                request.name,
                f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found",
            )
        meta["name"] = request.name
        obj = applied | {"metadata": {key: value for key, value in meta.items() if key != "resourceVersion"}}
        request.applied = fields
        return await create_object(api, request, obj)

    def change(live: Object) -> Object:
        entries = list(live["metadata"].get("managedFields") or ())
        mine: Object = next(
            (e["fieldsV1"] for e in entries if managed.is_apply_of(e, manager, request.subresource)), {}
        )
        wanted = _without_server_fields(applied)
        found = managed.conflicts(entries, manager, request.subresource, fields, live, wanted, typing)
        if found and not is_true(request.query.get("force")):
            raise _conflict(found)
        given_up = managed.subtract(mine, fields)
        for entry in entries:
            if not managed.is_apply_of(entry, manager, request.subresource):
                given_up = managed.subtract(given_up, entry.get("fieldsV1") or {})
        result = managed.merge(live, wanted, typing)
        if given_up:
            result = managed.remove(result, given_up, typing)
        request.applied = fields
        if meta.get("resourceVersion"):
            result["metadata"]["resourceVersion"] = meta["resourceVersion"]
        if meta.get("uid"):
            result["metadata"]["uid"] = meta["uid"]
        return dict(result)

    return await modify(api, request, change, warnings)


def _without_server_fields(applied: Object) -> Object:
    kept = {"labels", "annotations", "finalizers", "ownerReferences"}
    return applied | {"metadata": {k: v for k, v in applied["metadata"].items() if k in kept}}


def _conflict(found: list[tuple[Object, list[str]]]) -> errors.ApiError:
    """409 that names the fields and their managers, as kubectl prints them."""
    causes = []
    told = []
    for entry, paths in found:
        who = f'"{entry["manager"]}"'
        if entry.get("subresource"):
            who += f' with subresource "{entry["subresource"]}"'
        if entry.get("operation") == "Update":
            who += f" using {entry['apiVersion']}"
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for path in paths
        ]
        if len(paths) == 1:
            told.append(f"conflict with {who}: {paths[0]}")
        else:
            told.append(f"conflicts with {who}:\n- " + "\n- ".join(paths))
    total = sum(len(paths) for _, paths in found)
    if total == 1 or len(told) == 1:
        text = f"Apply failed with {total} conflict{'s' if total > 1 else ''}: {told[0]}"
    else:
        text = f"Apply failed with {total} conflicts: " + "\n".join(told)
    return errors.ApiError(409, text, details={"causes": causes})
