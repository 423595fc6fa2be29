"""What went wrong with a request, classified once for everybody.

KubeError            any answer >= 400, and any request without an answer (`status` 0)

Its `error_class` is the low-cardinality word that decides about retries and labels metrics:
conflict, throttled, gone, forbidden, invalid, unavailable. Pure: no I/O here.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

ErrorClass: TypeAlias = Literal["conflict", "throttled", "gone", "forbidden", "invalid", "unavailable"]

UNREACHABLE: Final = "Unreachable"
"""Reason of a request that got no answer: refused, reset, name not found, TLS."""
TIMEOUT: Final = "Timeout"
"""Reason of a request that was not answered within its deadline."""

_BY_STATUS: Final[dict[int, ErrorClass]] = {
    401: "forbidden",
    403: "forbidden",
    404: "gone",
    408: "unavailable",
    409: "conflict",
    410: "gone",
    412: "conflict",
    429: "throttled",
}


class KubeError(Exception):
    """A request that did not succeed.

    Attributes:
        status: HTTP status; 0 when there was no answer.
        reason: the Status object's reason (`NotFound`, `AlreadyExists`), or `Unreachable`, `Timeout`.
        message: the Status object's message, for people.
        retry_after_s: what `Retry-After` asks for, in seconds; None without it.
        body: the answer's body, without the paths of webhooks that the server called.
        details: `details` of the Status object.
        server: URL of the API server that answered; empty where nobody did.
    """

    server: str = ""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        body: bytes = b"",
        details: StatusDetails | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.body = body
        self.details = details or StatusDetails()

    @property
    def error_class(self) -> ErrorClass:
        """conflict, throttled, gone, forbidden, invalid or unavailable."""
        if self.status == 0 or self.status >= 500:
            return "unavailable"
        return _BY_STATUS.get(self.status, "invalid")

    @property
    def retriable(self) -> bool:
        """Whether the very same request may succeed later: throttled or unavailable."""
        return self.error_class in ("throttled", "unavailable")


class StatusCause(msgspec.Struct, frozen=True):
    """One cause of a failure; the API calls its type `reason`."""

    reason: str = ""
    message: str = ""


class StatusDetails(msgspec.Struct, frozen=True):
    """`details` of a Status object, as far as it is used."""

    name: str = ""
    kind: str = ""
    retryAfterSeconds: float | None = None  # noqa: N815 - the API's name
    causes: tuple[StatusCause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The API's answer about a failed request, or the object of an ERROR watch event."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: StatusDetails | None = None


_status = msgspec.json.Decoder(Status)
MAX_MESSAGE = 4096
"""Characters of what a server says; a validation that names every field of an object is shorter."""


_CALLED = re.compile(rb'\b((?:Get|Head|Post|Put|Patch|Delete) \\?"https?://[^/"\\\s]*)/[^"\\\s]*')
"""What an API server called in vain, as its HTTP client quotes it: method, and URL with its path."""


def error_of(status: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """The error that an answer stands for; a body that is no Status object becomes the message.

    An API server quotes the whole URL of a webhook that it could not call, and our endpoints know their caller by
    a token in that path. What is told here ends on the log, where more people read than may call: the path goes.

    Args:
        status: HTTP status, >= 400.
        body: the answer's body.
        retry_after: the `Retry-After` header; only its form in seconds is understood.
    """
    body = _CALLED.sub(rb"\1/...", body)
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        said = Status()
    if said.kind != "Status":
        text = body[:300].decode("utf-8", "replace").strip()
        said = Status(reason=_reason(status), message=text or "no message")
    details = said.details or StatusDetails()
    wait_s = _seconds(retry_after)
    if wait_s is None:
        wait_s = details.retryAfterSeconds
    return KubeError(
        status,
        said.reason or _reason(status),
        said.message if len(said.message) <= MAX_MESSAGE else f"{said.message[:MAX_MESSAGE]}...",
        retry_after_s=wait_s,
        body=body,
        details=details,
    )


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None


def _reason(status: int) -> str:
    """The reason that the API server would give for this status."""
    return {
        400: "BadRequest",
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        405: "MethodNotAllowed",
        409: "Conflict",
        410: "Expired",
        422: "Invalid",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
        504: "Timeout",
    }.get(status, f"HTTP{status}")
