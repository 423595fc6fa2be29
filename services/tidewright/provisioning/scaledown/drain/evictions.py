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
        asked = pod.annotations.get(DS_EVICTION, "")
        if asked == "true" or (general and asked != "false"):
            daemons.append(pod.key)
    return Evicted(tuple(kept), tuple(daemons))


def eviction_groups(pods: Sequence[Resident], config: Sequence[DrainPriority]) -> list[EvictionGroup]:
    """Pods by `drain-priority-config`, ascending: each belongs to the largest priority that is not above its own."""
    levels = sorted(config, key=lambda level: level.priority)
    members: dict[int, list[PodKey]] = {}
    for pod in pods:
        own = [i for i, level in enumerate(levels) if level.priority <= pod.priority]
        members.setdefault(own[-1] if own else 0, []).append(pod.key)
    return [EvictionGroup(levels[i].priority, levels[i].grace_s, tuple(members[i])) for i in sorted(members)]


def eviction_grace_s(grace_s: float, settings: Settings) -> float:
    """The grace period that an eviction asks for: the pod's own, capped (0: uncapped)."""
    most = settings.max_graceful_s
    return min(grace_s, most) if most > 0 else grace_s


def wait_at_most_s(settings: Settings) -> float:
    """How long an evicted pod is waited for."""
    return settings.max_graceful_s + OVERTIME_S
