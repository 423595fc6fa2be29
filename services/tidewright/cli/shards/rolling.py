"""How far a rolling update of a set's pods is, as the manager says it in the status."""

from __future__ import annotations

from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.cli.shards.answers import RolloutStanding
from tidewright.cli.shards.reading import ReadSet
from tidewright.cli.shards.showing import columns, condition

_WAITS = {
    "Paused": "it is paused: `tidewright shards rollout resume`",
    "MaxUnavailable": "as many pods as may be are out of service",
    "MinReadySeconds": "a new pod has to be ready for rollout.minReady first",
    "NotReady": "a pod is not ready",
    "StandBy": "all new pods have to be up, waiting for their locks, before an old one is stopped",
    "OldPods": "an old pod has to be gone before the next one is stopped",
    "CanaryHold": "the canary is to be approved: `tidewright shards rollout resume`",
    "ProgressDeadlineExceeded": "there was no progress for rollout.progressDeadline",
}


def progress(shard_set: ReadSet) -> RolloutStanding:
    """The rollout of a set.

    Raises:
        BadInput: it has none.
    """
    rollout: dict[str, Any] | None = shard_set.status.get("rollout")
    if rollout is None:
        driver = shard_set.section("workers").get("driver", "external")
        why = "the manager has not seen its template yet" if driver == "pods" else f"its driver is {driver}"
        raise BadInput(f"shardset {shard_set.namespace}/{shard_set.name} has no rollout: {why}")
    paused = condition(shard_set, "RolloutPaused")
    return RolloutStanding(
        namespace=shard_set.namespace,
        name=shard_set.name,
        state=rollout["state"],
        shards=rollout["shards"],
        template=rollout["template"],
        outdated=tuple(rollout["outdated"]),
        not_ready=tuple(rollout["notReady"]),
        standing_by=tuple(rollout.get("standingBy") or ()),
        draining=rollout["draining"],
        waits_for=rollout["waitsFor"],
        paused=paused.get("message", "") if paused.get("status") == "True" else "",
    )


def text(shard_set: ReadSet, rollout: RolloutStanding) -> str:
    """The same for people."""
    outdated, unready = set(rollout.outdated), set(rollout.not_ready)
    updated = min(rollout.shards, sum(pod["metadata"]["name"] not in outdated for pod in shard_set.pods))
    lines = [
        f"{rollout.state}: {updated} of {rollout.shards} pods are as the template (version {rollout.template})"
    ]
    if rollout.waits_for and rollout.state != "Complete":
        lines.append(f"waits because {_WAITS.get(rollout.waits_for, rollout.waits_for)}")
    if rollout.standing_by:
        lines.append(f"standing by, with their locks held: {', '.join(rollout.standing_by)}")
    if rollout.draining:
        lines.append(f"{rollout.draining} hands over its slots before it is replaced")
    if rollout.paused:
        lines.append(rollout.paused)
    names = {pod["metadata"]["name"] for pod in shard_set.pods} | outdated | unready
    rows = [
        (name, "old" if name in outdated else "new", "no" if name in unready else "yes")
        for name in sorted(names, key=lambda n: (len(n), n))
    ]
    return "\n".join([*lines, columns(("POD", "GENERATION", "READY"), rows)])
