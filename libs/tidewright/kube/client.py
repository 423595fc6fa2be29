"""Kube: requests to one API server, and watch streams, as raw bytes.

Configuration, authentication (tokens, certificates, exec plugins, in-cluster) and TLS are
kubernetes_asyncio's; requests go over its aiohttp session, so objects never pass through its model
classes. Everything that fails is a `KubeError`: an answer >= 400, and no answer at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from tidewright.kube.errors import TIMEOUT, UNREACHABLE, KubeError, error_of
from tidewright.kube.library import library
from tidewright.kube.projection.reading import AGENT
from tidewright.log.redaction import redacted

KUBECONFIG: Final = "KUBECONFIG"
"""The variable that names kubeconfig files, where none is given."""
DEFAULT: Final = "~/.kube/config"

_READ_BUFFER_BYTES = 2**20
MAX_ANSWER_BYTES: Final = 2**28
"""Of an answer that is read as a whole: a page of 500 objects of 500 kB."""
MAX_REFUSAL_BYTES: Final = 2**20
MAX_LINE_BYTES: Final = 2**25
"""Of one event of a watch; an API server stores objects of 1.5 MB."""


class Response(msgspec.Struct, frozen=True):
    """A successful answer.

    Attributes:
        headers: names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Kube:
    """One API server. Make one with `connect` (a cluster) or `at` (a bare URL)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, auth: Authentication | None = None) -> None:
        self._session = session
        self._auth = auth
        self.url = url.rstrip("/")
        self._request_args = _with_proxy(self.url, auth.request_args() if auth else {})
        self.shown = redacted(self.url)
        """The URL for messages: they end up in logs, and on objects."""

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None = None, in_cluster: bool = False, context: str | None = None
    ) -> Kube:
        """Load the configuration; nothing is requested yet.

        Args:
            kubeconfig: the file; None for `KUBECONFIG` or `~/.kube/config`.
            in_cluster: use the service account of the pod that this runs in.
            context: a context of the file; None for its current one.

        Raises:
            KubeError: the configuration cannot be used; reason `Configuration`.
        """
        auth = await Authentication.load(kubeconfig, in_cluster=in_cluster, context=context)
        return cls(auth.session(), auth.configuration.host, auth)

    @classmethod
    def at(cls, url: str) -> Kube:
        """A server that wants no authentication, by its URL (a metrics API, a test)."""
        return cls(_session_on(None), url)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_s: float = 30.0,
        limit_bytes: int = MAX_ANSWER_BYTES,
    ) -> Response:
        """One request, answered whole. An expired login is renewed once.

        `path` is absolute and already quoted (`/api/v1/namespaces/default/pods/a`); `timeout_s` is
        for the whole request, in wall seconds. An answer longer than `limit_bytes` is none.

        Raises:
            KubeError: an answer >= 400, or none (`status` 0).
        """
        once = partial(
            self._once,
            method,
            path,
            query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_s=timeout_s,
            limit_bytes=limit_bytes,
        )
        try:
            return await once()
        except KubeError as error:
            if error.status != 401 or self._auth is None or not await self._auth.renew():
                raise
        return await once()

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        *,
        body: bytes | None,
        content_type: str,
        accept: str,
        timeout_s: float,
        limit_bytes: int,
    ) -> Response:
        headers = await self._headers(accept)
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                self._address(path, query),
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
                **self._request_args,
            ) as answer:
                content = await _up_to(answer, limit_bytes)
                if answer.status >= 400:
                    refusal = error_of(answer.status, content, answer.headers.get("Retry-After"))
                    refusal.server = self.shown
                    raise refusal
                names = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, names, content)
        except TimeoutError as error:
            raise KubeError(
                0, TIMEOUT, f"{method} {self.shown}{path}: no answer in {timeout_s:g} s"
            ) from error
        except aiohttp.ClientError as error:
            raise KubeError(0, UNREACHABLE, f"{method} {self.shown}{path}: {error}") from error

    async def stream(
        self, path: str, *, query: Mapping[str, str], read_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, one item each, until the server ends it.

        Raises:
            KubeError: as `request`; also when the stream breaks, or is silent for `read_timeout_s`.
        """
        async for lines in self.stream_batches(path, query=query, read_timeout_s=read_timeout_s):
            for line in lines:
                yield line

    async def stream_batches(
        self, path: str, *, query: Mapping[str, str], read_timeout_s: float | None = None
    ) -> AsyncGenerator[list[bytes], None]:
        """As `stream`, with all lines that arrived together in one list.

        The first item is always an empty list: the server has accepted the request.
        """
        headers = await self._headers("application/json")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=read_timeout_s)
        try:
            async with self._session.get(
                self._address(path, query), headers=headers, timeout=timeout, **self._request_args
            ) as answer:
                if answer.status >= 400:
                    refusal = await _up_to(answer, MAX_REFUSAL_BYTES)
                    raise error_of(answer.status, refusal, answer.headers.get("Retry-After"))
                yield []
                rest = bytearray()
                async for chunk in answer.content.iter_any():
                    lines = chunk.split(b"\n")
                    if len(lines) == 1:
                        rest += chunk
                        if len(rest) > MAX_LINE_BYTES:
                            raise KubeError(
                                0,
                                "TooLong",
                                f"GET {self.shown}{path}: an event of more than {MAX_LINE_BYTES} bytes",
                            )
                        continue
                    lines[0] = bytes(rest) + lines[0]
                    rest = bytearray(lines.pop())
                    yield [line for line in lines if line]
                if rest:
                    raise KubeError(
                        0, UNREACHABLE, f"GET {self.shown}{path}: the stream ended within an item"
                    )
        except TimeoutError as error:
            raise KubeError(0, TIMEOUT, f"GET {self.shown}{path}: silent for {read_timeout_s} s") from error
        except aiohttp.ClientError as error:
            raise KubeError(0, UNREACHABLE, f"GET {self.shown}{path}: {error}") from error

    async def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": AGENT}
        if self._auth is not None and (token := await self._auth.authorization()):
            headers["Authorization"] = token
        return headers

    def _address(self, path: str, query: Mapping[str, str] | None) -> Any:
        # yarl, with encoded=True: quoted once, by us; it would decode %2F in a name again.
        from yarl import URL

        text = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        return URL(text, encoded=True)


async def _up_to(answer: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The body of an answer, as long as it is not too long.

    Raises:
        KubeError: it is; reason `TooLong`.
    """
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > limit_bytes:
            raise KubeError(
                0, "TooLong", f"{answer.method} {redacted(str(answer.url))}: more than {limit_bytes} bytes"
            )
    return bytes(content)


def _session_on(connector: aiohttp.BaseConnector | None) -> aiohttp.ClientSession:
    """A session that looks nothing up for each request.

    With `trust_env` it would look for a proxy in the environment and for a login in a netrc file, in another thread each, and end
    with an error where there is one beside a token.
    """
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=_READ_BUFFER_BYTES
    )


def _with_proxy(url: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """What each request to a server needs, with the proxy that the environment names for it where none is configured.

    One that is itself spoken to over TLS is passed over.
    """
    place = urlsplit(url)
    proxy = getproxies().get(place.scheme, "https:")
    if "proxy" in args or proxy.startswith("https:") or proxy_bypass(place.hostname or ""):
        return dict(args)
    return {**args, "proxy": proxy}


def _any_file(kubeconfig: Path | None) -> bool:
    """Whether there is a kubeconfig: the one named, or one of those that `KUBECONFIG` names, or the default."""
    names = [str(kubeconfig)] if kubeconfig else (os.environ.get(KUBECONFIG) or DEFAULT).split(os.pathsep)
    return any(Path(name).expanduser().is_file() for name in names if name)


def _unusable(error: Exception, context: str | None) -> str:
    """Why a configuration cannot be used, in one line; the loader's own errors speak of its insides."""
    import yaml

    from tidewright.kube.yamltext import described

    if isinstance(error, yaml.MarkedYAMLError):
        return f"{described(error)}; valid is one document, a kubeconfig"
    reason = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, PermissionError):
        return f"user {os.getuid()}, as whom this runs, may not read {error.filename}"
    if isinstance(error, TypeError | AttributeError):
        return "it is empty, or no kubeconfig"
    if context is not None and f"name {context} in" in reason:
        return f"it has no context {context!r}"
    if reason == "Service host/port is not set":
        return "this is no pod of a cluster, KUBERNETES_SERVICE_HOST is not set"
    return reason


class Authentication:
    """kubernetes_asyncio's configuration, and how to renew what expires in it."""

    def __init__(self, configuration: Any, loader: Any = None) -> None:
        self.configuration = configuration
        self._loader = loader
        self._renewing = asyncio.Lock()

    @classmethod
    async def load(cls, kubeconfig: Path | None, *, in_cluster: bool, context: str | None) -> Authentication:
        """Read a kubeconfig or the pod's service account.

        Raises:
            KubeError: reason `Configuration`; the message names the file or what is missing.
        """
        config = library().config
        # What is wrong is in the error; said by the library's logger as well it would stand there twice.
        said = logging.getLogger("kubernetes_asyncio")
        said.addHandler(logging.NullHandler())
        said.propagate = False
        configuration = library().configuration()
        where = "the pod's service account"
        if not in_cluster:
            where = f"kubeconfig {kubeconfig or os.environ.get(KUBECONFIG) or DEFAULT}"
            if not await asyncio.to_thread(_any_file, kubeconfig):
                known = (
                    f"no such file, and {KUBECONFIG} is not set"
                    if where.endswith(DEFAULT)
                    else "no such file"
                )
                raise KubeError(0, "Configuration", f"{where}: {known}")
        try:
            if in_cluster:
                config.load_incluster_config(client_configuration=configuration)
                return cls(configuration)
            loader = await config.load_kube_config(
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the loader raises yaml, value, assertion and own errors
            raise KubeError(0, "Configuration", f"{where}: {_unusable(error, context)}") from error
        return cls(configuration, loader)

    def session(self) -> aiohttp.ClientSession:
        """A session with the TLS context and the connection pool that kubernetes_asyncio makes."""
        try:
            made: aiohttp.ClientSession = library().rest(self.configuration).pool_manager
        except (OSError, ValueError) as error:
            raise KubeError(
                0, "Configuration", f"certificates of {self.configuration.host}: {error}"
            ) from error
        connector = made.connector
        made.detach()
        return _session_on(connector)

    def request_args(self) -> dict[str, Any]:
        """What each request needs beside its headers: proxy and the name expected in the certificate."""
        args = {
            "proxy": self.configuration.proxy,
            "proxy_headers": self.configuration.proxy_headers,
            "server_hostname": self.configuration.tls_server_name,
        }
        return {name: value for name, value in args.items() if value}

    async def authorization(self) -> str | None:
        """The `Authorization` header in force; None when certificates do it."""
        token: str | None = await self.configuration.get_api_key_with_prefix("BearerToken")
        return token

    async def renew(self) -> bool:
        """Log in again after a 401. False when there is nothing to renew."""
        if self._loader is None:
            return False
        before = self.configuration.api_key.get("BearerToken")
        async with self._renewing:
            if self.configuration.api_key.get("BearerToken") != before:
                return True
            try:
                await self._loader.load_and_set(self.configuration)
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001 - the 401 itself is what the caller shall see
                return False
        return bool(self.configuration.api_key.get("BearerToken") != before)
