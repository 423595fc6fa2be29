"""A JSON Schema per event type and per answer, from its Struct."""

from __future__ import annotations

import inspect
import json
from typing import Any, TypeAlias

import msgspec

from tidewright.asking.answers.table import ANSWERS
from tidewright.cli.answers import COMMANDS
from tidewright.events.registry import BY_NAME

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(event_type: type[msgspec.Struct], tag: str) -> Schema:
    """The schema of one type, complete in itself: what it refers to is under `$defs`."""
    generated = msgspec.json.schema(event_type)
    definitions: dict[str, Any] = generated["$defs"]
    body = definitions.pop(event_type.__name__)
    schema = {"$schema": DIALECT, "$id": f"urn:tidewright:{tag}", **body}
    if definitions:
        schema["$defs"] = dict(sorted(definitions.items()))
    read_back: Schema = json.loads(json.dumps(tidied(schema)))  # tuples become lists, as in a file
    return read_back


def all_schemas() -> dict[str, Schema]:
    """Tag to schema, for every event type."""
    return {tag: schema_of(event_type, tag) for tag, event_type in sorted(BY_NAME.items())}


def of_answers() -> dict[str, Schema]:
    """Question or command to schema, for what every one of them is answered with."""
    every = ANSWERS | COMMANDS
    return {name: schema_of(answer, f"answer.{name}") for name, answer in sorted(every.items())}


def tidied(node: Any) -> Any:
    """Docstrings without their indentation, which differs from one Python to the next."""
    if isinstance(node, dict):
        return {
            key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else tidied(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [tidied(item) for item in node]
    return node
