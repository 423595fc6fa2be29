"""Node selectors, node affinity, taints and tolerations: what depends on one node alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidewright.kube.selectors import SelectorError, requirement
from tidewright.sim.controllers.objects import PodSpec, Taint, Toleration

HARD = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def first_untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: frozenset[str] = HARD
) -> Taint | None:
    """The first taint of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def matches_term(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Whether a node selector term holds; an empty term, or one that cannot be read, never does."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    try:
        return all(
            requirement(one.get("key", ""), one.get("operator", ""), one.get("values") or ()).matches(labels)
            for one in expressions
        ) and all(_matches_field(one, name) for one in fields)
    except SelectorError:
        return False


def _matches_field(expression: Mapping[str, Any], name: str) -> bool:
    if expression.get("key") != "metadata.name":
        return False
    values = expression.get("values") or ()
    return (name in values) == (expression.get("operator") == "In")


def matches_affinity(spec: PodSpec, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node satisfies the pod's node selector and required node affinity."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = ((spec.affinity or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return True
    return any(matches_term(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def preferred_weight(spec: PodSpec, labels: Mapping[str, str], name: str) -> int:
    """Summed weights of the preferred node affinity terms that hold."""
    preferred = ((spec.affinity or {}).get("nodeAffinity") or {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    )
    return sum(
        int(one.get("weight", 0))
        for one in preferred or ()
        if matches_term(one.get("preference") or {}, labels, name)
    )
