"""What each question is answered with: one type per question, the same for the command line, HTTP and tests.

Their JSON Schemas are in `proto/answers/`. Members are camelCase as in Kubernetes objects; a time is RFC 3339 in UTC
with milliseconds, an amount has its unit in its name. Fields are added with a default and never renamed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec


def stamp(at: float) -> str:
    """Seconds since the epoch as answers say times; empty for a time that no calendar has."""
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def stamp_if_set(at: float | None) -> str | None:
    """The same; None for none."""
    return None if at is None else stamp(at)


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every answer says of itself.

    Attributes:
        log: the log that was asked, for people.
        sequence: the last sequence that the answer speaks of.
        at: the log time that it speaks of.
    """

    log: str
    sequence: int
    at: str


class ListedKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind that is decided on.

    Attributes:
        services: who decides on objects of the kind.
        objects: how many there are; of kinds that others look after (pods, nodes): how many were decided on.
    """

    kind: str
    services: tuple[str, ...]
    objects: int


class KindList(Answer, frozen=True, kw_only=True):
    """Answer to `get`: the kinds that are decided on."""

    items: tuple[ListedKind, ...]


class MeasuredValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value as it was measured last, and the watermarks that it is held against; null where there is none."""

    metric: str
    value: float | None
    low_watermark: float | None
    high_watermark: float | None


class ListedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object in a list.

    Attributes:
        service: who decides on it.
        now, wanted: how it is and how it shall be; the same where nothing is to change.
        why: a few words.
        held_until: the time before which nothing changes; null where nothing holds it.
        last_change: when it last changed; null when it never did.
        last_decision: id of the last decision about it; empty when there was none.
        wrong: something is the matter with it that somebody should see to; `why` says what.
        measured: what it is decided by, where that is a value between watermarks.
    """

    kind: str
    namespace: str
    name: str
    service: str
    now: str
    wanted: str
    why: str
    held_until: str | None = None
    last_change: str | None = None
    last_decision: str = ""
    wrong: bool = False
    measured: tuple[MeasuredValue, ...] = ()


class ObjectList(Answer, frozen=True, kw_only=True):
    """Answer to `get KIND`: its objects, by namespace and name."""

    kind: str
    items: tuple[ListedObject, ...]


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `events`, one of these each: a message of the log.

    Attributes:
        at: its log time; empty where it does not decode.
        class_: fact, decision, outcome, timer, config, ledger or halt.
        kind, namespace, name: the object that its subject names.
        text: what it says, in a line.
        decision: of a decision its id, of an outcome that of the decision; empty otherwise.
        headers: those of the message, without those of its transport.
        event: its content as stored; as text where it does not decode.
        problem: why it does not decode.
    """

    sequence: int
    at: str
    class_: str = msgspec.field(name="class")
    kind: str
    namespace: str
    name: str
    text: str
    decision: str
    subject: str
    headers: dict[str, str]
    event: Any
    problem: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event in an explanation.

    Attributes:
        at: the log time that was reached with it: along the sequences it never goes back. Its own is in `event`.
        subject: where it stands on the log.
        text: what it says, in a line.
        event: its content as stored.
    """

    sequence: int
    at: str
    subject: str
    text: str
    event: Any


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule that was applied, with its numbers (empty where only the sentence is known)."""

    sentence: str
    rule: str = ""
    values: dict[str, str | int | float | bool | None] = {}


class ExplainedDecision(Told, frozen=True, kw_only=True):
    """A decision and what belongs to it.

    Attributes:
        service, software: who decided, and which version and code of it.
        causes: the event that it answers, and what stands behind that.
        rests_on: the last facts of what it was computed from.
        outcome: what the actuator did; null when it has not said.
        unwatched: it has no outcome, and nothing is carried out since no watcher looks.
        opposite: which single input would have had to be what for the opposite.
        beside: what else the same event led the service to decide.
    """

    service: str
    software: str
    because: tuple[Reason, ...]
    causes: tuple[Told, ...]
    rests_on: tuple[Told, ...]
    outcome: Told | None
    unwatched: bool
    opposite: tuple[str, ...]
    beside: tuple[Told, ...]


class OtherHands(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was folded here was decided on by other software, or by other inputs.

    Attributes:
        folded_by, decided_by: version and code of each, and the set of inputs where these differ.
    """

    folded_by: str
    decided_by: str


class TakenStep(Told, frozen=True, kw_only=True):
    """One step of what a decision to scale led to.

    Attributes:
        what: what it is, in words.
    """

    what: str


class ObjectExplanation(Answer, frozen=True, kw_only=True):
    """Answer to `explain`.

    Attributes:
        last_word: the last fact about the object; null where there is none.
        decisions: the latest of each service that has one.
        standing: service to sentences about the present, and why nothing happens.
        absent: why services that look after such objects have nothing to say.
        earlier: what was decided before, the last one first.
        hands: service to who folded and who decided, where these are two.
        led_to: of the last decision to scale, or plan for pods of a workload that were about to come, what came of it.
    """

    kind: str
    namespace: str
    name: str
    last_word: Told | None
    decisions: tuple[ExplainedDecision, ...]
    standing: dict[str, tuple[str, ...]]
    absent: tuple[str, ...]
    earlier: tuple[Told, ...]
    hands: dict[str, OtherHands] = {}
    led_to: tuple[TakenStep, ...] = ()


class LastFact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last fact about an object."""

    sequence: int
    at: str
    event: Any


class ObjectState(Answer, frozen=True, kw_only=True):
    """Answer to `state`.

    Attributes:
        fact: the last one about the object; null where there is none.
        state: service to what it held of the object.
        hands: service to who folded and who decided, where these are two.
    """

    kind: str
    namespace: str
    name: str
    fact: LastFact | None
    state: dict[str, dict[str, Any]]
    hands: dict[str, OtherHands] = {}


class Authenticated(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which messages were signed, and by what keys.

    Attributes:
        keys: generation of the key record; 0 on a log without one.
        vouched: a trust anchor vouches for it.
        history: sequence up to which nothing is signed.
        commits, messages: that are signed.
        unknown: messages of a part of a log, the ends of whose commits are left out of it.
    """

    keys: int
    vouched: bool
    history: int
    commits: int
    messages: int
    unknown: int


class FoundDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a log is not what its services would have written.

    Attributes:
        recorded, recomputed: the bytes of both, as text.
    """

    service: str
    slot: str
    sequence: int
    cause: str
    message: str
    recorded: str
    recomputed: str


class LogVerification(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `verify`.

    Attributes:
        messages: that were read; `events`, `decisions`, `checkpoints` are those that were verified.
        undecided: events at the end that nobody has decided about yet.
        set_aside: messages that do not decode.
        written_by: software to how many decisions it took.
        differences: how many there are; `first` are the first of them.
        gone_on_from: sequence up to which an interrupted run before this one had verified it, and this one did not look again; 0: nothing was
            taken from one, all of it was looked at.
    """

    log: str
    verified: bool
    messages: int
    authenticated: Authenticated
    services: tuple[str, ...]
    events: int
    decisions: int
    checkpoints: int
    undecided: int
    set_aside: int
    written_by: dict[str, int]
    differences: int
    first: tuple[FoundDifference, ...]
    gone_on_from: int = 0


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value from a time on, until the next point of its line.

    Attributes:
        value: the last one of the stretch that the point stands for; null where there is none (a gap).
        low, high: the least and the greatest of that stretch; the same as `value` where it has one only.
    """

    at: str
    value: float | None
    low: float | None
    high: float | None


class SeriesLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a chart.

    Attributes:
        name: what it is: of an autoscaler `value`, `highWatermark`, `lowWatermark`, `wanted`, `existing`, `ready`, `minimum`,
            `maximum`; of a node group `wanted`, `ready`, `onTheirWay`, `leaving`, `minimum`, `maximum`.
        of: the metric that it belongs to; empty for a line that is alone.
        unit: `replicas` or `nodes`; empty for a metric, whose unit the log does not know.
    """

    name: str
    of: str
    unit: str
    points: tuple[SeriesPoint, ...]


class SeriesMark(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision on a chart.

    Attributes:
        decision: its id, as `explain --decision` takes it.
        from_, to: what it moved the object from and to; null where it says why nothing is moved.
    """

    sequence: int
    at: str
    service: str
    decision: str
    text: str
    shadow: bool
    from_: float | None = msgspec.field(name="from")
    to: float | None


class ObjectSeries(Answer, frozen=True, kw_only=True):
    """Answer to `series`: what is drawn of an object.

    Attributes:
        since, until: the stretch that was asked for; `at` is that of its end.
        lines: each holds its value from one point to the next, and begins with what it was at `since`.
        marks: decisions about the object, the last of them; `left_out` are as many before.
    """

    kind: str
    namespace: str
    name: str
    since: str
    until: str
    lines: tuple[SeriesLine, ...]
    marks: tuple[SeriesMark, ...]
    left_out: int = 0


class PlannedIncrease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order for a node group.

    Attributes:
        from_nodes, to_nodes, max_nodes: its size before and after, and the largest that it may have.
    """

    group: str
    from_nodes: int
    to_nodes: int
    max_nodes: int


class JudgedGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was made of a node group.

    Attributes:
        reason: why it was no option; empty when it was one.
        nodes, pods: nodes that it would take, and pods that they would hold.
        waste_permille: share of cpu and memory that would stay unused, 0 to 2000.
        cost_per_hour_micro: price of those nodes, in millionths of the currency; null where it is not known.
    """

    group: str
    reason: str
    chosen: bool
    nodes: int
    pods: int
    waste_permille: int
    cost_per_hour_micro: int | None


class StatedCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition as the status would say it."""

    type: str
    status: str
    reason: str
    message: str


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be done about a ProvisioningRequest or a CapacityBuffer.

    Attributes:
        result: of the attempt: `Successful`, `NotNeeded`, `NoOptionsAvailable`, `Error`, `Failed` where there would be none,
            `NotOurs` where nobody here decides.
        sentences: why.
        messages: what users would be told beside the conditions.
        cost_per_hour_micro: price of the ordered nodes, in millionths of the currency; null where it is not known.
        ready_in_seconds: when nodes of these groups were there last time; null where that is not known.
        clouds: what each cloud last said.
        chunks: of a buffer: how many are wanted, ready, upcoming and missing.
    """

    kind: str
    namespace: str
    name: str
    result: str
    increases: tuple[PlannedIncrease, ...]
    groups: tuple[JudgedGroup, ...]
    sentences: tuple[str, ...]
    conditions: tuple[StatedCondition, ...]
    messages: tuple[str, ...]
    cost_per_hour_micro: int | None
    ready_in_seconds: float | None
    clouds: tuple[str, ...]
    chunks: dict[str, int]


class ProvisioningPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan provisioning`: each object tried alone, on the same state."""

    items: tuple[PlannedRequest, ...]


class LeavingNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node that would go.

    Attributes:
        way: `drain` or `empty`.
        places: where its pods would go, and how many.
        saves_per_hour_micro: its price, in millionths of the currency; null where it is not known.
        rule: `scale-down`, or `consolidation` of a node that is used.
    """

    node: str
    group: str
    way: str
    pods: int
    places: dict[str, int]
    saves_per_hour_micro: int | None
    rule: str = "scale-down"


class ReplacedNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes that others which cost less would replace once later rounds agree, or do replace.

    Attributes:
        groups: what is ordered for it: group to nodes.
        pods: how many would move; 0 of what is under way.
        before_per_hour_micro: what the nodes cost, in millionths of the currency.
        after_per_hour_micro: what those cost that replace them.
        saves_per_hour_micro: the difference.
        overlap_micro: what it costs that both run while pods move; 0 of what is under way.
        under_way: the others are ordered.
        rule: what decides it: `replace`.
    """

    nodes: tuple[str, ...]
    groups: dict[str, int]
    pods: int
    before_per_hour_micro: int
    after_per_hour_micro: int
    saves_per_hour_micro: int
    overlap_micro: int
    under_way: bool
    rule: str


class ScaleDownPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan scale-down`.

    Attributes:
        going: nodes that would go now, in their order.
        replacing: what others that cost less would replace, or do; at most one at a time.
        later: nodes that nobody needs and that wait, and why.
        staying: reason to the nodes that stay for it.
        saves_per_hour_micro: price of what goes now or later, as far as prices are known.
        cooling: nothing goes now, since nodes have just come or gone.
        healthy: not too many nodes are unready.
    """

    going: tuple[LeavingNode, ...]
    replacing: tuple[ReplacedNodes, ...] = ()
    later: dict[str, str]
    staying: dict[str, tuple[str, ...]]
    saves_per_hour_micro: int | None
    cooling: bool
    healthy: bool


class PlannedSubset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A subset of a WorkloadSpread; the name "" stands for pods in none.

    Attributes:
        limit_pods: null for unlimited.
        now_pods, then_pods: active ones that are there, and once the workload has reached its replicas.
    """

    subset: str
    limit_pods: int | None
    now_pods: int
    then_pods: int


class SpreadPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan ws`; without a log that was asked, `log` is empty and `sequence` 0.

    Attributes:
        leaving: pods that would be scaled in, first one first, as `name (subset)`.
        changed_costs: pods whose deletion cost would change.
        surplus_pods: subset to the pods over its limit.
    """

    namespace: str
    name: str
    replicas: int
    subsets: tuple[PlannedSubset, ...]
    leaving: tuple[str, ...]
    changed_costs: int
    surplus_pods: dict[str, int]


class ComparedChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A count that was, or would have been, set.

    Attributes:
        times: how often it was decided, one time after the other, without anything having come of it.
    """

    at: str
    from_: int = msgspec.field(name="from")
    to: int
    times: int


class ComparedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change of theirs and ours that belong together, or one alone.

    Attributes:
        verdict: `same`, `different`, `onlyOurs`, `onlyTheirs`.
        why: why we decided so, or left it.
    """

    at: str
    verdict: str
    ours: ComparedChange | None
    theirs: ComparedChange | None
    why: tuple[str, ...]


class ComparedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of which we and the incumbent decide.

    Attributes:
        written_by_us: decisions of ours that were written in the stretch that is told: there is no incumbent to compare them with.
        counts: verdict to how many rows say so.
    """

    namespace: str
    name: str
    written_by_us: int
    counts: dict[str, int]
    rows: tuple[ComparedRow, ...]


class ComparisonList(Answer, frozen=True, kw_only=True):
    """Answer to `compare`.

    Attributes:
        since: the log time before which nothing is told.
    """

    since: str
    items: tuple[ComparedObject, ...]


class DifferingDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision that differs; null where one side has none.

    Attributes:
        change: `changed`, `gone`, `new`.
        object: as `kind/namespace/name`.
    """

    change: str
    at: str
    service: str
    object: str
    sequence: int
    before: Any
    after: Any


class LogDifferences(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `diff`.

    Attributes:
        before, after: what was compared.
        decisions: that were compared.
        differences: how many there are; `first` are the first of them.
        kinds: `changed ScaleWorkload` and the like, to how many.
    """

    before: str
    after: str
    decisions: int
    differences: int
    kinds: dict[str, int]
    first: tuple[DifferingDecision, ...]


class LoadTried(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The load that policies were tried with.

    Attributes:
        source: where it was read from, for people.
        model: `shared` where the ready replicas share it, `value` where it is the metric's value whatever the replicas.
        ready_delay_seconds: from a pod's creation until it is ready.
        start_replicas: at the start; null for the policy's least.
        history_seconds: so much of its beginning only went before what is counted.
    """

    source: str
    samples: int
    from_: str = msgspec.field(name="from")
    to: str
    model: str
    ready_delay_seconds: float
    start_replicas: int | None
    history_seconds: float


class RecordedCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas as they were from a time on."""

    at: str
    replicas: int


class TriedFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy would have cost, and how far it would have fallen short.

    Attributes:
        replica_hours: requested replicas over time.
        above_high_seconds, below_low_seconds: time during which a metric was above its high, or below its low watermark.
        most_missing_replicas: that were missing at once to keep every metric at its high watermark; `most_missing_at` is when, null where
            none were.
    """

    samples: int
    duration_seconds: float
    replica_hours: float
    above_high_seconds: float
    below_low_seconds: float
    scale_ups: int
    scale_downs: int
    most_missing_replicas: int
    most_missing_at: str | None
    least_replicas: int
    most_replicas: int


class TriedScale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scale that would have been decided."""

    at: str
    from_: int = msgspec.field(name="from")
    to: int
    because: tuple[Reason, ...]


class TriedStretch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A stretch of time for a chart, until the next one: the extremes of load and replicas within it."""

    at: str
    least_load: float
    most_load: float
    least_replicas: int
    most_replicas: int
    least_ready_replicas: int


class TriedPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy and what came of it.

    Attributes:
        name: the file that it is from, or what of it was varied.
        forecast: how its forecasts stood at the end, a sentence each; empty where it was run without.
    """

    name: str
    figures: TriedFigures
    forecast: tuple[str, ...]
    decisions: tuple[TriedScale, ...]
    chart: tuple[TriedStretch, ...]


class Backtest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `backtest wpa`.

    Attributes:
        recorded: the replicas as the log has them; empty for a load from elsewhere.
    """

    load: LoadTried
    recorded: tuple[RecordedCount, ...]
    policies: tuple[TriedPolicy, ...]


class ForecastFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a forecast is judged by."""

    above_high_seconds: float
    replica_hours: float


class SuggestedForecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What forecasts would have been to an object.

    Attributes:
        forecast: the best of what was tried; empty where nothing could be tried.
        confidence: how often its upper bound was to hold at the end: as is worth its price where none was asked for; 0 where nothing could be tried.
        without, having: what its policy did alone, and with that forecast; null where nothing could be tried.
        why_not: why it does not pay; empty where it does.
    """

    namespace: str
    name: str
    pays: bool
    forecast: str
    confidence: float
    without: ForecastFigures | None
    having: ForecastFigures | None = msgspec.field(name="with")
    why_not: str


class ForecastSuggestions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `backtest --suggest`."""

    log: str
    items: tuple[SuggestedForecast, ...]


ANSWERS: dict[str, type[msgspec.Struct]] = {
    "backtest.suggest": ForecastSuggestions,
    "backtest.wpa": Backtest,
    "compare": ComparisonList,
    "diff": LogDifferences,
    "events": LoggedEvent,
    "explain": ObjectExplanation,
    "get": KindList,
    "list": ObjectList,
    "plan.provisioning": ProvisioningPlan,
    "plan.scale-down": ScaleDownPlan,
    "plan.ws": SpreadPlan,
    "series": ObjectSeries,
    "state": ObjectState,
    "verify": LogVerification,
}
"""By question, as the schemas are named."""


def builtins(answer: Any) -> Any:
    """An answer as JSON and YAML are made of it."""
    return msgspec.to_builtins(answer)
