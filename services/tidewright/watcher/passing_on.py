"""A push that reaches a watcher which does not sample is passed on to the one that does.

Behind a Service nobody chooses whom a push reaches. So the watcher that samples says in its entry among the members where
it takes pushes, and the others pass on to it what they are sent, with the sender's own token; what comes back is the
answer. A push is passed on once at most. Where replicas have a certificate it is the same one: no other is believed.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import structlog
from aiohttp import web

from tidewright.host.ports.connections import EVERYWHERE
from tidewright.host.process.once import Once

PASSED_ON: Final = "Tidewright-Passed-On"
"""Header of a push that another watcher has passed on."""
WITHIN_S: Final = 9.0
"""Wall seconds for the other's answer: it waits for the log itself, and senders give up after 10 s or more."""
MOST_ANSWERED_BYTES: Final = 2**16
_WORD: Final = "pushes="
_EVERY: Final = {"0.0.0.0": socket.AF_INET, EVERYWHERE: socket.AF_UNSPEC, "": socket.AF_UNSPEC}  # noqa: S104 - what was asked for, not what is listened on here
"""Hosts that stand for every address, and of which family."""
_TO: Final = (
    "Authorization",
    "Content-Type",
    "Content-Encoding",
    "User-Agent",
    "X-Prometheus-Remote-Write-Version",
)
_BACK: Final = ("Content-Type", "Retry-After", "WWW-Authenticate")
_BACK_PREFIX: Final = "X-Prometheus-Remote-Write-"

_log = structlog.get_logger(__name__)


async def called_at(host: str) -> str:
    """The host by which others reach who listens on `host`; empty where there is none.

    Who listens on every address is reached at the one that this machine's name has, as a pod's is.
    """
    if host not in _EVERY:
        return host
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            socket.gethostname(), None, family=_EVERY[host], type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return ""
    addresses = [ipaddress.ip_address(place[0]) for *_, place in found]
    callable_ = [one for one in addresses if not one.is_link_local]  # which means nothing on another machine
    return str(min(callable_, key=lambda one: one.is_loopback, default=""))


def address(host: str, port: int, *, tls: bool) -> str:
    """The URL at which a port is called by `host`, as `called_at` gives it; empty where there is none."""
    if not port or not host:
        return ""
    return f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"


def said(url: str) -> tuple[str, ...]:
    """What the entry of a watcher that samples says of it."""
    return (f"{_WORD}{url}",) if url else ()


def place(entries: Iterable[bytes]) -> str:
    """Where pushes are taken, by the members' entries; empty when none of them says an address that can be called."""
    for entry in entries:
        for word in entry.decode(errors="replace").split():
            url = word.removeprefix(_WORD)
            if url != word and _is_address(url):
                return url
    return ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = ipaddress.ip_address(parts.hostname or "") if parts.hostname != "localhost" else None
        whole = (
            parts.scheme in ("http", "https")
            and parts.port
            and not (parts.path or parts.query or parts.username)
        )
    except ValueError:
        return False
    return bool(whole) and (named is None or not (named.is_unspecified or named.is_multicast))


class PassingOn:
    """The way to the watcher that samples."""

    def __init__(self, entries: Callable[[], Mapping[str, bytes]], certificate: Path | None = None) -> None:
        """`entries` gives what the members say; `certificate` is the file of this watcher's own, None without TLS."""
        self._entries = entries
        self._certificate = certificate
        self._once = Once()

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> web.Response | None:
        """What the watcher that samples says to a push; None where nobody can be asked, or nobody answers."""
        if PASSED_ON in headers or not (url := place(self._entries().values())):
            return None
        if url.startswith("https:") != (self._certificate is not None):
            return None  # nothing is said in the clear that came over TLS
        to = {name: headers[name] for name in _TO if name in headers} | {PASSED_ON: "1"}
        limit = aiohttp.ClientTimeout(total=WITHIN_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, auto_decompress=False) as session,
                session.post(
                    url + path, data=body, headers=to, ssl=self._pinned(), allow_redirects=False
                ) as answer,
            ):
                content = await answer.content.read(MOST_ANSWERED_BYTES)
                back = {
                    name: value
                    for name, value in answer.headers.items()
                    if name in _BACK or name.startswith(_BACK_PREFIX)
                }
                return web.Response(status=answer.status, body=content, headers=back)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            if times := self._once.due(url):
                _log.warning(
                    "a push could not be passed on to the watcher that samples", url=url,
                    error=str(error) or type(error).__name__, times=times, do="let watchers reach each other's pods on this port",
                )  # fmt: skip
            return None

    def _pinned(self) -> aiohttp.Fingerprint | bool:
        """What the other's certificate has to be; raises OSError, ValueError when our own cannot be read."""
        if self._certificate is None:
            return True
        first, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        text = self._certificate.read_text()
        start = text.index(first)
        own = ssl.PEM_cert_to_DER_cert(text[start : text.index(end, start) + len(end)])
        return aiohttp.Fingerprint(hashlib.sha256(own).digest())
