"""The index put right before an evaluation places anything: what claims come to by now, who sits where to be.

`settle` reads anew what facts have marked (see `claims`), all at once; `nominated` says which waiting pods
count as placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tidewright.kube.keys import PodKey
from tidewright.kube.volumes import ATTACHABLE
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import add_node, holds_room
from tidewright.provisioning.index.resolving import seat_of, shape_of
from tidewright.provisioning.state import Pod, State


def settle(state: State, index: Index, asking: Iterable[str]) -> None:
    """Put the index right after objects changed to which shapes refer, or which say what nodes offer.

    `asking` are the digests of shapes that an evaluation is going to place: they are resolved here, so
    that nodes are asked for what they ask for.
    """
    claims = index.claims
    asks = {*asking, *claims.prepared}
    _forget(index, asks)
    for digest in sorted(asks):
        if digest in state.shapes:
            shape_of(state, index, digest)
    claims.recall()
    while claims.stale_shapes:
        stale, claims.stale_shapes = sorted(claims.stale_shapes), set()
        for digest in stale:
            _read_anew(state, index, digest)
        claims.recall()
    nodes = state.nodes if claims.all_nodes else sorted(claims.stale_nodes)
    for name in nodes:
        if name in state.nodes:
            add_node(state, index, name, state.nodes[name])
    none = [n for n, column in index.grid.free.items() if n.startswith(ATTACHABLE) and not column.any()]
    index.grid.drop_columns(none)
    claims.all_nodes = False
    claims.stale_nodes.clear()
    if claims.offers.stale_common:
        index.grid.share(claims.offers.common())
        claims.offers.stale_common = False


def _forget(index: Index, asking: Set[str]) -> None:
    """Let go whom nobody asks for any longer: the index is to be as one that is built anew."""
    for digest in index.claims.users():
        if digest in asking:
            continue
        _forget_shape(index, digest)
        sits = bool(index.grid.where.get(digest))
        if not sits:
            index.grid.forget_shape(digest)
            index.seats.pop(digest, None)
        index.claims.forget(digest, wholly=not sits)


def _forget_shape(index: Index, digest: str) -> None:
    index.shapes.pop(digest, None)
    for pinned in index.pinned.pop(digest, set()):
        index.shapes.pop(pinned, None)
        index.grid.forget_shape(pinned)


def _read_anew(state: State, index: Index, digest: str) -> None:
    """Resolve a shape again; pods that are somewhere go on sitting there, and count as they do now."""
    was_known = index.shapes.pop(digest, None) is not None
    for pinned in index.pinned.pop(digest, set()):
        index.shapes.pop(pinned, None)
        index.grid.forget_shape(pinned)
    was = index.seats.pop(digest, None)
    if was is None and was_known and digest in index.grid.shapes:
        was = index.grid.shapes[digest]
    rows = dict(index.grid.where.get(digest, {}))
    for row, pods in rows.items():
        index.grid.put(was if was is not None else index.grid.shapes[digest], row, -pods)
    index.grid.forget_shape(digest)
    if digest not in state.shapes:
        return
    for row, pods in rows.items():
        index.grid.put(seat_of(state, index, digest), row, pods)
    if was_known:
        shape_of(state, index, digest)


def nominated(state: State, index: Index) -> dict[PodKey, Pod]:
    """Pods that count as being on the node that the scheduler has nominated for them. Spec 3.2, step 5.

    Their victims are on it still, so it may look overcommitted. One whose node is gone waits like any other.
    """
    pods = {key: state.pods[key] for key in index.nominated}
    return {
        key: pod
        for key, pod in pods.items()
        if pod.nominated in state.nodes and holds_room(state, index, pod.shape)
    }
