"""A group as DescribeAutoScalingGroups tells it: its instances, placeholders for what has not come, and why it does not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tidewright.cloud.errors import ErrorClass
from tidewright.cloud.provider import Instance, InstanceError, InstanceState

CANNOT: Final = "placeholder-cannot-be-fulfilled"
CANNOT_MESSAGE: Final = "AWS cannot provision any more instances for this node group"
_PLACEHOLDER: Final = "i-placeholder-"
_ID = re.compile(r"aws:///([a-z0-9-]+)/(i-[A-Za-z0-9.-]+)")


def provider_id(zone: str, instance_id: str) -> str:
    """As nodes have it in `spec.providerID`."""
    return f"aws:///{zone}/{instance_id}"


def instance_of(provided: str) -> str:
    """The instance's own id; empty for a provider id of another form."""
    found = _ID.fullmatch(provided)
    return "" if found is None else found[2]


def is_placeholder(instance_id: str) -> bool:
    return instance_id.startswith(_PLACEHOLDER)


def tags_of(group: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in group.get("Tags") or ()}


def is_leaving(instance: Mapping[str, Any]) -> bool:
    return str(instance.get("LifecycleState", "")).startswith("Terminat")


def existing(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Instances that are there and not on their way out."""
    return [one for one in group.get("Instances") or () if not is_leaving(one)]


def real_instances(group: Mapping[str, Any]) -> list[Instance]:
    """All that AWS knows of, by id."""
    found = []
    for one in group.get("Instances") or ():
        stage = str(one.get("LifecycleState", ""))
        state = InstanceState.RUNNING
        if is_leaving(one):
            state = InstanceState.DELETING
        elif stage.startswith("Pending"):
            state = InstanceState.CREATING
        zone = str(one.get("AvailabilityZone", ""))
        found.append(Instance(id=provider_id(zone, str(one["InstanceId"])), state=state, zone=zone))
    return sorted(found, key=lambda instance: instance.id)


def placeholders(group: Mapping[str, Any], failure: str | None) -> list[Instance]:
    """One for each instance that was ordered and is not there; `failure` is why none comes, None while none is known to fail."""
    zone = next(iter(group.get("AvailabilityZones") or ("",)))
    error = None
    if failure is not None:
        message = f"{CANNOT_MESSAGE}: {failure}" if failure else CANNOT_MESSAGE
        error = InstanceError(error_class=ErrorClass.OUT_OF_RESOURCES, code=CANNOT, message=message)
    name = group["AutoScalingGroupName"]
    return [
        Instance(
            id=provider_id(zone, f"{_PLACEHOLDER}{name}-{number}"),
            state=InstanceState.CREATING,
            error=error,
            zone=zone,
        )
        for number in range(len(existing(group)), int(group["DesiredCapacity"]))
    ]


def missing(group: Mapping[str, Any]) -> int:
    """How many were ordered and are not there."""
    return max(0, int(group["DesiredCapacity"]) - len(existing(group)))


def failure_since(activities: Iterable[Mapping[str, Any]], changed_at: float) -> str | None:
    """Why instances do not come: the newest activity that failed after the size was changed; None when there is none.

    `activities` as AWS lists them, the newest first; times are seconds since the epoch.
    """
    for activity in activities:
        if _seconds(activity.get("StartTime")) <= changed_at:
            return None
        if activity.get("StatusCode") == "Failed":
            return str(activity.get("StatusMessage") or "")
    return None


def _seconds(at: Any) -> float:
    return at.timestamp() if isinstance(at, datetime) else float(at or 0.0)


def owners(groups: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Instance id to the name of its group; of two that claim one, the first by name has it."""
    owner: dict[str, str] = {}
    for group in sorted(groups, key=lambda one: str(one["AutoScalingGroupName"])):
        for one in group.get("Instances") or ():
            owner.setdefault(str(one["InstanceId"]), str(group["AutoScalingGroupName"]))
    return owner


def batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
