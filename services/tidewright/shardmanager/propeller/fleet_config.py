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
from tidewright.shardmanager.propeller.config import BRANDS, KOZMO, Brand, ManagerConfig, defaults
from tidewright.shardmanager.propeller.config_read import read, with_environment
from tidewright.shardmanager.propeller.election import Election
from tidewright.shardmanager.propeller.election_read import read_election
from tidewright.shardmanager.propeller.pods import manager_pod

NAME = "shardmanager"
KEYS = frozenset({"namespace", "brand", "environment", "config"})
"""Of an entry."""


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, read.

    Attributes:
        manager_pod: the pod whose owner references the shards inherit; empty: none.
        refused: why it cannot be acted upon, empty when it can.
    """

    config: ManagerConfig
    namespace: str
    manager_pod: str = ""
    metrics_prefix: str = KOZMO.metrics_prefix
    election: Election = Election()
    refused: str = ""
    warnings: tuple[str, ...] = ()


def read_fleets(data: JsonObject) -> list[FleetConfig]:
    """All fleets of a configuration, in its order.

    Of two for the same application in one namespace the later is refused: two managers with
    different configurations would undo each other.
    """
    entries = data.get("managers") or ()
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return []
    fleets: list[FleetConfig] = []
    taken: set[tuple[str, str]] = set()
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        fleet = _read_fleet(entry)
        key = (fleet.namespace, fleet.config.pod_application)
        if key in taken:
            message = "a second manager with another configuration generation stays passive"
            fleet = msgspec.structs.replace(fleet, refused=message)
        taken.add(key)
        fleets.append(fleet)
    return fleets


def _read_fleet(entry: Mapping[str, Any]) -> FleetConfig:
    name = str(entry.get("brand") or KOZMO.namespace)
    brand = next((b for b in BRANDS if b.namespace == name.lower()), None)
    base = defaults(brand or KOZMO)
    environment = {str(k): str(v) for k, v in (entry.get("environment") or {}).items()}
    namespace = str(entry.get("namespace") or "")
    pod, where = manager_pod({"POD_NAMESPACE": namespace, **environment}, base.pod_template_namespace)
    reading = read(with_environment(entry.get("config") or {}, environment), base)
    refused = [f.message for f in reading.refusals(native=False)]
    election = read_election(entry.get("config") or {}, where, environment)
    refused += election.refused
    if brand is None:
        refused.insert(0, f"managers: brand is {name!r}, expected one of {_brands(BRANDS)}")
    if unknown := sorted(set(entry) - KEYS):
        refused.insert(0, f"managers: unknown key {unknown[0]!r}, expected {', '.join(sorted(KEYS))}")
    if reading.config.pod_template_namespace != where:
        refused.append(
            f"manager.pod-template-namespace is {reading.config.pod_template_namespace!r} and the pods are in "
            f"{where!r}: a fleet is decided upon in one namespace, put its template there"
        )
    return FleetConfig(
        config=reading.config,
        namespace=where,
        manager_pod=pod,
        metrics_prefix=_metrics_prefix(entry, brand or KOZMO),
        election=election.election,
        refused=refused[0] if refused else "",
        warnings=(*(f.message for f in reading.warnings(native=False)), *election.warnings),
    )


def _metrics_prefix(entry: Mapping[str, Any], brand: Brand) -> str:
    """Of the original's series: `propeller.metrics-prefix`, else the brand's."""
    section = (entry.get("config") or {}).get("propeller") or {}
    given = section.get("metrics-prefix") if isinstance(section, Mapping) else None
    return given if isinstance(given, str) and given else brand.metrics_prefix


def _brands(brands: Sequence[Brand]) -> str:
    return ", ".join(brand.namespace for brand in brands)
