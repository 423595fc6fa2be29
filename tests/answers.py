"""Answers beside their schemas in `proto/answers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from tidewright.asking.answers.form import builtins

SCHEMAS = Path(__file__).parents[1] / "proto" / "answers"


def fits(name: str, answer: Any) -> None:
    """Raise AssertionError for an answer that is not what the schema of this name says; it may be a Struct, or what was printed."""
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text()))
    printed = json.loads(json.dumps(builtins(answer)))
    assert next((f"{e.json_path}: {e.message}" for e in validator.iter_errors(printed)), "") == ""
