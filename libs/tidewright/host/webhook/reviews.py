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
