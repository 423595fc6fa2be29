"""Node selector terms, taints and tolerations: does this node fit these rules?

Terms are ORed, the requirements inside a term are ANDed; a term without requirements matches no node,
and so does one that cannot be read (validation reports it, see `validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.selectors import Requirement, SelectorError, requirement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Node(msgspec.Struct, frozen=True):
    """What placement looks at. Taints are `{key, value, effect}`; being cordoned is one of them."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()


def node_of(obj: Mapping[str, Any]) -> Node:
    """A node from the API's object."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    spec: Mapping[str, Any] = obj.get("spec") or {}
    return Node(meta.get("name") or "", meta.get("labels") or {}, tuple(spec.get("taints") or ()))


@lru_cache(maxsize=4096)
def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement | None:
    try:
        return requirement(key, operator, values)
    except SelectorError:
        return None


def term_matches(term: Mapping[str, Any], node: Node) -> bool:
    """Whether the node satisfies every requirement of one NodeSelectorTerm."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(e, node.labels) for e in expressions) and all(
        f.get("key") == "metadata.name" and _holds(f, {"metadata.name": node.name}) for f in fields
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    found = _requirement(
        expression.get("key") or "", expression.get("operator") or "", tuple(expression.get("values") or ())
    )
    return found is not None and found.matches(labels)


def preference(terms: Iterable[Mapping[str, Any]], node: Node) -> int:
    """The summed weights of the PreferredSchedulingTerms that the node matches."""
    return sum(int(t.get("weight") or 0) for t in terms if term_matches(t.get("preference") or {}, node))


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, str]) -> bool:
    """Whether one of the tolerations tolerates the taint, whatever its effect."""
    return any(_tolerates(t, taint) for t in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect", ""):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key", ""):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def required_terms(pod_spec: Mapping[str, Any]) -> list[JsonObject]:
    """The pod's required node selector terms; empty when it has none."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    return list((affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ())


def merged_terms(terms: list[JsonObject], subset_term: Mapping[str, Any]) -> list[JsonObject]:
    """The pod's required terms with the subset's rule in each (specification, 2.8 step 4).

    The scheduler ORs the terms, so the subset's rule must hold in every one of them.
    """
    if not terms:
        return [dict(subset_term)]
    return [
        {
            **term,
            **{
                key: [*(term.get(key) or ()), *added]
                for key in ("matchExpressions", "matchFields")
                if (added := subset_term.get(key))
            },
        }
        for term in terms
    ]
