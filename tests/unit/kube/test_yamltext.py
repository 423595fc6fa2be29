"""YAML of people: what is wrong with it is one line that names file, line and what is valid."""

from __future__ import annotations

import msgspec
import pytest

from tidewright.kube.yamltext import BadYaml, converted, many, one

VALID = "a mapping with groups"


class Group(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    sizes: dict[str, int] = {}


class Cloud(msgspec.Struct, forbid_unknown_fields=True):
    groups: tuple[Group, ...] = ()
    first: Group | None = None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\n---\nb: 2\n", 3, "a second document begins before this line (`---`)"),
        ("a: [1,\n", 2, "expected the node content, but found '<stream end>'"),
        ("a: 1\n b: 2\n", 2, "mapping values are not allowed here"),
        ("\ta: 1", 1, "cannot start any token"),
        ("a: 1\nb: \x00", 2, "character 0 is not allowed"),
        ("a: !!python/object:os.system 1", 1, "could not determine a constructor"),
        ("a: *b", 1, "undefined alias 'b'"),
        ("a: 1\nb: 2020-13-40", 1, "month must be in 1..12"),
        ("? [1]\n: 2\n", 1, "unhashable key"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, line: int, said: str) -> None:
    with pytest.raises(BadYaml) as refused:
        one(text, "groups.yaml", VALID)
    message = str(refused.value)
    assert message.startswith(f"groups.yaml, line {line}: ")
    assert said in message
    assert message.endswith(VALID)
    assert "\n" not in message


def test_deep_nesting_is_refused_too() -> None:
    with pytest.raises(BadYaml, match="nested too deeply"):
        one("[" * 20_000, "groups.yaml", VALID)


def test_empty_documents_do_not_count() -> None:
    assert one("---\na: 1\n---\n# that is all\n", "f", VALID) == {"a": 1}
    assert one("", "f", VALID) is None
    assert many("a: 1\n---\n---\n[]\n", "f", VALID) == [{"a": 1}, []]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups:\n- id: a\n- id: 7\n", "f, line 3: groups[1].id: Expected `str`, got `int`"),
        (
            "groups:\n- id: a\n- id: b\n  bot: 1\n",
            "f, line 4: groups[1]: field 'bot' is not known; valid are id, sizes",
        ),
        ("groups: []\ngruops: []\n", "f, line 2: field 'gruops' is not known; valid are first, groups"),
        ("first:\n  id: a\n  ids: b", "f, line 3: first: field 'ids' is not known; valid are id, sizes"),
        ("groups:\n- sizes: {a: 1}\n", "f, line 2: groups[0]: Object missing required field `id`"),
        ("groups:\n- id: a\n  sizes:\n    cpu: many\n", "Expected `int`, got `str`"),
        ("- a\n", "f, line 1: Expected `object`, got `array`"),
    ],
)
def test_what_is_no_such_thing_is_told_with_its_line_and_field(text: str, said: str) -> None:
    with pytest.raises(BadYaml) as refused:
        converted(text, "f", Cloud, VALID)
    assert said in str(refused.value)


def test_nothing_is_an_empty_mapping() -> None:
    assert converted("", "f", Cloud, VALID) == Cloud()


@pytest.mark.parametrize(
    "text", ['a: 1\nb: "\\ud800"', 'a: 1\n"\\udfff": 1', 'a: 1\nb: [{c: "\\ud83d\\ude00"}]']
)
def test_half_of_a_character_is_refused_where_it_stands(text: str) -> None:
    """It ended the watcher, which could not write down what it had read."""
    with pytest.raises(BadYaml, match=r"groups\.yaml, line 2: a text has half of a character"):
        one(text, "groups.yaml", VALID)
    assert one('a: &x ["\\u00e9"]\nb: *x', "groups.yaml", VALID) == {"a": ["\u00e9"], "b": ["\u00e9"]}
