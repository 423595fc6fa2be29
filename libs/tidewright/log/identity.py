"""Who we are to the NATS servers, and how we know that they are ours: users, passwords, certificates.

Everything that lies in a file is read again at every connection, so that what is replaced there is
used from the next one on: a server that is to drop the old certificate is reloaded, and clients come back.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nats.errors
from nats.aio.client import Srv

from tidewright.log import errors
from tidewright.log.batched_get import StoredHeaders
from tidewright.log.cancellation import heeded
from tidewright.log.credentials import checked

ALIVE_S = 1.0
"""Wall seconds in which a server that is alive answers to a ping."""
LATELY_S = 30.0
"""Wall seconds for which a server that was left comes behind the others: longer than any election takes."""
SCHEMES = ("nats", "tls", "ws", "wss")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a connection is made with.

    Attributes:
        credentials: file as `nsc` makes it.
        user: name of the user; a URL with another one wins.
        password_file: file with the user's password.
        ca: certificates that the server's must be signed by; None for the system's. With it, a server without TLS is refused.
        cert, key: our own certificate and its key, where servers ask for one.
    """

    credentials: Path | None = None
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def wants_tls(self) -> bool:
        """Whether nothing may be said to a server in the clear."""
        return self.ca is not None or self.cert is not None

    def arguments(self) -> list[str]:
        """As a command of ours takes it: names of files, and no secret."""
        given = {
            "--nats-credentials": self.credentials, "--nats-password-file": self.password_file,
            "--nats-ca": self.ca, "--nats-cert": self.cert, "--nats-key": self.key,
        }  # fmt: skip
        options = [
            part for flag, path in given.items() if path is not None for part in (flag, str(path.resolve()))
        ]
        return [*options, *(("--nats-user", self.user) if self.user else ())]

    def context(self) -> ssl.SSLContext:
        """Certificates as they lie there now.

        Raises:
            LogForbidden: a file cannot be used; the message names it.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise errors.LogForbidden(
                f"--nats-ca {self.ca} cannot be used ({_words(error)}): name a PEM file with the servers' CA"
            ) from error
        if self.cert is not None:
            try:
                context.load_cert_chain(self.cert, self.key)
            except (OSError, ssl.SSLError) as error:
                raise errors.LogForbidden(
                    f"--nats-cert {self.cert} with --nats-key {self.key or self.cert} cannot be used ({_words(error)}): "
                    "name PEM files with a certificate and its key"
                ) from error
        return context

    def password(self) -> str:
        """As it lies in its file now.

        Raises:
            LogForbidden: there is none.
        """
        if self.password_file is None:
            return ""
        try:
            secret = self.password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.LogForbidden(
                f"--nats-password-file {self.password_file} cannot be read ({_words(error)})"
            ) from error
        if not secret:
            raise errors.LogForbidden(f"--nats-password-file {self.password_file} is empty")
        return secret


class BusClient(StoredHeaders):
    """A client that reads its files anew at every connection, and does not fall back to plain text."""

    identity = Identity()

    def __init__(self) -> None:
        super().__init__()
        self.turned_away = ""
        """With what words the server refuses who we are, since it let us in; empty while it does not."""
        self._left_at: dict[str, float] = {}
        """When servers were left that answered nothing, of `time.monotonic`, by their addresses."""

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """Asked for at every handshake."""
        return self.identity.context()

    @property
    def has_others(self) -> bool:
        """Whether there is more than one server to choose from."""
        return len(self._server_pool) > 1

    @property
    def server(self) -> str:
        """The URL of the one that is spoken to; empty while none is."""
        return self._current_server.uri.geturl() if self._current_server else ""

    async def is_alive(self) -> bool:
        """Whether the server that is spoken to answers at all."""
        try:
            async with asyncio.timeout(ALIVE_S):
                await heeded(self.flush())
        except (OSError, TimeoutError, nats.errors.Error):
            return False
        return True

    async def leave(self) -> None:
        """Connect to another server, if there is one that takes us."""
        if self._current_server is not None:
            self._left_at[self._current_server.uri.netloc] = time.monotonic()
        await self.force_reconnect()

    async def _process_err(self, err_msg: str) -> None:
        # The library gives up for good whatever a server says as it ends a connection: that the password is another one since it
        # was reloaded, that credentials are over, that it takes no message this large by now. Files are read anew at each try.
        if not self.is_connected or "permissions violation" in err_msg.lower():
            await super()._process_err(err_msg)
            return
        error = nats.errors.Error(f"nats: {err_msg.strip()}")
        await self._error_cb(error)
        await self._process_op_err(error)

    async def _attempt_reconnect(self) -> None:
        # Closing waits for the other's farewell over TLS (30 s), and until all is sent: for ever, if who is left is silent.
        # A WebSocket has no such writer, and a bound for its farewell.
        writer = getattr(self._transport, "_io_writer", None)
        if isinstance(writer, asyncio.StreamWriter):
            writer.transport.abort()
        await super()._attempt_reconnect()

    async def _select_next_server(self) -> None:
        self._server_pool.sort(key=self._left_lately_at)
        await super()._select_next_server()

    def _left_lately_at(self, server: Srv) -> float:
        """What servers are tried in the order of: those that were not left lately, then the one that was left first.

        While servers look for a leader none answers, and one is left after the other: by chance it would be the one
        that is cut off again and again.
        """
        left_at = self._left_at.get(server.uri.netloc, float("-inf"))
        return left_at if time.monotonic() - left_at < LATELY_S else float("-inf")

    def _connect_command(self) -> bytes:
        # The last moment before the password leaves: whoever stands between says that TLS is not needed.
        info: Mapping[str, Any] = self._server_info
        scheme = self._current_server.uri.scheme if self._current_server else ""
        if (
            (self.identity.wants_tls() or scheme == "tls")
            and not info.get("tls_required")
            and scheme != "wss"
        ):
            raise nats.errors.Error("the server does not speak TLS")
        self._told_of_tls()
        command: bytes = super()._connect_command()
        return command

    def _told_of_tls(self) -> None:
        """Have the stream's protocol know that it is over TLS, as asyncio's own `StreamWriter.start_tls` does.

        The library leaves that out; the protocol then wants to go on after the server's farewell, and asyncio warns on the
        stderr of every command that it cannot.
        """
        writer = getattr(self._transport, "_io_writer", None)
        if isinstance(writer, asyncio.StreamWriter) and writer.get_extra_info("ssl_object") is not None:
            protocol = writer.transport.get_protocol()
            if isinstance(protocol, asyncio.StreamReaderProtocol):
                protocol._over_ssl = True  # type: ignore[attr-defined]  # noqa: SLF001  nothing public sets it

    @property
    def asks_for_certificate(self) -> bool:
        """Whether the server that was last spoken to wants a certificate of its clients."""
        return bool(self._server_info.get("tls_verify"))


def client_options(url: str, identity: Identity) -> tuple[list[str], dict[str, Any]]:
    """Servers without users and passwords, and how to say who we are to any of them.

    Raises:
        NoUrl: it is no URL, nor a list of them; the message does not repeat passwords.
        LogForbidden: a file cannot be used.
    """
    servers: list[str] = []
    named: tuple[str, str | None] | None = None
    for part in filter(None, (piece.strip() for piece in url.split(","))):
        given = part if "://" in part else f"nats://{part}"
        try:
            parts = urlsplit(given)
            port = parts.port
        except ValueError as error:
            raise errors.NoUrl(_no_url(url)) from error
        if not parts.hostname or parts.scheme not in SCHEMES:
            raise errors.NoUrl(_no_url(url))
        if named is None and parts.username:
            named = unquote(parts.username), None if parts.password is None else unquote(parts.password)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        servers.append(f"{parts.scheme}://{host}" + (f":{port}" if port else "") + parts.path)
    if not servers:
        raise errors.NoUrl(_no_url(url))
    options: dict[str, Any] = {}
    if identity.credentials is not None:
        options["user_credentials"] = checked(identity.credentials)
    if named is not None and named[1] is None:
        options["token"] = named[0]
    elif named is not None:
        options["user"], options["password"] = named
    elif identity.user:
        identity.password()  # said at once, not at the first connection
        options["user"], options["password"] = identity.user, identity.password
    if identity.wants_tls() or any(server.startswith(("tls:", "wss:")) for server in servers):
        options["tls"] = identity.context()
    return servers, options


def without_user(url: str) -> str:
    """A URL, or several with commas between them, without users and passwords."""
    return ",".join(_without_user(part.strip()) for part in url.split(","))


def shown(url: str) -> str:
    """For people: where a server is, and never with which password."""
    return without_user(url)


def _without_user(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _no_url(url: str) -> str:
    return (
        f"--nats {shown(url)}: not the URL of a NATS server, nor several with commas between them, "
        "as in nats://nats-0:4222,nats://nats-1:4222"
    )


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
