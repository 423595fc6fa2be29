"""What would be done about a request, without doing it: the decider's own evaluation on a state of one's own. Pure.

The request and its templates are folded as facts, then one evaluation runs. What it decides about the
request is the answer; requests that wait before it are decided before it, as they would be.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.decisions import RecordObjectEvent, SetStatus
from tidewright.events.provisioning import (
    AttemptRequest,
    GroupVerdict,
    Increase,
    PlanScaleUp,
    PodTemplateObserved,
    ProvisioningRequestObserved,
)
from tidewright.kube.keys import request_key
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.fold import evolve
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import room
from tidewright.provisioning.tell.clouds import all_clouds
from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.sentences import sentence

NOT_OURS = "NotOurs"
"""Result for a request whose class nobody here decides."""


class Answer(msgspec.Struct, kw_only=True):
    """What would be done.

    Attributes:
        result: of the attempt (`Successful`, `NotNeeded`, `NoOptionsAvailable`, `Error`), `Failed` when
            there would be none, or `NotOurs`.
        increases: orders, in their order.
        verdicts: one per group, by id.
        sentences: why, in words.
        conditions: as the status would say them next.
        messages: further messages for the user (object events).
        cost_micro: price of the ordered nodes for one hour; None when a price is not known.
        ready_in_s: when nodes of these groups were there last time; None when that is not known.
        clouds: what each cloud last said, in words.
        chunks: of a buffer, how many are wanted, ready, upcoming and missing.
    """

    result: str
    increases: tuple[Increase, ...] = ()
    verdicts: tuple[GroupVerdict, ...] = ()
    sentences: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    messages: tuple[str, ...] = ()
    cost_micro: int | None = None
    ready_in_s: float | None = None
    clouds: tuple[str, ...] = ()
    chunks: dict[str, int] = {}


def preview(
    state: State,
    namespace: str,
    name: str,
    spec: JsonObject,
    *,
    templates: Mapping[str, JsonObject],
    now: float,
) -> Answer:
    """Try a request on a state, which is changed and not to be used afterwards.

    Args:
        state: the decider's.
        namespace: of the request.
        name: of the request; one that exists is tried as if it were new.
        spec: of the request, as in its manifest.
        templates: PodTemplates beside those that the state knows, by name.
        now: log time, seconds.
    """
    now = max(now, state.now)
    key = request_key(namespace, name)
    state.requests.pop(key, None)
    for template, content in sorted(templates.items()):
        fact = PodTemplateObserved(at=now, namespace=namespace, name=template, template=content)
        evolve.evolve(state, fact)
    uid = f"preview/{namespace}/{name}"
    # Templates that are not there yet are not waited for: they fail at once.
    seen_at = now - 3600.0
    evolve.evolve(
        state,
        ProvisioningRequestObserved(
            at=now, namespace=namespace, name=name, uid=uid, generation=1, created_at=now, spec=spec
        ),
    )
    state.requests[key].seen_at = seen_at
    decisions = Evaluation(state, seed=f"{now:.6f}", binding=False).run()
    attempt = next((d for d in decisions if isinstance(d, AttemptRequest) and d.uid == uid), None)
    plan = next((d for d in decisions if isinstance(d, PlanScaleUp) and d.request_uid == uid), None)
    status = next((d for d in decisions if isinstance(d, SetStatus) and d.target.uid == uid), None)
    messages = tuple(d.message for d in decisions if isinstance(d, RecordObjectEvent) and d.target.uid == uid)
    conditions = cond.parse(status.status.get("conditions")) if status is not None else ()
    if attempt is None:
        failed = cond.is_true(conditions, cond.FAILED)
        why = tuple(in_number(sentence(b)) for b in status.because) if status is not None else ()
        return Answer(
            result="Failed" if failed else NOT_OURS,
            conditions=conditions,
            sentences=why,
            messages=messages,
            clouds=all_clouds(state),
        )
    why_all = (
        *attempt.because,
        *(b for b in (plan.because if plan is not None else ()) if b not in attempt.because),
    )
    increases = plan.increases if plan is not None else ()
    lacks: list[str] = []
    if attempt.result not in (SUCCESSFUL, NOT_NEEDED):
        short = room.lack(state, room.sets_of(state, key), key)
        told = (*short.sentences, *room.more_nodes(state, short, would="all would fit"))
        lacks = [text.removesuffix(".") for text in told]
    return Answer(
        result=attempt.result,
        increases=increases,
        verdicts=plan.verdicts if plan is not None else attempt.verdicts,
        sentences=(*(in_number(sentence(b)) for b in why_all), *lacks),
        conditions=conditions,
        messages=messages,
        cost_micro=cost_of(state, increases),
        ready_in_s=ready_in_s(state, [NodeGroupId(i.group) for i in increases]),
        clouds=all_clouds(state),
    )


def cost_of(state: State, increases: tuple[Increase, ...]) -> int | None:
    """The price of these nodes for one hour; None when one is not known."""
    total = 0
    for increase in increases:
        group = state.groups.get(NodeGroupId(increase.group))
        if group is None or group.price_micro is None:
            return None
        total += group.price_micro * (increase.size - increase.from_size)
    return total


def ready_in_s(state: State, groups: list[NodeGroupId]) -> float | None:
    """How long nodes of these groups took last time, the slowest; None when one is not known."""
    times_s = [state.groups[g].boot_s if g in state.groups else 0.0 for g in groups]
    return max(times_s) if times_s and all(times_s) else None
