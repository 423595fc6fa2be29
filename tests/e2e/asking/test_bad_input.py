"""What cannot be asked is refused with a sentence that helps, and nothing is written."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.asking.conftest import Ask
from tests.e2e.asking.world import APP, SPACE, records_in, stored
from tidewright.asking import point_in_time
from tidewright.events import registry
from tidewright.events.facts import ClockJumped, PodGone
from tidewright.log.connection import Log, Message
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL


def on(url: str, work: Any, cluster: str = "bench") -> Any:
    """Do something with a connection, from a test that has no event loop."""

    async def run() -> Any:
        async with await Log.connect(url, cluster, timeout_s=10.0) as log:
            return await work(log)

    return asyncio.run(run())


async def streams(log: Log) -> list[str]:
    answer = await log.api("STREAM.NAMES", {})
    return answer.get("streams") or []


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (("explain", f"wpa/{APP}x", "-n", SPACE), f"known there are watermarkpodautoscaler/{APP}"),
        (("explain", f"wpa/{APP}"), "there is one in team-"),
        (("state", f"wpq/{APP}", "-n", SPACE), "known kinds there are deployment, metric, pod, watermarkpodautoscaler"),
        (("explain", f"wpa/{APP}", "-n", "nowhere"), "there is one in"),
        (("state", "wpa/nothing", "-n", "nowhere"), "nor about anything in that namespace"),
        (("events", "--for", "wpa/nothing", "-n", SPACE), "known there are"),
        (("explain", APP), "name one object as KIND/NAME"),
        (("explain",), "name one object as KIND/NAME, for example wpa/shop, or a decision with --decision ID"),
        (("explain", f"wpa/{APP}", "-n", SPACE, "--at", "2020-01-01"), "retained are 2026-03-01 21:20:00 to"),
        (("explain", f"wpa/{APP}", "-n", SPACE, "--at", "2999-01-01"), "is still to come: retained are 2026-03-01"),
        (("explain", f"wpa/{APP}", "-n", SPACE, "--at", "seq:999999"), "(sequences 1 to "),
        (("explain", f"wpa/{APP}", "-n", SPACE, "--at", "yesterday"), "is not a time"),
        (("state", f"wpa/{APP}", "-n", SPACE, "--at", "2020-01-01"), "retained are"),
        (("events", "--since", "10s", "--until", "20s"), "is later than --until"),
        (("explain", "--decision", "autoscaler.1"), "an id is <service>.<slot>.<sequence>.<n>"),
        (("explain", "--decision", "autoscaler.7.999999.0"), "the event 999999 that it answers is not on"),
        (("explain", "--decision", "autoscaler.7.3.99"), "autoscaler decided nothing of that id about event 3 in slot 7"),
        (("export", "never.twlog", "-n", "nowhere"), "--namespace nowhere: nothing on"),
        (("verify", "--service", "autoscalar"), "one of autoscaler, provisioning, spread, shard-manager"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_question_without_an_answer(
    ask: Ask, whole: Path, running: tuple[str, ...], question: tuple[str, ...], said: str
) -> None:
    for where in (("--log", whole), running):
        answer = ask(*question, *where)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1


def test_a_time_after_the_end_is_answered_as_of_the_end_and_says_so(
    ask: Ask, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_in_time, "time", SimpleNamespace(time=lambda: 1_772_500_000.0))
    said = ask("state", f"wpa/{APP}", "-n", SPACE, "--at", "2026-03-02", "--log", whole).out
    assert re.search(
        r"as of 2026-03-02 00:00:00 UTC \(sequence \d+ of .*, which ends at 2026-03-01 21:", said
    )
    assert "which ends" not in ask("state", f"wpa/{APP}", "-n", SPACE, "--log", whole).out


def test_a_decision_of_something_else(ask: Ask, whole: Path, records: list[Record]) -> None:
    record = next(r for r in records if b"hold-replicas" in r.body and f".{SPACE}." in r.subject)
    identity = record.headers["Tw-Id"]
    name = record.subject.rsplit(".", 1)[1]
    for other in ("wpa/other", "deploy/other", "pod/other", "node/other"):
        answer = ask("explain", other, "-n", SPACE, "--decision", identity, "--log", whole)
        assert answer.code == 2
        assert f"is about watermarkpodautoscaler/{name} in namespace {SPACE}, not about" in answer.err
    for same in (f"wpa/{name}", f"deploy/{name}"):
        assert ask("explain", same, "-n", SPACE, "--decision", identity, "--log", whole).code == 0


@pytest.mark.parametrize("command", ["verify", "events", "import", "diff"])
@pytest.mark.parametrize(
    "how", ["cut in the middle", "cut at the end", "one bit", "more at the end", "no export", "empty"]
)
def test_a_damaged_file(ask: Ask, whole: Path, nats: str, tmp_path: Path, how: str, command: str) -> None:
    data = bytearray(whole.read_bytes())
    match how:
        case "cut in the middle":
            data = data[: len(data) // 2]
        case "cut at the end":
            data = data[:-12]
        case "one bit":
            data[len(data) // 2] ^= 4
        case "more at the end":
            data = data + data
        case "no export":
            data = bytearray(b"once upon a time")
        case "empty":
            data = bytearray()
    path = tmp_path / "damaged.twlog"
    path.write_bytes(data)
    words: dict[str, tuple[object, ...]] = {
        "verify": ("verify", "--log", path),
        "events": ("events", "--log", path, "--class", "config"),
        "diff": ("diff", path),
        "import": ("import", path, "--nats", nats, "--cluster", "elsewhere"),
    }
    answer = ask(*words[command])
    assert answer.code == 2
    assert any(word in answer.err for word in ("cut off", "altered", "is no export", "is empty"))
    assert str(path) in answer.err
    assert "TW_elsewhere" not in on(nats, streams)


def test_no_such_file_and_no_such_log(ask: Ask, nats: str, running: tuple[str, ...], tmp_path: Path) -> None:
    missing = ask("verify", "--log", tmp_path / "none.twlog")
    assert (missing.code, "there is no such file; `tidewright export` writes one" in missing.err) == (2, True)
    assert ask("import", tmp_path / "none.twlog", "--nats", nats).code == 2
    nobody = ask("explain", "wpa/shop", "--nats", nats, "--cluster", "nowhere")
    assert (nobody.code, "no stream of cluster 'nowhere'" in nobody.err) == (2, True)
    assert "there are logs of bench" in nobody.err
    away = ask("verify", "--nats", "nats://127.0.0.1:9", "--cluster", "bench")
    assert (away.code, "no NATS server answers" in away.err) == (69, True)


def test_an_import_writes_only_where_it_belongs(
    ask: Ask, nats: str, whole: Path, records: list[Record], tmp_path: Path
) -> None:
    other = ask("import", whole, "--nats", nats, "--cluster", "prod")
    assert (other.code, "is a log of cluster 'bench': pass --cluster bench" in other.err) == (2, True)
    assert "TW_prod" not in on(nats, streams)
    # Two clusters of one name: the stream remembers which one it is of.
    cluster = "twins"
    theirs = [
        Record(r.seq, r.subject.replace("tw.bench.", "tw.twins."), r.body, r.headers) for r in records[:50]
    ]
    path = stored(tmp_path / "twins.twlog", theirs, cluster=cluster, stream="TW_twins", cluster_id="uid-b")
    on(nats, lambda log: log.ensure(cluster_id="uid-a"), cluster)
    twin = ask("import", path, "--nats", nats, "--cluster", cluster)
    assert twin.code == 2, twin.err
    assert "is of another cluster" in twin.err
    assert on(nats, lambda log: log.bounds(), cluster)[1] == 0


def test_an_import_goes_into_an_empty_log_alone(ask: Ask, running: tuple[str, ...], whole: Path) -> None:
    before = ask("events", "--class", "decision", *running).out
    answer = ask("import", whole, *running)
    assert (answer.code, "messages already: import into a cluster name without a log" in answer.err) == (
        2,
        True,
    )
    assert ask("events", "--class", "decision", *running).out == before


def test_a_part_is_imported_at_its_old_sequences(ask: Ask, whole: Path, tmp_path: Path) -> None:
    from tests.e2e.asking.world import server

    part = tmp_path / "part.twlog"
    assert ask("export", part, "-n", SPACE, "--since", "50s", "--log", whole).code == 0
    with server(tmp_path / "nats") as url:
        where = ("--nats", url, "--cluster", "bench")
        assert ask("import", part, *where).code == 0
        assert ask("verify", *where).code == 0
        live, filed = ask("events", *where, "-o", "json").out, ask("events", "--log", part, "-o", "json").out
        assert live == filed
        again = tmp_path / "again.twlog"
        assert ask("export", again, *where).code == 0
        assert ask("verify", "--log", again).code == 0
    kept = {record.seq: record for record in records_in(again)}
    assert all(kept[record.seq].body == record.body for record in records_in(part))
    assert [s.position for s in ExportFile(part).snapshots()] == [
        s.position for s in ExportFile(again).snapshots()
    ]


def test_a_clock_that_jumped(ask: Ask, records: list[Record], tmp_path: Path) -> None:
    # Log time leaps an hour, and then stands still until the clock has caught up.
    last = records[-1].seq
    before = max(registry.decode(r.body).at for r in records if ".fact." in r.subject)
    after = before + 3600
    jump = ClockJumped(at=after, from_at=before, to_at=after)
    subject = f"tw.bench.fact.{ALL}.clock._.watcher"
    added = [Record(last + 1, subject, registry.encode(jump), {})]
    added += [
        Record(last + 2 + n, f"tw.bench.fact.10.pod.{SPACE}.late-{n}", registry.encode(PodGone(at=after, namespace=SPACE, name=f"late-{n}")), {})
        for n in range(3)
    ]  # fmt: skip
    path = stored(tmp_path / "jump.twlog", [*records, *added])
    said = ask("events", "--class", "fact", "--since", "30m", "--log", path).out
    assert "ClockJumped" in said
    assert "the clock went 3600.0 s forward" in said
    assert said.count("\n") == 1 + 4  # the header
    between = ask("state", f"wpa/{APP}", "-n", SPACE, "--at", "30m", "--log", path)
    assert f"(sequence {last} of" in between.out
    ties = ask("state", "pod/late-1", "-n", SPACE, "--at", f"seq:{last + 2}", "--log", path)
    assert (ties.code, "nothing on" in ties.err) == (2, True)
    assert ask("state", "pod/late-1", "-n", SPACE, "--at", f"seq:{last + 3}", "--log", path).code == 0
    assert ask("verify", "--log", path).code == 0


def test_messages_that_do_not_decode_are_parked(ask: Ask, whole: Path, tmp_path: Path) -> None:
    from tests.e2e.asking.world import server

    with server(tmp_path / "nats") as url:
        where = ("--nats", url, "--cluster", "bench")
        ask("import", whole, *where)
        assert "no messages that do not decode" in ask("events", "--parked", *where).err
        garbage = Message(
            f"tw.bench.fact.10.pod.{SPACE}.broken", b'{"type":"fact.pod-gone.v1","at":1,"name":"\xff"}'
        )
        newer = Message(
            f"tw.bench.fact.10.pod.{SPACE}.newer", b'{"type":"fact.pod-teleported.v1","at":1772400100.0}'
        )

        async def append(log: Log) -> None:
            for message in (garbage, newer):
                await log.commit([message])

        async def forge(log: Log) -> None:
            await log.commit([Message("tw.bench.checkpoint.10.autoscaler", b"?")])

        on(url, append)
        parked = ask("events", "--parked", *where)
        (_, line) = parked.out.splitlines()
        assert f"pod/{SPACE}/broken  does not decode: not an event" in line
        assert (
            "fact.pod-teleported.v1 (of a newer version)"
            in ask("events", "--for", "pod/newer", "-n", SPACE, *where).out
        )
        assert ask("state", f"wpa/{APP}", "-n", SPACE, *where).code == 0
        checked = ask("verify", *where)
        assert checked.code == 0
        explained = ask("explain", f"wpa/{APP}", "-n", SPACE, *where)
        assert explained.code == 0
        assert "Nothing is decided" not in explained.out
        on(url, forge)
        explained = ask("explain", f"wpa/{APP}", "-n", SPACE, *where)
        assert explained.code == 0
        assert (
            "Nothing is decided: checkpoint on tw.bench.checkpoint.10.autoscaler at sequence "
            in explained.out
        )
        assert "HoldReplicas" in explained.out or "leave at" in explained.out
        assert ask("verify", *where).code == 1
        unknown = ask("explain", "wpa/nope", "-n", SPACE, *where)
        assert (unknown.code, "nothing on" in unknown.err) == (2, True)
        # Other slots are not concerned.
        assert ask("state", "wpa/app-0", "-n", "team-8", *where).code == 0
