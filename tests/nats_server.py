"""A nats-server of a test's own: a child process that is started, ended and killed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec

from tests.ports import free_port
from tidewright.log.errors import LogUnavailable
from tidewright.sim.nats_server import configuration, find_binary

STARTUP_S = 60.0
"""A server recovers its store before it listens; one that cannot start says so by ending."""


class EmbeddedServer:
    """One nats-server as a child process."""

    def __init__(
        self,
        store: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sync_always: bool = False,
        max_store_bytes: int | None = None,
    ) -> None:
        """Port 0: one that is free, and stays this server's when it is started again."""
        self._store, self._host, self._port = store, host, port or free_port()
        self._sync_always, self._max_store_bytes = sync_always, max_store_bytes
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    async def start(self) -> str:
        """Start the server, wait until it takes connections, and return its URL.

        Raises:
            LogUnavailable: it ended before it was ready (port in use, store not writable), with its
                own words.
        """
        self._store.mkdir(parents=True, exist_ok=True)
        ports = self._store / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        config = self._store / "nats-server.conf"
        config.write_text(
            configuration(
                self._store,
                self._host,
                self._port,
                sync_always=self._sync_always,
                max_store_bytes=self._max_store_bytes,
            )
        )
        log = self._store / "nats-server.log"
        log.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            str(find_binary()), "-c", str(config), "--ports_file_dir", str(ports), "-l", str(log),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(STARTUP_S):
                while not (self.url or self._process.returncode is not None):
                    self.url = _url_in(ports)
                    await asyncio.sleep(0.01)
        except TimeoutError:
            await self.kill()
        if not self.url:
            words = log.read_text(errors="replace") if log.exists() else ""
            fatal = [line for line in words.splitlines() if "[FTL]" in line or "[ERR]" in line]
            raise LogUnavailable(
                f"nats-server did not start on {self._host}:{self._port} with store {self._store}: "
                + (fatal[-1].split("] ", 1)[-1] if fatal else f"see {log}")
            )
        return self.url

    async def stop(self) -> None:
        """End the server in good order."""
        if self._process and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        self.url = ""

    async def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self.url = ""


def _url_in(folder: Path) -> str:
    """The client URL in a ports file that the server has finished writing, or nothing."""
    for file in folder.glob("*.ports"):
        try:
            urls = msgspec.json.decode(file.read_bytes()).get("nats", [])
        except (msgspec.DecodeError, OSError):
            continue
        if urls:
            return str(urls[0])
    return ""
