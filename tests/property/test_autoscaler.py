"""What holds of the autoscaler for any input: bounds, windows, order, monotony, replay."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.autoscaler.world import NS, World, external, of, pod, sample, spec, workload, wpa
from tidewright.autoscaler import state as state_module
from tidewright.autoscaler.api import spec as spec_module
from tidewright.autoscaler.api.spec import Rules, compiled, verdict
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.passes import passes
from tidewright.autoscaler.passes.conditions import PROCESSING
from tidewright.autoscaler.passes.evaluate import Pass, evaluate
from tidewright.autoscaler.passes.lifecycle import Gate
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import State
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet, Mode, ModesSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled
from tidewright.events.outcomes import Applied
from tidewright.events.timers import TimerFired
from tidewright.kube.readiness import Pod

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FEWER = settings(SETTINGS, max_examples=40)
"""Of what encodes the state at every event."""

counts = st.integers(1, 60)
values = st.one_of(st.integers(0, 60_000), st.integers(-(2**63), 2**63 - 1))


@st.composite
def specs(draw: st.DrawFn, metrics: int = 1) -> dict[str, Any]:
    """A valid spec."""
    low = draw(st.integers(1, 20_000))
    minimum = draw(st.integers(1, 30))
    return spec(
        *(
            external(f"m{i}", low=f"{low}m", high=f"{low + draw(st.integers(0, 20_000))}m")
            for i in range(metrics)
        ),
        algorithm=draw(st.sampled_from(["average", "absolute"])),
        tolerance=draw(st.sampled_from(["1m", "0.1", "250m", "1"])),
        minReplicas=minimum,
        maxReplicas=minimum + draw(st.integers(0, 40)),
        scaleUpLimitFactor=draw(st.sampled_from(["0", "1u", "10", "33.3", "50", "200"])),
        scaleDownLimitFactor=draw(st.sampled_from(["0", "10", "20", "99.9"])),
        replicaScalingAbsoluteModulo=draw(st.integers(1, 5)),
        convergeTowardsWatermark=draw(st.sampled_from(["", "highwatermark", "lowwatermark"])),
        upscaleForbiddenWindowSeconds=draw(st.integers(1, 120)),
        downscaleForbiddenWindowSeconds=draw(st.integers(1, 300)),
        upscaleDelayAboveWatermarkSeconds=draw(st.sampled_from([0, 20, 60])),
        downscaleDelayBelowWatermarkSeconds=draw(st.sampled_from([0, 20, 60])),
        tolerateZero=draw(st.booleans()),
    )


def rules_of(members: dict[str, Any]) -> Rules:
    return compiled(members, namespace=NS, name="wpa")


def look(rules: Rules, value: int, current: int, ready: int, policy: Policy, last: float | None) -> Pass:
    pods = [
        Pod(
            name=f"p{i}",
            owners=("web",),
            phase="Running",
            ready="True" if i < ready else "False",
            started_at=1.0,
        )
        for i in range(max(current, ready))
    ]
    scene = Scene(
        namespace=NS,
        now=1000.0,
        current=current,
        observed=max(current, ready),
        pods=pods,
        samples=[MetricSampled(at=1000.0, name="", series_milli=(value,))],
        last_scale_at=last,
    )
    return evaluate(rules, policy, scene)


@SETTINGS
@given(specs(), values, counts, counts, st.booleans(), st.none() | st.floats(900, 1000))
def test_a_pass_with_readable_metrics_never_decides_outside_the_bounds(
    members: dict[str, Any], value: int, current: int, ready: int, strict: bool, last: float | None
) -> None:
    rules = rules_of(members)
    found = look(rules, value, current, ready, Policy(strict=strict), last)
    assert found.failure is None
    assert rules.min_replicas <= found.desired <= rules.max_replicas


@SETTINGS
@given(specs(), st.lists(st.integers(0, 2**62), min_size=2, max_size=8), counts, counts)
def test_an_upscale_is_monotone_in_the_metric(
    members: dict[str, Any], series: list[int], current: int, ready: int
) -> None:
    rules = rules_of({**members, "convergeTowardsWatermark": "", "tolerateZero": True})
    proposals = [
        look(rules, value, current, ready, Policy(), None).calculations[0].replicas
        for value in sorted(series)
    ]
    assert proposals == sorted(proposals)


@st.composite
def stories(draw: st.DrawFn, *, edits: bool = False) -> list[tuple[str, float, int]]:
    """What happens to an object: samples, manual scales inside the bounds, pods that come and go; with `edits`
    its spec is spoilt in one way or another, and put right.
    """
    kinds = ["sample", "sample", "sample", "scale", "ready", "unready", *(["spoil", "mend"] if edits else [])]
    at, story = 101.0, []
    for _ in range(draw(st.integers(5, 40))):
        at += draw(st.sampled_from([0.25, 1.0, 7.5, 15.0, 15.0, 40.0, 130.0]))
        what = draw(st.sampled_from(kinds))
        story.append((what, at, draw(st.integers(0, 40_000))))
    return story


SPOILT: tuple[dict[str, Any], ...] = (
    {"maxReplicas": 0},
    {"tolerance": "7"},
    {"scaleDownLimitFactor": "100"},
    {"metrics": "many"},
    {"scaleTargetRef": {"kind": "Deployment"}},
)


def tell(
    world: World, members: dict[str, Any], story: list[tuple[str, float, int]], *, begin: bool = True
) -> list[ScaleWorkload]:
    """Live through a story; timers fire when due, orders are applied at once."""
    low, high = members["minReplicas"], members["maxReplicas"]
    orders: list[ScaleWorkload] = []

    def feed(event: Event) -> None:
        for order in of(world.feed(event), ScaleWorkload):
            orders.append(order)
            feed(Applied(at=order.at, decision=order.id))
            feed(workload(order.at, order.replicas))

    if begin:
        feed(wpa(100, spec=members))
        feed(workload(100, low))
        for i in range(low):
            feed(pod(100, f"web-77-{i}"))
    for what, at, number in story:
        while (due := world.object().timer_due) is not None and due <= at:
            feed(TimerFired(at=due, key=f"wpa/{NS}/wpa"))
        match what:
            case "sample":
                query = rules_of(members).metrics[0].query
                feed(MetricSampled(at=at, namespace=NS, name=query, series_milli=(number,)))
            case "spoil":
                feed(wpa(at, spec={**members, **SPOILT[number % len(SPOILT)]}, generation=int(at * 4)))
            case "mend":
                feed(wpa(at, spec=members, generation=int(at * 4)))
            case "scale":
                feed(workload(at, low + number % (high - low + 1)))
            case _:
                feed(pod(at, f"web-77-{number % 5}", ready=what == "ready"))
    return orders


@SETTINGS
@given(specs(), stories())
def test_no_two_scales_lie_within_a_window(
    members: dict[str, Any], story: list[tuple[str, float, int]]
) -> None:
    orders = tell(World(), members, story)
    for before, after in pairwise(orders):
        if any(step.rule in ("AboveMaximum", "BelowMinimum") for step in after.because):
            continue
        up = after.replicas > after.from_replicas
        window = members["upscaleForbiddenWindowSeconds" if up else "downscaleForbiddenWindowSeconds"]
        assert after.at - before.at >= window


@SETTINGS
@given(specs(), stories(), st.booleans())
def test_folding_again_gives_the_same_decisions_byte_for_byte(
    members: dict[str, Any], story: list[tuple[str, float, int]], strict: bool
) -> None:
    first, second = World(strict=strict), World(strict=strict)
    assert tell(first, members, story) == tell(second, members, story)
    assert first.fold.chain == second.fold.chain
    assert msgspec.json.encode(first.fold.state) == msgspec.json.encode(second.fold.state)


@SETTINGS
@given(specs(), stories(), st.integers(0, 30))
def test_a_snapshot_in_between_changes_nothing(
    members: dict[str, Any], story: list[tuple[str, float, int]], cut: int
) -> None:
    whole, cut_in_two = World(), World()
    tell(whole, members, story)
    tell(cut_in_two, members, story[:cut])
    encoder = msgspec.json.Encoder(order="deterministic")
    cut_in_two.fold.state = msgspec.json.decode(encoder.encode(cut_in_two.fold.state), type=State)
    tell(cut_in_two, members, story[cut:], begin=False)
    assert encoder.encode(whole.fold.state) == encoder.encode(cut_in_two.fold.state)


@SETTINGS
@given(
    specs(metrics=3), st.lists(st.tuples(*[st.integers(0, 60_000)] * 3), min_size=1, max_size=6), st.randoms()
)
def test_the_order_of_answers_within_a_round_changes_nothing(
    members: dict[str, Any], rounds: list[tuple[int, int, int]], random: Any
) -> None:
    given_orders = []
    for shuffled in (False, True):
        world = World()
        world.feed(wpa(100, spec=members), workload(100, 5), *(pod(100, f"web-77-{i}") for i in range(5)))
        orders: list[tuple[float, int]] = []
        for index, answers in enumerate(rounds):
            at = 101.0 + 15 * index
            events = [sample(at, value, name=f"m{i}") for i, value in enumerate(answers)]
            if shuffled:
                random.shuffle(events)
            for event in events:
                for order in of(world.feed(event), ScaleWorkload):
                    orders.append((order.at, order.replicas))
                    world.apply(order, at)
        given_orders.append(orders)
    assert given_orders[0] == given_orders[1]


class Recording(World):
    """A world that keeps its log, and its state after each event."""

    def __init__(self, **policy: Any) -> None:
        self.log: list[tuple[Event, list[Decision], bytes]] = []
        super().__init__(**policy)

    def feed(self, *events: Event) -> list[Decision]:
        given: list[Decision] = []
        for event in events:
            decided = super().feed(event)
            self.log.append((_stored(event), decided, ENCODER.encode(self.fold.state)))
            given += decided
        return given


OTHER_CONFIGURATION = ConfigSet(
    at=1.0,
    name="autoscaler",
    data={
        "strict": True,
        "stale_after_s": 1.0,
        "status_interval_s": 0.5,
        "enforce_bounds_without_metrics": True,
        "guard_resource_zero": True,
        "align_after_limits": True,
        "walk_owner_chain": True,
        "outcome_timeout_s": 2.0,
    },
)
"""What is on the log under its own name is the one thing that it changes."""

ENCODER = msgspec.json.Encoder(order="deterministic")


def _stored(event: Event) -> Event:
    read = registry.decode(registry.encode(event))
    assert isinstance(read, Event)
    return read


@contextmanager
def other_policy() -> Iterator[None]:
    """Every pass is made by other rules, and concludes something else."""

    def otherwise(rules: Rules, _: Policy, scene: Scene) -> Pass:
        other = evaluate(rules, Policy(strict=True, stale_after_s=1.0), scene)
        return msgspec.structs.replace(other, rescale=not other.rescale, desired=other.desired + 1)

    def the_contrary(spec: Any, *, namespace: str, name: str) -> str:
        return "" if verdict(spec, namespace=namespace, name=name) else "another"

    def closed(*_: object, **__: object) -> Gate:
        return Gate(blocked=True, setting=PROCESSING, event="another")

    with (
        patch.object(passes, "evaluate", otherwise),
        patch.object(passes, "gate", closed),
        patch.object(passes, "verdict", the_contrary),
        patch.object(spec_module, "problem", lambda *_, **__: "another"),
        patch.object(state_module, "DEFAULT", Policy(strict=True, walk_owner_chain=True)),
    ):
        yield


@FEWER
@given(
    specs(metrics=2),
    stories(edits=True),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["enforce", "shadow", "dry-run"]),
)
def test_the_state_is_a_function_of_the_log_alone(
    members: dict[str, Any], story: list[tuple[str, float, int]], dry_run: bool, walks: bool, mode: Mode
) -> None:
    recording = Recording(walk_owner_chain=walks) if walks else Recording()
    recording.feed(ModesSet(at=1.0, mode=mode))
    query = rules_of(members).metrics[1].query
    recording.feed(MetricSampled(at=99.0, namespace=NS, name=query, series_milli=(7000,)))
    tell(recording, {**members, "dryRun": dry_run}, story)
    recording.feed(ModesSet(at=1e6, mode="enforce"))
    state, stored = State(), ENCODER.encode(State())
    elsewhere = State()
    DECIDER.evolve(elsewhere, OTHER_CONFIGURATION)
    for event, decided, recorded in recording.log:
        if not isinstance(event, ConfigSet):
            DECIDER.decide(elsewhere, event, DECIDER.evolve(elsewhere, event))
        restored = msgspec.json.decode(stored, type=State)
        DECIDER.evolve(restored, event)
        with other_policy():
            DECIDER.decide(state, event, DECIDER.evolve(state, event))
        for decision in decided:
            if not decision.shadow or type(decision) in DECIDER.simulates:
                DECIDER.evolve(restored, decision)
                DECIDER.evolve(elsewhere, decision)
                with other_policy():
                    DECIDER.evolve(state, decision)
        stored = ENCODER.encode(restored)
        assert stored == recorded, f"restored, after {event}"
        assert ENCODER.encode(state) == recorded, f"under another policy, after {event}"
        unconfigured = msgspec.structs.replace(elsewhere, policy=state.policy, now=state.now)
        assert ENCODER.encode(unconfigured) == recorded, f"under another configuration, after {event}"


@FEWER
@given(specs(), stories(), st.booleans(), st.sampled_from(["enforce", "shadow"]))
def test_to_decide_changes_nothing(
    members: dict[str, Any], story: list[tuple[str, float, int]], strict: bool, mode: Mode
) -> None:
    recording = Recording(strict=strict)
    recording.feed(ModesSet(at=1.0, mode=mode))
    tell(recording, members, story)
    state = State()
    for event, decided, _ in recording.log:
        touched = DECIDER.evolve(state, event)
        before = ENCODER.encode(state)
        DECIDER.decide(state, event, touched)
        assert ENCODER.encode(state) == before
        for decision in decided:
            DECIDER.evolve(state, decision)


def test_a_copy_of_the_state_folds_like_the_state_itself() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(sample(101, 40_000))
    encoder = msgspec.json.Encoder(order="deterministic")
    other = msgspec.json.decode(encoder.encode(copy.deepcopy(world.fold.state)), type=State)
    for event in (sample(116, 15_000), sample(131, 90_000), pod(140, "web-77-0", ready=False)):
        answers = [
            DECIDER.decide(state, event, DECIDER.evolve(state, event)) for state in (world.fold.state, other)
        ]
        assert answers[0] == answers[1]
    assert encoder.encode(world.fold.state) == encoder.encode(other)
