"""The modes as the operator gives them, by flags or in the ConfigMap, and as they go onto the log.

A selector of namespaces is resolved here, where namespaces are seen: what is on the log names them, so that
whoever decides or acts by it has one answer and needs no labels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from tidewright.events.config import Mode, ModesSet
from tidewright.kube.client import Kube
from tidewright.kube.listwatch import Added, Deleted, ListDone, ListStarted, Modified, Page, list_watch
from tidewright.kube.selectors import LabelSelector, SelectorError

PATH = "/api/v1/namespaces"


class BadModes(ValueError):
    """Modes that cannot be meant so; the message names the field, what it says, and what is valid."""


class OperatorModes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator wants: as `ModesSet`, with the selector in place of the namespaces that it selects.

    Attributes:
        namespaces: a label selector; empty: everywhere.
    """

    mode: Mode = "enforce"
    services: dict[str, Mode] = {}
    namespaces: str = ""
    regardless: tuple[str, ...] = ()


class Services(msgspec.Struct, frozen=True):
    """Names of services that have a mode: those that decide; and the endpoints of each, which have the same."""

    endpoints: dict[str, tuple[str, ...]] = {}


def read(data: Any, services: Services) -> OperatorModes:
    """Modes as they stand in the ConfigMap.

    Raises:
        BadModes: they cannot be used.
    """
    try:
        desired = msgspec.convert(data or {}, OperatorModes)
    except msgspec.ValidationError as error:
        raise BadModes(str(error)) from error
    check(desired, services)
    return desired


def check(desired: OperatorModes, services: Services) -> None:
    """Raises BadModes for a service that is not there, and for a selector that is none."""
    for name in (*desired.services, *desired.regardless):
        if name not in services.endpoints:
            raise BadModes(
                f"{name!r} is no service that decides: valid are {', '.join(sorted(services.endpoints))}"
            )
    try:
        LabelSelector.parse(desired.namespaces)
    except SelectorError as error:
        raise BadModes(
            f"namespaces {desired.namespaces!r} is no label selector: {error}; valid is for example team=a"
        ) from error


def event_of(desired: OperatorModes, namespaces: tuple[str, ...], services: Services) -> ModesSet:
    """What goes onto the log, `at` 0. Pure."""
    named = dict(desired.services)
    for name, mode in desired.services.items():
        named.update(dict.fromkeys(services.endpoints.get(name, ()), mode))
    return ModesSet(
        at=0.0,
        mode=desired.mode,
        services=dict(sorted(named.items())),
        selector=desired.namespaces,
        namespaces=tuple(sorted(namespaces)) if desired.namespaces else (),
        regardless=tuple(sorted(desired.regardless)),
    )


def to_say(before: ModesSet | None, desired: ModesSet) -> bool:
    """Whether modes are others than those on the log; none there means that everything acts. Pure."""
    known = before or ModesSet(at=0.0)
    return msgspec.structs.replace(known, at=0.0, refresh=False) != desired


def known_namespaces(before: ModesSet | None, desired: OperatorModes) -> tuple[str, ...]:
    """Namespaces as long as none was seen: those of the log, for the same selector. Pure."""
    return before.namespaces if before is not None and before.selector == desired.namespaces else ()


class _Metadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decoder = msgspec.json.Decoder(_Namespace)


async def selected(kube: Kube, selector: str) -> AsyncIterator[tuple[str, ...]]:
    """The namespaces that a selector selects, whenever they are known anew; endless."""
    label_selector, labels = LabelSelector.parse(selector), dict[str, Mapping[str, str]]()
    listed, said = False, None
    async for item in list_watch(kube, PATH):
        match item:
            case ListStarted():
                labels, listed = {}, False
            case Page(objects=objects):
                for metadata in (_decoder.decode(raw).metadata for raw in objects):
                    labels[metadata.name] = metadata.labels or {}
            case ListDone():
                listed = True
            case Deleted(raw=raw):
                labels.pop(_decoder.decode(raw).metadata.name, None)
            case Added(raw=raw) | Modified(raw=raw):
                changed = _decoder.decode(raw).metadata
                labels[changed.name] = changed.labels or {}
            case _:
                continue
        names = tuple(sorted(name for name, has in labels.items() if label_selector.matches(has)))
        if listed and names != said:
            said = names
            yield names
