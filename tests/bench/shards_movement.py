"""What a resize moves, and how long the manager's own work takes: sticky beside the minimum and the original's ranges.

For each n -> n+1 up to 32 over 1,024 slots: the share that any method must move, that sticky moves,
and that the propeller manager's contiguous ranges move. Then the times of an assignment of 32,768
slots, of a pass over 1,000 pods (a fleet of the propeller manager, and a ShardSet), and of planning
1,000 moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy

from tests.bench.figures import Bench, Figure, Size, figure
from tests.unit.shardmanager.cluster import Cluster, Pod
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.timers import TimerFired
from tidewright.sharding.document import Document, Entry, apply, created
from tidewright.sharding.keyspace import runs
from tidewright.sharding.member import Acknowledgement
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.propeller.resize import effects, minimal_moves
from tidewright.shardmanager.propeller.scan import annotations_wanted
from tidewright.shardmanager.shardset.assignment.assign import assign
from tidewright.shardmanager.shardset.assignment.handover import HandoverTimes, Report, plan

SLOTS, MOST, SHOWN = 1024, 32, (1, 4, 7, 16, 31)
RANGES = "contiguous ranges of the propeller manager"


def movement() -> list[Figure]:
    """Sticky against the minimum and the ranges, for every n."""
    table = assign(SLOTS, [None] * SLOTS, {"m00": 1}).table
    over: list[float] = []
    over_ranges: list[float] = []
    shares: dict[int, tuple[float, float]] = {}
    for count in range(1, MOST + 1):
        made = assign(SLOTS, table, {f"m{i:02}": 1 for i in range(count + 1)})
        least = minimal_moves(SLOTS, count, count + 1)
        ranges = len(effects(SLOTS, count, count + 1).changing)
        over.append(len(made.moved) / least)
        over_ranges.append(ranges / least)
        shares[count] = (len(made.moved) / SLOTS, ranges / SLOTS)
        table = made.table
    found = [
        figure(
            "shards_movement/most_over_minimum", max(over), "ratio", "lower", 1.0,
            baseline=RANGES, baseline_value=max(over_ranges),
        ),
        figure(
            "shards_movement/mean_share", 100 * sum(s for s, _r in shares.values()) / MOST, "%", "lower",
            baseline=RANGES, baseline_value=100 * sum(r for _s, r in shares.values()) / MOST,
        ),
    ]  # fmt: skip
    for count in SHOWN:
        sticky, ranges_ = shares[count]
        found.append(
            figure(
                f"shards_movement/share_{count}_to_{count + 1}", 100 * sticky, "%", "lower",
                100 * minimal_moves(SLOTS, count, count + 1) / SLOTS,
                baseline=RANGES, baseline_value=100 * ranges_,
            )
        )  # fmt: skip
    return found


def best_of(times: int, work: Callable[[], object]) -> float:
    """Milliseconds of the fastest run."""
    found = []
    for _run in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return 1000 * min(found)


def assignment_ms(slots: int) -> float:
    members = {f"m{i:03}": 1 for i in range(100)}
    table = assign(slots, [None] * slots, members).table
    joined = members | {"new": 1}
    return best_of(3, lambda: assign(slots, table, joined))


def fleet_pass_ms(pods: int) -> float:
    """A healthy fleet of the project strategy: the pass that its timer starts, in the decider."""
    cluster = Cluster("kozmo")
    mapping = [{"ids": [f"p{i}"]} for i in range(pods)]
    shard = {"type": "Project", "per-shard-mapping": mapping}
    cluster.configure({"namespace": "kozmo", "config": {"manager": {"shard": shard}}})
    wanted = annotations_wanted(cluster.state.fleets["kozmo/kozmopropeller"].config, "10")
    for index in range(pods):
        _seen(cluster, f"kozmopropeller-{index}", wanted, {"app": "kozmopropeller"})
    cluster.template("10")
    return _round_ms(cluster, "scan/kozmo/kozmopropeller")


def set_pass_ms(pods: int) -> float:
    """A healthy ShardSet with pods of its own: everything that a timer of it asks for, in the decider."""
    cluster = Cluster()
    template = {"name": "orders-template", "container": "orders"}
    workers = {"driver": "pods", "replicas": pods, "template": template}
    cluster.shard_set({"keyspace": {"slots": 1024}, "workers": workers, "rollout": {"minReady": "0s"}})
    cluster.lag = True  # what follows is made, and seen only when all of it is there
    cluster.held.clear()
    cluster.deliver(cluster.template_fact("1", "orders-template", "orders"))
    for pod in cluster.pods.values():
        pod.phase, pod.ready = "Running", True
        DECIDER.evolve(cluster.state, cluster.fact(pod.name))
    assert len(cluster.pods) == pods
    cluster.held.clear()
    cluster.lag = False
    return _round_ms(cluster, "set/ns/orders")


def _seen(cluster: Cluster, name: str, annotations: dict[str, str], labels: dict[str, str]) -> None:
    """A running pod that the decider hears of without being asked what follows."""
    made = Pod(name=name, uid=name, labels=labels, annotations=annotations, phase="Running", ready=True)
    cluster.pods[name] = made
    DECIDER.evolve(cluster.state, cluster.fact(name))


def _round_ms(cluster: Cluster, key: str) -> float:
    def one() -> None:
        event = TimerFired(at=cluster.now + 30.0, key=key)
        state = states.pop()
        touched = DECIDER.evolve(state, event)
        decided = list(DECIDER.decide(state, event, touched))
        effects = [d for d in decided if isinstance(d, CreateObject | DeleteObject)]
        assert not effects, "a healthy set is left alone"

    cluster.submit(TimerFired(at=cluster.now, key=key))
    states = [deepcopy(cluster.state) for _ in range(3)]
    return best_of(3, one)


def moves(slots: int) -> tuple[int, float]:
    """Half of the slots move to a new member: how many, and CPU milliseconds of the manager."""
    times, document = HandoverTimes(), Document()
    for n, entry in enumerate(
        (
            created(slots),
            Entry(kind="join", revision=1, at=0.0, member="a#1"),
            Entry(kind="join", revision=2, at=0.0, member="b#1"),
            Entry(kind="grant", revision=3, at=0.0, member="a#1", slots=runs(range(slots))),
        )
    ):
        assert n == document.revision
        apply(document, entry)
    target: list[str | None] = list(assign(slots, ["a#1"] * slots, {"a#1": 1, "b#1": 1}).table)
    spent, rounds = 0.0, 0
    while document.owned_by("b#1") != [s for s in range(slots) if target[s] == "b#1"]:
        # Both answer at once; what is measured is the manager.
        acknowledged = tuple(Acknowledgement(s, document.slots[s].epoch, "") for s in document.moving)
        reports = {
            "a#1": Report(acknowledged=acknowledged),
            "b#1": Report(prepared=frozenset(document.moving)),
        }
        start = time.perf_counter()
        for entry in plan(document, target, reports, times=times, now=float(rounds)).entries:
            apply(document, entry)
        spent += time.perf_counter() - start
        rounds += 1
    return len(document.owned_by("b#1")), 1000 * spent


def run(size: Size) -> list[Figure]:
    full = size == "full"
    pods, slots = (1000, 32768) if full else (100, 4096)
    moved, spent = moves(2048 if full else 256)
    return [
        *movement(),
        figure("shards_movement/assignment_32768_slots", assignment_ms(slots), "ms", "lower", 300.0),
        figure("shards_movement/pass_1000_pods_fleet", fleet_pass_ms(pods), "ms", "lower", 100.0),
        figure("shards_movement/pass_1000_pods_set", set_pass_ms(pods), "ms", "lower", 100.0),
        figure("shards_movement/planning_a_move", spent / moved, "ms", "lower", 20.0),
    ]


BENCHES = (Bench("shards_movement", run),)
