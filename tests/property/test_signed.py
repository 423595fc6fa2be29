"""Whatever is changed on a signed log is found: any bit of any header, body or subject, any order, any absence."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.log.authenticated import Authority
from tidewright.events import registry
from tidewright.log.belief import Cause
from tidewright.log.envelope import Writer
from tidewright.log.keyring import Keyring, vouched_for
from tidewright.log.passing import Passing
from tidewright.log.reader import Record
from tidewright.log.signer import Signer
from tidewright.log.subjects import Slot, Subjects

NAMES = Subjects("test")
SIZES = (1, 3, 1, 7, 2, 1, 4)
"""Messages of each commit."""


@cache
def world() -> tuple[tuple[Record, ...], Keyring]:
    """A signed log of two services, as the server would store it; and its keys."""
    folder = Path(tempfile.mkdtemp())
    authority = Authority(folder)
    said = vouched_for(authority.record(), NAMES.config("keys"), authority.root)
    keyring = Keyring(NAMES, [authority.root.public_key()])
    records = [Record(1, NAMES.config("keys"), registry.encode(said), {})]
    assert keyring.take(records[0]) is None
    keys = keyring.latest
    assert keys is not None
    last: dict[str, int] = {}
    for n, size in enumerate(SIZES):
        service = ("autoscaler", "spread")[n % 2]
        signer, writer = Signer(service, authority.key(service)), Writer(service, "a" * 16)
        signer.follow(keys)
        checkpoint = NAMES.checkpoint(Slot("1"), service)
        subjects = [NAMES.decision(Slot("1"), service, "x", "shop", f"w{i}") for i in range(size - 1)]
        prepared: list[tuple[str, bytes, dict[str, str]]] = []
        for i, subject in enumerate([*subjects, checkpoint], 1):
            headers = writer.headers(f"{service}.1.{n}.{i}", cause="c", cause_seq=7, trace="00-1-2-01")
            if i == size:
                headers["Nats-Expected-Last-Subject-Sequence"] = str(last.get(checkpoint, 0))
            prepared.append((subject, b'{"n":%d,"i":%d}' % (n, i), headers))
        signer.sign(prepared)
        for i, (_, _, headers) in enumerate(prepared, 1):
            if size > 1:
                headers |= {"Nats-Batch-Id": f"b{n}", "Nats-Batch-Sequence": str(i)}
                headers |= {"Nats-Batch-Commit": "1"} if i == size else {}
        records += [Record(len(records) + 1 + i, *one) for i, one in enumerate(prepared)]
        last[checkpoint] = records[-1].seq
    return tuple(records), keyring


def causes(records: list[Record]) -> list[Cause]:
    """Why some of them are not believed."""
    passing = Passing(NAMES, world()[1])
    found = [one for record in records for one in passing.take(record)] + list(passing.finish())
    assert [record.seq for record, _ in found] == [record.seq for record in records], (
        "each is told of, in order"
    )
    return [cause for _, cause in found if cause is not None]


def flipped(text: bytes, bit: int) -> bytes:
    """The bytes with one bit changed."""
    at = bit % (len(text) * 8)
    changed = bytearray(text)
    changed[at // 8] ^= 1 << (at % 8)
    return bytes(changed)


def test_an_untouched_log_is_believed() -> None:
    assert causes(list(world()[0])) == []


PLACES = st.integers(1, sum(SIZES))
"""All but the key record, which the keyring has taken."""


@given(PLACES, st.data())
@settings(max_examples=600, deadline=None)
def test_any_bit_of_any_message_is_found(place: int, data: st.DataObject) -> None:
    records = list(world()[0])
    seq, subject, body, headers = (getattr(records[place], f) for f in ("seq", "subject", "body", "headers"))
    name = data.draw(st.sampled_from(["", "subject", *headers]))
    text = body if not name else subject.encode() if name == "subject" else headers[name].encode()
    changed = flipped(text, data.draw(st.integers(0, len(text) * 8 - 1)))
    decoded = changed.decode(errors="replace")
    if not name:
        body = changed
    elif name == "subject":
        subject = decoded
    else:
        headers = headers | {name: decoded}
    records[place] = Record(seq, subject, body, headers)
    if name == "subject" and not believable(subject):
        return  # of no class that anybody reads
    assert causes(records)


def believable(subject: str) -> bool:
    """Whether somebody may believe a message on this subject."""
    if not subject.startswith(f"{NAMES.root}."):
        return False
    return subject.split(".")[2] in ("fact", "decision", "outcome", "ledger", "checkpoint", "config")


def _swap(records: list[Record], a: int, b: int) -> None:
    one, other = records[a], records[b]
    records[a] = Record(one.seq, other.subject, other.body, other.headers)
    records[b] = Record(other.seq, one.subject, one.body, one.headers)


def _said_again(records: list[Record], a: int, b: int) -> None:
    """A message in the place of another."""
    one = records[b]
    records[a] = Record(records[a].seq, one.subject, one.body, one.headers)


def _moved(records: list[Record], a: int, b: int) -> None:
    """A message's headers on another."""
    one = records[a]
    records[a] = Record(one.seq, one.subject, one.body, records[b].headers)


CHANGES = (_swap, _said_again, _moved)


@given(PLACES, PLACES, st.sampled_from(CHANGES))
@settings(max_examples=300, deadline=None)
def test_any_other_order_is_found(a: int, b: int, change: Callable[[list[Record], int, int], None]) -> None:
    records = list(world()[0])
    change(records, a, b)
    assert a == b or causes(records)


@given(PLACES)
@settings(deadline=None)
def test_a_missing_message_is_missed_by_what_comes_after_it(place: int) -> None:
    records = list(world()[0])
    gone = records.pop(place)
    last = place == max(i for i, r in enumerate(world()[0]) if r.subject == gone.subject)
    passing = Passing(NAMES, world()[1])
    found = [one for record in records for one in passing.take(record)] + list(passing.finish())
    if "Tw-Left" in gone.headers:
        assert passing.missing == [gone.seq]
    elif "Tw-Manifest" in gone.headers or not last:
        assert [cause for _, cause in found if cause is not None]
    # The last word of all, alone in its commit, is missed by nobody: an end that was cut off.


def test_a_commit_may_begin_with_a_timer_which_needs_no_signature() -> None:
    authority = Authority(Path(tempfile.mkdtemp()))
    keyring = Keyring(NAMES, [authority.root.public_key()])
    said = vouched_for(authority.record(), NAMES.config("keys"), authority.root)
    records = [Record(1, NAMES.config("keys"), registry.encode(said), {})]
    assert keyring.take(records[0]) is None
    assert keyring.latest is not None
    signer, writer = Signer("autoscaler", authority.key("autoscaler")), Writer("autoscaler", "a" * 16)
    signer.follow(keyring.latest)
    end = writer.headers("autoscaler.1.2") | {"Nats-Expected-Last-Subject-Sequence": "0"}
    prepared = [
        (NAMES.timer(Slot("1"), "autoscaler", "look"), b"{}", writer.headers("autoscaler.1.1")),
        (NAMES.checkpoint(Slot("1"), "autoscaler"), b"{}", end),
    ]
    signer.sign(prepared)
    records += [Record(2 + i, *one) for i, one in enumerate(prepared)]
    for there in (records, [records[0], records[2]]):
        passing = Passing(NAMES, keyring)
        found = [one for record in there for one in passing.take(record)] + list(passing.finish())
        assert [record.seq for record, cause in found if cause is None] == [record.seq for record in there]
        assert passing.missing == sorted({2} - {record.seq for record in there})


@given(PLACES, st.sampled_from(["autoscaler", "spread", "watcher", "actuator"]))
@settings(deadline=None)
def test_a_signature_of_another_service_is_not_believed(place: int, service: str) -> None:
    """Re-signed by whoever has another key, as well as it can be done."""
    records, keyring = world()
    folder = Path(tempfile.mkdtemp())
    authority = Authority(folder)
    signer = Signer(service, authority.key(service))  # a key of its own, which the record does not have
    assert keyring.latest is not None
    signer.follow(keyring.latest)
    one = records[place]
    headers = {
        k: v for k, v in one.headers.items() if not k.startswith(("Tw-S", "Tw-M", "Tw-L", "Nats-Batch"))
    }
    headers["Nats-Expected-Last-Subject-Sequence"] = "0"
    signer.sign([(one.subject, one.body, headers)])
    changed = [*records[:place], Record(one.seq, one.subject, one.body, headers), *records[place + 1 :]]
    assert Cause.UNKNOWN_KEY in causes(changed)
