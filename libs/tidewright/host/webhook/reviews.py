"""AdmissionReview as values: bytes to a `Review`, and a `Review` answered as bytes. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from tidewright.events.base import JsonObject

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")


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


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""
    apiVersion: str = ""  # noqa: N815 - the API's name
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
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


def of_objects(review: Review) -> Review:
    """The review, where what it is about has the metadata of objects: labels that are texts, owners that are named.

    Raises:
        BadReview: it has not, as no API server sends it; the message names the field.
    """
    for which, obj in (("object", review.obj), ("oldObject", review.old)):
        check_metadata(which, obj)
    return review


def check_metadata(which: str, obj: JsonObject | None) -> None:
    """Raises BadReview for metadata that is none of an object, as `of_objects`; `which` is the object's name in the message."""
    try:
        msgspec.convert((obj or {}).get("metadata"), _Meta | None)
    except msgspec.ValidationError as error:
        raise BadReview(f"{which}.metadata is none of an object: {error}") from error


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
