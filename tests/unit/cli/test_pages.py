"""Help pages: of one screen, with something to say of everything, and with examples of the command that they are about."""

from __future__ import annotations

import pytest

from tests.unit.cli.pages import arguments_of, chains, groups
from tidewright.cli import main
from tidewright.cli.commands import COMMANDS
from tidewright.cli.helppages import FURTHER

LINES, COLUMNS = 50, 100


def page(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.run(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("chain", [*chains(), *groups()], ids=" ".join)
def test_a_page_is_of_one_screen(
    chain: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = page(capsys, *chain, "--help").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("chain", chains(), ids=" ".join)
def test_a_page_says_something_of_everything(
    chain: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    short, whole = page(capsys, *chain, "--help"), page(capsys, *chain, "--help-all")
    for argument in arguments_of(chain):
        assert argument.parameter.help, argument.name
        assert argument.name in short
        assert argument.parameter.help.split()[0] in whole
    assert not any(f"{name} (--help-all" in whole for name in FURTHER)


@pytest.mark.parametrize("chain", chains(), ids=" ".join)
def test_a_page_has_an_example_of_its_own_command_and_of_no_other(
    chain: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _, found, examples = page(capsys, *chain, "--help").partition("Examples:\n")
    assert found
    lines = [line for line in examples.splitlines() if line.startswith("  tidewright")]
    typed = " ".join(("tidewright", *chain))
    assert lines
    assert all(f"{line.strip()} ".startswith(f"{typed} ") for line in lines)


@pytest.mark.parametrize("line", [line for c in COMMANDS for line, _ in c.below])
def test_every_example_below_is_accepted_by_the_parser(line: str) -> None:
    main.application().parse_args(line.split()[1:], exit_on_error=False, print_error=False)


def test_what_goes_without_saying_is_no_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    whole = page(capsys, "run", "watcher", "--help-all")
    assert '[default: ""]' not in whole
    assert "[default: ()]" not in whole
    assert "[default: 0.0]" in whole
