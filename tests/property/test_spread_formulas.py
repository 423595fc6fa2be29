"""The formulas of the specification, written down once more as it says them, against the code.

Costs are checked where they are hard to get right: in the decider, which looks at one pod at a time and
must end where a look at everything ends.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.spread.cluster import NAMESPACE, SPREAD, spec, spread_fact
from tidewright.events.base import Event
from tidewright.events.facts import Owner, PodGone, PodObserved, WorkloadObserved
from tidewright.kube.customworkloads import Whitelist
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.choose import Slot, by_ordinal, by_slots
from tidewright.kube.workloadspreads.spec import parse
from tidewright.spread.api.validation import Surroundings, errors
from tidewright.spread.decide import DECIDER
from tidewright.spread.match.matching import NotFound
from tidewright.spread.state import State

START = 1_800_000_000.0
INT32_MAX = 2**31 - 1
COMMON = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(st.integers(0, 300), st.integers(-1, 1_000_000))
def test_a_percentage_is_rounded_up(percent: int, replicas: int) -> None:
    exact = math.ceil(Fraction(percent * replicas, 100))
    assert limits.strict(f"{percent}%", replicas) == exact


slots_given = st.lists(st.tuples(st.integers(-1, 3), st.booleans()), max_size=6)


@given(slots_given)
def test_the_first_open_subset_with_room_is_taken(given_slots: list[tuple[int, bool]]) -> None:
    slots = [Slot(f"s{n}", missing, closed) for n, (missing, closed) in enumerate(given_slots)]
    fits = [s.name for s in slots if not s.closed and (s.missing > 0 or s.missing == -1)]
    choice = by_slots(slots)
    assert choice.subset == (fits[0] if fits else None)
    passed = slots if not fits else slots[: [s.name for s in slots].index(fits[0])]
    assert [(r.subset, r.why) for r in choice.refused] == [
        (s.name, "Closed" if s.closed else "Full") for s in passed
    ]


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.booleans()), min_size=1, max_size=5),
    st.integers(0, 30),
)
def test_an_ordinal_finds_the_subset_whose_range_holds_it(
    subsets: list[tuple[int | None, bool]], ordinal: int
) -> None:
    given_spec = spec(*(limit for limit, _ in subsets))
    spread = parse({"metadata": {"name": SPREAD}, "spec": given_spec})
    closed = {s.name for s, (_, shut) in zip(spread.subsets, subsets, strict=True) if shut}
    ranges: list[str] = []
    for subset in spread.subsets:
        if subset.name not in closed:
            ranges += [subset.name] * (31 if subset.limit is None else int(subset.limit))
    expected = ranges[ordinal] if ordinal < len(ranges) else None
    assert by_ordinal(spread.subsets, f"db-{ordinal}", closed).subset == expected


@given(st.integers(1, 8), st.integers(-2, 400))
def test_the_cap_of_rescheduling_lets_a_pod_visit_every_subset(count: int, after_s: int) -> None:
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": after_s}}
    given_spec = spec(*[None] * min(count, 6), scheduleStrategy=adaptive)
    given_spec["subsets"] = [{"name": f"s{n}"} for n in range(count)]

    def unread(api_version: str, kind: str, name: str) -> Any:
        raise NotFound(name)

    found = errors({"metadata": {"name": "x"}, "spec": given_spec}, Surroundings(Whitelist(), [], unread))
    allowed = after_s >= 0 and (count == 1 or after_s * (count - 1) <= 295)
    assert (found == []) is allowed


# -- costs -----------------------------------------------------------------------------------------

NAMES = [f"web-{n}" for n in range(8)]
HASHES = ("new", "old")


def owners(version: str) -> tuple[Owner, ...]:
    return (
        Owner(
            kind="ReplicaSet",
            name=f"web-{version}",
            uid=f"rs-{version}",
            api_version="apps/v1",
            controller=True,
        ),
    )


pods_given = st.builds(
    lambda name, subset, version, phase, node, ready_at, created, restarts: PodObserved(
        at=0.0,
        namespace=NAMESPACE,
        name=name,
        uid=f"uid-{name}",
        phase=phase,
        node=node,
        ready=ready_at is not None,
        ready_changed_at=ready_at,
        created_at=START + created,
        restarts=restarts,
        labels={"app": "web", "pod-template-hash": version},
        owners=owners(version),
        annotations={
            "apps.kruise.io/matched-workloadspread": msgspec.json.encode(
                {"name": SPREAD, "subset": subset}
            ).decode()
        }
        if subset
        else {},
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["a", "b", "c", "removed", ""]),
    st.sampled_from(HASHES),
    st.sampled_from(["Running", "Running", "Pending", "Succeeded"]),
    st.sampled_from(["", "n1"]),
    st.one_of(st.none(), st.sampled_from([START + 1, START + 2])),
    st.integers(-3, 0),
    st.integers(0, 1),
)
STEPS = st.one_of(
    pods_given,
    pods_given,
    pods_given,
    st.sampled_from(NAMES),
    st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=3, max_size=3),
    st.sampled_from(["50%", "10%"]),
    st.integers(0, 8),
)


def workloads(replicas: int) -> list[WorkloadObserved]:
    common: dict[str, Any] = {"at": 0.0, "namespace": NAMESPACE, "api_version": "apps/v1"}
    web = (Owner(kind="Deployment", name="web", uid="d", api_version="apps/v1", controller=True),)
    return [
        WorkloadObserved(kind="Deployment", name="web", uid="d", replicas=replicas, revision="2", **common),
        *(
            WorkloadObserved(
                kind="ReplicaSet", name=f"web-{version}", uid=f"rs-{version}", owners=web,
                labels={"pod-template-hash": version}, revision=revision, **common,
            )
            for version, revision in zip(HASHES, "21", strict=True)
        ),
    ]  # fmt: skip


def wanted_costs(pods: dict[str, PodObserved], subsets: list[Any], replicas: int) -> dict[str, str]:
    """Section 3.6, for the latest version `new`."""
    n = len(subsets)
    groups: dict[tuple[str, str], list[PodObserved]] = defaultdict(list)
    for pod in pods.values():
        if pod.phase == "Running" or pod.phase == "Pending":
            text = pod.annotations.get("apps.kruise.io/matched-workloadspread")
            groups[
                pod.labels["pod-template-hash"], msgspec.json.decode(text)["subset"] if text else ""
            ].append(pod)
    costs: dict[str, str] = {}
    for (version, name), members in groups.items():
        position = {"a": 0, "b": 1, "c": 2}.get(name)
        if position is None:
            costs |= {pod.name: str(-100 * (n + 1)) for pod in members}
            continue
        i = position if version == "new" else n - 1 - position
        limit = subsets[position]
        number = INT32_MAX if limit is None else limits.strict(limit, replicas)
        ordered = sorted(
            members,
            key=lambda p: (
                p.node != "",
                {"Pending": 0, "Running": 2}[p.phase],
                bool(p.ready),
                -(p.ready_changed_at or 0.0) if p.ready else 0.0,
                -p.restarts,
                -(p.created_at or 0.0),
                p.name,
            ),
        )
        surplus = max(0, len(members) - number)
        for rank, pod in enumerate(ordered):
            costs[pod.name] = str(-100 * (i + 1) if rank < surplus else 100 * (n - i))
    return costs


@COMMON
@given(st.lists(STEPS, max_size=40))
def test_costs_looked_at_pod_by_pod_are_those_of_a_look_at_everything(story: list[Any]) -> None:
    state, now = State(), START
    pods: dict[str, PodObserved] = {}
    subsets: list[Any] = [2, 2, None]
    replicas, generation = 6, 1

    def see(event: Event) -> None:
        nonlocal state, now
        now += 0.5
        event = msgspec.structs.replace(event, at=now)
        touched = DECIDER.evolve(state, event)
        for decision in list(DECIDER.decide(state, event, touched)):
            DECIDER.evolve(state, decision)

    for event in (spread_fact(spec(*subsets)), *workloads(replicas)):
        see(event)
    for step in story:
        match step:
            case PodObserved():
                pods[step.name] = step
                see(step)
            case str() if step in NAMES:
                if pods.pop(step, None) is not None:
                    see(PodGone(at=0.0, namespace=NAMESPACE, name=step, uid=f"uid-{step}"))
            case int():
                replicas = step
                see(workloads(replicas)[0])
            case list() | str():
                subsets = step if isinstance(step, list) else [step, step, None]
                generation += 1
                see(spread_fact(spec(*subsets), generation))
    rows = state.spreads[f"{NAMESPACE}/{SPREAD}"].pods
    found = {row.name: row.asked or row.cost for row in rows.values() if row.active}
    assert found == wanted_costs(pods, subsets, replicas)
