"""Reasons as sentences, for `explain`: why a pod is where it is, what was passed over, who goes next.

placement     why a pod was given its place, from the ledger's entry
sentences     the `because` of any decision of this service
foreseen      which pods leave at a scale-in
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidewright.events.acting import HELD_BACK, held_back
from tidewright.events.base import Because, Scalar
from tidewright.events.spread import ForeseeScaleIn, PassedOver, PodPlaced

Values = Mapping[str, Scalar]
NAMED = 20
"""Pods that a sentence names; the decision names more."""


def placement(entry: PodPlaced) -> str:
    """Why a pod went where it went."""
    passed = passed_over(entry.passed)
    if not entry.subset:
        return f"{entry.pod} went in untouched: {passed or 'the spread has no subsets'}."
    after = f", after {passed}" if passed else ""
    late = " It was recorded afterwards, because the log was away." if entry.unfenced else ""
    return f"{entry.pod} went to {entry.subset}: the first subset with room{after}.{late}"


def passed_over(passed: Sequence[PassedOver]) -> str:
    """Why subsets before the chosen one were not it."""
    return "; ".join(map(_passed, passed))


def _passed(passed: PassedOver) -> str:
    match passed.why:
        case "Closed":
            return f"{passed.subset} was closed because pods could not be scheduled there"
        case "Full":
            return f"{passed.subset} was full ({passed.held} of {passed.limit})"
    return f"{passed.subset} ended before the pod's ordinal"


def foreseen(decision: ForeseeScaleIn) -> str:
    """Who leaves, first one first."""
    named = decision.pods[:NAMED]
    pods = ", ".join(f"{p.pod} ({p.subset or 'no subset'}, cost {p.cost or 'none'})" for p in named)
    more = decision.count - len(named)
    text = f"At {decision.replicas} replicas these leave, first one first: {pods}{f', and {more} more' if more > 0 else ''}."
    if decision.alike:
        others = "1 that stays is" if decision.alike == 1 else f"{decision.alike} that stay are"
        text += (
            f" {others} like the last of them in all that its controller compares, and may go in its stead."
        )
    return text


def many(count: int, noun: str) -> str:
    """A number of things: one has no plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def sentences(because: Sequence[Because]) -> list[str]:
    """One sentence per rule, in the order of their application."""
    return [sentence(step) for step in because]


def sentence(step: Because) -> str:
    """What one rule did; a rule of a newer version is shown with its bare values."""
    if step.rule == HELD_BACK:
        return held_back(step.values)
    tell = TELLERS.get(step.rule)
    if tell is not None:
        try:
            return tell(step.values)
        except KeyError as missing:
            return f"{step.rule} (its value {missing} was not recorded)."
    values = ", ".join(f"{key}={value}" for key, value in step.values.items())
    return f"{step.rule}: {values}." if values else f"{step.rule}."


def _rules(v: Values) -> str:
    limits = ", ".join(
        f"{key[6:-1]} {'unlimited' if limit is None else limit}"
        for key, limit in v.items()
        if key.startswith("limit[")
    )
    of = f"With {v['replicas']} replicas the" if "replicas" in v else "The"
    return f"{of} limits of generation {v['generation']} are: {limits or 'none'}."


def _scale_in(v: Values) -> str:
    others = f"; {v['of_others']} of those that leave are not this spread's" if "of_others" in v else ""
    return f"Of {v['active']} pods {v['replicas']} stay{others}."


TELLERS: dict[str, Callable[[Values], str]] = {
    "RulesInForce": _rules,
    "NeverSeen": lambda v: (
        f"No pod appeared within {v['bound_s']} s for a place in {v['subset']}: it is free again."
    ),
    "Adopted": lambda v: f"Pod {v['pod']} had no place and runs on {v['node']}: it counts in {v['subset']}.",
    "WithinLimit": lambda v: f"Pod {v['pod']} is within the limit of {v['subset']}: cost {v['cost']}.",
    "Surplus": lambda v: (
        f"{v['subset']} is over its limit and pod {v['pod']} is cheapest to lose: cost {v['cost']}."
    ),
    "Unmatched": lambda v: f"Pod {v['pod']} is in no subset and leaves first: cost {v['cost']}.",
    "SubsetClosed": lambda v: (
        f"{v['subset']} is closed: {v['pods']} pods could not be scheduled within {v['after_s']} s."
    ),
    "SubsetReopened": lambda v: f"{v['subset']} takes pods again after {v['closed_s']} s.",
    "Rescheduled": lambda v: (
        f"Pod {v['pod']} could not be scheduled in {v['subset']} within {v['after_s']} s: it goes on to the next subset."
    ),
    "BroughtBack": lambda v: f"{v['to']} has room again: pod {v['pod']} makes way from {v['from']}.",
    "ScaleIn": _scale_in,
    "SpreadGone": lambda v: f"Spread {v['spread']} is gone: its pods are placed by nobody.",
}
"""Every rule that the decider applies."""
