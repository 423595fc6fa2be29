"""What claims ask of devices: a claim's spec read, as `resource.k8s.io` defines it up to Kubernetes 1.36. Pure.

A claim makes requests; each has one choice, or several of which the first that can be met is taken. Bonds
(the API's constraints) hold between the devices of its requests. What is not known here is refused by
name, and never left out of account.

    parse(...)         the `devices` of a claim's spec, in any version of the API, to a `Claimed`
    in_place_of(...)   what a pod asks for with an extended resource that a device class stands for
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from tidewright.kube import quantities
from tidewright.kube.devices.devices import Matcher, expressions
from tidewright.kube.taints import Toleration

MOST_USERS = 256
"""Pods that may hold one claim at a time: the length of `status.reservedFor`."""
MOST_DEVICES = 32
"""Devices that one claim may be allocated."""

_ASK_FIELDS = frozenset(
    {"name", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"}
)  # fmt: skip
_CONSTRAINT_FIELDS = frozenset({"requests", "matchAttribute", "distinctAttribute"})


class Ask(msgspec.Struct, frozen=True):
    """One way to meet a request.

    Attributes:
        count: devices.
        whole: all devices that the matcher takes, whatever their number.
        watching: it shares devices with everybody (`adminAccess`).
        capacity: by name what it takes of each device that several may share, in thousandths.
        name: of an alternative, within its request.
    """

    matcher: Matcher
    count: int = 1
    whole: bool = False
    watching: bool = False
    capacity: tuple[tuple[str, int], ...] = ()
    name: str = ""


class Wish(msgspec.Struct, frozen=True):
    """A request of a claim: its choices, in the order of preference."""

    name: str
    choices: tuple[Ask, ...]


class Bond(msgspec.Struct, frozen=True):
    """What holds between devices: all have one value of an attribute; or, `distinct`, each has others than the rest.

    Attributes:
        requests: names of requests, or `request/alternative`; empty for all of the claim.
    """

    attribute: str
    distinct: bool = False
    requests: tuple[str, ...] = ()

    def binds(self, wish: str, ask: str) -> bool:
        """Whether the devices of a request's choice are among those that it is about."""
        return not self.requests or wish in self.requests or (bool(ask) and f"{wish}/{ask}" in self.requests)


class Claimed(msgspec.Struct, frozen=True):
    """What one claim asks for.

    Attributes:
        resource: an extended resource in place of which it is made, on nodes whose device plugins do not offer that one.
        claim: `namespace/name` of a claim that all pods which name it have together; empty where each pod
            gets one of its own from a template.
        seats: pods that may still be added to those that hold it.
        digest: names the wishes and bonds.
    """

    wishes: tuple[Wish, ...] = ()
    bonds: tuple[Bond, ...] = ()
    claim: str = ""
    seats: int = MOST_USERS
    digest: str = ""
    resource: str = ""


Classes = Callable[[str], tuple[str, ...] | None]
"""A device class by name: its selectors; None when there is none."""


def parse(spec: Mapping[str, Any] | None, classes: Classes) -> Claimed:
    """What the `devices` of a claim ask for.

    Args:
        spec: `spec.devices` of a claim, in any version of the API.
        classes: device classes.

    Raises:
        ValueError: a class that does not exist; a request or constraint that is not understood.
    """
    wishes = tuple(_wish(request, classes) for request in (spec or {}).get("requests") or ())
    bonds = tuple(_bond(constraint) for constraint in (spec or {}).get("constraints") or ())
    digest = blake2b(msgspec.json.encode((wishes, bonds)), digest_size=12).hexdigest()
    return Claimed(wishes=wishes, bonds=bonds, digest=digest)


def in_place_of(resource: str, amount: int, name: str, selectors: tuple[str, ...]) -> Claimed:
    """What a pod claims in place of an extended resource: so many devices of the class `name` that stands for it."""
    wishes = (Wish(resource, (Ask(Matcher(name, selectors), count=amount),)),)
    digest = blake2b(msgspec.json.encode((resource, wishes)), digest_size=12).hexdigest()
    return Claimed(wishes=wishes, digest=digest, resource=resource)


def _wish(request: Mapping[str, Any], classes: Classes) -> Wish:
    name = request.get("name") or ""
    where = f"request {name!r}"
    if request.get("firstAvailable"):
        _known(request, ("name", "firstAvailable"), where)
        choices = request["firstAvailable"]
        names = [choice.get("name") or "" for choice in choices]
        return Wish(
            name,
            tuple(
                _ask(choice, classes, f"alternative {own!r} of {where}", own)
                for choice, own in zip(choices, names, strict=True)
            ),
        )
    if request.get("exactly"):
        _known(request, ("name", "exactly"), where)
        return Wish(name, (_ask(request["exactly"], classes, where),))
    return Wish(name, (_ask(request, classes, where),))  # as it stood before v1


def _ask(request: Mapping[str, Any], classes: Classes, where: str, own: str = "") -> Ask:
    _known(request, _ASK_FIELDS, where)
    name = request.get("deviceClassName") or ""
    if not name:
        raise ValueError(f"{where} of a resource claim names no device class: it is not understood")
    selectors = classes(name)
    if selectors is None:
        raise ValueError(f"device class {name!r} does not exist")
    mode = request.get("allocationMode") or "ExactCount"
    if mode not in ("ExactCount", "All"):
        raise ValueError(
            f"{where} of a resource claim has allocationMode {mode!r}, which is not understood: ExactCount and All are"
        )
    return Ask(
        matcher=Matcher(
            name=name,
            selectors=(*selectors, *expressions(request.get("selectors"))),
            tolerations=tuple(
                Toleration(t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
                for t in request.get("tolerations") or ()
            ),
        ),
        count=int(request.get("count") or 1),
        whole=mode == "All",
        watching=bool(request.get("adminAccess")),
        capacity=tuple(
            (capacity_name, quantities.milli(amount))
            for capacity_name, amount in sorted(((request.get("capacity") or {}).get("requests") or {}).items())
        ),
        name=own,
    )  # fmt: skip


def _bond(constraint: Mapping[str, Any]) -> Bond:
    _known(constraint, _CONSTRAINT_FIELDS, "a constraint")
    requests = tuple(constraint.get("requests") or ())
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field):
            return Bond(constraint[field], field == "distinctAttribute", requests)
    raise ValueError(
        "a constraint of a resource claim names neither matchAttribute nor distinctAttribute: it is not understood"
    )


def _known(obj: Mapping[str, Any], fields: Iterable[str], what: str) -> None:
    strange = sorted(
        name for name, value in obj.items() if name not in fields and value not in (None, [], {})
    )
    if strange:
        raise ValueError(f"{what} of a resource claim has the field {strange[0]!r}, which is not understood")
