"""Attributes that the user wants on every log line about an object (section 1.6): ours explains from the log instead."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewright.events.base import JsonObject

TAGS = {
    "log-attributes": "what happens to an object is on the log under its name: no line about it is told apart by attributes",
}
"""Stages that ours has no use for, and why."""
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
