"""A CapacityBuffer's spec read: whose it is, where its shape comes from, and how large it is to be. Spec 1.1.

The API server validates too; here nothing is trusted that was not read, because a manifest may have been stored
before the CRD was installed as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.kube import quantities

ACTIVE = "buffer.x-k8s.io/active-capacity"
"""The strategy that is served here. Others have controllers of their own."""


MOST = 2**31 - 1
"""What the API's numbers hold, `status.replicas` among them."""


class ScalableRef(msgspec.Struct, frozen=True):
    """A workload of the buffer's namespace; `group` is empty for the core group."""

    group: str
    kind: str
    name: str


class Size(msgspec.Struct, frozen=True):
    """How many chunks are asked for.

    Attributes:
        limits: resource to amount in nanos; None where there are no limits, which is not the same as none of them.
    """

    replicas: int | None = None
    percentage: int | None = None
    limits: Mapping[str, int] | None = None


class BufferSpec(msgspec.Struct, frozen=True):
    """A spec that can be read.

    Attributes:
        strategy: None where it is not set.
        template: name of a PodTemplate; empty for none.
    """

    strategy: str | None = ACTIVE
    template: str = ""
    scalable: ScalableRef | None = None
    size: Size = Size()


def ours(strategy: str | None) -> bool:
    """Whether a buffer with this strategy in its spec is served here."""
    return strategy in (ACTIVE, "", None)


def strategy_of(spec: Mapping[str, Any]) -> str | None:
    """The strategy that a spec names; None where it names none."""
    strategy = spec.get("provisioningStrategy")
    return strategy if isinstance(strategy, str) else None


def parse(spec: Mapping[str, Any]) -> BufferSpec:
    """The spec, typed.

    Raises:
        ValueError: a field has a value that cannot be read; the message names the field, the value and what would be
            valid.
    """
    limits = spec.get("limits")
    if limits is not None and not isinstance(limits, Mapping):
        raise ValueError(f"spec.limits: {limits!r} is not a map of resources to quantities")
    return BufferSpec(
        strategy=strategy_of(spec),
        template=_name(spec.get("podTemplateRef"), "spec.podTemplateRef"),
        scalable=_scalable(spec.get("scalableRef")),
        size=Size(
            replicas=_count(spec.get("replicas"), "spec.replicas"),
            percentage=_count(spec.get("percentage"), "spec.percentage"),
            limits=None if limits is None else {str(k): _amount(k, v) for k, v in limits.items()},
        ),
    )


def _count(value: Any, field: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise ValueError(f"{field}: {value!r} is not an integer of 0 to {MOST}")
    return value


def _amount(resource: Any, value: Any) -> int:
    try:
        nanos = quantities.parse(value).nanos
    except (quantities.NotAQuantity, TypeError) as error:
        raise ValueError(f"spec.limits[{resource}]: {error}") from error
    if nanos < 0:
        raise ValueError(f"spec.limits[{resource}]: {value!r} is below 0")
    return nanos


def _name(reference: Any, field: str) -> str:
    if reference is None:
        return ""
    name = reference.get("name") if isinstance(reference, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ValueError(f"{field}.name: {name!r} is not the name of an object of the namespace")
    return name


def _scalable(reference: Any) -> ScalableRef | None:
    if reference is None:
        return None
    name = _name(reference, "spec.scalableRef")
    kind, group = reference.get("kind"), reference.get("apiGroup") or ""
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"spec.scalableRef.kind: {kind!r} is not the kind of a workload")
    if not isinstance(group, str):
        raise ValueError(f"spec.scalableRef.apiGroup: {group!r} is not a group of the API")  # noqa: TRY004
    return ScalableRef(group="" if group == "core" else group, kind=kind, name=name)
