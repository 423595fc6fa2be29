"""Smaller requests may pass one that waits, and never delay it. Spec 8, [B6]"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.claimworld import (
    GPU,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    offers,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.provisioning.requests import backfill, shortfall, turns
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.search import Asked
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.scaleup.plans import World

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
MINUTE = 60.0


def provisioned(cluster: Cluster, name: str) -> bool:
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


def waiting(nodes: int, cpu: int, *, pods: int = 4, deadline: str = "5m") -> Cluster:
    """A head of so many pods of three cores that waits since more than its deadline."""
    cluster = Cluster({"head-deadline": deadline})
    for i in range(nodes):
        cluster.add_node(f"n{i}", cpu=cpu)
    for name, cores in (("one", "1"), ("two", "2"), ("three", "3")):
        cluster.template(name, cores)
    cluster.request("head", CHECK, [("three", pods)], {"BookingSeconds": "86400"})
    cluster.settle()
    cluster.advance(6 * MINUTE)
    assert not provisioned(cluster, "head")
    return cluster


def test_what_the_head_cannot_use_is_for_others() -> None:
    cluster = waiting(nodes=1, cpu=4000)
    cluster.request("small", CHECK, [("one", 1)])
    cluster.settle()
    assert provisioned(cluster, "small")


def test_what_the_head_waits_for_is_not() -> None:
    cluster = waiting(nodes=1, cpu=4000)
    cluster.request("small", CHECK, [("two", 1)])
    cluster.settle()
    assert not provisioned(cluster, "small")
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "small"]
    assert [(b.rule, b.values) for b in attempt.because] == [("WouldDelay", {"head": "ns/head"})]
    (event,) = [e for e in cluster.object_events("CapacityNotFound") if e.target.name == "small"]
    assert event.message == "it would take what ns/head waits for"


def test_one_whose_first_place_is_the_heads_gets_another() -> None:
    cluster = waiting(nodes=1, cpu=4000)
    cluster.add_node("z", cpu=2000)
    cluster.request("small", CHECK, [("two", 1)], {"BookingSeconds": "86400"})
    cluster.settle()
    assert provisioned(cluster, "small")
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "small"]
    assert list(attempt.places.values()) == [{"z": 1}]
    for n in range(3):
        cluster.add_node(f"later{n}", cpu=3000)
    cluster.advance(11 * MINUTE)
    assert provisioned(cluster, "head")


def test_a_gang_gets_what_is_left_on_all_nodes_beside_the_heads_places() -> None:
    cluster = waiting(nodes=4, cpu=5000, pods=5)
    cluster.request("gang", CHECK, [("two", 4)])
    cluster.request("more", CHECK, [("two", 1)])
    cluster.settle()
    assert (provisioned(cluster, "gang"), provisioned(cluster, "more")) == (True, False)


def test_devices_that_the_head_waits_for_are_left_to_it() -> None:
    cluster = Cluster({"head-deadline": "1s"})
    device_class(cluster)
    for name, model in (("a", "a100"), ("b", "t4")):
        cluster.add_node(name)
        offers(cluster, name, device("d0", model))
    claim_template(cluster, "any", exactly())
    claim_template(cluster, "big", exactly(expression=f'device.attributes["{GPU}"].model == "a100"'))
    for name in ("any", "big"):
        cluster.template(name, "100m", resourceClaims=by_template(name))
    cluster.request("head", CHECK, [("big", 2)])
    cluster.advance(10)
    cluster.request("small", CHECK, [("any", 1)])
    cluster.settle()
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "small"]
    assert list(attempt.places.values()) == [{"b": 1}]


def test_another_group_grows_than_the_one_that_the_head_waits_for() -> None:
    cluster = Cluster({"head-deadline": "5m", "expander": "least-waste", "scale-down-enabled": False})
    cluster.add_group("fits", cpu=3000, maximum=3, labels={"pool": "fits"})
    cluster.add_group("loose", cpu=4000, maximum=2)
    cluster.template("three", "3", nodeSelector={"pool": "fits"})
    cluster.template("two", "2")
    cluster.request("head", ATOMIC, [("three", 4)])
    cluster.settle()
    cluster.advance(6 * MINUTE)
    cluster.request("small", ATOMIC, [("two", 1)])
    cluster.settle()
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "small"]
    assert attempt.result == "Successful"
    assert [(v.group, v.chosen, v.reason) for v in attempt.verdicts] == [
        ("fits", False, "what it may grow by is what ns/head waits for"),
        ("loose", True, ""),
    ]
    assert {group: g.target for group, g in cluster.groups.items()} == {"fits": 0, "loose": 1}


def test_of_a_group_what_the_head_leaves_is_ordered() -> None:
    cluster = Cluster({"head-deadline": "5m", "expander": "least-waste", "scale-down-enabled": False})
    cluster.add_group("fits", cpu=3000, maximum=3, labels={"pool": "fits"})
    cluster.add_group("loose", cpu=4000, maximum=1)
    cluster.template("three", "3", nodeSelector={"pool": "fits"})
    cluster.template("nowhere", "1", nodeSelector={"pool": "to-come"})
    cluster.template("two", "2")
    cluster.request("head", ATOMIC, [("three", 2), ("nowhere", 1)])
    cluster.settle()
    cluster.advance(6 * MINUTE)
    cluster.request("small", ATOMIC, [("two", 3)], {"AcrossGroups": "true"})
    cluster.settle()
    (ordered,) = cluster.of(p.PlanScaleUp)
    assert [(one.group, one.from_size, one.size, one.max_size) for one in ordered.increases] == [
        ("loose", 0, 1, 1),
        ("fits", 0, 1, 3),
    ]


def test_one_that_is_not_tried_again_does_not_fail_for_the_heads_sake() -> None:
    cluster = waiting(nodes=1, cpu=4000)
    cluster.request("small", CHECK, [("two", 1)], {"noRetry": "true"})
    cluster.settle()
    assert "Failed" not in cluster.conditions("small")
    cluster.delete_request("head")
    cluster.advance(2 * MINUTE)
    assert provisioned(cluster, "small")


def test_room_that_comes_bit_by_bit_is_kept_for_the_head() -> None:
    cluster = waiting(nodes=0, cpu=4000, pods=2)
    cluster.add_node("n0", cpu=3000)
    cluster.request("small", CHECK, [("three", 1)])
    cluster.settle()
    assert not provisioned(cluster, "small")
    cluster.add_node("n1", cpu=3000)
    cluster.advance(11 * MINUTE)
    assert provisioned(cluster, "head")
    assert not provisioned(cluster, "small")


def test_nodes_that_the_head_could_still_order_are_not_ordered_by_others() -> None:
    cluster = Cluster({"head-deadline": "5m", "scale-down-enabled": False})
    cluster.add_group("g", cpu=3000, maximum=3)
    cluster.template("three", "3")
    cluster.request("head", ATOMIC, [("three", 4)])
    cluster.settle()
    cluster.advance(6 * MINUTE)
    cluster.request("small", ATOMIC, [("three", 1)])
    cluster.settle()
    assert cluster.groups["g"].target == 0
    cluster.groups["g"].maximum = 5
    cluster.observe_group("g")
    cluster.advance(12 * MINUTE)
    assert (provisioned(cluster, "head"), provisioned(cluster, "small")) == (True, True)


def test_a_group_in_backoff_is_what_the_head_may_wait_for() -> None:
    cluster = Cluster({"head-deadline": "1s", "scale-down-enabled": False})
    cluster.add_group("g", cpu=3000, maximum=4)
    cluster.template("three", "3")
    cluster.refuse["g"] = "OutOfCapacity"
    cluster.request("head", ATOMIC, [("three", 4)])
    cluster.settle()
    cluster.refuse.clear()
    cluster.add_group("other", cpu=3000, maximum=1)
    cluster.request("small", ATOMIC, [("three", 1)])
    cluster.advance(10)
    assert provisioned(cluster, "small")  # on what the head, which goes to one group, does not need
    assert (cluster.groups["g"].target, cluster.groups["other"].target) == (0, 1)
    cluster.advance(20 * MINUTE)
    assert provisioned(cluster, "head")


def test_a_quota_that_the_head_exceeds_is_not_used_up_by_others() -> None:
    cluster = Cluster({"head-deadline": "1s"})
    cluster.add_node("n", cpu=64_000)
    cluster.template("three", "3")
    cluster.tell(
        p.ResourceQuotaObserved(at=cluster.now, namespace="ns", name="q", hard={"requests.cpu": 6000})
    )
    cluster.request("head", CHECK, [("three", 4)])
    cluster.advance(10)
    cluster.request("small", CHECK, [("three", 1)])
    cluster.settle()
    assert not provisioned(cluster, "small")


def test_what_the_head_needs_of_a_quota_is_left_to_it() -> None:
    cluster = Cluster({"head-deadline": "1s"})
    cluster.add_node("n", cpu=64_000)
    cluster.template("two", "2")
    cluster.template("three", "3")
    cluster.template("elsewhere", "3", nodeSelector={"pool": "to-come"})
    cluster.tell(
        p.ResourceQuotaObserved(at=cluster.now, namespace="ns", name="q", hard={"requests.cpu": 8000})
    )
    cluster.request("head", CHECK, [("elsewhere", 2)])
    cluster.advance(10)
    cluster.request("much", CHECK, [("three", 1)])
    cluster.request("little", CHECK, [("two", 1)])
    cluster.settle()
    assert not provisioned(cluster, "much")
    assert provisioned(cluster, "little")


def test_all_quotas_that_the_head_waits_for_are_left_to_it() -> None:
    cluster = Cluster({"head-deadline": "1s"})
    cluster.add_node("n", cpu=64_000)
    cluster.template("both", "3", "1Gi")
    cluster.template("memory", "0", "1Gi")
    cluster.template("neither", "0", "0")
    for name, hard in (("a", {"requests.cpu": 6000}), ("b", {"requests.memory": 3 * 2**30})):
        cluster.tell(p.ResourceQuotaObserved(at=cluster.now, namespace="ns", name=name, hard=hard))
    cluster.request("head", CHECK, [("both", 4)])
    cluster.advance(10)
    cluster.request("some", CHECK, [("memory", 1)])
    cluster.request("none", CHECK, [("neither", 1)])
    cluster.settle()
    assert not provisioned(cluster, "some")
    assert provisioned(cluster, "none")


def test_who_passes_costs_one_plan_for_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[float] = []
    whole, place = shortfall.shortfall, shortfall.nearest

    def counted(mode: Mode, asked: Asked, world: World) -> int:
        planned.append(cluster.now)
        return whole(mode, asked, world)

    def reserved(mode: Mode, asked: Asked, world: World) -> shortfall.Nearest:
        planned.append(cluster.now)
        return place(mode, asked, world)

    cluster = waiting(nodes=8, cpu=4000, pods=9)
    monkeypatch.setattr(backfill, "shortfall", counted)
    monkeypatch.setattr(backfill, "nearest", reserved)
    monkeypatch.setattr(backfill, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(turns, "MOST_LOOKED_AT", 4)
    for i in range(10):
        cluster.request(f"r{i}", CHECK, [("one", 1)], {"BookingSeconds": "86400"})
    cluster.settle()
    # Three evaluations, each with the head as it is and with each placement of those that are to pass: four of
    # the first ones; then one that is placed anew, beside where the head would go, and two that go on from there.
    assert sorted(Counter(planned).values()) == [5, 6, 7]
    assert [provisioned(cluster, f"r{i}") for i in range(10)] == [True] * 8 + [False] * 2


def test_without_a_deadline_everybody_passes() -> None:
    cluster = waiting(nodes=1, cpu=4000, deadline="0s")
    cluster.request("small", CHECK, [("two", 1)])
    cluster.settle()
    assert provisioned(cluster, "small")


@settings(max_examples=12, deadline=None)
@given(
    head=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    arrivals=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=5),
    others=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=5
    ),
)
def test_the_head_has_its_room_as_soon_as_without_the_others(
    head: tuple[int, int], arrivals: list[tuple[int, int]], others: list[tuple[int, int, int]]
) -> None:
    def run(others: list[tuple[int, int, int]]) -> float | None:
        """Seconds until the head is provisioned, while nodes come and others ask."""
        cluster = Cluster({"head-deadline": "1s", "provisioning-request-max-backoff-time": "1m"})
        for cores in (1, 2, 3):
            cluster.template(f"c{cores}", str(cores))
        kept = {"BookingSeconds": "999999"}
        cluster.request("head", CHECK, [(f"c{head[0]}", head[1])], kept)
        begin = cluster.now
        cluster.settle()
        for minute in range(9):
            for n, (at, cores) in enumerate(arrivals):
                if at == minute:
                    cluster.add_node(f"n{n}", cpu=1000 * cores)
            for n, (at, cores, pods) in enumerate(others):
                if at == minute:
                    cluster.request(f"o{n}", CHECK, [(f"c{cores}", pods)], kept)
            cluster.advance(MINUTE)
            if provisioned(cluster, "head"):
                return cluster.now - begin
        return None

    assert run(others) == run([])


@settings(max_examples=25, deadline=None)
@given(
    head=st.tuples(st.integers(1, 3), st.integers(2, 5)),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=2, max_size=3),
    raised=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=6),
    others=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=4
    ),
)
def test_the_head_has_its_nodes_no_later_than_without_the_others(
    head: tuple[int, int],
    sizes: list[tuple[int, int]],
    raised: list[tuple[int, int]],
    others: list[tuple[int, int, int]],
) -> None:
    def run(others: list[tuple[int, int, int]]) -> float:
        """Seconds until the head is provisioned, while groups may grow larger and others ask."""
        cluster = Cluster(
            {
                "head-deadline": "1s",
                "provisioning-request-max-backoff-time": "1m",
                "scale-down-enabled": False,
            }
        )
        for g, (cores, most) in enumerate(sizes):
            cluster.add_group(f"g{g}", cpu=1000 * cores, maximum=most)
        for cores in (1, 2, 3):
            cluster.template(f"c{cores}", str(cores))
        kept = {"BookingSeconds": "999999"}
        cluster.request("head", ATOMIC, [(f"c{head[0]}", head[1])], {**kept, "AcrossGroups": "true"})
        begin = cluster.now
        cluster.settle()
        for minute in range(8):
            for at, g in raised:
                if at == minute and g < len(sizes):
                    cluster.groups[f"g{g}"].maximum += 1
                    cluster.observe_group(f"g{g}")
            for n, (at, cores, pods) in enumerate(others):
                if at == minute:
                    cluster.request(f"o{n}", ATOMIC, [(f"c{cores}", pods)], kept)
            cluster.advance(MINUTE)
            if provisioned(cluster, "head"):
                return cluster.now - begin
        return float("inf")

    assert run(others) <= run([])  # sooner where what others ordered has room for it, too
