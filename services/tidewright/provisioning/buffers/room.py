"""Room for chunks: taken when everybody else has theirs, ordered where there is none, and what buffers hold where. Spec 5, [B4].

Chunks are counted over shapes. They come last in the one order of room, whatever their priority; among themselves the
higher priority comes first, then the older buffer. Each keeps the place that it had while it is still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.events.base import Because, Decision, JsonObject
from tidewright.events.provisioning import AttemptRequest, FillBuffer, GroupVerdict, PlanScaleUp
from tidewright.kube.keys import BufferKey, ObjectKey, RequestKey, key_of, namespace_of, parts, request_key
from tidewright.kube.podshape import PODS
from tidewright.kube.podspecs import scheduling_fields
from tidewright.kube.predicates import counted_alone
from tidewright.provisioning.buffers import bursts
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers.extras import FOR
from tidewright.provisioning.buffers.injection import BufferStanding, BufferTemplate, inject
from tidewright.provisioning.buffers.placeholders import arranged, possible
from tidewright.provisioning.buffers.reports import reports
from tidewright.provisioning.buffers.work import BufferWork, Wanted
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import resolved, shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pending.helped import expendable
from tidewright.provisioning.scaleup.orders import Orders, ordered_plan, verdicts_of
from tidewright.provisioning.scaleup.plans import Plan, World
from tidewright.provisioning.scaleup.rounds import enact, plan_all
from tidewright.provisioning.state import ShapeFields, State
from tidewright.provisioning.tell.sentences import because, not_triggered_message

MOST_PLACES = 5000
"""Places that are recorded of one buffer: a message has a largest size. Chunks beyond them are placed anew each time."""


class Filling(msgspec.Struct):
    """What room a buffer's chunks have.

    Attributes:
        ready: node that is there to chunks.
        upcoming: chunks on nodes that are on their way.
        missing: chunks without a place; `why`, and what each group would say to it.
        spared: of them those that are not ordered, since pods wait that they are for.
    """

    ready: dict[str, int] = {}
    upcoming: int = 0
    missing: int = 0
    spared: int = 0
    why: str = ""
    verdicts: tuple[GroupVerdict, ...] = ()


Fillings = dict[BufferKey, Filling]


def held(state: State) -> dict[str, dict[str, int]]:
    """What buffers hold where: node to shape to the chunks that have their room on it, as it was last decided.

    A chunk is a pod that wants a place and has this one: who empties a node finds it another, and nobody has to be
    evicted for it. Shapes are those of `State.shapes`.
    """
    nodes: dict[str, dict[str, int]] = {}
    for key in sorted(state.buffers):
        buffer = state.buffers[key]
        for node, chunks in buffer.places.items() if buffer.shape else ():
            there = nodes.setdefault(node, {})
            there[buffer.shape] = there.get(buffer.shape, 0) + chunks
    return nodes


def gather(state: State, index: Index, grid: Grid) -> None:
    """Put chunks where they can stay when nodes go: for scale-down, to which a node with nothing but chunks is empty.

    That is: beside pods first, then where most of them are already; on as few nodes as will do. They stay where they are
    until a node really goes, and then find this room.
    """
    many = Counter({node: sum(shapes.values()) for node, shapes in held(state).items()})
    fullest = sorted(many, key=lambda node: (-many[node], node))
    ordered = (key for key, buffer in state.buffers.items() if buffer.shape and buffer.places)
    for key in sorted(ordered, key=lambda key: (state.buffers[key].created_at, key)):
        buffer = state.buffers[key]
        shape, chunks = shape_of(state, index, buffer.shape), sum(buffer.places.values())
        if not counted_alone(shape):  # where one may go depends on where the others are
            for node, there in buffer.places.items():
                if node in grid.rows:
                    grid.put(shape, grid.rows[node], there)
            continue
        chunks -= grid.place_at(shape, chunks, dict.fromkeys(index.busy, chunks))
        for node in fullest:
            chunks -= grid.place_at(shape, chunks, {node: chunks}) if chunks else 0
        if chunks:
            grid.place_tightly(shape, chunks)


def want(work: BufferWork) -> None:
    """Find out whose chunks take room, and say of the others why not."""
    for key in work.mine:
        status = work.status_of(key)
        standing = BufferStanding(
            strategy=status.strategy,
            conditions=work.conditions_of(key),
            template=status.template,
            generation=status.generation,
            replicas=status.replicas if work.window_of(key).open else 0,
        )
        found = inject(standing, _template(work, key, status.template))
        if found is None or work.held_alone(key):
            continue
        condition = found.condition
        if found.chunks:
            wanted = _wanted(work, key, status.template, found.chunks)
            if wanted.shape.error:
                condition = cond.no_chunks(wanted.shape.error)
            else:
                work.wanted[key] = wanted
        work.put(key, condition)


def _template(work: BufferWork, key: BufferKey, name: str) -> Mapping[str, BufferTemplate]:
    if key in work.assumed:
        return {name: BufferTemplate(0, work.assumed[key])}
    state, where = work.state, key_of(namespace_of(key), name)
    content, meta = state.templates.get(where), state.template_meta.get(where)
    if content is None:
        return {}
    return {name: BufferTemplate(meta.generation if meta is not None else 0, content)}


def _wanted(work: BufferWork, key: BufferKey, template: str, chunks: int) -> Wanted:
    namespace = namespace_of(key)
    content = work.assumed.get(key) or work.state.templates[key_of(namespace, template)]
    spec: JsonObject = content.get("spec") or {}
    known = work.state.objects.get("PriorityClass", {}).get(str(spec.get("priorityClassName")))
    shape = work.shape_of(key, "room", content, known)
    scheduling = scheduling_fields(spec) if not shape.error else {}
    fields = ShapeFields(
        requests={name: amount for name, amount in shape.requests.items() if name != PODS},
        scheduling=scheduling,
        namespace=namespace,
        labels=shape.labels,
        priority=shape.priority,
    )
    return Wanted(resolved(work.index, shape, scheduling), chunks, msgspec.to_builtins(fields))


def _in_order(work: BufferWork) -> list[BufferKey]:
    """[B9]: by priority, age, namespace and name."""
    return sorted(
        work.wanted,
        key=lambda key: (-work.wanted[key].shape.priority, work.state.buffers[key].created_at, key),
    )


def place(work: BufferWork, world: World) -> Fillings:
    """Give chunks the room that is left on nodes that are there, or on their way.

    All keep the places that they had. Only where one that comes first would lack room for that, it chooses first.
    """
    if not work.wanted:
        return {}
    trial = world.grid.fork()
    fillings = _placed(work, trial, stay=True)
    if _unfair(work, fillings):
        trial = world.grid.fork()
        fillings = _placed(work, trial, stay=False)
    world.grid = trial
    cutoff = work.settings.expendable_cutoff
    for key, filling in fillings.items():
        priority = work.wanted[key].shape.priority
        if filling.missing and expendable(priority, cutoff):
            filling.why = f"its priority {priority} is below expendable-pods-priority-cutoff ({cutoff})"
    return fillings


def _placed(work: BufferWork, grid: Grid, *, stay: bool) -> Fillings:
    fillings: Fillings = {key: Filling(missing=work.wanted[key].chunks) for key in work.wanted}
    cutoff = work.settings.expendable_cutoff
    order = [key for key in _in_order(work) if not expendable(work.wanted[key].shape.priority, cutoff)]
    for key in order if stay else ():
        _take(work, grid, key, fillings[key], work.state.buffers[key].places)
    for key in order:
        if not stay:
            _take(work, grid, key, fillings[key], work.state.buffers[key].places)
        _take(work, grid, key, fillings[key], None)
    return fillings


def _take(
    work: BufferWork, grid: Grid, key: BufferKey, filling: Filling, places: Mapping[str, int] | None
) -> None:
    """Room for what a buffer still lacks: on these nodes; None: anywhere."""
    shape = work.wanted[key].shape
    if not filling.missing or (places is not None and not places):
        return
    before = dict(grid.where.get(shape.digest, {}))
    if places is None:
        filling.missing -= grid.place_tightly(shape, filling.missing)
    else:
        filling.missing -= grid.place_at(shape, filling.missing, places)
    for row, pods in grid.where.get(shape.digest, {}).items():
        _count(work.state, grid, filling, row, pods - before.get(row, 0))


def _unfair(work: BufferWork, fillings: Fillings) -> bool:
    """Whether a buffer lacks room that one after it has."""
    lacking = False
    for key in _in_order(work):
        filling = fillings[key]
        if lacking and (filling.ready or filling.upcoming):
            return True
        lacking = lacking or bool(filling.missing)
    return False


def _count(state: State, grid: Grid, filling: Filling, row: int, chunks: int) -> None:
    view = grid.views[row]
    if chunks <= 0 or view is None:
        return
    if view.name in state.nodes:
        filling.ready[view.name] = filling.ready.get(view.name, 0) + chunks
    else:
        filling.upcoming += chunks


def lacking(work: BufferWork, fillings: Fillings) -> list[BufferKey]:
    """Buffers for whose chunks nodes are to be ordered, in their order; others say why not."""
    order = [
        key
        for key in _in_order(work)
        if fillings[key].missing and (fillings[key].spared or not fillings[key].why)
    ]
    less = bursts.spared(work.state, work.index, ((key, fillings[key].missing) for key in order))
    for key, chunks in less.items():
        fillings[key].spared = chunks
        fillings[key].why = bursts.why(work.state, key, chunks)
    return [key for key in order if fillings[key].missing > less.get(key, 0)]


def asked(work: BufferWork, fillings: Fillings, keys: Iterable[BufferKey]) -> list[Item]:
    """What nodes are to be ordered for, by shape."""
    items: dict[str, Item] = {}
    for key in keys:
        shape = work.wanted[key].shape
        before = items.get(shape.digest)
        count = fillings[key].missing - fillings[key].spared + (before.count if before is not None else 0)
        items[shape.digest] = Item(shape, count)
    return list(items.values())


def order(work: BufferWork, fillings: Fillings, world: World, orders: Orders) -> list[Decision]:
    """Order nodes for the chunks that have no place, and say to whom that happened, and to whom not."""
    keys = lacking(work, fillings)
    if not keys:
        return []
    items = asked(work, fillings, keys)
    plan = plan_all(items, world, redistribute=work.settings.hold)
    decisions: list[Decision] = []
    placed = share(work, fillings, keys, {i.shape.digest: n for i, n in zip(items, plan.placed, strict=True)})
    if plan.targets:
        made = ordered_plan(orders, plan, world, pods=(), why=[why_ordered(items, keys)])
        decisions += [for_buffers(decision, placed) for decision in made]
        enact(world, plan, {item.shape.digest: item.shape for item in items})
    return [*decisions, *said(work, fillings, plan, [item.shape.digest for item in items], placed=placed)]


def why_ordered(items: Iterable[Item], keys: Sequence[BufferKey]) -> Because:
    return because("ChunksLacking", chunks=sum(i.count for i in items), buffers=", ".join(keys[:5]))


def said(
    work: BufferWork,
    fillings: Fillings,
    plan: Plan,
    digests: Sequence[str],
    *,
    placed: Mapping[str, int],
) -> list[Decision]:
    """What is told of a plan to the buffers that it is for, and to those that it does not help.

    Args:
        work: the buffers.
        fillings: their room, with the plan.
        plan: the plan.
        digests: its items.
        placed: whose chunks it places.
    """
    keys = [key for key in _in_order(work) if work.wanted[key].shape.digest in digests]
    helpless = [key for key in keys if fillings[key].missing > fillings[key].spared]
    for key in helpless:
        filling = fillings[key]
        reasons = plan.why_not(digests.index(work.wanted[key].shape.digest))
        filling.why = plan.event or not_triggered_message(reasons).partition(": ")[2]
        filling.verdicts = verdicts_of(reasons, plan)
    increases = {str(t.group): f"{t.from_size}->{t.size} (max: {t.max_size})" for t in plan.targets}
    told = reports(
        placed=placed,
        lacking={key: f.missing - f.spared for key in helpless if _news(work, key, f := fillings[key])},
        increases=increases,
        why={key: fillings[key].why for key in helpless},
        silent=False,
    )
    return [work.event(BufferKey(ObjectKey(r.buffer)), r.reason, r.message) for r in told]


def for_buffers(decision: Decision, placed: Mapping[str, int]) -> Decision:
    """A plan says whose chunks it is for."""
    if not isinstance(decision, PlanScaleUp):
        return decision
    return msgspec.structs.replace(decision, buffers=tuple(sorted(placed.items())))


def share(
    work: BufferWork, fillings: Fillings, keys: Sequence[BufferKey], placed: dict[str, int]
) -> dict[str, int]:
    """Chunks that a plan places, to the buffers in their order: whose they are."""
    shares: dict[str, int] = {}
    for key in keys:
        digest, filling = work.wanted[key].shape.digest, fillings[key]
        mine = min(placed[digest], filling.missing - filling.spared)
        if mine:
            placed[digest] -= mine
            filling.missing -= mine
            filling.upcoming += mine
            shares[key] = mine
    return shares


def _news(work: BufferWork, key: BufferKey, filling: Filling) -> bool:
    """Whether what keeps chunks from a place is another than was recorded last."""
    buffer = work.state.buffers[key]
    return bool(filling.missing) and (not buffer.missing or why_of(filling.verdicts) != buffer.why)


def why_of(verdicts: Sequence[GroupVerdict]) -> str:
    """Reasons in the form in which they are remembered."""
    return "; ".join(f"{verdict.group}: {verdict.reason}" for verdict in verdicts)


def tell(work: BufferWork, fillings: Fillings) -> list[Decision]:
    """Record where the chunks are, of buffers of which that has changed, and say it in their conditions."""
    decisions: list[Decision] = []
    for key in work.mine:
        buffer, wanted, filling = work.state.buffers[key], work.wanted.get(key), fillings.get(key)
        if wanted is None or filling is None:
            work.drop(key, cond.CAPACITY_READY)
            if buffer.shape or buffer.wanted:
                decisions.append(_filled(work, key, None, Filling()))
            continue
        ready = sum(filling.ready.values())
        unheld = possible(work.state, work.settings) if work.settings.hold else ""
        condition = cond.capacity(ready, wanted.chunks, filling.upcoming, filling.missing, filling.why)
        if unheld:
            condition = msgspec.structs.replace(
                condition, message=f"{condition.message}; the room is not held against other pods: {unheld}"
            )
        work.put(key, condition)
        before = (
            buffer.shape, buffer.wanted, buffer.places, buffer.ready, buffer.upcoming, buffer.missing, buffer.why,
        )  # fmt: skip
        now = (
            wanted.shape.digest, wanted.chunks, filling.ready, ready, filling.upcoming, filling.missing,
            why_of(filling.verdicts),
        )  # fmt: skip
        if before != now:
            decisions.append(_filled(work, key, wanted, filling))
    return decisions


def _filled(work: BufferWork, key: BufferKey, wanted: Wanted | None, filling: Filling) -> FillBuffer:
    buffer = work.state.buffers[key]
    namespace, name = parts(key)
    digest = wanted.shape.digest if wanted is not None else ""
    new = wanted is not None and (digest != buffer.shape or digest not in work.state.shapes)
    ready = sum(filling.ready.values())
    chunks = wanted.chunks if wanted is not None else 0
    why = [
        because(
            "ChunksPlaced", ready=ready, chunks=chunks, upcoming=filling.upcoming, missing=filling.missing
        )
    ]
    if filling.spared:
        why.append(because("ChunksSpared", chunks=filling.spared, pods=buffer.annotations.get(FOR, "")))
    if filling.why and filling.missing > filling.spared:
        why.append(because("ChunksMissing", missing=filling.missing - filling.spared, why=filling.why))
    return FillBuffer(
        at=work.now,
        namespace=namespace,
        name=name,
        uid=buffer.uid,
        shape=digest,
        fields=wanted.fields if wanted is not None and new else {},
        replicas=chunks,
        places=dict(sorted(filling.ready.items())[:MOST_PLACES]),
        ready=ready,
        upcoming=filling.upcoming,
        missing=filling.missing,
        verdicts=filling.verdicts,
        because=tuple(why),
    )


def lent(work: BufferWork, fillings: Fillings, attempts: Iterable[AttemptRequest]) -> dict[RequestKey, str]:
    """[B4]: requests that have found room where buffers had theirs, with the names of those."""
    lenders: dict[str, list[str]] = {}
    for key, filling in fillings.items():
        for node, chunks in work.state.buffers[key].places.items():
            if filling.ready.get(node, 0) < chunks:
                lenders.setdefault(node, []).append(key)
    found: dict[RequestKey, str] = {}
    for attempt in attempts if lenders else ():
        nodes = {node for places in attempt.places.values() for node in places}
        names = sorted({name for node in nodes for name in lenders.get(node, ())})
        if names:
            found[request_key(attempt.namespace, attempt.name)] = ", ".join(names)
    return found


def hold(work: BufferWork, fillings: Fillings) -> list[Decision]:
    """[B3]: pods that hold the chunks' room against others, in the profile `hold`, are made and taken away."""
    if not work.state.held_chunks and not (work.settings.hold and fillings):
        return []
    return arranged(work, {key: filling.ready for key, filling in fillings.items()})


def shapes_of(state: State) -> set[str]:
    """The shapes of all chunks that take room."""
    return {buffer.shape for buffer in state.buffers.values() if buffer.shape}
