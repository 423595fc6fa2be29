"""AdmissionReview and ConversionReview as values. Pure.

read_review      bytes to a `Review`; what cannot be read is `BadReview` with an HTTP status
answer           a `Review` answered, as bytes
converted        objects between the two served versions (specification, 1.4)
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.spread.spec import GROUP

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_NAMES = (
    ("requiredNodeSelectorTerm", "requiredNodeSelector"),
    ("preferredNodeSelectorTerms", "preferredNodeSelector"),
)


class BadReview(ValueError):
    """The body is no review that can be answered; the HTTP status is 400."""


class Review(msgspec.Struct, frozen=True):
    """One admission request.

    Attributes:
        api_version: the version to answer in.
        obj, old: the object and the one before, None when absent.
        options: of the operation.
    """

    api_version: str
    uid: str
    operation: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool = False
    obj: JsonObject | None = None
    old: JsonObject | None = None
    options: JsonObject = {}


class _Resource(msgspec.Struct):
    resource: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str
    resource: _Resource = msgspec.field(default_factory=_Resource)
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    options: JsonObject | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_decoder = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> Review:
    """Read an AdmissionReview.

    Raises:
        BadReview: not JSON, another kind or version, or without a request; the message says which.
    """
    try:
        read = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadReview(f"not an AdmissionReview: {error}") from error
    if read.kind != "AdmissionReview" or read.api_version not in VERSIONS:
        raise BadReview(
            f"{read.api_version} {read.kind}: expected AdmissionReview of {' or '.join(VERSIONS)}"
        )
    request = read.request
    return Review(
        api_version=read.api_version,
        uid=request.uid,
        operation=request.operation,
        resource=request.resource.resource,
        subresource=request.sub_resource,
        namespace=request.namespace,
        name=request.name,
        dry_run=bool(request.dry_run),
        obj=request.object,
        old=request.old_object,
        options=request.options or {},
    )


def answer(
    review: Review,
    *,
    patch: Sequence[JsonObject] = (),
    refused: str = "",
    code: int = 200,
    warnings: Sequence[str] = (),
) -> bytes:
    """The review answered: refused with a message and a code, or allowed, possibly with a JSON patch."""
    response: JsonObject = {"uid": review.uid, "allowed": not refused}
    if refused:
        response["status"] = {"status": "Failure", "message": refused, "code": code}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return msgspec.json.encode(
        {"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response}
    )


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> list[JsonObject]:
    """RFC 6902 operations from `before` to `after`; lists are replaced whole."""
    operations: list[JsonObject] = []
    for key in before:
        if key not in after:
            operations.append({"op": "remove", "path": f"{path}/{_token(key)}"})
    for key, value in after.items():
        if value is before.get(key):
            continue
        at = f"{path}/{_token(key)}"
        if key not in before:
            operations.append({"op": "add", "path": at, "value": value})
        elif isinstance(value, dict) and isinstance(before[key], dict):
            operations.extend(json_patch(before[key], value, at))
        elif value != before[key]:
            operations.append({"op": "replace", "path": at, "value": value})
    return operations


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def converted(body: bytes) -> bytes:
    """Answer a ConversionReview.

    Raises:
        BadReview: it cannot be read.
    """
    try:
        review = msgspec.json.decode(body)
        request = review["request"]
        wanted, uid = request["desiredAPIVersion"], request["uid"]
        objects = request.get("objects") or []
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise BadReview(f"not a ConversionReview: {error!r}") from error
    response: JsonObject = {"uid": uid}
    try:
        response["convertedObjects"] = [convert(obj, wanted) for obj in objects]
        response["result"] = {"status": "Success"}
    except BadReview as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    return msgspec.json.encode(
        {"apiVersion": review.get("apiVersion"), "kind": "ConversionReview", "response": response}
    )


def convert(obj: JsonObject, wanted: str) -> JsonObject:
    """One object in another version. Raises BadReview for a version that is not served."""
    if wanted not in (f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1"):
        raise BadReview(f"WorkloadSpread has no version {wanted!r}; it has v1alpha1 and v1beta1 of {GROUP}")
    up = wanted.endswith("v1beta1")
    spec = dict(obj.get("spec") or {})
    if "subsets" in spec:
        spec["subsets"] = [_subset(subset, up=up) for subset in spec["subsets"] or ()]
    made: JsonObject = {**obj, "apiVersion": wanted, "spec": spec}
    if isinstance(obj.get("status"), dict):
        status = dict(obj["status"])
        if "subsetStatuses" in status:
            status["subsetStatuses"] = _entries(status["subsetStatuses"], up=up)
        if isinstance(status.get("versionedSubsetStatuses"), dict):
            status["versionedSubsetStatuses"] = {
                version: _entries(entries, up=up)
                for version, entries in status["versionedSubsetStatuses"].items()
            }
        made["status"] = status
    return made


def _subset(subset: JsonObject, *, up: bool) -> JsonObject:
    names = {(old if up else new): (new if up else old) for old, new in _NAMES}
    return {names.get(key, key): value for key, value in subset.items()}


def _entries(entries: Sequence[JsonObject] | None, *, up: bool) -> list[JsonObject]:
    return [
        {**entry, "conditions": [_condition(c, up=up) for c in entry["conditions"]]}
        if entry.get("conditions")
        else entry
        for entry in entries or ()
    ]


def _condition(condition: JsonObject, *, up: bool) -> JsonObject:
    if up:
        return {
            **condition,
            "reason": condition.get("reason") or "Unknown",
            "message": condition.get("message", ""),
        }
    return {key: value for key, value in condition.items() if key != "observedGeneration"}
