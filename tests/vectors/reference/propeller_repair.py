"""What native mode does where the original deletes everything or waits for ever (section 1.8, native).

repairs    the actions for a fleet as it is
settled    the same after some of them failed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec

from tests.vectors.reference.propeller_pass import SeenPod
from tidewright.shardmanager.propeller.config import ManagerConfig
from tidewright.shardmanager.propeller.config_hash import accepted_hashes
from tidewright.shardmanager.propeller.pods import CONFIG_HASH, TEMPLATE_VERSION


class Do(StrEnum):
    """What to do. The text is for people; `{}` is the shard's index."""

    CREATE = "create {}"
    DELETE = "delete {}"
    CREATE_WHEN_GONE = "create {} after it is gone"
    REPLACE = "replace {}"
    FENCE_AND_REPLACE = "fence {}, then replace {}"
    WATCH_STARTUP = "watch startup deadline of {}"
    WAIT = "wait for {}"
    WAIT_OR_FENCE = "wait for {}, fence when overdue"
    ROLL = "roll {}"
    RETRY = "retry {}"
    RETRY_ALL = "retry"
    CONTINUE = "continue with others"
    PLAN_MIGRATION = "plan migration"
    REPORT_FOREIGN = "report foreign pod, leave it"
    REPORT_COPY = "report foreign pod"
    KEEP_TEMPLATE = "keep last known template, alarm"


class Action(msgspec.Struct, frozen=True):
    """One action; `index` -1 where no single shard is meant, `name` of a foreign pod."""

    do: Do
    index: int = -1
    name: str = ""

    def __str__(self) -> str:
        return self.do.value.replace("{}", str(self.index))


def repairs(config: ManagerConfig, template_version: str, pods: Sequence[SeenPod]) -> list[Action]:
    """What to do about this fleet: restore and fence first, then replace what is outdated, one at a time."""
    hashes = accepted_hashes(config.shard)
    by_name = {pod.name: pod for pod in pods}
    expected = config.pod_names
    actions: list[Action] = []
    outdated: list[int] = []
    migration = any(
        pod.made_by_a_manager and pod.annotations[CONFIG_HASH] not in hashes and not pod.deleting
        for pod in pods
    )
    for index, name in enumerate(expected):
        pod = by_name.get(name)
        if pod is not None and not pod.made_by_a_manager:
            continue  # its name is taken by a stranger: reported below, and nothing can be created
        old = pod is not None and pod.annotations[TEMPLATE_VERSION] != template_version
        found = _about(index, pod, old)
        if found:
            actions.extend(found)
        elif old:
            outdated.append(index)
    if migration:
        # A change of the configuration moves slots: it is planned with its hand-over, never done by repair.
        return [Action(Do.PLAN_MIGRATION)]
    if outdated and not any(a.do is not Do.CREATE for a in actions):
        actions.append(Action(Do.ROLL, outdated[0]))
    for pod in pods:
        if not pod.made_by_a_manager:
            actions.append(Action(Do.REPORT_FOREIGN, name=pod.name))
        elif pod.name not in expected:
            actions.append(Action(Do.REPORT_COPY, name=pod.name))
    return actions


def _about(index: int, pod: SeenPod | None, outdated: bool) -> list[Action]:
    if pod is None:
        return [Action(Do.CREATE, index)]
    if pod.deleting:
        return [Action(Do.WAIT if outdated else Do.WAIT_OR_FENCE, index)]
    match pod.phase:
        case "Failed":
            return [Action(Do.DELETE, index), Action(Do.CREATE_WHEN_GONE, index)]
        case "Succeeded":
            return [Action(Do.REPLACE, index)]
        case "Unknown":
            return [Action(Do.FENCE_AND_REPLACE, index)]
        case "Pending":
            return [Action(Do.WATCH_STARTUP, index)]
    return []


def settled(actions: Sequence[Action], failed: Collection[int]) -> list[Action]:
    """The actions as they stand after those on some shards failed: these are retried, the others go on."""
    done = [a for a in actions if a.index not in failed]
    retries = [Action(Do.RETRY, index) for index in sorted(failed)]
    rolled = any(a.do is Do.ROLL and a.index in failed for a in actions)
    return [*retries, Action(Do.CONTINUE)] if rolled else [*done, *retries]


def without_template() -> list[Action]:
    """The template cannot be read: what runs goes on, new pods are made from the last one known."""
    return [Action(Do.KEEP_TEMPLATE)]


def without_pods() -> list[Action]:
    """The pods cannot be listed."""
    return [Action(Do.RETRY_ALL)]


def failures(config: ManagerConfig, errors: Mapping[str, str]) -> set[int]:
    """The indexes of the expected pods among those that a request failed for."""
    return {index for index, name in enumerate(config.pod_names) if name in errors}
