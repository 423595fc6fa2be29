"""Cases from pods to one plan: packing, options, expanders, limits and balancing.

`scale-up` asks the whole decider what is ordered; which options there were, and for which pods nothing is done, is read from
the plan, which is carried out with the saga where the cloud of a case refuses something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_played import ordered, scaled
from tests.vectors.provisioning_world import NOW, Entry, Found, wanted
from tests.vectors.reference.provisioning import FastClass, Sets, equivalence, fast_class, reported
from tests.vectors.reference.provisioning import reasons as reasons_of
from tests.vectors.suite import Case, differences
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.groups import balance, similar
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item, items
from tidewright.provisioning.pack.estimate import cluster_limit, estimate, group_limit, node_limit
from tidewright.provisioning.pack.templates import Template
from tidewright.provisioning.scaleup import expander, saga
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import ERROR, SUCCESSFUL, Plan
from tidewright.provisioning.scaleup.sharing import to_minimum
from tidewright.provisioning.tell import sentences


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


PLANNED_ALONE = frozenset({"provider_fails", "provider_fails_for", "all_or_nothing"})
"""Options of cases about the plan and its carrying out: the decider goes on where these end."""


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
    sets = reported(made, execution, as_reference=as_reference)
    return scale_up_differences(
        case, expected, made, execution, sets, provider, waiting, shapes, wanted_items, world
    )


def scale_up_differences(
    case: Case,
    expected: Entry,
    made: Plan,
    execution: saga.Execution | None,
    sets: Sets,
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
    result = made.result if execution is None else (ERROR if execution.failed else SUCCESSFUL)
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
    if not case["options"].keys() & PLANNED_ALONE:
        orders = ordered(scaled(case))
        sizes = {g.id: g.target for g in world.groups if g.exists}
        sizes |= {name: sizes.get(name, 0) + nodes for name, nodes in orders.items()}
        decided = {"scale_up": orders, "target_sizes": sizes, "total_target_size": sum(sizes.values())}
        asked = {k: v for k, v in expected.items() if k in decided}
        same = not differences(asked, decided) and orders.keys() == expected.get("scale_up", orders).keys()
        if same or not _one_plan(case, made, orders, wanted_items):
            actual |= decided
    plain = {k: v for k, v in expected.items() if k in actual}
    found += differences(plain, actual)
    for key in ("scale_up", "options"):
        if key in expected and set(actual[key]) != set(expected[key]):
            found.append(f"$.{key}: expected {expected[key]}, found {actual[key]}")
    remaining = names(sets.remain)
    found += [f"$.remain: lacks {n}" for n in expected.get("remain_contains", ()) if n not in remaining]
    found += [f"$.remain: has {n}" for n in expected.get("remain_lacks", ()) if n in remaining]
    reasons = [r for i in sets.remain for r in {**made.why_not(i), **reasons_of(made, execution)}.values()]
    text = expected.get("reason_contains")
    if text and not any(text in reason for reason in reasons):
        found.append(f"$.reason_contains: expected {text!r} in {sorted(set(reasons))}")
    if "event" in expected:
        message = sentences.not_triggered_message(made.why_not(sets.remain[0])) if sets.remain else ""
        said = sentences.NOT_TRIGGERED if message else sentences.TRIGGERED
        found += differences(expected["event"], said, "$.event")
    return found


def _one_plan(case: Case, made: Plan, orders: Mapping[str, int], asked: Sequence[Item]) -> bool:
    """Whether a case is of one plan alone, where a decider does something else with the same pods.

    It leaves out those that fit on nodes which are there, and goes on in the same turn with those whom the one choice does
    not help: what it orders then is told by plan after plan.
    """
    if orders:
        return orders == _plan_after_plan(case, made, asked)
    return bool(asked) and _fit_together(case)


def _plan_after_plan(case: Case, made: Plan, asked: Sequence[Item]) -> dict[str, int]:
    """What is ordered by a plan and by all that follow it, each for the pods that those before it have not placed."""
    ordered_nodes: Counter[str] = Counter()
    while made.targets:
        ordered_nodes.update({target.group: target.added for target in made.targets})
        case = _grown(case, made)
        asked = [
            Item(item.shape, item.count - placed)
            for item, placed in zip(asked, made.placed, strict=True)
            if item.count > placed
        ]
        made = plan(asked, w.world_of(case), chooser=_chooser(case))
    return dict(ordered_nodes)


def _grown(case: Case, made: Plan) -> Case:
    """A case once what was ordered has come."""
    nodes, groups = w.spread_out(case["nodes"]), {g["id"]: dict(g) for g in case["node_groups"]}
    for target in made.targets:
        entry = groups.get(target.group, {})
        like = next((n for n in nodes if n.get("group") == target.group), entry.get("template", {}))
        nodes += [
            {**like, "name": f"{target.group}-{n}-came", "group": target.group}
            for n in range(target.from_size, target.size)
        ]
        if "target" in entry:
            entry["target"] = target.size
    return {**case, "nodes": nodes, "node_groups": list(groups.values())}


def _chooser(case: Case) -> Callable[[Sequence[expander.Option]], expander.Option | None]:
    """The group that a case names, where it helps, and else the first that does."""
    taken = case.get("choose", {}).get("group")
    return lambda found: next((o for o in found if o.group == taken), next(iter(found), None))


def _fit_together(case: Case) -> bool:
    """Whether nodes that are there have room for all pods, by processors and memory: each on the first that has."""
    pods = w.spread_out(case["pods"])
    free = {
        node["name"]: {
            kind: node.get(kind, 0) - sum(p.get(kind, 0) for p in pods if p.get("node") == node["name"])
            for kind in ("cpu", "memory")
        }
        for node in w.spread_out(case["nodes"])
    }
    for pod in pods:
        if pod.get("node"):
            continue
        room = next((r for r in free.values() if all(pod.get(k, 0) <= n for k, n in r.items())), None)
        if room is None:
            return False
        for kind in room:
            room[kind] -= pod.get(kind, 0)
    return True


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
        return expander.Option(group=NodeGroupId(entry))
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


KINDS: dict[str, Callable[[Case], Found]] = {
    "estimate": estimate_case,
    "estimate-limit": estimate_limit,
    "estimate-fastpath": estimate_fastpath,
    "equivalence": equivalence_case,
    "scale-up": scale_up,
    "balance": balance_case,
    "similar": similar_case,
    "expander": expander_case,
}
