"""Spread over random interleavings: creates, deletes, failures, crashes, duplicated and delayed facts.

A model cluster stands around the real decider and the real placing functions. Facts reach the decider
late, twice, and in the order of their objects only; the decider is replaced by one that was restored
from its state as JSON. Whatever happens: no subset holds more than its limit by our doing, each pod
goes to the first subset with room in the ledger at its place in it, and once all is quiet the counts
are a recount of the pods.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.spread.cluster import (
    HASH,
    NAMESPACE,
    SPREAD,
    deployment,
    new_pod,
    observed,
    spec,
    spread_fact,
    subset_of,
)
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.spread import ChangeLedger, LedgerEntry, PodPlaced
from tidewright.events.timers import TimerFired
from tidewright.spread.decide import DECIDER
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger import placing
from tidewright.spread.ledger.ledger import Ledger
from tidewright.spread.state import State

START = 1_800_000_000.0
KEY = f"{NAMESPACE}/{SPREAD}"
BOUND_S = 10.0


class World:
    """The log, the decider, one admission replica and the pods that exist."""

    def __init__(self, limits: list[int | None]) -> None:
        self.now = START
        self.limits = limits
        self.state = State()
        self.ledger = Ledger()
        self.names = itertools.count()
        self.pods: dict[str, JsonObject] = {}
        self.deleting: set[str] = set()
        self.delayed: dict[str, list[Event]] = {}
        self.timers: dict[str, float] = {}
        self.retried: list[tuple[str, JsonObject, str | None]] = []
        self.append(spread_fact(spec(*limits)), *deployment(100))

    # -- the log -------------------------------------------------------------------------------

    def append(self, *events: Event) -> None:
        """What is appended is folded by everybody, in order; decisions follow their cause."""
        for event in events:
            msgspec.structs.force_setattr(event, "at", self.now)
            if isinstance(event, LedgerEntry):
                ledgers.fold(self.ledger, event)
            touched = DECIDER.evolve(self.state, event)
            decisions = list(DECIDER.decide(self.state, event, touched))
            for decision in decisions:
                assert registry.decode(registry.encode(decision)) == decision
                DECIDER.evolve(self.state, decision)
                if isinstance(decision, ChangeLedger):
                    ledgers.fold(self.ledger, decision)
                if isinstance(decision, SetTimer):
                    self.timers[decision.key] = decision.due

    def tell(self, name: str, event: Event) -> None:
        """A fact about a pod, to be delivered some time, after the earlier ones about it."""
        self.delayed.setdefault(name, []).append(event)

    def deliver(self, name: str, *, twice: bool = False) -> None:
        event = self.delayed[name].pop(0)
        if not self.delayed[name]:
            del self.delayed[name]
        self.append(event)
        if twice:
            self.append(msgspec.structs.replace(event))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and (due := min(self.timers.values())) <= end:
            key = next(k for k, d in self.timers.items() if d == due)
            del self.timers[key]
            self.now = max(self.now, due)
            self.append(TimerFired(at=self.now, key=key))
        self.now = end

    # -- what happens --------------------------------------------------------------------------

    def place(self, request: str, pod: JsonObject) -> JsonObject:
        """Admission of one request; what it chose is the first subset with room."""
        spread = placing.spread_on(self.ledger, NAMESPACE, SPREAD)
        assert spread is not None
        rules = self.ledger.rules
        assert rules is not None
        first = next((r.name for r in rules.subsets if self.ledger.missing(r, HASH) != 0), "")
        placed = placing.created(self.ledger, spread, pod, request=placing.Request(request, self.now))
        if placed.entry is not None:
            assert isinstance(placed.entry, PodPlaced)
            assert placed.subset == first
            self.append(placed.entry)
            self.check_limits()
        return placed.pod

    def create(self, *, fails: bool, retried: bool) -> None:
        n = next(self.names)
        pod = new_pod(n)
        admitted = self.place(f"r{n}", pod)
        if retried:
            assert subset_of(self.place(f"r{n}", pod)) == subset_of(admitted)
        if fails:
            return
        name = f"web-{n}"
        self.pods[name] = admitted
        self.tell(name, observed(admitted, name))

    def delete(self, name: str, *, refused: bool) -> None:
        pod = self.pods[name]
        known = {**pod, "metadata": {**pod["metadata"], "name": name}}
        spread = placing.spread_on(self.ledger, NAMESPACE, SPREAD)
        entry = placing.removed(self.ledger, spread, known, placing.Request(f"d-{name}", self.now))
        if entry is not None:
            self.append(entry)
        if refused:
            return
        del self.pods[name]
        self.tell(name, PodGone(at=self.now, namespace=NAMESPACE, name=name, uid=f"uid-{name}"))

    def crash(self) -> None:
        """Another process goes on from the state as it was stored."""
        stored = msgspec.json.encode(self.state)
        self.state = msgspec.json.decode(stored, type=State)
        assert msgspec.json.encode(self.state) == stored

    def check_limits(self) -> None:
        for zone, limit in zip("abcdef", self.limits, strict=False):
            held = self.ledger.held(HASH, zone)
            assert limit is None or held <= limit, (zone, held, limit)

    def quiet(self) -> None:
        """Everything is delivered, and the bounds pass."""
        while self.delayed:
            self.deliver(next(iter(self.delayed)))
        self.pass_time(3 * BOUND_S)
        self.pass_time(3 * BOUND_S)


@st.composite
def stories(draw: st.DrawFn, *, refusals: bool) -> list[tuple[str, Any]]:
    step = st.one_of(
        st.tuples(st.just("create"), st.tuples(st.booleans(), st.booleans())),
        st.tuples(st.just("create"), st.just((False, False))),
        st.tuples(
            st.just("delete"), st.tuples(st.integers(0, 50), st.booleans() if refusals else st.just(False))
        ),
        st.tuples(st.just("deliver"), st.tuples(st.integers(0, 50), st.booleans())),
        st.tuples(st.just("deliver"), st.just((0, False))),
        st.tuples(st.just("crash"), st.none()),
        st.tuples(st.just("wait"), st.floats(0.1, 4.0)),
    )
    return draw(st.lists(step, max_size=60))


def told(world: World, story: list[tuple[str, Any]]) -> Iterator[None]:
    for what, how in story:
        match what:
            case "create":
                world.create(fails=how[0], retried=how[1])
            case "delete" if world.pods:
                names = sorted(world.pods)
                world.delete(names[how[0] % len(names)], refused=how[1])
            case "deliver" if world.delayed:
                names = sorted(world.delayed)
                world.deliver(names[how[0] % len(names)], twice=how[1])
            case "crash":
                world.crash()
            case "wait":
                world.pass_time(how)
        yield


limits_given = st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=2, max_size=4)
COMMON = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@COMMON
@given(limits_given, stories(refusals=True))
def test_counts_are_a_recount_when_quiet(limits: list[int | None], story: list[tuple[str, Any]]) -> None:
    world = World(limits)
    for _ in told(world, story):
        assert world.state.spreads[KEY].ledger == world.ledger
    world.quiet()
    pods = Counter(subset for p in world.pods.values() if (subset := subset_of(p)) is not None)
    held = Counter(world.ledger.counts.get(HASH, {}))
    assert held == pods
    assert not world.ledger.placed
    assert not world.ledger.leaving
    spread = world.state.spreads[KEY]
    active = Counter({s: n for s, n in spread.active.get("replicaset", {}).get(HASH, {}).items() if s})
    assert active == pods
    status = spread.status or {}
    entries = {e["name"]: e for e in status.get("subsetStatuses", ())}
    for zone, limit in zip("abcdef", limits, strict=False):
        assert entries[zone]["replicas"] == pods[zone]
        assert entries[zone]["missingReplicas"] == (-1 if limit is None else max(0, limit - pods[zone]))


@COMMON
@given(limits_given, stories(refusals=False))
def test_no_subset_is_over_its_limit_by_our_doing(
    limits: list[int | None], story: list[tuple[str, Any]]
) -> None:
    """Deletes that happen free a place; placements take one: the pods that exist never exceed a limit."""
    world = World(limits)
    for _ in told(world, story):
        pods = Counter(subset_of(p) for p in world.pods.values())
        for zone, limit in zip("abcdef", limits, strict=False):
            assert limit is None or pods[zone] <= limit or world.now - START > BOUND_S
    world.quiet()


@COMMON
@given(limits_given, stories(refusals=True))
def test_a_replay_of_recorded_decisions_gives_the_same_state(
    limits: list[int | None], story: list[tuple[str, Any]]
) -> None:
    recorded: list[Event] = []
    state = State()

    class Recording(World):
        def append(self, *events: Event) -> None:
            for event in events:
                before = self.state
                super().append(event)
                assert before is self.state
                recorded.append(event)

    world = Recording(limits)
    for what, how in story:
        if what != "crash":
            for _ in told(world, [(what, how)]):
                pass
    for event in recorded:
        touched = DECIDER.evolve(state, event)
        for decision in list(DECIDER.decide(state, event, touched)):
            DECIDER.evolve(state, registry.decode(registry.encode(decision)))  # type: ignore[arg-type]  # known
    assert msgspec.to_builtins(state) == msgspec.to_builtins(world.state)


def test_facts_that_arrive_before_their_owners_count_all_the_same() -> None:
    world = World([2, None])
    world.create(fails=False, retried=False)
    pod = observed(next(iter(world.pods.values())), "web-0")
    assert isinstance(pod, PodObserved)
    early, late = State(), State()
    facts: list[Event] = [spread_fact(spec(2, None)), *deployment(3), pod]
    for order, state in ((facts, early), (list(reversed(facts)), late)):
        for event in order:
            msgspec.structs.force_setattr(event, "at", START)
            touched = DECIDER.evolve(state, event)
            for decision in list(DECIDER.decide(state, event, touched)):
                DECIDER.evolve(state, decision)
    assert early.spreads[KEY].ledger.counts == late.spreads[KEY].ledger.counts == {HASH: {"a": 1}}
    assert early.spreads[KEY].active == late.spreads[KEY].active


def test_a_late_attempt_of_a_request_finds_its_place_after_the_pod_was_seen() -> None:
    world = World([1, None])
    pod = new_pod()
    admitted = world.place("r0", pod)
    world.append(observed(admitted, "web-0"))
    assert not world.ledger.placed
    assert subset_of(world.place("r0", pod)) == subset_of(admitted) == "a"
    assert world.ledger.counts == {HASH: {"a": 1}}
