"""What a pass of the propeller manager makes of a fleet's pods (section 1.8). Pure.

    judge    which pods go, which names exist, how many run
    survey   what a pass over the fleet as it is has to do

Deletions are asked for one at a time and before any creation, because a failed deletion ends the pass;
creations are asked for together, because a failed one holds up no other. Unlike the original this
accepts both of its historical hashes, and leaves pods alone that no manager made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from tidewright.shardmanager.propeller.config import ManagerConfig
from tidewright.shardmanager.propeller.config_hash import accepted_hashes
from tidewright.shardmanager.propeller.fleet import Fleet, KnownPod, Template
from tidewright.shardmanager.propeller.pods import (
    CONFIG_HASH,
    TEMPLATE_VERSION,
    ContainerMissing,
    find_container,
    manager_pod_error,
    wanted,
)
from tidewright.shardmanager.propeller.strategy import shard_args


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass concludes from the list of pods.

    Attributes:
        stale: names to delete, in list order.
        existing: expected names that are taken by a pod that stays.
        running: of those, how many are in phase Running.
        foreign: names of pods that no manager made, in list order.
    """

    stale: tuple[str, ...]
    existing: frozenset[str]
    running: int
    foreign: tuple[str, ...] = ()


def is_stale(annotations: Mapping[str, str], template_version: str, hashes: Collection[str]) -> bool:
    """Whether a pod belongs to another template version or configuration. Nothing else is compared."""
    return annotations.get(TEMPLATE_VERSION) != template_version or annotations.get(CONFIG_HASH) not in hashes


def judge(config: ManagerConfig, template_version: str, pods: Sequence[KnownPod]) -> Judgement:
    """Sort the pods into those that go and those that stay."""
    hashes = accepted_hashes(config.shard)
    expected = frozenset(config.pod_names)
    stale: list[str] = []
    foreign: list[str] = []
    existing: set[str] = set()
    running = 0
    for pod in pods:
        if not pod.made_by_a_manager:
            foreign.append(pod.name)
            if pod.name in expected:
                existing.add(pod.name)  # its name is taken: a creation could only be refused
        elif is_stale(pod.annotations, template_version, hashes) or pod.phase == "Failed":
            stale.append(pod.name)
        elif pod.name in expected:
            existing.add(pod.name)
            running += pod.phase == "Running"
    return Judgement(
        stale=tuple(stale), existing=frozenset(existing), running=running, foreign=tuple(foreign)
    )


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass has to do, or why it cannot be made.

    Attributes:
        deletions: names of pods, in order; creations: indexes of shards.
        running: expected pods in phase Running; None when that could not be judged.
        adopted: pods that are as they should be.
        drifted: pods of others that were told other things than their shard is.
        error: why there is no pass, in the words of the original.
    """

    deletions: tuple[str, ...] = ()
    creations: tuple[int, ...] = ()
    running: int | None = None
    adopted: int = 0
    foreign: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    error: str = ""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to delete and nothing to create."""
        return not self.deletions and not self.creations


def survey(fleet: Fleet, template: Template | None, pods: Mapping[str, KnownPod]) -> Survey:
    """What a pass over a fleet has to do. `pods` are those of its namespace, by name."""
    config = fleet.config
    if fleet.manager_pod and fleet.manager_pod not in pods:
        error = manager_pod_error(fleet.manager_pod, fleet.namespace, "not found")
        return Survey(error=error, drifted=tuple(fleet.drifted))
    if template is None:
        return Survey(error=template_missing(config), drifted=tuple(fleet.drifted))
    mine = fleet.pods_of(dict(pods))
    hashes = accepted_hashes(config.shard)
    # A pod on its way out is left to go: another request would change nothing.
    leaving = {
        pod.name
        for pod in mine
        if pod.deleting and (is_stale(pod.annotations, template.version, hashes) or pod.phase == "Failed")
    }
    judged = judge(config, template.version, [pod for pod in mine if pod.name not in leaving])
    expected = {name: index for index, name in enumerate(config.pod_names)}
    kept = judged.existing.difference(judged.foreign)
    drifted = tuple(
        pod.name for pod in mine if pod.name in kept and _drifted(fleet, pod, template, expected[pod.name])
    )
    deletions = judged.stale
    # Names of pods that are not gone yet cannot be created: the pass after their end does it.
    taken = {*judged.existing, *leaving, *deletions}
    creations = tuple(index for name, index in expected.items() if name not in taken)
    whole = judged.running == len(expected) and not any(pod.deleting for pod in mine)
    if drifted and whole and not deletions:
        deletions = drifted[:1]  # one at a time, when all is well otherwise (section 3.14)
        taken = taken.union(deletions)
    return Survey(
        deletions=deletions,
        creations=creations,
        running=judged.running,
        adopted=len(taken.intersection(expected)),
        foreign=judged.foreign,
        drifted=drifted,
    )


def _drifted(fleet: Fleet, pod: KnownPod, template: Template, index: int) -> bool:
    """Whether an adopted pod was told other things than its shard.

    Ours are made with the right ones: where they are others, somebody changes them on the way, and would again.
    """
    if pod.ours or pod.expected or not pod.args:
        return False
    name = fleet.config.pod_template_container_name
    try:
        container = find_container(template.template.get("spec") or {}, name)
    except ContainerMissing:
        return False
    ought = [*(container.get("args") or []), *shard_args(fleet.config.shard, index)]
    return list(pod.args.get(name, ())) != ought


def template_missing(config: ManagerConfig) -> str:
    """The error of a pass without a template: nothing is repaired, and what runs keeps running."""
    return (
        f"failed to retrieve pod template '{config.pod_template_name}' from namespace "
        f"'{config.pod_template_namespace}' [podtemplates \"{config.pod_template_name}\" not found]"
    )


def annotations_wanted(config: ManagerConfig, template_version: str) -> dict[str, str]:
    """The annotations that a pod of a pass carries."""
    return wanted(template_version, accepted_hashes(config.shard)[0])


def other_generation(config: ManagerConfig, pod: KnownPod) -> bool:
    """Whether a manager made a pod by another configuration than this one."""
    return pod.made_by_a_manager and pod.annotations[CONFIG_HASH] not in accepted_hashes(config.shard)
