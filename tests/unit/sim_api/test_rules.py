"""CEL rules: times, optional past values, what an update leaves alone, messages."""

from __future__ import annotations

from typing import Any

import pytest

from tidewright.sim.api.crd.cel_fields import trouble
from tidewright.sim.api.crd.rules import validate_rules
from tidewright.sim.api.crd.structural import ABSENT, validate

Object = dict[str, Any]
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "from": {"type": "string", "format": "date-time"},
        "until": {"type": "string", "format": "date-time"},
        "pause": {"type": "string", "format": "duration"},
        "starts": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "size": {"type": "integer"},
        "name": {"type": "string", "maxLength": 3},
    },
}
JANUARY, JUNE = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00+02:00"


def refused(rule: Object | str, value: Object, old: Any = ABSENT) -> list[str]:
    rules = [rule if isinstance(rule, dict) else {"rule": rule}]
    found, _ = validate_rules(SCHEMA | {"x-kubernetes-validations": rules}, value, "spec", old)
    return [f"{cause.field}: {cause.message}" for cause in found]


@pytest.mark.parametrize(
    "rule",
    [
        "self.until > timestamp('2026-05-01T00:00:00Z')",
        "has(self.until) && self.until.getFullYear() == 2026",
        "self.pause < duration('2h') && self.pause == duration('90m')",
        "self.starts.all(s, s >= timestamp('2026-01-01T00:00:00Z'))",
        "self.?until.orValue(timestamp('2027-01-01T00:00:00Z')) < timestamp('2026-12-01T00:00:00Z')",
        "self.?missing.orValue('.until') == '.until'",
        "self.size == 3",
    ],
)
def test_times_and_durations_are_such_in_rules(rule: str) -> None:
    value = {"until": JUNE, "pause": "1h30m", "starts": [JANUARY, JUNE], "size": 3}
    assert refused(rule, value) == []
    assert refused(f"!({rule})", value)


def test_an_optional_past_is_asked_whether_it_is_there() -> None:
    rule = {
        "rule": "oldSelf.hasValue() ? self.size >= oldSelf.value().size : self.size == 1",
        "message": "begins with 1",
        "optionalOldSelf": True,
    }
    assert refused(rule, {"size": 1}) == []
    assert refused(rule, {"size": 2}) == ["spec: Invalid value: begins with 1"]
    assert refused(rule, {"size": 2}, {"size": 1}) == []
    assert refused(rule, {"size": 1}, {"size": 2}) == ["spec: Invalid value: begins with 1"]


def test_a_rule_of_the_past_is_not_asked_without_one() -> None:
    assert refused("self.size > oldSelf.size", {"size": 1}) == []
    assert refused("self.size > oldSelf.size", {"size": 1}, {"size": 1})


def test_reason_field_and_message_are_the_rules_own() -> None:
    rule = {
        "rule": "self.size < 2",
        "messageExpression": "'at most 1, not ' + string(self.size)",
        "reason": "FieldValueForbidden",
        "fieldPath": ".size",
    }
    assert refused(rule, {"size": 2}) == ["spec.size: Forbidden: at most 1, not 2"]
    rule["messageExpression"] = "self.none"
    assert refused(rule, {"size": 2}) == ["spec.size: Forbidden: failed rule: self.size < 2"]


def test_a_rule_that_fails_says_why() -> None:
    (told,) = refused("self.none == 1", {"size": 2})
    assert told == 'spec: Invalid value: "object": no such key: none evaluating rule: self.none == 1'


def test_what_was_wrong_before_is_only_warned_of() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": SCHEMA | {"x-kubernetes-validations": [{"rule": "self.size < 2"}]},
            "other": {"type": "integer"},
        },
    }
    old = {"spec": {"size": 5, "name": "toolong"}, "other": 1}
    new = old | {"other": 2}
    assert validate(schema, new, "", old) == []
    assert [cause.field for cause in validate(schema, new, "")] == ["spec.name"]
    found, warned = validate_rules(schema, new, "", old)
    assert (found, [cause.field for cause in warned]) == ([], ["spec"])
    found, warned = validate_rules(schema, {"spec": {"size": 6}}, "", old)
    assert ([cause.field for cause in found], warned) == (["spec"], [])


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("self.size > 1", ""),
        ("self.none == 1", "undefined field 'none'"),
        ("has(self.size) && self.size.foo() == 'self.none'", ""),
        ("oldSelf.?sise.hasValue()", "undefined field 'sise'"),
        ("self.size", "cel expression must evaluate to a bool"),
        ("self.starts.all(s, s.nothing == 1)", ""),
    ],
)
def test_a_rule_that_names_no_field_of_its_schema_does_not_compile(rule: str, told: str) -> None:
    found = trouble(rule, SCHEMA)
    assert told in found
    assert bool(told) == bool(found)
    assert trouble("self.metadata.name == 'x' && self.kind == 'y'", SCHEMA, root=True) == ""
