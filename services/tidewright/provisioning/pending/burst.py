"""When a burst of changes is over: what comes together is decided together.

A burst begins with the wake that sets the evaluation timer, or with the first one that finds it set for soon enough
by an evaluation of before. It is over when nothing has come for the quiet
window and the scheduler has tried all its pods, at the latest when it has lasted as long as bursts may.
"""

from __future__ import annotations

from tidewright.provisioning.index.index import Index
from tidewright.provisioning.state import State

CALM_S = 0.5
"""The quiet window while nodes go and nothing waits for room, or keeps any: each look whether a burst is over is a commit, which the
removals themselves would wait for. Where something comes to wait, the evaluation is as soon as ever."""


def quiet_s(state: State, index: Index) -> float:
    """How long no other change must come before a burst is over."""
    kept = state.requests or state.buffers or state.held or state.held_chunks
    calm = state.removals and not (index.waiting or kept)
    return max(index.settings.quiet_s, CALM_S) if calm else index.settings.quiet_s


def goes_on_until(state: State, index: Index, fired_at: float) -> float | None:
    """When to look again, for a burst that is still going on; None when it is over."""
    settings = index.settings
    begin = state.burst_at
    if begin is None or fired_at > begin + settings.burst_s:
        begin = state.woken_at
    if state.last_wake is None or begin is None:
        return None
    end = begin + settings.burst_s
    due = min(state.last_wake + quiet_s(state, index), end)
    if due <= state.now < end and _scheduler_is_busy(state, index, state.last_wake):
        due = min(state.now + settings.quiet_s, end)
    return due if due > state.now else None


def _scheduler_is_busy(state: State, index: Index, last_wake: float) -> bool:
    """Whether pods of the same burst have not been tried: the next ones to fit nowhere may be among them.

    Pods that have not been tried for longer than a burst lasts are another scheduler's, or gated.
    """
    burst_s = index.settings.burst_s
    pods = (state.pods[key] for key in index.untried)
    return any(pod.untried_at <= last_wake and state.now - pod.untried_at < burst_s for pod in pods)
