"""What the folds of facts, decisions and outcomes share."""

from __future__ import annotations

from typing import Any

from tidewright.provisioning import saga
from tidewright.provisioning.state import State

EVALUATE = "evaluate"
NOT_DECREASED = "decrease/"
"""In `State.touched`, before the name of a group of which an order could not be taken back."""
CONFIGURATION_IGNORED = "ConfigurationIgnored"
REQUEST_KIND = "ProvisioningRequest"
STANDING = frozenset(
    {
        CONFIGURATION_IGNORED,
        "ClusterUnhealthy",
        "MaxNodesTotalReached",
        "PriorityConfigMapInvalid",
        "PriorityConfigMapNoGroupMatched",
        "PriorityConfigMapNotMatchedGroup",
    }
)
"""Reasons of object events about a state that lasts: told when it begins, and again now and then."""


def key_of(event: Any) -> str:
    return f"{event.namespace}/{event.name}"


def wake(state: State) -> None:
    """Something came that an evaluation may answer."""
    state.woken = True
    state.last_wake = state.now
    if state.first_wake is None:
        state.first_wake = state.now


def forget_index(state: State) -> None:
    state.__dict__.pop("index", None)


def shrink_open(state: State, name: str, nodes: int, plan: str = "") -> None:
    """A group's open increase is so many nodes smaller.

    At none left it is dropped, unless plans still wait to hear of it: then an evaluation closes it.
    """
    found = state.open.get(name)
    if found is None:
        return
    found.increase -= nodes
    if plan in found.plans:
        found.plans[plan] -= nodes
        if found.plans[plan] <= 0:
            del found.plans[plan]
    left = nodes
    while left > 0 and found.loads:  # the last ordered go first
        last = found.loads[-1]
        taken = min(left, last.nodes)
        last.nodes -= taken
        left -= taken
        if not last.nodes:
            found.loads.pop()
    if found.increase <= 0:
        found.increase = 0
        if not found.plans:
            del state.open[name]


def not_ordered(state: State, execution: saga.Execution) -> None:
    """Steps that were skipped: their groups are as they were, and wait for nothing."""
    for step in execution.steps:
        opened = state.open.get(step.group)
        if step.status == saga.SKIPPED and opened is not None and execution.plan in opened.plans:
            group = state.groups.get(step.group)
            if group is not None and group.wanted == step.size:
                group.wanted = None
            shrink_open(state, step.group, step.size - step.from_size, execution.plan)
