"""Attributes that the user wants on every log line about an object (section 1.6)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewright.events.base import JsonObject

ANNOTATION = "wpa.datadoghq.com/logs-attributes"


class InvalidAttributes(ValueError):
    """The annotation holds no JSON object."""


def log_attributes(annotations: Mapping[str, str]) -> JsonObject:
    """The pairs of the annotation; none without it.

    Raises:
        InvalidAttributes: it holds no JSON object; the caller goes on without attributes.
    """
    text = annotations.get(ANNOTATION)
    if not text:
        return {}
    try:
        found: JsonObject = msgspec.json.decode(text, type=dict)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidAttributes(f"annotation {ANNOTATION}: {error}; a JSON object is expected") from error
    return found
