"""Verification: whatever was altered is named, and a part of a log verifies alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking.conftest import Answer, Ask
from tests.e2e.asking.world import APP, SPACE, place, rechained, records_in, server, stored, with_body
from tests.exports import write_export
from tidewright.autoscaler.decide import DECIDER
from tidewright.cli.keys.folder import KeyFolder
from tidewright.host.process.software import software_of
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record
from tidewright.log.subjects import slot_of

SLOT = slot_of(SPACE, 32)


def first(answer: Answer) -> dict[str, Any]:
    """The first difference."""
    assert answer.code == 1
    found: dict[str, Any] = json.loads(answer.out)["first"][0]
    return found


def is_sample(record: Record) -> bool:
    return record.subject.startswith(f"tw.bench.fact.{SLOT}.metric.")


def is_hold(record: Record) -> bool:
    return record.subject.startswith(f"tw.bench.decision.{SLOT}.") and b"hold-replicas" in record.body


def test_an_untouched_log_is_true(ask: Ask, whole: Path) -> None:
    answer = ask("verify", "--log", whole)
    assert answer.code == 0
    assert "Every decision is what its recorded facts give, byte for byte" in answer.out
    assert "no checkpoint on this log, so nothing to verify" in answer.out


def test_an_altered_fact_is_named_first(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    # A value that would have led to another decision: the fact is named all the same, not the decision.
    found = list(records)
    at = place(found, is_sample, 5)
    found[at] = with_body(found[at], found[at].body.replace(b'"series_milli":[', b'"series_milli":[9'))
    difference = first(ask("verify", "--log", stored(tmp_path / "a.twlog", found), "-o", "json"))
    assert difference["cause"] == "altered or missing fact"
    assert difference["slot"] == SLOT
    assert difference["sequence"] > found[at].seq


def test_a_missing_fact_is_named(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    found = list(records)
    del found[place(found, is_sample, 5)]
    difference = first(ask("verify", "--log", stored(tmp_path / "m.twlog", found), "-o", "json"))
    assert difference["cause"] == "altered or missing fact"


def test_an_altered_decision_is_named_itself(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    found = list(records)
    at = place(found, is_hold, 2)
    found[at] = with_body(found[at], found[at].body.replace(b'"reason":"', b'"reason":"Not'))
    difference = first(ask("verify", "--log", stored(tmp_path / "d.twlog", found), "-o", "json"))
    assert (difference["cause"], difference["sequence"]) == ("altered decision", found[at].seq)
    assert '"reason":"Not' in difference["recorded"]
    assert '"reason":"Not' not in difference["recomputed"]


def test_a_removed_decision_is_named(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    found = list(records)
    gone = found.pop(place(found, is_hold, 2))
    difference = first(ask("verify", "--log", stored(tmp_path / "r.twlog", found), "-o", "json"))
    assert difference["cause"] == "altered decision"
    assert difference["recomputed"] == gone.body.decode()


def test_another_software_version_is_named(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    # Another version decided otherwise, and its chain is whole.
    found = list(records)
    at = place(found, is_hold, 2)
    found[at] = with_body(found[at], found[at].body.replace(b'"reason":"', b'"reason":"Not'))
    path = stored(tmp_path / "v.twlog", rechained(found, SLOT, "0.0.9"))
    difference = first(ask("verify", "--log", path, "-o", "json"))
    assert (difference["cause"], difference["sequence"]) == ("other software version", found[at].seq)
    assert "written by 0.0.9" in difference["message"]
    changed = json.loads(ask("diff", path, "-o", "json").out)
    assert changed["kinds"]["changed HoldReplicas"] == 1


@pytest.mark.parametrize(
    ("written_by", "cause", "said"),
    [
        ("0.1.0+0123456789ab", "other software version", "(written by 0.1.0+0123456789ab, this is 0.1.0+"),
        (
            "0.1.0",
            "different decision",
            "(written by 0.1.0, which does not say of which code, this is 0.1.0+",
        ),
        ("mine", "different decision", "differs"),
    ],
)
def test_other_code_of_the_same_version_is_told_from_its_own(
    ask: Ask, records: list[Record], tmp_path: Path, written_by: str, cause: str, said: str
) -> None:
    mine = software_of(DECIDER)
    found = list(records)
    at = place(found, is_hold, 2)
    found[at] = with_body(found[at], found[at].body.replace(b'"reason":"', b'"reason":"Not'))
    written_by = mine if written_by == "mine" else written_by
    path = stored(tmp_path / "v.twlog", rechained(found, SLOT, written_by))
    difference = first(ask("verify", "--log", path, "-o", "json"))
    assert (difference["cause"], difference["sequence"]) == (cause, found[at].seq)
    assert said in difference["message"]
    assert ("written by" in difference["message"]) is (written_by != mine)
    shown = ask("verify", "--log", path).out
    assert f"The decisions were written by autoscaler {min(written_by, mine)} (" in shown


def test_explain_says_which_code_took_the_decision(ask: Ask, whole: Path) -> None:
    assert (
        f", of autoscaler {software_of(DECIDER)}\n"
        in ask("explain", f"wpa/{APP}", "-n", SPACE, "--log", whole).out
    )


def test_diff_of_two_logs_names_the_decision(
    ask: Ask, whole: Path, records: list[Record], tmp_path: Path
) -> None:
    found = list(records)
    at = place(found, is_hold, 2)
    found[at] = with_body(found[at], found[at].body.replace(b'"reason":"', b'"reason":"Not'))
    other = stored(tmp_path / "o.twlog", found)
    answer = ask("diff", whole, other)
    assert answer.code == 1
    assert "1 differs: 1 changed HoldReplicas." in answer.out
    assert f"{found[at].seq}  autoscaler" in answer.out


def test_a_part_by_time_and_namespace_verifies_alone(
    ask: Ask, running: tuple[str, ...], whole: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part.twlog"
    assert ask("export", part, "-n", SPACE, "--since", "50s", "--until", "10s", *running).code == 0
    file, kept = ExportFile(part), records_in(part)
    (snapshot,) = file.snapshots()
    assert (snapshot.service, snapshot.slot) == ("autoscaler", SLOT)
    assert kept[0].seq > snapshot.position
    assert {record.subject.split(".")[3] for record in kept} == {SLOT}
    verified = json.loads(ask("verify", "--log", part, "-o", "json").out)
    assert verified["verified"]
    assert verified["checkpoints"] >= 3
    moment = ("wpa/" + APP, "-n", SPACE, "--at", f"seq:{kept[-1].seq - 200}")
    in_part = json.loads(ask("state", *moment, "--log", part, "-o", "json").out)
    in_whole = json.loads(ask("state", *moment, "--log", whole, "-o", "json").out)
    assert in_part["state"] == in_whole["state"]
    for early in (
        ask("state", "wpa/" + APP, "-n", SPACE, "--at", "70s", "--log", part),
        ask("events", "--since", "2020-01-01", "--log", part),
        ask("export", tmp_path / "unwritten.twlog", "--since", "2020-01-01", "--log", part),
    ):
        assert (early.code, "retained are" in early.err) == (2, True)
    assert not [*tmp_path.glob("unwritten*")]
    # Of a whole log nothing was removed, so there is no time too early to begin with.
    assert ask("events", "--since", "2020-01-01", "--log", whole).code == 0
    # A part of a part, and a part that is imported, are logs like any other.
    smaller = tmp_path / "smaller.twlog"
    assert ask("export", smaller, "--since", "20s", "--log", part).code == 0
    assert ask("verify", "--log", smaller).code == 0
    folder = ("--data", tmp_path / "kept")
    assert ask("import", part, "--cluster", "bench", *folder).code == 0
    assert json.loads(ask("verify", *folder, "-o", "json").out)["verified"]
    assert json.loads(ask("state", *moment, *folder, "-o", "json").out)["state"] == in_whole["state"]
    assert (
        ask("get", "wpa", "-A", "-o", "name", *folder).out
        == ask("get", "wpa", "-A", "-o", "name", "--log", part).out
    )


def test_who_has_nothing_to_say_is_named_with_the_reason(
    ask: Ask, records: list[Record], tmp_path: Path
) -> None:
    pod = (f"pod/{APP}-5d8f6c7b9-00000", "-n", SPACE)
    whole, part = stored(tmp_path / "w.twlog", records), tmp_path / "p.twlog"
    never = ask("explain", *pod, "--log", whole).out
    assert "provisioning looks after objects of this kind, and has never run on this log." in never
    assert ask("export", part, "-n", SPACE, "--log", whole).code == 0
    left_out = ask("explain", *pod, "--log", part).out
    assert "provisioning decides over the whole cluster, and is left out of this part of the log." in left_out
    nobody = ask("explain", f"metric/external/rps/app={APP}", "-n", SPACE, "--log", whole).out
    assert "Nothing was decided about it, and no service looks after it." in nobody


def test_an_altered_fact_in_a_part_is_found(ask: Ask, running: tuple[str, ...], tmp_path: Path) -> None:
    part = tmp_path / "part.twlog"
    ask("export", part, "--since", "50s", *running)
    file, found = ExportFile(part), records_in(part)
    at = place(found, is_sample)
    found[at] = with_body(found[at], found[at].body + b" ")

    altered = tmp_path / "altered.twlog"
    write_export(altered, file.manifest, file.snapshots(), found)
    assert first(ask("verify", "--log", altered, "-o", "json"))["cause"] == "altered or missing fact"


def test_an_empty_log_is_not_true(ask: Ask, tmp_path: Path) -> None:
    with server(tmp_path) as url:
        empty = ("--nats", url, "--cluster", "bench")
        assert ask("install", *empty, "--cluster-id", "none").code == 0
        answer = ask("verify", *empty)
        assert answer.code == 1
        assert "The log is empty: NOTHING WAS VERIFIED" in answer.out
        assert json.loads(ask("verify", *empty, "-o", "json").out)["verified"] is False


def test_a_log_whose_end_was_cut_off_is_not_true(ask: Ask, whole: Path, tmp_path: Path) -> None:
    # The file is whole in itself; its head says what it held, and the checkpoints that are left do not reach there.
    said = ExportFile(whole).manifest
    records = records_in(whole)
    cut = stored(
        tmp_path / "cut.twlog", records[: len(records) // 2], ends=ends_in(records), last_seq=said.last_seq
    )
    difference = first(ask("verify", "--log", cut, "-o", "json"))
    assert difference["cause"] == "cut off"
    assert "its end was cut off" in difference["message"]


def ends_in(records: list[Record]) -> dict[str, int]:
    """The positions of the last checkpoints."""
    return {
        f"autoscaler.{r.subject.split('.')[3]}": json.loads(r.body)["position"]
        for r in records
        if ".checkpoint." in r.subject
    }


def test_an_altered_header_is_named(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    for name, value in (("Tw-Writer", "actuator"), ("Tw-Version", "9.9"), ("Tw-Id", "autoscaler.1.2.3")):
        found = list(records)
        at = place(found, is_hold, 2)
        found[at] = Record(
            found[at].seq, found[at].subject, found[at].body, found[at].headers | {name: value}
        )
        difference = first(ask("verify", "--log", stored(tmp_path / "h.twlog", found), "-o", "json"))
        assert (difference["cause"], difference["sequence"]) == ("altered message", found[at].seq), name


def test_a_log_without_keys_says_that_nothing_is_signed(ask: Ask, whole: Path, tmp_path: Path) -> None:
    assert "Nothing on this log is signed" in ask("verify", "--log", whole).out
    folder = KeyFolder(tmp_path)
    folder.make()
    answer = ask("verify", "--log", whole, "--trust", folder.anchor)
    assert answer.code == 2
    assert "no key record" in answer.err


def test_an_export_without_fields_holds_none_and_its_chain_is_followed(
    ask: Ask, whole: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left.twlog"
    said = ask("export", left, "--without", "labels,annotations", "--log", whole)
    assert said.code == 0
    assert "fact metric: " in said.out
    assert "Left out: labels (" in said.out
    assert not any(b'"labels"' in record.body for record in ExportFile(left).records())
    answer = ask("verify", "--log", left, "-o", "json")
    found = json.loads(answer.out)
    assert (answer.code, found["verified"], found["chain"], found["without"]) == (
        0,
        False,
        True,
        ["labels", "annotations"],
    )
    assert found["decisions"] > 0
    refused = ask("import", left, "--cluster", "bench", "--nats", "nats://127.0.0.1:1")
    assert (refused.code, "was exported without labels, annotations" in refused.err) == (2, True)
    assert ask("explain", f"wpa/{APP}", "-n", SPACE, "--log", left).code == 0
