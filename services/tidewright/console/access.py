"""Who is let in, and by which name this console is reached.

Three ways, of which an installation has one:

- on loopback a token that holds once, and a cookie from then on;
- a file with tokens (`tidewright.host.ports.tokens`), each of which is exchanged for a cookie as often as one likes;
- a header that a reverse proxy sets, believed from its addresses alone.

Whoever is in sees all namespaces. Every request names us by a Host that we know, so that a page of another site whose name
was turned to our address gets nothing; what another site's page asks for by itself is refused, links from there work.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewright.host.ports.tokens import Token, Tokens

if TYPE_CHECKING:
    from aiohttp import web

CONSOLE_TOKEN = "TIDEWRIGHT_CONSOLE_TOKEN"  # noqa: S105  # the name of a variable
"""In the environment of the console the token that lets in once, where whoever starts it tells it to people."""
SESSION_S = 7 * 86_400.0
"""How long a cookie holds, wall seconds."""
MOST_SESSIONS = 1_000
MOST_LENGTH = 512
"""Characters of a token or a cookie that are looked at."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass
class Access:
    """Who is let in.

    Attributes:
        hosts: names and ports under which we are reached, as a Host header has them.
        once: the token that holds once; empty when it was used, or where there is none.
        tokens: those of a file; None without.
        proxy_header: the header by which a proxy says who asks; empty without a proxy.
        proxies: addresses from which it is believed.
        secure: browsers are to send the cookie over TLS alone.
    """

    hosts: frozenset[str]
    once: str = ""
    tokens: Tokens | None = None
    proxy_header: str = ""
    proxies: Sequence[Network] = ()
    secure: bool = False
    _sessions: dict[str, tuple[float, Token | None]] = field(default_factory=dict)
    """Until when each holds, of `time.monotonic`, and the token of the file that it was made for."""

    def problem(self, request: web.BaseRequest) -> str:
        """Why a request is refused, whoever asks; empty when it is not."""
        host = request.headers.get("Host", "").lower()
        if host not in self.hosts:
            return "this console is not reached under that name; --host-name gives it one"
        if request.method not in ("GET", "HEAD"):
            return "the console changes nothing, and takes nothing but GET"
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2].lower() not in self.hosts:
            return "another site may not ask this console"
        site = request.headers.get("Sec-Fetch-Site", "none")
        followed = request.headers.get("Sec-Fetch-Mode") == "navigate"
        if site in ("cross-site", "same-site") and not followed:
            return "another site may not ask this console"
        return ""

    def knows(self, request: web.BaseRequest) -> bool:
        """Whether who asks is let in."""
        if self.proxy_header:
            return bool(request.headers.get(self.proxy_header)) and self._from_proxy(request.remote)
        given = request.cookies.get(self.cookie(request), "")[:MOST_LENGTH]
        until, token = self._sessions.get(given, (0.0, None))
        if token is not None and (self.tokens is None or not self.tokens.still(token)):
            return False  # it was taken away, and who came with it goes, too
        return time.monotonic() < until

    def _from_proxy(self, remote: str | None) -> bool:
        try:
            address = ipaddress.ip_address(remote or "")
        except ValueError:
            return False
        # Who listens to both families sees callers of IPv4 as ::ffff:10.0.0.7.
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.proxies)

    def exchanged(self, token: str) -> str | None:
        """A session for a token; None where it does not hold. The one that holds once does not hold again."""
        token = token[:MOST_LENGTH]
        held = None
        if self.tokens is not None:
            held = self.tokens.holds(token)
            if held is None or held.namespaces is not None:  # who looks sees all namespaces
                return None
        else:
            if not self.once or not hmac.compare_digest(
                token.encode("utf-8", "surrogateescape"), self.once.encode()
            ):
                return None
            self.once = ""
        return self._begun(held)

    def _begun(self, token: Token | None) -> str:
        now = time.monotonic()
        for name in [name for name, (until, _) in self._sessions.items() if until <= now]:
            del self._sessions[name]
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = (now + SESSION_S, token)
        return session

    def cookie(self, request: web.BaseRequest) -> str:
        """The cookie's name: ports of one host share cookies, and consoles on it must not."""
        port = request.headers.get("Host", "").rpartition(":")[2]
        return f"tidewright-{port if port.isdigit() else 'console'}"


def named(host: str, port: int, names: Sequence[str]) -> frozenset[str]:
    """What a Host header may say: the names of loopback, the address that is listened on, and what is given."""
    known = {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
    if host not in ("0.0.0.0", "::"):  # noqa: S104  # every address: then names are given
        known.add(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    for name in names:
        known |= {name.lower(), f"{name.lower()}:{port}"}
    return frozenset(known)
