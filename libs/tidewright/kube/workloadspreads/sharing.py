"""Several spreads of one target: accepted where their selectors exclude each other [Q-23].

selected    whether a pod is one of a spread's target, by its labels
identity    what makes two references one target
apart       whether no pod can belong to both of two spreads
taken       why a spread does not have its target, in words
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.kube.customworkloads import BadApiVersion, GroupKind, group_version
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.workloadspreads.spec import Spread, TargetFilter, TargetRef

SHOWN = 200
"""Characters of a selector that a message shows: it has to fit into an event and a condition."""


def selected(target_filter: TargetFilter | None, labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels is one of the target's; without a selector all are [Q-1]. Raises SelectorError."""
    if target_filter is None or target_filter.selector is None:
        return True
    return LabelSelector.of(target_filter.selector).matches(labels)


def identity(target: TargetRef | None) -> tuple[GroupKind, str] | None:
    """Group, kind and name of a target; None for one that is not there, or whose apiVersion cannot be read."""
    if target is None:
        return None
    try:
        group, _ = group_version(target.api_version)
    except BadApiVersion:
        return None
    return GroupKind(group, target.kind), target.name


def apart(spread: Spread, other: Spread) -> bool:
    """Whether no pod can be selected by both: provably, by one label (`LabelSelector.excludes`).

    Without a selector a spread takes all pods. Of a selector that cannot be read nothing is proven.
    """
    try:
        return _selector(spread).excludes(_selector(other))
    except SelectorError:
        return False


def _selector(spread: Spread) -> LabelSelector:
    given = None if spread.target_filter is None else spread.target_filter.selector
    return LabelSelector() if given is None else LabelSelector.of(given)


def taken(spread: Spread, by: Spread) -> str:
    """Why a spread cannot have a target that another one has: both, the field, and what would be accepted."""
    return (
        f"the target is taken by WorkloadSpread {by.name}: its spec.targetFilter.selector takes {_selected(by)}, that of "
        f"{spread.name} takes {_selected(spread)}, and a pod may be of both. Several spreads share a target where their "
        "selectors exclude each other by one label, as role=a and role=b do, role in (a,b) and role notin (a,b), or "
        "role and !role"
    )


def _selected(spread: Spread) -> str:
    try:
        text = str(_selector(spread)) or "all pods"
    except SelectorError as error:
        text = f"nobody knows what ({error})"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
