"""The API server as something to start and stop: socket, kubeconfig, journal, background work.

    server = ApiServer(data=Path("data/cluster"))
    await server.start()
    server.write_kubeconfig(path)
    ...
    await server.stop()

It listens on plain HTTP, loopback by default, and asks for no credentials (the kubeconfig carries a token
so that clients which insist on one are content).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from aiohttp import web

from tidewright.sim.api.api import Api
from tidewright.sim.api.http.answers import Answer, Headers
from tidewright.sim.api.http.discovery import MountedGroup
from tidewright.sim.api.http.front import Front
from tidewright.sim.api.http.handler import MAX_BODY_BYTES, Frontend, Handler
from tidewright.sim.api.http.request_log import Entry, RequestLog
from tidewright.sim.api.store.journal import FileJournal
from tidewright.sim.api.store.store import Store
from tidewright.sim.api.verbs import disruptions

RESTART_AFTER_S = 0.05
"""Wall seconds until a restart that was asked for happens."""
TOKEN = "tidewright-sim"  # noqa: S105  # no secret: the server asks nobody who they are


class ApiServer:
    """An embedded Kubernetes API server.

    Args:
        data: folder that keeps the objects over restarts; None keeps them in memory only.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, see `url`.
        history_limit: changes per kind that can still be watched; older versions are Expired.
        bookmark_interval_s: how often watches that want bookmarks get one.
        request_log_path: file that gets a line of JSON per request.
        request_log_limit: requests kept in memory.
        clock: seconds since the epoch, for timestamps.

    Raises:
        OSError: on `start`, when the address is taken or the folder cannot be written.
    """

    def __init__(
        self,
        data: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        history_limit: int = 20_000,
        bookmark_interval_s: float = 5.0,
        request_log_path: Path | None = None,
        request_log_limit: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._port = port
        self._journal = FileJournal(data) if data is not None else None
        self.api = Api(Store(history_limit=history_limit, journal=self._journal), clock)
        self.api.notes = request_log_path is not None
        self.requests = RequestLog(request_log_limit, request_log_path)
        self._frontend = Frontend(self.api, self.requests, bookmark_interval_s=bookmark_interval_s)
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._fronts: set[Front] = set()
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, once started."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Restore what the folder holds, then serve."""
        if self._journal is not None:
            self._journal.open(self.api.store)
        self.api.bootstrap()
        self.api.collector.resume()
        self._tasks.append(asyncio.create_task(self.api.collector.run(), name="sim collector"))
        self._tasks.append(asyncio.create_task(self.api.collector.expire(), name="sim expiry"))
        server = web.Server(self._frontend.handle, request_factory=_request, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        self._server = server
        self._frontend.on_restart = self.restart
        await self._listen()

    async def _listen(self) -> None:
        frontend, server = self._frontend, self._server
        assert server is not None  # noqa: S101  # set by the caller

        def connect() -> Front:
            return Front(
                frontend.answer,
                frontend.simple,
                server,
                max_body_bytes=MAX_BODY_BYTES,
                in_task=self.api.admission.asks,
                connections=self._fronts,
            )

        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(connect, self._host, self._port, backlog=1024)
        if self._port == 0:
            self._port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End watches, finish requests, close the journal."""
        self._frontend.close_watches()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for front in list(self._fronts):
            front.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self.api.admission.close()
        if self._journal is not None:
            self._journal.close()
        self.requests.close()

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- without a socket -------------------------------------------------------------------------

    def answers(self, method: str, target: str) -> bool:
        """Whether a request (no watch) can be handed to `answer`."""
        return self._frontend.simple(method, target) and "watch" not in target

    @property
    def is_quick(self) -> bool:
        """Whether nothing keeps an answer waiting: no fault is in force, nobody else is asked."""
        return not self._frontend.faults.rules and not self.api.admission.asks()

    async def answer(self, method: str, target: str, headers: Headers, body: bytes) -> Answer | None:
        """Answer a request of somebody in this process; None while nobody can connect."""
        if self._listener is None:
            return None
        return await self._frontend.answer(method, target, headers, body)

    def note_deletion(self, path: str, agent: str, nodes: Collection[str]) -> None:
        """Have the request log say that the machines of these nodes were deleted at the cloud, and which pods they had."""
        if self.api.notes:
            pods = disruptions.on_nodes(self.api, nodes)
            self.requests.add(
                Entry(
                    at=self.api.stamps.now_s(), method="POST", path=path, user_agent=agent, code=200,
                    noted={"nodes": sorted(nodes), "pods": pods},
                )
            )  # fmt: skip

    def mount(self, group: str, version: str, resources: list[dict[str, Any]], handler: Handler) -> None:
        """Serve a group from another handler, as an aggregated API is.

        Args:
            group: `metrics.k8s.io`.
            version: `v1beta1`.
            resources: APIResource entries (name, singularName, namespaced, kind, verbs) for discovery.
            handler: answers every request below `/apis/<group>/<version>/`.
        """
        self._frontend.mounted_groups.append(MountedGroup(group, version, resources))
        self._frontend.mounts[f"/apis/{group}/{version}"] = _below(
            f"/apis/{group}/{version}", handler, self._frontend
        )

    def mount_path(self, prefix: str, handler: Handler) -> None:
        """Let another handler answer a path and everything below it; it is no API."""
        self._frontend.mounts[prefix] = handler

    async def _restart(self, down_s: float) -> None:
        """Cut all connections, and let nobody connect for a while."""
        await asyncio.sleep(RESTART_AFTER_S)  # the request that asks for it gets its answer
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for front in list(self._fronts):
            front.abort()
        if self._server is not None:
            for connection in self._server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await asyncio.sleep(down_s)
        await self._listen()

    def restart(self, down_s: float = 0.0) -> None:
        """Do to clients what a restart does: connections end, and for `down_s` seconds there are no new ones."""
        task = asyncio.create_task(self._restart(down_s), name="sim restart")
        self._tasks.append(task)
        task.add_done_callback(lambda done: self._tasks.remove(done) if done in self._tasks else None)

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig whose only context is this server."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: tidewright\n"
            f"clusters:\n- name: tidewright\n  cluster:\n    server: {self.url}\n"
            "contexts:\n- name: tidewright\n  context:\n    cluster: tidewright\n    user: tidewright\n"
            "    namespace: default\n"
            f"users:\n- name: tidewright\n  user:\n    token: {TOKEN}\n",
            encoding="utf-8",
        )
        path.chmod(0o600)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """Requests with this server's limit on bodies; `read` refuses what is larger."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES + 1)


def _below(prefix: str, handler: Handler, frontend: Frontend) -> Handler:
    """The list of the group's resources is discovery's business, everything below it the handler's."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.rstrip("/") == prefix:
            return frontend.resource_list(prefix)
        return await handler(request)

    return serve
