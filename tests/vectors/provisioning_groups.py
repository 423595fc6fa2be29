"""Cases about the state of groups: backoff, readiness, health, time-outs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.vectors.provisioning_world import NOW, Entry, Found, wanted
from tests.vectors.reference.provisioning import unregistered
from tests.vectors.suite import Case, differences
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster import backoff
from tidewright.provisioning.cluster import cluster_state as clusterstate
from tidewright.provisioning.cluster.cluster_state import Counts, Health, InstanceView


def backoff_case(case: Case) -> Found:
    options = case["options"]
    entries: dict[str, backoff.Entry] = {}
    found: Found = []
    for number, step in enumerate(case["steps"]):
        now = NOW + step["at"]
        if "fail" in step:
            entries[step["fail"]] = backoff.after_failure(
                entries.get(step["fail"]),
                now,
                initial_s=options["initial"],
                maximum_s=options["max"],
                code=step.get("code", ""),
            )
        elif "status" in step:
            entry = entries.get(step["status"])
            actual: dict[str, Any] = {"backed_off": backoff.backed_off(entry, now)}
            if actual["backed_off"] and entry is not None:
                actual["code"] = entry.code
            found += differences(
                {k: v for k, v in step.items() if k in ("backed_off", "code")}, actual, f"$.steps[{number}]"
            )
        elif "remove" in step:
            entries.pop(step["remove"], None)
        else:
            entries = {k: e for k, e in entries.items() if not backoff.stale(e, now, options["reset"])}
            found += differences(step["entries"], len(entries), f"$.steps[{number}].entries")
    return found


def counts_of(entry: Entry) -> Counts:
    known = set(Counts.__struct_fields__)
    return Counts(**{k: v for k, v in entry.items() if k in known})


def cluster_state(case: Case) -> Found:
    options, expected = case.get("options", {}), wanted(case)
    if "node" in case:
        node = case["node"]
        readiness = clusterstate.readiness(
            ready=node["ready"],
            age_s=node["age"],
            taints=[Taint(t) for t in node.get("taints", ())],
            startup_s=options["max_node_startup_time"],
        )
        return differences(expected, {"class": readiness.value})
    if "steps" in case:
        return cluster_state_steps(case)
    counts = {name: counts_of(entry) for name, entry in case["groups"].items()}
    health = Health(options.get("ok_unready", 3), options.get("unready_percent", 45.0))
    actual: dict[str, Any] = {
        "acceptable": {n: list(clusterstate.acceptable(c)) for n, c in counts.items()},
        "upcoming": {n: clusterstate.upcoming(c) for n, c in counts.items()},
        "upcoming_registered": {n: c.not_started for n, c in counts.items()},
        "cluster_healthy": clusterstate.cluster_healthy(counts.values(), health),
        "group_healthy": {n: clusterstate.group_healthy(c, health) for n, c in counts.items()},
        "scaling_up": {n: clusterstate.scaling_up(c) for n, c in counts.items()},
        "wrong_size": {
            n: list(pair)
            for n, c in counts.items()
            if (
                pair := clusterstate.wrong_size(
                    case["groups"][n].get("registered", c.registered), c.target, c.unregistered
                )
            )
        },
    }
    if "instances" in case:
        failures = clusterstate.failures(map(instance_of, case["instances"]))
        actual["failed_creations"] = {code: n for (_, code), n in failures.items()}
    if "max_node_provision_time" in options:
        actual.update(timeouts(case, counts))
    found = differences(expected, actual)
    if "wrong_size" in expected and set(expected["wrong_size"]) != set(actual["wrong_size"]):
        found.append(f"$.wrong_size: expected {expected['wrong_size']}, found {actual['wrong_size']}")
    return found


def timeouts(case: Case, counts: Mapping[str, Counts]) -> dict[str, Any]:
    options = case["options"]
    decrease: dict[str, int] = {}
    dropped: list[str] = []
    events: list[str] = []
    failure: dict[str, Any] = {}
    for name, count in counts.items():
        requested = NOW + case["groups"][name].get("requested_at", 0)
        late = clusterstate.timed_out(name, count, requested, NOW, options["max_node_provision_time"])
        if late is None:
            continue
        # The reference takes back the whole increase; so do cases that do not say what ours does.
        ours = "expected_ours" in case
        decrease[name] = -(late.missing if ours else late.increase)
        dropped.append(name)
        events.append(f"ScaleUpTimedOut: {late.event_message}")
        if options.get("decrease_fails"):
            events.append(
                "FailedToRevertScaleUp: "
                + clusterstate.revert_failed_message(name, options["decrease_fails"])
            )
        failure = {
            "group": name,
            "class": clusterstate.OTHER,
            "code": "timeout",
            "delta": late.increase,
            "message": late.failure_message,
        }
    return {
        "decrease_target": decrease,
        "request_dropped": dropped,
        "events": events,
        "failure": failure,
    }


def instance_of(entry: Entry) -> InstanceView:
    error = entry.get("error") or {}
    return InstanceView(
        id=entry["id"],
        state=entry.get("state", ""),
        error_class=error.get("class", 0),
        error_code=error.get("code", ""),
    )


def cluster_state_steps(case: Case) -> Found:
    steps, options = case["steps"], case.get("options", {})
    found: Found = []
    if "registered" in steps[0] and "first_observed" in steps[0]:
        seen: tuple[tuple[int, int], float] | None = None
        for step in steps:
            pair = (step["registered"], case["target"])
            now = NOW + step["at"]
            first = clusterstate.first_observed(seen, pair, now)
            seen = (pair, first)
            found += differences(step["first_observed"], first - NOW, f"$.steps[at {step['at']}]")
        return found
    if "instances" in steps[0]:
        return unregistered_steps(case)
    name = next(iter(case["groups"]))
    counts = counts_of(case["groups"][name])
    entry: backoff.Entry | None = None
    for step in steps:
        now = NOW + step["at"]
        text = step.get("event", "")
        code = entry.code if entry is not None else ""
        requested = re.search(r"requested (\d+) s ago", text)
        if requested is not None:
            late = clusterstate.timed_out(
                name,
                counts_of({**case["groups"][name], "increase": 1}),
                now - float(requested[1]),
                now,
                options["max_node_provision_time"],
            )
            if late is not None:
                entry = backoff.after_failure(
                    entry, now, initial_s=options["initial_backoff"], maximum_s=1800, code="timeout"
                )
                code = entry.code
        actual = {
            "safe": not backoff.backed_off(entry, now),
            "healthy": clusterstate.group_healthy(counts, Health()),
            "code": code,
        }
        found += differences(step["expected"], actual, f"$.steps[at {step['at']}]")
    return found


def unregistered_steps(case: Case) -> Found:
    options = case["options"]
    found: Found = []
    name = next(iter(case["groups"]))
    since: dict[str, float] = {}
    for number, step in enumerate(case["steps"]):
        now = NOW + step["at"]
        missing = [i for i in step["instances"] if i not in step["registered"]]
        since = {i: since.get(i, now) for i in missing}
        short, long = unregistered(
            step["instances"], step["registered"], since, now, options["max_node_provision_time"]
        )
        counts = counts_of(
            {
                **case["groups"][name],
                "ready": len(step["registered"]),
                "unregistered": len(short),
                "long_unregistered": len(long),
            }
        )
        actual = {"unregistered": sorted(short + long), "upcoming": clusterstate.upcoming(counts)}
        expected = {k: v for k, v in step.items() if k in actual}
        found += differences(expected, actual, f"$.steps[{number}]")
    return found


KINDS: dict[str, Callable[[Case], Found]] = {
    "backoff": backoff_case,
    "cluster-state": cluster_state,
}
