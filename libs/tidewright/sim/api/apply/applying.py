"""Server-side apply: a manager says which fields it wants, and owns exactly these from then on.

What is applied is merged into the live object; fields that the manager applied before and leaves out now are
removed, unless somebody else owns them too; fields of others that it wants otherwise are a conflict (409),
which `force` settles by taking them over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.apply import managed
from tidewright.sim.api.apply.field_sets import (
    SELF,
    FieldSet,
    difference,
    intersection,
    paths,
    union,
    with_places,
)
from tidewright.sim.api.apply.typing import Typing
from tidewright.sim.api.http import go_text
from tidewright.sim.api.http.request import Request, is_true
from tidewright.sim.api.verbs.writing import Outcome, create_object, modify

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]


async def server_side_apply(api: Api, request: Request, applied: Any) -> Outcome:  # noqa: C901  # the steps of one request, in their order
    """Apply a configuration. Raises 409 with the conflicting fields, 400 for a patch that cannot be applied."""
    kind = request.kind
    if not isinstance(applied, dict) or not applied.get("apiVersion") or not applied.get("kind"):
        version, name = (
            (applied.get("apiVersion", ""), applied.get("kind", ""))
            if isinstance(applied, dict)
            else ("", "")
        )
        raise errors.bad_request(
            f"invalid object type: {'' if '/' in version else '/'}{version}, Kind={name}"
        )
    manager = request.query.get("fieldManager")
    if not manager:
        raise errors.invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            [FieldError("fieldManager", "Required value: is required for apply patch", "FieldValueRequired")],
        )
    strictness = request.strictness
    repeated = [] if strictness == "Ignore" else go_text.repeated_in_yaml(request.body, applied)
    if repeated and strictness == "Strict":
        lines = "".join(f"\n  {line}" for line in repeated)
        raise errors.bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}"
        )
    request.warnings += repeated
    warnings = api.decode(request, applied, typed=True)
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
    configuration = _without_server_fields(applied)
    # of the two parts each way of writing has its own, and applying the other does nothing
    without = "" if not kind.status else "spec" if request.subresource == "status" else "status"
    problems = managed.not_told_apart(configuration, typing, "")
    if problems:
        raise untyped(request, applied, problems)
    fields = managed.applied_by(applied, typing, without=without)
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
        request.entries = _entries(api, request, [], fields=fields, changed={}, removed={})
        return await create_object(api, request, obj)

    def change(live: Object) -> Object:
        entries = list(live["metadata"].get("managedFields") or ())
        result = managed.merge(live, configuration, typing)
        given_up = _given_up(entries, request, fields)
        if given_up:
            result = managed.remove(result, given_up, typing)
        result["metadata"] = dict(result["metadata"])
        changed, removed = managed.changed_fields(result, live, typing, typed=not kind.custom)
        conflicts = _conflicts(entries, request, changed)
        if conflicts and manager == KUBECTL:
            conflicts = _not_of_client_side(conflicts, live, request.api_version, typing)
        if conflicts and not is_true(request.query.get("force")):
            raise _conflict(conflicts)
        request.entries = _entries(api, request, entries, fields=fields, changed=changed, removed=removed)
        _follow_last_applied(result, applied, manager)
        if meta.get("resourceVersion"):
            result["metadata"]["resourceVersion"] = meta["resourceVersion"]
        if meta.get("uid"):
            result["metadata"]["uid"] = meta["uid"]
        return dict(result)

    return await modify(api, request, change, warnings)


def untyped(request: Request, applied: Object, problems: list[str]) -> errors.ApiError:
    """500 for a configuration that does not fit its type, as the API server answers."""
    meta = applied.get("metadata") or {}
    version = request.api_version if "/" in request.api_version else f"/{request.api_version}"
    why = problems[0] if len(problems) == 1 else "errors:" + "".join(f"\n  {problem}" for problem in problems)
    return errors.ApiError(
        500,
        f"failed to create typed patch object ({meta.get('namespace', '')}/{meta.get('name', '')}; "
        f"{version}, Kind={request.kind.kind}): {why}",
        reason="",
    )


def _without_server_fields(applied: Object) -> Object:
    kept = {"labels", "annotations", "finalizers", "ownerReferences"}
    return applied | {"metadata": {k: v for k, v in applied["metadata"].items() if k in kept}}


def _is_mine(entry: Object, request: Request) -> bool:
    return (
        entry.get("manager") == request.query.get("fieldManager")
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == request.subresource
    )


def _given_up(entries: list[Object], request: Request, fields: FieldSet) -> FieldSet:
    """What the manager applied before, applies no more, and nobody else owns: with the places that held only that."""
    previous: FieldSet = {}
    kept = with_places(fields)
    for entry in entries:
        if _is_mine(entry, request):
            previous = with_places(entry.get("fieldsV1") or {})
        else:
            kept = union(kept, with_places(entry.get("fieldsV1") or {}))
    given_up = difference(previous, kept)
    meta = given_up.pop("f:metadata", None)  # itself nobody's to take away
    below = {key: value for key, value in (meta or {}).items() if key != SELF}
    return given_up | {"f:metadata": below} if below else given_up


def _entries(
    api: Api,
    request: Request,
    entries: list[Object],
    *,
    fields: FieldSet,
    changed: FieldSet,
    removed: FieldSet,
) -> list[Object]:
    """Entries after an apply: exactly what was applied is the manager's, what it changed is nobody else's."""
    gone = union(changed, removed)
    mine = next((entry for entry in entries if _is_mine(entry, request)), None)
    kept = []
    for entry in entries:
        if entry is not mine:
            remaining = difference(entry.get("fieldsV1") or {}, gone) if gone else entry.get("fieldsV1")
            if remaining:
                kept.append(entry if remaining == entry.get("fieldsV1") else entry | {"fieldsV1": remaining})
    if fields:
        version, manager = request.api_version, str(request.query.get("fieldManager"))
        if mine is not None and not gone:
            kept.append(mine | {"fieldsV1": fields, "apiVersion": version})  # nothing new: no new time either
        else:
            now = api.stamps.now()
            kept.append(
                managed.new_entry(
                    manager, "Apply", version, subresource=request.subresource, fields=fields, now=now
                )
            )
    return managed.ordered(kept)


# -- conflicts -----------------------------------------------------------------------------------------

Found = list[tuple[Object, list[str]]]  # per entry, the paths of its fields that are applied otherwise


def _conflicts(entries: list[Object], request: Request, changed: FieldSet) -> Found:
    conflicts = []
    for entry in entries:
        if not _is_mine(entry, request):
            disputed = list(paths(intersection(entry.get("fieldsV1") or {}, changed)))
            if disputed:
                conflicts.append((entry, disputed))
    return conflicts


def _conflict(conflicts: Found) -> errors.ApiError:
    """409 that names the fields and their managers, as kubectl prints them."""
    causes = []
    managers = []
    for entry, disputed in conflicts:
        who = f'"{entry["manager"]}"'
        if entry.get("subresource"):
            who += f' with subresource "{entry["subresource"]}"'
        if entry.get("operation") == "Update":
            who += f" using {entry['apiVersion']}"
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for path in disputed
        ]
        managers.append((who, disputed))
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: conflict with {managers[0][0]}: {managers[0][1][0]}"
    else:
        lines = [f"conflicts with {who}:\n- " + "\n- ".join(disputed) for who, disputed in managers]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return errors.ApiError(409, text, details={"causes": causes})


# -- from client-side apply ----------------------------------------------------------------------------

KUBECTL = "kubectl"  # the manager that stands for both ways in which kubectl applies
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _not_of_client_side(conflicts: Found, live: Object, api_version: str, typing: Typing) -> Found:
    """The conflicts that do not stem from kubectl itself having applied the live values from its client."""
    try:
        text = live["metadata"]["annotations"][LAST_APPLIED]
        last = msgspec.json.decode(text, type=dict[str, Any])
    except (KeyError, TypeError, msgspec.DecodeError):
        return conflicts
    if last.get("apiVersion") != api_version:
        return conflicts
    last.setdefault("metadata", {})
    own = managed.applied_by(last, typing, without="")
    live_now = {key: value for key, value in live.items() if key in last}
    changed, removed = managed.changed_fields(live_now, last, typing, typed=False)
    own_paths = set(paths(difference(difference(own, changed), removed)))
    remaining = [
        (entry, [path for path in disputed if path not in own_paths]) for entry, disputed in conflicts
    ]
    return [(entry, disputed) for entry, disputed in remaining if disputed]


def _follow_last_applied(result: Object, applied: Object, manager: str) -> None:
    """Keep the annotation of client-side apply in step, so that both ways may be used in turn."""
    annotations = result["metadata"].get("annotations") or {}
    if manager != KUBECTL or LAST_APPLIED not in annotations:
        return
    meta = {key: value for key, value in applied["metadata"].items() if key != "managedFields"}
    if meta.get("annotations"):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    text = msgspec.json.encode(applied | {"metadata": meta}, order="sorted").decode() + "\n"
    result["metadata"]["annotations"] = annotations | {LAST_APPLIED: text}
