"""Every service, one line each. Supervisor, `tidewright run`, AsyncAPI and deployment derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a service may do, and to whom it talks."""

    WATCHER = "watcher"  # reads the cluster, writes facts
    DECIDER = "decider"  # reads the log, writes decisions; holds no cluster credentials
    ACTUATOR = "actuator"  # reads decisions, writes to the cluster, and outcomes


@dataclass(frozen=True)
class Service:
    """One service.

    Attributes:
        name: on the bus, on the command line and in the logs.
        role: decides its permissions and how it is started.
        main: `module:attribute` of what runs it, imported only when it is run. A watcher or
            actuator has `run(options)`; a decider is an instance of `Decider`.
        summary: for `tidewright run --help`.
    """

    name: str
    role: Role
    main: str
    summary: str


SERVICES: tuple[Service, ...] = (
    Service("watcher", Role.WATCHER, "tidewright.watcher.main:run", "what the cluster says, as facts"),
    Service("autoscaler", Role.DECIDER, "tidewright.autoscaler.decide:DECIDER", "WatermarkPodAutoscalers"),
    Service(
        "provisioning",
        Role.DECIDER,
        "tidewright.provisioning.decide:DECIDER",
        "nodes and ProvisioningRequests",
    ),
    Service("spread", Role.DECIDER, "tidewright.spread.decide:DECIDER", "WorkloadSpreads"),
    Service("shard-manager", Role.DECIDER, "tidewright.shardmanager.decide:DECIDER", "shards of controllers"),
    Service("actuator", Role.ACTUATOR, "tidewright.actuator.main:run", "decisions made true, as outcomes"),
)

BY_NAME: dict[str, Service] = {service.name: service for service in SERVICES}
