"""Provisioning while the modes in force, or an incumbent, hold it back: what is recorded, and what is dropped when it may act.

Nothing that it would do is folded, so that there are no nodes on their way, no bookings and no steps of a
plan that nobody carries out: every evaluation starts from what is so. What would be done is recorded
when it changes. Only what concerns its own view of the facts goes on as ever: requests taken up, shapes
declined, nodes idle since, and what came of orders of before.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events import acting
from tidewright.events.acting import Held
from tidewright.events.base import Decision, target_of
from tidewright.events.decisions import RecordObjectEvent, SetTimer
from tidewright.events.provisioning import (
    AcceptRequest,
    AttemptRequest,
    BackOffGroup,
    BookCapacity,
    CloseScaleUp,
    CreateNodeGroup,
    DeclineScaleUp,
    DeleteInstances,
    FillBuffer,
    IncreaseNodeGroup,
    MarkNode,
    PlanScaleUp,
    ProposeReplacement,
    ReleaseCapacity,
    RemoveNode,
    ReplaceNodes,
    TrackIdleNodes,
    TrackUnneededNodes,
)
from tidewright.kube.keys import BufferKey, RequestKey, buffer_key, namespace_of, request_key
from tidewright.provisioning.fold.common import BUFFER_KIND, EVALUATE, REQUEST_KIND
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import State

SERVICE = "provisioning"
LOOK_AGAIN_S = 60.0
"""While it is held back, time alone has it look again no sooner: what waits goes on waiting."""
ALWAYS = (
    AcceptRequest,
    BackOffGroup,
    CloseScaleUp,
    DeclineScaleUp,
    FillBuffer,
    ProposeReplacement,
    TrackIdleNodes,
    TrackUnneededNodes,
)
"""Records of its own view of the facts: kept and folded whatever holds it back. Any other is recorded as one that would be."""
_ORDERS = (PlanScaleUp, IncreaseNodeGroup, CreateNodeGroup, RemoveNode, DeleteInstances, ReplaceNodes)
_OF_ORDERS = frozenset({"ScaledUpGroup", "TriggeredScaleUp", "ScaleUpRequested"})
"""Reasons of object events that tell of orders."""
_NOT_ORDERED = Held("dry-run", "its configuration says dry-run", reports=False)
_OF_A_REQUEST = (AttemptRequest, BookCapacity, ReleaseCapacity)


def of_service(state: State) -> Held:
    """What holds for nodes and groups, and for everything when it does not let the service act."""
    return state.acting.of_service(SERVICE)


def marks(state: State) -> bool:
    """Whether nodes are marked."""
    return of_service(state).acts and not index_of(state).settings.dry_run


def of_request(state: State, key: RequestKey) -> Held:
    """What holds for a request."""
    request = state.requests.get(key)
    annotations = request.annotations if request is not None else None
    held = state.acting.held(SERVICE, namespace_of(key), annotations)
    return acting.careful(of_service(state), held)


def of_buffer(state: State, key: BufferKey) -> Held:
    """What holds for a buffer."""
    buffer = state.buffers.get(key)
    annotations = buffer.annotations if buffer is not None else None
    held = state.acting.held(SERVICE, namespace_of(key), annotations)
    return acting.careful(of_service(state), held)


def recorded(state: State, decisions: Iterable[Decision], *, evaluated: bool = False) -> list[Decision]:
    """Decisions as they are recorded; `evaluated`: they are those of an evaluation, with its next one."""
    service = of_service(state)
    kept: list[Decision] = []
    for decision in decisions:
        if isinstance(decision, SetTimer) and evaluated and not service.acts and decision.key == EVALUATE:
            kept.append(msgspec.structs.replace(decision, due=max(decision.due, state.now + LOOK_AGAIN_S)))
        elif decision.shadow or (isinstance(decision, ReleaseCapacity) and decision.reason == "Deleted"):
            kept.append(decision)
        elif (as_recorded := acting.recorded(decision, _held(state, service, decision), ALWAYS)) is not None:
            kept.append(as_recorded)
    return kept


def _held(state: State, service: Held, decision: Decision) -> Held:
    if not service.acts:
        return service
    tells_of_orders = isinstance(decision, RecordObjectEvent) and decision.reason in _OF_ORDERS
    marks = isinstance(decision, MarkNode) and decision.present
    if index_of(state).settings.dry_run and (tells_of_orders or marks or isinstance(decision, _ORDERS)):
        return _NOT_ORDERED
    if isinstance(decision, _OF_A_REQUEST):
        return of_request(state, request_key(decision.namespace, decision.name))
    target = target_of(decision)
    if target is None or not target.namespace:
        return service
    if target.kind == REQUEST_KIND:
        return of_request(state, request_key(target.namespace, target.name))
    if target.kind == BUFFER_KIND:
        return of_buffer(state, buffer_key(target.namespace, target.name))
    return state.acting.held(SERVICE, target.namespace)
