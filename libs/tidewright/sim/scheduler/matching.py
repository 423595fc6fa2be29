"""Node selectors, node affinity, taints and tolerations: what depends on one node alone.

The rules are `tidewright.kube.podapi.nodeterms` and `tidewright.kube.taints`; here they meet the objects as controllers and scheduler decode them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewright.kube.podapi.nodeterms import PREFERRED, REQUIRED, preference, term_matches
from tidewright.kube.podshape import NodeView
from tidewright.kube.taints import HARD_EFFECTS, tolerates
from tidewright.sim.controllers.objects import PodSpec, Taint, Toleration

HARD = HARD_EFFECTS


def first_untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: frozenset[str] = HARD
) -> Taint | None:
    """The first taint of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def matches_affinity(spec: PodSpec, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node satisfies the pod's node selector and required node affinity."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = ((spec.affinity or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is None:
        return True
    node = NodeView(name=name, labels=dict(labels))
    return any(term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def preferred_weight(spec: PodSpec, labels: Mapping[str, str], name: str) -> int:
    """Summed weights of the preferred node affinity terms that hold."""
    terms = ((spec.affinity or {}).get("nodeAffinity") or {}).get(PREFERRED)
    return preference(terms or (), NodeView(name=name, labels=dict(labels)))
