"""What the autoscaler says about itself: reasons, the present, and what would have changed them."""

from __future__ import annotations

import msgspec

from tests.unit.autoscaler.world import NS, World, external, holds, of, one, sample, spec, workload, wpa
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell.explaining import EXPLAINER
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.host.fold.explainer import Explainer, Reference

ASKED = Reference("watermarkpodautoscaler", NS, "wpa")
explainer: Explainer[State] = EXPLAINER


def seen(world: World, cause: Event) -> State:
    """The state as `decide` saw it: the cause folded, on a copy."""
    copy = msgspec.json.decode(msgspec.json.encode(world.fold.state), type=State)
    DECIDER.evolve(copy, cause)
    return copy


def test_a_scale_names_the_value_that_would_have_prevented_it() -> None:
    world = World()
    world.start(replicas=2)
    cause = sample(101, 40_000)
    before = seen(world, cause)
    order = one(world.feed(cause), ScaleWorkload)
    assert explainer.concerns(order, ASKED)
    assert "is 20, above its high watermark 10 (11 with tolerance)" in explainer.sentences(order)[0]
    (opposite,) = explainer.opposite(before, order)
    # 22 over two ready pods is 11: at the mark, and not above it.
    assert opposite == "With rps{map[app:web]} at 11 or less instead of 20, there would have been no upscale."
    assert explainer.facts(seen(world, cause), order) == (
        ASKED,
        Reference("deployment", NS, "web"),
        Reference("metric", NS, "external/rps/app=web"),
    )


def test_the_named_value_is_the_edge() -> None:
    for total, scales in ((22_000, False), (22_001, True)):
        world = World()
        world.start(replicas=2)
        assert bool(of(world.feed(sample(101, total)), ScaleWorkload)) is scales


def test_no_scale_names_both_edges() -> None:
    world = World()
    world.start(replicas=2)
    cause = sample(101, 15_000)
    before = seen(world, cause)
    hold = one(world.feed(cause), HoldReplicas)
    more, less = explainer.opposite(before, hold)
    assert more.startswith(
        "With rps{map[app:web]} at 11.001 or more instead of 7.5, it would have been scaled"
    )
    assert less.startswith(
        "With rps{map[app:web]} at 4.499 or less instead of 7.5, it would have been scaled"
    )


def test_two_values_above_cannot_be_prevented_by_one() -> None:
    world = World()
    world.start(replicas=2, metrics=[external("rps"), external("lag")])
    world.feed(sample(101, 40_000))
    cause = sample(101, 40_000, name="lag")
    before = seen(world, cause)
    order = one(world.feed(cause), ScaleWorkload)
    assert explainer.opposite(before, order) == [
        "No single value would have changed this: more than one metric asks for it."
    ]


def test_a_window_says_until_when() -> None:
    world = World()
    world.start(replicas=2, upscaleForbiddenWindowSeconds=60)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    world.apply(order, 102)
    cause = sample(116, 60_000)
    before = seen(world, cause)
    hold = one(world.feed(cause), HoldReplicas)
    assert hold.reason == "UpscaleForbiddenWindow"
    assert any(
        "at 1970-01-01 00:02:41 UTC or later would scale from 3" in s
        for s in explainer.opposite(before, hold)
    )
    told = explainer.standing(seen(world, cause), ASKED, 120.0)
    assert told[0] == "Deployment web is at 3 replicas."
    assert any("waits for the forbidden window of 60 s" in s for s in told)
    assert any(s.startswith("Upscales wait until 1970-01-01 00:02:41") for s in told)


def test_the_limit_is_an_input_too() -> None:
    world = World()
    world.start(replicas=2, maxReplicas=2)
    cause = sample(101, 40_000)
    before = seen(world, cause)
    hold = one(world.feed(cause), HoldReplicas)
    assert "With maxReplicas 4 instead of 2, it would have been scaled to 3." in explainer.opposite(
        before, hold
    )


def test_why_nothing_happens() -> None:
    def standing(world: World, asked: Reference = ASKED) -> str:
        return " ".join(explainer.standing(seen(world, workload(1, 0, name="other")), asked, 200.0))

    world = World()
    assert standing(world) == ""
    world.feed(wpa(100))
    assert standing(world) == "Nothing happens because there is no answer yet for rps{map[app:web]}."
    world.feed(sample(101, 10_000))
    assert "target cannot be scaled: Deployment shop/web is not there" in standing(world)
    world.start(at=102)
    order = one(world.feed(sample(103, 40_000)), ScaleWorkload)
    assert "is on its way: nothing else" in standing(world)
    assert "It is scaled by WatermarkPodAutoscaler shop/wpa." in standing(
        world, Reference("deployment", NS, "web")
    )
    world.apply(order, 104)
    world.feed(wpa(105, "younger", created_at=2.0))
    assert "is scaled by shop/wpa, which is older" in standing(world, Reference(ASKED.kind, NS, "younger"))
    world.feed(wpa(106, generation=2, spec=spec(external(low="10", high="5"))))
    assert standing(world).startswith("Nothing happens because the spec cannot be used")
    world.feed(wpa(107, generation=2, deleting_at=107.0))
    assert standing(world) == "It is being deleted: nothing is decided for it any more."


def test_what_stops_the_next_scale() -> None:
    def standing(world: World, at: float) -> list[str]:
        return list(explainer.standing(seen(world, workload(1, 0, name="other")), ASKED, at))

    world = World()
    world.start(replicas=2, dryRun=True)
    world.feed(sample(101, 40_000), sample(116, 60_000))
    assert "It is a dry run: nothing is written, and windows count from what was only decided." in standing(
        world, 117
    )
    assert standing(world, 117)[-1] == "It looks again by itself at 1970-01-01 00:02:41 UTC."
    world = World()
    world.start(replicas=2)
    assert holds(world.feed(sample(101, 0))) == ["UntoleratedZero"]
    assert standing(world, 102)[2:] == [
        "Nothing is to be done: a value of 0 that is not tolerated moves nothing.",
        "No window runs and no scale is on its way: the values decide.",
    ]
    assert holds(world.feed(sample(700, 2_000, sampled_at=102.0))) == ["StaleMetric"]
    assert standing(world, 701)[-2:] == [
        "The value of rps{map[app:web]} is older than 300 s and scales nothing down: the downscale is held.",
        "Downscales wait for a younger value; upscales do not.",
    ]
    world.feed(workload(702, 0))
    assert standing(world, 703)[-1].startswith("Nothing happens because the target is at 0 replicas")


def test_decisions_of_an_object_are_found_on_its_target() -> None:
    world = World()
    world.start()
    target = Reference("deployment", NS, "web")
    assert explainer.told(world.fold.state, ASKED).decisions == (target,)
    assert explainer.told(world.fold.state, target).decisions == (ASKED,)
    assert explainer.told(world.fold.state, Reference(ASKED.kind, "elsewhere", "wpa")).decisions == ()


def test_what_is_held_of_an_object() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(sample(101, 15_000), workload(102, 7, name="other"))
    held = explainer.aggregate(world.fold.state, ASKED)
    assert held is not None
    assert [*msgspec.to_builtins(held)["pods"]] == ["web-77-0", "web-77-1"]
    assert msgspec.to_builtins(held)["target"]["name"] == "web"
    assert [*msgspec.to_builtins(held)["samples"]] == ["external/rps/app=web"]
    assert list(explainer.aggregate(world.fold.state, Reference("deployment", NS, "web")) or ()) == ["wpa"]
    assert explainer.aggregate(world.fold.state, Reference("deployment", NS, "other")) is None
    assert explainer.aggregate(world.fold.state, Reference(ASKED.kind, "elsewhere", "wpa")) is None
