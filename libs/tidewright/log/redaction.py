"""Secrets out of texts that people and machines get to see: the last resort, behind not putting them in."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

HIDDEN = "***"
# Up to the last `@` before a path, so that a password with an `@` in it goes as a whole, and a list
# of servers behind one scheme does.
_USERINFO = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{1,15}://)[^/\s\"'<>]*@")
# One with a slash in it, which no reader of URLs takes for one; what is no port.
_ODD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,15}://)[^/\s@:]*:(?!\d+(?:[/,?#\s\"']|$))[^\s\"'<>]+@")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_MAX_DEPTH = 6


def redacted(text: str) -> str:
    """A text without the user and password of its URLs, and without tokens of `Authorization` headers."""
    if "@" in text:
        text = _ODD.sub(rf"\g<1>{HIDDEN}@", _USERINFO.sub(rf"\g<1>{HIDDEN}@", text))
    if "earer" in text or "asic" in text or "EARER" in text:
        text = _BEARER.sub(rf"\g<1> {HIDDEN}", text)
    return text


def redact_line(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of log lines: `redacted` for every text in one."""
    for key, value in line.items():
        line[key] = _redacted(value, _MAX_DEPTH)
    return line


def _redacted(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if depth and isinstance(value, dict):
        return {key: _redacted(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_redacted(item, depth - 1) for item in value]
    if isinstance(value, BaseException):
        return redacted(f"{type(value).__name__}: {value}")
    return value
