"""The verbs that write: create, update, patch, delete and deletecollection.

Each goes the same way: read what is there, decode what is asked, prepare (what the server owns is set or
restored), default, admit (mutating webhooks), validate, admit (validating webhooks), track field managers,
commit. Between reading and committing nothing else runs, unless a webhook is asked; then the commit looks
whether the object changed meanwhile, and the request starts over or is refused with a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewright.kube import mergepatch, protobuf
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.http import go_text
from tidewright.sim.api.http.request import JSON, Request, decode_body, decode_yaml, json_type
from tidewright.sim.api.kinds import metadata, schemas
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record, Table
from tidewright.sim.api.verbs import patch
from tidewright.sim.api.verbs.deletion import DeleteOptions
from tidewright.sim.api.verbs.match import matcher

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

MAX_ATTEMPTS = 5
_GENERATE_ATTEMPTS = 8

Object = dict[str, Any]


class Outcome:
    """What a write answers: the object (stored, or as a dry run would have stored it) and the code."""

    __slots__ = ("code", "obj", "record", "warnings")

    def __init__(
        self,
        record: Record | None,
        *,
        obj: Object | None = None,
        code: int = 200,
        warnings: list[str] | None = None,
    ) -> None:
        self.record = record
        self.obj = obj
        self.code = code
        self.warnings = warnings or []


class Changed(Exception):
    """The object changed between reading and committing."""


async def create(api: Api, request: Request) -> Outcome:
    request.check_options()
    media = request.headers.get("Content-Type", "")
    obj = decode_body(request.body, media, request.kind.kind)
    _look_for_repeated(request, obj)
    return await create_object(api, request, obj, request.body if media == JSON else b"")


def _look_for_repeated(request: Request, decoded: Any) -> None:
    """Note the fields that the body has twice, when the client cares."""
    if request.strictness != "Ignore" and not request.body.startswith(protobuf.MAGIC):
        request.repeated = go_text.repeated(request.body, decoded)


async def create_object(api: Api, request: Request, obj: Object, body: bytes = b"") -> Outcome:
    """Create a decoded object; `body` is the JSON that it was decoded from, where it is at hand."""
    kind, version = request.kind, request.version
    warnings = api.decode(request, obj, body=body)
    meta = obj["metadata"]
    namespace = _settle_namespace(request, meta)
    name = meta.get("name") or ""
    generate = not name and meta.get("generateName")
    if request.name and request.name != name:
        if name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({request.name})"
            )
        meta["name"] = name = request.name
    if not name and not generate:
        raise errors.invalid(
            kind.group,
            kind.kind,
            "",
            [
                FieldError(
                    "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
                )
            ],
        )
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise errors.ApiError(500, "resourceVersion should not be set on objects to be created", reason="")
    table = api.store.table(kind.table_name)
    if kind.namespaced:
        api.check_namespace_accepts(kind, namespace, name)
    metadata.wipe(meta)
    _drop_repeated_owners(request, meta)
    api.strategies.default(kind, version, obj)
    api.track(request, obj, None)
    api.strategies.admit_create(kind, obj)
    obj = await api.admit(request, "CREATE", obj, None)
    meta = obj["metadata"]
    if generate and not meta.get("name"):  # webhooks saw it without, as on the real server
        for _ in range(_GENERATE_ATTEMPTS):
            meta["name"] = metadata.generated_name(meta["generateName"])
            if table.get(namespace, meta["name"]) is None:
                break
    name = meta["name"]
    metadata.initialise(meta, api.stamps.now(), generation=kind.generation)
    api.strategies.prepare_create(kind, version, obj)
    api.strategies.validate_create(kind, version, obj)
    await api.admit_validating(request, "CREATE", obj, None)
    if table.get(namespace, name) is not None:
        raise errors.already_exists(kind.group, kind.plural, name)
    api.check_quota(kind, obj, None)
    obj = api.canonical(kind, obj)
    if request.dry_run:
        return Outcome(None, obj=obj, code=201, warnings=warnings)
    record = api.store.put(table, obj)
    api.committed(kind, record, None, obj)
    return Outcome(record, code=201, warnings=warnings)


async def update(api: Api, request: Request) -> Outcome:
    request.check_options()
    obj = decode_body(request.body, request.headers.get("Content-Type", ""), request.kind.kind)
    _look_for_repeated(request, obj)
    warnings = api.decode(request, obj)
    name = obj["metadata"].get("name") or ""
    if not name:
        raise errors.bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    _settle_namespace(request, obj["metadata"])
    table = api.store.table(request.kind.table_name)
    if request.kind.upsert and table.get(request.namespace, name) is None and not request.subresource:
        return await create_object(api, request, obj)

    def wanted(_: Object) -> Object:
        return obj

    return await modify(api, request, wanted, warnings, replacing=True)


async def apply_patch(api: Api, request: Request) -> Outcome:  # noqa: C901  # the steps of one request, in their order
    """Merge, JSON and strategic patches; server-side apply is handed on."""
    request.check_options()
    media = request.headers.get("Content-Type", "").split(";", 1)[0].strip()
    kind = request.kind
    warnings: list[str] = []
    touched: frozenset[str] | None = None
    change: Callable[[Object], Object]
    if media == patch.APPLY:
        from tidewright.sim.api.apply.applying import server_side_apply

        try:
            applied = decode_yaml(request.body)
        except errors.ApiError as error:
            raise errors.bad_request(
                f"error decoding YAML: error converting YAML to JSON: {error.message}"
            ) from None
        return await server_side_apply(api, request, applied)
    if media == patch.MERGE:
        body = patch.decode_patch(request.body)
        if not isinstance(body, dict):
            raise errors.bad_request(f"error decoding patch: {_no_object(body)}")
        _look_for_repeated(request, body)
        touched = frozenset(body)

        def change(target: Object) -> Object:
            return mergepatch.merged(target, body)  # type: ignore[no-any-return]  # an object into an object

    elif media == patch.JSON_PATCH:
        operations = patch.decode_patch(request.body)
        if request.strictness != "Ignore":
            request.repeated = patch.unknown_of_operations(operations)

        def change(target: Object) -> Object:
            result = patch.json_patch(target, operations)
            if not isinstance(result, dict):
                raise errors.bad_request("the patch leaves something that is not an object")
            return result

    elif media == patch.STRATEGIC and not kind.custom:
        directives = patch.decode_patch(request.body, before="")
        if not isinstance(directives, dict):
            raise errors.bad_request(_no_object(directives))
        _look_for_repeated(request, directives)
        if not any(name.startswith("$") for name in directives):
            touched = frozenset(directives)
        model = schemas.model_name(kind.group, request.version, kind.kind)

        def change(target: Object) -> Object:
            return patch.strategic(target, directives, model)

    else:
        accepted = [patch.JSON_PATCH, patch.MERGE, patch.APPLY]
        if not kind.custom:
            accepted.insert(2, patch.STRATEGIC)
        raise errors.unsupported_media_type(accepted)

    def wanted(old: Object) -> Object:
        new = change(old)
        warnings[:] = api.decode(request, new, touched=touched)
        return new

    return await modify(api, request, wanted, warnings, touched=touched)


async def modify(
    api: Api,
    request: Request,
    change: Callable[[Object], Object],
    warnings: list[str],
    *,
    replacing: bool = False,
    touched: frozenset[str] | None = None,
) -> Outcome:
    """Read, change, commit; again when the object changed meanwhile and the client named no version.

    Args:
        api: the server.
        request: what was asked; names the object.
        change: from the stored object (a copy, in the request's version) to the wanted one. When it names
            what it touches, it leaves the stored one as it is and shares with it what stays the same.
        warnings: what to tell the client besides.
        replacing: the client sent the whole object (an update).
        touched: the top-level fields that may differ; None for all.
    """
    kind = request.kind
    for _ in range(MAX_ATTEMPTS):
        table = api.store.table(kind.table_name)
        record = table.get(request.namespace, request.name)
        if record is None:
            raise errors.not_found(kind.group, kind.plural, request.name)
        old = api.to_version(kind, request.version, record.decode())
        if touched is None:
            new = change(api.to_version(kind, request.version, record.decode()))
        else:
            new = change(old)
        versioned = _check_preconditions(kind, old, new, replacing=replacing)
        try:
            return await _commit_change(
                api, request, table, record=record, old=old, new=new, warnings=warnings, touched=touched
            )
        except Changed:
            if versioned:
                raise errors.conflict(kind.group, kind.plural, request.name, errors.MODIFIED) from None
    raise errors.conflict(kind.group, kind.plural, request.name, errors.MODIFIED)


async def _commit_change(
    api: Api,
    request: Request,
    table: Table,
    *,
    record: Record,
    old: Object,
    new: Object,
    warnings: list[str],
    touched: frozenset[str] | None = None,
) -> Outcome:
    kind, version = request.kind, request.version
    if new["metadata"] is old["metadata"]:
        new["metadata"] = dict(old["metadata"])
    metadata.keep(new["metadata"], old["metadata"])
    api.strategies.prepare_update(kind, version, new, old, request.subresource)
    if touched is None or not api.strategies.defaulted(kind, touched):
        api.strategies.default(kind, version, new)
    new = await api.admit(request, "UPDATE", new, old)
    warned = api.strategies.validate_update(kind, version, new, old, request.subresource)
    if warned:
        warnings = [*warnings, *warned]
    await api.admit_validating(request, "UPDATE", new, old)
    if table.objects.get(record.key) is not record:
        raise Changed
    api.check_quota(kind, new, old)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    api.track(request, new, old)
    if new == old:
        return Outcome(record, warnings=warnings)
    if kind.generation and api.strategies.spec_changed(kind, new, old):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
    new = api.canonical(kind, new)
    if request.dry_run:
        return Outcome(None, obj=new, warnings=warnings)
    meta = new["metadata"]
    if (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not api.strategies.has_own_finalizers(kind, new)
    ):
        last = api.store.remove(table, record, new)
        api.committed(kind, last, record, new)
        return Outcome(last, warnings=warnings)
    stored = api.store.put(table, new)
    api.committed(kind, stored, record, new)
    return Outcome(stored, warnings=warnings)


def _check_preconditions(kind: Kind, old: Object, new: Object, *, replacing: bool) -> bool:
    """Compare version and uid with the stored ones; True when the client named a version."""
    meta, stored = new.get("metadata"), old["metadata"]
    name = stored["name"]
    if not isinstance(meta, dict):
        raise errors.bad_request("metadata of the object is not an object")
    uid = meta.get("uid")
    if uid and uid != stored["uid"] and not replacing:
        why = f'Invalid value: "{uid}": field is immutable'
        raise errors.invalid(kind.group, kind.kind, name, [FieldError("metadata.uid", why)])
    if uid and uid != stored["uid"]:
        raise errors.conflict(
            kind.group,
            kind.plural,
            name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored['uid']}",
        )
    version = meta.get("resourceVersion")
    if version and not str(version).isdigit():
        why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise errors.ApiError(500, why, reason="")
    if version and version != stored["resourceVersion"]:
        raise errors.conflict(kind.group, kind.plural, name, errors.MODIFIED)
    if not version and replacing and kind.custom:
        raise errors.invalid(
            kind.group,
            kind.kind,
            name,
            [FieldError("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")],
        )
    if new["metadata"].get("name") not in (None, name):
        raise errors.bad_request(
            f"the name of the object ({new['metadata']['name']}) does not match the name on the URL ({name})"
        )
    if stored.get("namespace") and meta.get("namespace") not in (None, "", stored["namespace"]):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return bool(version) and replacing


def _no_object(value: Any) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go value of type map[string]interface {{}}"


def _drop_repeated_owners(request: Request, meta: Object) -> None:
    """Of owners that are said twice one is kept, with a warning, as the API server does."""
    owners = meta.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return
    kept: list[Object] = []
    twice: list[str] = []
    for owner in owners:
        if owner in kept:
            twice.append(str(owner.get("uid")))
        else:
            kept.append(owner)
    if twice:
        meta["ownerReferences"] = kept
        request.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
            f"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(twice)}"
        )


def _settle_namespace(request: Request, meta: Object) -> str:
    if not request.kind.namespaced:
        meta.pop("namespace", None)
        return ""
    named = meta.get("namespace") or request.namespace
    if named != request.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = named
    return str(named)


async def delete(api: Api, request: Request) -> Outcome:
    options = DeleteOptions.read(request)
    return await api.deletion.delete(request, request.namespace, request.name, options)


async def delete_collection(api: Api, request: Request) -> list[Record]:
    """Delete everything that the selectors select; the records as they were."""
    options = DeleteOptions.read(request)
    selected = matcher(request.kind, request.query)
    table = api.store.table(request.kind.table_name)
    records = [record for record in table.scan(request.namespace) if selected.matches(record)]
    for record in records:
        try:
            await api.deletion.delete(request, record.namespace, record.name, options)
        except errors.ApiError as error:
            if error.code != 404:
                raise
    return records
