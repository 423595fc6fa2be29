"""Headers that disagree with bodies or with one another, and decisions of endpoints that were altered or removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.endpoints import TrustEndpoint
from tidewright.events.facts import PodObserved
from tidewright.events.outcomes import Applied
from tidewright.host.fold import provenance
from tidewright.host.fold.provenance import Provenance
from tidewright.host.loop import fenced
from tidewright.host.webhook.announce import Announcement, Announcer
from tidewright.log import envelope
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, Subjects

ENDPOINT = "spread-admission"
HOOK = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "w"}}  # fmt: skip


async def recorded(log: Log) -> list[Record]:
    """Facts, and an endpoint that announces itself three times with an actuator that answers."""
    watcher, actuator = Writer("watcher"), Writer("actuator")
    names = log.subjects
    for n in range(3):
        fact = registry.encode(PodObserved(at=1.0 + n, namespace="shop", name=f"p{n}"))
        headers = watcher.headers(f"watcher.pod.{watcher.incarnation}.{n}")
        await log.commit([Message(names.fact(log.slot_of("shop"), "pod", "shop", f"p{n}"), fact, headers)])
    announcer = Announcer(log, Writer(ENDPOINT), Clock(lambda: 9.0), Announcement((HOOK,), {}))

    async def act() -> None:
        async with log.reader([names.decisions("*", ENDPOINT)]) as reader:
            done = 0
            while done < 3:
                for record in await reader.fetch():
                    event = registry.decode(record.body)
                    assert isinstance(event, TrustEndpoint)
                    headers = actuator.headers(f"actuator.{event.id}", cause=event.id, cause_seq=record.seq)
                    subject = names.outcome(ALL, "mutatingwebhookconfiguration", "", "w")
                    await log.commit(
                        [Message(subject, registry.encode(Applied(at=9.0, decision=event.id)), headers)]
                    )
                    done += 1

    acting = asyncio.create_task(act())
    for ca in ("a", "b", "c"):
        await announcer.trust(ca)
    await acting
    async with log.reader([names.everything]) as reader:
        return [record async for record in reader.until_current()]


def found_in(log: Log, records: list[Record]) -> list[tuple[int, str]]:
    """Sequences and what is wrong there."""
    found: list[tuple[int, str]] = []
    messages = Provenance(
        log.subjects, [ENDPOINT], lambda record, _, what: found.append((record.seq, what)), since=1
    )
    for record in records:
        messages.take(record)
    return found


def place(records: list[Record], cls: str, n: int) -> int:
    return [i for i, record in enumerate(records) if f".{cls}." in record.subject][n]


def headed(record: Record, **changed: str) -> Record:
    """A record with other headers, of which the names are given without hyphens."""
    names = {name.replace("-", "").lower(): name for name in record.headers}
    headers = dict(record.headers)
    for short, value in changed.items():
        headers[names[short.replace("_", "")]] = value
    return Record(record.seq, record.subject, record.body, headers)


async def test_what_agrees_is_left_alone(log: Log) -> None:
    assert found_in(log, await recorded(log)) == []


@pytest.mark.parametrize(
    ("cls", "header", "value", "words"),
    [
        ("fact", "twwriter", "spread", "says that spread wrote it, and only watcher writes there"),
        ("fact", "twincarnation", "0" * 16, "another"),
        ("fact", "twversion", "9.9", "is of version '9.9', which was"),
        ("decision", "twwriter", "spread", "only spread-admission writes there"),
        ("decision", "twid", "spread-admission.all.x.9", "and its body"),
        ("outcome", "twwriter", "watcher", "only actuator writes there"),
        ("outcome", "twcause", "spread-admission.all.x.9", "and its body"),
        ("outcome", "twcauseseq", "1", "as its cause, where"),
        ("outcome", "twcauseseq", "999", "which was not there before it"),
    ],
)
async def test_a_header_that_was_altered_is_found(
    log: Log, cls: str, header: str, value: str, words: str
) -> None:
    records = await recorded(log)
    at = place(records, cls, 1)
    records[at] = headed(records[at], **{header: value})
    found = found_in(log, records)
    assert [what for seq, what in found if seq == records[at].seq and words in what], found


def _altered(records: list[Record], at: int) -> None:
    one = records[at]
    records[at] = Record(one.seq, one.subject, one.body.replace(b'"ca":"', b'"ca":"x'), one.headers)


def _removed(records: list[Record], at: int) -> None:
    del records[at]


def _forged(records: list[Record], at: int) -> None:
    """One more under the same id, as if it had been said twice."""
    one = records[at]
    event = registry.decode(one.body)
    assert isinstance(event, TrustEndpoint)
    forged = TrustEndpoint(
        at=1.0, id=event.id, ca="evil", target=ObjectRef(api_version="v1", kind="X", name="w")
    )
    records.insert(at + 1, Record(one.seq + 1, one.subject, registry.encode(forged), one.headers))


@pytest.mark.parametrize("change", [_altered, _removed, _forged])
@pytest.mark.parametrize("n", [0, 1])
async def test_an_endpoints_decision_that_was_altered_is_found(
    log: Log, change: Callable[[list[Record], int], None], n: int
) -> None:
    records = await recorded(log)
    change(records, place(records, "decision", n))
    assert found_in(log, records)


async def test_the_last_decision_of_an_endpoint_is_missed_by_its_outcome(log: Log) -> None:
    records = await recorded(log)
    _removed(records, place(records, "decision", 2))
    assert ["removed from the log" in what for _, what in found_in(log, records)] == [True]


def _fact(seq: int, subject: str, **headers: str) -> Record:
    said = {envelope.WRITER: "watcher", envelope.INCARNATION: "i", envelope.ID: f"watcher.pod.i.{seq}"}
    return Record(
        seq, subject, b"{}", said | {getattr(envelope, name): value for name, value in headers.items()}
    )


@pytest.mark.parametrize(("at", "known"), [(16, True), (20, True), (1, False)])
def test_what_lies_far_back_is_still_held_against_a_cause(
    monkeypatch: pytest.MonkeyPatch, at: int, known: bool
) -> None:
    monkeypatch.setattr(provenance, "_REMEMBERED", 10)
    subject = Subjects("c").fact(Slot("1"), "pod", "shop", "p")
    found: list[int] = []
    messages = Provenance(Subjects("c"), [], lambda record, *_: found.append(record.seq))
    for seq in range(1, 26):
        messages.take(_fact(seq, subject))
    messages.take(_fact(26, subject, CAUSE=f"watcher.pod.i.{at}", CAUSE_SEQ=str(at)))
    assert found == []
    messages.take(_fact(27, subject, CAUSE="another", CAUSE_SEQ=str(at)))
    assert found == ([27] if known else [])


# -- what has no id: facts are held against the checkpoint of their commit, causes against ids of decisions


def unnamed(seq: int, incarnation: str = "aa", version: str = "0.1.0", cls: str = "fact") -> Record:
    headers = {envelope.WRITER: "watcher", envelope.INCARNATION: incarnation, envelope.VERSION: version}
    names = Subjects("c")
    subject = names.fact(Slot("1"), "pod", "shop", f"p{seq}") if cls == "fact" else names.config("modes")
    return Record(seq, subject, b"{}", headers)


def watched(seq: int, incarnation: str = "aa", part: str = "pod") -> Record:
    body = OF_A_PART.replace(b'"aa"', f'"{incarnation}"'.encode())
    return Record(
        seq, Subjects("c").checkpoint(ALL, "watcher", part), body, {envelope.ID: "7", envelope.INCARNATION: incarnation}
    )  # fmt: skip


def problems(*records: Record) -> list[int]:
    found: list[int] = []
    messages = Provenance(Subjects("c"), [], lambda record, *_: found.append(record.seq))
    for record in records:
        messages.take(record)
    return found


def test_a_fact_without_an_id_is_of_the_process_whose_commit_it_is_in() -> None:
    assert problems(unnamed(1), unnamed(2), watched(3), unnamed(4, "bb"), watched(5, "bb")) == []
    assert problems(unnamed(1), unnamed(2, "bb"), watched(3)) == [2]
    assert problems(unnamed(1, "bb", cls="config"), watched(2)) == [1]
    assert problems(watched(1), unnamed(2, "bb"), watched(3)) == [2], "not the commit before"
    assert problems(unnamed(1), unnamed(2, version="0.1.1"), watched(3)) == [2]
    assert problems(unnamed(1)) == [], "its commit is not in the part that was looked at"


def test_where_facts_and_their_commit_are_apart_what_was_seen_is_told_on() -> None:
    found: list[int] = []

    def begun() -> Provenance:
        return Provenance(Subjects("c"), [], lambda record, *_: found.append(record.seq))

    first, second = begun(), begun()
    first.take(unnamed(1, "bb"))
    second.go_on(first.seen())
    second.take(watched(2))
    assert found == [1]


def decided(seq: int, identity: str, at: int) -> Record:
    headers = {
        envelope.ID: identity,
        envelope.WRITER: "autoscaler",
        envelope.INCARNATION: "dd",
        envelope.CAUSE_SEQ: str(at),
    }
    subject = Subjects("c").decision(Slot("1"), "autoscaler", "deployment", "shop", "web")
    return Record(seq, subject, f'{{"id":"{identity}"}}'.encode(), headers)


def answered(seq: int, decision: str, at: int) -> Record:
    headers = {envelope.WRITER: "actuator", envelope.INCARNATION: "ee", envelope.CAUSE_SEQ: str(at)}
    subject = Subjects("c").outcome(Slot("1"), "deployment", "shop", "web")
    return Record(seq, subject, f'{{"decision":"{decision}"}}'.encode(), headers)


@pytest.mark.parametrize(
    ("decision", "cause", "answer", "answers", "wrong"),
    [
        ("autoscaler.1.1.0", 1, "autoscaler.1.1.0", 3, []),
        ("autoscaler.1.1.0", 2, "autoscaler.1.1.0", 3, [3]),
        ("autoscaler.1.1.0", 9, "autoscaler.1.1.0", 3, [3]),
        ("autoscaler.1.1.0", 1, "autoscaler.1.1.1", 3, [4]),
        ("autoscaler.1.1.0", 1, "autoscaler.1.1.0", 2, [4]),
        ("autoscaler.1.1.0", 1, "autoscaler.1.1.0", 9, [4]),
    ],
)
def test_a_cause_without_an_id_is_held_against_what_lies_there(
    decision: str, cause: int, answer: str, answers: int, wrong: list[int]
) -> None:
    records = unnamed(1), watched(2), decided(3, decision, cause), answered(4, answer, answers)
    assert problems(*records) == wrong


def test_a_schedule_names_the_cause_of_its_decision() -> None:
    for at, wrong in ((1, []), (2, [3])):
        one = decided(3, "autoscaler.1.1.0.set", at)
        schedule = msgspec.structs.replace(one, subject="tw.c.schedule.1.autoscaler.wpa/shop/web")
        assert problems(unnamed(1), watched(2), schedule) == wrong


OF_A_PART = (
    b'{"type":"checkpoint.watch.v1","at":1.0,"epoch":1,"incarnation":"aa","commit":7,"version":"0.1.0"}'
)
BEFORE = {
    envelope.ID: "tw.c.checkpoint.all.watcher.pod.aa.7", envelope.WRITER: "watcher", envelope.INCARNATION: "aa", envelope.VERSION: "0.1.0"
}  # fmt: skip
NOW = {envelope.ID: "7", envelope.INCARNATION: "aa"}


@pytest.mark.parametrize("headers", [NOW, BEFORE], ids=["now", "of before"])
@pytest.mark.parametrize(
    ("name", "value"),
    [(envelope.ID, "8"), (envelope.INCARNATION, "bb"), (envelope.WRITER, "actuator"), ("", "")],
)
def test_a_checkpoint_says_the_same_in_headers_and_body(
    headers: dict[str, str], name: str, value: str
) -> None:
    said = headers | ({name: value} if name else {})
    found: list[str] = []
    messages = Provenance(Subjects("c"), [], lambda _, service, what: found.append(f"{service}: {what}"))
    messages.take(Record(9, Subjects("c").checkpoint(ALL, "watcher", "pod"), OF_A_PART, said))
    assert bool(found) is bool(name)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"commit":7', b'"commit":6'), (b'"aa"', b'"bb"'), (b'"0.1.0"', b'"0.1.1"')]
)
def test_the_body_of_a_checkpoint_that_was_altered_is_found(old: bytes, new: bytes) -> None:
    found: list[int] = []
    names = Subjects("c")
    messages = Provenance(names, [], lambda record, *_: found.append(record.seq))
    messages.take(
        _fact(1, names.fact(Slot("1"), "pod", "shop", "p"), INCARNATION="aa", VERSION="0.1.0", ID="x")
    )
    for seq, body in ((2, OF_A_PART), (3, OF_A_PART.replace(old, new))):
        messages.take(Record(seq, names.checkpoint(ALL, "watcher", "pod"), body, NOW))
    assert found == [3]


@pytest.mark.parametrize("record", [unnamed(1), watched(1)], ids=["fact", "checkpoint"])
def test_an_incarnation_that_was_removed_is_found(record: Record) -> None:
    headers = {name: value for name, value in record.headers.items() if name != envelope.INCARNATION}
    assert problems(record) == []
    assert problems(msgspec.structs.replace(record, headers=headers)) == [1]


def test_a_version_that_was_removed_from_a_checkpoint_of_before_is_found() -> None:
    one, other = (msgspec.structs.replace(watched(seq), headers=dict(BEFORE)) for seq in (1, 2))
    assert problems(one, other) == []
    del other.headers[envelope.VERSION]
    assert problems(one, other) == [2]


def test_a_checkpoint_is_of_who_its_subject_says() -> None:
    names = Subjects("c")
    assert envelope.writer_of(names.checkpoint(ALL, "watcher", "pod"), NOW) == "watcher"
    assert envelope.writer_of(names.checkpoint(Slot("3"), "autoscaler"), {}) == "autoscaler"
    assert envelope.writer_of(names.fact(Slot("3"), "pod", "a", "b"), {}) == ""
    assert envelope.writer_of(names.fact(Slot("3"), "pod", "a", "b"), BEFORE) == "watcher"
    assert envelope.writer_of("tw", {}) == ""


def test_a_subject_that_says_too_little_is_looked_at_as_any_other() -> None:
    found: list[str] = []
    messages = Provenance(Subjects("c"), [ENDPOINT], lambda _, __, what: found.append(what))
    for cls in ("", "x", "fact", "fact.1", "decision.1", "outcome", "checkpoint.1"):
        messages.take(_fact(1, f"tw.c.{cls}" if cls else "tw.c"))
    assert [what for what in found if "wrote it" not in what] == []


async def test_a_part_that_is_given_up_is_not_taken_for_altered(log: Log) -> None:
    """Of two watchers the one that loses a kind gives up what depends on it, while it runs on."""
    watcher = Writer("watcher")
    subject = log.subjects.checkpoint(ALL, "watcher", "metric")
    part = fenced.Part(log, watcher, subject, fenced.Position, fenced.InFlight())
    await part.claim()
    await part.give_up()
    async with log.reader([subject]) as reader:
        records = [record async for record in reader.until_current()]
    assert [b'"incarnation"' in record.body for record in records] == [True, False]
    assert found_in(log, records) == []
    nobodys = records[0].body.replace(watcher.incarnation.encode(), b"")
    others = msgspec.structs.replace(
        records[0],
        subject=log.subjects.checkpoint(ALL, "actuator", "effects"),
        body=nobodys,
    )
    assert [seq for seq, _ in found_in(log, [others])] == [others.seq], "nobody else gives anything up"
    stolen = records[0].body.replace(watcher.incarnation.encode(), b"0123456789abcdef")
    records[0] = msgspec.structs.replace(records[0], body=stolen)
    assert [seq for seq, _ in found_in(log, records)] == [records[0].seq]
