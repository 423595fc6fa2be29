"""KIND/NAME as people write it, and times as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidewright.asking.errors import BadInput
from tidewright.asking.services import SERVICES, Service
from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import seconds as seconds_of
from tidewright.kube.times import typed_seconds

SHORT = {
    "wpa": "watermarkpodautoscaler",
    "watermarkpodautoscalers": "watermarkpodautoscaler",
    "ws": "workloadspread",
    "workloadspreads": "workloadspread",
    "provreq": "provisioningrequest",
    "pr": "provisioningrequest",
    "provisioningrequests": "provisioningrequest",
    "cb": "capacitybuffer",
    "capacitybuffers": "capacitybuffer",
    "deploy": "deployment",
    "deployments": "deployment",
    "rs": "replicaset",
    "replicasets": "replicaset",
    "sts": "statefulset",
    "statefulsets": "statefulset",
    "pdb": "poddisruptionbudget",
    "poddisruptionbudgets": "poddisruptionbudget",
    "po": "pod",
    "pods": "pod",
    "no": "node",
    "nodes": "node",
    "shardsets": "shardset",
    "shs": "shardset",
    "shardmembers": "shardmember",
    "clonesets": "cloneset",
    "jobs": "job",
    "daemonsets": "daemonset",
    "ds": "daemonset",
    "clouds": "cloud",
    "nodegroups": "nodegroup",
    "ng": "nodegroup",
    "cm": "configmap",
    "configmaps": "configmap",
    "provisioningclasses": "provisioningclass",
    "metrics": "metric",
    "timers": "timer",
    "incumbents": "incumbent",
}
"""Short and plural names, as kubectl takes them."""

KNOWN = frozenset(
    kind for service in SERVICES for kind in (*service.explains, *service.lists, *service.reads)
)
"""Kinds that some service knows of."""


def speaks_of(service: Service, kind: str) -> bool:
    """Whether a service's explainer speaks about objects of a kind."""
    return kind in service.explains or (service.explains_others and kind not in KNOWN)


CLUSTER_SCOPED = frozenset({"node", "nodegroup", "cloud", "provisioningclass", "clock", "incumbent"})
"""Kinds without a namespace, as subject tokens."""

DAY_S = 86_400
EARLIEST, LATEST = seconds_of("0001-01-01T00:00:00Z"), seconds_of("9999-12-31T23:59:59Z")
"""Between these a time can be shown, seconds since the epoch."""
_PLAIN = re.compile(r"[a-z0-9-]+")
_AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)$")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$")
_MINUTE = re.compile(r"(\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(Z|[+-]\d\d:\d\d)?$")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def kind_of(text: str) -> str:
    """A kind as it was typed, also short or plural, as logs have it; what is none of ours stays as it is."""
    kind = text.lower()
    for word in (kind, kind.removesuffix("s"), kind.removesuffix("es")):
        if word in SHORT:
            return SHORT[word]
        if word in KNOWN:
            return word
    return kind


def plain_kind(kind: str) -> str:
    """A kind that can stand in a subject as it is: one with a wildcard or a dot in it would ask for something else.

    Raises:
        BadInput: it cannot.
    """
    if not _PLAIN.fullmatch(kind):
        raise BadInput(
            f"kind {kind!r}: a kind has letters, digits and hyphens alone, for example wpa or deployment"
        )
    return kind


def named(text: str, namespace: str) -> Reference:
    """Read `KIND/NAME`.

    Raises:
        BadInput: it is not of that form.
    """
    typed, slash, name = text.partition("/")
    kind = kind_of(typed)
    # The name of a metric's query has slashes, and a cloud's id of a group may; those of objects have none.
    if not slash or not kind or not name or ("/" in name and kind not in ("metric", "timer", "nodegroup")):
        raise BadInput(f"{text!r}: name one object as KIND/NAME, for example wpa/shop or deployment/web")
    return Reference(plain_kind(kind), "" if kind in CLUSTER_SCOPED else namespace, name)


def spoken(words: Sequence[str]) -> str:
    """One object as it was typed, `KIND/NAME` or `KIND NAME`, as `KIND/NAME`.

    Raises:
        BadInput: these are not the words for one object.
    """
    match list(words):
        case []:
            raise BadInput("name one object as KIND/NAME or KIND NAME, for example wpa/shop")
        case [one]:
            return one
        case [kind, name] if "/" not in kind:
            return f"{kind}/{name}"
    raise BadInput(f"{' '.join(words)!r}: name one object as KIND/NAME or KIND NAME, for example wpa/shop")


def moment(text: str, now: float, option: str = "") -> float:
    """Read a time: RFC 3339, `2026-03-01 12:00:00` (UTC), `14:14` (UTC, the last time that it was), seconds since the epoch, or
    `15m` ago.

    Args:
        text: as given.
        now: the log time that "ago" and a time of day count from, seconds.
        option: what it was given as, for the message.

    Raises:
        BadInput: it is none of these, or lies outside of the calendar.
    """
    at = _read(text, now)
    if not EARLIEST <= at <= LATEST:  # nor is it a number, perhaps
        raise BadInput(
            f"{option} {text}: ".lstrip()
            + "no calendar has that time; valid are 0001-01-01 to 9999-12-31 23:59:59 (UTC), "
            "also as seconds since the epoch or as how long ago (90s, 15m, 2h, 3d)"
        )
    return at


def _read(text: str, now: float) -> float:
    if clock := _CLOCK.match(text):
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        at = now - now % DAY_S + hours * 3600 + minutes * 60 + seconds
        return at if at <= now else at - DAY_S
    if ago := _AGO.match(text):
        return now - float(ago[1]) * _UNIT_S[ago[2]]
    try:
        return typed_seconds(text)
    except ValueError:
        raise BadInput(
            f"{text!r} is not a time: write 2026-03-01T12:00:00Z, '2026-03-01 12:00:00' or 14:14 (UTC), seconds since the epoch, "
            "or how long ago (90s, 15m, 2h, 3d)"
        ) from None


def whole_minute(text: str) -> bool:
    """Whether a time is said to the minute: who asks for what was up to then means all of that minute."""
    return _MINUTE.match(text) is not None
