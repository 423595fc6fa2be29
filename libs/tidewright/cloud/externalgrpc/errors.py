"""Faults of gRPC to errors and back."""

from __future__ import annotations

from typing import Final

import grpc

from tidewright.cloud.errors import (
    ERRORS,
    CloudError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotImplementedByCloud,
    OutOfCapacity,
    QuotaExceeded,
    Throttled,
    Unavailable,
)

REASON: Final = "tidewright-reason"
"""Trailing metadata by which a server of ours tells a client of ours the class, finer than gRPC's codes."""

_OF_CODE: Final[dict[grpc.StatusCode, type[CloudError]]] = {
    grpc.StatusCode.UNIMPLEMENTED: NotImplementedByCloud,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.OUT_OF_RANGE: Invalid,
    grpc.StatusCode.PERMISSION_DENIED: Forbidden,
    grpc.StatusCode.UNAUTHENTICATED: Forbidden,
}
"""What is not here is `Unavailable`, but for two codes that depend on the call."""

CODES: Final[dict[type[CloudError], grpc.StatusCode]] = {
    NotImplementedByCloud: grpc.StatusCode.UNIMPLEMENTED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Conflict: grpc.StatusCode.ABORTED,
    Throttled: grpc.StatusCode.RESOURCE_EXHAUSTED,
    QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    OutOfCapacity: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}
"""What a server of ours answers."""


def of_rpc(error: grpc.aio.AioRpcError, what: str, *, changes: bool) -> CloudError:
    """The error of a call; `changes` when it was to change something.

    A server written in Go answers `UNKNOWN` for an error that it did not classify. That is an answer: to a read it may be
    another one in a moment, an order is refused by it.
    """
    code = error.code()
    message = f"{what}: {error.details() or code.name}"
    reason = dict(error.trailing_metadata() or ()).get(REASON, "")
    if isinstance(reason, str) and reason in ERRORS:
        return ERRORS[reason](message, code=code.name)
    if code is grpc.StatusCode.UNAVAILABLE and "handshake failed" in message:
        return Forbidden(
            f"{message}; cacert has to be the authority of the server's certificate, and that one of the host in address",
            code="Certificate",
        )
    if code is grpc.StatusCode.UNAVAILABLE and "Socket closed" in message:
        message += (
            "; the server may want a certificate (cert, key, cacert), or refuse the one that it is shown"
        )
    kind: type[CloudError] = _OF_CODE.get(code, Unavailable)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        kind = QuotaExceeded if changes else Throttled
    elif code is grpc.StatusCode.UNKNOWN and changes:
        kind = Invalid
    return kind(message, code=code.name)
