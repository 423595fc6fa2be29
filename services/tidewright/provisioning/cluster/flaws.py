"""What is wrong with objects of others that nodes come and go by: told as it is, with what would be valid; the rest goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.keys import ObjectKey, PodKey, parts
from tidewright.kube.podshape import PodShape
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.provisioning.fold.common import (
    BELOW_MINIMUM,
    BUDGET_COVERS,
    BUDGET_SELECTS,
    NO_PROVIDER_ID,
    OWNER_GONE,
)
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.scaledown.cards import KnownOwners
from tidewright.provisioning.scaledown.drain.budgets import selector_of
from tidewright.provisioning.scaledown.drain.rules import CONTROLLER_NOT_FOUND
from tidewright.provisioning.state import Budget, State

NAMED = 5
"""Objects that a message names, of those of which the same is wrong."""
SETTLED_S = 60.0
"""So long after a budget has come, or changed, its pods may still come."""
MOST_LOOKED_AT = 50
"""Disruption budgets without a pod after which no more are looked for."""
SHOWN = 120
"""Characters of a selector that are shown."""


class Flaw(NamedTuple):
    """Something that is wrong, and lasts.

    Attributes:
        reason: of the object event.
        event_type: `Normal` where it may be meant.
    """

    reason: str
    message: str
    event_type: str = "Warning"


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
    if bare := _covering_nothing(state, index, now):
        valid = "valid are labels that pods have; it protects nothing until some have them"
        budgets = f"PodDisruptionBudget {_named(bare)}"
        yield Flaw(BUDGET_COVERS, f"{budgets}: spec.selector matches no pod that is there: {valid}", "Normal")
    if orphans := sorted(_orphans(state, now)):
        valid = "valid is one that is there; where nothing needs the pod, delete it"
        yield Flaw(
            OWNER_GONE,
            f"{_named(orphans)}: the controller in metadata.ownerReferences is not there, and the node stays for the pod: {valid}",
        )
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


def _covering_nothing(state: State, index: Index, now: float) -> list[str]:
    """Disruption budgets, with their selectors, that have been there for a while and cover no pod that is."""
    for gone in index.budget_pods.keys() - state.budgets.keys():
        del index.budget_pods[gone]
    shapes: dict[str, list[PodShape]] = {}
    found: list[str] = []
    for key in sorted(state.budgets):
        budget = state.budgets[key]
        known = index.budget_pods.get(key)
        if known is not None and known[0] is budget.selector and known[1] in index.uses:
            continue
        selector = selector_of(budget.selector)
        if selector is None or budget.selector is None or budget.at + SETTLED_S > now:
            continue
        if not shapes:
            for digest in index.uses:
                shape = shape_of(state, index, digest)
                shapes.setdefault(shape.namespace, []).append(shape)
        covered = next((s.digest for s in shapes.get(parts(key)[0], ()) if selector.matches(s.labels)), None)
        if covered is not None:
            index.budget_pods[key] = (budget.selector, covered)
            continue
        found.append(f"{key} ({_shown(budget.selector)})")
        if len(found) == MOST_LOOKED_AT:
            break
    return found


def _shown(selector: JsonObject) -> str:
    """A selector as it is stored, cut where it is long."""
    text = msgspec.json.encode(selector).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _orphans(state: State, now: float) -> Iterator[str]:
    """Pods that keep their nodes since who made them is not there."""
    owners = KnownOwners(state)
    for node, paused in state.paused.items():
        pod_key = ObjectKey(paused.pod)
        pod = state.pods.get(PodKey(pod_key))
        if paused.pod_reason != CONTROLLER_NOT_FOUND or not paused.holds(state.scan, now) or pod is None:
            continue
        by = pod.controller
        if by is not None and owners.replicas(by.kind, parts(pod_key)[0], by.name) is None:
            yield f"pod {paused.pod} of {by.kind} {by.name} on node {node}"


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
