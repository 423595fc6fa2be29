"""`tidewright events` over a recorded log: its columns, the end of it, and what programs read."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tidewright.asking import events
from tidewright.asking.answers.events import LoggedEvent
from tidewright.cli import main

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> object:
    def run(*words: str) -> list[str]:
        capsys.readouterr()
        assert main.run(["events", "--log", str(LOG), *words]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def lines(printed: object, *words: str) -> list[str]:
    assert callable(printed)
    found: list[str] = printed(*words)
    return found


def test_a_header_milliseconds_and_with_wide_the_decisions(printed: object) -> None:
    header, *rows = lines(printed, "--for", "wpa/app-5", "-n", "team-1", "-o", "wide")
    assert header.split() == [
        "TIME",
        "SEQUENCE",
        "CLASS",
        "EVENT",
        "DECISION",
        "OBJECT",
        "WHAT",
        "IT",
        "SAYS",
    ]
    applied = next(row for row in rows if row.split()[2] == "3590")
    assert applied.split()[:6] == [
        "2026-02-02",
        "06:18:12.833",
        "3590",
        "outcome",
        "Applied",
        "autoscaler.4.3376.1",
    ]
    narrow = lines(printed, "--for", "wpa/app-5", "-n", "team-1")
    assert "DECISION" not in narrow[0]
    assert len(narrow) == len(rows) + 1


@pytest.mark.parametrize(
    "narrower",
    [
        (),
        ("--class", "decision"),
        ("--for", "wpa/app-5", "-n", "team-1"),
        ("-n", "team-0", "--until", "seq:2000"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("step", [7, 300, 50_000])
def test_the_tail_is_the_end_of_all(
    printed: object, narrower: tuple[str, ...], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FIRST_STEP", step)
    whole = lines(printed, *narrower, "-o", "json")
    for count in (1, 25, len(whole) + 5):
        assert lines(printed, *narrower, "--tail", str(count), "-o", "json") == whole[-count:]
    assert lines(printed, *narrower, "--tail", "0") == []


def test_what_programs_read_is_what_the_schema_says(printed: object) -> None:
    for line in lines(printed, "--tail", "200", "-o", "json"):
        item = json.loads(line)
        assert msgspec.to_builtins(msgspec.convert(item, LoggedEvent)) == item
        assert item["at"].endswith("Z")
    decided = [
        json.loads(line) for line in lines(printed, "--class", "decision", "--tail", "5", "-o", "json")
    ]
    assert [item["decision"] for item in decided] == [item["event"]["id"] for item in decided]
