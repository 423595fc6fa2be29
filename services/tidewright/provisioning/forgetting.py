"""What nobody refers to any longer is forgotten, so that the state is as large as the cluster, not as its past.

A shape is kept while the watcher says that some pod has it, and while a pod or a pod set of a request does.
Logs of watchers that never said the end of one keep it, as before. What runs out with time goes with the
next evaluation. All of it follows from the events alone. See docs/decisions/0026-shapes-end.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.provisioning import backoff
from tidewright.provisioning.index import Index
from tidewright.provisioning.indexing import count_sets, index_of
from tidewright.provisioning.state import Request, State

_HALVINGS = 32
"""After so many half-lives a learnt limit says nothing, whatever the size of the group: sizes are 32 bits."""


def untell_shape(state: State, digest: str) -> None:
    """No pod has a shape any longer, says the watcher."""
    fields = state.shapes.get(digest)
    if fields is not None:
        state.shapes[digest] = msgspec.structs.replace(fields, told=False)
        forget_shape(state, digest)


def forget_shape(state: State, digest: str) -> None:
    """Forget a shape, if it is neither told of nor had by anybody."""
    fields = state.shapes.get(digest)
    if fields is not None and fields.told:
        return
    index = index_of(state)
    if digest in index.uses:
        return
    state.shapes.pop(digest, None)
    state.declined.pop(digest, None)
    for one in (digest, *index.pinned.pop(digest, ())):
        index.shapes.pop(one, None)
        index.grid.drop_shape(one)
    index.seats.pop(digest, None)
    index.claims.forget(digest, wholly=True)


def set_sets(state: State, request: Request, sets: Iterable[tuple[str, int]]) -> None:
    """The pod sets of a request are these from now on; none when it is forgotten."""
    index: Index = index_of(state)
    before, request.sets = request.sets, tuple(sets)
    count_sets(index, request.sets, 1)
    count_sets(index, before, -1)
    for digest, _ in before:
        forget_shape(state, digest)


def run_out(state: State) -> None:
    """Forget what no longer counts by now: plans that are over, old failures of groups, limits learnt long ago."""
    settings, now = index_of(state).settings, state.now
    state.executions = {
        name: execution
        for name, execution in state.executions.items()
        if not execution.over or any(name in found.plans for found in state.open.values())
    }
    state.backoff = {
        name: entry
        for name, entry in state.backoff.items()
        if not backoff.stale(entry, now, settings.group_backoff_reset_s) or backoff.backed_off(entry, now)
    }
    state.learnt = {
        name: found
        for name, found in state.learnt.items()
        if now - found.at < _HALVINGS * settings.learnt_half_life_s
    }
