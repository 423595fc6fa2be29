"""proto/ is what the code says, the check notices when it is not, and others can read it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidewright.asking.services import SERVICES
from tidewright.cli.contract import __main__ as command
from tidewright.cli.contract import golden, tree
from tidewright.cli.contract.reference import commands
from tidewright.events.registry import BY_NAME
from tidewright.log.subjects import Slot, Subjects


@pytest.fixture(scope="module")
def reference() -> str:
    """The page about all commands, which takes longer than all else together: it is asked for in a process of its own."""
    return commands.page()


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str) -> Path:
    """A current proto/ and current golden files, which the command uses instead of the committed ones."""
    monkeypatch.setattr(commands, "page", lambda: reference)
    tree.write(tmp_path / "proto", tree.wanted(command.CRDS, command.MESSAGES))
    golden.complete(tmp_path / "golden")
    monkeypatch.setattr(command, "PROTO", tmp_path / "proto")
    monkeypatch.setattr(command, "GOLDEN", tmp_path / "golden")
    return tmp_path


def test_what_is_committed_is_current() -> None:
    assert command.main(["--check"]) == 0


def test_the_reference_of_commands_does_not_say_how_it_was_made(
    monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["/elsewhere/other", "--check"])
    assert commands.page() == reference


def test_a_stale_file_fails_the_check_and_generating_mends_it(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "proto" / "asyncapi.yaml").write_text("asyncapi: 3.0.0\n")
    (copy / "proto" / "events" / "fact.pod-gone.v1.json").unlink()
    assert command.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "asyncapi.yaml: stale; run `make generate`" in said
    assert "fact.pod-gone.v1.json: missing" in said
    assert command.main([]) == 0
    assert command.main(["--check"]) == 0


def test_a_breaking_change_fails_the_check_and_is_not_generated(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copy / "proto" / "events" / "fact.pod-observed.v1.json"
    schema = json.loads(path.read_text())
    schema["properties"]["phase_of_moon"] = {"type": "string"}  # a field that the code has since lost
    path.write_text(json.dumps(schema))
    for arguments in (["--check"], []):
        assert command.main(arguments) == 1
        assert "fact.pod-observed.v1: $.phase_of_moon: removed or renamed" in capsys.readouterr().err
    assert "phase_of_moon" in path.read_text()


def test_a_golden_file_that_lost_a_field_fails_the_check(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden.path_of(copy / "golden", "fact.pod-observed.v1")
    path.write_text(json.dumps({**json.loads(path.read_text()), "formerly": "here"}))
    golden.path_of(copy / "golden", "timer.fired.v1").unlink()
    assert command.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "formerly lost or changed in decoding" in said
    assert "timer.fired.v1 has no golden file" in said


def test_completing_golden_files_keeps_what_they_say(copy: Path) -> None:
    path = golden.path_of(copy / "golden", "fact.pod-observed.v1")
    kept = {k: v for k, v in json.loads(path.read_text()).items() if k != "phase"} | {"node": "by-hand"}
    path.write_text(json.dumps(kept))
    assert golden.complete(copy / "golden") == [path]
    assert json.loads(path.read_text()) == {**kept, "phase": "some-phase"}


def document() -> dict[str, Any]:
    content = yaml.safe_load(tree.wanted(command.CRDS, command.MESSAGES)["asyncapi.yaml"])
    assert isinstance(content, dict)
    return content


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [r for value in node.values() for r in references(value)]
    return [r for item in node for r in references(item)] if isinstance(node, list) else []


def test_every_reference_of_the_asyncapi_document_resolves() -> None:
    files, whole = tree.wanted(command.CRDS, command.MESSAGES), document()
    found = references(whole)
    assert found
    for reference in found:
        if reference.startswith("./"):
            assert reference.removeprefix("./") in files, reference
            continue
        node: Any = whole
        for token in reference.removeprefix("#/").split("/"):
            node = node[token]


def test_every_event_type_is_a_message_of_some_channel() -> None:
    held = {tag for channel in document()["channels"].values() for tag in channel["messages"]}
    assert set(BY_NAME) <= held, (
        f"{sorted(set(BY_NAME) - held)}: in nobody's `reads` and `writes` in services/tidewright/asking/services.py, or `make generate` was not run"
    )


def test_every_parameter_of_an_address_is_described_and_no_other() -> None:
    for channel in document()["channels"].values():
        named = {part[1:-1] for part in channel["address"].split(".") if part.startswith("{")}
        assert named == set(channel["parameters"])


def test_only_the_watcher_writes_facts_and_only_the_actuator_outcomes() -> None:
    senders: dict[str, set[str]] = {}
    for operation in document()["operations"].values():
        if operation["action"] == "send":
            channel = operation["channel"]["$ref"].rpartition("/")[2]
            senders.setdefault(channel, set()).add(operation["tags"][0]["name"])
    assert senders["fact"] == senders["config"] == {"watcher"}
    assert senders["outcome"] == {"actuator"}
    for service in SERVICES:
        if f"decision-{service.name}" in senders:
            assert senders[f"decision-{service.name}"] == {service.name}


def test_addresses_are_the_subjects_that_the_code_uses() -> None:
    subjects, slot = Subjects("c"), Slot("7")
    used = {
        "fact": subjects.fact(slot, "pod", "ns", "n"),
        "decision-autoscaler": subjects.decision(slot, "autoscaler", "deployment", "ns", "n"),
        "outcome": subjects.outcome(slot, "deployment", "ns", "n"),
        "ledger": subjects.ledger(slot, "spread", "ns", "n"),
        "checkpoint": subjects.checkpoint(slot, "spread"),
        "schedule": subjects.schedule(slot, "spread", "k"),
        "timer": subjects.timer(slot, "spread", "k"),
        "config": subjects.config("clock"),
    }
    channels = document()["channels"]
    for name, subject in used.items():
        address = channels[name]["address"].split(".")
        assert len(address) == len(subject.split("."))
        for expected, token in zip(address, subject.split("."), strict=True):
            assert expected.startswith("{") or expected == token, (name, subject)
