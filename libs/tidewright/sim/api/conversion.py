"""Conversion between served versions of one stored kind.

Custom resources convert trivially (only `apiVersion` changes). Events are stored once, as core/v1, and
served in two groups that name some fields differently.
"""

from __future__ import annotations

from typing import Any

from tidewright.sim.api.resources import Kind

Object = dict[str, Any]
_CORE_ONLY = ("firstTimestamp", "lastTimestamp", "count", "source")
_CORE_TO_EVENTS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
)


def convert(kind: Kind, api_version: str, obj: Object) -> Object:
    """The object as `api_version`; shares what does not change."""
    if kind.table_name != "/events":
        return obj | {"apiVersion": api_version, "kind": kind.kind}
    result = dict(obj)
    if api_version == "v1" and obj.get("apiVersion") != "v1":
        for core, events in _CORE_TO_EVENTS:
            if events in result:
                result[core] = result.pop(events)
        for core in _CORE_ONLY:
            name = _deprecated(core)
            if name in result:
                result[core] = result.pop(name)
    elif api_version != "v1" and obj.get("apiVersion") == "v1":
        for core, events in _CORE_TO_EVENTS:
            if core in result:
                result[events] = result.pop(core)
        for core in _CORE_ONLY:
            if core in result:
                result[_deprecated(core)] = result.pop(core)
    result["apiVersion"] = api_version
    return result


def _deprecated(core: str) -> str:
    return "deprecated" + core[0].upper() + core[1:]
