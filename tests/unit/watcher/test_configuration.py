from __future__ import annotations

import pytest

from tidewright.events.config import ConfigSet
from tidewright.watcher.configuration import BadPart, changes, priorities_of, read_part

PRIORITIES_OF = "ConfigMap cluster-autoscaler-priority-expander, key 'priorities'"
VALID = "valid is a mapping of numbers to lists of regular expressions"


def test_a_key_is_a_part_with_or_without_the_suffix_of_a_file() -> None:
    assert read_part("autoscaler.yaml", "a: 1").name == "autoscaler"
    assert read_part("autoscaler", "a: 1") == ConfigSet(at=0.0, name="autoscaler", data={"a": 1})
    assert read_part("spread.json", "").data == {}


@pytest.mark.parametrize(
    "text", ["[1]", "just text", "a: [", "1: x", "a: 2026-11-21T12:00:00Z\nb: !!python/x y"]
)
def test_what_is_no_mapping_names_its_key(text: str) -> None:
    with pytest.raises(BadPart, match="autoscaler"):
        read_part("autoscaler", text)


def test_only_what_changed_is_said_and_what_vanished_becomes_empty() -> None:
    known = {
        "same": ConfigSet(at=1.0, name="same", data={"a": 1}),
        "changed": ConfigSet(at=1.0, name="changed", data={"a": 1}),
        "vanished": ConfigSet(at=1.0, name="vanished", data={"a": 1}),
        "empty": ConfigSet(at=1.0, name="empty"),
    }
    said, bad = changes(known, {"same": "a: 1", "changed": "a: 2", "new": "b: 1"})
    assert said == [
        ConfigSet(at=0.0, name="changed", data={"a": 2}),
        ConfigSet(at=0.0, name="new", data={"b": 1}),
        ConfigSet(at=0.0, name="vanished"),
    ]
    assert bad == []


def test_a_part_that_cannot_be_read_stays_as_it_was() -> None:
    known = {"a": ConfigSet(at=1.0, name="a", data={"x": 1})}
    said, bad = changes(known, {"a": "["})
    assert said == []
    assert len(bad) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:\n- .*spot.*\n50:\n- big\n- ^x", {"priorities": {"10": [".*spot.*"], "50": ["big", "^x"]}}),
        ("10: spot", {"error": f"{PRIORITIES_OF}, priority 10: 'spot' is no list: {VALID}"}),
        ("high: [a]", {"error": f"{PRIORITIES_OF} has the priority 'high': {VALID}"}),
        ("- a", {"error": f"{PRIORITIES_OF} holds list: {VALID}"}),
        (
            f"1: [{'a,' * 1001}]",
            {"error": f"{PRIORITIES_OF} has more than 1000 expressions: valid are fewer"},
        ),
        (
            f"1: [{'a' * 600}]",
            {
                "error": f"{PRIORITIES_OF}, priority 1: {'a' * 40!r}... has 600 characters: valid are at most 512"
            },
        ),
    ],
)
def test_priorities_of_groups_are_read_as_the_reference_has_them(
    text: str, expected: dict[str, object]
) -> None:
    assert priorities_of({"priorities": text}).data == expected
    assert priorities_of(None).data == {}
