"""Node selector terms, taints and tolerations: does this node fit these rules?

Terms are ORed, the requirements inside a term are ANDed; a term without requirements matches no node,
and so does one that cannot be read (`termrules` reports it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube import taints
from tidewright.kube.podshape import Place
from tidewright.kube.podspecs import node_term
from tidewright.kube.selectors import SelectorError
from tidewright.kube.taints import Taint, Toleration

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


def term_matches(term: Mapping[str, Any], node: Place) -> bool:
    """Whether the node satisfies every requirement of one NodeSelectorTerm."""
    try:
        return node_term(term).matches(node)
    except SelectorError:
        return False


def preference(terms: Iterable[Mapping[str, Any]], node: Place) -> int:
    """The summed weights of the PreferredSchedulingTerms that the node matches."""
    return sum(int(t.get("weight") or 0) for t in terms if term_matches(t.get("preference") or {}, node))


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, str]) -> bool:
    """Whether one of the tolerations tolerates the taint, whatever its effect."""
    against = Taint(taint.get("key", ""), taint.get("value") or "", taint.get("effect", ""))
    return any(
        taints.tolerates(
            Toleration(
                given.get("key") or "",
                given.get("operator") or "Equal",
                given.get("value") or "",
                given.get("effect") or "",
            ),
            against,
        )
        for given in tolerations
    )


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
