"""The SDK's faults to errors."""

from __future__ import annotations

from typing import Final

from botocore import exceptions as sdk

from tidewright.cloud.errors import (
    CloudError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OutOfCapacity,
    QuotaExceeded,
    Throttled,
    Unavailable,
)

CREDENTIALS: Final = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "AuthFailure",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
PERMISSIONS: Final = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_FOUND: Final = (
    "give credentials as the SDK finds them: a role of the service account, of the machine, or a profile"
)
_REMEDIES: Final[dict[str, str]] = {
    **dict.fromkeys(CREDENTIALS, f"the credentials are not valid, or not any more: {_FOUND}"),
    **dict.fromkeys(PERMISSIONS, "allow it: deploy/clouds/aws has all that watcher and actuator ask for"),
    "OptInRequired": "the account has to opt in to the region, or name another one as region in the cloud's file",
}
"""What would help, by the services' codes."""
_OF_CODE: Final[dict[str, type[CloudError]]] = {
    **dict.fromkeys(
        ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException", "SlowDown"),
        Throttled,
    ),
    **dict.fromkeys(_REMEDIES, Forbidden),
    **dict.fromkeys(("ScalingActivityInProgress", "ResourceContention", "ResourceInUse"), Conflict),
    **dict.fromkeys(("LimitExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded"), QuotaExceeded),
    "InsufficientInstanceCapacity": OutOfCapacity,
    "ResourceNotFoundException": NotFound,
}
"""By the services' codes; what is not here goes by the HTTP status and the text."""


def of_sdk(error: Exception, what: str) -> CloudError:
    """The error of a call, named by `what`."""
    if isinstance(error, sdk.ClientError):
        said = error.response.get("Error", {})
        code, text = str(said.get("Code", "")), str(said.get("Message", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        kind = _OF_CODE.get(code)
        if kind is None and code == "ValidationError" and "not found" in text:
            kind = NotFound
        if kind is None:
            kind = Unavailable if status >= 500 or status == 0 else Invalid
        remedy = f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
        return kind(f"{what}: {text or code}{remedy}", code=code)
    if isinstance(
        error,
        sdk.NoCredentialsError
        | sdk.PartialCredentialsError
        | sdk.ProfileNotFound
        | sdk.CredentialRetrievalError,
    ):
        return Forbidden(f"{what}: {error}; {_FOUND}", code=type(error).__name__)
    if isinstance(error, sdk.NoRegionError):
        return Invalid(f"{what}: {error}; name it as region in the file, or AWS_REGION", code="NoRegion")
    if isinstance(error, sdk.EndpointConnectionError | sdk.InvalidRegionError):
        where = "is the region one of AWS's? It is region in the cloud's file, else AWS_REGION"
        return Unavailable(f"{what}: {error}; {where}", code=type(error).__name__)
    return Unavailable(f"{what}: {type(error).__name__}: {error}", code=type(error).__name__)
