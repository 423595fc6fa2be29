"""What came of a decision to scale a workload of a kind that nobody built in, as a log tells it: also one of before it was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.host.test_host import hosting
from tests.unit.provisioning.test_custom_workloads import FLEET
from tests.waiting import until
from tidewright.actuator.allowed.table import ANY, GRANTS, WORKLOADS
from tidewright.asking.services import BY_NAME
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadObserved
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.verify import Report, Verification, Verifier
from tidewright.kube.customworkloads import BUILT_IN
from tidewright.kube.templates import Templates
from tidewright.log import checkpoint as checkpoints
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import (
    BEFORE_CUSTOM_SCALES,
    BEFORE_REMOVALS,
    BEFORE_TAINT_RULES,
    DECIDER,
    NO_WORKLOADS,
)
from tidewright.provisioning.state import State

SERVICE = BY_NAME["provisioning"]
ARENA = "Fleet/ns/arena"
DECISION = "autoscaler.3.7.0"
BEFORE: Decider[State, Any] = replace(
    DECIDER,
    outcomes=frozenset(BEFORE_CUSTOM_SCALES.outcomes or ()),
    outcomes_but=frozenset(),
    formerly=(BEFORE_TAINT_RULES, BEFORE_REMOVALS),
)
"""As it was before it read these."""


def inputs_of(decider: Decider[State, Any], log: Log) -> Inputs:
    return Inputs(
        decider.service, decider.kinds, log.subjects, log.slots, SERVICE.partition, SERVICE.follows,
        formerly=decider.formerly, outcomes=decider.outcomes, outcomes_but=decider.outcomes_but,
    )  # fmt: skip


def told(log: Log) -> list[Message]:
    """A Fleet without pods that is to have six, by a decision of which nothing has come yet."""
    slot, fact = log.slot_of("ns"), log.subjects.fact
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    template = Templates().of("ns", msgspec.json.encode(spec), b"null")
    allocatable = {"cpu": 4000, "memory": 16 * 2**30, "pods": 110}
    group = p.NodeGroupObserved(
        at=1.0, name="g", min_size=0, max_size=20, target_size=0, template=p.TemplateNode(labels={}, allocatable=allocatable)
    )  # fmt: skip
    fleet = WorkloadObserved(
        at=1.0, namespace="ns", name="arena", uid=FLEET.uid, api_version=FLEET.api_version, kind="Fleet",
        replicas=0, template=template.digest,
    )  # fmt: skip
    decision = ScaleWorkload(at=1.0, id=DECISION, target=FLEET, replicas=6, from_replicas=0, owner="w")
    events: list[tuple[str, Event]] = [
        (log.subjects.config("provisioning"), ConfigSet(at=1.0, name="provisioning", data={"foresight": "decisions"})),
        (fact(ALL, "nodegroup", "", "g"), group),
        (fact(slot, "template", "ns", template.digest), msgspec.structs.replace(template, at=1.0)),
        (fact(slot, "scaledworkload", "ns", "Fleet.games.example.com/arena"), fleet),
        (log.subjects.decision(slot, "autoscaler", "fleet", "ns", "arena"), decision),
    ]  # fmt: skip
    return [Message(subject, registry.encode(event)) for subject, event in events]


def rejected(log: Log, kind: str = "fleet", decision: str = DECISION) -> Message:
    event = o.Rejected(at=2.0, decision=decision, reason="Conflict", message="it shows 7")
    return Message(log.subjects.outcome(log.slot_of("ns"), kind, "ns", "arena"), registry.encode(event))


async def stored(log: Log) -> list[Record]:
    async with log.reader([log.subjects.everything]) as reader:
        return [record async for record in reader.until_current()]


async def verified(log: Log) -> Report:
    report = Report()
    verification = Verification([Verifier(DECIDER, inputs_of(DECIDER, log), report)])
    for record in await stored(log):
        verification.take(record)
    verification.finish()
    return report


async def test_a_decision_that_was_rejected_ends_the_expected_pods_at_once(log: Log) -> None:
    await log.commit(told(log))
    async with hosting(log, decider=DECIDER, partition="cluster", follows=SERVICE.follows) as host:
        await until(lambda: ALL in host.owned and bool(host.owned[ALL].fold.state.foreseen))
        state: State = host.owned[ALL].fold.state
        assert state.scalings[ARENA].decision == DECISION
        assert state.foreseen[ARENA].pods == 6
        await log.commit([rejected(log)])
        await until(lambda: not state.scalings)
        assert state.foreseen[ARENA].undone == "Rejected: it shows 7"
    report = await verified(log)
    assert report.differences == []
    assert report.decisions > 0


@pytest.mark.parametrize("snapshot_distance", [1, 10_000])
async def test_a_log_of_before_verifies_and_who_takes_over_begins_with_the_last_outcomes(
    log: Log, snapshot_distance: int
) -> None:
    await log.commit(told(log))
    how: dict[str, Any] = {
        "partition": "cluster", "follows": SERVICE.follows, "snapshot_distance": snapshot_distance,
    }  # fmt: skip
    async with hosting(log, decider=BEFORE, **how) as host:
        await until(lambda: ALL in host.owned and bool(host.owned[ALL].fold.state.foreseen))
        await log.commit([rejected(log), rejected(log, "watermarkpodautoscaler", "autoscaler.3.8.0")])
        config = ConfigSet(
            at=3.0, name="provisioning", data={"foresight": "decisions", "scan-interval": "11s"}
        )
        await log.commit([Message(log.subjects.config("provisioning"), registry.encode(config))])
        await until(lambda: host.owned[ALL].fold.at >= 3.0)
        assert host.owned[ALL].fold.state.scalings[ARENA].decision == DECISION
    named = {checkpoints.decode(r.body).inputs for r in await stored(log) if ".checkpoint." in r.subject}
    assert named == {BEFORE_CUSTOM_SCALES.digest}
    assert (await verified(log)).differences == []
    async with hosting(log, decider=DECIDER, **how) as host:
        await until(lambda: ALL in host.owned and not host.owned[ALL].fold.state.scalings)
    assert (await verified(log)).differences == []


def test_of_what_is_no_workload_no_outcome_is_read() -> None:
    """Statuses, leases, pods: nothing of these is ever scaled, and there are many of them."""
    there = {
        kind.lower()
        for grant in GRANTS
        for group, kind in grant.kinds
        if grant.slot != "all" and (group, kind) not in (ANY, *WORKLOADS)
    }
    assert there <= NO_WORKLOADS
    assert not {kind.kind.lower() for kind in BUILT_IN} & NO_WORKLOADS


class SetOfBefore(msgspec.Struct):
    """A set of inputs as software of before reads it."""

    kinds: tuple[str, ...]
    follows: tuple[str, ...]
    outcomes: tuple[str, ...] = ()


def test_software_of_before_takes_what_is_read_for_what_it_reads_itself(log: Log) -> None:
    """Else it has the last answers of all workloads once more when an update is taken back, which `verify` takes for altered facts."""
    today = inputs_of(DECIDER, log).today
    seen = msgspec.json.decode(msgspec.json.encode(today), type=SetOfBefore)
    assert seen.outcomes == BEFORE_CUSTOM_SCALES.outcomes
    named = msgspec.structs.replace(today, outcomes=msgspec.UNSET)
    assert today.tokens == named.tokens
