"""Several spreads of one workload: each pod is counted by one spread at most, and by the one that its labels say."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.spread.cluster import HASH, NAMESPACE, deployment, spec, spread_fact
from tests.unit.spread.test_decide import START, Fold, placed
from tidewright.events.base import Event
from tidewright.events.facts import NodeObserved, PodGone
from tidewright.events.spread import WorkloadSpreadGone
from tidewright.kube.selectors import LabelSelector, Requirement
from tidewright.spread.state import SpreadState

KEYS, VALUES = ("a", "b"), ("x", "y", "z")
requirements = st.builds(
    lambda key, operator, values: Requirement(
        key, operator, frozenset(values) if "In" in operator else frozenset()
    ),
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.sets(st.sampled_from(VALUES), min_size=1),
)
selectors = st.builds(lambda found: LabelSelector(tuple(found)), st.lists(requirements, max_size=4))
ANY_LABELS = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
    for values in itertools.product((*VALUES, "other", None), repeat=len(KEYS))
]
"""All that these selectors can tell apart."""


@given(selectors, selectors)
def test_selectors_exclude_each_other_if_and_only_if_no_labels_satisfy_both(
    selector: LabelSelector, other: LabelSelector
) -> None:
    both = [labels for labels in ANY_LABELS if selector.matches(labels) and other.matches(labels)]
    assert selector.excludes(other) == other.excludes(selector) == (not both)


ROLES = ("chief", "worker", "")
NAMES = ("one", "three", "two")
SELECTORS: dict[str, dict[str, Any]] = {
    "chief": {"matchLabels": {"role": "chief"}},
    "worker": {"matchLabels": {"role": "worker"}},
    "both": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["chief", "worker"]}]},
    "some": {"matchExpressions": [{"key": "role", "operator": "Exists"}]},
    "none": {"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]},
    "bad": {"matchExpressions": [{"key": "role", "operator": "Like"}]},
}


def spread(name: str, selector: str, created: int, generation: int, *, deleting: bool) -> Event:
    limits = spec(1, None, **({"targetFilter": {"selector": SELECTORS[selector]}} if selector else {}))
    fact = spread_fact(limits, generation, deleting_at=START if deleting else None)
    return msgspec.structs.replace(fact, name=name, uid=f"ws-{name}-{created}", created_at=START + created)


def pod(n: int, role: str, by: str, subset: str, *, finished: bool, node: bool) -> Event:
    text = msgspec.json.encode({"name": by, "subset": subset}).decode()
    fact = placed("", n, phase="Succeeded" if finished else "Running", node="n1" if node else "")
    return msgspec.structs.replace(
        fact,
        labels={**fact.labels, **({"role": role} if role else {})},
        annotations={"apps.kruise.io/matched-workloadspread": text} if by else {},
    )


numbers, names = st.integers(0, 4), st.sampled_from(NAMES)
events = st.one_of(
    st.builds(
        pod, numbers, st.sampled_from(ROLES), st.sampled_from(("", *NAMES)), st.sampled_from(("a", "b", "c")),
        finished=st.sampled_from((False, False, True)), node=st.booleans(),
    ),
    st.builds(
        spread, names, st.sampled_from(("", *SELECTORS)), st.integers(0, 2), st.integers(1, 9),
        deleting=st.sampled_from((False, False, False, True)),
    ),
    st.builds(lambda name: WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=name), names),
    st.builds(lambda n: PodGone(at=0, namespace=NAMESPACE, name=f"web-{n}", uid=f"uid-web-{n}"), numbers),
    st.sampled_from((0, 3, 6)).flatmap(lambda replicas: st.sampled_from(deployment(replicas))),
    st.builds(lambda zone: NodeObserved(at=0, name="n1", labels={"zone": zone}), st.sampled_from("ab")),
)  # fmt: skip


def selector_of(one: SpreadState) -> str:
    """Which of the selectors it has; "" for none."""
    assert one.spread is not None
    given = one.spread.target_filter
    return "" if given is None else next(name for name, s in SELECTORS.items() if s == given.selector)


def takes(selector: str, role: str) -> bool:
    match selector:
        case "bad":
            return False
        case "both" | "some":
            return bool(role)
        case "none":
            return not role
    return selector in ("", role)


def apart(selector: str, other: str) -> bool:
    return "bad" not in (selector, other) and not any(takes(selector, r) and takes(other, r) for r in ROLES)


def check(fold: Fold) -> None:
    """Who has the target follows from ages and selectors, whose a pod is from labels, and counts are a recount."""
    state = fold.state
    asking = [s for s in state.spreads.values() if s.spread is not None and not s.spread.deleting]
    having: list[SpreadState] = []
    for one in sorted(asking, key=lambda s: s.created_at):
        older = [other.name for other in having if not apart(selector_of(one), selector_of(other))]
        if len({s.created_at for s in asking}) == len(asking):
            assert one.taken_by == (older[0] if older else "")
        if not one.taken_by:
            having.append(one)
        assert bool(one.invalid) == bool(one.taken_by)
    seen = Counter(list(state.strays.get(NAMESPACE, {})))
    for row in state.strays.get(NAMESPACE, {}).values():
        assert not any(takes(selector_of(one), row.labels.get("role", "")) for one in having)
        assert not row.held
    for one in state.spreads.values():
        seen.update(list(one.pods))
        assert not one.pods or one in having
        active = Counter(
            (row.revision, row.subset if row.placed_by == one.name else "")
            for row in one.pods.values()
            if row.active
        )
        assert active == Counter(
            {
                (revision, subset): n
                for revision, counts in one.active.get("replicaset", {}).items()
                for subset, n in counts.items()
            }
        )
        for row in one.pods.values():
            assert takes(selector_of(one), row.labels.get("role", ""))
        held = Counter((row.revision, row.subset) for row in one.pods.values() if row.held)
        assert held == Counter(
            {
                (version, subset): n
                for version, counts in one.ledger.counts.items()
                for subset, n in counts.items()
            }
        )
        own = [row for row in one.pods.values() if row.active and row.placed_by == one.name and row.subset]
        assert sorted(row.name for row in own) == sorted(row.name for row in one.pods.values() if row.held)
    assert set(seen.values()) <= {1}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events, max_size=40))
def test_each_pod_is_counted_by_the_one_spread_whose_it_is(told: list[Event]) -> None:
    fold = Fold(*deployment(6), *(pod(n, ROLES[n % 3], "", "", finished=False, node=False) for n in range(5)))
    for event in told:
        fold.see(msgspec.structs.replace(event))
        check(fold)
    assert all(set(s.ledger.counts) <= {HASH} for s in fold.state.spreads.values())
