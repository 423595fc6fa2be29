"""The service's part of the configuration: what in it is not used. Its entries are judged one by one, and told of on their own."""

from __future__ import annotations

from tidewright.events.base import JsonObject
from tidewright.kube.nearest import nearest

LISTS = ("managers", "services")
"""Keys of the part: fleets of the propeller manager, and our own services."""


def problems(data: JsonObject) -> tuple[str, ...]:
    """What in a `ConfigSet` is not used, and what would be."""
    wrong = [
        f"{key}: not a setting of the shard manager; {nearest(key, LISTS)}"
        for key in sorted(set(data) - set(LISTS))
    ]
    for key in LISTS:
        entries = data.get(key)
        if entries and not isinstance(entries, list):
            wrong.append(f"{key}: expected a list of mappings, got {type(entries).__name__}")
        elif entries:
            wrong += [
                f"{key}[{n}]: expected a mapping, got {type(entry).__name__}"
                for n, entry in enumerate(entries)
                if not isinstance(entry, dict)
            ]
    return tuple(wrong)
