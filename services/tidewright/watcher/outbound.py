"""Which addresses an object may have us ask: what its author writes, we fetch with our network's reach.

Services of the cluster by their names, unless the operator names more (`--recommender-hosts`):

    recommender.models.svc                  a Service in namespace `models`
    recommender.models.svc.cluster.local    the same
    recommender                             a Service in the object's own namespace

The name decides first. Then every address that it has at that moment must be one that may be asked,
and the connection goes to one of just those: a name that resolves otherwise a moment later gains
nothing. A Service that stands for a name elsewhere (`ExternalName`) is no Service of the cluster. This machine, the link (where clouds keep their metadata) and what is no host's address are
asked only where the operator names the address itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL: Final = 2048
"""Characters."""
SHOWN: Final = 200
"""Characters of a URL that a message shows."""
RESOLVERS: Final = 4
"""Threads that look names up: a name server that hangs holds up these, and nothing else of the watcher."""
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DOMAIN: Final = ".cluster.local"
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
"""Where clouds keep it beside 169.254.0.0/16, which is the link's."""


class NotAllowed(ValueError):
    """An address that is not asked; the message says why, and what would be."""


def own_namespace() -> str:
    """Of the pod that this runs in; empty outside of a cluster."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class Hosts:
    """What may be asked: names by patterns, addresses by networks."""

    def __init__(self, allowed: Collection[str] = (), *, ours: str = "") -> None:
        """`allowed` beside services of the cluster: `host`, `*.domain`, an address or a network.

        `ours` is the namespace of our own services, which objects have no business with.

        Raises:
            ValueError: an entry is none of these.
        """
        self._names: list[str] = []
        self._networks: list[Network] = []
        self._closed = {("kubernetes", "default"), *([("", ours)] if ours else [])}
        for entry in allowed:
            text = entry.strip().lower().rstrip(".")
            try:
                self._networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
                continue
            except ValueError:
                pass
            if not _NAME.fullmatch(text.removeprefix("*.")) or _looks_numeric(text):
                raise ValueError(f"{entry!r} is no host name, *.DOMAIN, address or network (10.0.0.0/8)")
            self._names.append(text)

    def target(self, url: str, namespace: str) -> SplitResult:
        """The URL to ask for one that an object of a namespace has; a Service's short name is completed.

        Raises:
            NotAllowed: it is not asked.
        """
        if len(url) > MAX_URL:
            raise NotAllowed(f"it has {len(url)} characters, at most {MAX_URL}")
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise NotAllowed(f"it cannot be read: {error}") from error
        if parts.scheme not in ("http", "https") or not host:
            raise NotAllowed("valid are http:// and https:// URLs")
        if parts.username is not None or parts.password is not None:
            raise NotAllowed(
                "it has a user or password, which everybody reads who reads the object: leave them out"
            )
        if "%" in host or not host.isascii():
            raise NotAllowed("its host is written with other characters than those of host names")
        address = _address(host)
        if address is not None:
            self._check_literal(address)
            return parts
        if not _NAME.fullmatch(host) or _looks_numeric(host):
            raise NotAllowed("its host is neither a name nor an address in its common form")
        if _LABEL.fullmatch(host) and host not in self._names:
            host = f"{host}.{namespace}.svc"
        if not (self._is_service(host) or self._is_named(host)):
            raise NotAllowed(
                f"host {host[:SHOWN]} is not asked: Services of the cluster are (NAME.NAMESPACE.svc), and what "
                "--recommender-hosts names"
            )
        return parts._replace(netloc=host if port is None else f"{host}:{port}")

    def _is_service(self, host: str) -> bool:
        labels = host.removesuffix(_DOMAIN).split(".")
        # NAME.NAMESPACE.svc, or a pod of a headless one before it.
        if len(labels) not in (3, 4) or labels[-1] != "svc":
            return False
        name, namespace = labels[-3], labels[-2]
        return (name, namespace) not in self._closed and ("", namespace) not in self._closed

    def _is_named(self, host: str) -> bool:
        return any(
            host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
            for pattern in self._names
        )

    def _check_literal(self, address: Address) -> None:
        if not any(_within(address, network) for network in self._networks):
            raise NotAllowed(f"address {address} is not asked: name it in --recommender-hosts to allow it")

    def check_canonical(self, host: str, canonical: str) -> None:
        """Refuse a Service that stands for another name.

        Raises:
            NotAllowed: it does.
        """
        name = canonical.lower().rstrip(".")
        if self._is_named(host) or not name or name == host or name.startswith(f"{host}."):
            return
        if not self._is_service(name):
            raise NotAllowed(f"host {host} stands for {name[:SHOWN]}, which is no Service of the cluster")

    def check(self, address: Address) -> None:
        """Refuse an address that a name has.

        Raises:
            NotAllowed: it is this machine's, the link's, or no host's.
        """
        if any(_within(address, network) for network in self._networks):
            return
        unwrapped = _unwrapped(address)
        for whose, holds in (
            ("this machine's", unwrapped.is_loopback or unwrapped.is_unspecified),
            ("the link's", unwrapped.is_link_local),
            ("a cloud's metadata", unwrapped in _METADATA),
            ("no host's", unwrapped.is_multicast or unwrapped.is_reserved),
        ):
            if holds:
                raise NotAllowed(f"its host has the address {address}, which is {whose}")


def _within(address: Address, network: Network) -> bool:
    return any(form.version == network.version and form in network for form in {address, _unwrapped(address)})


def _unwrapped(address: Address) -> Address:
    """The IPv4 address within an IPv6 one that stands for it, else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):  # `::1.2.3.4`, an old form
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _looks_numeric(host: str) -> bool:
    """Whether a resolver takes it for an address: 2130706433, 0x7f.1, 0177.0.0.1."""
    last = host.rsplit(".", 1)[-1]
    return bool(re.fullmatch(r"\d+|0x[0-9a-f]*", last))


class CheckedResolver(AbstractResolver):
    """Looks names up for connections, and hands on only addresses that may be asked."""

    def __init__(self, hosts: Hosts, trusted: Collection[str] = ()) -> None:
        """`trusted` are the operator's own hosts (a proxy), which are not checked."""
        self._hosts = hosts
        self._trusted = frozenset(trusted)
        self._threads = ThreadPoolExecutor(RESOLVERS, "resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name.

        Raises:
            NotAllowed: one of them is not asked.
            OSError: it has none.
        """
        infos = await asyncio.get_running_loop().run_in_executor(
            self._threads,
            lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_CANONNAME),
        )
        canonical = next((info[3] for info in infos if info[3]), "")
        return self.checked(host, port, [(info[0], str(info[4][0])) for info in infos], canonical)

    def checked(
        self, host: str, port: int, addresses: Sequence[tuple[socket.AddressFamily, str]], canonical: str = ""
    ) -> list[ResolveResult]:
        """Addresses that were found, as the connector takes them; `canonical` is the name they belong to.

        Raises:
            NotAllowed: one of them is not asked.
        """
        if host not in self._trusted:
            self._hosts.check_canonical(host, canonical)
            for _, text in addresses:
                self._hosts.check(ipaddress.ip_address(text.partition("%")[0]))
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=text, port=port, family=family, proto=0, flags=flags)
            for family, text in addresses
        ]

    async def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)
