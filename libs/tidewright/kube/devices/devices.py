"""Devices of ResourceSlices: what selectors, taints and requests for capacity say of one. Spec 3.4. Pure.

    device(...)       a device of a slice
    takes(...)        whether the selectors of a request take it; `bears`: whether its taints let them
    values(...)       an attribute, for bonds between devices
    consumed(...)     what a request takes of a device that several may share

What claims ask for is read by `claims`; `stock` knows what a node has of devices and what is
taken, and `allocation` hands them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.kube import quantities
from tidewright.kube.devices.selectors import LISTS, SelectorFailed
from tidewright.kube.devices.selectors import takes as selects
from tidewright.kube.taints import HARD_EFFECTS, Taint, Toleration

_SEEN = ("attributes", "capacity", "taints", "allowMultipleAllocations")
"""Of a device what requests look at."""


class Matcher(msgspec.Struct, frozen=True):
    """Which devices a request takes.

    Attributes:
        name: of the device class, for people.
        selectors: CEL expressions, all of which hold.
        tolerations: of taints that devices may have.
    """

    name: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class Device(msgspec.Struct, frozen=True):
    """One device: who offers it, and what requests see of it.

    Attributes:
        body: its canonical JSON.
        consumes: (counter set, counter, thousandths) that it takes of its pool's shared counters.
        shared: several claims may have parts of its capacity.
        binds: who has it is bound to the node where it was handed out.
        ruled: taints that DeviceTaintRules put on it, besides its own.
    """

    driver: str
    pool: str
    name: str
    body: bytes
    consumes: tuple[tuple[str, str, int], ...] = ()
    shared: bool = False
    binds: bool = False
    ruled: tuple[Taint, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.name)


def device(driver: str, pool: str, fields: Mapping[str, Any]) -> Device:
    """A device of a ResourceSlice, or of a template.

    Raises:
        ValueError: it cannot be read: it has no name, or an amount that is no quantity.
    """
    try:
        return _device(driver, pool, fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"device {fields.get('name')!r} of {driver} cannot be read: {error!r}") from error


def _device(driver: str, pool: str, fields: Mapping[str, Any]) -> Device:
    kept = {name: fields[name] for name in _SEEN if fields.get(name)}
    for capacity in (fields.get("capacity") or {}).values():
        _given_out(capacity, None)
        _given_out(capacity, 0)
    return Device(
        driver,
        pool,
        fields["name"],
        msgspec.json.encode(kept, order="deterministic"),
        tuple(
            (part["counterSet"], name, quantities.milli(counter["value"]))
            for part in fields.get("consumesCounters") or ()
            for name, counter in sorted((part.get("counters") or {}).items())
        ),
        bool(fields.get("allowMultipleAllocations")),
        bool(fields.get("bindsToNode")),
    )


def expressions(selectors: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """The CEL expressions of selectors."""
    return tuple((selector.get("cel") or {}).get("expression") or "false" for selector in selectors or ())


def takes(matcher: Matcher, candidate: Device) -> bool:
    """Whether selectors take a device. What a selector cannot be asked about it does not take."""
    return _takes(matcher.selectors, candidate.driver, candidate.body)


def bears(matcher: Matcher, candidate: Device) -> bool:
    """Whether the taints of a device are tolerated."""
    if any(not _tolerated(matcher.tolerations, taint) for taint in candidate.ruled):
        return False
    return b'"taints"' not in candidate.body or _bears(matcher.tolerations, candidate.body)


@lru_cache(maxsize=65_536)
def _takes(selectors: tuple[str, ...], driver: str, body: bytes) -> bool:
    fields = msgspec.json.decode(body)
    return all(_holds(expression, driver, _seen_by(expression, fields)) for expression in selectors)


@lru_cache(maxsize=4096)
def _bears(tolerations: tuple[Toleration, ...], body: bytes) -> bool:
    for taint in msgspec.json.decode(body).get("taints") or ():
        hard = Taint(taint.get("key", ""), taint.get("value") or "", taint.get("effect") or "NoSchedule")
        if not _tolerated(tolerations, hard):
            return False
    return True


def _tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return taint.effect not in HARD_EFFECTS or any(t.tolerates(taint) for t in tolerations)


def _seen_by(expression: str, fields: Mapping[str, Any]) -> bytes:
    """Of a device what an expression may look at: serial numbers that it does not name are left out."""
    kept: dict[str, Any] = {
        part: {
            name: entry
            for name, entry in (fields.get(part) or {}).items()
            if name.rpartition("/")[2] in expression or _enumerates(expression)
        }
        for part in ("attributes", "capacity")
    }
    kept["allowMultipleAllocations"] = bool(fields.get("allowMultipleAllocations"))
    return msgspec.json.encode(kept, order="deterministic")


@lru_cache(maxsize=1024)
def _enumerates(expression: str) -> bool:
    """Whether an expression may see names that it does not spell."""
    return any(
        macro in expression for macro in (".all(", ".exists(", ".exists_one(", ".map(", ".filter(", "size(")
    )


@lru_cache(maxsize=16_384)
def _holds(expression: str, driver: str, body: bytes) -> bool:
    try:
        return selects(expression, driver, msgspec.json.decode(body))
    except SelectorFailed:
        return False


@lru_cache(maxsize=16_384)
def values(candidate: Device, attribute: str) -> frozenset[str]:
    """The values of an attribute of a device as text, each with its type; empty where it lacks the attribute.

    One value counts as a list of it. Names without a domain are the driver's.
    """
    attributes = msgspec.json.decode(candidate.body).get("attributes") or {}
    domain, _, short = attribute.rpartition("/")
    typed = attributes.get(attribute)
    if typed is None and domain in ("", candidate.driver):
        typed = attributes.get(short, attributes.get(f"{candidate.driver}/{short}"))
    return frozenset(
        msgspec.json.encode((LISTS.get(kind, kind), entry)).decode()
        for kind, value in (typed or {}).items()
        for entry in (value if isinstance(value, list) else [value])
    )


@lru_cache(maxsize=16_384)
def capacities(candidate: Device) -> tuple[tuple[str, int], ...]:
    """The capacities of a device by name, in thousandths."""
    capacity = msgspec.json.decode(candidate.body).get("capacity") or {}
    return tuple((name, quantities.milli(entry["value"])) for name, entry in sorted(capacity.items()))


@lru_cache(maxsize=16_384)
def consumed(candidate: Device, requested: tuple[tuple[str, int], ...]) -> tuple[int, ...] | None:
    """What a request takes of each of a device's capacities, in the order of `capacities`, in thousandths.

    A request that is between what the device gives out is rounded up; what is not asked for is taken at its
    default, or whole.

    Returns:
        None where the device does not have what is asked for, or does not give it out in that size.
    """
    capacity = msgspec.json.decode(candidate.body).get("capacity") or {}
    asked = dict(requested)
    if not asked.keys() <= capacity.keys():
        return None
    amounts = []
    for name in sorted(capacity):
        amount = _given_out(capacity[name], asked.get(name))
        if amount is None:
            return None
        amounts.append(amount)
    return tuple(amounts)


def _given_out(capacity: Mapping[str, Any], amount: int | None) -> int | None:
    total = quantities.milli(capacity["value"])
    policy = capacity.get("requestPolicy") or {}
    default = quantities.milli(policy["default"]) if policy.get("default") is not None else None
    if amount is None:
        amount = total if default is None else default
        if default is not None:
            return amount
    sizes = policy.get("validRange") or {}
    if sizes.get("min") is not None:
        least = quantities.milli(sizes["min"])
        step = quantities.milli(sizes["step"]) if sizes.get("step") else 0
        beyond = max(0, amount - least)
        amount = least + (-(-beyond // step) * step if step else beyond)
    values = sorted(quantities.milli(size) for size in policy.get("validValues") or ())
    if values and not sizes:
        amount = next((size for size in values if size >= amount), amount)
    if amount == default:
        return amount
    if sizes.get("max") is not None and amount > quantities.milli(sizes["max"]):
        return None
    return None if values and not sizes and amount not in values else amount
