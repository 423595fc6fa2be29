"""What goes over HTTP between the simulated cloud and its client."""

from __future__ import annotations

from typing import Final

import msgspec

from tidewright.cloud.provider import GroupOptions, NodeTemplate, Taint

PREFIX: Final = "/cloud/v1"

HTTP_STATUS: Final = {
    "NotImplemented": 501,
    "NotFound": 404,
    "Conflict": 409,
    "Throttled": 429,
    "QuotaExceeded": 403,
    "OutOfCapacity": 409,
    "Forbidden": 403,
    "Invalid": 422,
    "Unavailable": 503,
}


class GroupView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One group as the cloud tells it."""

    id: str
    min: int
    max: int
    target: int
    atomic: bool = False
    autoprovisioned: bool = False
    price_per_hour: float | None = None
    machine_type: str = ""
    zone: str = ""
    template: NodeTemplate
    options: GroupOptions = msgspec.field(default_factory=GroupOptions)


class Resize(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Body of `increase` and `decrease`."""

    delta: int
    key: str = ""
    expect: int | None = None
    atomic: bool = False


class Deletion(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Body of `delete-nodes`."""

    ids: tuple[str, ...]
    key: str = ""
    force: bool = False


class Creation(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Body of a new group."""

    machine_type: str
    id: str = ""
    zone: str = ""
    max: int = 0
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: dict[str, str] = {}
    key: str = ""


class Refusal(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Body of an answer that is not a success."""

    reason: str
    message: str = ""
    code: str = ""
    retry_after_s: float | None = None
