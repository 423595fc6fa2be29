"""The formats of strings that schemas of custom resources may ask for; formats that are not here are not checked."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable

from tidewright.kube.durations import parse_duration


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.fullmatch(text) is not None


def _date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is not None and _parses(dt.date.fromisoformat)(text)


_TIME = re.compile(
    r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.IGNORECASE
)


def _date_time(text: str) -> bool:
    date, separator, time = text.upper().partition("T")
    return bool(separator) and _date(date) and _TIME.fullmatch(time) is not None


_SCALA_DURATION = re.compile(
    r"((\d+)\s*(ns|nanos?|nanoseconds?|us|µs|μs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?"
    r"|m|mins?|minutes?|h|hr|hours?|d|days?|w|wks?|weeks?)\s*)+",
    re.IGNORECASE,
)


def _duration(text: str) -> bool:
    return _parses(parse_duration)(text) or _SCALA_DURATION.fullmatch(text) is not None


def _hostname(text: str) -> bool:
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    return len(text) <= 255 and re.fullmatch(rf"{label}(\.{label})*\.?", text) is not None


_HEX = "[0-9a-f]"
FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _like(_HEX + "{24}"),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": lambda text: "/" in text and _parses(lambda net: ipaddress.ip_network(net, strict=False))(text),
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": lambda text: re.fullmatch(r"(.*<)?[^@\s<>]+@[^@\s<>]+>?", text) is not None,
    "hexcolor": _like(r"#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "hostname": _hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "k8slongname": lambda text: (
        len(text) <= 253
        and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text) is not None
    ),
    "k8sshortname": lambda text: (
        len(text) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None
    ),
    "mac": _like(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}|{_HEX}{{4}}(\.{_HEX}{{4}}){{2}}"),
    "ssn": _like(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": lambda text: re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/", text) is not None and " " not in text,
    "uuid": _like(rf"{_HEX}{{8}}-?({_HEX}{{4}}-?){{3}}{_HEX}{{12}}"),
    "uuid3": _like(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _like(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _like(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
}


def has_format(form: str, text: str) -> bool:
    """Whether a text is of a format; dashes in the format's name do not count."""
    check = FORMATS.get(form.replace("-", ""))
    return check is None or check(text)
