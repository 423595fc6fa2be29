"""What an evaluation has decided so far about requests. Spec 2.5.

`RequestWork` is handed from step to step. Conditions are collected in it and written once per request
at the end. What is decided is folded only when the evaluation is over, so it keeps its own view of
what is so by now: ask it, not the state, for conditions and pod sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidewright.events.base import Because, Decision, JsonObject
from tidewright.events.decisions import RecordObjectEvent, SetStatus
from tidewright.events.provisioning import BookCapacity, ReleaseCapacity
from tidewright.kube.keys import RequestKey, parts
from tidewright.kube.podshape import PodShape
from tidewright.kube.quotascopes import Traits
from tidewright.kube.times import rfc3339
from tidewright.provisioning import holding
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import pinned_digest, shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle, placeholders, spec
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import Mode, Parameters
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.scaleup.orders import COMPONENT, MAX_MESSAGE, request_ref
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Cost, Request, State

STALENESS_S = 10.0
"""While something waits that no fact announces (a backoff's end, a boot), this bounds the wait."""
QUEUE_POSITION = "queue-position"
"""Detail of a request that waits: how many are tried before it. [B6]"""


def without_queue(details: Mapping[str, str]) -> dict[str, str]:
    """Details of a request that waits no more."""
    return {name: text for name, text in details.items() if name != QUEUE_POSITION}


class RequestWork:
    """The requests of one evaluation, and what has been decided about them so far.

    Attributes:
        dues: when to look again, in seconds since the epoch.
        conditions: conditions of requests for which one changed; the others' are in the state.
        details: `provisioningClassDetails` to be written with them.
        why: the reasons of those changes.
        modes: the requests that are ours, with the mode of their class. Others are left alone.
        understood: their parameters.
        fresh: their pod sets as shapes, once somebody asked.
        ended: releases of bookings that were used up.
        costs: what quotas look at in their pod sets, of those taken up in this evaluation.
        claims: namespace and traits of pods to the amounts that will count against its quotas.
        kept: what room is kept for, by request.
        uncome: of that, what is for pods that do not exist yet.
        standing: the placeholders that stand for it.
        unheld: nodes on which its placeholders wait for other pods to go, by request.
        binding: what is decided is carried out.
        held: the service does not act, by the modes in force.
        unanswered: groups with an order that the cloud has not answered.
    """

    def __init__(
        self, state: State, index: Index, now: float, settings: Settings, *, binding: bool = True
    ) -> None:
        """`binding`: what is decided is carried out; what rests on an order without an answer waits for that."""
        self.state = state
        self.index = index
        self.now = now
        self.settings = settings
        self.dues: list[float] = []
        self.conditions: dict[RequestKey, tuple[Condition, ...]] = {}
        self.details: dict[RequestKey, dict[str, str]] = {}
        self.why: dict[RequestKey, list[Because]] = {}
        self.modes: dict[RequestKey, Mode] = {}
        self.understood: dict[RequestKey, Parameters] = {}
        self.fresh: dict[RequestKey, tuple[tuple[PodShape, int], ...]] = {}
        self.ended: list[Decision] = []
        self.costs: dict[RequestKey, tuple[Cost, ...]] = {}
        self.claims: dict[tuple[str, Traits], dict[str, int]] = {}
        self.kept: dict[RequestKey, tuple[Item, ...]] = {}
        self.uncome: dict[RequestKey, tuple[Item, ...]] = {}
        self.standing = placeholders.Placeholders({}, ())
        self.unheld: dict[RequestKey, set[str]] = {}
        self.binding = binding
        self.held = binding and not holding.of_service(state).acts
        self.unanswered = {
            step.group
            for execution in state.executions.values()
            for step in execution.steps
            if step.status in (saga.WAITING, saga.ORDERED)
        }
        for key in sorted(state.requests):
            request = state.requests[key]
            if not settings.enabled or request.deleting:
                continue
            if settings.allowed_classes and request.class_name not in settings.allowed_classes:
                continue
            parameters = self.parameters_of(request)
            mode = spec.mode_of(request.class_name, parameters, settings.processor_instance)
            if mode is not None:
                self.modes[key] = mode
                sets = request.spec.get("podSets")
                self.understood[key] = spec.parameters_of(
                    parameters, len(sets) if isinstance(sets, list) else 0
                )

    def held_alone(self, key: RequestKey) -> bool:
        """Whether the modes hold back this request, and not all of the service: others do not see what it would take."""
        return self.binding and not self.held and holding.of_request(self.state, key).mode == "shadow"

    def parameters_of(self, request: Request) -> dict[str, str]:
        """Parameters as accepted, or as they will be."""
        return parameters_in_force(self.state, request)

    def candidate(self, key: RequestKey) -> lifecycle.Candidate:
        """The request as the rules about its life see it, with what was decided so far."""
        request, understood = self.state.requests[key], self.understood[key]
        namespace, name = parts(key)
        highest = max((s.priority for s, _ in self.sets_of(key)), default=0)
        return lifecycle.Candidate(
            namespace=namespace,
            name=name,
            uid=request.uid,
            mode=self.modes[key],
            created_at=request.created_at,
            priority=understood.priority if understood.priority is not None else highest,
            conditions=self.conditions_of(key),
            booking_s=understood.booking_s,
            valid_until_s=understood.valid_until_s,
            controlled=request.controlled,
            starving=0 < self.settings.starvation_s <= self.now - request.created_at,
        )

    def conditions_of(self, key: RequestKey) -> tuple[Condition, ...]:
        """Conditions by now, those set in this evaluation included."""
        return self.conditions.get(key, self.state.requests[key].conditions)

    def put(self, key: RequestKey, condition: Condition, *why: Because) -> None:
        """Set a condition, to be written with its reasons at the end."""
        refresh = condition.type == cond.PROVISIONED and condition.status == "False"
        self.conditions[key] = cond.with_condition(
            self.conditions_of(key),
            condition,
            self.now,
            refresh=refresh and not self.settings.hold,
            generation=self.state.requests[key].generation,
        )
        self.why.setdefault(key, []).extend(why)

    def sets_of(self, key: RequestKey) -> tuple[tuple[PodShape, int], ...]:
        """Pod sets as shapes with counts; as frozen just now for a request taken up in this evaluation."""
        sets = self.fresh.get(key)
        if sets is None:
            request = self.state.requests[key]
            sets = tuple((shape_of(self.state, self.index, d), n) for d, n in request.sets)
            self.fresh[key] = sets
        return sets

    def understands(self, key: RequestKey) -> bool:
        """Whether it was taken up, in this evaluation or before."""
        return self.state.requests[key].accepted or bool(self.fresh.get(key))

    def kept_sets_of(self, key: RequestKey) -> tuple[tuple[PodShape, int], ...]:
        """As `sets_of`, tied to the domains of the request's topology, where it has its room already."""
        sets, topology = self.sets_of(key), self.understood[key].topology
        domains = self.domains_of(key) if topology else ()
        if not any(domains):
            return sets
        return tuple(
            (shape_of(self.state, self.index, pinned_digest(shape.digest, topology, value)), n)
            if value
            else (shape, n)
            for (shape, n), value in zip(sets, domains, strict=True)
        )

    def domains_of(self, key: RequestKey) -> tuple[str, ...]:
        """Per pod set the value of its topology: as found, else that of most of its pods that have a node."""
        request, topology = self.state.requests[key], self.understood[key].topology
        if request.domains:
            return request.domains
        names = (self.state.pods[pod].node for pod in self.index.consumers.get(key, {}))
        values = Counter(self.state.nodes[n].labels.get(topology, "") for n in names if n in self.state.nodes)
        if not values or self.understood[key].topology_per_set:
            return ()
        return (max(sorted(values), key=lambda value: values[value]),) * len(self.sets_of(key))

    def costs_of(self, key: RequestKey) -> tuple[Cost, ...]:
        """What quotas look at, per pod set; plain pods where a service before this one did not tell."""
        costs = self.costs.get(key, self.state.requests[key].costs)
        return costs or (Cost(),) * len(self.sets_of(key))

    def event(
        self, key: RequestKey, reason: str, message: str, event_type: str = "Normal"
    ) -> RecordObjectEvent:
        """An object event about a request; what the API server would refuse as too long is cut."""
        namespace, name = parts(key)
        return RecordObjectEvent(
            at=self.now,
            target=request_ref(namespace, name, self.state.requests[key].uid),
            event_type=event_type,
            reason=reason,
            message=message[:MAX_MESSAGE],
            component=COMPONENT,
        )

    def ordered(self, key: RequestKey) -> bool:
        """Its nodes are ordered, and it is provisioned when they are ready: in the profile `hold`."""
        return self.settings.hold and self.state.requests[key].ordered

    def busy(self, key: RequestKey) -> bool:
        """An increase on its behalf is under way: what it is waits for that."""
        plan = self.state.requests[key].plan
        execution = self.state.executions.get(plan)
        return execution is not None and not execution.over

    def booked_until(self, key: RequestKey) -> float | None:
        """When the booking of a request ends; None while none is in force."""
        conditions, own = self.conditions_of(key), self.understood[key].booking_s
        provisioned = cond.find(conditions, cond.PROVISIONED)
        if provisioned is None or not cond.bookable(conditions):
            return None
        return provisioned.changed_at + (self.settings.booking_s if own is None else own)

    def holds(self) -> bool:
        """Whether placeholders hold booked room."""
        return self.settings.hold and self.settings.placeholders and not self.settings.dry_run

    def release(self, key: RequestKey, reason: str) -> ReleaseCapacity:
        """A booking ends."""
        namespace, name = parts(key)
        return ReleaseCapacity(
            at=self.now, namespace=namespace, name=name, uid=self.state.requests[key].uid, reason=reason
        )

    def booked(self, key: RequestKey) -> list[Decision]:
        """Room is kept from now on."""
        request, own = self.state.requests[key], self.understood[key].booking_s
        until = self.now + (self.settings.booking_s if own is None else own)
        details = without_queue(self.details.get(key, request.details))
        self.details[key] = {**details, "reservation": rfc3339(until)}
        self.dues.append(until + 0.001)
        namespace, name = parts(key)
        return [
            BookCapacity(
                at=self.now,
                namespace=namespace,
                name=name,
                uid=request.uid,
                until=until,
                pods=sum(n for _, n in self.sets_of(key)),
            )
        ]

    def statuses(self) -> list[Decision]:
        """One status write per request whose conditions changed, and what ended on the way."""
        decisions: list[Decision] = list(self.ended)
        for key in sorted({*self.conditions, *(k for k in self.modes if self.state.requests[k].rewrite)}):
            request = self.state.requests[key]
            decisions.append(
                status_of(
                    self.now,
                    key,
                    request,
                    conditions=self.conditions_of(key),
                    details=self.details.get(key, request.details),
                    why=tuple(self.why.get(key, ())),
                )
            )
        return decisions


def parameters_in_force(state: State, request: Request) -> dict[str, str]:
    """Parameters as accepted; before that, those of the spec over the presets of its class."""
    if request.accepted:
        return request.parameters
    own = request.spec.get("parameters")
    given = {str(k): str(v) for k, v in own.items()} if isinstance(own, dict) else {}
    return spec.preset(state.classes.get(request.class_name, {}), given)


def status_of(
    at: float,
    key: RequestKey,
    request: Request,
    *,
    conditions: tuple[Condition, ...],
    details: Mapping[str, str],
    why: tuple[Because, ...] = (),
) -> SetStatus:
    """The status of a request, as far as it is ours: conditions of other types are their writers'."""
    namespace, name = parts(key)
    status: JsonObject = {"conditions": cond.render(c for c in conditions if cond.is_ours(c))}
    if details:
        status["provisioningClassDetails"] = dict(details)
    return SetStatus(
        at=at,
        target=request_ref(namespace, name, request.uid),
        status=status,
        observed_generation=request.generation,
        stamp=("provisioningClassDetails", "decision"),
        apply_as=COMPONENT,
        because=why,
    )
