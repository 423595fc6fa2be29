"""What would be decided, on a state as of a moment, without deciding it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidewright.asking.answers.form import stamp
from tidewright.asking.answers.planning import (
    JudgedGroup,
    LeavingNode,
    PlannedIncrease,
    PlannedRequest,
    PlannedSubset,
    ProvisioningPlan,
    ReplacedNodes,
    ScaleDownPlan,
    SpreadPlan,
    StatedCondition,
)
from tidewright.asking.point_in_time import Moment
from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME
from tidewright.asking.source import Source
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import what_if_scaledown
from tidewright.provisioning.tell.what_if import Answer, preview
from tidewright.provisioning.tell.what_if_buffers import preview as preview_of_buffer
from tidewright.spread.tell import planning
from tidewright.spread.tell.planning import Plan

REQUEST, BUFFER = "ProvisioningRequest", "CapacityBuffer"


@dataclass
class Draft:
    """A request or buffer that is tried, and the pod templates that come with it, by name."""

    namespace: str
    name: str
    spec: dict[str, Any]
    kind: str = REQUEST
    annotations: dict[str, str] = field(default_factory=dict)
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)


async def provisioning(source: Source, wanted: Sequence[Draft], moment: Moment) -> list[Answer]:
    """What would be done about each, alone, on the same state.

    Raises:
        BadInput: the state cannot be had.
    """
    fold = await restored(source, Asked.about(source, BY_NAME["provisioning"], ""), moment.seq)
    body = msgspec.json.encode(fold.state)
    now = max(fold.at, moment.at)
    return [_previewed(one, msgspec.json.decode(body, type=State), now) for one in wanted]


def _previewed(one: Draft, state: State, now: float) -> Answer:
    where = state, one.namespace, one.name, one.spec
    if one.kind == BUFFER:
        return preview_of_buffer(*where, annotations=one.annotations, templates=one.templates, now=now)
    return preview(*where, templates=one.templates, now=now)


async def scale_down(source: Source, moment: Moment) -> what_if_scaledown.ScaleDownAnswer:
    """Which nodes would go, in which order, and what keeps the others."""
    fold = await restored(source, Asked.about(source, BY_NAME["provisioning"], ""), moment.seq)
    copied = msgspec.json.decode(msgspec.json.encode(fold.state), type=State)
    return what_if_scaledown.preview(copied, max(fold.at, moment.at))


async def spread_on(
    source: Source, spread: Spread, spec: Mapping[str, Any], replicas: int, moment: Moment
) -> Plan:
    """What a changed WorkloadSpread would do to the pods that are there."""
    fold = await restored(source, Asked.about(source, BY_NAME["spread"], spread.namespace), moment.seq)
    return planning.change(fold.state, spread, dict(spec), replicas)


def answer(
    source: Source, moment: Moment, wanted: Sequence[Draft], answers: Sequence[Answer]
) -> ProvisioningPlan:
    """For programs."""
    return ProvisioningPlan(
        log=source.name,
        sequence=moment.seq,
        at=stamp(moment.at),
        items=tuple(_request(one, found) for one, found in zip(wanted, answers, strict=True)),
    )


def _request(wanted: Draft, found: Answer) -> PlannedRequest:
    return PlannedRequest(
        kind=wanted.kind, namespace=wanted.namespace, name=wanted.name, result=found.result,
        increases=tuple(
            PlannedIncrease(group=i.group, from_nodes=i.from_size, to_nodes=i.size, max_nodes=i.max_size)
            for i in found.increases
        ),
        groups=tuple(
            JudgedGroup(
                group=v.group, reason=v.reason, chosen=v.chosen, nodes=v.nodes, pods=v.pods,
                waste_permille=v.waste_permille, cost_per_hour_micro=v.cost_micro,
            )
            for v in found.verdicts
        ),
        sentences=tuple(found.sentences),
        conditions=tuple(
            StatedCondition(type=c.type, status=c.status, reason=c.reason, message=c.message)
            for c in found.conditions
        ),
        messages=tuple(found.messages), cost_per_hour_micro=found.cost_micro, ready_in_seconds=found.ready_in_s,
        clouds=tuple(found.clouds), chunks=dict(found.chunks),
    )  # fmt: skip


def answer_of_scale_down(
    source: Source, moment: Moment, found: what_if_scaledown.ScaleDownAnswer
) -> ScaleDownPlan:
    """For programs."""
    return ScaleDownPlan(
        log=source.name, sequence=moment.seq, at=stamp(moment.at),
        going=tuple(
            LeavingNode(
                node=one.node, group=one.group, way=one.kind, pods=one.pods, places=dict(one.places),
                saves_per_hour_micro=one.saves_micro,
                rule=one.rule,
            )
            for one in found.going
        ),
        replacing=tuple(
            ReplacedNodes(
                nodes=one.nodes, groups=dict(one.groups), pods=one.pods,
                before_per_hour_micro=one.before_micro, after_per_hour_micro=one.after_micro,
                saves_per_hour_micro=one.saves_micro, overlap_micro=one.overlap_micro,
                under_way=one.under_way, rule=one.rule,
            )
            for one in found.replacing
        ),
        later=dict(found.later), staying=dict(found.staying), saves_per_hour_micro=found.saves_micro,
        cooling=found.cooling, healthy=found.healthy,
    )  # fmt: skip


def answer_of_spread(source: Source | None, moment: Moment | None, spread: Spread, plan: Plan) -> SpreadPlan:
    """For programs; without a log where none was asked."""
    return SpreadPlan(
        log="" if source is None else source.name, sequence=0 if moment is None else moment.seq,
        at="" if moment is None else stamp(moment.at),
        namespace=spread.namespace, name=spread.name, replicas=plan.replicas,
        subsets=tuple(
            PlannedSubset(subset=row.subset, limit_pods=row.limit, now_pods=row.now, then_pods=row.then)
            for row in plan.rows
        ),
        leaving=tuple(plan.leaving), changed_costs=plan.costs, surplus_pods=dict(plan.surplus),
    )  # fmt: skip
