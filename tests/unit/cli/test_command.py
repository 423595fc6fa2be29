"""The command line itself: lazy, with help and examples for everything, and one line per refusal."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tidewright.asking.services import SERVICES, Role, Service, load
from tidewright.cli import main, together
from tidewright.cli.commands import BY_NAME, COMMANDS
from tidewright.cli.console import Printer, parsed

HEAVY = (
    "aiohttp",
    "nats",
    "kubernetes_asyncio",
    "numpy",
    "tidewright.sim",
    "tidewright.log.connection",
    "yaml",
)


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    source = f"""
import sys
from tidewright.cli.main import run
try: run(["--help"])
except SystemExit: pass
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    answer = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True
    )
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
    arguments = line.split()[1:]
    if together.asked_for(arguments):
        assert together.read(arguments[1:])
    else:
        main.application().parse_args(arguments, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("service", [s.name for s in SERVICES])
def test_every_service_of_the_table_can_be_run_alone(
    service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["run", service, "--help"]) == 0
    assert "--nats" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], "valid are up, run, demo"),
        (["dmeo"], "did you mean demo?"),
        (["sim", "frob"], "valid are up, attach, load, fault; see `tidewright sim --help`"),
        (["up", "--frob"], "--frob"),
        (["run", "nobody"], "nobody"),
        (["install", "--slots", "many"], "many"),
        (["demo", "--speed", "0"], "--speed 0"),
        (["demo", "--speed", "nan"], "--speed nan"),
        (["up", "--speed", "inf"], "--speed inf"),
        (["demo", "--metrics", "/no/such.csv"], "/no/such.csv"),
        (["sim", "up", "--start-delay", "soon"], "soon"),
        (["sim", "up", "--nodes", "-1"], "--nodes -1"),
        (["sim", "up", "--signing-key", "k"], "--signing-key"),
        (["sim", "attach", "--kubeconfig", "f", "--trust", "root.pub"], "--trust"),
        (["up", "--services", "wtacher"], "'wtacher'"),
        (["up", "--services", "watcher,wtacher", "autoscaler"], "'wtacher'"),
        (["up", "--nats-port", "99999"], "--nats-port"),
        (["up", "--api-port", "0"], "--api-port"),
        (["up", "--config-map", "tidewright"], "is not NAMESPACE/NAME"),
        (["run", "watcher", "--metrics-interval", "-3"], "--metrics-interval"),
        (["run", "watcher", "--max-age", "-1"], "--max-age"),
        (["install", "--slots", "0"], "--slots"),
        (["run", "autoscaler", "--health-port", "99999"], "--health-port"),
        (["run", "spread-admission", "--port", "-1"], "--port"),
        (["sim", "up", "--port", "99999"], "--port"),
        (["up", "--services", ","], "none is named; valid are watcher, autoscaler"),
        (["events", "--for", "wpa", "shop"], "'shop': no argument is expected there"),
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
def test_a_malformed_load_is_refused_with_file_and_line(
    rows: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "load.csv"
    path.write_text(rows)
    assert main.run(["demo", "--metrics", str(path), "--data", str(tmp_path / "data")]) == 2
    error = capsys.readouterr().err
    assert str(path) in error
    assert said in error
    assert not (tmp_path / "data").exists()


def test_lines_of_programs_become_one_shape() -> None:
    assert parsed("a", '{"event": "x", "level": "error"}') == {"program": "a", "event": "x", "level": "error"}
    assert parsed("nats", "[7] 2026/11/21 12:00:00.0 [FTL] port is taken") == {
        "program": "nats",
        "level": "critical",
        "event": "port is taken",
    }
    timer_last = "[7] 2026/11/21 12:00:00.0 [ERR]   Failed restoring partial batch write for stream 'TW_x' at sequence 4: stat b: no such file or directory"
    assert parsed("nats", timer_last)["level"] == "debug"
    assert parsed("nats", timer_last.replace("no such file or directory", "disk full"))["level"] == "error"
    assert parsed("a", "{not json")["event"] == "{not json"


def test_a_long_list_is_shown_to_people_by_its_beginning() -> None:
    shown = io.StringIO()
    printer = Printer(shown, as_json=False)
    printer(
        "spread", '{"event": "slots claimed", "slots": ["0", "1", "10", "11", "2", "3"], "level": "info"}'
    )
    assert shown.getvalue().strip() == "spread | slots claimed slots=[0, 1, 10, 11, ... 6 in all]"


@pytest.mark.parametrize("service", [s for s in SERVICES if s.role is Role.DECIDER], ids=lambda s: s.name)
def test_a_decider_goes_by_its_name_in_the_table_on_the_bus(service: Service) -> None:
    assert load(service).service == service.name


@pytest.mark.parametrize(("to", "code"), [(">&-", 1), ("> /dev/full", 69)])
def test_an_output_that_takes_nothing_is_one_line_and_a_code(to: str, code: int) -> None:
    for words in (
        "version",
        "get --log tests/recorded/chaos.twlog",
        "events --tail 2 --log tests/recorded/chaos.twlog",
    ):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" -m tidewright.cli.main {words} {to}', sys.executable],
            stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
        )  # fmt: skip
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "words", ["--help", "explain --help", "completion zsh", "events --log tests/recorded/chaos.twlog"]
)
def test_whoever_reads_only_the_beginning_is_told_nothing_more(words: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m tidewright.cli.main {words} | true; exit "${{PIPESTATUS[0]}}"', sys.executable],
        stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_what_libraries_note_on_the_way_is_no_part_of_an_answer() -> None:
    line = "import tests/recorded/demo.twlog --cluster demo --nats nats://127.0.0.1:1"
    done = subprocess.run(
        [sys.executable, "-m", "tidewright.cli.main", *line.split()],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (69, "", 1), done
