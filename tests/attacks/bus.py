"""A bus as it is deployed, and whoever attacks it with the credentials of a part that was taken over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from tests.waiting import until_now
from tidewright.asking.services import DECIDERS, EVERY
from tidewright.cli.contract.permissions import (
    ARCHIVE,
    ARCHIVER,
    INSTALLER,
    READER,
    USERS,
    configuration,
    stream_of,
    variable,
)
from tidewright.log.archive import install_archive
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log, members_of
from tidewright.log.snapshots import bucket

CLUSTER = "prod"
STREAM = stream_of(CLUSTER)
ROOT = f"tw.{CLUSTER}"
ATTACKERS = (*EVERY, READER, ARCHIVER)
"""Whose credentials may fall into wrong hands, tried one by one."""
STREAMS = (STREAM, f"KV_{members_of(STREAM)}", *(f"OBJ_{bucket(STREAM, name)}" for name in DECIDERS))
BIN = Path(sys.executable).parent / "nats-server"
STARTED_WITHIN_S = 60.0
ANSWERED_S = 60.0
"""What is answered, is within this, on a machine that does much else, too."""
REFUSED_S = 0.5
"""So long is waited for an answer that is not to come."""


@contextmanager
def served(folder: Path, port: int, more: str = "", name: str = "bus") -> Iterator[subprocess.Popen[bytes]]:
    """A nats-server with the generated accounts; the password of each user is its name."""
    with run_server(folder, port, f"{more}{configuration(CLUSTER)}", name) as process:
        yield process


@contextmanager
def run_server(
    folder: Path, port: int, text: str, name: str = "bus", *, store: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """A nats-server with a configuration and a store of its own, until the end of the block."""
    folder.mkdir(exist_ok=True)
    config = folder / f"{name}.conf"
    kept = f'jetstream {{ store_dir: "{folder}/{name}" }}\n' if store else ""
    config.write_text(f'host: "127.0.0.1"\nport: {port}\nserver_name: {name}\n{kept}{text}')
    env = os.environ | {variable(user): user for user in USERS}
    said = folder / f"{name}.log"
    process = subprocess.Popen([BIN, "-c", config, "-l", said], env=env)
    try:
        until_now(
            lambda: said.read_text() if said.exists() else "",
            lambda text: process.poll() is not None or "Server is ready" in text,
            what="a server that is ready",
            within_s=STARTED_WITHIN_S,
        )
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True)
class Bus:
    """A running bus. `url` names one server, or several with commas between them."""

    addresses: tuple[str, ...]

    def url(self, user: str) -> str:
        """With the user's password, as a service has it."""
        return ",".join(f"nats://{user}:{user}@{address}" for address in self.addresses)

    async def log(self, user: str, timeout_s: float = 10.0) -> Log:
        """A connection as this software makes it."""
        return await Log.connect(self.url(user), CLUSTER, timeout_s=timeout_s, patience_s=60.0)

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[Client]:
        """A connection as an attacker makes it: any client."""

        async def silent(error: Exception) -> None:
            del error  # of permissions, mostly

        client = await nats.connect(self.url(user).split(","), error_cb=silent)
        try:
            yield client
        finally:
            await client.close()

    async def install(self) -> None:
        """As the Job does."""
        async with await self.log(INSTALLER) as log, await self.log(ARCHIVE) as archive:
            await install_log(log, Plan(slots=4, replicas=min(3, len(self.addresses)), deciders=DECIDERS))
            await install_archive(log, archive)

    async def contents(self) -> Mapping[str, Any]:
        """Everything that the streams hold and are: what no attack may change."""
        found: dict[str, Any] = {}
        async with await self.log(INSTALLER) as log:
            listed = await log.api("STREAM.NAMES", {})
            found["streams"] = sorted(listed["streams"])
            for stream in STREAMS:
                info = await log.api(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
                state = info["state"]
                found[stream] = (state["messages"], state["last_seq"], state.get("subjects"), info["config"])
        return found


async def asked(client: Client, subject: str, body: object = None, reply: str = "") -> None:
    """Send something, and see to it that the server has taken it in."""
    payload = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
    await client.publish(subject, payload, reply=reply)
    await client.flush()


async def answered(client: Client, subject: str, body: object = None, **headers: str) -> dict[str, Any]:
    """What the server answers to what it does answer; an error, too."""
    return await answer(client, subject, body, within_s=ANSWERED_S, **headers)


async def answer(
    client: Client, subject: str, body: object = None, *, within_s: float = REFUSED_S, **headers: str
) -> dict[str, Any]:
    """What the server answers; `{"error": ...}` when it refuses, answers nothing, or nobody is there."""
    payload = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
    try:
        got = await client.request(subject, payload, timeout=within_s, headers=headers or None)
    except (nats.errors.Error, TimeoutError) as error:
        return {"error": repr(error)}
    found: dict[str, Any] = msgspec.json.decode(got.data) if got.data else {}
    return found
