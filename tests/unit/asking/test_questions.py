"""The questions over HTTP, and the one form of every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewright.asking.answers.table import ANSWERS
from tidewright.asking.questions import QUESTIONS
from tidewright.cli import main
from tidewright.cli.contract import openapi, schemas

LOG = str(Path(__file__).parents[2] / "recorded" / "chaos.twlog")

ASKED: dict[str, list[str]] = {
    "get": ["get"],
    "list": ["get", "wpa", "-A"],
    "explain": ["explain", "wpa/app-1", "-n", "team-1"],
    "state": ["state", "wpa/app-1", "-n", "team-1"],
    "series": ["series", "wpa/app-1", "-n", "team-1"],
    "compare": ["compare", "wpa", "-A"],
    "verify": ["verify", "--service", "spread"],
}
"""A command for each question whose answer is one JSON value."""


@pytest.mark.parametrize("question", ASKED)
def test_each_command_answers_in_the_one_form(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*ASKED[question], "--log", LOG, "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert json.loads(msgspec.json.encode(msgspec.convert(said, ANSWERS[question]))) == said


def test_a_plan_answers_in_the_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["plan", "scale-down", "--state", LOG, "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert json.loads(msgspec.json.encode(msgspec.convert(said, ANSWERS["plan.scale-down"]))) == said


def test_every_question_over_http_has_a_schema_and_a_description_of_each_parameter() -> None:
    document = openapi.document()
    for question in QUESTIONS:
        operation = document["paths"][f"/api/v1/{question.name}"]["get"]
        assert operation["summary"].endswith(".")
        assert all(p["description"].endswith(".") for p in operation["parameters"])
        assert ANSWERS[question.name] is question.answer
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text


def members(node: Any) -> list[str]:
    """The names of all members in a schema."""
    if isinstance(node, dict):
        own = list(node.get("properties", {})) if isinstance(node.get("properties"), dict) else []
        return own + [name for value in node.values() for name in members(value)]
    return [name for value in node for name in members(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("question", ANSWERS)
def test_members_are_camel_case_as_in_kubernetes_objects(question: str) -> None:
    schema = schemas.of_answers()[question]
    assert members(schema)
    assert not [name for name in members(schema) if "_" in name or name[0].isupper()]
