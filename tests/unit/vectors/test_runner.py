"""The runner of the specification's cases: what it takes for a file of cases, and what it makes of bad ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.__main__ import files, main, run
from tests.vectors.reference import tags
from tests.vectors.suite import Case, Result, Suite, Verdict
from tidewright.events.config import ClockSet
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.state import State


def doubles() -> Suite:
    """A schema of its own: `{"schema": "doubles", "cases": [{"name", "given", "expect"}]}`."""

    def cases(content: Any) -> Sequence[Case] | None:
        if not isinstance(content, dict) or content.get("schema") != "doubles":
            return None
        return list(content["cases"])

    def case(one: Case) -> Result:
        right = one["given"] * 2 == one["expect"]
        return Result(one["name"], "", Verdict.PASSED if right else Verdict.FAILED)

    return Suite("doubles", cases, case)


def verdicts(content: Any) -> list[Verdict]:
    return [result.verdict for result in run(content, [doubles()], set())[1]]


def test_a_folder_gives_every_file_that_holds_json_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name, text in (
        ("a.json", "[]"), ("b.cases", "  [1]"), ("deep/er/c", '\ufeff{"x": 1}'), ("broken.txt", "{"),
        ("empty.json", ""), ("README.md", "# no cases"), (".hidden", "[]"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = [str(path.relative_to(tmp_path)) for path in files([str(tmp_path)])]
    assert found == ["a.json", "b.cases", "broken.txt", "deep/er/c", "empty.json"]


def test_a_case_that_has_not_its_schemas_form_fails_and_the_others_go_on() -> None:
    good, wrong = {"name": "a", "given": 1, "expect": 2}, {"name": "b", "given": 1, "expect": 3}
    content = {"schema": "doubles", "cases": [good, {"name": "c"}, wrong, good]}
    assert verdicts(content) == [Verdict.PASSED, Verdict.FAILED, Verdict.FAILED, Verdict.PASSED]
    _, results = run(content, [doubles()], set())
    assert results[1].name == "c"
    assert "KeyError: 'given'" in results[1].differences[0]


def test_a_file_that_only_claims_its_schema_fails_and_one_of_no_schema_is_not_covered() -> None:
    assert verdicts({"schema": "doubles"}) == [Verdict.FAILED]
    assert verdicts({"schema": "triples", "cases": [{}, {}]}) == [Verdict.NOT_COVERED] * 2
    assert verdicts([1, 2, 3]) == [Verdict.NOT_COVERED] * 3
    assert verdicts("text") == [Verdict.NOT_COVERED]


def test_broken_json_is_named_and_the_rest_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").write_text('[{"name": ')
    (tmp_path / "other").write_text(json.dumps([{"unknown": 1}, {"unknown": 2}]))
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert f"{tmp_path / 'broken'}: cannot be read: " in said.err
    assert said.out.splitlines()[-1] == "0 passed, 0 failed, 2 not covered"
    assert main([str(tmp_path / "none")]) == 2
    assert f"{tmp_path / 'none'}: cannot be read: " in capsys.readouterr().err


def test_a_case_that_leaves_the_product_aside_or_differs_names_listed_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers say how much of the cases is asked of the product, and why not of the rest."""

    def case(one: Case) -> Result:
        if one["name"] == "a":
            DECIDER.decide(State(), ClockSet(at=1.0, wall=1.0, log=1.0), Touched())
        by = tuple(one.get("by", ()))
        return Result(one["name"], "", Verdict.PASSED, reference=one.get("tag", ""), intended=by)

    suite = Suite("any", lambda content: content, case)
    monkeypatch.setattr("tests.vectors.__main__.suites", lambda: [suite])
    monkeypatch.setattr("tests.vectors.reference.tags", lambda: {"odd": "ours is even"})
    (tmp_path / "cases.json").write_text(
        json.dumps(
            [
                {"name": "a"},
                {"name": "b", "tag": "odd"},
                {"name": "c", "tag": "unheard"},
                {"name": "d", "by": ["odd", "unheard"]},
                {"name": "e", "by": ["odd"]},
            ]
        )
    )
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-7:] == [
        "through a decider: 1",
        "through the product's one function for it: 3",
        "through reference/: 1",
        "  odd: 1 (ours is even)",
        "differs by intention, and would be the original's without: 1",
        "  odd: 1 (ours is even)",
        "3 passed, 2 failed, 0 not covered",
    ]


def test_every_listed_tag_has_a_reason() -> None:
    assert all(len(why) > 20 for why in tags().values())
