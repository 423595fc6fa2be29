"""A decider that learns to read more: each stretch of the log is folded by the set of inputs that it was decided by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.host import counting
from tests.unit.host.counting import COUNTING
from tests.unit.host.test_host import NAMESPACES, hosting, pod
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event
from tidewright.events.facts import NodeObserved
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.order import Fold
from tidewright.host.fold.restoring import SlotRestorer
from tidewright.host.fold.verify import Report, Verification, Verifier
from tidewright.log import checkpoint as checkpoints
from tidewright.log.connection import Log, Message
from tidewright.log.input_set import InputSet
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL

PODS, PODS_AND_NODES = InputSet(("pod",)), InputSet(("node", "pod"))


class State(counting.State):
    nodes: list[str] = []


def evolve(state: State, event: Event) -> None:
    """What counts pods, and every word about a node in its order: one too many or too few shows."""
    if isinstance(event, NodeObserved):
        state.nodes.append(event.name)
    counting.evolve(state, event)


def decide(state: State, event: Event, _: None) -> list[Decision]:
    return [
        msgspec.structs.replace(decision, reason=f"{decision.reason} beside {','.join(state.nodes)}")
        if isinstance(decision, HoldReplicas) and state.nodes
        else decision
        for decision in counting.decide(state, event, None)
    ]


WIDER: Decider[State, None] = Decider(
    service="counting",
    state_version=1,
    state_type=State,
    kinds=frozenset({"pod", "node"}),
    evolve=evolve,
    decide=decide,
    formerly=(PODS,),
)


def node(log: Log, name: str) -> Message:
    fact = NodeObserved(at=1.0, name=name)
    return Message(log.subjects.fact(ALL, "node", "", name), registry.encode(fact))


async def said(log: Log, first: int) -> None:
    """Three more pods for each namespace, which is worth a decision."""
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(first, first + 3)])


async def decided_by(decider: Decider[Any, Any], log: Log, count: int, **settings: int) -> None:
    """Have a decider run until there are so many holds in each namespace."""
    async with hosting(log, decider=decider, **settings) as host:  # type: ignore[arg-type]  # numbers all
        await until(
            lambda: (
                len(host.owned) == log.slots
                and sum(sum(o.fold.state.holds.values()) for o in host.owned.values())
                == count * len(NAMESPACES)
            )
        )


async def stored(log: Log) -> list[Record]:
    async with log.reader([log.subjects.everything]) as reader:
        return [record async for record in reader.until_current()]


def holds(records: Iterable[Record], namespace: str = "shop") -> list[str]:
    """The reasons of a namespace's holds."""
    events = [registry.read(r.body) for r in records if ".decision." in r.subject]
    return [e.reason for e in events if isinstance(e, HoldReplicas) and e.target.namespace == namespace]


def inputs_of(decider: Decider[Any, Any], log: Log) -> Inputs:
    return Inputs("counting", decider.kinds, log.subjects, log.slots, formerly=decider.formerly)


def verified(decider: Decider[Any, Any], log: Log, records: Iterable[Record]) -> Report:
    report = Report()
    verification = Verification([Verifier(decider, inputs_of(decider, log), report)])
    for record in records:
        verification.take(record)
    verification.finish()
    return report


def unnamed(record: Record) -> Record:
    """A checkpoint as it was before they named their inputs."""
    if ".checkpoint." not in record.subject:
        return record
    bare = msgspec.structs.replace(checkpoints.decode(record.body), inputs="", reads=None, state_version=0)
    return msgspec.structs.replace(record, body=checkpoints.encode(bare))


async def a_log_of_two_stretches(log: Log) -> list[Record]:
    """Two holds in each namespace by who counts pods, and two by who follows nodes as well."""
    await log.commit([node(log, "a"), node(log, "b"), node(log, "a")])
    await said(log, 0)
    await decided_by(COUNTING, log, 1, snapshot_distance=1)
    await log.commit([node(log, "c")])
    await said(log, 3)
    await decided_by(COUNTING, log, 2, snapshot_distance=10_000)
    await said(log, 6)
    await decided_by(WIDER, log, 3, snapshot_distance=10_000)
    await log.commit([node(log, "b")])
    await said(log, 9)
    with capture_logs() as lines:
        await decided_by(WIDER, log, 4)
    assert [line for line in lines if "another digest" in line["event"]] == []
    return await stored(log)


async def test_who_reads_more_begins_with_what_was_said_before_and_each_stretch_verifies_by_its_own_set(
    log: Log,
) -> None:
    records = await a_log_of_two_stretches(log)
    assert holds(records) == ["hold 1", "hold 2", "hold 3 beside b,a,c", "hold 4 beside b,a,c,b"]
    report = verified(WIDER, log, records)
    assert (report.differences, report.decisions) == ([], 2 * 4 * len(NAMESPACES))


@pytest.mark.parametrize("name_them", [True, False])
async def test_an_old_log_verifies_with_a_decider_that_has_learned_to_read_more(
    log: Log, name_them: bool
) -> None:
    await log.commit([node(log, "a")])
    await said(log, 0)
    await decided_by(COUNTING, log, 1)
    records = [record if name_them else unnamed(record) for record in await stored(log)]
    report = verified(WIDER, log, records)
    assert (report.differences, report.decisions) == ([], 2 * len(NAMESPACES))
    forgotten = verified(replace(WIDER, formerly=()), log, [unnamed(record) for record in records])
    # Whether decisions differ besides hangs on where the commits' ends fell.
    assert "altered or missing fact" in {d.cause for d in forgotten.differences}


async def test_an_altered_word_from_before_it_was_followed_is_found(log: Log) -> None:
    records = await a_log_of_two_stretches(log)
    place = next(i for i, r in enumerate(records) if r.subject.endswith(".c"))
    records[place] = msgspec.structs.replace(records[place], body=records[place].body.replace(b'"c"', b'"d"'))
    differences = verified(WIDER, log, records).differences
    assert differences[0].cause == "altered or missing fact"
    assert {d.slot for d in differences if d.cause == "altered or missing fact"} == set(
        inputs_of(WIDER, log).every
    )


async def test_who_reads_less_says_what_a_newer_software_read(log: Log) -> None:
    records = await a_log_of_two_stretches(log)
    differences = verified(COUNTING, log, records).differences
    of_inputs = [d for d in differences if "other inputs" in d.message]
    assert len(of_inputs) == log.slots
    assert {(d.cause, "(fact.node besides)" in d.message) for d in of_inputs} == {
        ("other software version", True)
    }
    assert "altered or missing fact" not in {d.cause for d in differences}


async def test_the_version_before_may_come_back_and_go_again(log: Log) -> None:
    await a_log_of_two_stretches(log)
    await said(log, 12)
    await decided_by(COUNTING, log, 5)
    await log.commit([node(log, "e")])
    await said(log, 15)
    await decided_by(WIDER, log, 6)
    records = await stored(log)
    assert holds(records)[4] == "hold 5"
    # What it decided meanwhile is decided otherwise by who knows the nodes; of facts none is missed.
    differences = verified(WIDER, log, records).differences
    assert [(d.cause, b'"hold 5"' in d.recorded) for d in differences] == [("different decision", True)] * 4


async def test_the_set_is_named_in_full_once_per_claim(log: Log) -> None:
    records = await a_log_of_two_stretches(log)
    found = [checkpoints.decode(r.body) for r in records if ".checkpoint." in r.subject]
    for checkpoint in found:
        assert checkpoint.inputs in (PODS.digest, PODS_AND_NODES.digest)
        assert checkpoint.state_version == 1
    in_full = [c for c in found if c.reads is not None]
    assert len({(c.incarnation, c.reads) for c in in_full}) == 4
    assert len(in_full) == 4 * log.slots
    assert all(c.reads is not None and c.reads.digest == c.inputs for c in in_full)


async def test_a_replay_folds_each_stretch_by_its_own_set(log: Log) -> None:
    records = await a_log_of_two_stretches(log)
    slot = log.slot_of("shop")
    restorer = SlotRestorer(inputs_of(WIDER, log), {slot: Fold(WIDER, slot)})
    for record in records:
        restorer.take(record)
    fold = restorer.folds[slot]
    assert fold.state.nodes == ["b", "a", "c", "b"]
    assert fold.reads == PODS_AND_NODES
