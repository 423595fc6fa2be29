"""A pass as the reference makes it, in one go, and the same in parts: what is found, where it is lost, and that it ends."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.watched import Watched
from tidewright.events.provisioning import TrackUnneededNodes
from tidewright.provisioning.scaledown import scanning

NODES = 8


def looked_at(
    seed: int, *, at_once: int, lost: bool = False, stirred: int = 0, come: int = 0, read: int = 1000
) -> tuple[Watched, int]:
    """A cluster after its first pass, and in how many parts that was made.

    `stirred`: something comes so often in between; `come`: so many nodes do after a part, of which `read` at once are read.
    """
    rng = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "MOST_TRIES", at_once)
        patch.setattr(scanning, "READ_AT_ONCE", read)
        cluster = Watched({"as-reference": True, "scale-down-unneeded-time": "1h"})
        cluster.silent = True
        cluster.nodes(NODES)
        large = cluster.shape({"cpu": 1500, "memory": 2**30}, labels={"app": "web"})
        for i in range(rng.randint(4, 24)):
            shape = large if rng.random() < 0.3 else cluster.small
            cluster.placed(f"p{i}", f"g{rng.randrange(NODES)}", shape=shape)
        cluster.budget(rng.randint(0, 20))
        parts = 0
        while not cluster.of(TrackUnneededNodes) or cluster.state.scan.before is not None:
            due = cluster.state.scan.due
            assert due is not None, "it goes on by itself"
            assert parts < 200
            cluster.advance(max(0.0, due - cluster.now - 0.0002))
            fired = cluster.state.scan.fired
            cluster.advance(0.0004)
            parts += cluster.state.scan.fired - fired
            if lost:
                cluster.state.beside.index = None
            if cluster.state.scan.part == 1:
                for i in range(come):
                    cluster.known(f"late{i}", "g")
                come = 0
            if parts <= stirred:
                cluster.again(
                    f"g{NODES - 1}", cluster.groups["g"].template.allocatable, labels={"n": f"{parts}"}
                )
    return cluster, parts


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_in_parts_the_reference_s_pass_finds_what_it_finds_in_one_go(seed: int) -> None:
    whole, one = looked_at(seed, at_once=100_000)
    parted, several = looked_at(seed, at_once=2)
    lost, _ = looked_at(seed, at_once=2, lost=True)
    assert one == 1
    assert parted.state.unneeded.keys() == whole.state.unneeded.keys()
    assert [node.moves for node in parted.state.unneeded.values()] == [
        node.moves for node in whole.state.unneeded.values()
    ]
    assert {n: (node.reason, node.pod_reason) for n, node in parted.state.paused.items()} == {
        n: (node.reason, node.pod_reason) for n, node in whole.state.paused.items()
    }
    assert lost.said == parted.said
    *before, last = parted.of(TrackUnneededNodes)
    assert not last.more
    assert [(one.more, one.unneeded, one.paused) for one in before] == [(True, (), ())] * (several > 1)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_part_that_only_read_nodes_has_no_pass_gone_on_with_from_before_they_came(seed: int) -> None:
    kept, _ = looked_at(seed, at_once=2, come=NODES, read=NODES // 2)
    lost, _ = looked_at(seed, at_once=2, come=NODES, read=NODES // 2, lost=True)
    assume(len(kept.state.nodes) > NODES)  # else the first part was the last one
    assert kept.said == lost.said
    assert {name for name in kept.state.nodes if name.startswith("late")} <= (
        kept.state.unneeded.keys() | kept.state.paused.keys()
    ), "a pass looked at the nodes that came"


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_never_rests_has_its_pass_made_all_the_same(seed: int) -> None:
    cluster, parts = looked_at(seed, at_once=2, stirred=1000)
    quiet, _ = looked_at(seed, at_once=2)
    assert parts > scanning.MOST_RESTARTS
    assert cluster.state.scan.restarts == 0
    assert cluster.unneeded | cluster.state.paused.keys() >= quiet.unneeded
