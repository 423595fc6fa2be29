"""What our client makes of headers is what the library's makes of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client

from tidewright.log.batched_get import StoredHeaders

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


def test_the_end_of_an_answer_imports_nothing_of_jetstream() -> None:
    source = (
        "import asyncio, sys\n"
        "import tidewright.asking.source\n"
        "from tidewright.log.batched_get import StoredHeaders\n"
        "ended = asyncio.run(StoredHeaders()._process_headers(b'NATS/1.0 204 EOB\\r\\nNats-Num-Pending: 0\\r\\n\\r\\n'))\n"
        "assert ended == {'Status': '204', 'Description': 'EOB', 'Nats-Num-Pending': '0'}, ended\n"
        "assert 'nats.js.api' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)
