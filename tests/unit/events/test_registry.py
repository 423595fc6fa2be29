"""Every event type: a golden file that decodes for ever, a schema, a docstring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tidewright.cli.contract import golden
from tidewright.cli.contract.schemas import all_schemas
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Fact, Outcome, Timer

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "events"

every_type = pytest.mark.parametrize("tag", sorted(registry.BY_NAME))


def sample(tag: str) -> dict[str, Any]:
    content = json.loads(golden.stored(GOLDEN, tag))
    assert isinstance(content, dict)
    return content


@every_type
def test_a_golden_file_decodes_to_its_type_and_loses_nothing(tag: str) -> None:
    event = registry.decode(json.dumps(sample(tag)).encode())
    assert type(event) is registry.BY_NAME[tag]
    assert isinstance(event, Event)
    assert json.loads(registry.encode(event)) == sample(tag)


@every_type
def test_what_an_older_writer_left_out_has_a_default(tag: str) -> None:
    event_type = registry.BY_NAME[tag]
    required = {f.encode_name for f in msgspec.structs.fields(event_type) if f.required} | {"type"}
    event = registry.decode(json.dumps({k: v for k, v in sample(tag).items() if k in required}).encode())
    assert type(event) is event_type


@every_type
def test_a_field_of_a_newer_writer_is_read_past(tag: str) -> None:
    event = registry.decode(json.dumps({**sample(tag), "from_the_future": {"x": 1}}).encode())
    assert type(event) is registry.BY_NAME[tag]


@every_type
def test_the_schema_accepts_the_golden_file_and_refuses_another_type(tag: str) -> None:
    validator = jsonschema.Draft202012Validator(all_schemas()[tag])
    validator.validate(sample(tag))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**sample(tag), "type": "fact.something-else.v1"})
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**sample(tag), "at": "noon"})


@every_type
def test_it_says_what_it_means(tag: str) -> None:
    event_type = registry.BY_NAME[tag]
    said = event_type.__doc__ or ""
    own = said != Event.__doc__ and not said.startswith(event_type.__name__ + "(")
    wrong = f"{event_type.__name__} has no docstring of its own: who writes it, when, why"
    assert said, wrong
    assert own, wrong


@every_type
def test_its_tag_begins_with_its_class_and_ends_with_its_version(tag: str) -> None:
    bases = {
        "fact": Fact, "config": Fact, "decision": Decision, "outcome": Outcome, "timer": Timer, "ledger": Event,
        "halt": Event,
    }  # fmt: skip
    cls, name, version = tag.split(".")
    assert issubclass(registry.BY_NAME[tag], bases[cls])
    assert name == name.lower()
    assert version[0] == "v"
    assert int(version[1:]) >= 1


def test_no_two_types_share_a_tag() -> None:
    assert len(registry.BY_NAME) == len(registry.ALL)
