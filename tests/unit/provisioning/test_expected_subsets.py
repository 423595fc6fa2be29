"""Pods that are about to be, of a workload under a WorkloadSpread: nodes where its subsets will have them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.workloads import ON, Workloads, replica_set
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.config import ModesSet
from tidewright.events.facts import ShapeObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.spread import (
    LedgerRules,
    PodPlaced,
    SubsetRule,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.kube.keys import PodKey, pod_key
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION, parse_spec
from tidewright.provisioning.fold.common import forget_index
from tidewright.provisioning.foresight.kept import Workload
from tidewright.provisioning.foresight.shares import expected
from tidewright.provisioning.foresight.spreading import Taking, named, split
from tidewright.provisioning.index.indexing import index_of
from tidewright.spread.ledger.ledger import Ledger, fold, place

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def subset(zone: str, limit: int | str | None = None, **more: Any) -> JsonObject:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    limited = {} if limit is None else {"maxReplicas": limit}
    return {"name": zone, "requiredNodeSelectorTerm": term, **limited, **more}


class Spread(Workloads):
    """A group of nodes in each of two zones, and a WorkloadSpread over them."""

    def __init__(self, *subsets: JsonObject, config: Any = None, **more: Any) -> None:
        super().__init__(config, boots=False)
        for zone in ("a", "b"):
            self.add_group(zone, maximum=200, labels={"zone": zone})
        self.spread("ws", *(subsets or (subset("a", "30%"), subset("b"))), **more)

    def spread(self, name: str, *subsets: JsonObject, created_at: float = 1.0, **more: Any) -> None:
        spec: JsonObject = {"targetRef": TARGET, "subsets": list(subsets), **more.pop("spec", {})}
        self.tell(
            WorkloadSpreadObserved(
                at=self.now,
                namespace="ns",
                name=name,
                uid=f"uid-{name}",
                created_at=created_at,
                spec=spec,
                **more,
            )
        )

    def grow(self, replicas: int, before: int = 0, **more: Any) -> None:
        self.deployment("web", before, status_replicas=before, template=self.form(), **more)
        self.settle()
        self.deployment("web", replicas)
        self.settle()

    def put(self, name: str, zone: str, shape: str, **more: Any) -> None:
        """A pod that the spread has put into a subset."""
        placed = {MATCHED_ANNOTATION: f'{{"name":"ws","subset":"{zone}"}}'}
        self.made(name, shape, replica_set("web-1"), annotations=placed, **more)

    def ordered(self) -> dict[str, int]:
        return {order.target.name: order.size for order in self.of(p.IncreaseNodeGroup)}


def test_pods_are_split_over_subsets_as_the_ledger_would() -> None:
    cluster = Spread()
    cluster.grow(10)
    assert cluster.ordered() == {"a": 3, "b": 7}
    (plan,) = cluster.of(p.PlanScaleUp)
    assert [(share.workload, share.pods) for share in plan.expected] == [("Deployment/ns/web", 10)]


def test_a_decision_to_scale_is_split_by_the_replicas_that_it_asks_for() -> None:
    cluster = Spread(config={"foresight": "decisions"})
    cluster.deployment("web", 4, status_replicas=4, template=cluster.form())
    cluster.settle()
    cluster.scaled("web", 24)
    assert cluster.ordered() == {"a": 8, "b": 12}  # 30 % of 24, of which none is known to be there


def at_paths(cluster: Spread, replicas: int = 0, **more: Any) -> None:
    cluster.tell(TargetReplicasObserved(at=cluster.now, namespace="ns", name="ws", replicas=replicas, **more))


PATHS: JsonObject = {"targetFilter": {"replicasPathList": ["spec/parts/0/replicas"]}}


def test_percentages_are_of_what_is_read_at_paths() -> None:
    cluster = Spread(spec=PATHS)
    at_paths(cluster, 20)
    cluster.grow(10)
    assert cluster.ordered() == {"a": 6, "b": 4}


def test_a_decision_adds_to_what_was_read_at_paths() -> None:
    cluster = Spread(config={"foresight": "decisions"}, spec=PATHS)
    cluster.deployment("web", 4, status_replicas=4, template=cluster.form())
    at_paths(cluster, 10)
    cluster.settle()
    cluster.scaled("web", 14)
    assert cluster.ordered() == {"a": 6, "b": 4}  # 30 % of 10 + 10


def test_what_was_read_last_holds_while_paths_cannot_be_read_and_when_the_spread_is_said_again() -> None:
    cluster = Spread(spec=PATHS)
    at_paths(cluster, 20)
    at_paths(cluster, error="no such key")
    cluster.spread("ws", subset("a", "30%"), subset("b"), spec=PATHS, refresh=True)
    cluster.grow(10)
    assert cluster.ordered() == {"a": 6, "b": 4}


def test_nothing_is_read_at_paths_that_the_spread_does_not_name() -> None:
    cluster = Spread()
    at_paths(cluster, 20)  # of before somebody took them out
    cluster.grow(10)
    assert cluster.ordered() == {"a": 3, "b": 7}


@pytest.mark.parametrize("replicas", [-(2**31), 0, 2**62])
def test_whatever_is_read_at_paths_pods_are_put_somewhere(replicas: int) -> None:
    cluster = Spread(spec=PATHS)
    at_paths(cluster, replicas)
    cluster.grow(10)
    assert sum(cluster.ordered().values()) == 10


def test_pods_that_are_there_hold_their_places() -> None:
    cluster = Spread(subset("a", 5), subset("b"))
    template = cluster.form()
    cluster.deployment("web", 4, status_replicas=4, template=template)
    cluster.replicas_of("web", "web-1", 4, template=template)
    shape = cluster.shape({"cpu": 3000})
    for number in range(4):
        cluster.put(f"web-1-{number}", "a", shape)
    cluster.deployment("web", 10)
    shares = expected(cluster.state, index_of(cluster.state), cluster.now).shares
    assert [share.count for share in shares if not share.made] == [1, 5]


def test_the_room_of_a_pod_that_ends_is_offered_again() -> None:
    cluster = Spread(subset("a", 1), subset("b"))
    shape = cluster.shape({"cpu": 3000})
    cluster.put("web-1-0", "a", shape)
    assert cluster.state.subsets == {pod_key("ns", "web-1-0"): "ws/a"}
    cluster.put("web-1-0", "a", shape, deleting_at=cluster.now)
    cluster.deployment("web", 1, template=cluster.form(), max_surge="25%")
    cluster.settle()
    assert cluster.ordered() == {"a": 1}


def test_a_new_revision_has_places_of_its_own() -> None:
    cluster = Spread(subset("a", 2), subset("b"))
    old, new = cluster.form(), cluster.form("2")
    cluster.deployment("web", 4, status_replicas=4, template=old, max_surge="50%")
    cluster.replicas_of("web", "web-1", 4, template=old)
    shape = cluster.shape({"cpu": 3000})
    for number, zone in enumerate("aabb"):
        cluster.put(f"web-1-{number}", zone, shape)
    cluster.settle()
    plans = len(cluster.of(p.PlanScaleUp))
    cluster.deployment("web", 4, template=new, generation=2)
    cluster.replicas_of("web", "web-2", 0, template=new)
    cluster.settle()
    rollout = cluster.of(p.PlanScaleUp)[plans:]
    assert [load.group for plan in rollout for load in plan.loads] == ["a"]


@pytest.mark.parametrize(
    ("subsets", "ordered"),
    [
        (
            (subset("a", 2), subset("b", 3)),
            {"a": 2, "b": 3},
        ),  # the rest goes in untouched, on the larger group
        ((subset("a", "nonsense"), subset("b")), {"b": 10}),
        ((subset("b"),), {"b": 10}),
    ],
)
def test_limits_and_what_is_over_them(subsets: tuple[JsonObject, ...], ordered: dict[str, int]) -> None:
    cluster = Spread(*subsets)
    cluster.grow(10)
    found = cluster.ordered()
    assert sum(found.values()) == 10
    assert all(found[zone] >= many for zone, many in ordered.items())


def test_tolerations_and_patches_of_a_subset_count() -> None:
    """A subset may ask for tolerations, and make its pods smaller: two of those are on a node."""
    cluster = Workloads(boots=False)
    taint = {"key": "spot", "value": "", "effect": "NoSchedule"}
    cluster.add_group("spot", maximum=50)
    group = cluster.groups["spot"]
    group.template = msgspec.structs.replace(group.template, taints=(taint,))
    cluster.observe_group("spot")
    small = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    spec = {
        "targetRef": TARGET,
        "subsets": [{"name": "s", "tolerations": [{"key": "spot", "operator": "Exists"}], "patch": small}],
    }
    cluster.tell(WorkloadSpreadObserved(at=cluster.now, namespace="ns", name="ws", spec=spec))
    cluster.deployment("web", 8, template=cluster.form())
    cluster.settle()
    assert [(o.target.name, o.size) for o in cluster.of(p.IncreaseNodeGroup)] == [("spot", 4)]


def test_a_patch_that_applies_to_no_pod_has_none_expected_there() -> None:
    """Admission refuses them."""
    cluster = Spread(subset("a", patch={"spec": {"containers": "none"}}))
    cluster.grow(4)
    assert cluster.ordered() == {}


def test_a_closed_subset_is_passed_over() -> None:
    condition = {"type": "Schedulable", "status": "False"}
    cluster = Spread(status={"subsetStatuses": [{"name": "a", "conditions": [condition]}]})
    cluster.grow(10)
    assert cluster.ordered() == {"b": 10}


def test_numbers_of_a_stateful_set_say_where_its_pods_go() -> None:
    cluster = Spread(subset("a", 3), subset("b"), spec={"targetRef": {**TARGET, "kind": "StatefulSet"}})
    cluster.workload("StatefulSet", "web", 0, template=cluster.form())
    cluster.settle()
    cluster.workload("StatefulSet", "web", 8)
    cluster.settle()
    assert cluster.ordered() == {"a": 3, "b": 5}


def untouched(cluster: Spread) -> None:
    cluster.spread("ws", subset("b"), spec={"targetRef": {**TARGET, "name": "other"}})


def of_another_group(cluster: Spread) -> None:
    cluster.spread("ws", subset("b"), spec={"targetRef": {**TARGET, "apiVersion": "apps.kruise.io/v1alpha1"}})


def of_other_labels(cluster: Spread) -> None:
    cluster.spread("ws", subset("b"), spec={"targetFilter": {"selector": {"matchLabels": {"role": "x"}}}})


def gone(cluster: Spread) -> None:
    cluster.tell(WorkloadSpreadGone(at=cluster.now, namespace="ns", name="ws"))


def on_its_way_out(cluster: Spread) -> None:
    cluster.spread("ws", subset("b"), deleting_at=cluster.now)


def shadowed(cluster: Spread) -> None:
    cluster.tell(ModesSet(at=cluster.now, services={"spread": "shadow"}))


def unreadable(cluster: Spread) -> None:
    cluster.spread("ws", spec={"subsets": "none"})


@pytest.mark.parametrize(
    "play", [untouched, of_another_group, of_other_labels, gone, on_its_way_out, shadowed, unreadable]
)
def test_spreads_that_take_no_pods_of_a_workload_change_nothing(play: Any) -> None:
    """Then they go where the first group has room, which is the cheaper choice of the two alike."""
    plain = Workloads(boots=False)
    for zone in ("a", "b"):
        plain.add_group(zone, maximum=200, labels={"zone": zone})
    plain.deployment("web", 6, template=plain.form())
    plain.settle()
    cluster = Spread(subset("b"))
    play(cluster)
    cluster.grow(6)
    assert [load.pods for load in cluster.of(p.PlanScaleUp)[0].loads] == [
        load.pods for load in plain.of(p.PlanScaleUp)[0].loads
    ]


def test_where_another_controller_does_the_spreading_pods_go_where_it_puts_them() -> None:
    cluster = Spread(subset("b"))
    cluster.tell(
        IncumbentObserved(at=cluster.now, service="spread", rival="OpenKruise", present=True, everywhere=True)
    )
    cluster.grow(6)
    assert cluster.ordered() == {"b": 6}


def test_of_two_spreads_the_older_one_has_the_pods() -> None:
    cluster = Spread(subset("b"), created_at=2.0)
    cluster.spread("older", subset("a"))
    cluster.grow(6)
    assert cluster.ordered() == {"a": 6}


def test_spreads_and_places_that_were_said_before_anybody_read_them_are_known_once_they_are_said_again() -> (
    None
):
    cluster = Spread(subset("a", 1), subset("b"))
    shape = cluster.shape({"cpu": 3000})
    cluster.put("web-1-0", "a", shape)
    said = {"spreads": dict(cluster.state.spreads), "subsets": dict(cluster.state.subsets)}
    cluster.state.spreads.clear()
    cluster.state.subsets.clear()
    forget_index(cluster.state)
    cluster.put("web-1-0", "a", shape, refresh=True)
    cluster.spread("ws", subset("a", 1), subset("b"), refresh=True)
    assert {"spreads": cluster.state.spreads, "subsets": cluster.state.subsets} == said


def test_an_index_that_is_built_anew_splits_the_same() -> None:
    cluster = Spread()
    cluster.deployment("web", 10, template=cluster.form())
    lived = expected(cluster.state, index_of(cluster.state), cluster.now)
    forget_index(cluster.state)
    assert expected(cluster.state, index_of(cluster.state), cluster.now) == lived
    assert [share.count for share in lived.shares] == [3, 7]


def test_a_pod_of_a_subset_says_what_the_next_ones_there_are_like() -> None:
    """Another webhook makes pods of one subset larger."""
    cluster = Spread(subset("a", 4), subset("b"))
    template = cluster.form()
    cluster.deployment("web", 1, status_replicas=1, template=template)
    cluster.replicas_of("web", "web-1", 1, template=template)
    cluster.tell(ShapeObserved(at=cluster.now, digest="large", requests={"cpu": 4000}, namespace="ns"))
    cluster.put("web-1-0", "a", "large")
    cluster.deployment("web", 6)
    shares = expected(cluster.state, index_of(cluster.state), cluster.now).shares
    assert {(share.shape.digest == "large", share.count) for share in shares if not share.made} == {
        (True, 3),
        (False, 2),
    }


LIMITS = st.one_of(st.none(), st.integers(0, 6), st.integers(0, 120).map(lambda percent: f"{percent}%"))


@settings(max_examples=150, deadline=None)
@given(
    given_limits=st.lists(LIMITS, min_size=1, max_size=4),
    replicas=st.integers(0, 20),
    there=st.lists(st.integers(0, 3), max_size=8),
    pods=st.integers(0, 15),
    closed=st.sets(st.integers(0, 3)),
)
def test_the_split_is_that_of_the_ledger(
    given_limits: list[int | str | None], replicas: int, there: list[int], pods: int, closed: set[int]
) -> None:
    """Pod by pod, by the very function that answers admission."""
    spec = {"targetRef": TARGET, "subsets": [subset(f"s{n}", limit) for n, limit in enumerate(given_limits)]}
    spread = parse_spec(spec, namespace="ns", name="ws")
    held = [n for n in there if n < len(given_limits)]
    taking = Taking(spread, frozenset(f"s{n}" for n in closed))
    workload = Workload(uid="u", api_version="apps/v1", replicas=replicas)
    places = {PodKey(pod_key("ns", f"p{n}")): named("ws", f"s{zone}") for n, zone in enumerate(held)}
    found = {part.name: part.pods for part in split(taking, workload, pods, places)}

    def limit(of: int | str | None) -> int | None:
        return None if of is None else limits.strict(of, replicas)

    rules = tuple(SubsetRule(f"s{n}", limit(of), n in closed) for n, of in enumerate(given_limits))
    ledger = Ledger(rules=LedgerRules(subsets=rules), counts={"v": {}})
    for zone in held:
        ledger.counts["v"][f"s{zone}"] = ledger.counts["v"].get(f"s{zone}", 0) + 1
    chosen: dict[str, int] = {}
    for number in range(pods):
        where = place(ledger, "v", f"n{number}", f"n{number}").subset
        entry = PodPlaced(at=0.0, namespace="ns", name="ws", key=f"n{number}", version="v", subset=where)
        fold(ledger, entry)
        chosen[named("ws", where) if where else ""] = chosen.get(named("ws", where) if where else "", 0) + 1
    assert found == chosen


ODD = st.one_of(
    st.none(),
    st.integers(-3, 6),
    st.integers(-120, 120).map(lambda percent: f"{percent}%"),
    st.sampled_from(("", "%", "3", "nonsense")),
)


@settings(max_examples=200, deadline=None)
@given(
    subsets=st.lists(st.tuples(st.sampled_from(("", "a", "b")), ODD), max_size=5),
    kind=st.sampled_from(("Deployment", "StatefulSet")),
    replicas=st.integers(0, 20),
    there=st.lists(st.sampled_from(("", "ws/", "ws/a", "ws/b", "other/a")), max_size=8),
    pods=st.integers(0, 15),
    closed=st.sets(st.sampled_from(("", "a", "b"))),
)
@example([("a", 0), ("a", 5)], "Deployment", 3, [], 3, set())
@example([("", 0), ("", 5)], "Deployment", 3, [], 3, set())
@example([("", 0)], "Deployment", 3, [], 3, set())
def test_whatever_a_spread_says_each_pod_is_put_somewhere_once(
    subsets: list[tuple[str, int | str | None]],
    kind: str,
    replicas: int,
    there: list[str],
    pods: int,
    closed: set[str],
) -> None:
    """Names may be there twice, or missing: of two of one name that is meant which has room."""
    given_subsets = [
        {"name": name, "maxReplicas": limit, "patch": {"n": n}} for n, (name, limit) in enumerate(subsets)
    ]
    spread = parse_spec(
        {"targetRef": {**TARGET, "kind": kind}, "subsets": given_subsets}, namespace="ns", name="ws"
    )
    workload = Workload(uid="u", api_version="apps/v1", replicas=replicas)
    places = {PodKey(pod_key("ns", f"p-{n}")): place for n, place in enumerate(there)}
    found = split(Taking(spread, frozenset(closed)), workload, pods, places)
    assert sum(part.pods for part in found) == pods
    assert len(found) <= len(subsets) + 1
    for part in found:
        assert part.pods > 0
        assert part.subset is None or part.subset.name not in closed
        limit = part.subset.limit if part.subset is not None else None
        assert not isinstance(limit, int) or part.pods <= limit


def test_nothing_is_split_that_is_not_expected() -> None:
    cluster = Spread(config={**ON, "foresight": "off"})
    cluster.grow(10)
    assert cluster.ordered() == {}
