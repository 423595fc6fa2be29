"""Nodes on their way out, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidewright.kube.keys import PodKey
from tidewright.kube.times import readable
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown.removal.marking import drain_of
from tidewright.provisioning.scaledown.removal.saga import Leaving, Removal
from tidewright.provisioning.scaledown.removal.standing import movers
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

MOST = 5
"""Pods that are named."""


def of_node(state: State, name: str) -> list[str]:
    """How far the removal of a node has come, and what it waits for; nothing for a node that stays."""
    removal, node = state.removals.get(name), state.nodes.get(name)
    if removal is None:
        drain = drain_of(node) if node is not None else None
        if drain is None or (node is not None and node.doomed):
            return []
        return [f"It still carries our mark of {drain}, which is not under way: the mark comes off."]
    settings = index_of(state).settings
    began = f"It is being removed since {readable(removal.begun_at)}, by {removal.decision}"
    lines = [f"{began}: {_step(state, name, removal, settings)}."]
    return [*lines, *_pods(state, name, removal)]


def _step(state: State, name: str, removal: Removal, settings: Settings) -> str:
    if removal.deletion:
        return f"its instance is being deleted, by {removal.deletion}"
    if removal.failed:
        return f"it has failed ({removal.failed}), and is undone"
    if removal.marked_at is None:
        return "our taint is being set"
    if removal.held_at is None:
        return "our taint is set; the node itself has not been seen with it yet"
    settled = removal.held_at + settings.after_taint_s
    if state.now < settled:
        return f"it is left alone with its taint until {readable(settled)}"
    there = movers(state, index_of(state), name, state.now)
    if there:
        return f"{len(there)} pod{'s' * (len(there) != 1)} must leave first"
    delays = state.nodes[name].delays if name in state.nodes else ()
    if delays:
        return f"it is empty, and waits for {', '.join(delays)}"
    return "it is empty, and its instance is deleted next"


def _pods(state: State, name: str, removal: Removal) -> Iterator[str]:
    there = movers(state, index_of(state), name, state.now)
    for key in there[:MOST]:
        yield f"Pod {key}: {_pod(state, key, removal.pods.get(key))}."
    if len(there) > MOST:
        yield f"And {len(there) - MOST} more."


def _pod(state: State, key: PodKey, leaving: Leaving | None) -> str:
    if leaving is None or leaving.uid != state.pods[key].uid:
        return "not asked to leave yet: its turn has not come, or a disruption budget has no room"
    if leaving.order:
        return "is being asked to leave"
    if leaving.evicted_at is not None:
        return f"asked to leave at {readable(leaving.evicted_at)}, and is ending"
    return f"refused ({leaving.refused}) at {readable(leaving.refused_at)}; asked again at {readable(leaving.again_at)}"
