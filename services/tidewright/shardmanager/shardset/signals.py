"""What members tell of their work, judged: hot slots, canaries, queue wait, backlog (sections 3.4, 3.7, 3.8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction

import msgspec

from tidewright.sharding.document import Document
from tidewright.shardmanager.shardset.assignment.autosize import exact
from tidewright.shardmanager.shardset.assignment.balance import hot_slots
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.spec import CanaryAnalysis
from tidewright.shardmanager.shardset.state import ShardSetState, weights_of

HOT_FLOOR = 10
"""Busy units below which no slot is hot: a tenth of a worker, whatever the others do."""
ERROR_FLOOR = 0.01
WAIT_FLOOR_S = 0.05
BACKLOG_FLOOR = 10
"""Below these a canary is never worse than the others: nothing is compared with next to nothing."""


def reporting(shard_set: ShardSetState) -> list[MemberSeen]:
    """The members that are there and have said something, by id."""
    members = sorted(shard_set.members.items())
    return [seen for _id, seen in members if not seen.lost and not seen.gone and not seen.released]


def hot(shard_set: ShardSetState, document: Document) -> str:
    """Slots that are too busy for any place among the members, with their hottest keys; empty for none."""
    weights = weights_of(shard_set, document)
    owners = [record.owner for record in document.slots]
    loads = [seen.load for seen in reporting(shard_set) if seen.load]
    if len(weights) < 2 or not loads or any(owner not in weights for owner in owners):
        return ""
    cost = [0] * len(owners)
    for load in loads:
        for slot, amount in load.items():
            if slot < len(cost):
                cost[slot] = max(cost[slot], amount)
    hottest = [s for s in hot_slots(owners, cost, weights, shard_set.spec.theta) if cost[s] >= HOT_FLOOR]
    keys = {slot: names for seen in reporting(shard_set) for slot, names in seen.signals.hot.items()}
    said = []
    for slot in hottest:
        named = f", mostly {', '.join(sorted(keys[slot]))}" if keys.get(slot) else ""
        said.append(f"slot {slot} of {owners[slot].partition('#')[0]}{named}")
    if not said:
        return ""
    remedy = "no move helps: pin it to a member of more weight, or double the keyspace"
    return f"{'; '.join(said)}: busier than a member's whole share; {remedy}"


def latency_ratio(shard_set: ShardSetState) -> Fraction | None:
    """The longest p99 queue wait by its objective; None without an objective or a report."""
    objective = shard_set.spec.autosize.wait_objective_s if shard_set.spec.autosize else 0.0
    waits = [s.signals.wait_s for s in reporting(shard_set) if s.signals.wait_s is not None]
    return exact(max(waits)) / exact(objective) if objective and waits else None


def backlog(shard_set: ShardSetState) -> int | None:
    """The work that waits in the whole set; None when nobody tells."""
    backlogs = [s.signals.backlog for s in reporting(shard_set) if s.signals.backlog is not None]
    return sum(backlogs) if backlogs else None


class CanaryVerdict(msgspec.Struct, frozen=True):
    """Of a canary. `worse` names what is worse than in the others; empty: nothing is."""

    known: bool
    worse: str = ""


def canary(shard_set: ShardSetState, pods: Collection[str], limits: CanaryAnalysis) -> CanaryVerdict:
    """How the members on these pods do against all others; not known while either side tells nothing."""
    there = reporting(shard_set)
    new = [seen.signals for seen in there if seen.name in pods]
    old = [seen.signals for seen in there if seen.name not in pods]
    known = False
    for what, limit, floor, ours, theirs in (
        (
            "error share",
            limits.error_ratio,
            ERROR_FLOOR,
            [s.error_share for s in new],
            [s.error_share for s in old],
        ),
        ("p99 queue wait", limits.wait_ratio, WAIT_FLOOR_S, [s.wait_s for s in new], [s.wait_s for s in old]),
        ("backlog", limits.backlog_ratio, BACKLOG_FLOOR, [s.backlog for s in new], [s.backlog for s in old]),
    ):
        mine, others = _mean(ours), _mean(theirs)
        if mine is None or others is None:
            continue
        known = True
        if mine > max(limit * others, floor):
            return CanaryVerdict(
                True,
                f"{what} is {mine:g} in the canary and {others:g} in the others, allowed is {limit:g} times",
            )
    return CanaryVerdict(known)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
