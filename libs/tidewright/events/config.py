"""Configuration as events: policy arrives on the log, so that a replay sees what the decider saw."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewright.events.base import Fact, JsonObject

PARTS = ("autoscaler", "provisioning", "spread", "shardmanager", "modes")
"""The parts of the configuration that somebody reads."""


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
        source: the ConfigMap, `namespace/name`; empty where that was not said yet.
    """

    name: str
    data: JsonObject = {}
    source: str = ""


Mode = Literal["enforce", "dry-run", "shadow"]
"""How far a service goes: `enforce` acts. `dry-run` decides and says on the object what it would do, and does
nothing else. `shadow` decides, and nothing at all is written to the cluster."""


class ModesSet(Fact, frozen=True, kw_only=True, tag="config.modes-set.v1"):
    """Which services act, and where. Written by the watcher when it changes, from its flags or from its ConfigMap.

    Whole each time: the last one holds. A log without one means `enforce` for everything. Objects say more
    about themselves by an annotation; `tidewright.events.acting` answers from all of it which mode holds.

    Attributes:
        mode: of every service that `services` does not name.
        services: service to its mode.
        selector: the label selector of namespaces as it was given; empty: everywhere. Objects of other
            namespaces are left alone, as in shadow. What is in no namespace is not held back by it.
        namespaces: the namespaces whose labels it selects, sorted.
        regardless: services that act although an incumbent is seen at their work.
    """

    mode: Mode = "enforce"
    services: dict[str, Mode] = {}
    selector: str = ""
    namespaces: tuple[str, ...] = ()
    regardless: tuple[str, ...] = ()


class ServiceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """By which keys a service signs what it writes, and what it may write.

    Attributes:
        service: its name on the bus.
        keys: Ed25519 public keys, base64; several while one takes another's place.
        writes: subject filters without `tw.<cluster>.` (`fact.>`): what it signs elsewhere is not believed.
    """

    service: str
    keys: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class KeysSet(Fact, frozen=True, kw_only=True, tag="config.keys-set.v1"):
    """Whose signature counts for what, from here on. Written by an installer and signed with the root key,
    which no service holds. Whole each time; one of an earlier `generation` is not believed.

    Attributes:
        log: random name of this log, part of every signature, so that one log's are worth nothing on another.
        generation: grows by one with every change.
        history: sequence up to which the log was written without keys; what lies behind needs a signature.
        services: one entry per service that may write.
        root: id of the root key.
        signature: the root key's, over everything here but `at` and `refresh`: so it can be said again, and
            nothing else can be said, without that key.
    """

    log: str
    generation: int
    history: int = 0
    services: tuple[ServiceKeys, ...] = ()
    root: str = ""
    signature: str = ""
