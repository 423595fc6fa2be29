"""What commands print with `-o json` that are no questions of a log: one type each, as `tidewright.asking.answers` has them.

Their JSON Schemas are in `proto/answers/`, too, and so are the rules: members are camelCase, a time is RFC 3339 in UTC with milliseconds,
an amount has its unit in its name; fields are added with a default and never renamed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.cli.shards.answers import SHARDS


class Versions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `version`.

    Attributes:
        deciders: by service, the version and code that its decisions name.
        nats_server: the program that a stack of this machine would start; null where there is none.
        libraries: by name, those that most depends on.
        extras: that are installed.
    """

    tidewright: str
    deciders: dict[str, str]
    python: str
    nats_server: str | None
    libraries: dict[str, str]
    platform: str
    extras: tuple[str, ...]


class KeyRecordOfLog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `keys show`: the key record of a log.

    Attributes:
        generation: grows with every change; 0 where there is no record.
        log: the random name of the log that signatures are for.
        history: sequence up to which the log was written without keys.
        root: id of the root key.
        vouched: a trust anchor was given, and vouches for it.
        services: by service, the ids of its keys.
    """

    cluster: str
    generation: int
    services: dict[str, tuple[str, ...]]
    log: str = ""
    history: int = 0
    root: str = ""
    vouched: bool = False


class FaultMatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which requests a fault meets; what is empty matches everything."""

    verbs: tuple[str, ...]
    path: str
    user_agent: str


class FaultAction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happens to a request; 0, empty and false: nothing."""

    latency_seconds: float
    status: int
    message: str
    retry_after_seconds: int
    drop: bool
    drop_watches: bool
    stall: bool


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `sim fault add`: a rule in force.

    Attributes:
        probability: of each request that matches, 0 to 1.
        count: how often it may still strike; null: for ever.
        struck: how often it has.
    """

    id: str
    match: FaultMatch
    action: FaultAction
    probability: float
    seed: int
    count: int | None
    struck: int


class FaultRules(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `sim fault list`: the rules in force, in their order."""

    items: tuple[FaultRule, ...]


class ReplayedLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `sim load`: how a recorded list of pods went.

    Attributes:
        pods, nodes: of the recording; `created`, `bound`, `ended` are pods of it.
        most_pending: the most pods that had no node at one time.
        waited_seconds: log seconds that pods were without a node, summed over those that got one.
    """

    pods: int
    nodes: int
    created: int
    bound: int
    ended: int
    most_pending: int
    waited_seconds: float


class Where(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the log of a demo is kept."""

    folder: str
    cluster: str


class Played(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a demo played.

    Attributes:
        name: `load` or `nodes`.
        source: of the load: `built-in`, or the file; empty for `nodes`.
        since, until: log time.
        speed: log seconds per wall second.
        took_seconds: wall time of it.
    """

    name: str
    source: str
    since: str
    until: str
    speed: float
    took_seconds: float


class AppliedRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule that was applied, with its numbers."""

    rule: str
    values: dict[str, str | int | float | bool | None]


class Point(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value from a time on, until the next point."""

    at: str
    value: float


class ScaledObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The workload that is scaled."""

    kind: str
    namespace: str
    name: str


class FollowedMetric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metric that is followed, and its watermarks."""

    name: str
    high_watermark: float
    low_watermark: float


class ScaleCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was decided, counted.

    Attributes:
        by_type, outcomes: type of decision, and kind of outcome, to how many.
        unmet_because: reason of the actuator to how many decisions it did not carry out.
        scale_ups, scale_downs: steps of the replicas.
    """

    total: int
    by_type: dict[str, int]
    outcomes: dict[str, int]
    unmet_because: dict[str, int]
    scale_ups: int
    scale_downs: int


class ToldScale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step of the replicas, and why.

    Attributes:
        decision: its id.
        outcome: what came of it; null while it is open.
    """

    decision: str
    at: str
    from_: int = msgspec.field(name="from")
    to: int
    because: tuple[AppliedRule, ...]
    explanation: tuple[str, ...]
    outcome: str | None


class LoadStory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `demo`: an autoscaler followed a load.

    Attributes:
        replicas, load: at every change.
        scale_up, scale_down: the largest step that was applied; null where there was none.
    """

    story: Played
    target: ScaledObject
    metric: FollowedMetric
    decisions: ScaleCounts
    replicas: tuple[Point, ...]
    load: tuple[Point, ...]
    scale_up: ToldScale | None
    scale_down: ToldScale | None
    log: Where


class NodeCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was decided about nodes, counted.

    Attributes:
        by_type: type of decision to how many.
        scale_ups: plans that ordered nodes.
        removals_undone: nodes that were needed again before they went.
    """

    total: int
    by_type: dict[str, int]
    scale_ups: int
    nodes_ordered: int
    nodes_removed: int
    nodes_drained: int
    pods_evicted: int
    removals_undone: int


class ToldNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision about nodes, and why.

    Attributes:
        what: it is, in a line.
        node, gone_at: of a removal: which, and when it was gone; empty and null otherwise.
    """

    decision: str
    at: str
    what: str
    because: tuple[AppliedRule, ...]
    explanation: tuple[str, ...]
    node: str = ""
    gone_at: str | None = None


class NodeBill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes over some time, and their price in millionths of the currency."""

    node_hours: float
    price_micro: int


class SavedNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What it saved that nodes went: as it was, as it had been with all nodes left standing, and the difference."""

    paid: NodeBill
    standing: NodeBill
    node_hours: float
    price_micro: int


class NodesStorySummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `demo --story nodes`: nodes followed pods.

    Attributes:
        nodes, pods: at every change.
        prices_per_hour_micro: by node group, of one node, in millionths of the currency.
        scale_up, scale_down: the plan for the most pods, and the removal of the fullest node; null where there was none.
    """

    story: Played
    decisions: NodeCounts
    nodes: tuple[Point, ...]
    pods: tuple[Point, ...]
    prices_per_hour_micro: dict[str, int]
    scale_up: ToldNodes | None
    scale_down: ToldNodes | None
    saved: SavedNodes
    log: Where


COMMANDS: dict[str, type[msgspec.Struct]] = {
    "demo.load": LoadStory,
    "demo.nodes": NodesStorySummary,
    "keys.show": KeyRecordOfLog,
    "sim.fault.add": FaultRule,
    "sim.fault.list": FaultRules,
    "sim.load": ReplayedLoad,
    "version": Versions,
    **SHARDS,
}
"""By command, as the schemas are named."""


def fault(rule: dict[str, Any]) -> FaultRule:
    """A rule as the embedded cluster says it."""
    match, action = rule["match"], rule["action"]
    return FaultRule(
        id=rule["id"],
        match=FaultMatch(verbs=tuple(match["verbs"]), path=match["path"], user_agent=match["user_agent"]),
        action=FaultAction(
            latency_seconds=action["latency_s"], status=action["status"], message=action["message"],
            retry_after_seconds=action["retry_after_s"], drop=action["drop"], drop_watches=action["drop_watches"],
            stall=action["stall"],
        ),
        probability=rule["probability"], seed=rule["seed"], count=rule["count"], struck=rule["struck"],
    )  # fmt: skip
