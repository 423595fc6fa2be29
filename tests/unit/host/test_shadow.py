"""What a decider would do is recorded once, and its state is as if nobody had decided it."""

from __future__ import annotations

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.config import ModesSet
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.facts import NodeGone, NodeObserved, PodObserved
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.order import Decided, Fold
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot


def pod(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Pod", namespace="shop", name=name)


class Made(msgspec.Struct):
    """What it believes to have made."""

    names: list[str] = []


def evolve(state: Made, event: Event) -> None:
    """Remember what was made."""
    if isinstance(event, CreateObject):
        state.names.append(event.target.name)


def decide(_: Made, event: Event, _touched: None) -> list[Decision]:
    """Two pods named as the last node was labelled; for real once a node is gone."""
    if isinstance(event, PodObserved):
        return [DeleteObject(at=event.at, target=pod("x"), shadow=True), *both(event, "x")]
    if isinstance(event, NodeObserved | NodeGone):
        return both(event, event.name)
    return []


def both(event: NodeObserved | NodeGone | PodObserved, value: str) -> list[Decision]:
    """Both pods."""
    shadow = not isinstance(event, NodeGone)
    manifests: list[dict[str, object]] = [{"n": n, "value": value} for n in range(2)]
    return [CreateObject(at=event.at, target=pod("x"), manifest=m, shadow=shadow) for m in manifests]


MAKER = Decider(
    service="maker",
    state_version=1,
    state_type=Made,
    kinds=frozenset(("node", "pod")),
    evolve=evolve,
    decide=decide,
)


class Steps:
    """A fold, and what it gave."""

    def __init__(self) -> None:
        self.fold = Fold(MAKER, Slot("0"))
        self.taken: list[tuple[int, bytes, Event, list[Decided]]] = []

    def feed(self, event: Event) -> list[Decision]:
        seq, body = len(self.taken) + 1, registry.encode(event)
        given = self.fold.step(seq, body, event)
        self.taken.append((seq, body, event, given))
        return [one.decision for one in given]

    def replayed(self) -> Fold[Made]:
        fold = Fold(MAKER, Slot("0"))
        for seq, body, event, given in self.taken:
            fold.replay(seq, body, event, given)
        return fold


def node(at: float, name: str) -> NodeObserved:
    return NodeObserved(at=at, name=name)


def test_what_would_be_done_is_said_once_per_change_and_is_not_folded() -> None:
    steps = Steps()
    assert len(steps.feed(node(1.0, "a"))) == 2
    assert steps.feed(node(2.0, "a")) == []
    assert len(steps.feed(node(3.0, "b"))) == 2
    assert steps.fold.state == Made()
    assert steps.replayed().said == steps.fold.said


def test_of_several_decisions_about_one_thing_all_are_said_or_none() -> None:
    steps = Steps()
    steps.feed(node(1.0, "x"))
    assert [type(d) for d in steps.feed(PodObserved(at=2.0, name="p"))] == [DeleteObject]
    assert steps.feed(PodObserved(at=3.0, name="p")) == []


def test_other_modes_have_it_said_anew() -> None:
    steps = Steps()
    steps.feed(node(1.0, "a"))
    steps.feed(ModesSet(at=2.0, mode="shadow"))
    assert len(steps.feed(node(3.0, "a"))) == 2
    assert steps.replayed().said == steps.fold.said


def test_what_was_done_after_all_may_be_thought_of_again() -> None:
    steps = Steps()
    steps.feed(node(1.0, "a"))
    assert len(steps.feed(NodeGone(at=2.0, name="a"))) == 2
    assert steps.fold.state.names == ["x", "x"]
    assert len(steps.feed(node(3.0, "a"))) == 2
    assert steps.replayed().state == steps.fold.state


def test_a_snapshot_knows_what_was_said() -> None:
    steps = Steps()
    steps.feed(node(1.0, "a"))
    snapshot = steps.fold.snapshot(checkpoint_seq=0, position=1)
    stored = msgspec.json.decode(msgspec.json.encode(snapshot), type=type(snapshot))
    steps.fold = Fold.resumed(MAKER, stored)
    assert steps.feed(node(2.0, "a")) == []


def test_a_snapshot_of_before_there_were_modes_is_read() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(Steps().fold.snapshot(checkpoint_seq=0, position=1)))
    del stored["said"]
    old = msgspec.json.decode(msgspec.json.encode(stored), type=Snapshot)
    assert Fold.resumed(MAKER, old).said == {}
