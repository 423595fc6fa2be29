"""What plans of the recorded cluster cost: the expander `least-cost` beside `least-waste`, and beside what none can cost less than.

The bound is the linear relaxation: nodes and pods may be split. Prices are of the kind that lists of clouds have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import highspy
import msgspec
import numpy as np

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.pod_lists import LISTS, relaxed
from tests.bench.provisioning_recorded import GPU, RESOURCES, Wanted, groups, pending, recorded, waste
from tests.bench.provisioning_world import MIB, NOW, Played
from tidewright.events import provisioning as p
from tidewright.events.config import ConfigSet
from tidewright.provisioning.scaleup.rounds import plan_all

GIB = 1024 * MIB
CORE, GIB_HOUR = 0.032, 0.0043
"""Dollars an hour."""
CARDS = {"P100": 1.46, "V100M16": 2.48, "V100M32": 2.76, "T4": 0.35, "G2": 0.71, "G3": 1.1, "A10": 0.95}
BASELINE = "least-waste"


def price(cpu: int, memory: int, cards: int, each: float) -> int:
    """Of a machine for an hour, in millionths."""
    return round((cpu / 1000 * CORE + memory / GIB * GIB_HOUR + cards * each) * 1e6)


def priced(maximum: int) -> list[p.NodeGroupObserved]:
    """The machines of the recorded cluster, with prices."""
    there = []
    for group in groups(maximum):
        assert group.template is not None
        has = group.template.allocatable
        each = CARDS.get(group.template.labels["gpu-model"], 0.0)
        cost = price(has["cpu"], has["memory"], has[GPU], each)
        there.append(msgspec.structs.replace(group, price_micro=cost))
    return there


def families(maximum: int) -> list[p.NodeGroupObserved]:
    """Forty machine types as clouds list them: three families by memory, four with cards; nodes keep a little for themselves."""
    kinds = [(f"{name}-{cores}", cores, cores * gib, 0, 0.0)
             for name, gib in (("lean", 2), ("even", 4), ("wide", 8)) for cores in (2, 4, 8, 16, 32, 48, 64, 96)]  # fmt: skip
    for name, each in (("t4", 0.35), ("a10", 0.95), ("p100", 1.46), ("v100", 2.48)):
        for cores, gib, cards in ((8, 32, 1), (16, 64, 2), (48, 192, 4), (96, 384, 8)):
            kinds.append((f"{name}-{cores}", cores, gib, cards, each))
    return [
        p.NodeGroupObserved(
            at=NOW,
            name=name,
            max_size=maximum,
            price_micro=price(cores * 1000, gib * GIB, cards, each),
            template=p.TemplateNode(
                labels={"gpu-model": name},
                allocatable={"cpu": cores * 990, "memory": gib * GIB * 95 // 100, GPU: cards, "pods": 110},
            ),
        )
        for name, cores, gib, cards, each in kinds
    ]


def lower_bound(pods: Sequence[Wanted], there: Sequence[p.NodeGroupObserved]) -> float:
    """Dollars an hour that no nodes for these pods cost less than; pods that no node holds are left out.

    Variables are nodes per group, and pods per kind and group; the pods of a group take no more than its nodes have.
    """
    kinds = Counter(tuple(pod.requests[name] for name in RESOURCES) for pod in pods)
    has = [[g.template.allocatable[name] for name in RESOURCES] for g in there if g.template is not None]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # it has no types
    solver.silent()
    for number, group in enumerate(there):
        solver.addVar(0.0, highspy.kHighsInf)
        solver.changeColCost(number, (group.price_micro or 0) / 1e6)
    takes: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in there]
    for asks, count in kinds.items():
        columns = []
        for number, amounts in enumerate(has):
            if all(a <= b for a, b in zip(asks, amounts, strict=True)):
                columns.append(solver.numVariables)
                solver.addVar(0.0, highspy.kHighsInf)
                takes[number].append((columns[-1], asks))
        if columns:
            _row(solver, float(count), [(column, 1.0) for column in columns])
    for number, amounts in enumerate(has):
        for resource, amount in enumerate(amounts):
            unit = max(amount, 1)
            parts = [(column, -asks[resource] / unit) for column, asks in takes[number] if asks[resource]]
            _row(solver, 0.0, [(number, amount / unit), *parts])
    solver.run()
    return float(solver.getInfo().objective_function_value)


def _row(solver: highspy.Highs, least: float, terms: Sequence[tuple[int, float]]) -> None:
    columns = np.array([column for column, _ in terms], dtype=np.int32)
    values = np.array([value for _, value in terms])
    solver.addRow(least, highspy.kHighsInf, len(terms), columns, values)


class Planned(NamedTuple):
    """What the decider orders for pods at once: nodes by group, pods that it places, and its seconds."""

    nodes: Counter[str]
    placed: int
    taken_s: float


def planned(pods: Sequence[Wanted], there: Sequence[p.NodeGroupObserved], expander: str) -> Planned:
    """All pods pending at the same moment."""
    played = Played()
    for group in there:
        played.tell(group)
    played.tell(
        ConfigSet(at=NOW, name="provisioning", data={"max-nodes-per-scaleup": 10_000, "expander": expander})
    )
    for pod in pods:
        shape = pod.shape()
        played.tell(shape)
        played.tell(pending(pod, shape.digest, NOW))
    start = time.perf_counter()
    decisions = played.fire()
    taken_s = time.perf_counter() - start
    plans = [d for d in decisions if isinstance(d, p.PlanScaleUp)]
    nodes = Counter[str]()
    for increase in [increase for plan in plans for increase in plan.increases]:
        nodes[increase.group] += increase.size - increase.from_size
    return Planned(nodes, sum(plan.placed for plan in plans), taken_s)


def compared(what: str, pods: Sequence[Wanted], there: Sequence[p.NodeGroupObserved]) -> list[Figure]:
    bound = lower_bound(pods, there)
    plan, other = planned(pods, there, "least-cost"), planned(pods, there, BASELINE)
    prices = {group.name: (group.price_micro or 0) / 1e6 for group in there}
    cost, beside = (sum(prices[g] * n for g, n in each.nodes.items()) for each in (plan, other))
    return [
        figure(f"{what}: price of the plan", cost, "$/h", "lower", baseline=BASELINE, baseline_value=beside),
        figure(f"{what}: lower bound", bound, "$/h", "higher"),
        figure(f"{what}: price over the bound", cost / bound, "times", "lower", 1.05,
               baseline=BASELINE, baseline_value=beside / bound),
        figure(f"{what}: pods placed", plan.placed, "pods", "higher", other.placed,
               baseline=BASELINE, baseline_value=other.placed),
        figure(f"{what}: decision", plan.taken_s, "s", "lower", 1.0, baseline=BASELINE, baseline_value=other.taken_s),
    ]  # fmt: skip


def own_machines(size: Size) -> list[Figure]:
    """The recorded pods, all at once, on the machines of their cluster."""
    pods = recorded(8152 if size == "full" else 500)
    return compared("least cost/recorded pods, their machines", pods, priced(5000))


def listed_machines(size: Size) -> list[Figure]:
    """The same pods on forty machine types."""
    pods = recorded(8152 if size == "full" else 500)
    return compared("least cost/recorded pods, 40 machine types", pods, families(5000))


def without_prices(size: Size) -> list[Figure]:
    """The same pods on the machines of their cluster, none of which has a price."""
    pods = recorded(8152 if size == "full" else 500)
    there = groups(5000)
    machines = {g.name: dict(g.template.allocatable) for g in there if g.template is not None}
    plan, other = planned(pods, there, "least-cost"), planned(pods, there, BASELINE)
    left, beside = waste(plan.nodes, machines, pods), waste(other.nodes, machines, pods)
    what = "least cost/recorded pods, no prices"
    return [
        figure(f"{what}: nodes", plan.nodes.total(), "nodes", "lower",
               baseline=BASELINE, baseline_value=other.nodes.total()),
        figure(f"{what}: decision", plan.taken_s, "s", "lower", 1.0, baseline=BASELINE, baseline_value=other.taken_s),
        *(figure(f"{what}: {name} ordered and not asked for", percent, "%", "lower",
                 baseline=BASELINE, baseline_value=beside[name])
          for name, percent in left.items()),
    ]  # fmt: skip


def lists(size: Size) -> list[Figure]:
    """Lists made by seed, each with a difficulty of its own."""
    figures: list[Figure] = []
    for name, make in LISTS.items():
        found = make(Random(1), 8000 if size == "full" else 400)
        bound = relaxed(found)
        plans = []
        for expander in ("least-cost", BASELINE):
            settings = msgspec.structs.replace(found.world.settings, expander=(expander,))
            world = msgspec.structs.replace(found.world, settings=settings)
            start = time.perf_counter()
            plan = plan_all(found.items, world)
            plans.append((plan, time.perf_counter() - start))
        prices = {group.id: (group.price_micro or 0) / 1e6 for group in found.world.groups}
        (cost, taken_s), (beside, other_s) = (
            (sum(prices[t.group] * t.added for t in plan.targets), taken) for plan, taken in plans
        )
        what = f"least cost/{name}"
        figures += [
            figure(f"{what}: price over the bound", cost / bound, "times", "lower", 1.05,
                   baseline=BASELINE, baseline_value=beside / bound),
            figure(f"{what}: plan", taken_s, "s", "lower", 1.0, baseline=BASELINE, baseline_value=other_s),
        ]  # fmt: skip
    return figures


BENCHES = (
    Bench("least-cost-own-machines", own_machines),
    Bench("least-cost-listed-machines", listed_machines),
    Bench("least-cost-without-prices", without_prices),
    Bench("least-cost-lists", lists, within_s=900.0),
)
