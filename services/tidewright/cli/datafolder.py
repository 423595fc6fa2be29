"""The folder of one `tidewright up`: the log's store, the embedded cluster, and what to find again.

lock          held while a supervisor runs on the folder
ports.json    ports of the last run, so that a kubeconfig stays good over a restart
kubeconfig    of the embedded cluster
nats/         the log
cluster/      the embedded cluster's objects
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import socket
from pathlib import Path
from typing import IO

from tidewright.cli.errors import BadInput, Unavailable

PARTS = ("nats", "cluster", "ports.json", "kubeconfig")
"""What is ours in the folder, and what `--fresh` takes away."""
HOST = "127.0.0.1"
OUR_PORTS = range(20_000, 32_000)
TRIES = 200


def default() -> Path:
    """Where the data lies unless `--data` says otherwise."""
    import platformdirs

    return platformdirs.user_data_path("tidewright", appauthor=False)


class DataFolder:
    """An open data folder. Used by one supervisor at a time."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, fresh: bool = False) -> DataFolder:
        """Make and lock the folder; `fresh` forgets what an earlier run left there.

        Raises:
            BadInput: it cannot be made, or is something else's folder.
            Unavailable: another supervisor runs on it.
        """
        path = path.expanduser().resolve()
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / "lock").open("a+")
        except OSError as error:
            raise BadInput(
                f"data folder {path} cannot be used ({error.strerror}): name another with --data"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise Unavailable(
                f"data folder {path} is in use by process {holder}: stop it, or name another with --data"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        if fresh:
            for name in PARTS:
                part = path / name
                if part.is_dir():
                    shutil.rmtree(part)
                else:
                    part.unlink(missing_ok=True)
        return cls(path, lock)

    def close(self) -> None:
        """Let another supervisor have it."""
        self._lock.close()

    @property
    def kubeconfig(self) -> Path:
        """Where the embedded cluster's kubeconfig lies."""
        return self.path / "kubeconfig"

    @property
    def continues(self) -> bool:
        """Whether an earlier run left a log here."""
        return keeps_log(self.path)

    def port(self, name: str, wanted: int | None) -> int:
        """A free port: the wanted one, or that of the last run, or any.

        Raises:
            Unavailable: the wanted one is in use.
        """
        known = _known_ports(self.path)
        if wanted is not None:
            if not _is_free(wanted):
                raise Unavailable(
                    f"port {wanted} is in use: stop what uses it, or name another with --{name}-port"
                )
            port = wanted
        elif name in known and _is_free(known[name]):
            port = known[name]
        else:
            port = _any_free()
        (self.path / "ports.json").write_text(json.dumps({**known, name: port}) + "\n")
        return port


def keeps_log(path: Path) -> bool:
    """Whether a log lies in a data folder."""
    return (path / "nats" / "jetstream").exists()


def known_port(path: Path, name: str) -> int | None:
    """The port of the run that goes on in a data folder, or of the last one; None when there was none."""
    return _known_ports(path).get(name)


def _known_ports(path: Path) -> dict[str, int]:
    try:
        content = json.loads((path / "ports.json").read_text())
        return {str(k): int(v) for k, v in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _any_free() -> int:
    """A free port below those that the system hands out by itself, so that it is free at the next start too."""
    for port in random.sample(OUR_PORTS, TRIES):
        if _is_free(port):
            return port
    raise Unavailable(f"no free port on {HOST} between {OUR_PORTS.start} and {OUR_PORTS.stop}: name some")
