"""Which propeller fleets there are: the part `shardmanager` of the configuration.

    managers:
    - namespace: flyte          # of the pods, where the original's POD_NAMESPACE pointed
      brand: flyte              # whose defaults: flyte or kozmo
      environment: {}           # the original's environment: MANAGER.SHARD.SHARD_COUNT, POD_NAME, ...
      config: {manager: {...}}  # the original's configuration tree, as it is

The tree is the one that the original reads, so taking over a fleet needs no new configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.shardmanager.propeller import config_read
from tidewright.shardmanager.propeller.config import BRANDS, KOZMO, Brand, ManagerConfig, defaults
from tidewright.shardmanager.propeller.election import Election
from tidewright.shardmanager.propeller.election_read import read_election
from tidewright.shardmanager.propeller.pods import manager_pod

NAME = "shardmanager"
KEYS = frozenset({"namespace", "brand", "environment", "config"})
"""Of an entry."""


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, read. Whether it is acted upon is another question (`fleet_verdict`).

    Attributes:
        entry: as it is configured.
        manager_pod: the pod whose owner references the shards inherit; empty: none.
    """

    entry: JsonObject
    config: ManagerConfig
    namespace: str
    manager_pod: str = ""
    metrics_prefix: str = KOZMO.metrics_prefix
    election: Election = Election()

    @property
    def key(self) -> str:
        """Of the fleet."""
        return f"{self.namespace}/{self.config.pod_application}"


def read_fleets(data: JsonObject) -> list[FleetConfig]:
    """All fleets of a configuration, in its order."""
    entries = data.get("managers") or ()
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return []
    return [parsed(entry) for entry in entries if isinstance(entry, dict)]


def parsed(entry: JsonObject) -> FleetConfig:
    """What an entry says; defaults stand where it cannot be read."""
    base = defaults(brand_of(entry) or KOZMO)
    environment = environment_of(entry)
    namespace = str(entry.get("namespace") or "")
    pod, where = manager_pod({"POD_NAMESPACE": namespace, **environment}, base.pod_template_namespace)
    tree = map_of(entry, "config")
    return FleetConfig(
        entry=entry,
        config=config_read.parsed(config_read.with_environment(tree, environment), base).config,
        namespace=where,
        manager_pod=pod,
        metrics_prefix=_metrics_prefix(entry, brand_of(entry) or KOZMO),
        election=read_election(tree, where, environment).election,
    )


def brand_of(entry: Mapping[str, Any]) -> Brand | None:
    """Whose defaults count; None for a brand that there is not."""
    name = str(entry.get("brand") or KOZMO.namespace)
    return next((brand for brand in BRANDS if brand.namespace == name.lower()), None)


def environment_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """The original's environment."""
    return {str(name): str(value) for name, value in map_of(entry, "environment").items()}


def map_of(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A map that an entry has under a key; empty where something else stands there, which the verdict refuses."""
    value = entry.get(key)
    return value if isinstance(value, Mapping) else {}


def _metrics_prefix(entry: Mapping[str, Any], brand: Brand) -> str:
    """Of the original's series: `propeller.metrics-prefix`, else the brand's."""
    given = map_of(map_of(entry, "config"), "propeller").get("metrics-prefix")
    return given if isinstance(given, str) and given else brand.metrics_prefix
