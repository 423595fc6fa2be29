"""What a cloud can answer instead of doing what was asked.

CloudError
|- NotImplementedByCloud   an optional call that this provider lacks
|- NotFound                no such group, instance or machine type
|- Conflict                another change is under way, or the precondition does not hold
|- Throttled               too many requests; retry after `retry_after_s`
|- QuotaExceeded           an account limit; class 1, as a stock-out
|- OutOfCapacity           the cloud has no such machine left; class 1
|- Forbidden               the credentials do not allow it
|- Invalid                 the request is wrong and will stay wrong
`- Unavailable             no answer, or a broken one: whether it was done is unknown

Every error carries the class (1 out of resources, 99 other) and the free code of the
specification (provisioning-request.md, 5.1). Pure: no I/O here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ErrorClass(IntEnum):
    """Why an instance or an order failed, as far as a backoff cares."""

    OUT_OF_RESOURCES = 1
    OTHER = 99


class CloudError(Exception):
    """A call to the cloud that did not do what was asked.

    Attributes:
        code: the cloud's own word, free text of low cardinality.
        retry_after_s: wall seconds the cloud asks to wait; None when it does not say.
    """

    reason: ClassVar[str] = "CloudError"
    error_class: ClassVar[ErrorClass] = ErrorClass.OTHER
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, code: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.reason
        self.retry_after_s = retry_after_s


class NotImplementedByCloud(CloudError):
    reason = "NotImplemented"


class NotFound(CloudError):
    reason = "NotFound"


class Conflict(CloudError):
    reason = "Conflict"


class Throttled(CloudError):
    reason = "Throttled"
    retriable = True


class QuotaExceeded(CloudError):
    reason = "QuotaExceeded"
    error_class = ErrorClass.OUT_OF_RESOURCES


class OutOfCapacity(CloudError):
    reason = "OutOfCapacity"
    error_class = ErrorClass.OUT_OF_RESOURCES


class Forbidden(CloudError):
    reason = "Forbidden"


class Invalid(CloudError):
    reason = "Invalid"


class Unavailable(CloudError):
    reason = "Unavailable"
    retriable = True


ERRORS: dict[str, type[CloudError]] = {
    error.reason: error
    for error in (
        NotImplementedByCloud,
        NotFound,
        Conflict,
        Throttled,
        QuotaExceeded,
        OutOfCapacity,
        Forbidden,
        Invalid,
        Unavailable,
    )
}
"""Reason to class, for whoever reads an error from the wire."""
