"""Reads `propeller.leader-election`, the section that the original's manager elects by (section 1.11)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tidewright.kube.durations import parse_duration
from tidewright.shardmanager.propeller.config import environment_name
from tidewright.shardmanager.propeller.election import Election

PATH = "propeller.leader-election"
LOCK = "lock-config-map"
TIMES = {"lease-duration": 15.0, "renew-deadline": 10.0, "retry-period": 2.0}
"""Keys of times, and their defaults in seconds."""
KEYS = ("enabled", *TIMES)
LOCK_KEYS = ("name", "namespace")


class ElectionReading(msgspec.Struct, frozen=True, kw_only=True):
    """The section, read. `refused` and `warnings` are messages that name the key."""

    election: Election = Election()
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_election(
    config: Mapping[str, Any], namespace: str, environment: Mapping[str, str] = MappingProxyType({})
) -> ElectionReading:
    """The election of a configuration tree; `namespace` is the lock's where none is given.

    Keys may be of any letter case, as the original's flags are; a variable of the environment goes before
    the tree (section 1.2). While the switch is off nothing else is looked at.
    """
    section = _lower(_lower(config.get("propeller")).get("leader-election"))
    lock = _lower(section.get(LOCK))
    for key in KEYS:
        section[key] = environment.get(environment_name(f"{PATH}.{key}"), section.get(key))
    for key in LOCK_KEYS:
        lock[key] = environment.get(environment_name(f"{PATH}.{LOCK}.{key}"), lock.get(key))
    enabled = False if section["enabled"] is None else section["enabled"]
    if isinstance(enabled, str) and enabled.lower() in ("true", "false"):
        enabled = enabled.lower() == "true"
    if not isinstance(enabled, bool):
        return ElectionReading(refused=(f"{PATH}.enabled is {enabled!r}: expected true or false",))
    if not enabled:
        return ElectionReading()
    name = str(lock.get("name") or "")
    times, refused = {}, []
    for key, default in TIMES.items():
        value = section[key]
        try:
            times[key] = default if value is None else parse_duration(str(value))
        except ValueError as error:
            refused.append(f"{PATH}.{key} cannot be read: {error}")
            times[key] = default
    lease, deadline, retry = times.values()
    if not refused and not 0 < retry < deadline < lease:
        refused.append(
            f"{PATH}: retry-period is {retry:g} s, renew-deadline {deadline:g} s and lease-duration {lease:g} s: "
            "each is to be longer than the one before"
        )
    missing = f"{PATH}.{LOCK}.name is empty: no lock is held, and no other manager is noticed by it"
    return ElectionReading(
        election=Election(
            enabled=True,
            namespace=str(lock.get("namespace") or namespace),
            name=name,
            lease_duration_s=lease,
            renew_deadline_s=deadline,
            retry_period_s=retry,
        ),
        refused=tuple(refused),
        warnings=() if name else (missing,),
    )


def _lower(section: Any) -> dict[str, Any]:
    """A section with its keys in lower case; empty when it is no map."""
    return {str(key).lower(): value for key, value in section.items()} if isinstance(section, Mapping) else {}
