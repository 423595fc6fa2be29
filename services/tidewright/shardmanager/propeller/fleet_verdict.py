"""Whether a fleet's entry of the configuration is acted upon, and what is to be said of it all the same."""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.events.base import JsonObject
from tidewright.shardmanager.propeller import config_read
from tidewright.shardmanager.propeller.config import BRANDS, KOZMO, defaults
from tidewright.shardmanager.propeller.election_read import read_election
from tidewright.shardmanager.propeller.fleet import Verdict
from tidewright.shardmanager.propeller.fleet_config import KEYS, brand_of, environment_of, map_of, parsed

SECOND = "a second manager with another configuration generation stays passive"
"""What is said to a fleet of each further entry for it: two managers would undo each other."""


def verdict(entry: JsonObject) -> Verdict:
    """The verdict on an entry; of several reasons to refuse it the first."""
    where, environment = parsed(entry).namespace, environment_of(entry)
    tree, brand = map_of(entry, "config"), brand_of(entry)
    reading = config_read.read(config_read.with_environment(tree, environment), defaults(brand or KOZMO))
    election = read_election(tree, where, environment)
    refused = [*(f.message for f in reading.refusals(native=False)), *election.refused]
    if brand is None:
        known = ", ".join(brand.namespace for brand in BRANDS)
        refused.insert(0, f"managers: brand is {str(entry['brand'])!r}, expected one of {known}")
    refused[:0] = [
        f"managers: {key} is {entry[key]!r}, expected a map"
        for key in ("environment", "config")
        if entry.get(key) is not None and not isinstance(entry[key], Mapping)
    ]
    if unknown := sorted(set(entry) - KEYS):
        refused.insert(0, f"managers: unknown key {unknown[0]!r}, expected {', '.join(sorted(KEYS))}")
    if reading.config.pod_template_namespace != where:
        refused.append(
            f"manager.pod-template-namespace is {reading.config.pod_template_namespace!r} and the pods are in "
            f"{where!r}: a fleet is decided upon in one namespace, put its template there"
        )
    return Verdict(
        refused=refused[0] if refused else "",
        warnings=(*(f.message for f in reading.warnings(native=False)), *election.warnings),
    )
