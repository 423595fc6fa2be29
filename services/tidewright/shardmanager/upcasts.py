"""States as earlier versions stored them, made into those of now. Pure, and of no code that changes with the state.

4 -> 5    a fleet's pass is as it was begun, and what was last recorded stands instead of a text and flags; a
          set remembers when it was answered and what moved, not until when that counts
5 -> 6    a spec, and an entry of our own services, is kept as it was read, and judged by who acts upon it; a fleet's
          counters are the process's; of sizes what was done is kept, not the period that follows from it
6 -> 7    a fleet's entry is kept as it is configured, and judged by who acts upon it; locks to be given back are not kept
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

from tidewright.host.fold.decider import StoredState, Upcast

_REFUSED = re.compile(r"failed to create pod '[^']*' \[(.*)\]", re.DOTALL)


def passes_as_begun(state: StoredState) -> StoredState:
    """From version 4: what was touched stood in the state, and passes were judged while folding."""
    state.pop("touched", None)
    for lock in state.get("returned", []):
        _lock(lock)
    for fleet in state.get("fleets", {}).values():
        _fleet(fleet)
    for shard_set in state.get("sets", {}).values():
        _set(shard_set)
    return state


def _set(shard_set: dict[str, Any]) -> None:
    refused = shard_set.get("refused", {})
    shard_set["answers"] = {
        effect: until - (10.0 if effect in refused else 30.0)
        for effect, until in shard_set.pop("holds", {}).items()
    }
    cooldown_s = shard_set.get("spec", {}).get("cooldown_s", 600.0)
    shard_set["moved_at"] = {slot: until - cooldown_s for slot, until in shard_set.pop("cooling", {}).items()}
    if basis := shard_set.get("basis", ""):
        shard_set["basis"] = blake2b(basis.encode(), digest_size=8).hexdigest()
    shard_set["sized"] = shard_set.pop("size", 0)


def _fleet(fleet: dict[str, Any]) -> None:
    begun_at, current, last = fleet.pop("begun_at", 0.0), fleet.pop("current", None), fleet.pop("last", None)
    rival_at, again = fleet.pop("rival_at", 0.0), fleet.pop("again", False)
    fleet.pop("unreported", None)
    fleet.pop("rearm", None)
    fleet["scanned"] = fleet.get("passes", 0) > 0
    names = _names(fleet["config"])
    if current is not None and current["stage"] != "done":
        fleet["current"] = _pass(current, names, begun_at, again=again)
    if fleet.get("rival"):
        fleet["other_makers"] = {"": {"pod": fleet["rival"], "at": rival_at}}
    lock = fleet.get("lock")
    standing_by = lock is not None and lock.get("until") is None
    if lock is not None:
        _lock(lock)
    if fleet.pop("reported", ""):
        last = last or {}
        fleet["recorded"] = {
            "created": last.get("created", 0),
            "deleted": last.get("deleted", 0),
            "running": last.get("running"),
            "adopted": len(set(names).intersection(last.get("existing", ()))),
            "foreign": last.get("foreign", []),
            "drifted": fleet.get("drifted", []),
            "error": fleet.get("refused", "") or _outcome(last),
            "pass_error": _outcome(last),
            "standing_by": standing_by,
            "warnings": fleet.get("warnings", []),
        }


def _pass(current: dict[str, Any], names: list[str], begun_at: float, *, again: bool) -> dict[str, Any]:
    taken = set(current["existing"])
    deleting = current["stage"] == "deleting"
    creations = [index for index, name in enumerate(names) if name not in taken]
    return {
        "begun_at": begun_at,
        "deletions": current["deletions"],
        "creations": creations if deleting else current["creations"],
        "running": current["counted"],
        "adopted": len(taken.intersection(names)),
        "foreign": current["foreign"],
        "deleted": current["deleted"],
        "created": current["created"],
        "refusals": {index: _REFUSED.sub(r"\1", why) for index, why in current["errors"].items()},
        "again": again,
    }


def _outcome(last: dict[str, Any]) -> str:
    errors = last.get("errors", {})
    error = last.get("error") or "".join("\n" + errors[index] for index in sorted(errors, key=int))
    return f"failed to create pod(s) [{error}]" if error else ""


def _names(config: dict[str, Any]) -> list[str]:
    shard = config["shard"]
    count = shard["shard_count"] if shard["type"] == "Hash" else len(shard["per_shard_mapping"])
    return [f"{config['pod_application']}-{index}" for index in range(count)]


def _lock(lock: dict[str, Any]) -> None:
    until = lock.pop("until", None)
    if until is not None:
        lock["held_from"] = until - lock["election"]["renew_deadline_s"]


_FLEET_COUNTERS = ("round_ms", "round_ms_total", "rounds", "passes", "created_total", "deleted_total")


def specs_as_read(state: StoredState) -> StoredState:
    """From version 5: verdicts stood in the state."""
    for fleet in state.get("fleets", {}).values():
        for counter in _FLEET_COUNTERS:
            fleet.pop(counter, None)
        if fleet.get("current") is not None:
            fleet["current"].pop("begun_at", None)
    for where, service in state.get("services", {}).items():
        _service(where, service)
    for shard_set in state.get("sets", {}).values():
        _follower(shard_set.get("follower"))
        spec = shard_set.setdefault("spec", {})
        if problems := shard_set.pop("problems", []):
            # What was asked for is not known any more: it stays refused until its object is observed again.
            shard_set["unread"], shard_set["asked"] = problems, spec
        spec.pop("notices", None)
        source = spec.pop("source", "customResource")  # stood there also where none was given
        given = source != "customResource" or spec.get("objects", {}).get("kind")
        spec["sources"] = [source] if given else []
        if spec.pop("gate_refused", ""):
            spec["mode"] = "gate"
    return state


def _service(where: str, service: dict[str, Any]) -> None:
    _follower(service.get("follower"))
    bounds = {"min": "least", "max": "most", "capacity": "capacity", "target": "target"}
    said = {key: service.pop(field) for key, field in bounds.items() if field in service}
    # One that was refused stays so, by a key that no entry has, until the configuration is said again.
    refused = service.pop("refused", "")
    more = {"refused": refused} if refused else {"min": 1, "max": 1, "capacity": 1.0, "target": 1.0, **said}
    service["entry"] = {"name": service.get("name", ""), "deployment": where, **more}


def _follower(follower: dict[str, Any] | None) -> None:
    if follower is None:
        return
    began, before = follower.pop("growth_started_at", None), follower.pop("grown_from", 0)
    if began is not None:
        follower["growths"] = [{"at": began, "before": before}]


def entries_as_configured(state: StoredState) -> StoredState:
    """From version 6: verdicts on fleets' entries stood in the state, and the entries did not."""
    state.pop("returned", None)
    for fleet in state.get("fleets", {}).values():
        judged = {"refused": fleet.pop("refused", ""), "warnings": fleet.pop("warnings", [])}
        fleet["judged"] = judged
        if judged["refused"]:
            fleet["void"], fleet["asked"] = True, {}
            if fleet.get("recorded") is not None:
                fleet["recorded"]["refused"] = True
    return state


UPCASTS: dict[int, Upcast] = {4: passes_as_begun, 5: specs_as_read, 6: entries_as_configured}
"""By the version that a state is of."""
