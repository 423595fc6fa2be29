"""Messages that are stored where one may write, and made so that nobody could read past them.

One of them halted every reader of the log, the actuator's too, until the message was taken off it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.attacks.bus import ROOT, Bus, served
from tests.ports import free_port
from tidewright.log.belief import Cause
from tidewright.log.last_per_subject import last_words

VICTIMS = ("actuator", "spread", "reader")
MINE = f"{ROOT}.decision.1.autoscaler.deployment.shop"
POISON = {
    "a-lost-consumer": (b"web", b"NATS/1.0\r\nStatus: 409\r\n\r\n", b""),
    "a-heartbeat": (b"web", b"NATS/1.0\r\nStatus: 100\r\n\r\n", b""),
    "an-expired-pull": (b"web", b"NATS/1.0\r\nStatus: 408\r\n\r\n", b""),
    "the-end-of-an-answer": (b"web", b"NATS/1.0\r\nStatus: 204\r\nNats-Num-Pending: 0\r\n\r\n", b""),
    "a-status": (b"web", b"NATS/1.0 409 gone\r\n\r\n", b""),
    "nothing-at-all": (b"web", b"", b""),
    "headers-that-are-no-text": (b"web", b"NATS/1.0 200 \xff\xfe\r\n\xff: \xff\r\n\r\n", b"{}"),
    "a-subject-that-is-no-text": (b"\xff\xfe", b"", b"{}"),
    "a-name-that-is-no-text": (b"%FF%FE", b"", b"{}"),
}
"""The end of the subject, the block of headers as it is sent, the body."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Bus]:
    """A server of the test's own: sequences are counted."""
    port = free_port()
    with served(tmp_path, port):
        yield Bus((f"127.0.0.1:{port}",))


async def put(client: Client, subject: bytes, headers: bytes, body: bytes) -> None:
    """Have a message stored, past what a client library would send."""
    inbox = client.new_inbox()
    answer = await client.subscribe(inbox)
    sizes = f"{len(headers)} {len(headers) + len(body)}" if headers else f"{len(body)}"
    verb = b"HPUB" if headers else b"PUB"
    line = b" ".join((verb, subject, inbox.encode(), sizes.encode()))
    await client._send_command(line + b"\r\n" + headers + body + b"\r\n")
    await client._flush_pending()
    assert b'"seq"' in (await answer.next_msg(60.0)).data


@pytest.mark.parametrize("poison", POISON)
async def test_everybody_reads_on_behind_it(server: Bus, poison: str) -> None:
    await server.install()
    last, headers, body = POISON[poison]
    async with server.client("autoscaler") as client:
        for subject in (f"{MINE}.before", f"{MINE}.first"):
            await put(client, subject.encode(), b"", b"{}")
        for _ in range(3):
            await put(client, MINE.encode() + b"." + last, headers, body)
        for subject in (f"{MINE}.behind", f"{MINE}.before"):
            await put(client, subject.encode(), b"", b"{}")
    misnamed = poison == "a-subject-that-is-no-text"
    for victim in VICTIMS:
        async with asyncio.timeout(90), await server.log(victim) as log:
            log.directly = victim == "reader"
            await log.adopt_slots()
            async with log.reader([log.subjects.everything]) as reader:
                read = [record.seq async for record in reader.until_current()]
            assert read == ([1, 2, 6, 7] if misnamed else [1, 2, 3, 4, 5, 6, 7])
            words = {r.subject: r.seq async for r in log.last_per_subject([log.subjects.everything])}
            assert words == {
                f"{MINE}.first": 2, f"{MINE}.behind": 6, f"{MINE}.before": 7,
                **({} if misnamed else {f"{MINE}.{last.decode()}": 5}),
            }  # fmt: skip
            found = await log.lookups.first(log.subjects.everything, 6)
            assert found is not None
            assert found.seq == 6
            if victim == "reader":
                assert {r.subject: r.seq for r in await last_words(log, [f"{ROOT}.decision.>"])} == words
            if misnamed:
                assert set(log.doubts.counts) == {Cause.MISNAMED}
