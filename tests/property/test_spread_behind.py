"""Spread with a decider that is behind: admission goes on while it has not folded what was appended.

One log. The endpoint folds it in its order and appends under expectation, so it is always current. The
decider folds events when its turn comes and appends its decisions at the end, after whatever admission
has appended meanwhile. Recounts, renewals, and a spread that is deleted and made again fall in between.
Whatever happens: the pods that exist never exceed a limit by our doing, and once all is folded the
endpoint's ledger, the decider's, and a recount of the pods are one.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
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
from tidewright.events.base import Event, JsonObject
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.spread import ChangeLedger, LedgerEntry, WorkloadSpreadGone
from tidewright.events.timers import TimerFired
from tidewright.spread.decide import DECIDER
from tidewright.spread.ledger import placing
from tidewright.spread.ledger.following import Followed
from tidewright.spread.state import State

START = 1_800_000_000.0
KEY = f"{NAMESPACE}/{SPREAD}"
LIMITS = (2, 3, None)


class World:
    """The log, who follows it, and the pods that exist."""

    def __init__(self) -> None:
        self.now = START
        self.state = State()
        self.followed = Followed()
        self.log: deque[Event] = deque()
        """What the decider has not folded yet."""
        self.names = itertools.count()
        self.uid = "ws"
        self.pods: dict[str, JsonObject] = {}
        self.uids: dict[str, str] = {}
        self.unsaid: dict[str, deque[Event]] = {}
        self.timers: dict[str, float] = {}
        self.filters = False
        """Pods that a filter leaves out hold no place, so more than a limit may exist."""
        self.append(spread_fact(spec(*LIMITS), 1), *deployment(100))
        self.decide(10)

    def append(self, *events: Event) -> None:
        for event in events:
            self.now += 0.001
            msgspec.structs.force_setattr(event, "at", self.now)
            if isinstance(event, LedgerEntry | ChangeLedger):
                self.followed.fold(event)
            if not isinstance(event, ChangeLedger):
                self.log.append(event)

    def decide(self, count: int) -> None:
        for _ in range(min(count, len(self.log))):
            event = self.log.popleft()
            touched = DECIDER.evolve(self.state, event)
            for decision in list(DECIDER.decide(self.state, event, touched)):
                DECIDER.evolve(self.state, decision)
                if isinstance(decision, ChangeLedger):
                    self.append(decision)
                if isinstance(decision, SetTimer):
                    self.timers[decision.key] = decision.due

    # -- what happens --------------------------------------------------------------------------

    def create(self, again: str = "", *, fails: bool = False) -> None:
        """Admission of a pod; `again` is its name, which may have been another one's. It may come to nothing."""
        n = next(self.names)
        pod = new_pod(n)
        if again:
            pod["metadata"]["name"] = again
        spread = placing.spread_on(self.followed.ledger, NAMESPACE, SPREAD)
        placed = placing.created(
            self.followed.ledger, spread, pod, request=placing.Request(f"r{n}", self.now)
        )
        if placed.entry is not None:
            self.append(placed.entry)
        if fails:
            return
        name = again or f"web-{n}"
        self.pods[name] = placed.pod
        self.uids[name] = f"uid-{n}"
        fact = msgspec.structs.replace(observed(placed.pod, name), uid=f"uid-{n}")
        self.unsaid.setdefault(name, deque()).append(fact)
        for subset, held in Counter(map(self.placed_now, self.pods.values())).items():
            limit = dict(zip("abc", LIMITS, strict=True)).get(subset)
            assert limit is None or held <= limit or self.filters, (subset, held)

    def placed_now(self, pod: JsonObject) -> str:
        return subset_of(pod) or ""

    def delete(self, name: str, *, evicted: bool) -> None:
        pod = self.pods.pop(name)
        uid = self.uids.pop(name)
        known = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": uid}}
        unheard = any(isinstance(f, PodObserved) and f.uid == uid for f in self.unsaid.get(name, ()))
        if evicted and unheard:
            self.say_all(name)  # an eviction names its pod only: admission waits until the log has it
        spread = placing.spread_on(self.followed.ledger, NAMESPACE, SPREAD)
        for n in range(2):  # somebody else deletes it in the same moment, and was admitted before it was gone
            request = placing.Request(f"d{n}-{name}-{next(self.names)}", self.now)
            entry = placing.removed(self.followed.ledger, spread, known, request, evicted=evicted)
            if entry is not None:
                self.append(entry)
        gone = PodGone(at=0, namespace=NAMESPACE, name=name, uid=uid)
        self.unsaid.setdefault(name, deque()).append(gone)

    def say(self, name: str) -> None:
        self.append(self.unsaid[name].popleft())
        if not self.unsaid[name]:
            del self.unsaid[name]

    def say_all(self, name: str) -> None:
        while name in self.unsaid:
            self.say(name)

    def renew(self) -> None:
        self.append(self.spread(1, refresh=True))

    def spread(self, generation: int, **fields: Any) -> Event:
        return msgspec.structs.replace(spread_fact(spec(*LIMITS), generation, **fields), uid=self.uid)

    def made_again(self) -> None:
        """The spread is deleted and made again; a pod is admitted before the decider knows."""
        self.append(WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD, uid=self.uid))
        self.uid = "ws-again"
        self.append(self.spread(1))
        self.create()
        self.decide(10_000)

    def filtered(self, selects: bool) -> None:
        """The spread's filter changes, so that all pods leave it, or come (back)."""
        self.filters = True
        chosen = {"app": "web"} if selects else {"app": "other"}
        given = spec(*LIMITS, targetFilter={"selector": {"matchLabels": chosen}})
        self.append(spread_fact(given, 1000 + next(self.names)))

    def crash(self) -> None:
        self.state = msgspec.json.decode(msgspec.json.encode(self.state), type=State)

    def quiet(self) -> None:
        for _ in range(3):
            while self.unsaid:
                self.say(next(iter(self.unsaid)))
            self.decide(10_000)
            for key in list(self.timers):
                self.now = max(self.now, self.timers.pop(key)) + 15
                self.append(TimerFired(at=self.now, key=key))
            self.decide(10_000)


STEPS = st.one_of(
    st.tuples(st.just("create"), st.just(0)),
    st.tuples(st.just("create"), st.just(0)),
    st.tuples(
        st.sampled_from(["delete", "evict", "recreate", "recreate", "name", "fail"]), st.integers(0, 20)
    ),
    st.tuples(st.just("say"), st.integers(0, 20)),
    st.tuples(st.just("say"), st.just(0)),
    st.tuples(st.just("decide"), st.integers(1, 10)),
    st.tuples(st.sampled_from(["renew", "crash"]), st.just(0)),
)


def play(world: World, story: list[tuple[str, Any]]) -> None:
    for what, how in story:
        names = sorted(world.pods)
        match what:
            case "create":
                world.create()
            case "delete" | "evict" if names:
                world.delete(names[how % len(names)], evicted=what == "evict")
            case "recreate" if names:
                # The old one is gone before the new one can come, but nobody was told yet.
                name = names[how % len(names)]
                world.delete(name, evicted=False)
                world.create(again=name)
            case "name" | "fail":
                name = f"set-{how % 4}"
                if (
                    what == "fail" or name not in world.pods
                ):  # a name that is taken is refused after admission
                    world.create(again=name, fails=what == "fail")
            case "say" if world.unsaid:
                said = sorted(world.unsaid)
                world.say(said[how % len(said)])
            case "decide":
                world.decide(how)
            case "renew":
                world.renew()
            case "crash":
                world.crash()


FOLLOWING = st.one_of(
    st.tuples(st.sampled_from(["name", "recreate", "delete", "evict", "fail"]), st.integers(0, 7)),
    st.tuples(st.sampled_from(["name", "recreate"]), st.integers(0, 1)),
    st.tuples(st.just("create"), st.just(0)),
    st.tuples(st.just("say"), st.integers(0, 3)),
    st.tuples(st.just("decide"), st.integers(1, 7)),
    st.tuples(st.just("crash"), st.just(0)),
)


def held(world: World) -> dict[str, int]:
    return world.followed.ledger.counts.get(HASH, {})


COMMON = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@COMMON
@given(st.lists(STEPS, max_size=60))
def test_a_decider_that_is_behind_never_lets_a_limit_be_exceeded(story: list[tuple[str, Any]]) -> None:
    world = World()
    play(world, story)
    world.quiet()
    ledger = world.state.spreads[KEY].ledger
    assert world.followed.ledger.counts == ledger.counts
    assert Counter(held(world)) == Counter(s for p in world.pods.values() if (s := subset_of(p)))
    assert not world.followed.ledger.placed
    assert not world.followed.ledger.leaving


@settings(COMMON, max_examples=300)
@given(st.lists(FOLLOWING, max_size=40))
@example([("name", 1), ("say", 0), ("recreate", 0), ("decide", 7), ("create", 0), ("recreate", 0)])
@example(
    [
        ("name", 2),
        ("say", 0),
        ("create", 0),
        ("create", 0),
        ("decide", 4),
        ("say", 0),
        ("fail", 2),
        ("delete", 0),
    ]
)
@example(
    [("name", 2), ("name", 0), ("decide", 7), ("say", 0), ("name", 1), ("say", 0), ("decide", 4), ("delete", 1),
     ("delete", 1), ("fail", 0), ("name", 2), ("decide", 6), ("evict", 0)]
)  # fmt: skip
def test_pods_follow_one_another_under_one_name_faster_than_the_decider_is_told(
    story: list[tuple[str, Any]],
) -> None:
    """As operators make them that number their workers: deleted, evicted, refused because the name is taken, and made anew."""
    world = World()
    play(world, story)
    world.quiet()
    ledger = world.state.spreads[KEY].ledger
    assert world.followed.ledger.counts == ledger.counts
    assert Counter(held(world)) == Counter(s for p in world.pods.values() if (s := subset_of(p)))
    assert not world.followed.ledger.placed
    assert not world.followed.ledger.leaving
    assert not world.followed.ledger.left


@COMMON
@given(st.lists(STEPS, max_size=30), st.booleans(), st.lists(STEPS, max_size=30))
def test_a_recount_loses_no_entry_that_stands_before_it(
    before: list[tuple[str, Any]], selects: bool, after: list[tuple[str, Any]]
) -> None:
    world = World()
    play(world, before)
    world.filtered(selects)
    play(world, after)
    world.filtered(True)
    world.quiet()
    assert world.followed.ledger.counts == world.state.spreads[KEY].ledger.counts
    assert Counter(held(world)) == Counter(s for p in world.pods.values() if (s := subset_of(p)))


@COMMON
@given(st.lists(STEPS, max_size=30), st.lists(STEPS, max_size=30))
def test_a_spread_of_the_same_name_begins_a_ledger_of_its_own(
    before: list[tuple[str, Any]], after: list[tuple[str, Any]]
) -> None:
    world = World()
    play(world, before)
    world.made_again()
    while world.unsaid:  # places of pods that nobody has seen are not known to the new ledger
        world.say(next(iter(world.unsaid)))
    world.decide(10_000)
    play(world, after)
    world.quiet()
    assert world.followed.ledger.counts == world.state.spreads[KEY].ledger.counts
    assert Counter(held(world)) == Counter(s for p in world.pods.values() if (s := subset_of(p)))


@COMMON
@given(st.lists(STEPS, max_size=60), st.integers(0, 200))
def test_who_reads_from_a_renewal_on_knows_what_is_held(story: list[tuple[str, Any]], forgotten: int) -> None:
    """Retention takes entries from the front; what a renewal says holds for who has not read them."""

    class Retained(World):
        def __init__(self) -> None:
            self.entries: list[Event] = []
            super().__init__()

        def append(self, *events: Event) -> None:
            super().append(*events)
            self.entries += [e for e in events if isinstance(e, LedgerEntry | ChangeLedger)]

    world = Retained()
    play(world, story)
    forgotten = min(forgotten, len(world.entries))
    world.renew()
    world.decide(10_000)
    world.create()
    late = Followed()
    for event in world.entries[forgotten:]:
        late.fold(event)
    assert late.ledger.counts == world.followed.ledger.counts
    assert late.ledger.rules == world.followed.ledger.rules
