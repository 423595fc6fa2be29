"""How much of a node its pods ask for. Spec 4.2."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from tidewright.provisioning.scaledown.drain.rules import long_terminating, mirrored, of_daemons
from tidewright.provisioning.scaledown.scene import Resident, SceneNode


class Use(msgspec.Struct, frozen=True):
    """The resource that is used most, and which part of what is allocatable (more than 1: overcommitted)."""

    resource: str
    ratio: float


def use_of(
    node: SceneNode,
    pods: Sequence[Resident],
    now: float,
    *,
    ignore_daemonsets: bool = False,
    ignore_mirror: bool = False,
) -> Use | None:
    """A node's use; None where it cannot be computed, since the node does not say what it has.

    Of a node with GPUs only they count, and one whose GPUs are not there yet counts as unused.
    """
    left_out = [(ignore_daemonsets and of_daemons(pod)) or (ignore_mirror and mirrored(pod)) for pod in pods]
    counted = [
        pod
        for pod, ignored in zip(pods, left_out, strict=True)
        if not ignored and not long_terminating(pod, now)
    ]
    ignored = [pod for pod, out in zip(pods, left_out, strict=True) if out]

    def part(resource: str) -> float | None:
        there = node.allocatable.get(resource, 0)
        if there <= 0:
            return None
        asked = sum(pod.shape.requests.get(resource, 0) for pod in counted)
        return share(asked, there - sum(pod.shape.requests.get(resource, 0) for pod in ignored))

    if node.gpu:
        gpus = part(node.gpu)
        return Use(node.gpu, 0.0 if gpus is None else gpus)
    return larger(part("cpu"), part("memory"))


def share(asked: int, there: int) -> float:
    """A part of what is there; of nothing, all or nothing."""
    if there:
        return asked / there
    return math.inf if asked else 0.0


def larger(cpu: float | None, memory: float | None) -> Use | None:
    """The larger of both; memory when they are equal."""
    if cpu is None or memory is None:
        return None
    return Use("cpu", cpu) if cpu > memory else Use("memory", memory)
