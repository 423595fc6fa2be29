"""An endpoint makes itself known to the API server, without credentials: by a decision on the log.

Endpoint's replica --TrustEndpoint--> log --> actuator --> caBundle of the webhook configurations
                   <------------------- outcome -----------------------

announced   what is written in the configurations (pure): `url` on loopback, or a service
Announcer   says it, waits for the outcome, says it again now and then, and takes it back
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidewright.events import registry
from tidewright.events.base import JsonObject, ObjectRef, Outcome
from tidewright.events.endpoints import EndpointEffect, ForgetEndpoint, TrustEndpoint
from tidewright.events.outcomes import Applied
from tidewright.log import errors
from tidewright.log.checkpoint import digest_of
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import Writer
from tidewright.log.subjects import ALL

AGAIN_S = 5.0
"""Wall seconds until a refused announcement is made again."""
NOT_ALLOWED = "NotAllowed"
BARRED_S = 300.0
"""Wall seconds until it is made again when the actuator itself does not allow it: that changes by a restart alone."""
UNANSWERED_S = 30.0
"""Wall seconds without an outcome after which it is made again: the message may have been lost."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
WAITING = "waiting for the actuator to have this replica's certificate trusted"

_log = get_logger(__name__)


@dataclass(frozen=True)
class Address:
    """Where the API server finds an endpoint: at a URL, or behind a service.

    Attributes:
        url: `https://host:port`, without a path; empty with a service.
        service: `namespace/name` or `namespace/name:port`; empty with a URL.
    """

    url: str = ""
    service: str = ""

    def __post_init__(self) -> None:
        """Refuse what is neither, or both."""
        if bool(self.url) == bool(self.service):
            raise ValueError("an endpoint has either a URL or a service")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"url {self.url!r}: the API server calls https:// only")
        namespace, _, name = self.service.partition("/")
        port = self.service.rpartition(":")[2] if ":" in self.service else "443"
        if self.service and not (namespace and name and port.isdigit()):
            raise ValueError(f"service {self.service!r}: expected NAMESPACE/NAME or NAMESPACE/NAME:PORT")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names and addresses that the certificate has to be for."""
        if self.url:
            host = self.url.removeprefix("https://").partition("/")[0]
            return (host.rpartition(":")[0].strip("[]") if ":" in host else host,)
        namespace, _, name = self.service.partition(":")[0].partition("/")
        return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local")

    def is_ours_alone(self, port: int) -> bool:
        """Whether who listens on this port of this machine is the only one that can answer: nothing is before it."""
        if not self.url:
            return False
        at = urlsplit(self.url)
        return at.hostname in _LOOPBACK and (at.port or 443) == port

    def client_config(self, path: str) -> JsonObject:
        """The `clientConfig` of a webhook at this path."""
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}"}
        where, _, port = self.service.partition(":")
        namespace, _, name = where.partition("/")
        return {
            "service": {
                "namespace": namespace,
                "name": name,
                "path": path,
                "port": int(port) if port else 443,
            }
        }


@dataclass(frozen=True)
class Announcement:
    """What is announced: configurations and conversions as `EndpointEffect` has them."""

    configurations: tuple[JsonObject, ...]
    conversions: dict[str, JsonObject]


class Announcer:
    """Announces one replica of an endpoint.

    Attributes:
        announcement: what is announced from now on.
        problem: why the replica is not trusted yet; empty when it is.
    """

    def __init__(self, log: Log, writer: Writer, clock: Clock, announcement: Announcement) -> None:
        """`writer.service` is the endpoint's name on the bus."""
        self._log = log
        self._writer = writer
        self._clock = clock
        self.announcement = announcement
        self._count = 0
        self._prev = ""
        """Digest of this replica's decision before, which the next one names."""
        self.problem = WAITING

    @property
    def target(self) -> ObjectRef:
        """The first of the configurations."""
        first = self.announcement.configurations[0]
        return ObjectRef(
            api_version=str(first["apiVersion"]), kind=str(first["kind"]), name=str(first["metadata"]["name"])
        )

    async def trust(self, ca: str, retired: Sequence[str] = ()) -> None:
        """Return when the API server trusts certificates of this authority. `problem` says why it does not yet."""
        self.problem = self.problem or WAITING
        while True:
            effect = TrustEndpoint(
                at=0.0, target=self.target, ca=ca, retired=tuple(retired),
                configurations=self.announcement.configurations, conversions=self.announcement.conversions,
            )  # fmt: skip
            try:
                async with asyncio.timeout(UNANSWERED_S):
                    outcome = await self._decide(effect)
            except TimeoutError:
                _log.warning("no outcome, announcing again", do="check that the actuator runs")
                continue
            except (errors.LogUnavailable, errors.Unsound) as error:
                self.problem = str(error)
                await asyncio.sleep(AGAIN_S)
                continue
            if isinstance(outcome, Applied):
                self.problem = ""
                return
            self.problem = f"the API server cannot be made to trust this replica: {outcome.message}"
            barred = outcome.reason == NOT_ALLOWED
            _log.error(
                "not trusted", reason=outcome.reason, error=outcome.message,
                do="start the actuator so that it allows this" if barred
                else "give the actuator the right to write webhook configurations",
            )  # fmt: skip
            await asyncio.sleep(BARRED_S if barred else AGAIN_S)

    async def forget(self, ca: str, *, within_s: float, alone: bool = False) -> bool:
        """Take a certificate out, and with the last one the configurations; False when nobody confirmed it in time.

        `within_s` are wall seconds, `alone` is that of `ForgetEndpoint`.
        """
        return isinstance(await self._forgotten(ca, within_s, alone=alone), Applied)

    async def forget_if_last(self, ca: str, *, within_s: float) -> bool:
        """Take the configurations away when no other replica is trusted; whether that was so.

        Before this replica answers no longer: nobody is called then that is not there.
        """
        outcome = await self._forgotten(ca, within_s, if_last=True)
        return isinstance(outcome, Applied) and not outcome.found

    async def _forgotten(
        self, ca: str, within_s: float, *, alone: bool = False, if_last: bool = False
    ) -> Outcome | None:
        effect = ForgetEndpoint(
            at=0.0, target=self.target, ca=ca, remove_last=True, alone=alone, if_last=if_last,
            configurations=self.announcement.configurations, conversions=self.announcement.conversions,
        )  # fmt: skip
        with contextlib.suppress(TimeoutError, errors.LogError):
            async with asyncio.timeout(within_s):
                return await self._decide(effect)
        return None

    async def leave(
        self, ca: str, address: Address, port: int, *, drain_s: float, within_s: float,
        draining: Callable[[], None] = lambda: None,
    ) -> bool:  # fmt: skip
        """Have nobody called who is going; False when the configurations may be left behind.

        The last replica takes the configurations away while it still answers. Behind a service others answer once it
        has noticed, so one that is not the last goes on for `drain_s` wall seconds; `draining` says when that begins.
        """
        if address.service:
            if await self.forget_if_last(ca, within_s=within_s):
                return True
            draining()
            await asyncio.sleep(drain_s)
            return await self.forget(ca, within_s=within_s)
        draining()
        return await self.forget(ca, within_s=within_s, alone=address.is_ours_alone(port))

    async def _decide(self, effect: EndpointEffect) -> Outcome:
        """Append a decision and give its outcome."""
        self._count += 1
        service, names = self._writer.service, self._log.subjects
        decision_id = f"{service}.{ALL}.{self._writer.incarnation}.{self._count}"
        stamped = type(effect)(
            **{name: getattr(effect, name) for name in effect.__struct_fields__}
            | {"at": self._clock.now(), "id": decision_id, "prev": self._prev}
        )
        kind = self.target.kind.lower()
        subject = names.decision(ALL, service, kind, "", self.target.name)
        body = registry.encode(stamped)
        message = Message(subject, body, self._writer.headers(decision_id))
        committed = await self._log.commit([message])
        self._prev = digest_of(body)
        outcomes = names.outcome(ALL, kind, "", self.target.name)
        async with self._log.reader([outcomes], after=committed.last_seq) as reader:
            while True:
                for record in await reader.fetch(100, timeout_s=5.0):
                    event = registry.read(record.body)
                    if isinstance(event, Outcome) and event.decision == decision_id:
                        return event
