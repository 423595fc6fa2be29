"""Who is evicted from a node that goes: all but mirror pods; in groups by priority, with how much grace. Spec 4.4, addendum 3.2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.scaledown.drain.rules import mirrored, of_daemons
from tidewright.provisioning.scaledown.scene import Resident
from tidewright.provisioning.settings import DrainPriority, Settings

DS_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
OVERTIME_S = 30.0
"""How long after its grace period a pod is waited for."""


class Evicted(msgspec.Struct, frozen=True):
    """What is evicted of one node: `pods` are waited for, `daemons` are not."""

    pods: tuple[PodKey, ...] = ()
    daemons: tuple[PodKey, ...] = ()


class EvictionGroup(msgspec.Struct, frozen=True):
    """Pods that are evicted together, and waited for so long, before the next group's turn comes."""

    priority: int
    grace_s: float
    pods: tuple[PodKey, ...]


def evicted(pods: Iterable[Resident], settings: Settings, *, empty: bool) -> Evicted:
    """Of an occupied node all pods but mirror ones; DaemonSet pods by their annotation, else by the setting for such nodes."""
    general = settings.ds_eviction_empty if empty else settings.ds_eviction_occupied
    kept: list[PodKey] = []
    daemons: list[PodKey] = []
    for pod in pods:
        if mirrored(pod):
            continue
        if not of_daemons(pod):
            kept += [] if empty else [pod.key]
            continue
        asked = pod.annotations.get(DS_EVICTION)
        if asked == "true" or (general and asked is None):
            daemons.append(pod.key)
    return Evicted(tuple(kept), tuple(daemons))


def eviction_groups(pods: Sequence[Resident], config: Sequence[DrainPriority]) -> list[EvictionGroup]:
    """Pods by `drain-priority-config`, ascending: each belongs to the largest priority that is not above its own."""
    members: dict[DrainPriority, list[PodKey]] = {}
    for pod in pods:
        members.setdefault(level_of(pod.priority, config), []).append(pod.key)
    levels = sorted(members, key=lambda level: level.priority)
    return [EvictionGroup(level.priority, level.grace_s, tuple(members[level])) for level in levels]


def level_of(priority: int, config: Sequence[DrainPriority]) -> DrainPriority:
    """The entry of `drain-priority-config`, which is not empty, by which pods of a priority go."""
    levels = sorted(config, key=lambda level: level.priority)
    own = [level for level in levels if level.priority <= priority]
    return own[-1] if own else levels[0]


def grace_most_s(settings: Settings, priority: int) -> float | None:
    """The longest grace period that evicted pods of a priority get; None: their own, whatever it is."""
    if settings.drain_priorities:
        return level_of(priority, settings.drain_priorities).grace_s
    return settings.max_graceful_s if settings.max_graceful_s > 0 else None


def eviction_grace_s(own_s: float, most_s: float | None) -> float:
    """The grace period that an eviction asks for: the pod's own, capped."""
    return own_s if most_s is None else min(own_s, most_s)


def wait_at_most_s(own_s: float, most_s: float | None) -> float:
    """How long an evicted pod is waited for: as long as it may take at most, and a while longer."""
    return (own_s if most_s is None else most_s) + OVERTIME_S
