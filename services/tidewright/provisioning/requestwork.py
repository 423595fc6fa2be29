"""Requests within one evaluation: taken up, expired, booked, tried. Spec 2.5 to 2.11.

Conditions are collected here and written once per request at the end. What is decided is folded only
when the evaluation is over, so this keeps its own view of what it has decided so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.events.base import Because, Decision, JsonObject
from tidewright.events.decisions import DeleteObject, RecordObjectEvent, SetStatus
from tidewright.events.provisioning import (
    AcceptRequest,
    AttemptRequest,
    BookCapacity,
    CloseScaleUp,
    ReleaseCapacity,
)
from tidewright.kube.predicates import PodShape, of_template, scheduling_fields
from tidewright.provisioning import placeholders, saga, spec
from tidewright.provisioning.durations import duration_text
from tidewright.provisioning.groups import IN_BACKOFF
from tidewright.provisioning.orders import (
    COMPONENT,
    MAX_MESSAGE,
    Orders,
    ordered_plan,
    request_ref,
    verdicts_of,
)
from tidewright.provisioning.pack.classes import Demand, Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle
from tidewright.provisioning.requests.attempt import Asked, Attempt, attempt, grow, nearest
from tidewright.provisioning.requests.booking import bookable, booking
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.scaleup.plans import NO_OPTIONS, NOT_NEEDED, SUCCESSFUL, World
from tidewright.provisioning.scaleup.rounds import enact
from tidewright.provisioning.sentences import because
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.spec import Mode, Parameters
from tidewright.provisioning.state import Index, Request, ShapeFields, State, shape_of


class RequestWork:
    """The requests of one evaluation."""

    def __init__(
        self, state: State, index: Index, now: float, settings: Settings, *, binding: bool = True
    ) -> None:
        """`binding`: what is decided is carried out; what rests on an order without an answer waits for that."""
        self.state = state
        self.index = index
        self.now = now
        self.settings = settings
        self.dues: list[float] = []
        self.conditions: dict[str, tuple[Condition, ...]] = {}
        self.details: dict[str, dict[str, str]] = {}
        self.why: dict[str, list[Because]] = {}
        self.modes: dict[str, Mode] = {}
        self.understood: dict[str, Parameters] = {}
        self.fresh: dict[str, tuple[tuple[PodShape, int], ...]] = {}
        self.ended: list[Decision] = []
        self.claims: dict[str, dict[str, int]] = {}
        self.kept: dict[str, tuple[Item, ...]] = {}
        self.uncome: dict[str, tuple[Item, ...]] = {}
        self.standing = placeholders.Standing({}, ())
        self.binding = binding
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
            parameters = self._parameters(request)
            mode = spec.mode_of(request.class_name, parameters, settings.processor_instance)
            if mode is not None:
                self.modes[key] = mode
                sets = request.spec.get("podSets")
                self.understood[key] = spec.parameters_of(
                    parameters, len(sets) if isinstance(sets, list) else 0
                )

    def _parameters(self, request: Request) -> dict[str, str]:
        if request.accepted:
            return request.parameters
        own = request.spec.get("parameters")
        given = {str(k): str(v) for k, v in own.items()} if isinstance(own, dict) else {}
        return spec.preset(self.state.classes.get(request.class_name, {}), given)

    def _candidate(self, key: str) -> lifecycle.Candidate:
        request, understood = self.state.requests[key], self.understood[key]
        namespace, name = key.split("/", 1)
        highest = max((s.priority for s, _ in self._sets(key)), default=0)
        return lifecycle.Candidate(
            namespace=namespace,
            name=name,
            uid=request.uid,
            mode=self.modes[key],
            created_at=request.created_at,
            priority=understood.priority if understood.priority is not None else highest,
            conditions=self._now(key),
            booking_s=understood.booking_s,
            valid_until_s=understood.valid_until_s,
            controlled=request.controlled,
            starving=0 < self.settings.starvation_s <= self.now - request.created_at,
        )

    def _now(self, key: str) -> tuple[Condition, ...]:
        return self.conditions.get(key, self.state.requests[key].conditions)

    def _set(self, key: str, condition: Condition, *why: Because) -> None:
        refresh = condition.type == cond.PROVISIONED and condition.status == "False"
        self.conditions[key] = cond.with_condition(
            self._now(key),
            condition,
            self.now,
            refresh=refresh and not self.settings.hold,
            generation=self.state.requests[key].generation,
        )
        self.why.setdefault(key, []).extend(why)

    def _sets(self, key: str) -> tuple[tuple[PodShape, int], ...]:
        found = self.fresh.get(key)
        if found is None:
            request = self.state.requests[key]
            found = tuple((shape_of(self.state, self.index, d), n) for d, n in request.sets)
            self.fresh[key] = found
        return found

    def _event(self, key: str, reason: str, message: str, event_type: str = "Normal") -> RecordObjectEvent:
        namespace, name = key.split("/", 1)
        return RecordObjectEvent(
            at=self.now,
            target=request_ref(namespace, name, self.state.requests[key].uid),
            event_type=event_type,
            reason=reason,
            message=message[:MAX_MESSAGE],
            component=COMPONENT,
        )

    # --- Time that is over ---

    def refresh(self) -> list[Decision]:
        """Expiry of requests and bookings, and deletion of old ones. Spec 2.9."""
        found: list[Decision] = []
        settings = self.settings
        candidates = [self._candidate(key) for key in self.modes]
        for candidate, condition in lifecycle.refresh(
            [c for c in candidates if not self._busy(f"{c.namespace}/{c.name}")],
            self.now,
            booking_s=settings.booking_s,
            expiry_s=settings.request_expiry_s,
        ):
            key = f"{candidate.namespace}/{candidate.name}"
            if condition.type == cond.BOOKING_EXPIRED:
                kept = candidate.booking_s if candidate.booking_s is not None else settings.booking_s
                self._set(key, condition, because("BookingOver", seconds=int(kept)))
                found.append(self._release(key, condition.reason))
                found.append(self._event(key, "BookingExpired", condition.message))
            else:
                limit = lifecycle.expires_at(candidate, settings.request_expiry_s) - candidate.created_at
                self._set(key, condition, because("Expired", limit_s=int(limit)))
                found.append(self._event(key, "Failed", condition.message, "Warning"))
        for candidate in candidates:
            key = f"{candidate.namespace}/{candidate.name}"
            ended = self._now(key)
            if lifecycle.collectable(
                candidate, self.now, settings.request_ttl_s, delete_controlled=settings.delete_controlled
            ):
                age = int(self.now - candidate.created_at)
                found.append(
                    DeleteObject(
                        at=self.now,
                        target=request_ref(candidate.namespace, candidate.name, candidate.uid),
                        because=(because("Collected", age_s=age),),
                    )
                )
            elif cond.is_true(ended, cond.FAILED) or cond.is_true(ended, cond.BOOKING_EXPIRED):
                latest = max((c.changed_at for c in ended), default=self.now)
                self.dues.append(latest + settings.request_ttl_s + 1)
        return found

    def _busy(self, key: str) -> bool:
        """An increase on its behalf is under way: what it is waits for that."""
        plan = self.state.requests[key].plan
        execution = self.state.executions.get(plan)
        return execution is not None and not execution.over

    def _release(self, key: str, reason: str) -> ReleaseCapacity:
        namespace, name = key.split("/", 1)
        return ReleaseCapacity(
            at=self.now, namespace=namespace, name=name, uid=self.state.requests[key].uid, reason=reason
        )

    # --- Nodes that came, or did not ---

    def nodes_settled(self, closings: Sequence[CloseScaleUp]) -> list[Decision]:
        """Groups' increases are over: tell the requests that they were for. [B11]

        All that end in one evaluation are looked at together: a plan over several groups is ready
        when the last of them is, and has failed when one of them has.
        """
        found: list[Decision] = []
        closing = {closed.group for closed in closings}
        plans = {plan for name in closing if name in self.state.open for plan in self.state.open[name].plans}
        for plan in sorted(plans):
            execution = self.state.executions.get(plan)
            if execution is None or execution.request not in self.modes:
                continue
            key = execution.request
            request = self.state.requests[key]
            if request.uid != execution.request_uid or request.plan != plan:
                continue  # a later plan is what it waits for
            mine = [
                c for c in closings if c.group in self.state.open and plan in self.state.open[c.group].plans
            ]
            failed = next((closed for closed in mine if closed.result != "Finished"), None)
            if failed is not None or execution.short:
                found += self._nodes_missing(key, failed or mine[0], grows=not execution.all_or_nothing)
            elif not any(plan in o.plans for name, o in self.state.open.items() if name not in closing):
                self._set(key, cond.NODES_READY, *mine[0].because)
                if self.settings.hold and not cond.is_true(self._now(key), cond.PROVISIONED):
                    self._set(key, cond.ORDERED)
                    found += self.booked(key)
                    self.dues.append(self.now + 0.001)
        return found

    def _nodes_missing(self, key: str, closed: CloseScaleUp, *, grows: bool) -> list[Decision]:
        """`compat` says it and leaves `Provisioned` alone; `hold` tries elsewhere, or gives up."""
        self._set(key, cond.NODES_MISSING, *closed.because)
        found: list[Decision] = [self._event(key, "CapacityNotReady", cond.NODES_MISSING.message, "Warning")]
        if self.settings.hold and not grows:
            self._set(key, cond.GIVEN_UP if self.understood[key].no_retry else cond.NOT_FOUND)
            found.append(self._release(key, "Failed"))
        return found

    def booked(self, key: str) -> list[Decision]:
        """Room is kept from now on."""
        request, own = self.state.requests[key], self.understood[key].booking_s
        until = self.now + (self.settings.booking_s if own is None else own)
        self.details[key] = {**request.details, "reservation": cond.format_time(until)}
        self.dues.append(until + 0.001)
        namespace, name = key.split("/", 1)
        return [
            BookCapacity(
                at=self.now,
                namespace=namespace,
                name=name,
                uid=request.uid,
                until=until,
                pods=sum(n for _, n in self._sets(key)),
            )
        ]

    # --- Bookings ---

    def bookings(self) -> dict[str, Demand]:
        """What room is kept for, by shape; bookings whose pods have all come end here."""
        found: dict[str, Demand] = {}
        for key in self.modes:
            request = self.state.requests[key]
            waiting_for_nodes = self._busy(key) or request.ordered
            if not bookable(self._now(key)) and not waiting_for_nodes:
                continue
            sets = tuple(Item(shape, n) for shape, n in self._sets(key))
            placed = [
                shape_of(self.state, self.index, self.state.pods[pod].shape)
                for pod in self.index.consumers.get(key, {})
            ]
            if waiting_for_nodes and not bookable(self._now(key)):
                items: Iterable[Item] = sets
            else:
                kept = booking(self._now(key), sets, placed)
                items = kept.items
                if kept.condition is not None:
                    self._set(key, kept.condition, because("BookingUsed", pods=len(placed)))
                    self.ended.append(self._release(key, kept.condition.reason))
                    continue
                provisioned = cond.find(self._now(key), cond.PROVISIONED)
                own = self.understood[key].booking_s
                if provisioned is not None:
                    until = provisioned.changed_at + (self.settings.booking_s if own is None else own)
                    self.dues.append(until + 0.001)
            self.kept[key] = tuple(items)
            self.uncome[key] = self._uncome(key, sets, placed)
        self._claim_quota()
        self.standing = placeholders.standing(self.state, self.uncome if self._holds() else {})
        for key, whole in self.kept.items():
            self.kept[key] = placeholders.without(whole, key, self.standing)
            for item in self.kept[key]:
                demand = found.setdefault(item.shape.digest, Demand(item.shape, 0))
                demand.count += item.count
        return found

    def _holds(self) -> bool:
        return self.settings.hold and self.settings.placeholders and not self.settings.dry_run

    def _uncome(self, key: str, sets: tuple[Item, ...], placed: list[PodShape]) -> tuple[Item, ...]:
        """[B2]: what of a booking is for pods that do not exist yet: those that wait want the room itself."""
        if not self._holds() or not bookable(self._now(key)):
            return ()
        waiting = [
            shape_of(self.state, self.index, self.state.pods[pod].shape)
            for pod in self.index.waiting
            if self.state.pods[pod].consumes == key
        ]
        return booking(self._now(key), sets, [*placed, *waiting]).items

    def placeholders(self, real: Grid, trial: Grid) -> list[Decision]:
        """[B2]: pods that hold the room against others are made and removed."""
        found = list(placeholders.removals(self.state, self.standing, self.now))
        if self._holds():
            missing = {
                key: placeholders.without(items, key, self.standing) for key, items in self.uncome.items()
            }
            found += placeholders.creations(
                self.state, self.settings, self.now, missing, self.standing, real, trial
            )
        return found

    def _claim_quota(self) -> None:
        """[B10]: what is kept for pods that are still to be created will count against their quota."""
        if not self.state.quotas:
            return
        unborn = Counter(
            {key: sum(item.count for item in items) for key, items in self.kept.items()}
        ) - Counter(self.state.pods[pod].consumes for pod in self.index.waiting)
        for key, items in self.kept.items():
            left = unborn[key]
            for item in items:
                pods = min(left, item.count)
                left -= pods
                self._claim(key.split("/", 1)[0], item.shape, pods)

    def _claim(self, namespace: str, shape: PodShape, pods: int) -> None:
        claimed = self.claims.setdefault(namespace, {})
        for name, amount in shape.requests.items():
            claimed[name] = claimed.get(name, 0) + amount * pods

    # --- Room that went away, and gangs that grow ---

    def lacking(self, booked: Mapping[str, Demand]) -> dict[str, tuple[Item, ...]]:
        """Request to what is kept for it on paper only: the last ones lack what has found no room."""
        left = {digest: demand.count for digest, demand in booked.items() if demand.count}
        found: dict[str, tuple[Item, ...]] = {}
        for key in reversed(self.kept):
            short = []
            for item in self.kept[key]:
                pods = min(left.get(item.shape.digest, 0), item.count)
                if pods:
                    left[item.shape.digest] -= pods
                    short.append(Item(item.shape, pods))
            if short:
                found[key] = tuple(short)
        return found

    def hold_to_account(self, short: Mapping[str, tuple[Item, ...]]) -> list[Decision]:
        """[B13], in the profile `hold`: say when provisioned room is gone, and when it stays gone."""
        found: list[Decision] = []
        limit_s = self.settings.max_node_provision_s
        for key in sorted(self.kept) if self.settings.hold else ():
            request, now = self.state.requests[key], self._now(key)
            if not bookable(now) or self._busy(key) or request.ordered:
                continue
            elastic = cond.find(now, cond.FULLY_PROVISIONED)
            pods = sum(item.count for item in short.get(key, ()))
            if elastic is not None and elastic.status == "False":
                pods = 0  # what lacks was never there
            ready = cond.find(now, cond.CAPACITY_READY)
            lost = ready is not None and ready.reason == cond.LOST and ready.status == "False"
            if not pods:
                if lost:
                    self._set(key, cond.NODES_READY)
                continue
            if ready is None or not lost:
                if any(plan in o.plans for plan in [request.plan] if plan for o in self.state.open.values()):
                    continue  # its nodes are still on their way
                self._set(key, cond.capacity_lost(pods), because("CapacityLost", pods=pods))
                self.dues.append(self.now + limit_s + 1)
            elif ready.changed_at + limit_s < self.now:
                revoked = cond.capacity_revoked(pods, duration_text(limit_s))
                self._set(key, revoked, because("CapacityLost", pods=pods))
                found.append(self._release(key, "Revoked"))
                found.append(self._event(key, "CapacityRevoked", revoked.message, "Warning"))
            else:
                self.dues.append(ready.changed_at + limit_s + 1)
        return found

    def growth(self, short: Mapping[str, tuple[Item, ...]], world: World, orders: Orders) -> list[Decision]:
        """[B8]: elastic gangs with their minimum go on growing, at the pace of retries."""
        found: list[Decision] = []
        for key in sorted(self.kept):
            request, now = self.state.requests[key], self._now(key)
            full = cond.is_true(now, cond.FULLY_PROVISIONED)
            if not self.understood[key].min_counts or full or not bookable(now) or self._busy(key):
                continue
            rest = short.get(key, ())
            told = cond.fully(sum(item.count for item in rest))
            before = cond.find(now, cond.FULLY_PROVISIONED)
            if before is None or before.message != told.message:
                self._set(key, told)
            if not rest:
                continue
            wait = self.settings.initial_backoff_s if request.wait_s is None else request.wait_s
            due = (request.last_try or 0.0) + wait
            if self.modes[key] is not Mode.ATOMIC or due >= self.now:
                self.dues.append(due + 0.001)
                continue
            found += self._grow(key, rest, wait, world, orders)
        return found

    def _grow(
        self, key: str, rest: tuple[Item, ...], wait: float, world: World, orders: Orders
    ) -> list[Decision]:
        request = self.state.requests[key]
        namespace, name = key.split("/", 1)
        items = merged((item.shape, item.count) for item in rest)
        made = grow(items, world)
        pods = sum(item.count for item in items)
        why = [because("Growing", pods=pods, placed=sum(made.placed))]
        retry = self.now + min(2 * wait, self.settings.max_backoff_s)
        self.dues.append(retry + 0.001)
        found: list[Decision] = [
            AttemptRequest(
                at=self.now,
                namespace=namespace,
                name=name,
                uid=request.uid,
                result=made.result,
                attempt=request.attempts + 1,
                retry_at=retry,
                verdicts=verdicts_of(made.out(), made),
                because=tuple(why),
            )
        ]
        if made.result != SUCCESSFUL or not made.targets:
            return found
        found += ordered_plan(orders, made, world, pods=(), why=why, request=key, request_uid=request.uid)
        enact(world, made, {item.shape.digest: item.shape for item in items})
        groups = ", ".join(f"{t.group} {t.from_size}->{t.size}" for t in made.targets)
        found.append(self._event(key, "ScaleUpRequested", f"scale-up requested: {groups}"))
        return found

    # --- Attempts ---

    def attempts(self, world: World, orders: Orders) -> list[Decision]:
        """Take up new requests and try those that are due, in order; each sees those before it."""
        found: list[Decision] = []
        due: list[tuple[lifecycle.Candidate, lifecycle.Eligibility]] = []
        for key in self.modes:
            request = self.state.requests[key]
            if self._busy(key) or request.ordered:
                continue
            if not request.accepted and cond.find(self._now(key), cond.FAILED) is None:
                taken = self._take_up(key)
                found += taken
                if not any(isinstance(d, AcceptRequest) for d in taken):
                    continue
            candidate = self._candidate(key)
            verdict = lifecycle.eligible(
                candidate,
                self.now,
                request.wait_s,
                initial_s=self.settings.initial_backoff_s,
                maximum_s=self.settings.max_backoff_s,
                last_try=request.last_try,
            )
            if verdict.tried:
                due.append((candidate, verdict))
            elif verdict.due is not None:
                self.dues.append(verdict.due + 0.001)
            if not cond.is_true(candidate.conditions, cond.PROVISIONED) and not cond.is_true(
                candidate.conditions, cond.FAILED
            ):
                self.dues.append(lifecycle.expires_at(candidate, self.settings.request_expiry_s) + 1)
        by_key = {f"{c.namespace}/{c.name}": v for c, v in due}
        waiting = self._in_turn([c for c, _ in due])
        turn = lifecycle.within_timebox(
            waiting, batch_size=self.settings.batch_size, timebox_s=self.settings.batch_timebox_s
        )
        if len(turn) < len(waiting):
            self.dues.append(self.now + 0.01)
        for position, candidate in enumerate(turn):
            key = f"{candidate.namespace}/{candidate.name}"
            found += self._try(key, candidate, by_key[key], world, orders, position)
            if self._blocks(key):
                break
        return found

    def _in_turn(self, due: list[lifecycle.Candidate]) -> list[lifecycle.Candidate]:
        """[B6]: those that are due and may be tried: turns by namespace, and nobody past a head."""
        if self.settings.fair_share:
            served = Counter(key.split("/", 1)[0] for key in self.kept)
            due = lifecycle.taking_turns(due, served)
        if not self.settings.head_deadline_s:
            return due
        heads = [key for key in self.modes if self._blocks(key)]
        there = {f"{c.namespace}/{c.name}" for c in due}
        queue = lifecycle.in_order([*due, *(self._candidate(key) for key in heads if key not in there)])
        allowed = lifecycle.before_head(queue, [key for key in heads if key not in there])
        return [c for c in allowed if f"{c.namespace}/{c.name}" in there]

    def _blocks(self, key: str) -> bool:
        """[B6]: it found no room, and its deadline is not over: later ones do not pass it."""
        deadline = self.state.requests[key].created_at + self.settings.head_deadline_s
        if not self.settings.head_deadline_s or self.now >= deadline:
            return False
        provisioned = cond.find(self._now(key), cond.PROVISIONED)
        waits = provisioned is not None and provisioned.status == "False"
        if waits and not cond.is_true(self._now(key), cond.FAILED):
            self.dues.append(deadline)
            return True
        return False

    def _take_up(self, key: str) -> list[Decision]:
        """Freeze spec and templates; or fail, when they are wrong or do not come."""
        request = self.state.requests[key]
        namespace, name = key.split("/", 1)
        try:
            wanted = spec.parse(request.spec)
        except ValueError as error:
            self._set(key, cond.invalid(str(error)))
            return [self._event(key, "Failed", str(error), "Warning")]
        missing = [
            s.template for s in wanted.pod_sets if f"{namespace}/{s.template}" not in self.state.templates
        ]
        if missing:
            grace_over = request.seen_at + self.settings.template_grace_s
            if self.now < grace_over:
                self.dues.append(grace_over)
                return []
            message = spec.missing_templates_message(len(wanted.pod_sets), missing)
            why = because(
                "TemplatesMissing",
                missing=len(missing),
                referenced=len(wanted.pod_sets),
                names=", ".join(missing[:5]),
            )
            self._set(key, cond.failed_to_create_pods(message), why)
            return [self._event(key, "Failed", message, "Warning")]
        sets = []
        shapes: dict[str, JsonObject] = {}
        for pod_set in wanted.pod_sets:
            template = self.state.templates[f"{namespace}/{pod_set.template}"]
            shape = of_template(template, namespace)
            sets.append((shape, pod_set.count))
            shapes[shape.digest] = msgspec.to_builtins(
                ShapeFields(
                    requests={k: v for k, v in shape.requests.items() if k != "pods"},
                    scheduling=scheduling_fields(template.get("spec") or {}) if not shape.error else {},
                    namespace=namespace,
                    labels=shape.labels,
                    priority=shape.priority,
                )
            )
            if shape.error:
                self._set(key, cond.failed_to_create_pods(f"pod template {pod_set.template}: {shape.error}"))
                return [self._event(key, "Failed", shape.error, "Warning")]
        self.fresh[key] = tuple(sets)
        self._set(
            key,
            cond.ACCEPT,
            because("ClassIsOurs", class_name=request.class_name, mode=self.modes[key].value),
        )
        decisions: list[Decision] = [
            AcceptRequest(
                at=self.now,
                namespace=namespace,
                name=name,
                uid=request.uid,
                class_name=request.class_name,
                parameters=self._parameters(request),
                sets=tuple((shape.digest, n) for shape, n in sets),
                shapes=shapes,
            ),
            self._event(key, "Accepted", cond.ACCEPT.message),
        ]
        decisions += [
            self._event(key, "ParameterIgnored", text, "Warning") for text in self.understood[key].warnings
        ]
        return decisions

    def _try(
        self,
        key: str,
        candidate: lifecycle.Candidate,
        verdict: lifecycle.Eligibility,
        world: World,
        orders: Orders,
        position: int,
    ) -> list[Decision]:
        request, parameters = self.state.requests[key], self.understood[key]
        sets = tuple(Item(shape, n) for shape, n in self._sets(key))
        asked = Asked(sets=sets, parameters=parameters, alias=spec.is_check_alias(request.class_name))
        over = self._over_quota(candidate.namespace, sets)
        dry = request.annotations.get(spec.DRY_RUN) == "true"
        before = world.grid
        if over:
            failure = (cond.GIVEN_UP,) if parameters.no_retry else (cond.NOT_FOUND,)
            made = Attempt(result=NO_OPTIONS, conditions=failure, placed=(0,) * len(sets), error=over)
        else:
            made = attempt(self.modes[key], asked, world)
        if dry:
            world.grid = before
            return self._answer(key, asked, made)
        if self.binding and made.plan is None and made.placed and self._on_paper(before, world.grid, made):
            self.dues.append(self.now + 10.0)  # the answers to those orders wake it sooner
            return []
        self.details[key] = {**request.details, **made.details, "queue-position": str(position)}
        attempts = request.attempts + 1
        succeeded = made.result in (SUCCESSFUL, NOT_NEEDED)
        final = succeeded or any(c.type == cond.FAILED for c in made.conditions)
        retry = 0.0 if final else self.now + (verdict.next_wait_s or self.settings.initial_backoff_s)
        why = self._why(sets, made, over, attempts, retry)
        if succeeded:
            for item in sets:
                self._claim(candidate.namespace, item.shape, item.count)
        found: list[Decision] = [
            AttemptRequest(
                at=self.now,
                namespace=candidate.namespace,
                name=candidate.name,
                uid=request.uid,
                result=made.result,
                attempt=attempts,
                retry_at=retry,
                verdicts=verdicts_of(made.plan.out(), made.plan) if made.plan is not None else (),
                because=tuple(why),
            )
        ]
        if made.result == SUCCESSFUL and made.plan is not None and made.plan.targets:
            return found + self._order(key, asked, made, world, orders, why)
        for condition in made.conditions:
            self._set(key, self._with_eta(condition, self._eta(made, world, retry)), *why)
        if succeeded:
            found += self.booked(key)
            if self._holds():
                self.dues.append(self.now + 0.001)
            found.append(self._event(key, "CapacityFound", cond.FOUND.message))
        else:
            if retry:
                self.dues.append(retry + 0.001)
            message = over or self._no_room(asked, made, world)
            if request.attempts == 0 or final:
                found.append(self._event(key, "Failed" if final else "CapacityNotFound", message, "Warning"))
        return found

    def _on_paper(self, before: Grid, after: Grid, made: Attempt) -> bool:
        """Whether room was found on nodes whose order the cloud has not taken yet, and may refuse."""
        for shape in made.shapes:
            was, there = before.where.get(shape.digest, {}), after.where.get(shape.digest, {})
            for row, pods in there.items():
                view = after.views[row]
                if view is None or pods <= was.get(row, 0):
                    continue
                kind, _, rest = view.name.partition("/")
                if kind == "planned" or (kind == "upcoming" and rest.rpartition("/")[0] in self.unanswered):
                    return True
        return False

    def _no_room(self, asked: Asked, made: Attempt, world: World) -> str:
        """For people: what no group ever holds, else what holds the groups back, the most first."""
        never = "; ".join(f"group {v}" for v in sorted(nearest(asked, world).values()))
        if never:
            return never
        if made.plan is None:
            pods = sum(item.count for item in asked.sets)
            return f"there is no room for {pods} pods on nodes that exist or are on their way"
        counted = Counter(made.plan.out().values())
        top = [f"{n} {text}" for text, n in sorted(counted.items(), key=lambda e: (-e[1], e[0]))]
        return ", ".join(top[:5]) or "no group can take all of it"

    def _order(
        self, key: str, asked: Asked, made: Attempt, world: World, orders: Orders, why: list[Because]
    ) -> list[Decision]:
        """Order the plan; conditions follow when the cloud has accepted it."""
        if made.plan is None:
            return []
        items = merged((shape, n) for shape, n in zip(made.shapes, made.placed, strict=True))
        digests = {item.shape.digest: item.shape for item in items}
        request = self.state.requests[key]
        groups = ", ".join(f"{t.group} {t.from_size}->{t.size}" for t in made.plan.targets)
        found = ordered_plan(
            orders,
            made.plan,
            world,
            pods=(),
            why=why,
            request=key,
            request_uid=request.uid,
            all_or_nothing=True,
        )
        enact(world, made.plan, digests)
        found.append(self._event(key, "ScaleUpRequested", f"scale-up requested: {groups}"))
        return found

    def _eta(self, made: Attempt, world: World, retry: float) -> float:
        """[B12]: when room is expected.

        That is the next attempt; or where groups are left alone after a failure, the first of them to
        come back, with the time that its nodes took last.
        """
        if not retry or made.plan is None:
            return retry
        out = made.plan.out()
        back = [
            max(retry, group.backoff_until) + self.state.groups[group.id].boot_s
            for group in world.groups
            if out.get(group.id) == IN_BACKOFF and group.id in self.state.groups
        ]
        return min(back, default=retry)

    def _with_eta(self, condition: Condition, retry: float) -> Condition:
        """[B12]: in the profile `hold`, when room is expected."""
        if (
            not self.settings.hold
            or condition.type != cond.PROVISIONED
            or condition.status != "False"
            or not retry
        ):
            return condition
        return msgspec.structs.replace(
            condition, message=f"{condition.message} ETA: {cond.format_time(retry)}"
        )

    def _why(
        self, sets: tuple[Item, ...], made: Attempt, over: str, attempts: int, retry: float
    ) -> list[Because]:
        pods, placed = sum(item.count for item in sets), sum(made.placed)
        if over:
            return [because("QuotaExceeded", namespace=sets[0].shape.namespace, quota=over)]
        if made.result in (SUCCESSFUL, NOT_NEEDED):
            if made.plan is not None and made.plan.targets:
                return [because("RoomShort", placed=pods - sum(made.plan.placed), pods=pods)]
            return [because("FitsNow", pods=placed)]
        why = (
            [because("NoGroup")]
            if made.plan is not None
            else [because("RoomShort", placed=placed, pods=pods)]
        )
        if made.plan is not None:
            why += [because("GroupOut", group=g, reason=r) for g, r in sorted(made.plan.out().items())[:20]]
        if retry:
            why.append(because("RetryLater", wait_s=int(retry - self.now), attempt=attempts))
        else:
            why.append(because("NoRetry"))
        return why

    def _answer(self, key: str, asked: Asked, made: Attempt) -> list[Decision]:
        """[B14]: what would be done, without doing it."""
        targets = made.plan.targets if made.plan is not None and made.result == SUCCESSFUL else ()
        would = ",".join(f"{t.group}:+{t.added}" for t in targets) or made.result
        cost = 0.0
        if made.plan is not None:
            prices = {o.group: o.node_price or 0.0 for o in made.plan.options}
            cost = sum(prices.get(t.group, 0.0) * t.added for t in targets)
        self.details[key] = {
            **self.state.requests[key].details,
            "would-scale-up": would,
            "would-cost": f"{cost:.4f}",
        }
        condition = Condition(
            type=cond.FAILED,
            status="True",
            reason="DryRun",
            message=f"dry run: {would}",
        )
        self._set(key, condition, because("DryRun"))
        return []

    def _over_quota(self, namespace: str, sets: tuple[Item, ...]) -> str:
        """[B10]: the ResourceQuota of the namespace that these pods would exceed; empty for none."""
        wanted: dict[str, int] = {}
        for item in sets:
            for name, amount in item.shape.requests.items():
                wanted[name] = wanted.get(name, 0) + amount * item.count
        for key in sorted(self.state.quotas):
            if key.split("/", 1)[0] != namespace:
                continue
            hard, used = self.state.quotas[key]
            claimed = self.claims.get(namespace, {})
            short = sorted(
                name
                for name, limit in hard.items()
                if _asked_of(wanted, name)
                and used.get(name, 0) + _asked_of(claimed, name) + _asked_of(wanted, name) > limit
            )
            if short:
                return f'exceeded quota: "{key.split("/", 1)[1]}", resources: {", ".join(short)}'
        return ""

    # --- Writing ---

    def statuses(self) -> list[Decision]:
        """One status write per request whose conditions changed, and what ended on the way."""
        found: list[Decision] = list(self.ended)
        for key in sorted({*self.conditions, *(k for k in self.modes if self.state.requests[k].rewrite)}):
            request = self.state.requests[key]
            found.append(
                status_of(
                    self.now,
                    key,
                    request,
                    self._now(key),
                    self.details.get(key, request.details),
                    tuple(self.why.get(key, ())),
                )
            )
        return found


def _asked_of(wanted: Mapping[str, int], quota_name: str) -> int:
    """What pods ask of a quota's resource: `requests.cpu` and `cpu` are the same."""
    name = quota_name.removeprefix("requests.")
    return wanted.get("pods" if name == "count/pods" else name, 0)


def status_of(
    at: float,
    key: str,
    request: Request,
    conditions: tuple[Condition, ...],
    details: Mapping[str, str],
    why: tuple[Because, ...] = (),
) -> SetStatus:
    """The whole status of a request, with foreign conditions kept."""
    namespace, name = key.split("/", 1)
    status: JsonObject = {"conditions": cond.render(conditions)}
    if details:
        status["provisioningClassDetails"] = dict(details)
    return SetStatus(
        at=at,
        target=request_ref(namespace, name, request.uid),
        status=status,
        observed_generation=request.generation,
        stamp=("provisioningClassDetails", "decision"),
        because=why,
    )
