"""A ProvisioningRequest as it is: what became of it, and what holds it back. Pure."""

from __future__ import annotations

from tidewright.kube.keys import RequestKey
from tidewright.kube.times import readable, seconds_or_none
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.templates import fits_reason
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.lifecycle import tried_at
from tidewright.provisioning.requests.spec import Mode, mode_of
from tidewright.provisioning.requests.work import parameters_in_force
from tidewright.provisioning.state import Request, State
from tidewright.provisioning.tell import folding, room
from tidewright.provisioning.tell.capitals import full
from tidewright.provisioning.tell.groups import growing
from tidewright.provisioning.tell.labels import named_label


def standing(state: State, key: RequestKey, request: Request) -> list[str]:
    """What became of it so far, what comes next, and why no group helps."""
    now = state.now
    if request.deleting:
        return ["It is being deleted: nothing is decided for it any more."]
    if cond.is_true(request.conditions, cond.FAILED):
        failed = cond.find(request.conditions, cond.FAILED)
        return [f"It has failed for good: {failed.message if failed is not None else ''}."]
    sentences: list[str] = []
    execution = state.executions.get(request.plan)
    if execution is not None:
        for step in execution.steps:
            sentences += _step(
                state, step.group, step.status, size=step.size, from_size=step.from_size, error=step.error
            )
    if cond.is_true(request.conditions, cond.BOOKING_EXPIRED):
        return [*sentences, "It was provisioned, and room is no longer kept for it."]
    if cond.is_true(request.conditions, cond.PROVISIONED):
        pods = sum(count for _, count in request.sets)
        placed = len(index_of(state).consumers.get(key, {}))
        sentences.append(f"It is provisioned; {placed} of its {pods} pods have a node.")
        ready = cond.find(request.conditions, cond.CAPACITY_READY)
        if ready is not None:
            sentences.append(f"{ready.message}.")
        elif request.awaits:
            sentences += [_awaited(state, name) for name in request.awaits]
        if "reservation" in request.details:
            until = seconds_or_none(request.details["reservation"])
            told = request.details["reservation"] if until is None else f"{readable(until)} UTC"
            sentences.append(f"Room is kept for it until {told}.")
        return sentences
    if not request.accepted:
        return [*sentences, _not_taken_up(state, request)]
    ordered = request.ordered and index_of(state).settings.hold
    if ordered or request.awaits or (execution is not None and not execution.over):
        return sentences + [_awaited(state, name) for name in request.awaits]
    if request.last_try is not None:
        wait_s = index_of(state).settings.initial_backoff_s if request.wait_s is None else request.wait_s
        sentences.append(
            f"Attempt {request.attempts} of {readable(request.last_try)} UTC came to nothing;"
            f" the next one is at {readable(max((tried_at(request) or 0.0) + wait_s, now))} UTC."
        )
    if request.told:
        sentences.append(full(request.told))
    lacking = room.lack(state, room.sets_of(state, key), key)
    sentences += [*lacking.sentences, *room.more_nodes(state, lacking, would="all would fit")]
    if (
        mode_of(request.class_name, request.parameters, index_of(state).settings.processor_instance)
        is Mode.CHECK
    ):
        return [*sentences, *_lacking(state, request), "Its class only checks: no nodes are ordered for it."]
    return sentences + (_lacking(state, request) or growing(state, _of_use(state, key)))


def _step(
    state: State, group: NodeGroupId, status: str, *, size: int, from_size: int, error: str
) -> list[str]:
    if error:
        return [f"The order for group {group} failed: {error}."]
    opened, known = state.open.get(group), state.groups.get(group)
    if opened is None or known is None:
        return []
    there = sum(node.group == group and node.ready for node in state.nodes.values())
    text = f"Group {group} was ordered from {from_size} to {size} ({status}); {there} nodes are ready"
    if not known.boot_s:
        return [f"{text}."]
    eta = opened.requested_at + known.boot_s
    return [
        f"{text}; the last ones are expected at {readable(eta)} UTC ({known.boot_s:.0f} s after the order)."
    ]


def _awaited(state: State, group: NodeGroupId) -> str:
    """Nodes that others ordered, and on which a request found room."""
    opened, known = state.open.get(group), state.groups.get(group)
    text = f"It found room on nodes of group {group} that are on their way"
    if opened is None or known is None or not known.boot_s:
        return f"{text}."
    return f"{text}, expected at {readable(opened.requested_at + known.boot_s)} UTC."


def _of_use(state: State, key: RequestKey) -> list[NodeGroupId]:
    """Groups whose nodes hold a pod of some pod set; all where none is known to."""
    view = look(state, index_of(state), state.now)
    shapes = [item.shape for item in room.sets_of(state, key)]
    able = [
        name
        for name, group in sorted(view.groups.items())
        if group.group.template is not None
        and not all(fits_reason(shape, group.group.template) for shape in shapes)
    ]
    return able or sorted(view.groups)


def _lacking(state: State, request: Request) -> list[str]:
    """Why no group ever holds one pod of some pod set; empty when some group holds each."""
    index = index_of(state)
    view = look(state, index, state.now)
    sentences: list[str] = []
    for number, (digest, _) in enumerate(request.sets):
        shape = shape_of(state, index, digest)
        reasons: dict[str, str] = {
            name: named_label(fits_reason(shape, template), shape, template.view)
            for name, group in sorted(view.groups.items())
            if (template := group.group.template) is not None
        }
        if reasons and all(reasons.values()):
            sentences += [
                f"No node of {folding.named(names)} holds a pod of pod set {number}: {reason}."
                for names, reason in folding.by_reason(reasons)
            ]
    return sentences


def _not_taken_up(state: State, request: Request) -> str:
    settings = index_of(state).settings
    allowed = settings.allowed_classes
    if not settings.enabled:
        return "Requests are not decided here: enable-provisioning-requests is false."
    if allowed and request.class_name not in allowed:
        return (
            f"Its class {request.class_name} is not decided here: allowed-classes are {', '.join(allowed)}."
        )
    parameters = parameters_in_force(state, request)
    if mode_of(request.class_name, parameters, settings.processor_instance) is None:
        instance = parameters.get("processorInstance", "")
        meant = f" for processorInstance {instance}" if instance else ""
        return f"Its class {request.class_name}{meant} is not decided here."
    return "It has not been taken up yet."
