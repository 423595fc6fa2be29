"""Opening a connection to a NATS server: soon or not at all, and why not. From then on an outage is waited out."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import nats.errors

from tidewright.log import errors
from tidewright.log.diagnostics import get_logger
from tidewright.log.identity import BusClient, Identity, client_options, shown

MIN_SERVER = (2, 14)
"""Scheduled messages that can be cancelled, atomic batches with expectations."""

CONNECT_S = 3
"""For one server to answer when a connection is made."""

PING_S = 3
"""Between two signs of life of a server; after three of them without one it is left for another."""

MISMATCHES = (62, 64)
"""OpenSSL's numbers for a certificate of another name, and of another address."""

EXPIRED = 10
"""OpenSSL's number for a certificate whose time is over."""

_VIOLATION = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)

_TURNED_AWAY = re.compile(r"authoriz|authentic", re.IGNORECASE)

logger = get_logger(__name__)


async def opened(
    url: str, credentials: Path | Identity | None, name: str
) -> tuple[BusClient, dict[str, float]]:
    """A connected client; and the subjects, in lower case, that the server refuses to take from it, and when (monotonic).

    Raises:
        LogUnavailable: nobody answers at `url`, or a server that is too old.
        LogForbidden: the credentials are refused.
    """
    last: list[Exception] = []
    denied: dict[str, float] = {}

    async def on_error(error: Exception) -> None:
        last[:] = [*last[-4:], error]
        if violation := _VIOLATION.search(str(error)):
            denied[violation[1].lower()] = time.monotonic()
        elif _TURNED_AWAY.search(str(error)):
            client.turned_away = str(error)
        logger.debug("log connection", error=str(error) or type(error).__name__)

    async def on_reconnected() -> None:
        client.turned_away = ""

    identity = credentials if isinstance(credentials, Identity) else Identity(credentials=credentials)
    servers, options = client_options(url, identity)
    client = BusClient()
    client.identity = identity
    try:
        # The client library has no bound of its own for a handshake that fails over and over.
        async with asyncio.timeout(CONNECT_S * (len(servers) + 1)):
            await client.connect(
                servers,
                name=name,
                error_cb=on_error,
                reconnected_cb=on_reconnected,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_S,
                ping_interval=PING_S,
                **options,
            )
    except (OSError, nats.errors.Error, TimeoutError, ValueError) as error:
        await _abandoned(client)
        raise _not_connected(url, client, [*last, error]) from error
    # The first connection fails fast and says why; from here on an outage is waited out.
    client.options["max_reconnect_attempts"] = -1
    client.options["reconnect_time_wait"] = 0.2
    version = client.connected_server_version
    if (version.major, version.minor) < MIN_SERVER:
        await client.close()
        raise errors.LogUnavailable(
            f"nats-server at {shown(url)} is {version.major}.{version.minor}: {'.'.join(map(str, MIN_SERVER))} or later is needed"
        )
    return client, denied


async def _abandoned(client: BusClient) -> None:
    """Let go of a connection that was not made: its tasks would go on trying."""
    with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
        async with asyncio.timeout(1):
            await client.close()


def _not_connected(url: str, client: BusClient, causes: Sequence[BaseException]) -> errors.LogError:
    """Why a connection was not made, and what to do."""
    said = " ".join(str(cause) for cause in causes).lower()
    if "authorization" in said or "authentication" in said:
        return errors.LogForbidden(
            f"nats-server at {shown(url)} refuses these credentials: pass --nats-credentials FILE, --nats-user and "
            "--nats-password-file, or a URL with user and password"
        )
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return errors.LogForbidden(
                f"the certificate of nats-server at {shown(url)} is not trusted ({cause.verify_message.rstrip('.')}): "
                f"{_trusting(cause, client.identity)}"
            )
    if "does not speak tls" in said:
        return errors.LogForbidden(
            f"nats-server at {shown(url)} does not speak TLS, and nothing is said to it in the clear: "
            f"{_in_the_clear(client.identity)}, or have it speak TLS"
        )
    if client.asks_for_certificate and client.identity.cert is None:
        return errors.LogForbidden(
            f"nats-server at {shown(url)} asks for a certificate: pass --nats-cert FILE and --nats-key FILE"
        )
    if client.asks_for_certificate and any(isinstance(cause, ssl.SSLError) for cause in causes):
        return errors.LogForbidden(
            f"nats-server at {shown(url)} does not take the certificate {client.identity.cert}: pass one that its CA signed"
        )
    return errors.LogUnavailable(
        f"no NATS server answers at {shown(url)} ({described(causes[-1])}): start one, or pass --nats URL of a running one"
    )


def _trusting(refused: ssl.SSLCertVerificationError, identity: Identity) -> str:
    """What to do about a certificate."""
    if refused.verify_code in MISMATCHES:
        return "reach it by a name that is in its certificate, or have that name added to it"
    if refused.verify_code == EXPIRED:
        return "have it replaced, and the server reloaded"
    if identity.ca is not None:
        return f"{identity.ca} is not the CA that signed it; name the file of its CA with --nats-ca FILE"
    return "name the file of its CA with --nats-ca FILE"


def _in_the_clear(identity: Identity) -> str:
    """What not to ask for, of a server without TLS."""
    if identity.wants_tls():
        return "leave --nats-ca and --nats-cert away"
    return "write nats:// in place of tls://"


def described(error: BaseException) -> str:
    """What an error says, or its kind when it says nothing."""
    return str(error) or type(error).__name__
