"""Status errors: what the API server answers instead of an object, with its codes, reasons and causes.

Every refusal in this package is an `ApiError`; `body` is the `Status` object that goes over the wire.
The constructors below carry the wording of the API conventions, so that clients that read messages
(and people) find what they know.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.log import disk

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(Exception):
    """A refused request: becomes a `Status` with this code.

    Attributes:
        code: HTTP status.
        reason: machine-readable reason of the API conventions.
        details: `name`, `group`, `kind`, `uid`, `causes`, `retryAfterSeconds` where they are known.
        plain: answered as plain text instead of a Status, as paths are that no API has anything to do with.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(message)
        self.plain = plain
        self.code = code
        self.message = message
        self.reason = REASONS.get(code, "Unknown") if reason is None else reason
        self.details = details
        self.metadata = metadata or {}

    @property
    def retry_after_s(self) -> int | None:
        seconds = (self.details or {}).get("retryAfterSeconds")
        return int(seconds) if seconds else None

    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @property
    def body(self) -> bytes:
        return f"{self.message}\n".encode() if self.plain else msgspec.json.encode(self.status())


class NoSpace(ApiError):
    """The disk of the embedded cluster is full."""


def no_space(folder: Path) -> ApiError:
    """503 for a write that the disk of the embedded cluster has no room for; nothing was written."""
    return NoSpace(503, disk.no_space(folder))


def qualified(group: str, plural: str) -> str:
    """`deployments.apps`, as messages name a resource."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def not_found(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        404, f'{qualified(group, plural)} "{name}" not found', details=_details(group, plural, name)
    )


def page_not_found() -> ApiError:
    """404 for a path below no group and version that is served."""
    return ApiError(404, "404 page not found", plain=True)


def path_not_found() -> ApiError:
    """404 for a path within a group and version that is served."""
    return ApiError(404, "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        409,
        f'{qualified(group, plural)} "{name}" already exists',
        reason="AlreadyExists",
        details=_details(group, plural, name),
    )


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}',
        details=_details(group, plural, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(
    group: str, plural: str, name: str, why: str, causes: Iterable[dict[str, Any]] = ()
) -> ApiError:
    details = _details(group, plural, name)
    listed = list(causes)
    if listed:
        details["causes"] = listed
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return ApiError(403, f"{subject} is forbidden: {why}", details=details)


def invalid(group: str, kind: str, name: str, causes: Iterable[FieldError]) -> ApiError:
    """422 with every wrong field; one is told plainly, several in brackets."""
    unique = list(dict.fromkeys(causes))
    messages = [str(cause) for cause in unique]
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = _details(group, kind, name)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in unique
    ]
    subject = f"{kind}.{group}" if group else kind
    if not kind:
        details.pop("kind")
    return ApiError(422, f'{subject} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, message)


def expired(message: str) -> ApiError:
    """410: the resourceVersion or continue token is older than the history kept."""
    return ApiError(410, message)


def too_old(asked: int, floor: int) -> ApiError:
    return expired(f"too old resource version: {asked} ({floor})")


def method_not_allowed(group: str, plural: str) -> ApiError:
    details = _details(group, plural) if plural else {}
    return ApiError(405, "the server does not allow this method on the requested resource", details=details)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    return ApiError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def not_acceptable(accepted: Iterable[str]) -> ApiError:
    return ApiError(406, "only the following media types are accepted: " + ", ".join(accepted))


def too_many_requests(message: str, retry_after_s: int, causes: Iterable[dict[str, Any]] = ()) -> ApiError:
    details: dict[str, Any] = {}
    listed = list(causes)
    if listed:
        details["causes"] = listed
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, message, details=details)


def too_large(limit_bytes: int) -> ApiError:
    return ApiError(413, f"Request entity too large: limit is {limit_bytes}")


def internal(message: str) -> ApiError:
    return ApiError(
        500,
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )
