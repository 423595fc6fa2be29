"""The folder of one `tidewright up`: the log's store, the embedded cluster, and what to find again.

.tidewright   the mark: only a folder that has it is ever cleared (`tidewright.cli.foldermark`)
lock          held while a supervisor runs on the folder
ports.json    ports of the last run, so that a kubeconfig stays good over a restart
kubeconfig    of the embedded cluster
nats/         the log
cluster/      the embedded cluster's objects
tokens/       by which endpoints know the API server; readable by the user alone
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import secrets
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from tidewright.asking.errors import BadInput, Unavailable
from tidewright.cli import foldermark
from tidewright.cli.foldermark import MARK, MadeBy, Whose
from tidewright.log.disk import is_full, no_space

PARTS = ("nats", "cluster", "keys", "tokens", "ports.json", "kubeconfig")
"""What is ours in the folder, and what `--fresh` takes away."""
HOST = "127.0.0.1"
OUR_PORTS = range(20_000, 32_000)
TRIES = 200


def default() -> Path:
    """Where the data lies unless `--data` says otherwise."""
    import platformdirs

    return platformdirs.user_data_path("tidewright", appauthor=False)


def of_demos() -> Path:
    """Where the demo's data lies unless `--data` says otherwise: each checkout, or installation, has its own."""
    root = Path(__file__).resolve().parents[3]
    home = root if (root / "pyproject.toml").exists() else Path(sys.prefix).resolve()
    digest = hashlib.blake2b(str(home).encode(), digest_size=4).hexdigest()
    return default() / "demos" / f"{home.name}-{digest}"


def _to_people(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class DataFolder:
    """An open data folder. Used by one supervisor at a time."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(
        cls, path: Path, by: MadeBy | None, *, fresh: bool = False, say: Callable[[str], None] = _to_people
    ) -> DataFolder:
        """Make, lock and mark the folder.

        Args:
            path: the folder.
            by: the command whose folder it becomes; None only looks at what is there, and marks nothing.
            fresh: forget what an earlier run left there, which takes the mark.
            say: is told what is removed, before it is.

        Raises:
            BadInput: it cannot be made, or is somebody else's folder; nothing was written to it.
            Unavailable: another supervisor runs on it.
        """
        path = path.expanduser().resolve()
        try:
            path.mkdir(parents=True, exist_ok=True)
            if by is not None:
                _refuse_others(path, by, fresh=fresh)
            lock = (path / "lock").open("a+")
        except OSError as error:
            if is_full(error):
                raise Unavailable(no_space(path)) from error
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
        try:
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            if fresh:
                _clear(path, say)
            # One with other things in it stays unmarked: then nothing ever clears it.
            if by is not None and foldermark.whose(path) is not Whose.MIXED:
                foldermark.put(path, by)
        except BaseException as error:
            with contextlib.suppress(OSError):  # which a full disk has it say once more
                lock.close()
            if is_full(error):
                raise Unavailable(no_space(path)) from error
            raise
        return cls(path, lock)

    def close(self) -> None:
        """Let another supervisor have it."""
        self._lock.close()

    @property
    def kubeconfig(self) -> Path:
        """Where the embedded cluster's kubeconfig lies."""
        return self.path / "kubeconfig"

    def token(self, name: str) -> Path:
        """A file with a secret that whoever may read the folder's own files shares; made when there is none."""
        file = self.path / "tokens" / name
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as opened:
                opened.write(f"{secrets.token_urlsafe(24)}\n")
        return file

    def port(self, name: str, requested: int | None) -> int:
        """A free port: the requested one, or that of the last run, or any.

        Raises:
            Unavailable: the requested one is in use.
        """
        known = _known_ports(self.path)
        if requested is not None:
            if not _is_free(requested):
                raise Unavailable(
                    f"port {requested} is in use: stop what uses it, or name another with --{name}-port"
                )
            port = requested
        elif name in known and _is_free(known[name]):
            port = known[name]
        else:
            port = _any_free()
        (self.path / "ports.json").write_text(json.dumps({**known, name: port}) + "\n")
        return port


def _refuse_others(path: Path, by: MadeBy, *, fresh: bool) -> None:
    """Raise BadInput unless the folder may be used so; nothing is written."""
    whose = foldermark.whose(path)
    if whose is Whose.FOREIGN:
        held = sorted(entry.name for entry in path.iterdir())
        some = ", ".join(held[:5]) + (f" and {len(held) - 5} more" if len(held) > 5 else "")
        raise BadInput(
            f"data folder {path} is not Tidewright's: it has no mark ({MARK}) and holds {some}; "
            "name an empty or a new folder with --data"
        )
    if by == "demo" and whose is Whose.MARKED and foldermark.made_by(path) == "up":
        raise BadInput(
            f"data folder {path} is kept by `tidewright up`, and a demo begins by clearing its folder: "
            "name another with --data"
        )
    if not fresh or whose in (Whose.MARKED, Whose.EMPTY):
        return
    what = "--fresh clears" if by == "up" else "a demo begins by clearing its folder, and clears"
    if by == "up" and whose is Whose.EARLIER:
        remedy = "an earlier version left it: start once without --fresh, which marks it"
    elif others := foldermark.strangers(path):
        remedy = (
            f"beside what an earlier version left it holds {', '.join(others)}: remove yourself what is to go"
        )
    else:
        remedy = "an earlier version left it: remove yourself what is to go"
    raise BadInput(
        f"{what} only what Tidewright has marked, and {path} has no mark ({MARK}): "
        f"{remedy}, or name another with --data"
    )


def _clear(path: Path, say: Callable[[str], None]) -> None:
    """Remove what is ours in a marked folder, and say so before. Raises BadInput."""
    parts = [path / name for name in PARTS if (path / name).exists() or (path / name).is_symlink()]
    for part in parts:
        if part.is_symlink():
            raise BadInput(
                f"{part} is a link to {part.readlink()}, which is not cleared: remove the link, and what is to go there"
            )
    if parts:
        say(f"removing what an earlier run left in {path}: {', '.join(map(_sized, parts))}")
    for part in parts:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()


def _sized(part: Path) -> str:
    if not part.is_dir():
        return part.name
    size = sum(file.lstat().st_size for file in part.rglob("*") if file.is_file())
    return f"{part.name}/ ({size / 1e6:.1f} MB)"


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
