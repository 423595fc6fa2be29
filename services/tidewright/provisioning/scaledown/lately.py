"""What came and went just now: of all groups, and which of them wait for that."""

from __future__ import annotations

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaledown.going.cooldown import Last, cool_groups
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Lately, State


def last_of(state: State) -> Last:
    """When nodes came and went last, of whatever group, also of those that are gone."""
    each = [*state.lately.values(), *([state.lately_of_gone] if state.lately_of_gone is not None else [])]
    return Last(
        add=state.last_scale_up,
        delete=max((one.delete for one in each if one.delete is not None), default=None),
        failure=max((one.failure for one in each if one.failure is not None), default=None),
    )


def delayed(state: State, settings: Settings, now: float) -> frozenset[NodeGroupId]:
    """With `scale-down-delay-type-local`, groups of which something came or went just now."""
    if not settings.delay_local:
        return frozenset()
    last = {name: last_of_group(one) for name, one in state.lately.items()}
    return frozenset(last) - frozenset(cool_groups(last, last, settings, now))


def last_of_group(one: Lately) -> Last:
    """When nodes of one group came and went last: by the cloud's answers, and failed drains count as failures. Addendum 1."""
    failures = [at for at in (one.failure, one.refused) if at is not None]
    return Last(add=one.add, delete=one.deleted, failure=max(failures, default=None))
