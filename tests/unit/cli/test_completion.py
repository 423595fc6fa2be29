"""Shell completion: printed, or written where the shell looks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.console.hostile import SPACE, hostile_log
from tidewright.cli import main
from tidewright.cli.completion import SHELLS, Shell
from tidewright.cli.suggested import COMMAND, suggestions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("explain", "provisioning", "--nats", "--at"):
        assert word.lstrip("-") in script
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=script.encode(), check=True)


def test_it_is_installed_where_the_shell_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert main.run(["completion", "--install"]) == 0
    path = Path(capsys.readouterr().out.partition(":")[0])
    assert path.is_relative_to(tmp_path)
    assert "explain" in path.read_text()
    assert not (tmp_path / ".bashrc").exists()


@pytest.mark.parametrize(
    ("startup", "completes"), [("", False), ("autoload -Uz compinit && compinit\n", True)]
)
def test_who_installs_for_a_zsh_that_completes_nothing_is_told_what_is_missing(
    startup: str,
    completes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".zshrc").write_text(startup)
    assert main.run(["completion", "zsh", "--install"]) == 0
    assert ("compinit" not in capsys.readouterr().out) is completes
    assert (tmp_path / ".zshrc").read_text().startswith("# tidewright completions\nfpath=(")


def test_another_shell_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main.run(["completion"]) == 2
    assert "'/bin/tcsh'" in capsys.readouterr().err


LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
ASKED = f"--log {LOG}"
COMPLETION = Path(__file__).parents[3] / "deploy" / "completion"
PACKAGED = {
    shell: COMPLETION / name
    for shell, name in zip(SHELLS, ("tidewright.bash", "_tidewright", "tidewright.fish"), strict=True)
}
"""What is installed beside the program, by shell."""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"get {ASKED} w", {"watermarkpodautoscaler", "workloadspread", "wpa", "ws"}),
        (f"get {ASKED} wpa/app-0 ", set()),
        (f"explain -n team-0 {ASKED} wpa/", {"wpa/app-0", "wpa/app-2", "wpa/app-4"}),
        (f"explain {ASKED} -n team-0 wpa app-", {"app-0", "app-2", "app-4"}),
        (f"state --log={LOG} --namespace=team-0 WPA/app-2", set()),
        (f"events {ASKED} --follow -n team-0 --for wpa/app-4", {"wpa/app-4"}),
        (f"compare wpa -n team-0 {ASKED} a", {"app-0", "app-2", "app-4"}),
        (f"get {ASKED} -o ", set()),
        (f"get {ASKED} --", set()),
        (f"events {ASKED} ", set()),
        (f"verify {ASKED} ", set()),
        ("get --log /no/such/file ", set()),
        ("get", set()),
        ("", set()),
    ],
)
def test_a_line_is_completed_from_the_log(line: str, words: set[str]) -> None:
    assert set(suggestions(f"tidewright {line}")) == words


def test_moments_and_decisions_are_those_of_the_log() -> None:
    moments = suggestions(f"tidewright explain wpa/app-0 {ASKED} --at ")
    assert moments == sorted(moments, key=lambda word: -int(word.removeprefix("seq:")))
    ids = suggestions(f"tidewright explain {ASKED} --decision ")
    assert len(ids) == len(moments) > 20
    assert main.run(["explain", "--decision", ids[0], "--log", str(LOG)]) == 0


def test_a_name_that_a_shell_could_obey_is_not_offered(tmp_path: Path) -> None:
    log = hostile_log(tmp_path)
    assert suggestions(f"tidewright get --log {log} wpa/") == []
    assert suggestions(f"tidewright explain --log {log} -n {SPACE} wpa ") == []
    assert suggestions(f"tidewright get --log {log} wp") == ["wpa"]


def test_bash_completes_kinds_names_and_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine")
    main.run(["completion", "bash"])
    script = capsys.readouterr().out
    _program(tmp_path)
    asks = """
ask() {
  COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _tidewright_of_the_log
  printf '%s,' "${COMPREPLY[@]}"; echo
}
"""
    lines = [
        f"tidewright get {ASKED} wp",
        f"tidewright get -n team-0 {ASKED} wpa/app-4",
        "tidewright get --watc",
    ]
    done = subprocess.run(
        [bash, "-s"], input=script + asks + "".join(f"ask '{line}'\n" for line in lines),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["wpa,", "wpa/app-4,", "--watch,"]


def test_zsh_completes_kinds_names_and_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["completion", "zsh"])
    script = capsys.readouterr().out
    assert f"tidewright {COMMAND}" in script, "the place where ours stands is another one"
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("no zsh on this machine")
    _program(tmp_path)
    asks = """
compadd() { shift; print -r -- "${(j:,:)@}" }
_arguments() { print -r -- else }
ask() { words=(${(z)1}); [[ $1 == *\\  ]] && words+=(""); CURRENT=$#words; PREFIX=$words[CURRENT]; _cyclopts_tidewright }
"""
    lines = [
        f"tidewright get {ASKED} wp",
        f"tidewright get -n team-0 {ASKED} wpa/app-4",
        "tidewright get --watc",
        f"tidewright verify {ASKED} ",
    ]
    done = subprocess.run(
        [zsh, "-f"], input=script + asks + "".join(f"ask '{line}'\n" for line in lines),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["wpa", "wpa/app-4", "else", "else"], done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_what_the_package_brings_asks_the_command(tmp_path: Path, shell: Shell) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell} on this machine")
    _program(tmp_path)
    path = PACKAGED[shell]
    shows = {
        "bash": f"source {path}; complete -p tidewright",
        "zsh": f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump; function load {{ source {path} }}; "
        "function _arguments { :; }; load 2>/dev/null; print $_comps[tidewright]",
        "fish": f"source {path}; complete -c tidewright",
    }
    done = subprocess.run(
        [found, "-c", shows[shell]], env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert {"bash": "_tidewright_of_the_log", "zsh": "_cyclopts_tidewright", "fish": COMMAND}[
        shell
    ] in done.stdout


def _program(folder: Path) -> None:
    """`tidewright` of this tree, in a folder."""
    program = folder / "tidewright"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidewright.cli.main "$@"\n')
    program.chmod(0o755)
