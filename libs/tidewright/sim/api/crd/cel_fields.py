"""Whether a rule names fields that its schema has not: what the API server's compiler refuses, as it says it.

Only what is plainly written is followed: `self.spec.name`, `oldSelf.?name`. Variables of macros are not.
"""

from __future__ import annotations

import re
from typing import Any

from tidewright.sim.api.crd.cel import escape

Object = dict[str, Any]
_CHAIN = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<![.\w])(?:self|oldSelf)(?P<steps>(?:\.\??[A-Za-z_]\w*)+)(?P<call>\s*\()?"""
)
_STEP = re.compile(r"\.\??([A-Za-z_]\w*)")
_ALWAYS: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_METADATA: Object = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}


def trouble(text: str, schema: Object, *, root: bool = False) -> str:
    """What is wrong with a rule of a schema; empty when nothing is that can be told.

    Args:
        text: the rule.
        schema: of `self`.
        root: the schema is of a whole object, which has `metadata` whatever its schema says.
    """
    for match in _CHAIN.finditer(text):
        if match["steps"] is None:
            continue
        steps = list(_STEP.finditer(match["steps"]))
        here: Object | None = schema | {"properties": _root_properties(schema)} if root else schema
        for index, step in enumerate(steps):
            if here is None or (match["call"] and index == len(steps) - 1):
                break
            exists, here = _below(here, step[1])
            if not exists:
                return _undefined(text, match.start("steps") + step.start(), step[1])
        if here is not None and match[0] == text.strip() and here.get("type") not in (None, "boolean"):
            return "cel expression must evaluate to a bool"
    return ""


def _root_properties(schema: Object) -> Object:
    return _ALWAYS | (schema.get("properties") or {}) | {"metadata": _METADATA}


def _below(schema: Object, name: str) -> tuple[bool, Object | None]:
    """Whether a value has such a field, and the field's schema; None where nothing is known of it."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("type") != "object":
        return True, None
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    properties = _root_properties(schema) if embedded else schema.get("properties") or {}
    for key, below in properties.items():
        if escape(key) == name:
            known = below.get("x-kubernetes-preserve-unknown-fields") and not below.get("properties")
            return not (known and not below.get("type")), None if known else below
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return True, additional
    return additional is True, None


def _undefined(text: str, at: int, name: str) -> str:
    line = text.count("\n", 0, at) + 1
    start = text.rfind("\n", 0, at) + 1
    shown = text[start:].partition("\n")[0]
    column = at - start
    return (
        f"compilation failed: ERROR: <input>:{line}:{column + 1}: undefined field '{name}'\n"
        f" | {shown}\n | {'.' * column}^"
    )
