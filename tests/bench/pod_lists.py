"""Lists of pods and machine types, made by seed: what plans at least cost are tried on beside the recorded cluster.

Each kind of list has a difficulty of its own: odd ratios, pods of thousands of sizes, devices in eights, zones that pods are bound to, taints,
DaemonSets, cheap groups that are soon full, quotas, gangs that share no node. `relaxed` is what no plan of a list costs less than.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import highspy
import msgspec
import numpy as np

from tidewright.events.base import JsonObject
from tidewright.kube.podshape import PODS, NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.cluster.limits import Limits, quota_amounts, quotas_of
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as counted
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Template, fits_reason
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.settings import Quota, Settings

GIB = 2**30
GPU, ZONE = "nvidia.com/gpu", "topology.kubernetes.io/zone"
CORE, GIB_HOUR, CARD = 0.032, 0.0043, 0.9
"""Dollars an hour."""


class Machine(msgspec.Struct, frozen=True):
    """A machine type; `price` in dollars an hour."""

    name: str
    cores: int
    gib: float
    price: float
    cards: int = 0
    zone: str = ""
    pods: int = 110
    most: int = 5000
    taint: str = ""


class PodList(msgspec.Struct, frozen=True):
    """What waits, and where it may go."""

    items: tuple[Item, ...]
    world: World


def listed(cores: int, gib: float, cards: int = 0) -> float:
    return cores * CORE + gib * GIB_HOUR + cards * CARD


def cloud(chance: Random, *, cards: bool = False) -> list[Machine]:
    """Families in sizes, as clouds have them, priced by what they have."""
    sizes = (2, 4, 8, 16, 32, 48, 64, 96)
    found = [
        Machine(f"{name}-{cores}", cores, cores * ratio, listed(cores, cores * ratio) * factor)
        for name, ratio, factor in (("c", 2, 0.98), ("m", 4, 1.0), ("r", 8, 1.03))
        for cores in sizes
    ]
    for name, per_card in (("t", 4), ("a", 8), ("p", 12), ("v", 16)) if cards else ():
        for number in (1, 2, 4, 8):
            cores = per_card * number
            price = listed(cores, cores * 4, number) * {"t": 0.6, "a": 1.0, "p": 1.5, "v": 2.2}[name]
            found.append(Machine(f"{name}-{number}", cores, cores * 4, price, cards=number))
    return found


def spot(chance: Random) -> list[Machine]:
    """Prices that follow nothing but demand."""
    return [
        msgspec.structs.replace(machine, price=machine.price * chance.uniform(0.25, 0.9))
        for machine in cloud(chance, cards=True)
    ]


def arbitrary(chance: Random, number: int = 40) -> list[Machine]:
    """Machines of any ratio, the larger ones a little cheaper for what they have."""
    found = []
    for n in range(number):
        cores = chance.choice((2, 3, 4, 6, 8, 12, 16, 20, 24, 36, 48, 72, 96))
        gib = round(cores * chance.choice((1, 1.5, 2, 3, 4, 6, 8, 16)) * chance.uniform(0.9, 1.1), 1)
        price = listed(cores, gib) * chance.uniform(0.85, 1.2) * (1.0 - 0.02 * np.log2(cores))
        found.append(Machine(f"any-{n}", cores, gib, float(price)))
    return found


def group_of(machine: Machine, *, kept: float = 0.02, daemons: Sequence[Item] = ()) -> Group:
    """`kept`: the part of a node that it keeps for itself."""
    has = {
        "cpu": int(machine.cores * 1000 * (1 - kept)),
        "memory": int(machine.gib * GIB * (1 - 2 * kept)),
        PODS: machine.pods,
        **({GPU: machine.cards} if machine.cards else {}),
    }
    labels = {ZONE: machine.zone} if machine.zone else {}
    taints = (Taint(machine.taint, "true", "NoSchedule"),) if machine.taint else ()
    return Group(
        id=NodeGroupId(machine.name),
        max=machine.most,
        template=Template(
            view=NodeView(name="t", labels=labels, taints=taints, allocatable=has), residents=tuple(daemons)
        ),
        price_micro=round(machine.price * 1e6),
    )


def pod(
    cpu: float, memory: float, cards: int = 0, scheduling: JsonObject | None = None, app: str = ""
) -> PodShape:
    """A pod of so many milli-cores and bytes."""
    requests = {"cpu": max(1, round(cpu)), "memory": max(1, round(memory)), **({GPU: cards} if cards else {})}
    return of_fields(
        requests=requests, scheduling=scheduling or {}, namespace="ns", labels={"app": app} if app else {}
    )


def workloads(
    chance: Random, pods: int, kinds: int, scheduling: Callable[[], JsonObject] = dict
) -> list[Item]:
    """Pods of so many kinds of sizes that people type, most of them small."""
    found: list[tuple[PodShape, int]] = []
    weights = [chance.paretovariate(1.0) for _ in range(kinds)]
    for weight in weights:
        cpu = chance.choice((50, 100, 200, 250, 500, 500, 1000, 1000, 1500, 2000, 3000, 4000, 6000, 8000))
        ratio = chance.choice((0.5, 1, 2, 2, 4, 4, 6, 8))
        count = max(1, round(pods * weight / sum(weights)))
        found.append((pod(cpu, cpu / 1000 * ratio * GIB, scheduling=scheduling()), count))
    return counted(found)


def world_of(groups: Sequence[Group], **settings: object) -> World:
    chosen = msgspec.convert({"expander": ("least-cost",), **settings}, type=Settings)
    return World(
        groups=tuple(groups),
        grid=Grid(),
        limits=Limits(quotas_of(chosen)),
        settings=chosen,
        current_nodes=0,
        seed="list",
    )


def typed_sizes(chance: Random, pods: int) -> PodList:
    """What people type, on families as clouds list them."""
    return PodList(tuple(workloads(chance, pods, 60)), world_of([group_of(m) for m in cloud(chance)]))


def measured_sizes(chance: Random, pods: int) -> PodList:
    """Every pod has a size of its own, as recommenders of requests have it."""
    items = [
        Item(
            pod(cpu := chance.lognormvariate(6.0, 1.1), cpu / 1000 * GIB * chance.lognormvariate(1.0, 0.6)), 1
        )
        for _ in range(pods)
    ]
    fits = [i for i in items if i.shape.requests["cpu"] < 60_000 and i.shape.requests["memory"] < 300 * GIB]
    return PodList(tuple(fits), world_of([group_of(m) for m in cloud(chance)]))


def odd_ratios(chance: Random, pods: int) -> PodList:
    """Machines of any ratio, pods of any ratio."""
    shapes = [
        (pod(chance.uniform(100, 9000), chance.uniform(0.1, 30) * GIB), chance.randint(1, 2 * pods // 120))
        for _ in range(120)
    ]
    groups = [group_of(m) for m in [*arbitrary(chance), Machine("all", 96, 768, listed(96, 768))]]
    return PodList(tuple(counted(shapes)), world_of(groups))


def cards(chance: Random, pods: int) -> PodList:
    """Mostly pods with cards: one, two, four or eight, with much or little beside them."""
    shapes = []
    for _ in range(80):
        number = chance.choice((0, 0, 1, 1, 1, 1, 2, 2, 4, 8))
        cpu = (number or 1) * chance.choice((500, 1000, 2000, 4000, 6000, 11_000))
        shapes.append(
            (pod(cpu, cpu / 1000 * chance.choice((1, 2, 4)) * GIB, number), chance.randint(1, 2 * pods // 80))
        )
    return PodList(tuple(counted(shapes)), world_of([group_of(m) for m in cloud(chance, cards=True)]))


def many_small(chance: Random, pods: int) -> PodList:
    """Small pods, on nodes of which the smaller take few: addresses are what runs out."""
    machines = [msgspec.structs.replace(m, pods=min(110, 8 + 4 * m.cores)) for m in cloud(chance)]
    shapes = [
        (
            pod(
                chance.choice((10, 25, 50, 100, 200)),
                chance.choice((32, 64, 128, 256, 512)) * 2**20,
                app=str(n),
            ),
            chance.randint(1, 2 * pods // 200),
        )
        for n in range(200)
    ]
    return PodList(tuple(counted(shapes)), world_of([group_of(m) for m in machines]))


def zones(chance: Random, pods: int) -> PodList:
    """Three zones with prices of their own; a third of the pods is bound to one by its volume."""
    machines = [
        msgspec.structs.replace(m, name=f"{m.name}-{zone}", zone=zone, price=m.price * factor)
        for zone, factor in (("a", 1.0), ("b", 1.04), ("c", 0.97))
        for m in cloud(chance)[::2]
    ]

    def bound() -> JsonObject:
        zone = chance.choice(("", "", "", "", "a", "b", "c"))
        return {"nodeSelector": {ZONE: zone}} if zone else {}

    return PodList(tuple(workloads(chance, pods, 90, bound)), world_of([group_of(m) for m in machines]))


def taints(chance: Random, pods: int) -> PodList:
    """Spot machines that only some tolerate, and agents of every node."""
    agents = [Item(pod(250, GIB // 2, app="agent"), 1), Item(pod(80, GIB // 8, app="log"), 2)]
    cheap = [
        msgspec.structs.replace(
            m, name=f"spot-{m.name}", taint="spot", price=m.price * chance.uniform(0.3, 0.5)
        )
        for m in cloud(chance)[::2]
    ]
    toleration: JsonObject = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    items = workloads(chance, pods, 80, lambda: toleration if chance.random() < 0.5 else {})
    return PodList(tuple(items), world_of([group_of(m, daemons=agents) for m in [*cloud(chance), *cheap]]))


def soon_full(chance: Random, pods: int) -> PodList:
    """Cheap groups that are soon full, and a quota over all."""
    machines = [
        msgspec.structs.replace(m, most=chance.choice((2, 5, 10, 20))) for m in spot(chance) if not m.cards
    ]
    machines += [msgspec.structs.replace(m, name=f"plain-{m.name}") for m in cloud(chance)[::3]]
    items = workloads(chance, pods, 60)
    asked = sum(i.count * i.shape.requests["cpu"] for i in items) // 1000
    return PodList(
        tuple(items),
        world_of(
            [group_of(m) for m in machines], quotas=(Quota(id="all", limits={"cpu": int(asked * 1.25)}),)
        ),
    )


def apart(chance: Random, pods: int) -> PodList:
    """Gangs of which no two pods share a node, among pods that fill the rest."""

    def lonely(name: str) -> JsonObject:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    gangs = [
        Item(
            pod(chance.choice((500, 1000, 2000)), 2 * GIB, scheduling=lonely(f"g{n}"), app=f"g{n}"),
            chance.randint(3, 60),
        )
        for n in range(12)
    ]
    return PodList((*gangs, *workloads(chance, pods, 50)), world_of([group_of(m) for m in cloud(chance)]))


def spread(chance: Random, pods: int) -> PodList:
    """A third of the workloads is spread evenly over three zones, and has to be."""
    machines = [
        msgspec.structs.replace(m, name=f"{m.name}-{zone}", zone=zone)
        for zone in "abc"
        for m in cloud(chance)[::2]
    ]
    items = list(workloads(chance, 2 * pods // 3, 60))
    for n in range(30):
        term: JsonObject = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": f"s{n}"}}}  # fmt: skip
        cpu = chance.choice((250, 500, 1000, 2000, 4000))
        shape = pod(
            cpu,
            cpu / 1000 * chance.choice((1, 2, 4, 8)) * GIB,
            scheduling={"topologySpreadConstraints": [term]},
            app=f"s{n}",
        )
        items.append(Item(shape, chance.randint(1, 2 * pods // 90)))
    return PodList(
        tuple(counted((i.shape, i.count) for i in items)), world_of([group_of(m) for m in machines])
    )


def spot_prices(chance: Random, pods: int) -> PodList:
    """What people type, at prices that follow nothing."""
    return PodList(tuple(workloads(chance, pods, 60)), world_of([group_of(m) for m in spot(chance)]))


def large_pods(chance: Random, pods: int) -> PodList:
    """Pods of which few share a node."""
    shapes = [
        (
            pod(
                cpu := chance.choice((3500, 7000, 9000, 13_000, 15_500, 24_000, 31_000, 40_000)),
                cpu / 1000 * chance.uniform(1, 7) * GIB,
            ),
            chance.randint(1, pods // 400 + 2),
        )
        for _ in range(60)
    ]
    return PodList(tuple(counted(shapes)), world_of([group_of(m, kept=0.03) for m in cloud(chance)]))


def large_measured(chance: Random, pods: int) -> PodList:
    """Every pod has a size of its own, and few share a node."""
    items = [
        Item(pod(cpu := chance.uniform(2000, 40_000), cpu / 1000 * chance.uniform(1, 7) * GIB), 1)
        for _ in range(pods)
    ]
    return PodList(tuple(items), world_of([group_of(m, kept=0.03) for m in cloud(chance)]))


LISTS: dict[str, Callable[[Random, int], PodList]] = {
    each.__name__.replace("_", " "): each
    for each in (
        typed_sizes,
        measured_sizes,
        odd_ratios,
        cards,
        many_small,
        zones,
        taints,
        soon_full,
        apart,
        spread,
        spot_prices,
        large_pods,
        large_measured,
    )
}


def relaxed(found: PodList) -> float:
    """Dollars an hour that no plan costs less than which places all pods: nodes and pods may be split.

    Variables are nodes per group, and pods per kind and group; the pods of a group take no more than its nodes have, nodes no more than limits leave.
    """
    groups = found.world.groups
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # it has no types
    solver.silent()
    for number, group in enumerate(groups):
        solver.addVar(0.0, float(group.room))
        solver.changeColCost(number, (group.price_micro or 0) / 1e6)
    kinds: dict[tuple[tuple[tuple[str, int], ...], tuple[int, ...]], int] = {}
    for item in found.items:
        fits = tuple(
            g
            for g, group in enumerate(groups)
            if group.template is not None and not fits_reason(item.shape, group.template)
        )
        key = (tuple(sorted(item.shape.requests.items())), fits)
        kinds[key] = kinds.get(key, 0) + item.count
    takes: list[list[tuple[int, dict[str, int]]]] = [[] for _ in groups]
    for (asks, fits), count in kinds.items():
        columns = []
        for number in fits:
            columns.append(solver.numVariables)
            solver.addVar(0.0, highspy.kHighsInf)
            takes[number].append((columns[-1], dict(asks)))
        if columns:
            row(solver, float(count), highspy.kHighsInf, [(column, 1.0) for column in columns])
    for number, group in enumerate(groups):
        assert group.template is not None
        for resource, amount in group.template.free().items():
            unit = max(amount, 1)
            parts = [
                (column, -asks.get(resource, 0) / unit)
                for column, asks in takes[number]
                if asks.get(resource)
            ]
            if parts:
                row(solver, 0.0, highspy.kHighsInf, [(number, amount / unit), *parts])
    for quota in found.world.settings.quotas:
        for resource, limit in quota.limits.items():
            each = [
                (n, float(quota_amounts(g.node_capacity, g.labels).get(resource, 0)))
                for n, g in enumerate(groups)
            ]
            row(solver, -highspy.kHighsInf, float(limit), each)
    solver.run()
    return float(solver.getInfo().objective_function_value)


def row(solver: highspy.Highs, least: float, most: float, terms: Sequence[tuple[int, float]]) -> None:
    columns = np.array([column for column, _ in terms], dtype=np.int32)
    values = np.array([value for _, value in terms])
    solver.addRow(least, most, len(terms), columns, values)
