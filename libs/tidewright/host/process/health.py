"""How a service is, and what it counts; `probes` answers with it over HTTP.

Ready: the bus is connected and the fold has caught up; a standby is ready too. Live: the loop
turned within its budget; ticks count, so quiet is not dead.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tidewright.events.version import __version__
from tidewright.log.redaction import redacted

STARTUP_S = 120.0

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Metrics:
    """A process's metrics: names, help and units in one place. States are labels."""

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        Gauge(
            "tidewright_build_info", "1; the labels say what runs.", ["version", "service"], registry=r
        ).labels(__version__, service).set(1)
        self.ready = Gauge("tidewright_ready", "1 while /readyz says ok.", registry=r)
        self.folded = Counter("tidewright_events_folded_total", "Events folded.", registry=r)
        self.decisions = Counter(
            "tidewright_decisions_total", "Decisions committed, by type.", ["type"], registry=r
        )
        self.commits = Counter(
            "tidewright_commits_total", "Atomic commits, by result.", ["result"], registry=r
        )
        self.commit_seconds = Histogram(
            "tidewright_commit_seconds", "Time from a commit's first byte to its answer.", registry=r
        )
        self.lag = Gauge(
            "tidewright_fold_lag_events", "Events on the log that are not folded yet.", registry=r
        )
        self.slots = Gauge("tidewright_slots_owned", "Slots that this replica decides for.", registry=r)
        self.halted = Gauge(
            "tidewright_slots_halted",
            "Slots stopped by bytes that do not decode, or by a defect.",
            registry=r,
        )
        self.last_event = Gauge(
            "tidewright_last_event_timestamp_seconds", "Log time of the last event folded.", registry=r
        )
        self.unbelieved = Counter(
            "tidewright_unbelieved_messages_total",
            "Messages on the log that are not believed, by cause.",
            ["cause"],
            registry=r,
        )
        self.set_aside = Counter(
            "tidewright_messages_set_aside_total",
            "Messages left out: they do not decode, or are facts of a newer version that are not waited for.",
            registry=r,
        )
        self.errors = Counter("tidewright_errors_total", "Errors, by reason.", ["reason"], registry=r)


@dataclass
class Health:
    """What the probes answer. A service sets `not_ready` to why it is not, and calls `tick`."""

    service: str
    not_ready: str = "starting"
    note: str = ""
    """What a service that is ready says of itself besides: that it is in shadow."""
    halted: str = ""
    """Why it acts on nothing any more, whatever `not_ready` says; only a restart ends that."""
    port: int = 0
    """On which the probes are served, once they are."""
    metrics: Metrics = field(init=False)
    routes: dict[str, Handler] = field(default_factory=dict)
    """What it answers besides, by path, all methods; may be filled while it runs."""
    more_metrics: Callable[[], Awaitable[str]] | None = None
    """Further series in the text form, for `/metrics`."""
    _ticked: float = field(default_factory=lambda: time.monotonic() + STARTUP_S)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.service)
        self.metrics.ready.set_function(lambda: 0.0 if self.unready else 1.0)

    def tick(self) -> None:
        """The loop turned."""
        self._ticked = time.monotonic()

    @property
    def stuck_s(self) -> float:
        """Seconds since the loop last turned."""
        return max(0.0, time.monotonic() - self._ticked)

    @property
    def unready(self) -> str:
        """Why it is not ready; empty when it is."""
        return redacted(self.halted or self.not_ready)

    async def exposition(self) -> bytes:
        """All its series in the text form."""
        own = generate_latest(self.metrics.registry)
        return own if self.more_metrics is None else own + (await self.more_metrics()).encode()
