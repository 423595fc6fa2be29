"""The command line itself: lazy, with help and examples for everything, and one line per refusal."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidewright.cli import main
from tidewright.cli.commands import BY_NAME, COMMANDS
from tidewright.cli.console import parsed
from tidewright.cli.datafolder import DataFolder
from tidewright.cli.errors import Unavailable
from tidewright.cli.run import load
from tidewright.cli.services import SERVICES, Role, Service

HEAVY = ("aiohttp", "nats", "kubernetes_asyncio", "numpy", "tidewright.sim", "tidewright.log", "yaml")


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    source = f"""
import sys
from tidewright.cli.main import run
try: run(["--help"])
except SystemExit: pass
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    began = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True
    )
    assert time.monotonic() - began < 3  # the benchmark holds it to 300 ms; this machine may be busy
    assert answer.stderr.strip() == "[]"
    for command in COMMANDS:
        assert command.help.split(".")[0][:40] in answer.stdout


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_command_has_help_with_two_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([name, "--help"]) == 0
    printed = capsys.readouterr().out
    assert len(BY_NAME[name].examples) >= 2
    for line, why in BY_NAME[name].examples:
        assert line.startswith(f"tidewright {name}")
        assert line in printed
        assert why in printed


@pytest.mark.parametrize("line", [line for c in COMMANDS for line, _ in c.examples])
def test_every_example_is_accepted_by_the_parser(line: str) -> None:
    main.application().parse_args(line.split()[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("service", [s.name for s in SERVICES])
def test_every_service_of_the_table_can_be_run_alone(
    service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["run", service, "--help"]) == 0
    assert "--nats" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], "frob"),
        (["up", "--frob"], "--frob"),
        (["run", "nobody"], "nobody"),
        (["run", "watcher", "--slots", "many"], "many"),
        (["demo", "--speed", "0"], "--speed 0"),
        (["demo", "--metrics", "/no/such.csv"], "/no/such.csv"),
        (["sim", "up", "--start-delay", "soon"], "soon"),
        (["sim", "up", "--nodes", "-1"], "--nodes -1"),
        (["up", "--services", "wtacher"], "wtacher"),
    ],
    ids=" ".join,
)
def test_bad_usage_is_refused_in_one_line_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert said in lines[0]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("time,value\n1,2\n", "line 1: no column timestamp"),
        ("timestamp,value\n2014-04-10 00:04:00,94\nyesterday,95\n", "line 3: timestamp 'yesterday'"),
        ("timestamp,value\n2014-04-10 00:04:00,many\n", "line 2: value 'many'"),
        ("timestamp,value\n20,1\n10,1\n", "line 3: timestamp '10'"),
        ("timestamp,value\n", "no rows"),
    ],
)
def test_a_malformed_load_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    load, data = tmp_path / "load.csv", tmp_path / "data"
    load.write_text("timestamp,value\n2026-01-01 00:00:00,1\n2026-01-01 00:05:00,many\n")
    # A process of its own: the command sets up logging.
    command = [
        sys.executable,
        "-m",
        "tidewright.cli.main",
        "demo",
        "--metrics",
        str(load),
        "--data",
        str(data),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 2
    assert (
        answer.stderr
        == f"error: {load}, line 3: value 'many' is no number; valid are for instance 94 or 51.8\n"
    )
    assert answer.stdout == ""
    assert not data.exists()
