"""What a log consists of on its server, made once by an installer: `tidewright install`.

The stream, the bucket of members and one bucket of snapshots per decider. Services only use what is
there: no service may create, change, purge or delete a stream, so that one which is taken over cannot
either. Safe to repeat, and safe for several at once; what is as it should be is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidewright.events import registry
from tidewright.events.acting import MODES
from tidewright.events.config import Mode, ModesSet
from tidewright.log import errors
from tidewright.log.connection import DEFAULT_SLOTS, Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.snapshots import bucket
from tidewright.log.stream_settings import (
    ADVISED_PAYLOAD,
    ADVISED_PAYLOAD_BYTES,
    CONSUMER_LIMITS,
    has_settings,
)

WRITER = "install"
TTL_S = 2.0
"""How long a member is believed to be there without a word of it."""


RESTORING = "tw.restoring"
"""Of the stream's metadata, while it is put back from an archive and is no log yet."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the log is to be. None keeps what an earlier installation chose, or takes the default.

    Attributes:
        slots: partitions of the keyspace, fixed for the life of the stream; 32 by default.
        cluster_id: the uid of the cluster's `kube-system` namespace; empty keeps what is there.
        replicas: servers that keep a copy; 1 by default, 3 in production.
        max_age_s: how long the log keeps a message; 0, the default, for ever.
        deciders: names of the services that keep snapshots.
        mode: of every service until the watcher says another one; for a log on which nothing is yet. None says nothing.
    """

    slots: int | None = None
    cluster_id: str = ""
    replicas: int | None = None
    max_age_s: float | None = None
    deciders: tuple[str, ...] = ()
    mode: Mode | None = None


async def install_log(log: Log, plan: Plan | None = None) -> list[str]:
    """Make what is missing, bring up to date what differs, and say of each what was done, a line each.

    Raises:
        WrongStream: the stream is there with other slots, another hash or for another cluster (`OtherCluster`).
        LogUnavailable, LogForbidden: as ever.
    """
    plan = plan or Plan()
    current = await log.settings(log.stream) or {}
    metadata = current.get("metadata") or {}
    slots, replicas, max_age_s = plan.slots, plan.replicas, plan.max_age_s
    done = await log.ensure(
        int(metadata.get("tw.slots", DEFAULT_SLOTS)) if slots is None else slots,
        cluster_id=plan.cluster_id,
        replicas=int(current.get("num_replicas") or 1) if replicas is None else replicas,
        max_age_s=(current.get("max_age") or 0) / 1e9 if max_age_s is None else max_age_s,
    )
    said = [f"stream {log.stream}: {done}"]
    if log.max_message_bytes < ADVISED_PAYLOAD_BYTES:
        said.append(
            f"nats-server takes {log.max_message_bytes} bytes of one message: set its max_payload to {ADVISED_PAYLOAD}, or what is larger is not said"
        )
    # Before the bucket that services wait for: whoever is up before the watcher would act, since nobody has said not to.
    if plan.mode is not None and (begun := await begin(log, plan.mode)):
        said.append(begun)
    for settings in (members(log), *(snapshots(log, name) for name in plan.deciders)):
        said.append(f"bucket {settings['name']}: {await provide(log, settings)}")
    return said


async def being_restored(log: Log) -> bool:
    """Whether the stream is put back from an archive at present, and is no log yet.

    Raises:
        LogError: the server does not say.
    """
    settings = await log.settings(log.stream)
    return RESTORING in ((settings or {}).get("metadata") or {})


async def begin(log: Log, mode: Mode) -> str:
    """Say the first modes, as the first message of a log; returns what was said, "" when there was a message before.

    Raises:
        LogError: as `Log.commit`.
    """
    _, end = await log.bounds()
    if end:
        return ""
    headers = Writer(WRITER).headers(f"{WRITER}.modes") | {"Nats-Expected-Last-Sequence": "0"}
    body = registry.encode(ModesSet(at=0.0, mode=mode))
    try:
        await log.commit([Message(log.subjects.config(MODES), body, headers)])
    except errors.Conflict:
        return ""  # somebody was quicker
    return f"modes: {mode}, until the watcher says others"


async def provide(log: Log, desired: dict[str, Any]) -> str:
    """Create a stream with these settings, or bring it up to date; returns what was done.

    Raises:
        LogError: the server refuses; see its classes.
    """
    name = desired["name"]
    current = await log.settings(name)
    if current is None:
        try:
            await log.api(f"STREAM.CREATE.{name}", desired)
        except errors.AppendRefused:
            current = await log.settings(name)  # somebody else was quicker
            if current is None:
                raise
        else:
            return "made"
    if has_settings(current, desired):
        return "is as it should be"
    if current.get("storage") != desired.get("storage"):
        # A store cannot be changed. What lies in these buckets is said again, or worked out again.
        await log.api(f"STREAM.DELETE.{name}", {})
        await log.api(f"STREAM.CREATE.{name}", desired)
        return "made anew, in another kind of store"
    await log.api(f"STREAM.UPDATE.{name}", current | desired)
    return "changed"


def members(log: Log) -> dict[str, Any]:
    """The bucket of members: entries that expire unless they are renewed, and a marker when one does.

    In memory where other servers have it too. On one server alone such a bucket would be gone with a
    restart, and no service may make it again.
    """
    name = members_of(log.stream)
    return {
        "name": f"KV_{name}",
        "subjects": [f"$KV.{name}.>"],
        "storage": "memory" if log.replicas > 1 else "file",
        "max_msgs_per_subject": 1,
        "max_age": int(TTL_S * 1e9),
        "subject_delete_marker_ttl": int(TTL_S * 1e9),
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "deny_delete": True,
        "discard": "new",
        "duplicate_window": int(TTL_S * 1e9),
        "consumer_limits": CONSUMER_LIMITS,
        "num_replicas": log.replicas,
    }


def members_of(stream: str) -> str:
    """The bucket's name."""
    return f"{stream}_members"


def snapshots(log: Log, service: str) -> dict[str, Any]:
    """The bucket of a decider's snapshots, laid out as object stores are."""
    name = bucket(log.stream, service)
    return {
        "name": f"OBJ_{name}",
        "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
        "storage": "file",
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "allow_direct": True,
        "num_replicas": log.replicas,
    }
