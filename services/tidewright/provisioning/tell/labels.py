"""Which label keeps a pod from a group's nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.predicates import UNMATCHED
from tidewright.kube.selectors import Requirement


def named_label(reason: str, shape: PodShape, view: NodeView) -> str:
    """A reason, with the label that it is about where it is that selector or affinity does not match."""
    if reason != UNMATCHED:
        return reason
    unmet = [r for r in shape.selector if not r.matches(view.labels)]
    if not unmet and shape.terms:
        # Of several terms one is enough: the one that lacks least.
        unmet = min(([r for r in term.labels if not r.matches(view.labels)] for term in shape.terms), key=len)
    return f"{reason}: {_lacking(unmet, view)}" if unmet else reason


def unknown_domain(shape: PodShape, view: NodeView) -> str:
    """Which label a group's nodes would need for pods that are spread, or kept together, by it; empty where they have it."""
    keys = [
        *(f"no label {term.key}, over which it is spread" for term in shape.spread if term.key not in view.labels),
        *(f"no label {term.key}, by which it stays with others" for term in shape.affinity if term.key not in view.labels),
    ]  # fmt: skip
    return f"its nodes have {'; '.join(keys)}" if keys else ""


def _lacking(unmet: Iterable[Requirement], view: NodeView) -> str:
    """What is asked for, and what there is."""
    parts = []
    for requirement in unmet:
        value = view.labels.get(requirement.key)
        has = f"no label {requirement.key}" if value is None else f"{requirement.key}={value}"
        parts.append(f"it asks for {requirement}, its nodes have {has}")
    return "; ".join(parts)
