"""What is read from the environment: connections and identities, each with one meaning, and nothing that is lost silently."""

from __future__ import annotations

import os
import re

import pytest

from tests.unit.cli.pages import arguments_of, chains
from tidewright.asking.environment import READ, variable
from tidewright.cli import main

ELSEWHERE = {("sim", "--cloud"), ("sim", "--kubeconfig")}
"""Options of these names that mean another thing, the simulated cluster: they are not read."""


@pytest.mark.parametrize("chain", chains(), ids=" ".join)
def test_only_connections_and_identities_are_read(chain: tuple[str, ...]) -> None:
    for argument in arguments_of(chain):
        read = argument.name in READ and (chain[0], argument.name) not in ELSEWHERE
        assert argument.parameter.env_var == ((variable(argument.name),) if read else ()), argument.name


def test_all_of_them_are_options_of_some_command() -> None:
    assert {a.name for chain in chains() for a in arguments_of(chain)} >= READ


def test_what_is_read_goes_behind_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_NATS", "nats://127.0.0.1:1")
    assert main.run(["get"]) == 69
    assert "no NATS server answers at nats://127.0.0.1:1" in capsys.readouterr().err
    assert main.run(["get", "--nats", "nats://127.0.0.1:2"]) == 69
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_a_setting_that_is_not_read_any_more_is_told_once_with_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_NATS", "nats://127.0.0.1:1")
    monkeypatch.setenv("TIDEWRIGHT_OUTPUT", "json")
    monkeypatch.setenv("TIDEWRIGHT_MAX_AGE", "5")  # of another command
    monkeypatch.setenv("TIDEWRIGHT_READER_PASSWORD", "s3cret")  # of the bus
    assert main.run(["get"]) == 69
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith("warning: TIDEWRIGHT_OUTPUT is set and is not read any more: pass --output (")
    assert "TIDEWRIGHT_OUTPUT" not in os.environ, "a child would say it once more"
    assert main.run(["get"]) == 69
    assert "warning" not in capsys.readouterr().err


def test_what_the_command_line_gives_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_NATS", "nats://127.0.0.1:1")
    monkeypatch.setenv("TIDEWRIGHT_OUTPUT", "json")
    assert main.run(["get", "-o", "yaml"]) == 69
    assert "warning" not in capsys.readouterr().err


def test_a_command_below_another_one_says_it_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_NATS", "nats://127.0.0.1:1")
    monkeypatch.setenv("TIDEWRIGHT_AT", "seq:1")
    main.run(["plan", "scale-down"])
    assert "TIDEWRIGHT_AT is set and is not read any more: pass --at (" in capsys.readouterr().err


LINKS = {
    "TIDEWRIGHT_SERVICE_HOST": "10.96.0.12",
    "TIDEWRIGHT_SERVICE_PORT": "80",
    "TIDEWRIGHT_PORT": "tcp://10.96.0.12:80",
    "TIDEWRIGHT_PORT_80_TCP": "tcp://10.96.0.12:80",
    "TIDEWRIGHT_PORT_80_TCP_PROTO": "tcp",
    "TIDEWRIGHT_PORT_80_TCP_PORT": "80",
    "TIDEWRIGHT_PORT_80_TCP_ADDR": "10.96.0.12",
    "TIDEWRIGHT_HEALTH_PORT": "tcp://10.96.0.13:8080",
    "TIDEWRIGHT_NATS_PORT": "tcp://10.96.0.14:4222",
    "TIDEWRIGHT_NATS_SERVICE_HOST": "10.96.0.14",
}
"""What Kubernetes gives every container where Services `tidewright`, `tidewright-health` and `tidewright-nats` are beside it."""


def test_what_kubernetes_says_of_services_is_no_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_NATS", "nats://127.0.0.1:1")
    for name, value in LINKS.items():
        monkeypatch.setenv(name, value)
    assert main.run(["console"]) == 69  # it has --port and --health-port
    said = capsys.readouterr().err
    assert "warning" not in said
    assert "no NATS server answers at nats://127.0.0.1:1" in said
    monkeypatch.setenv("TIDEWRIGHT_PORT", "8080")  # as an earlier version took it
    assert main.run(["console"]) == 69
    assert "TIDEWRIGHT_PORT is set and is not read any more" in capsys.readouterr().err


def test_no_setting_has_a_name_that_kubernetes_may_give() -> None:
    """A Service of any name gives `<NAME>_PORT`, `<NAME>_PORT_…`, `<NAME>_SERVICE_HOST` and `<NAME>_SERVICE_PORT…`."""
    given = re.compile(r"_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_.*)?)$")
    assert [name for name in map(variable, READ) if given.search(name)] == []
    assert all(given.search(name) for name in LINKS)
