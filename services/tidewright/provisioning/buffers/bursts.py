"""Chunks that are not ordered because pods wait that they are for: a burst would pay for its nodes twice. [B8]

Nodes for pods that wait are ordered first. While they wait, a buffer whose annotation `buffer-for` means them orders so many
chunks less; when they have their nodes it is filled again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidewright.kube.keys import BufferKey, namespace_of
from tidewright.provisioning.buffers.extras import FOR, readable
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.state import State


def spared(state: State, index: Index, lacking: Iterable[tuple[BufferKey, int]]) -> dict[BufferKey, int]:
    """How many of the chunks that buffers lack are not ordered; a pod that waits counts for the first buffer that means it."""
    asking = [(key, chunks, readable(state.buffers[key].annotations).pods) for key, chunks in lacking]
    if all(pods is None for _, _, pods in asking):
        return {}
    waiting: Counter[tuple[str, str]] = Counter()
    for pod in index.waiting:
        if not state.pods[pod].daemon:
            waiting[namespace_of(pod), state.pods[pod].shape] += 1
    less: dict[BufferKey, int] = {}
    for key, chunks, pods in asking:
        for where in sorted(waiting) if pods is not None else ():
            namespace, digest = where
            if (
                pods is None
                or namespace != namespace_of(key)
                or not pods.matches(shape_of(state, index, digest).labels)
            ):
                continue
            taken = min(waiting[where], chunks - less.get(key, 0))
            waiting[where] -= taken
            less[key] = less.get(key, 0) + taken
    return {key: chunks for key, chunks in less.items() if chunks}


def why(state: State, key: BufferKey, chunks: int) -> str:
    """Why so many chunks of a buffer are not ordered."""
    pods = state.buffers[key].annotations.get(FOR, "")
    return f"{chunks} of them are not ordered while pods wait that {FOR} ({pods}) means"
