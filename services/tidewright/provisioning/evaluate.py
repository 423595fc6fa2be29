"""One evaluation of the whole cluster: what is late, what is booked, what is asked for, what to order.

The order within it is that of spec 3.2: groups first (late, failed, finished), then room for pods that
wait and for bookings, then requests in their order, then pending pods, then buffers, then what nobody needs. Each
step sees what the ones before it have placed. Nothing here changes the state: decisions are folded
when the evaluation is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.events.base import Decision
from tidewright.events.decisions import CancelTimer, RecordObjectEvent, SetTimer
from tidewright.events.provisioning import AttemptRequest, BackOffGroup, CloseScaleUp, PlanScaleUp
from tidewright.host.fold.configuration import CONFIGURATION_IGNORED
from tidewright.host.fold.parts import Measure, unmeasured
from tidewright.kube.keys import PodKey
from tidewright.provisioning.buffers import concluding, room
from tidewright.provisioning.buffers.room import Fillings
from tidewright.provisioning.buffers.work import BufferWork
from tidewright.provisioning.cluster import status_map
from tidewright.provisioning.cluster.flaws import flaws
from tidewright.provisioning.cluster.upkeep import idle_decisions, promised, upkeep
from tidewright.provisioning.cluster.view import View, look
from tidewright.provisioning.fold.common import CLOUD_UNREADABLE, DID_NOT_COME, EVALUATE
from tidewright.provisioning.foresight import room as coming_room
from tidewright.provisioning.foresight import shares
from tidewright.provisioning.foresight.room import Covering
from tidewright.provisioning.foresight.taking_back import TakingBack
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.claims import has_claims
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.index.settling import nominated, settle
from tidewright.provisioning.pack.classes import Demand
from tidewright.provisioning.pack.demands import move, place_all, place_booked
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pending.ordering import Ordering
from tidewright.provisioning.pending.pods import pending
from tidewright.provisioning.requests import booking, expiry, growth, placeholders, promises, reserved, turns
from tidewright.provisioning.requests.intake import prepare
from tidewright.provisioning.requests.work import STALENESS_S, RequestWork
from tidewright.provisioning.scaledown.live import Room
from tidewright.provisioning.scaledown.removal import on_their_way
from tidewright.provisioning.scaledown.removal.needed import given_back
from tidewright.provisioning.scaleup.coming import upcoming
from tidewright.provisioning.scaleup.least_sizes import to_begin_with, to_least
from tidewright.provisioning.scaleup.orders import MAX_MESSAGE, Orders, lasting, status_event
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.state import Load, Pod, State, owner_key
from tidewright.provisioning.tell import clouds, parts


class Evaluation:
    """What one evaluation works with. `decisions` is its result."""

    def __init__(
        self,
        state: State,
        seed: str,
        *,
        binding: bool = True,
        part: Measure = unmeasured,
        now: float | None = None,
    ) -> None:
        """`binding` is False when only an answer is wanted, and nothing is carried out; `now`: as of when, if not of the state's time."""
        self.state = state
        self.index: Index = index_of(state)
        prepare(state, self.index)
        settle(state, self.index, _claiming(state, self.index))
        self.now = state.now if now is None else now
        self.seed = seed
        self.binding = binding
        self.part = part
        self.decisions: list[Decision] = []
        with part(parts.UPDATE_STATE):
            self.view: View = look(state, self.index, self.now)
        self.orders = Orders(state, self.now, self.index.settings.dry_run)
        self.dues: list[float] = []
        self.starting: dict[int, str] = {}
        self.covering: Covering = {}
        self.expecting = shares.expected(state, self.index, self.now)
        self.ordering = Ordering(self.index, self.view, self.orders, self.expecting.shares, self.decisions)

    def run(self) -> list[Decision]:
        settings = self.index.settings
        with self.part(parts.UPDATE_STATE):
            late = upkeep(self.state, self.index, self.view, self.now)
        self.decisions += late.decisions
        self.dues += late.dues
        closings = [d for d in late.decisions if isinstance(d, CloseScaleUp)]
        self._leave_alone(d for d in late.decisions if isinstance(d, BackOffGroup))
        self._warn()
        if unreadable := clouds.wrong(self.state):
            self.decisions += lasting(
                self.state,
                self.now,
                CLOUD_UNREADABLE,
                f"{unreadable}: what was read last stays in force, and nothing is ordered there",
            )
        if ignored := clouds.ignored(self.state):
            self.decisions += lasting(
                self.state, self.now, "GroupSettingIgnored", f"{ignored}; each counts as not said"
            )
        for flaw in flaws(self.state, self.index, self.now):
            self.decisions += lasting(self.state, self.now, flaw.reason, flaw.message, flaw.event_type)
        pending_pods = pending(self.state, self.index, self.now)
        self.decisions += pending_pods.told
        self.dues += pending_pods.dues + self.expecting.dues
        # Where many nodes are unready their controllers may be late for that: nothing is concluded, or taken back, until they are not.
        missed = coming_room.not_come(self.state, self.index, self.now) if self.view.healthy else []
        self.decisions += missed
        self.decisions += coming_room.troubles(self.state, self.index, self.expecting, self.now)
        waiting = pending_pods.pods
        work = RequestWork(self.state, self.index, self.now, settings, binding=self.binding)
        self.decisions += promises.nodes_settled(work, closings)
        self.decisions += expiry.refresh(work)
        self.decisions += turns.adopted(work)
        world = self._world()
        with self.part(parts.FILTER):
            pool, booked = self._fill(work, world.grid, waiting)
        if self.binding and self.state.removals:
            self._give_back(world.grid, pool, booked)
        held = booking.hold_room(work, self.index.grid, world.grid, self.starting)
        self.decisions += held
        bare = reserved.unheld(work, self.index.grid, world.grid)
        short = booking.lacking(work, booked)
        chunks = self._buffers()
        fillings = None if settings.requests_use_buffers else room.place(chunks, world)
        one: Fillings | None = None
        self.decisions += promises.awaited(work, closings, short)
        self.decisions += promises.hold_to_account(work, short)
        if self.view.healthy:
            with self.part(parts.SCALE_UP):
                self.decisions += growth.grow_on(work, short, world, self.orders)
                self.decisions += turns.attempts(work, world, self.orders)
                self._expect(world.grid, pool)
                one = self.ordering.as_one(world, pool, waiting, chunks, fillings)
                if one is None:
                    self.ordering.scale_up(world, pool, waiting)
        else:
            unready = sum(group.counts.unready for group in self.view.groups.values())
            self.decisions += lasting(
                self.state, self.now, "ClusterUnhealthy", f"{unready} nodes are unready: nothing is ordered"
            )
            self.dues += [self.now + STALENESS_S] if work.modes else []  # they expire all the same
        if fillings is None:
            fillings = one if one is not None else room.place(chunks, world)
            attempts = [d for d in self.decisions if isinstance(d, AttemptRequest)]
            for request, lenders in room.lent(chunks, fillings, attempts).items():
                work.details[request] = {**work.details.get(request, {}), "from-buffer": lenders}
        if self.view.healthy and one is None:
            self.decisions += room.order(chunks, fillings, world, self.orders)
        self.decisions += [*room.tell(chunks, fillings), *room.hold(chunks, fillings), *chunks.written()]
        self.decisions += work.statuses()
        self.decisions += reserved.marked(work, held, bare)
        if settings.enforce_min:
            self.decisions += to_least(world, self.orders)
        if self.view.healthy:
            self.decisions += to_begin_with(self.state, world, self.orders, self.decisions)
        if missed:
            self._take_back(world.grid)
        idle = idle_decisions(
            self.state, self.index, self.view, now=self.now, grid=world.grid, part=self.part
        )
        self.decisions += idle.decisions
        self.dues += idle.dues + work.dues + chunks.dues
        report, later = status_map.report(self.state, self.view, settings, self.now)
        self.decisions += [report] if report is not None else []
        self.dues += [later] if later is not None else []
        lacking = any(filling.missing for filling in fillings.values())
        self._next(lacking or any(demand.count for demand in pool.values()))
        return self.decisions

    def room(self) -> Room:
        """Where what is not there yet finds room; decides nothing. For scale-down, which leaves that alone."""
        state, index = self.state, self.index
        waiting = pending(state, index, self.now)
        work = RequestWork(state, index, self.now, index.settings, binding=False)
        world = self._world()
        on_their_way.hold(state, index, world.grid, self.now)
        self._fill(work, world.grid, waiting.pods)
        coming_room.place(self.expecting.shares, world.grid, self.covering)
        room.gather(state, index, world.grid)
        rows = promised(world.grid, index.grid)
        names = (view.name for row, view in enumerate(world.grid.views) if view is not None and row in rows)
        very_new = bool(waiting.dues) and not waiting.pods
        needed = frozenset(name for name in names if name in state.nodes)
        return Room(world.grid, needed, very_new, self.expecting.ends)

    def _fill(
        self, work: RequestWork, grid: Grid, waiting: Sequence[tuple[PodKey, Pod]]
    ) -> tuple[dict[str, Demand], dict[str, Demand]]:
        """Place what has room already; pods that wait, and room that is kept, for which there is none."""
        pool = _counted(self.state, self.index, waiting)
        booked = booking.room_kept(work)
        placeholders.arrange(self.state, self.index, grid, work.standing)
        self._cover(grid, pool, booked, work.standing)
        # In compat the scheduler places pending pods first, whatever is booked.
        if not self.index.settings.hold:
            place_all(grid, pool)
        place_booked(grid, booked, booking.places(work))
        if self.index.settings.hold:
            place_all(grid, pool)
        return pool, booked

    def _give_back(self, grid: Grid, pool: dict[str, Demand], booked: dict[str, Demand]) -> None:
        """Nodes that are being removed stay where something has no other place."""

        def place() -> int:
            lacking = [demand for demands in (pool, booked) for demand in demands.values()]
            before = sum(demand.count for demand in lacking)
            if before:
                place_all(grid, pool)
                place_all(grid, booked)
            return before - sum(demand.count for demand in lacking)

        self.decisions += given_back(self.state, grid, place)

    def _buffers(self) -> BufferWork:
        """What buffers want, once everything that is known of them is concluded."""
        chunks = BufferWork(self.state, self.index, self.now, self.index.settings, binding=self.binding)
        if self.index.settings.buffer_controller:
            self.decisions += concluding.conclude(chunks)
        room.want(chunks)
        return chunks

    def _leave_alone(self, failures: Iterable[BackOffGroup]) -> None:
        """Groups that failed just now bring nothing more, and are asked for nothing."""
        for failure in failures:
            group = NodeGroupId(failure.group)
            view = self.view.groups[group]
            self.view.groups[group] = msgspec.structs.replace(
                view,
                upcoming=0,
                group=msgspec.structs.replace(view.group, backed_off=True, backoff_until=failure.until),
            )

    def _warn(self) -> None:
        """Settings that could not be read are told once."""
        message = "; ".join(self.index.warnings)
        if message and self.state.said.get(CONFIGURATION_IGNORED) != message[:MAX_MESSAGE]:
            self.decisions.append(status_event(self.now, CONFIGURATION_IGNORED, message, "Warning"))

    # --- Room ---

    def _world(self) -> World:
        grid = self.index.grid.fork()
        for pod in nominated(self.state, self.index).values():
            grid.put(shape_of(self.state, self.index, pod.shape), grid.rows[pod.nominated])
        return World(
            groups=tuple(view.group for _, view in sorted(self.view.groups.items())),
            grid=grid,
            limits=self.view.limits.fork(),
            settings=self.index.settings,
            current_nodes=self.view.current_nodes,
            seed=self.seed,
        )

    def _cover(
        self,
        grid: Grid,
        pool: dict[str, Demand],
        booked: dict[str, Demand],
        standing: placeholders.Placeholders,
    ) -> None:
        """Put nodes that are on their way into the grid, with the pods that they were ordered for.

        Pods that an order covers cause no further one, whatever order they would pack in now.
        """
        carried = placeholders.by_node(self.state, standing)
        for name in sorted(self.view.groups):
            view = self.view.groups[name]
            template = view.group.template
            if not view.upcoming or template is None:
                continue
            for starting in view.starting:  # each is among those on their way
                grid.remove_node(starting)
            names = upcoming(name, view.upcoming)
            rows = grid.add_copies(template.view, names)
            by_row = dict(zip(rows, names, strict=True))
            for row in rows:
                for item in template.residents:
                    grid.put(item.shape, row, item.count)
            for row, starting in zip(rows, view.starting, strict=False):
                self.starting[row] = starting
                for digest in carried.get(starting, ()):
                    grid.put(shape_of(self.state, self.index, digest), row)
                if starting in carried:  # what it was ordered for has its place
                    rows = [other for other in rows if other != row]
            opened = self.state.open.get(name)
            loads = _last(opened.loads if opened is not None else [], len(rows))
            position = 0
            for load in loads:
                for row in rows[position : position + load.nodes]:
                    for digest, pods in sorted(load.pods.items()):
                        for demand in (pool, booked):
                            pods -= move(grid, demand, digest, row, pods)
                        if pods:
                            self.covering.setdefault(by_row[row], {})[digest] = pods
                position += load.nodes

    def _expect(self, grid: Grid, pool: dict[str, Demand]) -> None:
        """Room for pods that are about to come, behind all that wait: where requests have left some for those, too."""
        if self.expecting.shares:
            if any(isinstance(decision, PlanScaleUp) for decision in self.decisions):
                place_all(grid, pool)
            coming_room.place(self.expecting.shares, grid, self.covering)

    def _take_back(self, grid: Grid) -> None:
        """Orders for pods that do not come, as far as nobody else has a use for their nodes."""
        missed = [d for d in self.decisions if isinstance(d, RecordObjectEvent) and d.reason == DID_NOT_COME]
        keys = [owner_key(d.target.kind, d.target.namespace, d.target.name) for d in missed]
        foreseen = [self.state.foreseen[key] for key in keys if key in self.state.foreseen]
        plans = {plan for one in foreseen for plan in (one.plan, *one.earlier)}
        ordering = {i.group for d in self.decisions if isinstance(d, PlanScaleUp) for i in d.increases}
        self.decisions += TakingBack(self.state, self.index, self.view, grid).of(plans, ordering)

    # --- When to look again ---

    def _next(self, unplaced: bool) -> None:
        if unplaced or self.state.open or self.orders.made > self.orders.thought:
            self.dues.append(self.now + STALENESS_S)
        future = [due for due in self.dues if due > self.now]
        if future:
            self.decisions.append(SetTimer(at=self.now, key=EVALUATE, due=min(future)))
        elif self.state.due is not None:
            self.decisions.append(CancelTimer(at=self.now, key=EVALUATE))


def room_of(state: State, now: float) -> Room:
    """Where what is not there yet finds room, as scale-down asks for it, as of a time."""
    index = index_of(state)
    comes = shares.expected(state, index, now).shares
    if index.waiting or index.nominated or state.requests or state.held or room.shapes_of(state) or comes:
        return Evaluation(state, f"{now:.6f}", binding=False, now=now).room()
    settle(state, index, ())
    if not on_their_way.under_way(state):
        return Room(index.grid)
    grid = index.grid.fork()
    return Room(grid, on_their_way.hold(state, index, grid, now))


def _claiming(state: State, index: Index) -> list[str]:
    """Shapes that this evaluation may place, and that refer to objects."""
    asked = {state.pods[key].shape for key in index.waiting}
    asked |= {digest for request in state.requests.values() for digest, _ in request.sets}
    asked |= room.shapes_of(state)
    known = (d for d in asked if d in state.shapes)
    return sorted(
        d
        for d in known
        if has_claims(state.shapes[d].scheduling, state.shapes[d].requests) or index.claims.follows_for(d)
    )


def _counted(state: State, index: Index, waiting: Iterable[tuple[PodKey, Pod]]) -> dict[str, Demand]:
    """Pods by shape, in the order of first appearance."""
    demands: dict[str, Demand] = {}
    for _, pod in waiting:
        demand = demands.get(pod.shape)
        if demand is None:
            demand = demands[pod.shape] = Demand(shape_of(state, index, pod.shape), 0)
        demand.count += 1
    return demands


def _last(loads: Sequence[Load], nodes: int) -> list[Load]:
    """The loads of the last `nodes` nodes: those that came were the first ones ordered."""
    latest: list[Load] = []
    for load in reversed(loads):
        if nodes <= 0:
            break
        latest.append(Load(min(nodes, load.nodes), load.pods))
        nodes -= load.nodes
    return latest[::-1]
