"""Put a key record on the log: what an installer does, who holds the root key and keeps it to itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.events import registry
from tidewright.events.config import ClockSet, KeysSet, ServiceKeys
from tidewright.log import errors
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.keyring import Keyring, vouched_for
from tidewright.log.trust import Trust

TRIES = 20
"""Times that others may append between a look at the log's end and the record."""
WRITER = "install"


async def install_keys(
    log: Log, root: Ed25519PrivateKey, services: Sequence[ServiceKeys], *, history: bool = False
) -> str:
    """Say on the log whose signature counts for what; returns what was done.

    What is on the log before its first key record was written without keys, and stays believed.
    `history` says the same of everything that is on it now (an export that was just imported).

    Raises:
        Conflict: others append so often that the end of the log could not be named.
        LogError: as `Log.commit`.
    """
    trust = Trust(log.lookups, log.subjects, Keyring(log.subjects, [root.public_key()]))
    subject = trust.keyring.subject
    for _ in range(TRIES):
        keys = await trust.keys()
        before = keys.said if keys is not None else None
        if before is not None and before.services == tuple(services) and not history:
            return "is as it should be"
        _, end = await log.bounds()
        said = KeysSet(
            at=await _log_time(log, end),
            log=before.log if before else secrets.token_hex(8),
            generation=before.generation + 1 if before else 1,
            history=end if before is None or history else before.history,
            services=tuple(services),
        )
        body = registry.encode(vouched_for(said, subject, root))
        # Nothing may come between what is history and the record.
        headers = Writer(WRITER).headers(f"{WRITER}.keys.{said.generation}")
        headers["Nats-Expected-Last-Sequence"] = str(end)
        try:
            await log.commit([Message(subject, body, headers)])
        except errors.Conflict:
            continue
        return f"{'changed' if before else 'made'}, generation {said.generation}"
    raise errors.Conflict(f"others append to stream {log.stream} all the time: try again")


async def _log_time(log: Log, end: int) -> float:
    """Log time now; 0 on a log that is empty, of which the clock may be yet to be set."""
    record = await log.last(log.subjects.config("clock"))
    try:
        setting = registry.decode(record.body) if record is not None else None
    except (registry.NotAnEvent, msgspec.MsgspecError):
        setting = None
    clock = Clock(time.time, setting if isinstance(setting, ClockSet) else None)
    return clock.now() if end or clock.setting else 0.0
