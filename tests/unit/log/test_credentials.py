"""Credentials files as `nsc` makes them: one that is right opens the door, one that is none is named."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]  # it has none
import pytest

from tests.ports import free_port
from tidewright.log.connection import Log
from tidewright.log.errors import LogForbidden


class Keys:
    """A new pair of one kind: operator, account or user."""

    def __init__(self, prefix: int) -> None:
        self.seed = bytes(nkeys.encode_seed(os.urandom(32), prefix))
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public = bytes(self._pair.public_key).decode()

    def token(self, subject: str, name: str, **claims: Any) -> str:
        """A JWT that these keys sign for another key."""
        body = {
            "iat": 1,
            "iss": self.public,
            "jti": name,
            "name": name,
            "sub": subject,
            "nats": {"version": 2, **claims},
        }
        parts = [plain({"typ": "JWT", "alg": "ed25519-nkey"}), plain(body)]
        return ".".join([*parts, encoded(self._pair.sign(".".join(parts).encode()))])


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def plain(content: Any) -> str:
    return encoded(json.dumps(content).encode())


def credentials(token: str, user: Keys) -> str:
    """The file's text."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[tuple[str, Keys]]:
    """A server that lets in who the account's keys vouch for; its URL, and those keys."""
    operator = Keys(nkeys.PREFIX_BYTE_OPERATOR)
    account, system = Keys(nkeys.PREFIX_BYTE_ACCOUNT), Keys(nkeys.PREFIX_BYTE_ACCOUNT)
    limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1,
              "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "wildcards": True}  # fmt: skip
    port = free_port()
    config = tmp_path / "nats.conf"
    known = {
        account.public: operator.token(account.public, "account", type="account", limits=limits),
        system.public: operator.token(system.public, "system", type="account"),
    }
    config.write_text(
        f'host: "127.0.0.1"\nport: {port}\njetstream {{ store_dir: "{tmp_path}/store" }}\n'
        f"operator: {operator.token(operator.public, 'operator', type='operator')}\nresolver: MEMORY\n"
        f"system_account: {system.public}\n"
        f"resolver_preload: {{ {', '.join(f'{key}: {token}' for key, token in known.items())} }}\n"
    )
    server = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "nats-server"), "-c", str(config), stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    said = ""
    async for line in server.stderr:
        said += line.decode()
        if b"Server is ready" in line:
            break
    assert "Server is ready" in said, said
    yield f"nats://127.0.0.1:{port}", account
    server.kill()
    await server.communicate()


async def test_a_user_of_the_account_is_let_in(door: tuple[str, Keys], tmp_path: Path) -> None:
    url, account = door
    user, path = Keys(nkeys.PREFIX_BYTE_USER), tmp_path / "user.creds"
    path.write_text(
        credentials(account.token(user.public, "user", type="user", subs=-1, data=-1, payload=-1), user)
    )
    async with await Log.connect(url, "test", credentials=path, timeout_s=10.0) as log:
        await log.ensure(4)
        assert await log.adopt_slots() == 4


async def test_a_user_of_another_account_is_refused(door: tuple[str, Keys], tmp_path: Path) -> None:
    url, _ = door
    stranger, user, path = (
        Keys(nkeys.PREFIX_BYTE_ACCOUNT),
        Keys(nkeys.PREFIX_BYTE_USER),
        tmp_path / "user.creds",
    )
    path.write_text(credentials(stranger.token(user.public, "user", type="user"), user))
    with pytest.raises(LogForbidden, match="refuses these credentials"):
        await Log.connect(url, "test", credentials=path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("", "BEGIN NATS USER JWT"),
        ("-----BEGIN NATS USER JWT-----\na.b.c\n", "BEGIN USER NKEY SEED"),
    ],
)
async def test_a_file_that_is_none_is_named_with_what_it_lacks(
    text: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "user.creds"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LogForbidden, match=said) as refused:
        await Log.connect("nats://127.0.0.1:1", "test", credentials=path)
    assert str(path) in str(refused.value)
