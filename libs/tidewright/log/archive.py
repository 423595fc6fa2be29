"""The archive: a mirror of the log's stream, in an account that no service has, from which nothing is deleted.

One message may erase the log: schedules force the header `Nats-Rollup` on, and the server refuses
`deny_purge` beside them. A mirror has no schedules, so it can refuse both, and keeps what it has when the
stream it follows is emptied, made anew or deleted. It has the stream's own name in its account, so that
whatever reads a log reads the archive as well: `tidewright export --nats nats://archive:...@HOST`.
"""

from __future__ import annotations

from typing import Any

from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.install import provide

COMPRESSION = "s2"
"""Of the archive, by nats-server, block by block once one is full: messages are alike, so that about a tenth is left. The log
itself is not: who asks it far back would wait for blocks to be unpacked."""
USER = "archive"
"""Of its account."""
API_PREFIX = "LOG.API"
"""Under which the archive's account has what it imports of the log's JetStream API."""
DELIVER_PREFIX = "archive"
"""Under which the log's account delivers to the archive."""


def user_beside(installer: str) -> str:
    """The archive's user beside an installer's: of the same cluster, where users are named behind it (`east-installer`)."""
    prefix, ends, _ = installer.rpartition("installer")
    return f"{prefix}{USER}" if ends else USER


async def install_archive(log: Log, archive: Log) -> str:
    """Make the archive of a log that is installed, or bring it up to date; returns what was done, as a line.

    Args:
        log: with the rights of an installer.
        archive: the same cluster, connected as the archive's own user.

    Raises:
        WrongStream: the log is not installed, or the two are one account.
        LogError: the server refuses; see its classes.
    """
    settings = await log.settings(log.stream)
    if settings is None:
        raise errors.WrongStream(f"no stream {log.stream} to keep an archive of: install the log first")
    there = await archive.settings(log.stream)
    if there is not None and not there.get("mirror"):
        raise errors.WrongStream(
            "the archive's user sees the log itself: give it an account of its own, as deploy/nats/permissions.conf does"
        )
    return f"archive {archive.stream}: {await provide(archive, mirror(settings))}"


def mirror(log: dict[str, Any]) -> dict[str, Any]:
    """The archive's settings, from those of the log's stream."""
    kept = {key: log.get(key) for key in ("name", "num_replicas", "max_age", "metadata")}
    metadata = {key: value for key, value in (kept["metadata"] or {}).items() if key.startswith("tw.")}
    external = {"api": API_PREFIX, "deliver": DELIVER_PREFIX}
    return kept | {
        "storage": "file",
        "compression": COMPRESSION,
        "retention": "limits",
        "discard": "old",
        "allow_direct": True,
        "deny_delete": True,
        "deny_purge": True,
        "mirror": {"name": log["name"], "external": external},
        "metadata": metadata,
    }
