"""What is wrong with objects of others that nodes come and go by: told as it is, with what would be valid; the rest goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidewright.kube.keys import ObjectKey
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.provisioning.fold.common import BELOW_MINIMUM, BUDGET_SELECTS, NO_PROVIDER_ID
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.state import Budget, State

NAMED = 5
"""Objects that a message names, of those of which the same is wrong."""


class Flaw(NamedTuple):
    """Something that is wrong, and lasts.

    Attributes:
        reason: of the object event.
    """

    reason: str
    message: str


def flaws(state: State, index: Index, now: float) -> Iterator[Flaw]:
    """All that is wrong now, one of each kind."""
    below = [
        f"group {name}: target_size {group.target} is below its min_size {group.min_size}"
        for name, group in sorted(state.groups.items())
        if group.exists and not group.error and group.target < group.min_size
    ]
    if below and not index.settings.enforce_min:
        valid = "valid is min_size or more: order them at the cloud, or set enforce-node-group-min-size: true"
        yield Flaw(BELOW_MINIMUM, f"{_named(below)}: {valid}; no node of it is removed")
    for gone in index.odd_budgets.keys() - state.budgets.keys():
        del index.odd_budgets[gone]
    odd = [text for key in sorted(state.budgets) if (text := _odd(index, key, state.budgets[key]))]
    if odd:
        yield Flaw(BUDGET_SELECTS, _named(odd))
    if state.groups and len(index.machines) < len(state.nodes):
        young = now - index.settings.max_node_startup_s
        without = sorted(
            name for name, node in state.nodes.items() if not node.provider_id and node.created_at < young
        )
        if without:
            valid = "valid is the id of its machine at the cloud, which its kubelet (--provider-id) or the cloud controller manager sets"
            nodes = f"node {_named(without)}"
            yield Flaw(
                NO_PROVIDER_ID,
                f"{nodes}: spec.providerID is empty: {valid}; without one it is of no group and never removed",
            )


def _odd(index: Index, key: ObjectKey, budget: Budget) -> str:
    """What is wrong with the selector of a disruption budget; empty when nothing is."""
    known = index.odd_budgets.get(key)
    if known is None or known[0] is not budget.selector:
        known = index.odd_budgets[key] = (budget.selector, _said(key, budget))
    return known[1]


def _said(key: ObjectKey, budget: Budget) -> str:
    whose = f"PodDisruptionBudget {key}: spec.selector"
    if budget.selector is None:
        return f"{whose} is absent and selects nothing: it protects no pod; valid is a label selector, {{}} for all pods of its namespace"
    try:
        LabelSelector.of(budget.selector)
    except SelectorError as error:
        return f"{whose} cannot be read ({error}): it is taken to cover all pods of its namespace, and none of them is moved; valid is a label selector"
    return ""


def _named(texts: Iterable[str]) -> str:
    found = list(texts)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more
