"""What a spread case expects and what was found, compared by the conventions of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors.suite import differences
from tidewright.events.base import JsonObject


def compare(expected: JsonObject, actual: JsonObject) -> list[str]:
    """What differs, by the conventions of the schema."""
    wanted = dict(expected)
    found: list[str] = []
    for key in ("errorDetail", "note"):
        wanted.pop(key, None)
    if "status" in wanted:
        found.extend(status_differences(wanted.pop("status"), actual.get("status")))
    if "requeueAfterSeconds" in wanted:
        after = wanted.pop("requeueAfterSeconds")
        if abs(after - actual.get("requeueAfterSeconds", 0)) > 1 or (after == 0) != (
            actual["requeueAfterSeconds"] == 0
        ):
            found.append(
                f"$.requeueAfterSeconds: expected {after}, found {actual.get('requeueAfterSeconds')}"
            )
    if "errorFields" in wanted and "errorCount" not in wanted:
        missing = [f for f in wanted.pop("errorFields") if f not in actual.get("errorFields", ())]
        found.extend(f"$.errorFields: {field} is missing in {actual.get('errorFields')}" for field in missing)
    if "errors" in wanted:
        wanted["errors"] = [{"field": e["field"], "type": e["type"]} for e in wanted["errors"]]
    if "events" in wanted and not isinstance(wanted["events"], str):
        wanted["events"] = sorted(wanted["events"])
    for key in ("deletedPods", "deletionCostWrites"):
        if key in wanted:
            wanted[key] = sorted(wanted[key])
    for key in ("adoptions", "deletionCosts", "patch", "adoptionPatches"):
        if key in wanted:
            want, have = (
                plain(wanted.pop(key), costs=key == "deletionCosts"),
                plain(actual.get(key), costs=key == "deletionCosts"),
            )
            if want != have:
                found.append(f"$.{key}: expected {want!r}, found {have!r}")
    for key in ("error", "fault", "generatedUid"):
        if key not in wanted and actual.get(key) not in (None, False):
            found.append(f"$.{key}: expected none, found {actual[key]!r}")
        if wanted.get(key) is None and actual.get(key) is None:
            wanted.pop(key, None)
    found.extend(differences(wanted, actual))
    return found


def plain(value: Any, *, costs: bool = False) -> Any:
    """Without what says the same as its absence: a cost that is not written, empty resources, an empty operator."""
    if isinstance(value, Mapping):
        absent = {
            k
            for k, v in value.items()
            if (k == "resources" and v == {}) or (k == "operator" and v == "") or (costs and v is None)
        }
        return {k: plain(v) for k, v in value.items() if k not in absent}
    return [plain(v) for v in value] if isinstance(value, list) else value


def status_differences(expected: Any, actual: Any, path: str = "$.status") -> list[str]:
    """An omitted map is empty, omitted replicas are 0, a list that is not given is not checked."""
    if isinstance(expected, list):
        return entries_differences(expected, actual, path)
    found: list[str] = []
    expected, actual = expected or {}, actual or {}
    for key, value in expected.items():
        if key == "subsetStatuses":
            found.extend(entries_differences(value or [], actual.get(key) or [], f"{path}.{key}"))
        elif key == "versionedSubsetStatuses":
            have = actual.get(key) or {}
            if {v for v in value or {} if value[v] is not None} != set(have):
                found.append(f"{path}.{key}: expected versions {sorted(value)}, found {sorted(have)}")
                continue
            for version, entries in (value or {}).items():
                found.extend(
                    entries_differences(entries or [], have.get(version) or [], f"{path}.{key}.{version}")
                )
    return found


def entries_differences(expected: Sequence[Any], actual: Sequence[Any], path: str) -> list[str]:
    plain = [entry_plain(e) for e in actual]
    found = []
    if [e.get("name") for e in expected] != [e["name"] for e in plain]:
        return [f"{path}: expected {expected}, found {actual}"]
    for want, have in zip(expected, plain, strict=True):
        full = entry_plain(want)
        if "conditions" not in want:
            full.pop("conditions")
            have = {k: v for k, v in have.items() if k != "conditions"}
        if full != have:
            found.append(f"{path}.{want.get('name')}: expected {full}, found {have}")
    return found


def entry_plain(entry: Mapping[str, Any]) -> JsonObject:
    return {
        "name": entry.get("name"),
        "missingReplicas": entry.get("missingReplicas", 0),
        "replicas": entry.get("replicas", 0),
        "creatingPods": entry.get("creatingPods") or {},
        "deletingPods": entry.get("deletingPods") or {},
        "conditions": entry.get("conditions") or [],
    }
