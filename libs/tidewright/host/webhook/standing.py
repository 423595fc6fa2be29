"""A replica's standing with the API server: trusted while its service acts, forgotten in shadow and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Never

from tidewright.events.acting import Held
from tidewright.host.process.health import Health
from tidewright.host.webhook import certificates
from tidewright.host.webhook.announce import Announcement, Announcer
from tidewright.host.webhook.server import Server
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import Writer

ROTATION_CHECK_S = 60.0
ANNOUNCE_EVERY_S = 1800.0
"""The API server is told of a replica this often, in case somebody took its configurations away."""
FORGET_AGAIN_S = 30.0
"""After so long without an answer the API server is asked once more to forget this replica."""
FORGET_WITHIN_S = 3.0
"""How long an end waits until the API server has forgotten this replica."""

_log = get_logger(__name__)


class Standing:
    """Of one replica."""

    def __init__(
        self,
        server: Server,
        log: Log,
        health: Health,
        *,
        name: str,
        clock: Clock,
        announcement: Callable[[], Announcement | None],
        held: Callable[[], Held],
        news: asyncio.Event,
    ) -> None:
        """What it goes by.

        Args:
            server: the replica's.
            log: where it is announced.
            health: says whether it is ready, and in shadow why it is called by nobody.
            name: of the endpoint on the bus.
            clock: log time.
            announcement: what the API server has to know now; None for nothing.
            held: whether the service acts now.
            news: set by who knows that one of these two says something else now; cleared here.
        """
        self._server, self._health = server, health
        self._announcement, self._held, self._news = announcement, held, news
        self._log, self._name, self._clock = log, name, clock
        self._announcer: Announcer | None = None
        """There once the API server may have been told of this replica; not there when it has forgotten it."""

    async def keep(self) -> None:
        """Be trusted or forgotten, as things stand; a new certificate in time. Runs until cancelled."""
        while True:
            self._news.clear()
            standing = asyncio.create_task(self._as_things_stand())
            changed = asyncio.create_task(self._news.wait())
            try:
                await asyncio.wait({standing, changed}, return_when=asyncio.FIRST_COMPLETED)
                if standing.done():
                    standing.result()
                    await changed
            finally:
                standing.cancel()
                changed.cancel()

    async def renew(self, announcer: Announcer) -> None:
        """Make a fresh certificate, have it trusted, serve with it, and retire the old one."""
        old, new = self._server.certificate, certificates.make(self._server.hosts)
        await announcer.trust(new.ca_pem)
        self._server.serve_with(new)
        _log.info("certificate replaced", not_after=new.not_after.isoformat())
        await announcer.trust(new.ca_pem, retired=(old.ca_pem,))

    async def leave(self) -> None:
        """Have the API server call nobody who is going; who answers goes on until that is so, or nobody says it."""
        server, announcer = self._server, self._announcer
        forgotten = announcer is None or await announcer.leave(
            server.certificate.ca_pem, server.address, server.port,
            drain_s=server.options.drain_s, within_s=FORGET_WITHIN_S, draining=self._draining,
        )  # fmt: skip
        self._draining()
        if announcer is not None and not forgotten:
            _log.warning(
                "webhook configurations may be left behind", name=announcer.target.name,
                do="nothing waits for them but objects whose webhook has the policy Fail: "
                "then delete them if this endpoint does not come back",
            )  # fmt: skip

    def _draining(self) -> None:
        self._health.not_ready = "stopping"

    async def _as_things_stand(self) -> None:
        held, announcement = self._held(), self._announcement()
        if held.acts and announcement is not None:
            if self._announcer is None:
                self._announcer = Announcer(self._log, Writer(self._name), self._clock, announcement)
            self._announcer.announcement = announcement
            await self._be_trusted(self._announcer)
            await self._stay_trusted(self._announcer)
        await self._be_forgotten()
        self._health.not_ready = self._health.note = ""
        if not held.acts:
            self._health.note = f"{held.mode}: {held.why}, no webhook is registered"
            _log.info("no webhook is registered", mode=held.mode, why=held.why)

    async def _be_trusted(self, announcer: Announcer) -> None:
        trusting = asyncio.create_task(announcer.trust(self._server.certificate.ca_pem))
        try:
            while not trusting.done():
                self._health.not_ready = announcer.problem
                await asyncio.wait([trusting], timeout=0.2)
            trusting.result()
        finally:
            trusting.cancel()
        self._health.not_ready = self._health.note = ""
        _log.info("the API server trusts this replica")

    async def _stay_trusted(self, announcer: Announcer) -> Never:
        """Say now and then that this replica is there, and replace its certificate in time."""
        loop = asyncio.get_running_loop()
        announce_at = loop.time() + ANNOUNCE_EVERY_S
        while True:
            await asyncio.sleep(ROTATION_CHECK_S)
            if datetime.now(UTC) >= self._server.certificate.renew_at():
                await self.renew(announcer)
            elif loop.time() >= announce_at:
                await announcer.trust(self._server.certificate.ca_pem)
            else:
                continue
            announce_at = loop.time() + ANNOUNCE_EVERY_S

    async def _be_forgotten(self) -> None:
        """Take the webhook out, where it was registered. Until then who is called answers."""
        if self._announcer is None:
            return
        ca, alone = self._server.certificate.ca_pem, self._server.address.is_ours_alone(self._server.port)
        while not await self._announcer.forget(ca, alone=alone, within_s=FORGET_AGAIN_S):
            _log.warning("the webhook is not taken out yet", do="check that the actuator runs")
        self._announcer = None
