"""JSON patches (RFC 6902) made: what leads from one object to another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.events.base import JsonObject


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> list[JsonObject]:
    """RFC 6902 operations from `before` to `after`; lists are replaced whole."""
    operations: list[JsonObject] = []
    for key in before:
        if key not in after:
            operations.append({"op": "remove", "path": f"{path}/{token(key)}"})
    for key, value in after.items():
        if value is before.get(key):
            continue
        at = f"{path}/{token(key)}"
        if key not in before:
            operations.append({"op": "add", "path": at, "value": value})
        elif isinstance(value, dict) and isinstance(before[key], dict):
            operations.extend(json_patch(before[key], value, at))
        elif value != before[key]:
            operations.append({"op": "replace", "path": at, "value": value})
    return operations


def token(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
