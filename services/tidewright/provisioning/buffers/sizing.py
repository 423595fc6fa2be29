"""How many chunks a buffer wants, before quotas: `min(max(replicas, percentage), limits)`. Spec 3."""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.kube.podshape import PODS
from tidewright.kube.quantities import NANOS_PER_MILLI, NANOS_PER_UNIT
from tidewright.provisioning.buffers.spec import MOST, BufferSpec, Size

NOT_DEFINED = "replicas, percentage and limits are not defined"
NOT_REQUESTED = "resources in configured limits not found in the pod template"


class NoCount(ValueError):
    """A size that comes to no number; the message says why, in the words that clients know."""


def chunks(size: Size, requests: Mapping[str, int], base: int | None) -> int:
    """The number of chunks.

    Args:
        size: as the spec has it.
        requests: of one chunk, as `PodShape.requests` (`pods` does not count).
        base: pods of the workload that a percentage is of; None without a workload.

    Raises:
        NoCount: nothing says how many, or the limits name nothing that a chunk asks for.
    """
    wanted = size.replicas
    if size.percentage is not None and base is not None:
        wanted = max(wanted or 0, -(-size.percentage * max(0, base) // 100))
    if size.limits is not None:
        room = _fitting(size.limits, requests)
        wanted = room if wanted is None else min(wanted, room)
    if wanted is None:
        raise NoCount(NOT_DEFINED)
    return min(wanted, MOST)


def without_number(spec: BufferSpec, requests: Mapping[str, int]) -> str:
    """What would make a number of a size that comes to none: the fields, their values and what would be valid."""
    if spec.size.limits is not None:
        named = ", ".join(sorted(spec.size.limits)) or "nothing"
        asked = ", ".join(sorted(name for name, n in requests.items() if n and name != PODS)) or "nothing"
        return f"spec.limits names {named}, a pod asks for {asked}; valid is a resource that it asks for"
    if spec.size.percentage is None:
        return "valid is spec.replicas, spec.limits, or with spec.scalableRef spec.percentage"
    if spec.scalable is None:
        return f"spec.percentage ({spec.size.percentage}) is of the pods of a workload, and spec.scalableRef names none"
    workload = f"{spec.scalable.kind} {spec.scalable.name}"
    return f"spec.percentage ({spec.size.percentage}) is of the pods that {workload} wants, and it does not say how many; valid beside it is spec.replicas"


def _fitting(limits: Mapping[str, int], requests: Mapping[str, int]) -> int:
    fits = [
        max(0, limits[name]) // (amount * (NANOS_PER_MILLI if name == "cpu" else NANOS_PER_UNIT))
        for name, amount in requests.items()
        if name in limits and name != PODS and amount > 0
    ]
    if not fits:
        raise NoCount(NOT_REQUESTED)
    return min(fits)
