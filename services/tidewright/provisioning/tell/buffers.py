"""What is told about CapacityBuffers: how one stands, and its series. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidewright.kube.conditions import find, parse
from tidewright.kube.keys import BufferKey, parts
from tidewright.kube.times import readable
from tidewright.provisioning import holding
from tidewright.provisioning.buffers import bursts, extras, gauge
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers.kept import Buffer
from tidewright.provisioning.buffers.spec import ours, strategy_of
from tidewright.provisioning.buffers.work import known
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding, room

HELP = {
    "cluster_autoscaler_capacity_buffer_oldest_reconciliation_timestamp_seconds": "Of the buffers that are served here the oldest last look at one; of new ones (`new_buffer` true) the oldest creation.",
    "tidewright_provisioning_buffer_chunks": "Chunks of a buffer: wanted, ready (they have room on ready nodes), upcoming and missing.",
    "tidewright_provisioning_buffer_filled_seconds": "From the first chunk of a buffer without room on a ready node to all of them having it.",
}
MOST = 10
"""Nodes that are named."""


def aggregate(state: State, key: BufferKey) -> Mapping[str, object] | None:
    """A buffer with what belongs to it."""
    buffer = state.buffers.get(key)
    if buffer is None:
        return None
    held = {name: chunk for name, chunk in state.held_chunks.items() if chunk.buffer == key}
    return {"buffer": buffer, "shape": state.shapes.get(buffer.shape), "placeholders": held}


def standing(state: State, key: BufferKey) -> Sequence[str]:
    """What a buffer has, what it lacks, and why."""
    buffer = state.buffers.get(key)
    if buffer is None:
        return ()
    settings = index_of(state).settings
    if buffer.deleting:
        return ("It is being deleted: no room is kept for it any more.",)
    if not settings.buffers:
        return ("Buffers are left alone: capacity-buffer-pod-injection-enabled is false.",)
    if not ours(strategy_of(buffer.spec)):
        return (
            f"Its strategy {strategy_of(buffer.spec)} is another controller's: nothing is done about it here.",
        )
    held = holding.of_buffer(state, key)
    back = [] if held.acts else [f"It is held back ({held.mode}): {held.why}."]
    said = [*_shape(buffer), *_conditions(buffer), *_window(state, buffer), *_room(state, key, buffer)]
    return folding.once([*back, *said])


def _shape(buffer: Buffer) -> Iterator[str]:
    answer = buffer.resolution
    if buffer.asked:
        yield "Admission is asked what a chunk of it is like; what was answered before holds until then."
    if answer is not None and answer.live:
        yield "The newest running pod of its workload is the model of a chunk."
    if answer is not None and answer.unasked:
        yield "Nobody may ask admission what a chunk is like: its template alone says so."
    if answer is not None and answer.error:
        yield f"The question of {readable(answer.at)} UTC what a chunk is like was refused: {answer.error}."


def _conditions(buffer: Buffer) -> Iterator[str]:
    conditions = parse(known(buffer).get("conditions"))
    for kind in (cond.READY, cond.PROVISIONING):
        condition = find(conditions, kind)
        if condition is not None and condition.status == "False":
            yield f"{condition.message}."
    limited = find(conditions, cond.LIMITED)
    if limited is not None and limited.status == "True":
        yield f"{limited.message}."


def _window(state: State, buffer: Buffer) -> Iterator[str]:
    """When it wants its chunks, where that is not always."""
    said = extras.readable(buffer.annotations)
    if said.wrong:
        yield f"No room is kept for it: {said.wrong}."
        return
    now = said.standing(state.now)
    until = "" if now.until is None else f" until {readable(now.until)} UTC"
    if not now.open:
        yield f"It is outside the windows of its annotation {extras.SCHEDULE}{until}: no room is kept for it."
    elif until:
        yield f"Its window of {extras.SCHEDULE} is open{until}."


def _room(state: State, key: BufferKey, buffer: Buffer) -> Iterator[str]:
    if not buffer.shape:
        return
    nodes = ", ".join(f"{node} ({chunks})" for node, chunks in list(buffer.places.items())[:MOST])
    more = f" and {len(buffer.places) - MOST} nodes more" if len(buffer.places) > MOST else ""
    where = f": {nodes}{more}" if nodes else ""
    yield f"{buffer.ready} of {buffer.wanted} chunks have room on ready nodes{where}."
    if buffer.upcoming:
        yield f"{buffer.upcoming} have room on nodes that are on their way."
    if buffer.missing:
        yield from missing(state, key, buffer)
    held = sum(
        not chunk.leaving and chunk.refused_at is None
        for chunk in state.held_chunks.values()
        if chunk.buffer == key
    )
    if held:
        yield f"{held} of them are held by placeholders, which any ordinary pod displaces."


def missing(state: State, key: BufferKey, buffer: Buffer) -> Iterator[str]:
    """Why chunks have no room: pods that come first, groups that cannot grow, and who keeps the room that they would have."""
    index = index_of(state)
    spared = bursts.spared(state, index, [(key, buffer.missing)]).get(key, 0)
    if spared:
        yield f"{bursts.why(state, key, spared)}."
    rest = buffer.missing - spared
    if not rest:
        return
    nobody = "no group can take them" if state.groups else "no node group is known"
    yield f"{rest} have no room: {buffer.why or nobody}."
    lacking = room.lack(state, (Item(shape_of(state, index, buffer.shape), rest),), buffer=key)
    yield from lacking.sentences
    yield from room.more_nodes(state, lacking, would="all its chunks would have room")


def series(state: State) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """The series of `HELP`, but for the histogram."""
    name = "cluster_autoscaler_capacity_buffer_oldest_reconciliation_timestamp_seconds"
    looked_at = state.buffers_looked_at
    watched = [
        gauge.Watched(b.uid, strategy_of(b.spec), b.created_at, bool(known(b).get("conditions")))
        for b in state.buffers.values()
    ]
    looks = {b.uid: looked_at for b in state.buffers.values() if 0.0 < b.seen_at <= looked_at}
    found = gauge.oldest(watched, looks, state.now)
    yield name, {"new_buffer": "true"}, found.new
    yield name, {"new_buffer": "false"}, found.known
    for key in sorted(state.buffers):
        buffer = state.buffers[key]
        if not ours(strategy_of(buffer.spec)):
            continue
        namespace, buffer_name = parts(key)
        for word, count in (
            ("wanted", buffer.wanted),
            ("ready", buffer.ready),
            ("upcoming", buffer.upcoming),
            ("missing", buffer.missing),
        ):
            labels = {"namespace": namespace, "buffer": buffer_name, "state": word}
            yield "tidewright_provisioning_buffer_chunks", labels, float(count)
