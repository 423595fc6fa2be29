"""When nothing goes, since something has just come, gone, or failed to go. Spec 4.1, addendum 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.settings import Settings


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """When it last happened, log time; None: not that anybody knows."""

    add: float | None = None
    delete: float | None = None
    failure: float | None = None


def cool_at(last: Last, settings: Settings) -> float:
    """When the last of the delays is over: at that instant it is."""
    pairs = (
        (last.add, settings.scale_down_delay_after_add_s),
        (last.delete, settings.scale_down_delay_after_delete_s),
        (last.failure, settings.scale_down_delay_after_failure_s),
    )
    return max((at + delay for at, delay in pairs if at is not None), default=0.0)


def in_cooldown(last: Last, settings: Settings, now: float, *, very_new_pods: bool = False) -> bool:
    """Whether nothing goes now. With `scale-down-delay-type-local` the delays are the groups' own (see `candidates`).

    `very_new_pods`: all pods that wait are too young to be helped. [B19] In an evaluation that orders nodes none goes,
    whatever the delays say; the reference goes by the delay alone.
    """
    if very_new_pods:
        return True
    if settings.delay_local:
        return False
    ordered_now = last.add is not None and last.add >= now and "B19" not in settings.as_reference
    return ordered_now or cool_at(last, settings) > now


def cool_groups(
    groups: Iterable[NodeGroupId], last: Mapping[NodeGroupId, Last], settings: Settings, now: float
) -> list[NodeGroupId]:
    """With local delays: the groups none of whose delays lasts."""
    return [group for group in groups if cool_at(last.get(group, Last()), settings) <= now]
