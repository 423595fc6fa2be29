"""Signed commits on a real server: an attacker who may publish anything anywhere has no key, and is not believed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.log.authenticated import Authority, bodies, stored
from tidewright.log import errors
from tidewright.log.belief import Cause
from tidewright.log.connection import Log, Message
from tidewright.log.last_per_subject import last_words
from tidewright.log.subjects import ALL, Slot

S1 = Slot("1")


@pytest.fixture
async def authority(tmp_path: Path, log: Log) -> Authority:
    """Keys for the log of the test, installed."""
    made = Authority(tmp_path)
    await made.install(log)
    return made


@pytest.fixture
async def autoscaler(nats: EmbeddedServer, authority: Authority) -> AsyncIterator[Log]:
    """The autoscaler's connection."""
    async with await authority.connect(nats.url, "autoscaler") as connected:
        yield connected


def commit(log: Log, body: bytes, last: int, slot: Slot = S1) -> list[Message]:
    """Two decisions and a checkpoint."""
    names = log.subjects
    return [
        Message(
            names.decision(slot, "autoscaler", "deployment", "shop", "web"), body + b".1", {"Tw-Id": "a"}
        ),
        Message(
            names.decision(slot, "autoscaler", "deployment", "shop", "api"), body + b".2", {"Tw-Id": "b"}
        ),
        Message(names.checkpoint(slot, "autoscaler"), body, {"Tw-Id": "c"}, last),
    ]


async def test_what_is_signed_is_believed_by_every_reader_and_look_up(
    autoscaler: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    names = autoscaler.subjects
    first = await autoscaler.commit(commit(autoscaler, b"one", 0))
    await autoscaler.commit(commit(autoscaler, b"two", first.last_seq))
    single = Message(names.decision(ALL, "autoscaler", "x", "", "y"), b"single")
    seq = (await autoscaler.commit([single])).last_seq
    async with await authority.connect(nats.url) as reader:
        assert bodies(await stored(reader))[1:] == [
            b"one.1", b"one.2", b"one", b"two.1", b"two.2", b"two", b"single",
        ]  # fmt: skip
        decisions = [b"one.1", b"one.2", b"two.1", b"two.2", b"single"]
        assert bodies(await stored(reader, names.decisions("*", "autoscaler"))) == decisions
        last = await reader.last(names.checkpoint(S1, "autoscaler"))
        assert last is not None
        assert last.body == b"two"
        at, of = await reader.at(seq), await reader.first_of(f"{names.root}.decision.>", 2)
        assert at is not None
        assert of is not None
        assert (at.body, of.body) == (b"single", b"one.1")
        words = await last_words(reader, [names.decisions("*", "autoscaler")])
        assert [r.body for r in words] == [b"two.1", b"two.2", b"single"]
        assert reader.doubts.counts == {}


FORGERIES = {
    "fact": lambda names: names.fact(S1, "pod", "shop", "web-1"),
    "decision": lambda names: names.decision(S1, "autoscaler", "deployment", "shop", "web"),
    "outcome": lambda names: names.outcome(S1, "deployment", "shop", "web"),
    "ledger": lambda names: names.ledger(S1, "spread", "shop", "web"),
    "checkpoint": lambda names: names.checkpoint(ALL, "actuator"),
    "halt": lambda names: names.halt(S1, "spread"),
    "config": lambda names: names.config("autoscaler"),
    "clock": lambda names: names.config("clock"),
}


async def assert_unbelieved(reader: Log, subject: str, seq: int, cause: Cause) -> None:
    """Nobody believes the message at a sequence, by whatever way it is asked for."""
    assert await reader.lookups.stored({"seq": seq}) is not None, "it really lies there"
    assert seq not in [found for found, _, _ in await stored(reader)]
    assert seq not in [found for found, _, _ in await stored(reader, subject)]
    last = await reader.last(subject)
    assert last is None or last.seq < seq
    assert await reader.at(seq) is None
    assert await reader.first_of(subject, seq) is None
    assert seq not in [r.seq for r in await last_words(reader, [subject])]
    assert seq not in [r.seq async for r in reader.last_per_subject([subject])]
    assert reader.doubts.counts[cause] >= 1


@pytest.mark.parametrize("kind", FORGERIES)
async def test_without_a_key_nothing_is_believed(
    log: Log, nats: EmbeddedServer, authority: Authority, kind: str
) -> None:
    subject = FORGERIES[kind](log.subjects)
    headers = {"Tw-Id": "x", "Tw-Writer": kind}
    seq = (await log.commit([Message(subject, b"forged", headers)])).last_seq
    async with await authority.connect(nats.url) as reader:
        await assert_unbelieved(reader, subject, seq, Cause.UNSIGNED)


@pytest.mark.parametrize("kind", [k for k in FORGERIES if k != "decision"])
async def test_nobody_speaks_for_another_service(
    autoscaler: Log, nats: EmbeddedServer, authority: Authority, kind: str
) -> None:
    """The attacker has a service's key, and the bus lets it publish anywhere."""
    subject = FORGERIES[kind](autoscaler.subjects)
    seq = (await autoscaler.commit([Message(subject, b"forged")])).last_seq
    async with await authority.connect(nats.url) as reader:
        await assert_unbelieved(reader, subject, seq, Cause.NOT_ALLOWED)


async def test_a_stranger_in_the_midst_of_a_commit_is_left_out_alone(
    autoscaler: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    fact = Message(FORGERIES["fact"](autoscaler.subjects), b"forged")
    await autoscaler.commit([fact, *commit(autoscaler, b"one", 0)])
    async with await authority.connect(nats.url) as reader:
        assert bodies(await stored(reader))[1:] == [b"one.1", b"one.2", b"one"]
        assert reader.doubts.counts == {Cause.NOT_ALLOWED: 1}


async def test_a_commit_said_again_is_not_believed(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    """With its expectation the server refuses it; without, it is not what was signed."""
    first = await autoscaler.commit(commit(autoscaler, b"one", 0))
    await autoscaler.commit(commit(autoscaler, b"two", first.last_seq))
    old = [await log.at(seq) for seq in range(first.seq_of(0), first.last_seq + 1)]
    for kept in ("", "Nats-Expected"):
        again = [
            Message(
                r.subject,
                r.body,
                {k: v for k, v in r.headers.items() if not k.startswith("Nats-") or (kept and k.startswith(kept))},
            )
            for r in old
            if r is not None
        ]  # fmt: skip
        if kept:
            with pytest.raises(errors.Conflict):
                await log.commit(again)
        else:
            await log.commit(again)
    async with await authority.connect(nats.url) as reader:
        assert bodies(await stored(reader))[1:] == [b"one.1", b"one.2", b"one", b"two.1", b"two.2", b"two"]
        last = await reader.last(log.subjects.checkpoint(S1, "autoscaler"))
        assert last is not None
        assert last.body == b"two"
        assert reader.doubts.counts == {Cause.ALTERED: 3}


async def test_a_single_message_said_again_is_not_believed(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    subject = log.subjects.ledger(S1, "autoscaler", "shop", "web")
    for body in (b"one", b"two"):
        await autoscaler.commit([Message(subject, body)])
    found = await log.first_of(subject, 1)
    assert found is not None
    headers = dict(found.headers)
    with pytest.raises(errors.Conflict):
        await log.commit([Message(subject, found.body, headers)])
    headers["Nats-Expected-Last-Subject-Sequence"] = "3"
    await log.commit([Message(subject, found.body, headers)])
    async with await authority.connect(nats.url) as reader:
        assert bodies(await stored(reader, subject)) == [b"one", b"two"]


async def test_the_beginning_of_a_commit_without_its_end_is_not_believed(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    first = await autoscaler.commit(commit(autoscaler, b"one", 0))
    found = await log.at(first.seq_of(0))
    assert found is not None
    headers = {k: v for k, v in found.headers.items() if not k.startswith("Nats-")}
    await log.commit([Message(found.subject, found.body, headers)])
    async with await authority.connect(nats.url) as reader:
        assert len(await stored(reader)) == 4
        assert reader.doubts.counts == {Cause.INCOMPLETE: 1}
        await log.commit([Message(log.subjects.config(f"c{i}"), b"") for i in range(3)])
    async with await authority.connect(nats.url) as reader:
        assert len(await stored(reader)) == 4


@pytest.mark.parametrize("left", ["0", "-1", "01", "99999", "x", "", "1 ", "\u0663"])
async def test_a_place_in_a_commit_that_is_none_is_not_believed(
    log: Log, nats: EmbeddedServer, authority: Authority, left: str
) -> None:
    await log.commit([Message(log.subjects.config("x"), b"forged", {"Tw-Left": left})])
    async with await authority.connect(nats.url) as reader:
        assert len(await stored(reader)) == 1
        assert reader.doubts.counts.total() == 1


async def test_the_owner_of_a_checkpoint_goes_on_behind_forged_ones(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    first = await autoscaler.commit(commit(autoscaler, b"one", 0))
    subject = log.subjects.checkpoint(S1, "autoscaler")
    for _ in range(20):
        await log.commit([Message(subject, b"forged")])
    second = await autoscaler.commit(commit(autoscaler, b"one", 0, Slot("2")))
    async with await authority.connect(nats.url, "autoscaler") as believing:
        third = await believing.commit(commit(believing, b"two", first.last_seq))
        last = await believing.last(subject)
        assert last is not None
        assert (last.seq, last.body) == (third.last_seq, b"two")
        assert third.last_seq > second.last_seq
        with pytest.raises(errors.Conflict):
            await believing.commit(commit(believing, b"three", first.last_seq))


async def test_a_key_record_is_the_root_keys_alone_and_never_goes_back(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger")
    stranger.folder.mkdir()
    record = stranger.record(generation=7)
    forged = await stranger.install(log, record)
    subject = log.subjects.config("keys")
    unsigned = (await log.commit([Message(subject, b"{}")])).last_seq
    async with await authority.connect(nats.url) as reader:
        for seq in (forged, unsigned):
            await assert_unbelieved(reader, subject, seq, Cause.KEYS)
        async with await stranger.connect(nats.url, "autoscaler", believing=False) as thief:
            names = thief.subjects
            decision = names.decision(S1, "autoscaler", "deployment", "shop", "web")
            seq = (await thief.commit([Message(decision, b"forged")])).last_seq
        await assert_unbelieved(reader, decision, seq, Cause.UNKNOWN_KEY)

    first = await log.first_of(subject, 1)
    authority.renew("autoscaler")
    await authority.install(log)
    assert first is not None
    back = (await log.commit([Message(subject, first.body, dict(first.headers))])).last_seq
    async with await authority.connect(nats.url) as reader:
        await assert_unbelieved(reader, subject, back, Cause.KEYS)
        assert reader.trust is not None
        keys = await reader.trust.keys()
        assert keys is not None
        assert keys.said.generation == 2


async def test_a_key_is_replaced_while_its_service_runs(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in the record, then the new one in the file, then the old one out of the record."""
    monkeypatch.setattr("tidewright.log.signer.LOOK_S", 0.0)
    first = await autoscaler.commit(commit(autoscaler, b"one", 0))
    authority.renew("autoscaler")  # before the record has it: the old one is used on
    second = await autoscaler.commit(commit(autoscaler, b"two", first.last_seq))
    await authority.install(log)
    third = await autoscaler.commit(commit(autoscaler, b"three", second.last_seq))
    old, new = authority.keys["autoscaler"]
    authority.keys["autoscaler"] = [new]
    await authority.install(log)
    await autoscaler.commit(commit(autoscaler, b"four", third.last_seq))
    async with await authority.connect(nats.url) as reader:
        found = [b for b in bodies(await stored(reader)) if b in (b"one", b"two", b"three", b"four")]
        assert found == [b"one", b"two", b"three", b"four"]
        signers = {seq: (await log.at(seq)).headers["Tw-Signer"] for seq in (second.last_seq, third.last_seq)}  # type: ignore[union-attr]
        assert len(set(signers.values())) == 2
    # The old one is worth nothing from here on.
    (authority.folder / "autoscaler.key").unlink()
    authority.keys["autoscaler"] = [old]
    from tidewright.log import keyfiles

    keyfiles.write_private(authority.folder / "autoscaler.key", old)
    with pytest.raises(errors.NoKeys, match="does not have the signing key autoscaler"):
        await authority.connect(nats.url, "autoscaler")


async def test_what_was_written_before_there_were_keys_is_history(
    nats: EmbeddedServer, log: Log, tmp_path: Path
) -> None:
    before = (await log.commit([Message(log.subjects.config("x"), b"before")])).last_seq
    authority = Authority(tmp_path)
    record = authority.record(history=before)
    await log.commit([Message(log.subjects.config("x"), b"between")])
    await authority.install(log, record)
    async with await authority.connect(nats.url) as reader:
        assert bodies(await stored(reader))[0] == b"before"
        assert len(await stored(reader)) == 2
        last = await reader.last(log.subjects.config("x"))
        assert last is not None
        assert last.body == b"before"


async def test_a_log_without_keys_is_waited_for_where_an_anchor_is_given(
    nats: EmbeddedServer, log: Log, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.key("autoscaler")
    with pytest.raises(errors.NoKeys, match=r"no key record on tw\.test\.config\.all\.keys"):
        await authority.connect(nats.url)
    with pytest.raises(errors.NoKeys, match="tidewright keys install"):
        await authority.connect(nats.url, "autoscaler", believing=False)


async def test_key_records_wiped_from_the_log_end_all_belief(
    autoscaler: Log, log: Log, nats: EmbeddedServer, authority: Authority
) -> None:
    """Who erases the log gains nothing: what is written then is not history."""
    async with await authority.connect(nats.url) as reader:
        await log.commit([Message(log.subjects.config("x"), b"forged", {"Nats-Rollup": "all"})])
        assert bodies(await stored(reader)) == []
    with pytest.raises(errors.NoKeys):
        await authority.connect(nats.url)
