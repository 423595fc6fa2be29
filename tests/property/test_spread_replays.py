"""Spread's state is a function of the log alone: no setting of its policy, and no decision that was not recorded, is in it.

Logs of any events are recorded with what was decided; they are folded again with nobody deciding, by code whose
policy is another one and whose decisions are dropped, and under other settings than were recorded. After every event
the states are the same byte for byte, but for the settings themselves.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from unittest import mock

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.spread.cluster import HASH, NAMESPACE, SPREAD, deployment, spec, spread_fact
from tidewright.events import registry
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import ScaleWorkload, SetTimer
from tidewright.events.facts import NodeGone, NodeObserved, Owner, PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.events.spread import (
    ForeseeScaleIn,
    PodLeaving,
    PodPlaced,
    TargetReplicasObserved,
    WorkloadSpreadGone,
)
from tidewright.events.timers import TimerFired
from tidewright.spread import decide
from tidewright.spread.control import conclude, costs, rescheduling, versions
from tidewright.spread.decide import DECIDER
from tidewright.spread.ledger import ledger
from tidewright.spread.state import Settings, State

START = 1_800_000_000.0
ZONES = ("a", "b", "c")
_Event = TypeVar("_Event", bound=Event)
TARGET = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web")


OTHER_SETTINGS = ConfigSet(
    at=0,
    name="spread",
    data={
        "unseenBoundSeconds": 60.0,
        "leavingBoundSeconds": 0.5,
        "statusEverySeconds": 9.0,
        "versionedKinds": ["Room", "Job"],
        "cleanUpDeleted": True,
        "bringBackSeconds": 1.0,
    },
)


class Recorded(msgspec.Struct):
    """An event, what was decided about it, and the state after both."""

    event: Event
    decisions: list[Decision]
    state: bytes


def stored(event: _Event) -> _Event:
    """An event as it is read back."""
    decoded = registry.decode(registry.encode(event))
    assert type(decoded) is type(event)
    return decoded


class Log:
    """Records a log as a host does, and answers and wakes as the world would."""

    def __init__(self) -> None:
        self.now = START
        self.state = State()
        self.steps: list[Recorded] = []
        self.timers: dict[str, float] = {}
        self.open: list[str] = []

    def append(self, event: Event) -> None:
        event = stored(msgspec.structs.replace(event, at=self.now))
        seq = len(self.steps)
        touched = DECIDER.evolve(self.state, event)
        decided = DECIDER.decide(self.state, event, touched)
        decisions = [
            stored(msgspec.structs.replace(decision, id=f"spread.0.{seq}.{n}"))
            for n, decision in enumerate(decided)
        ]
        for decision in decisions:
            DECIDER.evolve(self.state, decision)
            if isinstance(decision, SetTimer):
                self.timers[decision.key] = decision.due
            else:
                self.open.append(decision.id)
        self.steps.append(Recorded(event, decisions, folded(self.state)))

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda k: self.timers[k])
            self.now = max(self.now, self.timers.pop(key))
            self.append(TimerFired(at=0, key=key))
        self.now = end


def folded(state: State) -> bytes:
    """The state as it is stored, without the settings, which are on the log as they are."""
    return msgspec.json.encode(msgspec.structs.replace(state, settings=Settings()))


def replayed(steps: Sequence[Recorded], *, deciding: bool, other_settings: bool = False) -> Iterator[bytes]:
    """The states of a replay; with `deciding`, what is decided now is dropped for what was recorded."""
    state = State()
    if other_settings:
        DECIDER.evolve(state, OTHER_SETTINGS)
    for step in steps:
        event = stored(step.event)
        if other_settings and isinstance(event, ConfigSet):
            event = msgspec.structs.replace(OTHER_SETTINGS, at=event.at)
        touched = DECIDER.evolve(state, event)
        if deciding:
            DECIDER.decide(state, event, touched)
        for decision in step.decisions:
            DECIDER.evolve(state, stored(decision))
        yield folded(state)


@contextlib.contextmanager
def another_policy() -> Iterator[None]:
    """Other costs, other times, other ideas of where a pod fits, of what is held, of who is overdue and what a version is."""
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (costs, "UNIT", 7),
            (conclude, "RETRY_S", 3.0),
            (conclude, "CLOSED_FOR_S", 20.0),
            (rescheduling, "CLOSED_FOR_S", 20.0),
            (decide, "SAME_SCALE_IN_S", 1.0),
            (conclude, "status", lambda _: {"other": 1}),
            (conclude, "overdue", lambda _: None),
            (conclude, "adoptable", lambda *_: False),
            (conclude, "REQUEST_LIFETIME_S", 0.5),
            (conclude, "EVICTED_WITHIN_S", 30.0),
            (ledger, "REQUEST_LIFETIME_S", 0.5),
            (ledger, "EVICTED_WITHIN_S", 30.0),
            (versions, "_versions", lambda _: versions.Versions(frozenset({"cloneset"}))),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def pod(n: int, subset: str, **more: Any) -> PodObserved:
    annotations = (
        {"apps.kruise.io/matched-workloadspread": f'{{"name":"{SPREAD}","subset":"{subset}"}}'}
        if subset
        else {}
    )
    return PodObserved(
        at=0,
        namespace=NAMESPACE,
        name=f"web-{n}",
        labels={"app": "web", "pod-template-hash": HASH},
        annotations=annotations,
        owners=(
            Owner(kind="ReplicaSet", name=f"web-{HASH}", uid="rs", api_version="apps/v1", controller=True),
        ),
        created_at=START,
        **more,
    )


def clone(n: int, revision: str, subset: str) -> PodObserved:
    """A pod of a kind that has versions where settings say so."""
    owner = Owner(
        kind="CloneSet", name="db", uid="cs", api_version="apps.kruise.io/v1alpha1", controller=True
    )
    fact = pod(n, subset, uid=f"db-{n}", phase="Running")
    annotations = {key: text.replace(f'"{SPREAD}"', '"db"') for key, text in fact.annotations.items()}
    labels = {"controller-revision-hash": f"db-{revision}"}
    return msgspec.structs.replace(
        fact, name=f"db-{n}", owners=(owner,), labels=labels, annotations=annotations
    )


def clone_set(revision: str) -> WorkloadObserved:
    return WorkloadObserved(
        at=0, namespace=NAMESPACE, kind="CloneSet", name="db", uid="cs", api_version="apps.kruise.io/v1alpha1",
        replicas=3, revision=f"db-{revision}",
    )  # fmt: skip


def spread_of_clones() -> Event:
    target = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "db"}
    return msgspec.structs.replace(
        spread_fact({**spec(1, None), "targetRef": target}), name="db", uid="ws-db"
    )


numbers = st.integers(0, 4)
zones = st.sampled_from(("", *ZONES, "gone"))
adaptive = {"scheduleStrategy": {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 10}}}
pods = st.builds(
    pod,
    numbers,
    zones,
    uid=st.sampled_from(("u", "v")),
    phase=st.sampled_from(("Pending", "Running", "Failed")),
    node=st.sampled_from(("", "n1", "n2")),
    unschedulable_since=st.sampled_from((None, START)),
    deleting_at=st.sampled_from((None, None, START)),
)
placed = st.builds(
    lambda n, zone, unfenced: PodPlaced(
        at=0, namespace=NAMESPACE, name=SPREAD, key=f"web-{n}", request=f"r{n}", version=HASH,
        spread="ws", subset=zone, pod=f"web-{n}", unfenced=unfenced,
    ),
    numbers, zones, st.booleans(),
)  # fmt: skip
leaving = st.builds(
    lambda n, zone, uid, evicted: PodLeaving(
        at=0, namespace=NAMESPACE, name=SPREAD, key=f"web-{n}", request=f"d{n}", version=HASH,
        spread="ws", subset=zone, pod=f"web-{n}", uid=uid, evicted=evicted,
    ),
    numbers, zones, st.sampled_from(("u", "v")), st.booleans(),
)  # fmt: skip
spreads = st.builds(
    lambda limits, moves, generation, more: spread_fact(
        spec(*limits, **(adaptive if moves else {})), generation, **more
    ),
    st.lists(st.sampled_from((0, 1, 2, "50%", "many", None)), min_size=1, max_size=3),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from(
        (
            {},
            {},
            {"refresh": True},
            {"deleting_at": START},
            {"annotations": {"tidewright.dev/mode": "dry-run"}},
            {"annotations": {"tidewright.dev/spread-fail-open": "true"}},
        )
    ),
)
events = st.one_of(
    pods,
    pods,
    pods,
    placed,
    leaving,
    spreads,
    st.builds(clone, st.integers(0, 2), st.sampled_from(("r1", "r2")), st.sampled_from(("", "a", "b"))),
    st.builds(clone_set, st.sampled_from(("r1", "r2"))),
    st.builds(
        lambda n, uid: PodGone(at=0, namespace=NAMESPACE, name=f"web-{n}", uid=uid),
        numbers,
        st.sampled_from(("u", "v")),
    ),
    st.integers(0, 6).flatmap(lambda replicas: st.sampled_from(deployment(replicas))),
    st.builds(lambda n, zone: NodeObserved(at=0, name=n, labels={"zone": zone}), st.sampled_from(("n1", "n2")), zones),
    st.just(NodeGone(at=0, name="n1")),
    st.just(WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD)),
    st.builds(
        lambda low, high: ScaleWorkload(at=0, target=TARGET, from_replicas=high, replicas=low),
        st.integers(0, 3),
        st.integers(2, 6),
    ),
    st.builds(
        lambda n, error: TargetReplicasObserved(
            at=0, namespace=NAMESPACE, name=SPREAD, replicas=n, error=error
        ),
        numbers,
        st.sampled_from(("", "no path")),
    ),
    st.sampled_from(
        (
            ConfigSet(at=0, name="spread", data={"bringBackSeconds": 5.0, "cleanUpDeleted": True}),
            ConfigSet(at=0, name="spread", data={"unseenBoundSeconds": 1.0, "versionedKinds": ["CloneSet"]}),
            ConfigSet(at=0, name="spread", data={"versionedKinds": []}),
            ModesSet(at=0, mode="shadow"),
            ModesSet(at=0, mode="enforce"),
        )
    ),
)  # fmt: skip
answers = st.tuples(
    st.integers(0, 100), st.sampled_from((Applied, Failed, Rejected)), st.sampled_from(("", "DryRun"))
)
steps = st.lists(st.one_of(events, events, events, answers, st.floats(0.5, 40.0)), max_size=40)


def recorded(told: Sequence[Any]) -> Log:
    log = Log()
    for event in (
        spread_fact(spec(1, 2, None, **adaptive)),
        *deployment(4),
        spread_of_clones(),
        clone_set("r1"),
    ):
        log.append(event)
    for step in told:
        if isinstance(step, float):
            log.wait(step)
        elif isinstance(step, Event):
            log.append(step)
        elif log.open:
            which, outcome, reason = step
            decision = log.open.pop(which % len(log.open))
            log.append(outcome(at=0, decision=decision, reason=reason))
    return log


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_a_recorded_log_folds_to_the_same_state_under_any_policy(told: list[Any]) -> None:
    log = recorded(told)
    states = [step.state for step in log.steps]
    assert list(replayed(log.steps, deciding=False)) == states
    assert list(replayed(log.steps, deciding=True)) == states
    assert list(replayed(log.steps, deciding=True, other_settings=True)) == states
    with another_policy():
        assert list(replayed(log.steps, deciding=True)) == states
        assert list(replayed(log.steps, deciding=True, other_settings=True)) == states


STORY: list[Any] = [
    # A placement whose pod is seen, an eviction that does not come about, and something about the ledger every second.
    PodPlaced(
        at=0, namespace=NAMESPACE, name=SPREAD, key="web-0", request="r0", version=HASH, spread="ws", subset="a", pod="web-0",
    ),
    pod(0, "a", uid="u"),
    PodLeaving(
        at=0, namespace=NAMESPACE, name=SPREAD, key="web-0", request="d0", version=HASH, spread="ws", subset="a", pod="web-0",
        uid="u", evicted=True,
    ),
    *(step for n in range(1, 5) for step in (1.0, pod(n, "b", uid="u"))),
    # Pods of a kind that has versions, and then has none.
    ConfigSet(at=0, name="spread", data={"versionedKinds": ["CloneSet"]}),
    *(clone(n, revision, "a") for n, revision in enumerate(("r1", "r2"))),
    clone_set("r2"),
    ConfigSet(at=0, name="spread", data={}),
    clone(0, "r1", "b"),
]  # fmt: skip


@pytest.mark.parametrize("deciding", [False, True])
@pytest.mark.parametrize("other_settings", [False, True])
def test_what_is_forgotten_and_what_a_version_is_leaves_no_trace_in_the_state(
    deciding: bool, other_settings: bool
) -> None:
    log = recorded(STORY)
    last = log.state.spreads[f"{NAMESPACE}/{SPREAD}"].ledger
    assert (list(last.seen), list(last.evicting)) == (["web-0"], [])  # the one is kept, the other forgotten
    with another_policy():
        again = list(replayed(log.steps, deciding=deciding, other_settings=other_settings))
    assert again == [step.state for step in log.steps]


def test_the_other_policy_decides_otherwise() -> None:
    """Else the property above would hold of anything."""
    told = [pod(n, "a", uid="u", phase="Running", node="n1") for n in range(3)]
    with another_policy():
        other = recorded(told)
    ours = recorded(told)
    assert [s.decisions for s in ours.steps] != [s.decisions for s in other.steps]


def test_what_an_autoscaler_has_decided_is_said_once() -> None:
    """When it shows on the workload, and when it is decided again soon; later it is another scale-in."""
    scale = ScaleWorkload(at=0, target=TARGET, from_replicas=4, replicas=1)
    running = [pod(n, "a", uid="u", phase="Running", node="n1") for n in range(4)]
    log = recorded([*running, scale, scale, deployment(1)[0], 60.0, scale])
    foreseen = [
        [type(step.event).__name__ for d in step.decisions if isinstance(d, ForeseeScaleIn)]
        for step in log.steps
    ]
    assert list(itertools.chain.from_iterable(foreseen)) == ["ScaleWorkload", "ScaleWorkload"]
