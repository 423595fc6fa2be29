"""What would be done about a CapacityBuffer, without doing it: the decider's own evaluation on a state of one's own. Pure.

Admission cannot be asked here. Of a PodTemplate it is taken what it says itself; of a workload what was answered for the
buffer of this name before, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject, PatchObject, RecordObjectEvent, SetStatus
from tidewright.events.facts import Owner
from tidewright.events.provisioning import (
    CapacityBufferObserved,
    FillBuffer,
    PlanScaleUp,
    PodTemplateObserved,
)
from tidewright.kube.conditions import parse
from tidewright.kube.keys import buffer_key
from tidewright.kube.mergepatch import merged
from tidewright.provisioning.buffers.kept import Resolution
from tidewright.provisioning.buffers.managed import wanted_by
from tidewright.provisioning.buffers.naming import template_name
from tidewright.provisioning.buffers.spec import ACTIVE
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.fold import evolve
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.buffers import missing
from tidewright.provisioning.tell.clouds import all_clouds
from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.sentences import sentence
from tidewright.provisioning.tell.what_if import NOT_OURS, Answer, cost_of, ready_in_s

NOT_READY = "NotReady"
"""Result for a buffer that would keep no room."""
ROUNDS = 3
"""Looks at most: what the actuator would make of the first one's decisions is there for the next."""


def preview(
    state: State,
    namespace: str,
    name: str,
    spec: JsonObject,
    *,
    templates: Mapping[str, JsonObject],
    now: float,
    annotations: Mapping[str, str] | None = None,
) -> Answer:
    """Try a buffer on a state, which is changed and not to be used afterwards; arguments as of a request's preview.

    `annotations`: of its manifest.
    """
    now = max(now, state.now)
    key = buffer_key(namespace, name)
    before = state.buffers.pop(key, None)
    for template, content in sorted(templates.items()):
        fact = PodTemplateObserved(at=now, namespace=namespace, name=template, template=content, generation=1)
        evolve.evolve(state, fact)
    uid = f"preview/{namespace}/{name}"
    stored = {"provisioningStrategy": ACTIVE, **spec}
    evolve.evolve(
        state,
        CapacityBufferObserved(
            at=now,
            namespace=namespace,
            name=name,
            uid=uid,
            generation=1,
            created_at=now,
            spec=stored,
            annotations=dict(annotations or {}),
        ),
    )
    buffer = state.buffers[key]
    if before is not None and before.resolution is not None and before.spec.get("scalableRef"):
        buffer.resolution, buffer.base = before.resolution, before.base
    elif spec.get("scalableRef"):
        buffer.resolution = Resolution(key="", unasked=True, at=now)
    decisions = Evaluation(state, seed=f"{now:.6f}", binding=False).run()
    for _ in range(ROUNDS):
        made = next(
            (d for d in decisions if isinstance(d, CreateObject | PatchObject) and _is_of(state, d, uid)),
            None,
        )
        if made is None:
            break
        whole = made.manifest if isinstance(made, CreateObject) else merged({}, made.patch)
        owner = Owner(kind="CapacityBuffer", name=name, uid=uid, controller=True)
        evolve.evolve(
            state,
            PodTemplateObserved(
                at=now, namespace=namespace, name=template_name(name), template=whole["template"], generation=1,
                owners=(owner,),
            ),
        )  # fmt: skip
        decisions = Evaluation(state, seed=f"{now:.6f}", binding=False).run()
    filled = next((d for d in decisions if isinstance(d, FillBuffer) and d.uid == uid), None)
    plan = next((d for d in decisions if isinstance(d, PlanScaleUp) and key in dict(d.buffers)), None)
    status = next((d for d in decisions if isinstance(d, SetStatus) and d.target.uid == uid), None)
    conditions = parse(status.status.get("conditions")) if status is not None else ()
    why = [*(status.because if status is not None else ()), *(filled.because if filled is not None else ())]
    why += [b for b in (plan.because if plan is not None else ()) if b not in why]
    told = [in_number(sentence(b)) for b in why]
    if filled is not None and filled.missing:
        evolve.evolve(state, filled)
        told += [text.removesuffix(".") for text in missing(state, key, state.buffers[key])]
    increases = plan.increases if plan is not None else ()
    result = NOT_OURS if status is None else NOT_READY if filled is None else "Successful"
    return Answer(
        result=result,
        increases=increases,
        verdicts=plan.verdicts if plan is not None else filled.verdicts if filled is not None else (),
        sentences=tuple(told),
        conditions=conditions,
        messages=tuple(
            d.message for d in decisions if isinstance(d, RecordObjectEvent) and d.target.uid == uid
        ),
        cost_micro=cost_of(state, increases),
        ready_in_s=ready_in_s(state, [NodeGroupId(i.group) for i in increases]),
        clouds=all_clouds(state),
        chunks={
            "wanted": filled.replicas,
            "ready": filled.ready,
            "upcoming": filled.upcoming,
            "missing": filled.missing,
        }
        if filled is not None
        else {},
    )


def _is_of(state: State, decision: CreateObject | PatchObject, uid: str) -> bool:
    """Whether a decision makes or changes the template that is kept for the buffer."""
    found = wanted_by(state, decision) if decision.target.kind == "PodTemplate" else None
    return found is not None and state.buffers[found[0]].uid == uid
