"""What provisioning tells about requests, pods, nodes and node groups (`tidewright.host.fold.explainer`). Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from tidewright.events.acting import Held
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import DeleteObject, Effect
from tidewright.events.provisioning import (
    AcceptRequest,
    AttemptRequest,
    BackOffGroup,
    BookCapacity,
    CloseScaleUp,
    DeclineScaleUp,
    DeleteInstances,
    EndReplacement,
    FillBuffer,
    PlanScaleUp,
    ProposeReplacement,
    ReleaseCapacity,
    RemoveNode,
    ReplaceNodes,
    ResolvePod,
    UndoRemoval,
)
from tidewright.host.fold.explainer import Explainer, Reference, Told
from tidewright.kube.keys import (
    NO_REQUEST,
    BufferKey,
    ObjectKey,
    PodKey,
    RequestKey,
    buffer_key,
    key_of,
    parts,
    pod_key,
    request_key,
)
from tidewright.kube.times import readable
from tidewright.provisioning import holding
from tidewright.provisioning.foresight.counting import Counting
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup.orders import GROUP_KIND
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import awaiting, buffers, folding, groups, leaving, pods, requests
from tidewright.provisioning.tell.capitals import full
from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.opposites import attempted, beforehand, smaller_pods, turned_by
from tidewright.provisioning.tell.sentences import sentence

REQUEST, POD, NODE, GROUP, BUFFER = "provisioningrequest", "pod", "node", "nodegroup", "capacitybuffer"
RECORDS = Reference("none", "", "")
"""Where decisions lie that name no target: plans, attempts, bookings."""
WORKLOADS = frozenset(awaiting.KINDS)
"""Kinds that make pods: nodes are ordered for those before they are there."""
ABOUT_REQUEST = (AcceptRequest, AttemptRequest, BookCapacity, ReleaseCapacity)


class ProvisioningExplainer:
    """Sentences about what asks for capacity, and about what gives it."""

    kinds = frozenset((REQUEST, POD, NODE, GROUP, BUFFER)) | WORKLOADS

    def told(self, state: State, asked: Reference) -> Told:
        """Plans and attempts name no target; orders are on the groups."""
        if asked.kind == NODE:
            node = state.nodes.get(asked.name)
            group = (Reference(GROUP, "", node.group),) if node is not None and node.group else ()
            return Told((*group, RECORDS))
        if asked.kind == POD:
            return _told_of_pod(state, pod_key(asked.namespace, asked.name))
        if makes_pods(asked.kind) and not awaiting.is_looked_at(state):
            return Told()
        return Told((RECORDS,))

    def concerns(self, event: Event, asked: Reference) -> bool:
        """Plans, orders, attempts and bookings; statuses and object events say the same once more.

        Whatever has a `group`, or a node group as its target, is about that group.
        """
        name = key_of(asked.namespace, asked.name)
        match event:
            case PlanScaleUp():
                if asked.kind == REQUEST:
                    return event.request == name
                if asked.kind == POD:
                    return name in event.pods
                if asked.kind == BUFFER:
                    return any(buffer == name for buffer, _ in event.buffers)
                if asked.kind == NODE:
                    return asked.name in event.replaces
                if makes_pods(asked.kind):
                    return any(workload_of(share.workload) == asked for share in event.expected)
                return asked.kind == GROUP and any(i.group == asked.name for i in event.increases)
            case DeleteInstances() if asked.kind == NODE:
                return asked.name in event.nodes
            case RemoveNode() | UndoRemoval() if asked.kind == NODE:
                return event.node == asked.name
            case ProposeReplacement() | ReplaceNodes() | EndReplacement():
                nodes = event.nodes
                if isinstance(event, ProposeReplacement):
                    nodes += event.instead or ()
                return (asked.kind == NODE and asked.name in nodes) or (
                    asked.kind == GROUP and asked.name in event.groups
                )
            case FillBuffer():
                return asked.kind == BUFFER and key_of(event.namespace, event.name) == name
            case ResolvePod():
                return asked.kind == BUFFER and key_of(event.target.namespace, event.target.name) == name
            case DeleteObject():
                return asked.kind == REQUEST and event.target.name == asked.name
        if isinstance(event, ABOUT_REQUEST):
            return asked.kind == REQUEST and key_of(event.namespace, event.name) == name
        return isinstance(event, Decision) and asked.kind == GROUP and _group_of(event) == asked.name

    def sentences(self, event: Event) -> Sequence[str]:
        """The rules, then what became of each group."""
        if not isinstance(event, Decision):
            return ()
        lines = [full(in_number(sentence(reason))) for reason in event.because if reason.rule != "GroupOut"]
        match event:
            case (
                PlanScaleUp(verdicts=verdicts)
                | AttemptRequest(verdicts=verdicts)
                | DeclineScaleUp(verdicts=verdicts)
                | FillBuffer(verdicts=verdicts)
            ):
                lines += folding.verdicts(verdicts)
            case AcceptRequest():
                pods = sum(count for _, count in event.sets)
                lines.append(f"The request for {pods} pods is accepted as its templates are now.")
            case BookCapacity():
                lines.append(f"Room for {event.pods} pods is kept until {readable(event.until)} UTC.")
            case ReleaseCapacity():
                lines.append(f"Room is no longer kept for the request ({event.reason}).")
            case BackOffGroup():
                lines.append(f"The group is left alone until {readable(event.until)} UTC.")
            case RemoveNode(pods=pods) if pods:
                named = ", ".join(f"{pod.namespace}/{pod.name}" for pod in pods[: leaving.MOST])
                more = f" and {len(pods) - leaving.MOST} more" if len(pods) > leaving.MOST else ""
                lines.append(f"{named}{more} {'leave' if len(pods) > 1 else 'leaves'} it first.")
            case CloseScaleUp(result=result, boot_s=boot_s):
                took = f" after {boot_s:.0f} s" if boot_s else ""
                lines.append(f"The increase of group {event.group} is over: {result}{took}.")
        return folding.once(lines)

    def part(self, state: State, event: Event, asked: Reference) -> Event:
        """Of a plan for many: the groups that were chosen for the pod or buffer, or the group itself."""
        if not isinstance(event, PlanScaleUp) or event.request:
            return event
        name = key_of(asked.namespace, asked.name)
        match asked.kind:
            case "pod" if (pod := state.pods.get(PodKey(name))) is not None:
                digest = pod.shape
            case "capacitybuffer" if (buffer := state.buffers.get(BufferKey(name))) is not None:
                digest = buffer.shape
            case "nodegroup":
                return _of_groups(event, {asked.name})
            case _:
                return event
        mine = {load.group for load in event.loads if digest in load.pods}
        return _of_groups(event, mine) if mine else event

    def facts(self, state: State, event: Event) -> Sequence[Reference]:
        """The request with its groups, or the pods and groups of a plan."""
        references: list[Reference] = []
        request = NO_REQUEST
        if isinstance(event, FillBuffer):
            references.append(Reference(BUFFER, event.namespace, event.name))
        if isinstance(event, PlanScaleUp):
            references += [Reference(BUFFER, *parts(ObjectKey(key))) for key, _ in event.buffers[:3]]
            request = RequestKey(ObjectKey(event.request))
            references += [Reference(POD, *parts(ObjectKey(key))) for key in event.pods[:3]]
            references += [Reference(GROUP, "", increase.group) for increase in event.increases]
        elif isinstance(event, ABOUT_REQUEST):
            request = request_key(event.namespace, event.name)
        elif isinstance(event, Effect) and event.target.kind == GROUP_KIND:
            references.append(Reference(GROUP, "", event.target.name))
        if request:
            references.insert(0, Reference(REQUEST, *parts(request)))
        return tuple(references)

    def opposite(self, state: State, event: Event) -> Sequence[str]:
        """Room, limits of time, and for what failed how much more room the nearest groups would need."""
        if not isinstance(event, Decision):
            return ()
        turned = [text for reason in event.because if (text := turned_by(reason, state))]
        if isinstance(event, PlanScaleUp):
            return [*turned, *beforehand((i.group, i.size - i.from_size) for i in event.increases)]
        if not isinstance(event, AttemptRequest | DeclineScaleUp):
            return turned
        turned += smaller_pods(state, _shapes(state, event)) if event.verdicts else []
        if isinstance(event, AttemptRequest):
            turned += attempted(state, event)
        return turned + [
            f"It would have been ordered if group {v.group} could grow: {v.nodes} nodes of it hold all {v.pods} pods."
            for v in event.verdicts
            if v.reason and v.nodes and v.pods
        ]

    def aggregate(self, state: State, asked: Reference) -> Mapping[str, object] | None:
        """The object with what belongs to it."""
        match asked.kind:
            case "provisioningrequest":
                key = request_key(asked.namespace, asked.name)
                request = state.requests.get(key)
                if request is None:
                    return None
                plans = {n: e for n, e in state.executions.items() if e.request == key}
                return {"request": request, "plans": plans, "class": state.classes.get(request.class_name)}
            case "pod":
                pod = state.pods.get(pod_key(asked.namespace, asked.name))
                return None if pod is None else {"pod": pod, "shape": state.shapes.get(pod.shape)}
            case "capacitybuffer":
                return buffers.aggregate(state, buffer_key(asked.namespace, asked.name))
            case kind if makes_pods(kind):
                return awaiting.aggregate(state, asked)
            case "node":
                node = state.nodes.get(asked.name)
                return None if node is None else {"node": node, "idle_since": state.idle.get(asked.name)}
        name = NodeGroupId(asked.name)
        group = state.groups.get(name)
        if group is None:
            return None
        return {"group": group, "open": state.open.get(name), "backoff": state.backoff.get(name)}

    def standing(self, state: State, asked: Reference, now: float) -> Sequence[str]:
        """What holds the object back, until when, and why each group does not help."""
        state.now = max(state.now, now)
        found, held = self._standing(state, asked), _held(state, asked)
        if not found:
            return found
        sentences = [in_number(text) for text in found]
        if held is None or held.acts:
            return sentences
        return [f"Nothing of it is done ({held.mode}): {held.why}.", *sentences]

    def _standing(self, state: State, asked: Reference) -> Sequence[str]:
        match asked.kind:
            case "provisioningrequest":
                key = request_key(asked.namespace, asked.name)
                request = state.requests.get(key)
                return () if request is None else requests.standing(state, key, request)
            case "pod":
                return pods.standing(state, pod_key(asked.namespace, asked.name))
            case "capacitybuffer":
                return buffers.standing(state, buffer_key(asked.namespace, asked.name))
            case kind if makes_pods(kind):
                return awaiting.standing(state, asked)
            case "node":
                return groups.of_node(state, asked.name)
        return groups.of_group(state, NodeGroupId(asked.name))


EXPLAINER: Explainer[State] = ProvisioningExplainer()


def _held(state: State, asked: Reference) -> Held | None:
    """What holds for a request, and for what gives capacity; None of pods and workloads, which have no mode here, and of buffers, which say it themselves."""
    match asked.kind:
        case "provisioningrequest":
            return holding.of_request(state, request_key(asked.namespace, asked.name))
        case "node" | "nodegroup":
            return holding.of_service(state)
    return None


def _told_of_pod(state: State, key: PodKey) -> Told:
    """What was decided for pods of its workload before it was there is about it, too."""
    pod = state.pods.get(key)
    workload = Counting(state.workloads).of_pod(key, pod) if pod is not None else ""
    if pod is None or not workload:
        return Told((RECORDS,))
    # A stamp of the API server, in whole seconds: the order may have come in the same one.
    return Told((RECORDS,), before_it=(workload_of(workload),), came_at=pod.created_at + 1.0)


def makes_pods(kind: str) -> bool:
    """Whether objects of a kind are workloads: what is nothing else that is explained is one, which nobody built in."""
    return kind not in (REQUEST, POD, NODE, GROUP, BUFFER)


def workload_of(key: str) -> Reference:
    """A workload as explanations name it, of its `owner_key`."""
    kind, _, name = key.partition("/")
    return Reference(kind.lower(), *parts(ObjectKey(name)))


def _group_of(event: Decision) -> str:
    """The node group that a decision is about; empty for none, and for plans, which have several."""
    if isinstance(event, Effect):
        return event.target.name if event.target.kind == GROUP_KIND else ""
    return str(getattr(event, "group", ""))


def _of_groups(event: PlanScaleUp, names: Container[str]) -> PlanScaleUp:
    """A plan without what it says of other groups that were chosen."""
    others = {i.group for i in event.increases if i.group not in names}
    return msgspec.structs.replace(
        event,
        because=tuple(reason for reason in event.because if reason.values.get("group") not in others),
        verdicts=tuple(verdict for verdict in event.verdicts if verdict.group not in others),
    )


def _shapes(state: State, event: AttemptRequest | DeclineScaleUp) -> list[str]:
    """Digests of the shapes that a decision is about."""
    if isinstance(event, DeclineScaleUp):
        return [event.shape]
    request = state.requests.get(request_key(event.namespace, event.name))
    return [digest for digest, _ in request.sets] if request is not None else []
