"""Native mode with objects shared out by the value of a label (strategy `mapping`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.shardmanager.cluster import Cluster, Pod
from tests.unit.shardmanager.test_driver import template
from tests.unit.shardmanager.test_fold import document
from tidewright.shardmanager.propeller.worker import parse_args

VALUES = ("a", "b", "c", "d", None)


def spec(
    shards: Sequence[Sequence[str]], *, injector: str = "propeller", label: str = "project"
) -> dict[str, Any]:
    return {
        "source": {"labels": {"label": label}},
        "workers": {
            "driver": "pods",
            "injector": injector,
            "template": {"name": "orders-template", "container": "orders"},
        },
        "assignment": {"strategy": "mapping", "perShard": [{"ids": list(ids)} for ids in shards]},
        "handover": {"mode": "restart"},
        "rollout": {"minReady": "1s"},
    }


def started(shards: Sequence[Sequence[str]], **more: Any) -> Cluster:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(shards, **more))
    settle(cluster)
    return cluster


def args(pod: Pod) -> list[str]:
    found: list[str] = pod.manifest["spec"]["containers"][0]["args"]
    return found


def owners(cluster: Cluster, value: str | None) -> list[str]:
    """The pods, those on their way out too, that list an object with this value of the label."""
    return [name for name, pod in sorted(cluster.pods.items()) if lists(args(pod), value)]


def lists(arguments: Sequence[str], value: str | None) -> bool:
    """What a worker makes of its arguments: the propeller's flags, or one selector."""
    selector = next((a.partition("=")[2] for a in arguments if a.startswith("--watch-label-selector=")), None)
    if selector is None:
        return parse_args(arguments).owns({} if value is None else {"project": value})
    among = value in selector.partition("(")[2].rstrip(")").split(",")
    return among is not (" notin " in selector)


def settle(cluster: Cluster, rounds: int = 80) -> None:
    """Let pods end, start and become ready, second by second, and watch that nothing is listed twice."""
    for _second in range(rounds):
        for value in VALUES:
            assert len(owners(cluster, value)) <= 1, f"{value} is listed by two pods"
        leaving = [n for n, p in cluster.pods.items() if p.deleting_at is not None]
        if leaving and cluster.now - (cluster.pods[leaving[0]].deleting_at or 0.0) >= 3.0:
            cluster.vanish(leaving[0])
        cluster.run(*(n for n, p in cluster.pods.items() if p.phase == "Pending" and p.deleting_at is None))
        cluster.advance(1.0)


def condition(cluster: Cluster, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in cluster.status["conditions"] if c["type"] == kind)
    return found


def test_each_value_has_one_pod_and_the_wildcard_takes_the_rest_and_the_unlabelled() -> None:
    cluster = started([["a"], ["b", "c"], ["*"]])
    assert [owners(cluster, v) for v in VALUES] == [
        ["orders-0"], ["orders-1"], ["orders-1"], ["orders-2"], ["orders-2"],
    ]  # fmt: skip
    assert len(document(cluster).slots) == 3
    assert not document(cluster).unowned()
    assert args(cluster.pods["orders-2"])[-1].endswith("=orders-leader-2")
    assert condition(cluster, "Ready")["status"] == "True"


def test_any_label_is_mapped_with_a_selector_flag() -> None:
    cluster = started([["a", "b"], ["*"]], injector="selector-flag", label="team")
    assert args(cluster.pods["orders-0"])[-1] == "--watch-label-selector=team in (a,b)"
    assert args(cluster.pods["orders-1"])[-1] == "--watch-label-selector=team notin (a,b)"


def test_a_wildcard_alone_needs_no_filter() -> None:
    cluster = started([["*"]], injector="selector-flag", label="team")
    assert args(cluster.pods["orders-0"]) == ["--x"]


def test_without_a_wildcard_what_no_shard_names_is_said() -> None:
    cluster = started([["a"], ["b"]])
    said = condition(cluster, "NotExhaustive")
    assert (said["status"], "a project that no shard names has no owner" in said["message"]) == ("True", True)
    assert condition(cluster, "Ready")["status"] == "True"


_ids = st.lists(st.sampled_from(["a", "b", "c", "d", "*"]), min_size=1, max_size=5, unique=True)


@st.composite
def mappings(draw: st.DrawFn) -> list[list[str]]:
    """Each value in at most one shard; `*` alone."""
    shards: list[list[str]] = []
    for value in draw(_ids):
        if value != "*" and shards and shards[-1] != ["*"] and draw(st.booleans()):
            shards[-1].append(value)
        else:
            shards.append([value])
    return shards


@settings(max_examples=12, deadline=None)
@given(mappings(), mappings())
def test_from_any_mapping_to_any_other_nothing_is_ever_listed_twice_and_all_of_it_in_the_end(
    before: list[list[str]], after: list[list[str]]
) -> None:
    cluster = started(before)
    cluster.shard_set(spec(after), generation=2)
    settle(cluster)
    assert sorted(cluster.pods) == [f"orders-{n}" for n in range(len(after))]
    everything = ["*"] in after
    for value in VALUES:
        named = [n for n, ids in enumerate(after) if value in ids]
        expected = [f"orders-{named[0]}"] if named else [f"orders-{after.index(['*'])}"] if everything else []
        assert owners(cluster, value) == expected
    assert len(document(cluster).slots) == len(after)
    assert not document(cluster).unowned()


def test_values_of_a_pod_that_does_not_end_are_given_to_nobody_else() -> None:
    cluster = started([["a"], ["b"], ["*"]])
    cluster.shard_set(spec([["b"], ["a"], ["*"]]), generation=2)
    for _second in range(20):
        cluster.advance(1.0)
    assert cluster.pods["orders-0"].deleting_at is not None
    assert owners(cluster, "a") == ["orders-0"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"assignment": {"strategy": "mapping"}}, "spec.assignment.perShard is empty"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"ids": ["a"]}, {"ids": ["a"]}]}},
         "spec.assignment.perShard[1].ids[0] is 'a', which shard 0 has too"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"ids": [""]}]}}, "perShard[0].ids[0] is empty"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"ids": ["a,b"]}]}}, "expected a label value"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"ids": []}]}}, "0 configured ids"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"ids": ["*"]}, {"ids": ["*"]}]}},
         "may only define one shard"),
        ({"assignment": {"strategy": "mapping", "perShard": ["a"]}}, "is 'a': expected {ids: [...]}"),
        ({"assignment": {"strategy": "mapping", "perShard": [{"id": "a"}]}}, "perShard[0].id is not a field"),
        ({"assignment": {"strategy": "sticky"}}, "is sticky with source.labels: expected mapping"),
        ({"source": {"labels": {"label": "team"}}}, "the injector propeller has flags for project and domain"),
        ({"source": {"labels": {"label": "no label!"}}}, "spec.source.labels.label is 'no label!'"),
        ({"source": {"customResource": {"kind": "Order"}}}, "spec.source.labels.label is None"),
        ({"autosize": {}}, "spec.autosize is given with the strategy mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_path(changes: dict[str, Any], said: str) -> None:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set({**spec([["a"], ["*"]]), **changes})
    assert said in condition(cluster, "InvalidSpec")["message"]
    assert not cluster.pods


def test_a_set_does_not_change_between_slots_and_values() -> None:
    cluster = started([["a"], ["*"]])
    wanted = spec([["a"], ["*"]])
    wanted["assignment"] = {"strategy": "sticky"}
    wanted["source"] = {}
    wanted["keyspace"] = {"slots": 32}
    cluster.shard_set(wanted, generation=2)
    assert "cannot change from mapping, make another ShardSet" in condition(cluster, "InvalidSpec")["message"]
    assert sorted(cluster.pods) == ["orders-0", "orders-1"]


def test_folding_the_log_again_gives_the_same_state() -> None:
    cluster = started([["a"], ["b"], ["*"]])
    cluster.shard_set(spec([["a", "b"], ["*"]]), generation=2)
    settle(cluster)
    assert cluster.replayed() == cluster.state
