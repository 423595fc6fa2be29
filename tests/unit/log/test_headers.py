"""What our client makes of headers is what the library's makes of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client

from tidewright.log.batched_get import StoredHeaders, record_of, usual_record_of
from tidewright.log.belief import PUT_BACK

GIVEN = (
    b"",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nNats-Stream: TW\r\nNats-Sequence:7\r\nempty:\r\nwith space: no\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 12\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1016\r\n\r\n",
    b"NATS/1.0 abc what\r\n\r\n",
)


PARTS = (
    b"Tw-Id",
    b":",
    b": ",
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b"\v",
    b"\x1c",
    b"\x85",
    b"\xa0",
    "\u00fc".encode(),
    b"\xc3",
    b"a",
)


@pytest.mark.parametrize("raw", GIVEN)
async def test_headers_are_read_as_the_library_reads_them(raw: bytes) -> None:
    assert await StoredHeaders()._process_headers(raw) == await Client()._process_headers(raw)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=30).map(b"".join) | st.binary(max_size=60))
def test_lines_of_headers_are_too(raw: bytes) -> None:
    assert StoredHeaders._parse_header_lines(raw) == Client._parse_header_lines(raw)


SERVERS = (
    b"Nats-Stream: TW\r\nNats-Subject: tw.t.fact.1.pod.ns.a\r\nNats-Sequence: 7\r\n",
    b"Nats-Time-Stamp: 2026-01-01T00:00:00Z\r\n",
    b"Nats-Num-Pending: 3\r\n",
    b"Nats-Last-Sequence: 12\r\n",
)
STORED = (
    b"Tw-Id: p.1\r\n",
    b"Tw-Cause: \xc3\xbc\r\n",
    b"Tw-Id:\r\n",
    b"no colon\r\n",
    b"Nats-Msg-Id: 3\r\n",
    *SERVERS,
    b"Nats-Stream: other\r\n",
    b"Nats-Sequence: 9\r\n",
    b"Nats-Subject: nobody's\r\n",
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(STORED), max_size=6).map(b"".join),
    st.lists(st.sampled_from(SERVERS), max_size=4).map(b"".join),
)
async def test_a_record_is_read_from_the_wire_as_from_headers_by_name(stored: bytes, added: bytes) -> None:
    raw = b"NATS/1.0\r\n" + stored + SERVERS[0] + added + b"\r\n"
    named = await StoredHeaders()._process_headers(raw)
    usual = usual_record_of(b"body", raw)
    assert named is not None
    assert StoredHeaders.read(raw) == named
    assert usual in (None, record_of(b"body", named))
    assert usual is not None or stored or added  # else nothing would be gained


def test_what_was_put_back_is_not_read_as_usual() -> None:
    raw = b"NATS/1.0\r\nTw-Id: p.1\r\n" + SERVERS[0] * 2 + b"\r\n"
    assert usual_record_of(b"body", raw) is None
    record = record_of(b"body", StoredHeaders.read(raw))
    assert record is not None
    assert record.headers.keys() == {"Tw-Id", *PUT_BACK}


def test_the_end_of_an_answer_imports_nothing_of_jetstream() -> None:
    source = (
        "import asyncio, sys\n"
        "import tidewright.asking.opening\n"
        "from tidewright.log.batched_get import StoredHeaders\n"
        "ended = asyncio.run(StoredHeaders()._process_headers(b'NATS/1.0 204 EOB\\r\\nNats-Num-Pending: 0\\r\\n\\r\\n'))\n"
        "assert ended == {'Status': '204', 'Description': 'EOB', 'Nats-Num-Pending': '0'}, ended\n"
        "assert 'nats.js.api' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)
