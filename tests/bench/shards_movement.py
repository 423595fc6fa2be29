"""Movement on resize: the sticky table against the minimum and against contiguous ranges.

    python -m tests.bench.shards_movement [--slots 1024] [--most 32]

For each n -> n+1 the share of slots that change their owner: what any method must move, what `sticky`
moves, what the propeller manager's ranges move. Below it the times of an assignment of 32768 slots
over 100 members, of a pass over 1,000 pods, and of 1,000 planned moves. The exit code is 1 when
sticky moves more than the minimum, or a time is over its bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tidewright.sharding.document import Document, Entry, apply, created
from tidewright.sharding.keyspace import runs
from tidewright.sharding.member import Acknowledgement
from tidewright.shardmanager.assign import assign
from tidewright.shardmanager.config import KOZMO, ShardConfig, ShardMapping, ShardType, defaults
from tidewright.shardmanager.handover import HandoverTimes, Report, plan
from tidewright.shardmanager.resize import effects, minimal_moves
from tidewright.shardmanager.scan import SeenPod, annotations_wanted, judge


def movement(slots: int, most: int) -> bool:
    """The table of movements; False when sticky moves more than it must."""
    print(f"share of {slots} slots that moves, percent")
    print(f"{'n -> n+1':>10} {'minimum':>9} {'sticky':>9} {'ranges':>9} {'ranges/minimum':>15}")
    good = True
    table = assign(slots, [None] * slots, {"m00": 1}).table
    for count in range(1, most + 1):
        members = {f"m{i:02}": 1 for i in range(count + 1)}
        made = assign(slots, table, members)
        least = minimal_moves(slots, count, count + 1)
        sticky, ranges = len(made.moved), len(effects(slots, count, count + 1).changing)
        good &= sticky == least and {made.table[s] for s in made.moved} <= {f"m{count:02}"}
        shares = (100 * least / slots, 100 * sticky / slots, 100 * ranges / slots)
        step = f"{count} -> {count + 1}"
        print(f"{step:>10} {shares[0]:9.2f} {shares[1]:9.2f} {shares[2]:9.2f} {ranges / least:15.1f}")
        table = made.table
    return good


def best_of(times: int, work: Callable[[], object]) -> float:
    """Milliseconds of the fastest run."""
    found = []
    for _run in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return 1000 * min(found)


def assignment_ms() -> float:
    members = {f"m{i:03}": 1 for i in range(100)}
    table = assign(32768, [None] * 32768, members).table
    joined = members | {"new": 1}
    return best_of(3, lambda: assign(32768, table, joined))


def pass_ms() -> float:
    """A healthy fleet of 1,000 shards of the project strategy."""
    mappings = tuple(ShardMapping((f"p{i}",)) for i in range(1000))
    shard = ShardConfig(type=ShardType.PROJECT, per_shard_mapping=mappings)
    base = defaults(KOZMO)
    config = type(base)(
        pod_application=base.pod_application,
        pod_template_container_name=base.pod_template_container_name,
        pod_template_name=base.pod_template_name,
        pod_template_namespace=base.pod_template_namespace,
        shard=shard,
    )
    wanted = annotations_wanted(config, "1")
    pods = [SeenPod(name=name, phase="Running", annotations=wanted) for name in config.pod_names]
    assert judge(config, "1", pods).running == 1000
    return best_of(3, lambda: judge(config, "1", pods))


def moves() -> tuple[int, int, float]:
    """1,024 of 2,048 slots move to a new member at once: slots, rounds, and CPU milliseconds of the manager."""
    slots, times = 2048, HandoverTimes()
    document = Document()
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
        reports = {
            "a#1": Report(
                acknowledged=tuple(Acknowledgement(s, document.slots[s].epoch, "") for s in document.moving)
            ),
            "b#1": Report(prepared=frozenset(document.moving)),
        }
        start = time.perf_counter()
        for entry in plan(document, target, reports, times, float(rounds)).entries:
            apply(document, entry)
        spent += time.perf_counter() - start
        rounds += 1
    return len(document.owned_by("b#1")), rounds, 1000 * spent


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=1024, help="size of the keyspace (default: 1024)")
    parser.add_argument("--most", type=int, default=32, help="greatest n (default: 32)")
    options = parser.parse_args(arguments)
    good = movement(options.slots, options.most)
    moved, rounds, spent = moves()
    print()
    for what, value, bound in (
        ("sticky assignment of 32,768 slots over 101 members", assignment_ms(), 300.0),
        ("judging a fleet of 1,000 pods", pass_ms(), 100.0),
        (f"planning {moved} moves, 64 at a time, in {rounds} rounds", spent, 20_000.0),
    ):
        good &= value <= bound
        print(f"{what:<60} {value:9.1f} ms  bound {bound:g} ms: {'ok' if value <= bound else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
