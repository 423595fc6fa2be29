"""What consolidation remembers: of nodes and pods that come and go, and of what it decided. Without its setting nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.events import provisioning as p
from tidewright.kube.keys import PodKey, namespace_of
from tidewright.provisioning.consolidation.arrivals import came
from tidewright.provisioning.consolidation.kept import (
    BEGIN_S,
    MOVED_REST_S,
    REMEMBERED_S,
    Proposal,
    Replacement,
)
from tidewright.provisioning.consolidation.spot import is_spot
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.state import Node, Pod, State, owner_key

STAMP_S = 1.0
"""API servers give times in whole seconds: a pod that is made later may seem to be older by so much."""


SETTING = "consolidation"


def _on(state: State) -> bool:
    """Whether the configuration on the log names it: what that means is judged elsewhere."""
    return SETTING in state.config


# --- Facts ---


def pod_seen(state: State, key: PodKey, pod: Pod, old: Pod | None) -> None:
    """A pod was told of; `old` is what was known of it."""
    if pod.daemon or not _on(state):
        return
    kept = state.consolidating
    if old is None or old.node != pod.node:
        _stirred(state, pod.node)
        if old is not None:
            _stirred(state, old.node)
    if old is not None and old.uid == pod.uid:
        return
    kept.moved.pop(key, None)
    if pod.controller is not None and kept.awaited:
        whose = owner_key(pod.controller.kind, namespace_of(key), pod.controller.name)
        asked = kept.awaited.get(whose, [])
        if asked and asked[0] <= pod.created_at + STAMP_S:
            asked.pop(0)
            if not asked:
                del kept.awaited[whose]
            kept.moved[key] = state.now


def pod_left(state: State, key: PodKey, pod: Pod) -> None:
    """A pod is no longer there."""
    state.consolidating.moved.pop(key, None)
    if not pod.daemon and _on(state):
        _stirred(state, pod.node)


def _stirred(state: State, node: str) -> None:
    if node in state.nodes:
        state.consolidating.stirred[node] = state.now


def node_gone(state: State, name: str, node: Node) -> None:
    """A node is no longer there; one of spot capacity that nobody here removed was taken away."""
    kept = state.consolidating
    kept.stirred.pop(name, None)
    kept.took.pop(name, None)
    kept.given_up.pop(name, None)
    ours = node.doomed or name in state.removals
    if node.group and not ours and is_spot(node.labels) and _on(state):
        known = kept.revoked.get(node.group, [])
        kept.revoked[node.group] = [at for at in known if at + REMEMBERED_S > state.now] + [state.now]


# --- Decisions ---


def room_taken(state: State, nodes: dict[str, int], before: dict[str, int]) -> None:
    """Room for a request or a buffer is on these nodes: so many pods on each."""
    if _on(state):
        for name, pods in nodes.items():
            if name in state.nodes and pods > before.get(name, 0):
                state.consolidating.took[name] = state.now


def evicted(state: State, key: PodKey, pod: Pod, now: float) -> None:
    """A pod is asked to leave a node that goes: the one that is made in its place is not to be moved again soon."""
    if not _on(state) or pod.daemon or pod.controller is None:
        return
    kept = state.consolidating
    kept.awaited = {
        whose: late
        for whose, asked in kept.awaited.items()
        if (late := [at for at in asked if at + MOVED_REST_S > now])
    }
    kept.moved = {pod: at for pod, at in kept.moved.items() if at + MOVED_REST_S > now}
    whose = owner_key(pod.controller.kind, namespace_of(key), pod.controller.name)
    kept.awaited.setdefault(whose, []).append(now)


def removal_begun(state: State, node: str, now: float) -> None:
    """A node goes: where it is being replaced, what replaces it stands."""
    for replacement in state.consolidating.replacements:
        if node in replacement.nodes:
            replacement.begun.append(node)
            replacement.until = now + BEGIN_S


def forget(state: State) -> None:
    """Drop what was under way when the service was held back."""
    state.consolidating.proposals, state.consolidating.replacements = [], []


def proposed(state: State, event: p.ProposeReplacement, _touched: Touched) -> None:
    kept = state.consolidating
    kept.proposals = [] if event.instead is None else _without(kept.proposals, event.instead)
    if event.nodes:
        kept.proposals.append(Proposal(event.nodes, dict(sorted(event.groups.items())), event.at))


def _without(proposals: Sequence[Proposal], nodes: Sequence[str]) -> list[Proposal]:
    """Those that are about none of these nodes."""
    return [proposal for proposal in proposals if not set(proposal.nodes) & set(nodes)]


def begun(state: State, event: p.ReplaceNodes, _touched: Touched) -> None:
    kept = state.consolidating
    kept.proposals = _without(kept.proposals, event.nodes)
    kept.replacements.append(
        Replacement(
            decision=event.id,
            plan=event.plan,
            nodes=dict(zip(event.nodes, event.uids, strict=True)),
            groups=dict(sorted(event.groups.items())),
            begun_at=event.at,
            until=event.at + event.wait_s,
            before_micro=event.before_micro,
            after_micro=event.after_micro,
        )
    )


def ended(state: State, event: p.EndReplacement, _touched: Touched) -> None:
    kept = state.consolidating
    left = [one for one in kept.replacements if one.decision != event.replacement]
    if len(left) == len(kept.replacements):
        return
    came_for_it = came(state)[event.replacement]
    for one in left:
        one.past += came_for_it
    kept.replacements = left
    if event.reason:
        there = {name: event.at for name in event.nodes if name in state.nodes}
        state.consolidating.given_up.update(there)
