"""Configuration as events: policy arrives on the log, so that a replay sees what the decider saw."""

from __future__ import annotations

from tidewright.events.base import Fact, JsonObject


class ClockSet(Fact, frozen=True, kw_only=True, tag="config.clock-set.v1"):
    """Maps wall time to log time: `log + (wall_now - wall) * speed`. Identity without one.

    Written by the watcher at the start of a compressed run. Watcher, sim and hosts read it;
    deciders do not know it.

    Attributes:
        wall: wall time in seconds since the epoch at which the mapping starts.
        log: log time at that moment, seconds.
        speed: log seconds per wall second, > 0.
    """

    wall: float
    log: float
    speed: float = 1.0


class ConfigSet(Fact, frozen=True, kw_only=True, tag="config.config-set.v1"):
    """One named part of the configuration, whole. Written by the watcher, from a ConfigMap.

    Attributes:
        name: which part; a decider reads the part of its own service's name.
        data: the values; an empty object is the default.
    """

    name: str
    data: JsonObject = {}
