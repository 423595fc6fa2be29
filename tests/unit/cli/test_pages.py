"""Help pages: of one screen, with something to say of everything, and with examples of the command that they are about."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.unit.cli.pages import arguments_of, chains, groups
from tidewright.cli import main
from tidewright.cli.commands import COMMANDS
from tidewright.cli.helppages import ALL, FURTHER, default

LINES, COLUMNS = 50, 100


def page(chain: tuple[str, ...], *, whole: bool = False) -> str:
    shown = io.StringIO()
    main.application(whole=whole).help_print(list(chain), console=Console(file=shown, width=COLUMNS))
    return shown.getvalue()


@pytest.mark.parametrize("chain", [*chains(), *groups()], ids=" ".join)
def test_a_page_is_of_one_screen(chain: tuple[str, ...]) -> None:
    lines = page(chain).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("chain", chains(), ids=" ".join)
def test_a_page_says_something_of_everything(chain: tuple[str, ...]) -> None:
    short, whole = page(chain), page(chain, whole=True)
    for argument in arguments_of(chain):
        assert argument.parameter.help, argument.name
        assert argument.name in short
        assert argument.parameter.help.split()[0] in whole
    assert not any(f"{name} (--help-all" in whole for name in FURTHER)


@pytest.mark.parametrize("chain", groups(), ids=" ".join)
def test_a_page_with_others_below_it_says_something_of_each(chain: tuple[str, ...]) -> None:
    listed, _, _ = page(chain).partition("Examples:\n")
    below = {
        one[len(chain)]
        for one in (*chains(), *groups())
        if one[: len(chain)] == chain and len(one) > len(chain)
    }
    said = {
        words[1]: words[2:]
        for line in listed.splitlines()
        if len(words := line.split()) > 1 and line[0] == "\u2502"
    }
    assert below
    assert all(len(said[name]) > 1 for name in below)  # beside the border


@pytest.mark.parametrize("chain", chains(), ids=" ".join)
def test_a_page_has_an_example_of_its_own_command_and_of_no_other(chain: tuple[str, ...]) -> None:
    _, found, examples = page(chain).partition("Examples:\n")
    assert found
    lines = [line for line in examples.splitlines() if line.startswith("  tidewright")]
    typed = " ".join(("tidewright", *chain))
    assert lines
    assert all(f"{line.strip()} ".startswith(f"{typed} ") for line in lines)


@pytest.mark.parametrize("line", [line for c in COMMANDS for line, _ in c.below])
def test_every_example_below_is_accepted_by_the_parser(line: str) -> None:
    main.application().parse_args(line.split()[1:], exit_on_error=False, print_error=False)


def test_the_page_with_everything_is_asked_for_by_its_own_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["get", ALL]) == 0
    assert "PEM file with its key" in capsys.readouterr().out


def test_what_goes_without_saying_is_no_default() -> None:
    whole = page(("run", "watcher"), whole=True)
    assert '[default: ""]' not in whole
    assert "[default: ()]" not in whole
    assert [default(value) for value in (None, "", (), False)] == [None] * 4
    assert [default(value) for value in (0, 0.0, True, ("a", "b"))] == ["0", "0.0", "True", "a b"]
