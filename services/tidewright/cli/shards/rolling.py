"""How far a rolling update of a set's pods is, as the manager says it in the status."""

from __future__ import annotations

from typing import Any

from tidewright.cli.errors import BadInput
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


def progress(found: ReadSet) -> dict[str, Any]:
    """The rollout of a set.

    Raises:
        BadInput: it has none.
    """
    made: dict[str, Any] | None = found.status.get("rollout")
    if made is None:
        driver = found.section("workers").get("driver", "external")
        why = "the manager has not seen its template yet" if driver == "pods" else f"its driver is {driver}"
        raise BadInput(f"shardset {found.namespace}/{found.name} has no rollout: {why}")
    paused = condition(found, "RolloutPaused")
    return {**made, "paused": paused.get("message", "") if paused.get("status") == "True" else ""}


def text(found: ReadSet, made: dict[str, Any]) -> str:
    """The same for people."""
    outdated, unready = set(made["outdated"]), set(made["notReady"])
    updated = min(made["shards"], sum(pod["metadata"]["name"] not in outdated for pod in found.pods))
    lines = [
        f"{made['state']}: {updated} of {made['shards']} pods are as the template (version {made['template']})"
    ]
    if made["waitsFor"] and made["state"] != "Complete":
        lines.append(f"waits because {_WAITS.get(made['waitsFor'], made['waitsFor'])}")
    if waiting := made.get("standingBy"):
        lines.append(f"standing by, with their locks held: {', '.join(waiting)}")
    if made["draining"]:
        lines.append(f"{made['draining']} hands over its slots before it is replaced")
    if made["paused"]:
        lines.append(made["paused"])
    names = {pod["metadata"]["name"] for pod in found.pods} | outdated | unready
    rows = [
        (name, "old" if name in outdated else "new", "no" if name in unready else "yes")
        for name in sorted(names, key=lambda n: (len(n), n))
    ]
    return "\n".join([*lines, columns(("POD", "GENERATION", "READY"), rows)])
