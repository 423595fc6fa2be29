"""Cases about the life of requests: taken up, tried, retried, expired, collected, and their conditions.

A kind is a call of the functions of `tidewright.provisioning.requests`; `provreq-lifecycle` alone is
played through the whole decider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_life import Cluster, run_life
from tests.vectors.provisioning_played import ordered, played, tell_request
from tests.vectors.provisioning_world import NOW, Entry, Found, wanted
from tests.vectors.reference import provisioning as reference
from tests.vectors.suite import Case, differences
from tidewright.events import provisioning as p
from tidewright.events.decisions import SetStatus
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle
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
    """The first turn, by the whole decider, with the requests that the original has in it.

    Its batches are of checks; without one it tries a request at a time, and ours all that are due.
    """
    options = case["options"]
    due = [r for r in case["requests"] if not r.get("conditions")]
    checks = [r for r in due if w.candidate_of(r).mode is Mode.CHECK]
    together = checks if options["batch"] and options["max_batch_size"] > 1 and checks else due[:1]
    cluster = played(
        case,
        **{
            "quiet-window": "0s",
            "check-capacity-batch-processing": options["batch"],
            "check-capacity-provisioning-request-max-batch-size": options["max_batch_size"],
            "check-capacity-provisioning-request-batch-timebox": f"{options['timebox']}s",
        },
    )
    for request in case["requests"]:
        if request.get("conditions") or request in together:
            tell_request(cluster, request)
    stored = {r["name"]: w.candidate_of(r).conditions for r in case["requests"]}
    before = dict(stored)
    while stored == before:
        cluster.fire()
        stored |= {name: tuple(cluster.conditions(name).values()) for name in _written(cluster)}
    results = [(_result({**case, "process": name}, stored[name]), "") for name in _written(cluster)]
    provisioned = [c.status for kept in stored.values() for c in kept if c.type == cond.PROVISIONED]
    actual = {
        "result": reference.combined(results)[0],
        "provisioned_true": provisioned.count("True"),
        "provisioned_false": provisioned.count("False"),
    }
    return differences(wanted(case), actual)


def _written(cluster: Cluster) -> list[str]:
    return [key.partition("/")[2] for key in cluster.statuses]


def batch_status(case: Case) -> Found:
    result, error = reference.combined([(s["result"], s.get("error", "")) for s in case["statuses"]])
    actual = {
        "result": result,
        "error": error or None,
        "returned_error": error if result == "Error" else None,
    }
    return differences(wanted(case), actual)


def pickup(case: Case) -> Found:
    """Which requests have a turn, by the whole decider, in a cluster without room: each is written what came of it."""
    return pickup_steps(case) if "steps" in case else turns(case)


def accepted_since(case: Case) -> bool:
    """Whether a case expects the one thing that the original does otherwise: `Accepted` anew of what was accepted before."""
    return "steps" not in case and bool(turns(case)) and not turns(case, anew=True)


def turns(case: Case, *, anew: bool = False) -> Found:
    """Where requests have other turns; `anew`: those that were accepted before are so from now on, as by the original."""
    options, expected = case["options"], wanted(case)
    cluster = played(
        case,
        **{
            "quiet-window": "0s",
            "provisioning-request-initial-backoff-time": f"{options.get('initial_backoff', 60)}s",
            "provisioning-request-max-backoff-time": f"{options.get('max_backoff', 600)}s",
            "check-capacity-processor-instance": options.get("processor_instance", ""),
            "check-capacity-batch-processing": options.get("batch", False),
        },
    )
    for request in case["requests"]:
        tell_request(cluster, request)
    cluster.advance(0.0)
    injected = 0
    accepted: dict[str, bool] = {}
    found: Found = []
    for request in case["requests"]:
        stored = cluster.conditions(request["name"])
        if not stored:
            continue
        tried = stored.get(cond.PROVISIONED)
        injected += sum(s["count"] for s in request["podsets"]) if tried and tried.changed_at == NOW else 0
        # In batches the original writes it with what is found, and here nothing is.
        now_set = None if options.get("batch") else stored.get(cond.ACCEPTED)
        accepted[request["name"]] = now_set is not None and now_set.changed_at == NOW
        before = w.candidate_of(request).conditions
        if anew and tried and cond.is_true(before, cond.ACCEPTED):
            accepted[request["name"]] = reference.accepted_anew(before, NOW)
        found += condition_differences(expected, tuple(stored.values()))
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
    cluster = played(case, **{"quiet-window": "0s"})
    for request in requests:
        tell_request(cluster, request, templates=False)
    cluster.advance(0.0)
    written = {f"{d.target.namespace}/{d.target.name}": d.status for d in cluster.of(SetStatus)}
    names = {r["name"]: f"{r.get('namespace', 'ns')}/{r['name']}" for r in requests}
    # The original writes so many in one loop, and the others in the next ones; ours writes them all.
    first_ones = [key for key in names.values() if key in written][: case["options"]["max_updates"]]
    by_name = {key: written[key] for key in first_ones}
    expected = wanted(case)
    found: Found = []
    if "conditions_exact" in expected:
        first = requests[0]
        status = by_name.get(f"{first.get('namespace', 'ns')}/{first['name']}")
        stored = w.conditions_of(first["conditions"]) if status is None else cond.parse(status["conditions"])
        found += condition_differences(expected, stored)
    actual = {
        "updated": [name for name, key in names.items() if key in by_name],
        "not_updated": [name for name, key in names.items() if key not in by_name],
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
