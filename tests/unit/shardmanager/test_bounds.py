"""What a ShardSet may ask for, and how much is said of one that asks for more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.mutations import own
from tests.hostile.objects import OBJECTS
from tests.unit.shardmanager.cluster import Cluster
from tidewright.shardmanager.shardset.spec import read_spec

SPEC: dict[str, Any] = OBJECTS["shardset"][0]["spec"]
MAPPED: dict[str, Any] = OBJECTS["shardset"][1]["spec"]


@pytest.mark.parametrize(
    ("of", "section", "field", "value", "says"),
    [
        (SPEC, "workers", "replicas", 2**63 - 1, "workers.replicas is 9223372036854775807: expected 4096 at most"),
        (SPEC, "autosize", "max", 2**31, "autosize.max is 2147483648: expected 4096 at most"),
        (SPEC, "assignment", "pins", {"9" * 5000: "a"}, "is 'a': expected a member for a slot below 64"),
        (SPEC, "assignment", "pins", {"\N{SUPERSCRIPT TWO}": "a"}, "expected a member for a slot below 64"),
        (MAPPED, "assignment", "perShard", [{}] * 5000, "assignment.perShard has 5000 entries: expected 4096 at most"),
        (MAPPED, "assignment", "perShard", [{"ids": [f"i{n}" for n in range(10_001)]}], "assignment.perShard has 10001 ids"),
    ],
)  # fmt: skip
def test_more_than_anybody_runs_is_refused_by_name(
    of: dict[str, Any], section: str, field: str, value: Any, says: str
) -> None:
    """Each ended or held up the sets beside it, of whoever."""
    spec = own(of)
    assert not read_spec(spec)[1]
    spec[section][field] = value
    problems = [str(problem) for problem in read_spec(spec)[1]]
    assert any(says in problem for problem in problems), problems


def test_of_thousands_of_mistakes_a_few_are_told_and_briefly() -> None:
    spec = own(MAPPED)
    spec["assignment"]["perShard"] = ["x" * 100_000, *["a"] * 4000]
    problems = read_spec(spec)[1]
    assert len(problems) == 40, "of what cannot be read, and of what breaks rules"
    assert max(len(str(problem)) for problem in problems) < 1000
    assert (
        str(problems[19])
        == str(problems[39])
        == "spec has more that is wrong: it is told once this is corrected"
    )
    cluster = Cluster()
    cluster.shard_set(spec)
    assert len(str(cluster.status)) < 50_000


def test_a_load_of_no_slot_is_left_out() -> None:
    cluster = Cluster()
    cluster.shard_set({"keyspace": {"slots": 32}})
    cluster.member("a", "1", load={"9" * 5000: 1, "\N{SUPERSCRIPT TWO}": 1, "3": 7})
    (seen,) = cluster.state.sets["ns/orders"].members.values()
    assert seen.load == {3: 7}
