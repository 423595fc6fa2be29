"""What nobody refers to any longer is forgotten, so that the state is as large as the cluster, not as its past.

A shape is kept while the watcher says that some pod has it, and while a pod or a pod set of a request does.
Logs of watchers that never said the end of one keep it, as before. What has ended goes when the
evaluation timer fires. All of it follows from the events alone. See docs/decisions/0026-shapes-end.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.provisioning.foresight.wanted import all_there
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import count_sets, counting_of, index_of
from tidewright.provisioning.state import Request, State

MOST_UNREAD = 1000
"""Of so many workloads of a kind it is remembered that they were told to be unreadable."""


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
    for variant in (digest, *index.pinned.pop(digest, ())):
        index.shapes.pop(variant, None)
        index.grid.drop_shape(variant)
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


def forget_ended(state: State) -> None:
    """Forget plans that are over, and failures of groups for which the time is over that was recorded with them."""
    state.executions = {
        name: execution
        for name, execution in state.executions.items()
        if not execution.over or any(name in opened.plans for opened in state.open.values())
    }
    for group, failure in list(state.backoff.items()):
        if failure.ended(state.now):
            del state.backoff[group]
            if group not in state.groups:
                forget_limit(state, group)


def forget_come(state: State) -> None:
    """Forget what was ordered for pods that are all there by now, also where their workload never says so."""
    if not state.foreseen:
        return
    counting = counting_of(state)
    for key, foreseen in list(state.foreseen.items()):
        workload = state.workloads.get(key)
        if workload is None or foreseen.undone or workload.refused or key in state.scalings:
            continue
        if counting.top(key) == key and all_there(
            key.partition("/")[0], workload, counting.standing(state, key)
        ):
            del state.foreseen[key]


def told_unread(state: State, kind: str) -> list[str]:
    """Workloads of a kind of which it was told that they cannot be read, by `owner_key`, those first that were told of first."""
    return [key for key in state.said if key.startswith(f"{kind}/") and key not in state.workloads]


def forget_told_unread(state: State, kind: str) -> None:
    """Bound of how many that is remembered: that they are gone is not heard of either."""
    for key in told_unread(state, kind)[:-MOST_UNREAD]:
        del state.said[key]


def forget_limit(state: State, group: NodeGroupId) -> None:
    """Forget what the cloud said about its quota for a group that is gone, once its failures are forgotten."""
    if group not in state.backoff:
        state.learnt.pop(group, None)
