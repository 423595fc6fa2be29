"""What is answered over HTTP, as OpenAPI, from the table of questions and the types of their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.asking.questions import QUESTIONS, ROOT, Question
from tidewright.cli.contract.schemas import tidied
from tidewright.events.version import __version__

REFERENCE = "#/components/schemas/{name}"


class Problem(msgspec.Struct, frozen=True):
    """Why a question has no answer.

    Attributes:
        error: in a sentence: what was found, and what would be valid.
    """

    error: str


def document() -> dict[str, Any]:
    """The whole document."""
    types = [*dict.fromkeys(question.answer for question in QUESTIONS), Problem]
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Asking the log",
            "version": __version__,
            "description": "Questions about what was seen, decided and done. Nothing here changes anything. "
            "Times are RFC 3339 in UTC with milliseconds; an amount has its unit in its name.",
        },
        "paths": {f"{ROOT}/{question.name}": {"get": _operation(question)} for question in QUESTIONS},
        "components": {"schemas": dict(sorted(tidied(schemas).items()))},
    }


def _operation(question: Question) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": REFERENCE.format(name=question.answer.__name__)}
    if question.many:
        schema = {"type": "array", "items": schema}
    return {
        "operationId": question.name,
        "summary": question.help,
        "parameters": [
            {
                "name": p.name, "in": "query", "description": p.help, "required": p.required,
                "schema": {"type": p.type},
            }
            for p in question.parameters
        ],
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
            "400": _refused("What is asked cannot be: no such object, a time outside of what is retained."),
            "401": _refused("Who asks is not known."),
            "503": _refused("The log does not answer."),
        },
    }  # fmt: skip


def _refused(why: str) -> dict[str, Any]:
    problem = {"$ref": REFERENCE.format(name=Problem.__name__)}
    return {"description": why, "content": {"application/json": {"schema": problem}}}
