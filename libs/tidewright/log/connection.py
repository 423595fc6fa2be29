"""`Log`: one connection to one cluster's stream.

Three things are public protocol that the client library does not wrap: stream settings newer than its
types (`tidewright.log.stream_settings`), atomic batches and expectations per message (`tidewright.log.appending`). They are thin.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
import nats.errors

from tidewright.log import errors, reader, subjects
from tidewright.log.appending import Appends, Committed, Message
from tidewright.log.bus import Bus
from tidewright.log.continuity import Continuity, Extent
from tidewright.log.diagnostics import get_logger
from tidewright.log.doubts import Doubts
from tidewright.log.elsewhere import leads
from tidewright.log.envelope import EXPECTED_STREAM
from tidewright.log.identity import BusClient, Identity, shown
from tidewright.log.lookups import Lookups
from tidewright.log.opening import opened
from tidewright.log.refusals import NOT_FOUND, OTHER_STREAM
from tidewright.log.store_quota import Room, place_of
from tidewright.log.stream_settings import AGED, CONSUMER_LIMITS, has_settings, mismatch
from tidewright.log.subjects import Slot, Subjects

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from nats.js import JetStreamContext

    from tidewright.log.keyring import Keys
    from tidewright.log.signer import Signer
    from tidewright.log.trust import Trust

DEFAULT_SLOTS = 32
FEW = 8
"""Messages that are appended one by one where a batch costs as much as more of them."""

__all__ = ["DEFAULT_SLOTS", "Committed", "Log", "Message"]

logger = get_logger(__name__)


class Log(Bus):
    """A connection to the stream of one cluster.

    Attributes:
        trust: what decides whom to believe; None believes whatever the bus let through.
        room: what is known of the room that the store has left.
        unheard: that the log takes nothing, as who has nothing to append finds; empty while it does.
        directly: records are read by batched direct gets alone: who only asks needs no right to make a consumer, and
            takes none from the services.
    """

    def __init__(
        self, client: BusClient, cluster: str, url: str, timeout_s: float, patience_s: float = 0.0
    ) -> None:
        stream = f"TW_{subjects.escape(cluster).replace('%', '-')}"
        super().__init__(client, url, stream, timeout_s=timeout_s, patience_s=patience_s)
        self.cluster = cluster
        self.subjects = Subjects(cluster)
        self.slots = DEFAULT_SLOTS
        self.replicas = 1
        self.max_age_s = 0.0
        self.doubts = Doubts()
        self.lookups = Lookups(self)
        self.trust: Trust | None = None
        self.directly = False
        self.unheard = ""
        self.room = Room(lambda: self.answer_of("INFO", {}))
        self.continuity = Continuity(self.stream, self.extent)
        self._appends = Appends(self)

    @classmethod
    async def connect(
        cls,
        url: str,
        cluster: str,
        *,
        credentials: Path | Identity | None = None,
        name: str = "tidewright",
        timeout_s: float = 1.0,
        patience_s: float = 0.0,
    ) -> Self:
        """Connect, without touching the stream. `url` may name several servers, with commas between them.

        `timeout_s` bounds each answer that is waited for later; the connection itself reconnects
        for ever. What is asked of the log without appending to it is asked again for `patience_s`
        when no answer comes.

        Raises:
            LogUnavailable: nobody answers at `url`, or a server without JetStream or too old.
            LogForbidden: the credentials are refused.
        """
        client, denied = await opened(url, credentials, name)
        log = cls(client, cluster, url, timeout_s, patience_s)
        log.denied = denied
        return log

    def authenticate(
        self, *, signer: Signer | None = None, anchors: Sequence[Ed25519PublicKey] | None = None
    ) -> None:
        """Sign what is appended from here on, and believe only what the `anchors`' key records vouch for.

        Without anchors everything is believed as before. See `adopt_keys`.
        """
        from tidewright.log.keyring import Keyring  # who reads without an anchor does without cryptography
        from tidewright.log.trust import Trust

        keys = Trust(self.lookups, self.subjects, Keyring(self.subjects, anchors))
        self._appends.signer, self._appends.keys = signer, keys
        self.trust = keys if anchors is not None else None

    async def key_record(self) -> Keys | None:
        """The key record in force; None when there is none, or nobody asked for keys (`authenticate`)."""
        used = self._appends.keys
        return await used.keys() if used is not None else None

    def sealed(self, data: bytes) -> bytes:
        """Content that is kept beside the log, with this service's signature behind it, where it signs."""
        signer = self._appends.signer
        return data if signer is None else signer.sealed(data)

    async def unsealed(self, data: bytes, service: str, written_at: int) -> str:
        """Why content that a service is said to have kept is not believed; empty when it is.

        `written_at`: the sequence of the log that it is of, which may be from before there were keys.
        """
        if self.trust is None:
            return ""
        keys = await self.trust.keys()
        if keys is None or self.trust.keyring.is_history(written_at):
            return "" if keys is not None else "the log has no key record"
        from tidewright.log.seals import refusal

        return refusal(data, service, keys)

    async def adopt_keys(self) -> None:
        """Take over the key record on the log, where keys are used at all.

        Raises:
            NoKeys: there is none that the trust anchor vouches for, or it does not have the signing key.
            LogUnavailable: no answer.
        """
        used, signer = self._appends.keys, self._appends.signer
        if used is None or (signer is None and self.trust is None):
            return
        keys = await self.key_record()
        if keys is None:
            raise errors.NoKeys(
                f"there is no key record on {used.keyring.subject} that the trust anchor vouches for: "
                f"run `tidewright keys install` with the root key, with --cluster {self.cluster}"
            )
        if signer is not None:
            if not signer.known_to(keys):
                raise errors.NoKeys(
                    f"the key record on {used.keyring.subject} does not have the signing key {signer.name}: "
                    "nobody would believe what it signs; run `tidewright keys install` with its public key"
                )
            signer.follow(keys)

    async def close(self) -> None:
        """Close the connection. What was not answered is not waited for."""
        await self.room.close()
        # What the client has yet to say to a server that is gone must not hide why we close.
        # Its own words for a transport that is closed already are a RuntimeError (uvloop).
        with contextlib.suppress(OSError, RuntimeError, nats.errors.Error):
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @cached_property
    def jetstream(self) -> JetStreamContext:
        """What the client library makes of buckets; who only reads the log does without its import."""
        return self.client.jetstream(timeout=self.timeout_s)

    # -- the stream ------------------------------------------------------------------------------

    async def ensure(
        self, slots: int = DEFAULT_SLOTS, *, cluster_id: str = "", replicas: int = 1, max_age_s: float = 0
    ) -> str:
        """Create the stream, or check that it is ours and bring its settings up to date; returns which.

        For installers (`tidewright.log.install`): no service may. Safe to repeat, and safe for several at once.

        Args:
            slots: partitions of the keyspace; fixed for the life of the stream.
            cluster_id: the uid of the cluster's `kube-system` namespace, so that two clusters of
                one name do not share a log. Empty: not checked.
            replicas: servers that keep a copy; 3 in production.
            max_age_s: how long the log keeps a message; 0: for ever.

        Raises:
            WrongStream: it exists with other slots, another hash or for another cluster (`OtherCluster`).
            LogUnavailable, LogForbidden: as ever.
        """
        desired = self.desired(slots, cluster_id=cluster_id, replicas=replicas, max_age_s=max_age_s)
        aged = {AGED: "true"} if max_age_s else {}
        current = await self.settings(self.stream)
        if current is None:
            answer = await self.answer_of(
                f"STREAM.CREATE.{self.stream}", desired | {"metadata": desired["metadata"] | aged}
            )
            if "error" not in answer:
                self.slots, self.replicas, self.max_age_s = slots, replicas, max_age_s
                return "made"
            current = await self.settings(self.stream)  # somebody else was quicker
            if current is None:
                raise self.refused(answer["error"], f"stream {self.stream}")
        self._check_metadata(current.get("metadata") or {}, desired["metadata"])
        self.slots, self.replicas, self.max_age_s = slots, replicas, max_age_s
        if has_settings(current, desired):
            return "is as it should be"
        if current.get("max_age"):
            aged = {AGED: "true"}
        merged = (
            current | desired | {"metadata": (current.get("metadata") or {}) | desired["metadata"] | aged}
        )
        answer = await self.answer_of(f"STREAM.UPDATE.{self.stream}", merged)
        if "error" in answer:
            raise self.refused(answer["error"], f"stream {self.stream}")
        return "changed"

    def desired(self, slots: int, *, cluster_id: str, replicas: int, max_age_s: float) -> dict[str, Any]:
        """The stream's settings; arguments as of `ensure`."""
        metadata = {"tw.cluster": self.cluster, "tw.slots": str(slots), "tw.slot-hash": subjects.SLOT_HASH}
        return {
            "name": self.stream,
            "subjects": [self.subjects.everything],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "num_replicas": replicas,
            "max_age": int(max_age_s * 1e9),
            "duplicate_window": min(2_000_000_000, int(max_age_s * 1e9) or 2_000_000_000),
            "allow_direct": True,
            "allow_atomic": True,
            "allow_msg_schedules": True,
            "deny_delete": True,
            "consumer_limits": CONSUMER_LIMITS,
            "metadata": metadata | ({subjects.CLUSTER_ID: cluster_id} if cluster_id else {}),
        }

    async def adopt_slots(self, cluster_id: str = "") -> int:
        """Take over slots, replicas and retention of the existing stream, and return the slots.

        `cluster_id` as of `ensure`, from those who write to the cluster.

        Raises:
            WrongStream: there is no such stream, or it was not made by this software.
            OtherCluster: it is another cluster's.
        """
        current = await self.settings(self.stream)
        metadata = (current or {}).get("metadata") or {}
        if cluster_id:
            self._check_metadata(metadata, {subjects.CLUSTER_ID: cluster_id})
            if metadata and subjects.CLUSTER_ID not in metadata:
                logger.warning(
                    "the log is not bound to a cluster, so that another one of this name would not be noticed",
                    stream=self.stream, do=f"tidewright install --cluster {self.cluster} --cluster-id {cluster_id}",
                )  # fmt: skip
        count = metadata.get("tw.slots")
        if count is None:
            raise errors.WrongStream(
                f"no stream of cluster {self.cluster!r} at {shown(self.url)}: run `tidewright install` first, with --cluster {self.cluster}"
            )
        self._check_metadata(metadata, {"tw.slot-hash": subjects.SLOT_HASH})
        self.room.lies_in(metadata.get(subjects.STORE, ""))
        self.slots = int(count)
        self.replicas = int((current or {}).get("num_replicas") or 1)
        self.max_age_s = ((current or {}).get("max_age") or 0) / 1e9
        await self.adopt_keys()
        return self.slots

    async def say_store(self, folder: Path) -> None:
        """Have the stream say in which folder of this machine its store lies, so that writers see its disk.

        For who started the server. Raises LogUnavailable, LogForbidden, WrongStream as ever.
        """
        current, place = await self.settings(self.stream) or {}, place_of(folder)
        metadata = current.get("metadata") or {}
        self.room.lies_in(place)
        if metadata.get(subjects.STORE) != place:
            merged = current | {"metadata": metadata | {subjects.STORE: place}}
            await self.api(f"STREAM.UPDATE.{self.stream}", merged)

    def slot_of(self, namespace: str) -> Slot:
        """The slot of a namespace; `all` for the empty one."""
        return subjects.slot_of(namespace, self.slots)

    async def bounds(self) -> tuple[int, int]:
        """First and last sequence of the stream; last is first - 1 when it is empty."""
        extent = await self.extent()
        if extent is None:
            raise self.missing()
        return extent.first, extent.last

    def missing(self) -> errors.WrongStream:
        """That there is no log of this cluster."""
        return errors.WrongStream(f"no stream of cluster {self.cluster!r} at {shown(self.url)}")

    async def extent(self) -> Extent | None:
        """What the stream says of itself; None when it is not there."""
        info = await self.answer_of(f"STREAM.INFO.{self.stream}", {})
        if "error" in info:
            if info["error"].get("err_code") == NOT_FOUND:
                return None
            raise self.refused(info["error"], f"stream {self.stream}")
        state, config = info["state"], info["config"]
        max_age_s = (config.get("max_age") or 0) / 1e9
        ever_aged = bool(max_age_s) or AGED in (config.get("metadata") or {})
        first, last = max(1, int(state["first_seq"])), int(state["last_seq"])
        return Extent(str(info.get("created", "")), first, last, max_age_s, ever_aged)

    async def settings(self, stream: str) -> dict[str, Any] | None:
        """The configuration of a stream of the server's; None when there is none of that name."""
        answer = await self.answer_of(f"STREAM.INFO.{stream}", {})
        if "error" in answer:
            if answer["error"].get("err_code") == NOT_FOUND:
                return None
            raise self.refused(answer["error"], f"stream {stream}")
        config: dict[str, Any] = answer["config"]
        return config

    def _check_metadata(self, current: Mapping[str, str], desired: Mapping[str, str]) -> None:
        for key, value in desired.items():
            present = current.get(key)
            if present == value or (key == subjects.CLUSTER_ID and present is None):
                continue
            kind = errors.OtherCluster if key == subjects.CLUSTER_ID else errors.WrongStream
            raise kind(mismatch(self.stream, shown(self.url), key, present, value))

    async def subjects_of(self, stream: str, pattern: str) -> list[str]:
        """The subjects of a stream that match a filter and have a message; none when there is no such stream."""
        return sorted(await self.messages_by_subject(stream, pattern))

    async def messages_by_subject(self, stream: str, pattern: str) -> dict[str, int]:
        """The same with the number of messages of each."""
        answer = await self.answer_of(f"STREAM.INFO.{stream}", {"subjects_filter": pattern})
        if "error" in answer:
            if answer["error"].get("err_code") == NOT_FOUND:
                return {}
            raise self.refused(answer["error"], f"stream {stream}")
        return dict(answer["state"].get("subjects") or {})

    # -- appending -------------------------------------------------------------------------------

    async def commit(self, messages: Sequence[Message]) -> Committed:
        """Append messages: all of them or none.

        Raises:
            ValueError: more than `MAX_BATCH`, or none.
            Conflict: an expectation was wrong. The retry of an append whose answer was lost ends
                here too, so the caller looks at the log before it believes in another writer.
            StoreFull: the store limit is reached.
            LogUnavailable: no answer in time; the append may or may not have happened.
            LogForbidden: this writer may not write one of the subjects.
            Unsound: the log is known to be another than before.
            AppendRefused: anything else that the server refuses.
        """
        return await self._appends.commit(messages)

    def one_by_one(self, count: int) -> bool:
        """Whether so many messages are sooner appended one after the other than as a batch, where none needs another one.

        With one replica the server makes a store of its own for each batch, in files. A signature holds for a commit, and
        does not say what a message expects of another subject.
        """
        return count <= FEW and self.replicas == 1 and self._appends.signer is None

    async def settled(self) -> None:
        """Return when an append whose answer was lost is on the log as a whole, or not at all.

        Raises:
            StoreFull: the server has stored a part of it, and has no room for the rest.
            LogUnavailable: the server does not say.
        """
        await self._appends.settled()

    async def append(self, message: Message) -> Committed:
        """Append one message, on whatever stream of the server has its subject (a bucket's); raises as `commit`."""
        return await self._appends.append(message)

    async def may_append(self, subject: str) -> bool:
        """Whether these credentials may append on a subject. Nothing is: it is said to be for another stream.

        Raises:
            LogUnavailable: no answer, which an account gives as well that the subject is not known in.
            LogForbidden: they may not.
        """
        answer = msgspec.json.decode(
            await self.requested(subject, b"", {EXPECTED_STREAM: f"not-{self.stream}"})
        )
        return bool(answer.get("error", {}).get("err_code") == OTHER_STREAM)

    # -- looking up ------------------------------------------------------------------------------

    async def last(self, subject: str) -> reader.Record | None:
        """The last message of a subject that is believed, asked of the stream's leader.

        Raises:
            Unbelieved: it lies behind too many that are not.
        """
        return await self.lookups.last(subject)

    async def at(self, seq: int) -> reader.Record | None:
        """The message at a sequence; None when it is gone (a fired schedule, retention) or not believed."""
        return await self.lookups.at(seq)

    async def first_of(self, subject: str, seq: int) -> reader.Record | None:
        """The first message at or after a sequence whose subject matches a filter, of those that are believed."""
        return await self.lookups.first(subject, seq)

    async def last_per_subject(self, filters: Sequence[str]) -> AsyncIterator[reader.Record]:
        """The last message of every subject that matches, in stream order."""
        if self.directly:
            for record in await self.last_directly(filters):
                yield record
            return
        async with self.reader(filters, last_only=True) as records:
            async for record in records.until_current():
                yield record

    async def last_directly(
        self, filters: Sequence[str], heard: Callable[[Sequence[reader.Record]], None] | None = None
    ) -> list[reader.Record]:
        """As `last_per_subject`: the names of the subjects first, then as many of them as one answer takes, each of which is `heard`."""
        from tidewright.log.last_per_subject import last_words  # imports this module

        subjects = [s for pattern in filters for s in await self.subjects_of(self.stream, pattern)]
        return await last_words(self, list(dict.fromkeys(subjects)), heard=heard)

    def reader(
        self,
        filters: Sequence[str],
        *,
        after: int = 0,
        last_only: bool = False,
        window: int = reader.WINDOW,
        believing: bool = True,
    ) -> reader.Reader:
        """Records of the subjects that match, in stream order, from the sequence `after` + 1 on.

        Without `believing`, everything as it is stored.
        """
        return reader.Reader(
            self, tuple(filters), after, last_only=last_only, window=window, believing=believing
        )

    async def is_led(self) -> bool:
        """Whether who answers questions leads the stream still, and no other one can lead it yet.

        Servers elect another one at the earliest 4 s after they heard of their leader, which is longer than
        `tidewright.log.elsewhere.HEARD_S` and the wait for an answer; the one before goes on answering for up to 10 s.

        Raises:
            LogUnavailable: nobody answers.
        """
        if self.replicas == 1:
            return True
        return leads(await self.api(f"STREAM.INFO.{self.stream}", {}))

    @property
    def unable(self) -> str:
        """Why nothing can be appended at present, as far as is known without asking; empty while it can."""
        if no_space := self.room.no_space:
            return no_space
        if not self.client.is_connected:
            return f"nats-server at {shown(self.url)} is not reached"
        return self.unheard or self.silence
