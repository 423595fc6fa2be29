"""Passes in parts: the reference's finds what it finds in one go, and none decides by what is kept of the parts before."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.watched import Watched
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ModesSet
from tidewright.events.provisioning import TrackUnneededNodes
from tidewright.events.timers import TimerFired
from tidewright.provisioning.fold.common import SCAN
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes, scanning

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


class Forgetful(Watched):
    """A cluster whose decider has lost what it keeps beside its state before some parts of its passes, or before all of them.

    Attributes:
        forgets: decides when; None: it never does.
        taken_up: how often a part went on from the one before it.
    """

    def __init__(self, config: JsonObject, forgets: Random | None = None, *, always: bool = False) -> None:
        self.forgets, self.always = forgets, always
        super().__init__(config)

    def tell(self, event: Event) -> None:
        if self.forgets is not None and isinstance(event, TimerFired) and event.key == SCAN:
            chance = self.forgets.random()
            if chance < 0.2 and not self.always:
                self.state.beside.index = None
            elif self.always or chance < 0.5:
                index_of(self.state).under_way = None
        super().tell(event)


APART: JsonObject = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip


def lived(seed: int, forgets: Random | None = None, *, always: bool = False) -> tuple[Forgetful, int]:
    """A cluster after a few passes with changes between them, and within; and how often a part went on from the one before it."""
    rng, count, went_on = Random(seed), 20, 0
    config: JsonObject = {
        "max-scale-down-parallelism": rng.choice((2, 4, 10)),
        "max-drain-parallelism": 2,
        "scale-down-unneeded-time": rng.choice(("20s", "1h")),
        "unremovable-node-recheck-timeout": rng.choice(("0s", "10s", "5m")),
        "consolidation": rng.choice(("off", "off", "underutilised")),
        "ok-total-unready-count": count,
    }
    plain = rng.random() < 0.6
    goes_on = passes.Pass.taken_up

    def counted(self: passes.Pass, memory: passes.Memory, now: float) -> bool:
        nonlocal went_on
        stands = goes_on(self, memory, now)
        went_on += stands
        return stands

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "MOST_TRIES", rng.choice((2, 5, 9)))
        patch.setattr(passes.Pass, "taken_up", counted)
        cluster = Forgetful(config, forgets, always=always)
        cluster.nodes(count, maximum=count, zero_or_max=rng.random() < 0.1)
        large = cluster.shape({"cpu": 1500, "memory": 2**30}, labels={"app": "web"})
        first = cluster.shape({"cpu": 700, "memory": 2**30}, labels={"app": "web"}, priority=5)
        apart = cluster.shape({"cpu": 300}, {"affinity": APART}, labels={"app": "web"})
        shapes = [large, first, cluster.small, cluster.small, *(() if plain else (apart,))]
        for i in range(rng.randint(8, 50)):
            cluster.placed(f"p{i}", f"g{rng.randrange(count)}", shape=rng.choice(shapes))
        if rng.random() < 0.5:
            cluster.budget(rng.randint(0, 30))
        for step in range(rng.randint(2, 5)):
            until = cluster.now + rng.choice((12, 40, 320))
            while (due := min(cluster.fold.timers.values(), default=until)) < until:
                cluster.advance(max(0.0, due - cluster.now))
                if rng.random() < 0.03:
                    cluster.placed(f"meanwhile{step}", f"g{rng.randrange(count)}")
                if cluster.state.scan.part and rng.random() < 0.1:
                    # Said once more, which a service folds that did not read it before.
                    others = (f"other{rng.random()}",)
                    cluster.tell(ModesSet(at=cluster.now, selector="x=y", namespaces=others, refresh=True))
            cluster.advance(until - cluster.now)
            for _ in range(rng.randint(0, 4)):
                pod = f"p{rng.randrange(50)}"
                there = any(key.endswith(f"/{pod}") for key in cluster.state.pods)
                if there and rng.random() < 0.7:
                    cluster.gone(pod)
                elif not there:
                    cluster.placed(pod, f"g{rng.randrange(count)}", shape=rng.choice(shapes))
    assert cluster.state.scan.fired < 1000, "a pass ends"
    return cluster, went_on


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_what_is_kept_between_parts_decides_nothing(seed: int) -> None:
    kept, _ = lived(seed)
    forgetful, _ = lived(seed, Random(seed))
    without, went_on = lived(seed, Random(seed), always=True)
    assert went_on == 0
    assert forgetful.said == kept.said
    assert without.said == kept.said
    assert forgetful.log == kept.log


def test_parts_do_go_on_from_each_other() -> None:
    assert sum(lived(seed)[1] for seed in range(8)) > 8
