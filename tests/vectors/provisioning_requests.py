"""Cases about the life of requests: taken up, tried, retried, expired, collected, and their conditions.

A kind is a call of the functions of `tidewright.provisioning.requests`; `provreq-lifecycle` alone is
played through the whole decider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_life import run_life
from tests.vectors.provisioning_played import ordered, played, tell_request
from tests.vectors.provisioning_world import NOW, Entry, Found, wanted
from tests.vectors.reference import provisioning as reference
from tests.vectors.suite import Case, differences
from tidewright.events import provisioning as p
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle, spec
from tidewright.provisioning.requests.booking import booking
from tidewright.provisioning.requests.search import search
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.scaleup.plans import NO_OPTIONS, NOT_NEEDED, NOT_TRIED, SUCCESSFUL


def provision(case: Case) -> Found:
    """One request's turn, by the whole decider: those that have conditions already are there, the others come later."""
    expected = wanted(case)
    cluster = played(case)
    for request in case["requests"]:
        if request.get("conditions") or request["name"] == case["process"]:
            tell_request(cluster, request)
    cluster.settle()
    stored = tuple(cluster.conditions(case["process"] or "").values())
    actual: dict[str, Any] = {
        "result": _result(case, stored),
        "scale_up": ordered(cluster),
        "failed_true": int(cond.is_true(stored, cond.FAILED)),
    }
    if made := cluster.of(p.CreateNodeGroup):
        actual["new_group_machine_type"] = made[0].machine_type
    plain = {k: v for k, v in expected.items() if not k.startswith("conditions")}
    found = differences(plain, actual) + condition_differences(expected, stored)
    if "scale_up" in expected and actual["scale_up"] != expected["scale_up"]:
        found.append(f"$.scale_up: expected {expected['scale_up']}, found {actual['scale_up']}")
    return found


def _result(case: Case, stored: Sequence[cond.Condition]) -> str:
    """How the original names what the conditions of a request say."""
    request = next((r for r in case["requests"] if r["name"] == case["process"]), None)
    said = next((c for c in stored if c.type in (cond.PROVISIONED, cond.FAILED)), None)
    if request is None or said is None:
        return NOT_TRIED
    if said.type == cond.FAILED or said.status != "True":
        return NO_OPTIONS
    nothing_ordered = said.reason == "CapacityIsFound" and w.candidate_of(request).mode is not Mode.CHECK
    return NOT_NEEDED if nothing_ordered else SUCCESSFUL


def condition_differences(expected: Entry, stored: Sequence[cond.Condition]) -> Found:
    found: Found = []
    entries = w.as_entries(stored)
    for condition in expected.get("conditions", ()):
        there = next((c for c in entries if c["type"] == condition["type"]), {})
        found += differences(condition, there, f"$.conditions[{condition['type']}]")
    for kind in expected.get("conditions_absent", ()):
        if cond.find(stored, kind) is not None:
            found.append(f"$.conditions[{kind}]: expected none")
    if "conditions_exact" in expected:
        found += differences(expected["conditions_exact"], entries, "$.conditions")
    return found


def batch(case: Case) -> Found:
    world = w.world_of(case)
    options = case["options"]
    states = {r["name"]: w.candidate_of(r) for r in case["requests"]}
    requests = {r["name"]: r for r in case["requests"]}
    due = [c for c in states.values() if eligible_now(c)]
    # The reference's batches are of checks; without one it tries a request at a time, ours all that are due.
    checks = [c for c in due if c.mode is Mode.CHECK]
    size = options["max_batch_size"] if options["batch"] and checks else 0
    turn = lifecycle.within_timebox(
        checks if size > 1 else due, batch_size=size, timebox_s=options["timebox"]
    )
    turn = turn if size > 1 else turn[:1]
    results: list[tuple[str, str]] = []
    provisioned: dict[str, str] = {}
    for name, candidate in states.items():
        before = cond.find(candidate.conditions, cond.PROVISIONED)
        if before is not None:
            provisioned[name] = before.status
        if cond.is_true(candidate.conditions, cond.PROVISIONED):
            for item in booking(candidate.conditions, w.asked_of(requests[name]).sets, ()).items:
                world.grid.place(item.shape, item.count)
    for candidate in turn:
        assert candidate.mode is not None
        made = search(candidate.mode, w.asked_of(requests[candidate.name]), world)
        results.append((made.result, made.error))
        for condition in made.conditions:
            if condition.type == cond.PROVISIONED:
                provisioned[candidate.name] = condition.status
    actual = {
        "result": reference.combined(results)[0],
        "provisioned_true": sum(s == "True" for s in provisioned.values()),
        "provisioned_false": sum(s == "False" for s in provisioned.values()),
    }
    return differences(wanted(case), actual)


def eligible_now(candidate: lifecycle.Candidate, wait_s: float | None = None) -> bool:
    return lifecycle.eligible(candidate, NOW, wait_s, initial_s=60, maximum_s=600).tried


def batch_status(case: Case) -> Found:
    result, error = reference.combined([(s["result"], s.get("error", "")) for s in case["statuses"]])
    actual = {
        "result": result,
        "error": error or None,
        "returned_error": error if result == "Error" else None,
    }
    return differences(wanted(case), actual)


def pickup(case: Case) -> Found:
    options, expected = case["options"], wanted(case)
    if "steps" in case:
        return pickup_steps(case)
    instance = options.get("processor_instance", "")
    injected = 0
    accepted: dict[str, bool] = {}
    found: Found = []
    due: list[lifecycle.Candidate] = []
    requests = {r["name"]: r for r in case["requests"]}
    for request in case["requests"]:
        candidate = w.candidate_of(request, instance)
        wait = case.get("backoff", {}).get(request["name"])
        verdict = lifecycle.eligible(
            candidate,
            NOW,
            wait,
            initial_s=options.get("initial_backoff", 60),
            maximum_s=options.get("max_backoff", 600),
        )
        if verdict.tried:
            due.append(candidate)
    for candidate in lifecycle.in_order(due)[:1]:
        request = requests[candidate.name]
        stored = candidate.conditions
        missing = request.get("missing_templates", [])
        referenced = [s.get("template", "") for s in request["podsets"]]
        absent = [name for name in referenced if name in missing]
        if absent:
            message = spec.missing_templates_message(len(referenced), absent)
            stored = cond.with_condition(stored, cond.failed_to_create_pods(message), NOW)
        else:
            injected += sum(s["count"] for s in request["podsets"])
            together = options.get("batch", False) and candidate.mode is Mode.CHECK
            if not together:  # in batches it is written with the result
                stored = cond.with_condition(stored, cond.ACCEPT, NOW, refresh=True)
        now_set = cond.find(stored, cond.ACCEPTED)
        accepted[candidate.name] = now_set is not None and now_set.changed_at == NOW
        found += condition_differences(expected, stored)
    actual = {
        "injected_pods": injected,
        "pending_pods": case.get("pending_pods", 0) + injected,
        "accepted_now": accepted,
    }
    return found + differences({k: v for k, v in expected.items() if k != "conditions"}, actual)


def pickup_steps(case: Case) -> Found:
    options = case["options"]
    candidate = w.candidate_of(case["request"])
    wait: float | None = None
    found: Found = []
    for step in case["steps"]:
        now = NOW + step["at"]
        verdict = lifecycle.eligible(
            candidate, now, wait, initial_s=options["initial_backoff"], maximum_s=options["max_backoff"]
        )
        if verdict.tried != step["eligible"]:
            found.append(f"$.steps[at {step['at']}]: expected {step['eligible']}, found {verdict.tried}")
        if verdict.tried:
            wait = verdict.next_wait_s
        if step.get("then") == "Provisioned=False":
            stored = cond.with_condition(candidate.conditions, cond.NOT_FOUND, now, refresh=True)
            candidate = replaced(candidate, conditions=stored)
    return found


def replaced(candidate: lifecycle.Candidate, **changes: Any) -> lifecycle.Candidate:
    return msgspec.structs.replace(candidate, **changes)


def refresh(case: Case) -> Found:
    requests = case.get("requests") or [case["request"]]
    candidates = [w.candidate_of(r) for r in requests]
    # The original writes so many in one loop, and the others in the next ones; ours writes them all.
    written = lifecycle.refresh(candidates, NOW, booking_s=600, expiry_s=604_800)
    written = written[: case["options"]["max_updates"]]
    by_name = {candidate.name: condition for candidate, condition in written}
    expected = wanted(case)
    found: Found = []
    if "conditions_exact" in expected:
        stored = candidates[0].conditions
        if candidates[0].name in by_name:
            stored = cond.with_condition(stored, by_name[candidates[0].name], NOW)
        found += condition_differences(expected, stored)
    names = [c.name for c in candidates]
    actual = {
        "updated": [n for n in names if n in by_name],
        "not_updated": [n for n in names if n not in by_name],
    }
    return found + differences({k: v for k, v in expected.items() if k in actual}, actual)


def alternate(case: Case) -> Found:
    handled = reference.handled_kinds(
        "ordinary" in case["pods"], "request" in case["pods"], case["mode"], len(case["expected"]["handled"])
    )
    return differences(wanted(case), {"handled": handled})


KINDS: dict[str, Callable[[Case], Found]] = {
    "provreq-provision": provision,
    "provreq-batch": batch,
    "provreq-batch-status": batch_status,
    "provreq-pickup": pickup,
    "provreq-refresh": refresh,
    "provreq-alternate": alternate,
    "provreq-lifecycle": run_life,
}
