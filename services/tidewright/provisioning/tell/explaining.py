"""What provisioning tells about requests, pods, nodes and node groups (`tidewright.host.fold.explainer`). Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from tidewright.events.acting import Held
from tidewright.events.base import Because, Decision, Event
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
from tidewright.kube.predicates import UNMATCHED
from tidewright.kube.times import readable, seconds_or_none
from tidewright.provisioning import holding
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.groups import cannot_grow
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.foresight.counting import Counting
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.templates import fits_reason
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.lifecycle import tried_at
from tidewright.provisioning.requests.spec import Mode, mode_of
from tidewright.provisioning.requests.work import parameters_in_force
from tidewright.provisioning.scaleup.orders import GROUP_KIND
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL
from tidewright.provisioning.scaleup.refusals import reasons_in
from tidewright.provisioning.state import RESERVED, Request, State
from tidewright.provisioning.tell import awaiting, buffers, clouds, folding, leaving, room, staying
from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.labels import named_label, unknown_domain
from tidewright.provisioning.tell.opposites import smaller_pods
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
        lines = [_full(in_number(sentence(reason))) for reason in event.because if reason.rule != "GroupOut"]
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
        turned = [text for reason in event.because if (text := _turned(reason, state))]
        if isinstance(event, PlanScaleUp):
            return [*turned, *_beforehand((i.group, i.size - i.from_size) for i in event.increases)]
        if not isinstance(event, AttemptRequest | DeclineScaleUp):
            return turned
        turned += smaller_pods(state, _shapes(state, event)) if event.verdicts else []
        if isinstance(event, AttemptRequest):
            turned += _attempted(state, event)
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
                return () if request is None else _request(state, key, request)
            case "pod":
                return _pod(state, pod_key(asked.namespace, asked.name))
            case "capacitybuffer":
                return buffers.standing(state, buffer_key(asked.namespace, asked.name))
            case kind if makes_pods(kind):
                return awaiting.standing(state, asked)
            case "node":
                return _node(state, asked.name)
        return _group(state, NodeGroupId(asked.name))


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


def _beforehand(added: Iterable[tuple[str, int]]) -> list[str]:
    """What would have made an order needless."""
    parts = [f"{_more(nodes)} in group {group}" for group, nodes in added]
    if not parts:
        return []
    rest = f" and {len(parts) - folding.NAMED} groups more" if len(parts) > folding.NAMED else ""
    return [f"With {', '.join(parts[: folding.NAMED])}{rest} beforehand, nothing would have been ordered."]


def _more(nodes: int) -> str:
    return f"{nodes} more node{'s' * (nodes != 1)}"


def _attempted(state: State, event: AttemptRequest) -> list[str]:
    """Of an attempt: what stood in its way, or what it left."""
    key = request_key(event.namespace, event.name)
    request = state.requests.get(key)
    sets = room.sets_of(state, key) if request is not None else ()
    if not sets:
        return []
    chosen = [(v.group, v.nodes) for v in event.verdicts if v.chosen]
    if chosen:
        return _beforehand(chosen)
    if event.result in (SUCCESSFUL, NOT_NEEDED):
        most = room.still_fits(state, sets[0], key) if len(sets) == 1 else None
        return [] if most is None else [f"Of {most} pods like these all would have fitted, of more not."]
    lacking = room.lack(state, sets, key)
    return [*lacking.sentences, *room.more_nodes(state, lacking)]


def _shapes(state: State, event: AttemptRequest | DeclineScaleUp) -> list[str]:
    """Digests of the shapes that a decision is about."""
    if isinstance(event, DeclineScaleUp):
        return [event.shape]
    request = state.requests.get(request_key(event.namespace, event.name))
    return [digest for digest, _ in request.sets] if request is not None else []


def _turned(reason: Because, state: State) -> str:
    """Which input would have had to be what for a rule to say the opposite; empty where no threshold decided."""
    try:
        match reason.rule, reason.values:
            case "Idle", {"node": str(node), "idle_s": int(idle_s)}:
                limit_s = index_of(state).settings.unneeded_s
                return (
                    f"With a pod on node {node} in the last {limit_s:.0f} s, or with scale-down-unneeded-time at "
                    f"{idle_s + 1} s or more instead of {limit_s:.0f} s, the node would have stayed."
                )
            case "BelowMinimum", {"group": str(group), "target": int(target), "minimum": int(minimum)}:
                return f"With a minimum of {target} instead of {minimum}, group {group} would have been left alone."
            case "TimedOut", {"missing": int(missing), "group": str(group), "limit_s": int(limit_s)} if (
                limit_s
            ):
                return f"Had the {missing} nodes of group {group} come within {limit_s} s, they would have been waited for."
            case "Expired", {"limit_s": int(limit_s)}:
                return f"Provisioned within {limit_s} s of its creation, it would have been kept."
    except (TypeError, ValueError):  # of another version, with other values
        pass
    return ""


def _full(text: str) -> str:
    return f"{_capital(text)}."


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _request(state: State, key: RequestKey, request: Request) -> list[str]:
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
        sentences.append(_full(request.told))
    lacking = room.lack(state, room.sets_of(state, key), key)
    sentences += [*lacking.sentences, *room.more_nodes(state, lacking, would="all would fit")]
    if (
        mode_of(request.class_name, request.parameters, index_of(state).settings.processor_instance)
        is Mode.CHECK
    ):
        return [*sentences, *_lacking(state, request), "Its class only checks: no nodes are ordered for it."]
    return sentences + (_lacking(state, request) or _groups(state, _of_use(state, key)))


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


def _groups(state: State, names: Sequence[NodeGroupId]) -> list[str]:
    """Of these groups which can grow, and why the others cannot."""
    view = look(state, index_of(state), state.now)
    total = index_of(state).settings.max_nodes_total
    sentences = [clouds.NO_CLOUD] if clouds.none_configured(state) else []
    stuck: dict[str, str] = {}
    for name in names:
        group = view.groups[name]
        reason = cannot_grow(group.group, view.limits, view.current_nodes, total)
        if not reason:
            sentences.append(f"Group {name} can grow from {group.group.target} to {group.group.max} nodes.")
            continue
        entry = state.backoff.get(name)
        until = (
            f" until {readable(entry.until)} UTC ({entry.message or entry.code})"
            if entry is not None and backed_off(entry, state.now)
            else ""
        )
        stuck[name] = f"{reason}{until}"
    return sentences + [
        f"{_capital(folding.named(each))} cannot grow: {reason}." for each, reason in folding.by_reason(stuck)
    ]


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


def _pod(state: State, key: PodKey) -> list[str]:
    pod = state.pods.get(key)
    if pod is None:
        return []
    if pod.node:
        return [f"It runs on node {pod.node}."]
    if pod.consumes:
        return [
            f"It consumes ProvisioningRequest {pod.consumes}: it never causes an increase by itself.",
            *(() if pod.consumes in state.requests else ("That request does not exist.",)),
        ]
    if not pod.waiting:
        return ["The scheduler has not said that it fits nowhere."]
    covered = [
        name
        for name, opened in sorted(state.open.items())
        if any(pod.shape in load.pods for load in opened.loads)
    ]
    if covered:
        sentences = [f"Nodes for pods like it are on their way in group {', '.join(covered)}."]
        for name in covered:
            opened, group = state.open[name], state.groups.get(name)
            if group is not None and group.boot_s:
                sentences.append(f"They are expected at {readable(opened.requested_at + group.boot_s)} UTC.")
        return sentences
    if not state.groups:
        return [
            clouds.NO_CLOUD
            if clouds.none_configured(state)
            else "Nothing is ordered for it: no node group is known.",
            *(text for text in clouds.all_clouds(state) if text != clouds.NO_CLOUD),
        ]
    return _declined(state, pod.shape)


def _declined(state: State, digest: str) -> list[str]:
    """Why nothing is ordered for pods of a shape, and what would help them."""
    if digest not in state.declined:
        return ["It waits for the next evaluation."]
    told = reasons_in(state.declined[digest])
    index = index_of(state)
    view, shape = look(state, index, state.now), shape_of(state, index, digest)
    reasons: dict[str, str] = {
        name: why
        for name, group in view.groups.items()
        if (template := group.group.template) is not None and (why := unknown_domain(shape, template.view))
    }
    for name, reason in told:
        known = view.groups.get(NodeGroupId(name))
        template = known.group.template if known is not None else None
        if reason and template is not None:
            own = fits_reason(shape, template)
            both = f"{reason}; {own}" if own == UNMATCHED != reason else reason
            reasons[name] = both.replace(UNMATCHED, named_label(UNMATCHED, shape, template.view))
        elif reason:
            reasons[name] = reason
    waiting = sum(state.pods[key].shape == digest for key in index.waiting)
    lacking = room.lack(state, (Item(shape, waiting),)) if waiting else None
    return [
        "Nothing is ordered for it.",
        *(f"{_capital(folding.named(names))}: {reason}." for names, reason in folding.by_reason(reasons)),
        *(lacking.sentences if lacking is not None else ()),
        *smaller_pods(state, [digest]),
        *(room.more_nodes(state, lacking, would="all pods like it would fit") if lacking is not None else ()),
    ]


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


def _node(state: State, name: str) -> list[str]:
    node = state.nodes.get(name)
    if node is None:
        return []
    if node.group:
        sentences = [f"It is in group {node.group}."]
    elif node.provider_id:
        sentences = [f"No group of a cloud has a machine {node.provider_id}: it is never removed."]
    else:
        unknown = "It has no spec.providerID, by which clouds know their machines: it is of no group and never removed."
        sentences = [unknown, "Its kubelet (--provider-id) or the cloud's controller manager sets it."]
    sentences += leaving.of_node(state, name)
    busy = index_of(state).busy.get(name, 0)
    sentences.append(
        "No pod keeps it busy."
        if not busy
        else "1 pod on it is not of a DaemonSet."
        if busy == 1
        else f"{busy} pods on it are not of DaemonSets."
    )
    if RESERVED in node.annotations:
        sentences.append(f"Room on it is kept for {node.annotations[RESERVED]}.")
    since = state.idle.get(name)
    if since is not None and name not in state.unneeded:
        settings = index_of(state).settings
        sentences.append(
            f"It is empty since {readable(since)} UTC, and goes {settings.unneeded_s:.0f} s after that at the earliest."
        )
    return sentences + (staying.of_node(state, name) if node.group else [])


def _group(state: State, name: NodeGroupId) -> list[str]:
    group = state.groups.get(name)
    if group is None:
        return []
    sentences = [
        f"It has {group.target} nodes of {group.min_size} to {group.max_size}.",
        *clouds.of_group(state, group),
        *clouds.own_settings(group),
    ]
    if group.error:
        why = f"{group.error}: {group.message}" if group.message else group.error
        sentences.append(f"It cannot be read ({why}): nothing is ordered.")
    opened = state.open.get(name)
    if opened is not None:
        one, at = opened.increase == 1, f"{readable(opened.requested_at)} UTC"
        sentences.append(
            f"1 node was ordered at {at} and is not ready."
            if one
            else f"{opened.increase} nodes were ordered at {at} and are not all ready."
        )
        if group.boot_s:
            sentences.append(
                f"{'It is' if one else 'They are'} expected at {readable(opened.requested_at + group.boot_s)} UTC."
            )
    return sentences + [text for text in _groups(state, [name]) if text != clouds.NO_CLOUD]
