"""The rules of the validating webhook, V1 to V25 (specification, 1.5).

All errors are gathered in the order of the rules. Field names in paths are those of v1beta1,
whichever version was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import BadApiVersion, BadWhitelist, GroupKind, Whitelist, group_version
from tidewright.kube.podapi.fielderrors import (
    FieldError,
    annotation_errors,
    forbidden,
    invalid,
    label_errors,
    owner_errors,
    required,
)
from tidewright.kube.podapi.merging import merge, read_back
from tidewright.kube.podapi.rules import pod_spec_errors
from tidewright.kube.podapi.termrules import preferred_errors, term_errors, toleration_errors
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.sharing import apart, identity, taken
from tidewright.kube.workloadspreads.spec import ADAPTIVE, Spread, TargetRef, parse
from tidewright.spread.match.matching import Forbidden, NotFound

CLOSED_FOR_MARGIN_S = 295
"""A pod must be able to visit every closed subset before the first of them opens again (V21)."""

_INT32_MAX = 2**31 - 1
_GROUPS = {
    "CloneSet": ("apps.kruise.io",),
    "Deployment": ("apps",),
    "ReplicaSet": ("apps",),
    "Job": ("batch",),
    "StatefulSet": ("apps", "apps.kruise.io"),
}
_STRATEGIES = ("", "Fixed", ADAPTIVE)
_HUNDRED_PERCENT = 100


class Surroundings(msgspec.Struct):
    """What validation looks at besides the object.

    Attributes:
        whitelist: the custom workloads, or why they cannot be read.
        others: the other spreads of the namespace.
        target: reads the target (apiVersion, kind, name), as a matching.Reader.
    """

    whitelist: Whitelist | BadWhitelist
    others: Sequence[Spread]
    target: Callable[[str, str, str], JsonObject]


def errors(
    obj: Mapping[str, Any],
    around: Surroundings,
    old: Mapping[str, Any] | None = None,
) -> list[FieldError]:
    """Everything wrong with a spread that is created, or updated from `old`.

    Raises:
        BadSpread: the object does not decode.
    """
    spread = parse(obj)
    spec: Mapping[str, Any] = obj.get("spec") or {}
    wrong = [
        *_target_errors(spread.target, around.whitelist),
        *_subset_errors(spread, around),
        *_strategy_errors(spread, spec.get("scheduleStrategy") or {}),
        *_filter_errors(spread),
    ]
    if (other := conflict(spread, around.others)) is not None:
        wrong.append(invalid("spec.targetRef", spread.target, taken(spread, other)))
    if old is not None:
        wrong.extend(_metadata_errors(obj.get("metadata") or {}, old.get("metadata") or {}))
        wrong.extend(_target_change(spread.target, parse(old).target))
    return wrong


def warnings(obj: Mapping[str, Any]) -> list[str]:
    """What is accepted and has no effect."""
    subsets: Iterable[Mapping[str, Any]] = (obj.get("spec") or {}).get("subsets") or ()
    without_effect = [
        f"spec.subsets[{i}].minReplicas is in no version of this API and has no effect"
        for i, subset in enumerate(subsets)
        if "minReplicas" in subset
    ]
    adaptive = ((obj.get("spec") or {}).get("scheduleStrategy") or {}).get("adaptive") or {}
    if adaptive.get("disableSimulationSchedule"):
        without_effect.append("spec.scheduleStrategy.adaptive.disableSimulationSchedule has no effect")
    return without_effect


def _target_errors(target: TargetRef | None, whitelist: Whitelist | BadWhitelist) -> Iterator[FieldError]:
    path = "spec.targetRef"
    if target is None:
        yield required(path, "a spread needs a target")
        return
    if not (target.api_version and target.kind and target.name):
        yield invalid(path, target, "apiVersion, kind and name must be given")
        return
    try:
        group, _ = group_version(target.api_version)
    except BadApiVersion as error:
        yield invalid(path, target, str(error))
        return
    groups = _GROUPS.get(target.kind)
    if groups is not None:
        if group not in groups:
            yield invalid(path, target, f"kind {target.kind} is of group {' or '.join(groups)}")
    elif isinstance(whitelist, BadWhitelist):
        yield FieldError(path, f"Internal error: {whitelist}", "InternalError")
    elif whitelist.entry(GroupKind(group, target.kind)) is None:
        yield invalid(
            path, target, f"{GroupKind(group, target.kind)} is neither built in nor in the whitelist"
        )


def _subset_errors(spread: Spread, around: Surroundings) -> Iterator[FieldError]:
    path = "spec.subsets"
    if not spread.subsets:
        yield required(path, "a spread needs at least one subset")
        return
    template = _Template.of(spread.target, around)
    names: set[str] = set()
    limit_type: type | None = None
    percent = 0
    for i, subset in enumerate(spread.subsets):
        at = f"{path}[{i}]"
        if not subset.name:
            yield invalid(f"{at}.name", subset.name, "must not be empty")
        elif subset.name in names:
            yield invalid(f"{at}.name", subset.name, "another subset has this name")
        names.add(subset.name)
        if subset.required is not None:
            yield from term_errors(subset.required, f"{at}.requiredNodeSelector")
        yield from preferred_errors(subset.preferred, f"{at}.preferredNodeSelector")
        yield from toleration_errors(subset.tolerations, f"{at}.tolerations")
        if subset.patch is not None and template is not None:
            yield from template.patch_errors(subset.patch, f"{at}.patch")
        elif subset.patch is not None:
            yield from _shape_errors(subset.patch, f"{at}.patch")
        limit = subset.limit
        if limit is None:
            continue
        field = f"{at}.maxReplicas"
        if limit_type is not None and limit_type is not type(limit):
            yield invalid(field, limit, "all limits must be integers, or all percentages")
            return
        limit_type = type(limit)
        if isinstance(limit, str) and spread.target is not None and spread.target.kind == "StatefulSet":
            yield invalid(field, limit, "a StatefulSet needs integers")
            return
        if (fault := _limit_fault(limit)) is not None:
            yield invalid(field, limit, fault)
            return
        if isinstance(limit, str):
            percent += limits.percentage(limit)
            if percent > _HUNDRED_PERCENT:
                yield invalid(field, limit, f"the limits add up to {percent}%, more than 100%")
                return
    if limit_type is str and percent < _HUNDRED_PERCENT and spread.subsets[-1].limit is not None:
        yield invalid(
            f"{path}[0].maxReplicas",
            spread.subsets[0].limit,
            f"the limits add up to {percent}%: they must reach 100%, or the last subset be unlimited",
        )


def _limit_fault(limit: limits.Limit) -> str | None:
    """Why a limit is none: text without a percent sign is [Q-2]."""
    try:
        value = limits.strict(limit, _HUNDRED_PERCENT)
    except limits.NotALimit as error:
        return str(error)
    return "must not be negative" if value < 0 else None


def _shape_errors(patch: JsonObject, path: str) -> Iterator[FieldError]:
    """What no pod template makes good: a directive that is none, a value of another type than its field."""
    try:
        read_back(merge({}, patch))
    except InvalidPatch as error:
        yield invalid(path, patch, f"applies to no pod: {error}")


class _Template(msgspec.Struct):
    """The target's pod template, on which patches are tried."""

    obj: JsonObject
    claims: frozenset[str]

    @classmethod
    def of(cls, target: TargetRef | None, around: Surroundings) -> _Template | None:
        """None: there is no such object now, it cannot be read, or its kind is not built in."""
        if target is None or target.kind not in _GROUPS:
            return None
        try:
            obj = around.target(target.api_version, target.kind, target.name)
        except (NotFound, Forbidden, BadApiVersion):
            return None
        spec: Mapping[str, Any] = obj.get("spec") or {}
        claims: Iterable[Mapping[str, Any]] = (
            spec.get("volumeClaimTemplates") or () if target.kind in ("CloneSet", "StatefulSet") else ()
        )
        return cls(
            spec.get("template") or {},
            frozenset((claim.get("metadata") or {}).get("name") or "" for claim in claims),
        )

    def patch_errors(self, patch: JsonObject, path: str) -> Iterator[FieldError]:
        try:
            pod = read_back(merge(self.obj, patch))
        except InvalidPatch as error:
            yield invalid(path, patch, f"does not apply to the target's pod template: {error}")
            return
        yield from pod_spec_errors(pod.get("spec") or {}, path, self.claims)


def _strategy_errors(spread: Spread, given: Mapping[str, Any]) -> Iterator[FieldError]:
    path = "spec.scheduleStrategy"
    if spread.strategy not in _STRATEGIES:
        yield invalid(f"{path}.type", spread.strategy, "valid are Fixed and Adaptive")
    adaptive = given.get("adaptive")
    if adaptive is None:
        return
    if spread.strategy != ADAPTIVE:
        yield invalid(f"{path}.type", spread.strategy, "an adaptive block needs the type Adaptive")
    count = len(spread.subsets)
    if count > 1 and spread.subsets[-1].limit is not None:
        yield invalid(f"{path}.adaptive", adaptive, "the last subset must be unlimited")
    after_s = adaptive.get("rescheduleCriticalSeconds")
    cap_s = CLOSED_FOR_MARGIN_S // (count - 1) if count > 1 else _INT32_MAX
    if after_s is not None and not 0 <= after_s <= cap_s:
        yield invalid(
            f"{path}.adaptive.rescheduleCriticalSeconds", after_s, f"must be in the range 0-{cap_s}"
        )


def _filter_errors(spread: Spread) -> Iterator[FieldError]:
    if spread.target_filter is None:
        return
    try:
        LabelSelector.of(spread.target_filter.selector)
    except SelectorError as error:
        yield invalid("spec.targetFilter", spread.target_filter.selector, str(error))


def conflict(spread: Spread, others: Iterable[Spread]) -> Spread | None:
    """Another spread of the namespace with the same target group, kind and name (V23), and maybe the same pods [Q-23]."""
    target = identity(spread.target)
    if target is None:
        return None
    for other in others:
        if (
            other.namespace == spread.namespace
            and other.name != spread.name
            and identity(other.target) == target
            and not apart(spread, other)
        ):
            return other
    return None


def _target_change(new: TargetRef | None, old: TargetRef | None) -> Iterator[FieldError]:
    if new is not None and old is not None and identity(new) != identity(old):
        yield invalid("spec.targetRef", new, "the target cannot be changed")


def _metadata_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    """Kubernetes' rules about updates of metadata (V24)."""
    if old.get("deletionTimestamp") is not None:
        added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added:
            yield forbidden("metadata.finalizers", f"no new finalizers while deleting: {sorted(added)}")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        yield invalid("metadata.generation", new.get("generation"), "must not be decremented")
    if old.get("resourceVersion") and not new.get("resourceVersion"):
        yield invalid("metadata.resourceVersion", "", "must be specified for an update")
    for key in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(key) != old.get(key):
            yield invalid(f"metadata.{key}", new.get(key), "field is immutable")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if old.get(key) is not None and new.get(key) != old.get(key):
            yield invalid(f"metadata.{key}", new.get(key), "field is immutable")
    yield from label_errors(new.get("labels") or {}, "metadata.labels")
    yield from annotation_errors(new.get("annotations") or {}, "metadata.annotations")
    yield from owner_errors(new.get("ownerReferences") or (), "metadata.ownerReferences")
