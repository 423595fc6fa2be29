"""States as earlier versions of the decider stored them, made into those of the next version. Pure.

2    what an event touched lay in the state; it is passed from `evolve` to `decide` now
3    a target had one spread; it has all that ask for it, the oldest first
4    pods and counts had versions, by the settings then; they have the kind of their controller, and its revision
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.host.fold.decider import StoredState, Upcast
from tidewright.spread.match.pods import VERSION_IGNORED, revision_of, short_hash


def _touched_is_passed_on(stored: StoredState) -> StoredState:
    return {name: value for name, value in stored.items() if name != "touched"}


def _a_target_has_several_spreads(stored: StoredState) -> StoredState:
    """Who waited for a target stood in the words of what is wrong with it. Which of them share it now is judged when one changes."""
    targets = {target: [key] for target, key in stored["targets"].items()}
    for key, spread in stored["spreads"].items():
        if not spread["invalid"].startswith(_TAKEN):
            continue
        for keys in targets.values():
            if keys[0] == f"{spread['namespace']}/{spread['invalid'].removeprefix(_TAKEN)}":
                keys.append(key)
                spread["taken_by"] = spread["invalid"].removeprefix(_TAKEN)
                spread["taken_since"] = stored["now"]
    return {**stored, "targets": targets}


_TAKEN = "spec.targetRef: the target is taken by WorkloadSpread "


def _versions_are_judged(stored: StoredState) -> StoredState:
    """A pod's labels say its revision. Who was in no version though its kind had some has an owner that does not control it."""
    kinds = {uid: workload["kind"]["kind"].lower() for uid, workload in stored["workloads"].items()}
    versioned = set(stored.pop("versioned_kinds"))

    def judged_later(row: dict[str, Any]) -> None:
        version, revision = row.pop("version", ""), revision_of(row.get("labels", {}))
        kind = kinds.get(row.get("owner", ""), "")
        if kind in versioned and version == VERSION_IGNORED != revision:
            kind = ""
        elif not kind and version != VERSION_IGNORED:
            kind = "replicaset"  # its owner is gone: this is the usual one, and has versions whatever is set
        row |= {"kind": kind, "revision": revision}

    for strays in stored["strays"].values():
        for row in strays.values():
            judged_later(row)
    for spread in stored["spreads"].values():
        active: dict[str, dict[str, dict[str, int]]] = {}
        spread["active"] = active
        for row in spread["pods"].values():
            judged_later(row)
            if row.get("phase", 0) < _FINISHED and not row.get("flags", 0) & _DELETING:
                subset = row.get("subset", "") if row.get("placed_by", "") == spread["name"] else ""
                counts = active.setdefault(row["kind"], {}).setdefault(row["revision"], {})
                counts[subset] = counts.get(subset, 0) + 1
        target = stored["workloads"].get(spread["target_uid"])
        if target is not None and kinds[spread["target_uid"]] not in versioned:
            spread["latest"] = short_hash(target["revision"]) or VERSION_IGNORED
    return stored


_FINISHED, _DELETING = 3, 1

UPCASTS: Mapping[int, Upcast] = {
    2: _touched_is_passed_on,
    3: _a_target_has_several_spreads,
    4: _versions_are_judged,
}
"""By the version that a state has: how it becomes one of the next."""
