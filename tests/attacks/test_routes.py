"""Routes between servers: nobody joins who has not both a certificate of their authority and the password."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from tests.attacks.bus import STREAM, Bus, answer, served
from tests.attacks.conftest import filled
from tests.certificates import Authority
from tests.ports import free_port
from tidewright.cli.contract.natsservers import routes
from tidewright.cli.contract.permissions import INSTALLER

SERVERS = 3


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[Bus, list[int], Authority]]:
    """Three servers with the generated routes; their ports for routes, and who signs for them."""
    authority, ports = Authority(tmp_path), [free_port() for _ in range(2 * SERVERS)]
    cert, key = authority.issue("server")
    clients, peers = ports[:SERVERS], ports[SERVERS:]
    addresses = {f"ROUTE_{n}": f"nats://route:pw@127.0.0.1:{port}" for n, port in enumerate(peers)}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, addresses | {"TIDEWRIGHT_ROUTE_PASSWORD": "pw"}))
        for n, client in enumerate(clients):
            text = routes(SERVERS, port=peers[n], cert=str(cert), key=str(key), ca=str(authority.ca))
            stack.enter_context(
                served(tmp_path, client, text.replace("port:", 'host: "127.0.0.1", port:'), f"s{n}")
            )
        yield Bus(tuple(f"127.0.0.1:{port}" for port in clients)), peers, authority


async def cut_off(name: str, rogue: Bus) -> None:
    """Hold that nobody on a server reaches the log."""
    async with rogue.client("installer") as client:
        got = await answer(client, "tw.prod.decision.1.autoscaler.deployment.shop.web", b"{}")
        assert "error" in got, (name, got)
        assert "error" in await answer(client, f"$JS.API.STREAM.INFO.{STREAM}", {}), name


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_rogue_server_does_not_join(three: tuple[Bus, list[int], Authority], tmp_path: Path) -> None:
    bus, peers, authority = three
    await filled(bus)
    before = await bus.contents()
    foreign = Authority(tmp_path, "foreign").issue("rogue")
    stolen = authority.issue("stolen")
    tls = 'tls {{ cert_file: "{}", key_file: "{}", ca_file: "' + str(authority.ca) + '", verify: true }}'
    attempts = {
        "plain": "",
        "foreign": tls.format(*foreign),
        "without-password": tls.format(*stolen),
        "wrong-password": tls.format(*stolen),
    }
    rogues: dict[str, Bus] = {}
    with ExitStack() as stack:
        for name, secured in attempts.items():
            user = "route:wrong@" if name == "wrong-password" else ""
            joined = ", ".join(f"nats://{user}127.0.0.1:{port}" for port in peers)
            text = f'cluster {{ name: tidewright, host: "127.0.0.1", port: {free_port()}, {secured}\n routes: [{joined}] }}\n'
            port = free_port()
            # It has the accounts with passwords of its own: once it has joined, it says what it likes.
            stack.enter_context(served(tmp_path, port, text, f"rogue-{name}"))
            rogues[name] = Bus((f"127.0.0.1:{port}",))
        time.sleep(1.5)  # noqa: ASYNC251  # they try again every second
        await asyncio.gather(*(cut_off(name, rogue) for name, rogue in rogues.items()))
    assert await bus.contents() == before
    async with await bus.log(INSTALLER) as log:
        info = await log.api(f"STREAM.INFO.{log.stream}", {})
    assert len(info["cluster"]["replicas"]) == SERVERS - 1
