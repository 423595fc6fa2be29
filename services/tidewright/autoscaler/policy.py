"""The installation's policy: what an operator sets for all objects, as `ConfigSet` brings it.

`strict` restores the reference's behaviour wherever section 9 of the specification offers it; the
other switches are improvements that an operator opts into.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from tidewright.autoscaler.forecast.asked import BadForecast, asked, selector_of
from tidewright.autoscaler.forecast.learnt import Model, models
from tidewright.events.base import JsonObject
from tidewright.kube.nearest import nearest
from tidewright.kube.selectors import SelectorError


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the autoscaler behaves in this installation.

    Attributes:
        strict: behave as the reference does, defects included (section 9, except faults).
        skip_not_scaling_events: no object event when nothing is scaled; a condition says it instead.
        stale_after_s: a metric value older than this never scales down; 0 switches the guard off.
        status_interval_s: least time between two status writes that differ in measured values only.
        enforce_bounds_without_metrics: bring a target back inside min and max although a metric
            cannot be read (D6).
        guard_resource_zero: an object that does not tolerate zero holds on a zero of a Resource
            metric too (D30).
        align_after_limits: a count that a limit has changed is rounded up to the modulo again, so that
            groups stay whole; it may then exceed the rate by less than a group (D19).
        walk_owner_chain: a pod is the target's when the chain of its owners leads there, by kind, name
            and uid, and not when an owner is merely named so (D26).
        labels_as_tags: labels of an object that its series `labels_info` carries.
        outcome_timeout_s: how long an ordered scale is waited for before it counts as lost. Every order
            ends in an outcome, so this is for a log that lost one; in log time, which a demo compresses.
        forecast: what is asked for objects that `forecast_selector` selects and whose own annotation says
            nothing, as in `lead=10m,confidence=0.9`; empty for no forecast.
        forecast_selector: label selector of these objects, as in `team=shop,tier!=test`; without one none is selected, with
            an empty one all are.
        forecast_models: what `tidewright forecast learn` has learnt of loads, by `namespace/name` of the object: where
            a forecast begins, this is known already.
    """

    strict: bool = False
    skip_not_scaling_events: bool = False
    stale_after_s: float = 300.0
    status_interval_s: float = 60.0
    enforce_bounds_without_metrics: bool = False
    guard_resource_zero: bool = False
    align_after_limits: bool = False
    walk_owner_chain: bool = False
    labels_as_tags: tuple[str, ...] = ()
    outcome_timeout_s: float = 3600.0
    forecast: str = ""
    forecast_selector: str | None = None
    forecast_models: dict[str, Model] = {}


DEFAULT = Policy()


def of_config(data: JsonObject) -> Policy:
    """The policy in a `ConfigSet`; a member that cannot be read keeps its default.

    A bad value must not stop the autoscaler, and half a policy is better than none: each member is
    judged alone. Unknown members are left to newer versions, and said (`problems`).
    """
    return _read(data)[0]


def as_text(data: JsonObject) -> str:
    """A configuration as a state keeps it: with all its members, so that a later version reads those that this one does not know."""
    return sys.intern(msgspec.json.encode(data).decode())  # a text for all slots of a process


@lru_cache(maxsize=4)
def of_text(text: str) -> Policy:
    """The policy in a configuration that a state keeps. What slots share is read once, and is not to be changed."""
    data: JsonObject = msgspec.json.decode(text)
    return of_config(data)


def problems(data: JsonObject) -> tuple[str, ...]:
    """What in a `ConfigSet` is not used, and what would be."""
    return _read(data)[1]


def _read(data: JsonObject) -> tuple[Policy, tuple[str, ...]]:
    kinds = {field.name: field.type for field in msgspec.structs.fields(Policy)}
    members: JsonObject = {}
    wrong: list[str] = []
    for key, value in sorted(data.items()):
        if key not in kinds:
            wrong.append(f"{key}: not a setting of the autoscaler; {nearest(key, kinds)}")
            continue
        if key == "forecast_models":
            members[key], problems_of_models = models(value)
            wrong += [f"{key}: {text}" for text in problems_of_models]
            continue
        try:
            members[key] = msgspec.convert(value, kinds[key])
        except msgspec.ValidationError as error:
            said = str(error)
            wrong.append(f"{key}={value!r}: {said[:1].lower()}{said[1:]}; the default stays")
    policy = Policy(**members)
    return policy, (*wrong, *_of_forecasts(policy))


def _of_forecasts(policy: Policy) -> Iterator[str]:
    """What is wrong with texts that stay as they are: a slip of the pen is not to make forget what was learnt."""
    if policy.forecast:
        try:
            asked(policy.forecast)
        except BadForecast as error:
            yield f"forecast={policy.forecast!r}: {error}"
        if policy.forecast_selector is None:
            yield f"forecast={policy.forecast!r}: no object is selected; set forecast_selector, too"
    if policy.forecast_selector is not None:
        try:
            selector_of(policy.forecast_selector)
        except SelectorError as error:
            yield f"forecast_selector={policy.forecast_selector!r}: {error}"
        if not policy.forecast:
            yield f"forecast_selector={policy.forecast_selector!r}: nothing is asked for; set forecast, too"
