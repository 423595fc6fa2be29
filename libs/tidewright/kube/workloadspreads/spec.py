"""The resource, typed: what a WorkloadSpread asks for (specification, 1.2 to 1.4).

Both served versions are read by one function, because they differ in the names of two fields only.
Scheduling terms, tolerations and patches stay JSON: they are copied into pods as they are.

    parse         an object of either version to `Spread`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.projection.forms import LabelSelectorForm, Term, TolerationForm
from tidewright.kube.workloadspreads.limits import Limit

GROUP = "apps.kruise.io"
KIND = "WorkloadSpread"
ADAPTIVE = "Adaptive"
MATCHED_ANNOTATION = "apps.kruise.io/matched-workloadspread"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
KEEP_METADATA_ANNOTATION = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
COMPONENT = "workloadspread-controller"


class BadSpread(ValueError):
    """The stored object is no WorkloadSpread; the message names the field and what it holds."""


class TargetRef(msgspec.Struct, frozen=True, rename="camel"):
    """The workload that is spread; it lives in the spread's namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""

    def __repr__(self) -> str:
        """As people write it: errors show it."""
        return f"{self.api_version} {self.kind} {self.name}".strip()


class TargetFilter(msgspec.Struct, frozen=True, rename="camel"):
    """Which of the target's pods, and where its replicas stand. `selector` None: not given."""

    selector: JsonObject | None = None
    replicas_path_list: tuple[str, ...] = ()


class Subset(msgspec.Struct, frozen=True):
    """One subset.

    Attributes:
        required: a NodeSelectorTerm.
        preferred: PreferredSchedulingTerms.
        limit: None for unlimited.
    """

    name: str
    required: JsonObject | None = None
    preferred: tuple[JsonObject, ...] = ()
    tolerations: tuple[JsonObject, ...] = ()
    limit: Limit | None = None
    patch: JsonObject | None = None


class Spread(msgspec.Struct, frozen=True):
    """A WorkloadSpread as decisions see it.

    Attributes:
        strategy: `Adaptive`, `Fixed` or "" (as Fixed).
        reschedule_after_s: `rescheduleCriticalSeconds`; 0 when rescheduling is off.
        keep_metadata: an adopted pod gets the annotation only, not the metadata of the patch.
    """

    namespace: str
    name: str
    subsets: tuple[Subset, ...] = ()
    target: TargetRef | None = None
    target_filter: TargetFilter | None = None
    strategy: str = ""
    reschedule_after_s: int = 0
    uid: str = ""
    generation: int = 0
    deleting: bool = False
    keep_metadata: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether pods are rescheduled: the type alone is not enough."""
        return self.strategy == ADAPTIVE and self.reschedule_after_s > 0

    @property
    def trivial(self) -> bool:
        """One unlimited subset: every pod goes there, and nothing is counted at admission."""
        return len(self.subsets) == 1 and self.subsets[0].limit is None

    def subset(self, name: str) -> Subset | None:
        for subset in self.subsets:  # a generator costs more than the few names
            if subset.name == name:
                return subset
        return None


class _Adaptive(msgspec.Struct, rename="camel"):
    reschedule_critical_seconds: int | None = None
    disable_simulation_schedule: bool | None = None


class _ScheduleStrategy(msgspec.Struct):
    type: str | None = None
    adaptive: _Adaptive | None = None


class _Filter(msgspec.Struct, rename="camel"):
    selector: JsonObject | None = None
    replicas_path_list: list[str] | None = None


class _Target(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None


class _Subset(msgspec.Struct, rename="camel"):
    name: str | None = None
    required_node_selector_term: JsonObject | None = None
    required_node_selector: JsonObject | None = None
    preferred_node_selector_terms: list[JsonObject] | None = None
    preferred_node_selector: list[JsonObject] | None = None
    tolerations: list[JsonObject] | None = None
    max_replicas: int | str | None = None
    patch: JsonObject | None = None


class _Preference(msgspec.Struct):
    weight: int | None = None
    preference: Term | None = None


class _SubsetForm(msgspec.Struct, rename="camel"):
    """What of a subset stays JSON has to be like."""

    required_node_selector_term: Term | None = None
    required_node_selector: Term | None = None
    preferred_node_selector_terms: list[_Preference] | None = None
    preferred_node_selector: list[_Preference] | None = None
    tolerations: list[TolerationForm] | None = None


class _FilterForm(msgspec.Struct):
    selector: LabelSelectorForm | None = None


class _Form(msgspec.Struct, rename="camel"):
    subsets: list[_SubsetForm] | None = None
    target_filter: _FilterForm | None = None


class _Spec(msgspec.Struct, rename="camel"):
    target_ref: _Target | None = None
    target_filter: _Filter | None = None
    subsets: list[_Subset] | None = None
    schedule_strategy: _ScheduleStrategy | None = None


def parse(obj: Mapping[str, Any]) -> Spread:
    """Read an object of `v1alpha1` or `v1beta1`.

    Raises:
        BadSpread: a field has another type than the API gives it.
    """
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    return parse_spec(
        obj.get("spec") or {},
        namespace=meta.get("namespace") or "default",
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        generation=meta.get("generation") or 0,
        deleting=meta.get("deletionTimestamp") is not None,
        annotations=meta.get("annotations") or {},
    )


def parse_spec(
    spec: Mapping[str, Any],
    *,
    namespace: str,
    name: str,
    uid: str = "",
    generation: int = 0,
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> Spread:
    """Read a spec of either version. Raises BadSpread."""
    try:
        read = msgspec.convert(spec, _Spec)
        msgspec.convert(spec, _Form)
    except msgspec.ValidationError as error:
        raise BadSpread(f"WorkloadSpread {namespace}/{name}: spec: {error}") from error
    strategy = read.schedule_strategy or _ScheduleStrategy()
    adaptive = strategy.adaptive or _Adaptive()
    kept = (annotations or {}).get(KEEP_METADATA_ANNOTATION, "")
    return Spread(
        namespace=namespace,
        name=name,
        subsets=tuple(_subset(s) for s in read.subsets or ()),
        target=_target(read.target_ref),
        target_filter=_filter(read.target_filter),
        strategy=strategy.type or "",
        reschedule_after_s=max(adaptive.reschedule_critical_seconds or 0, 0),
        uid=uid,
        generation=generation,
        deleting=deleting,
        keep_metadata=kept.lower() == "true",
    )


def _subset(read: _Subset) -> Subset:
    required = read.required_node_selector_term
    preferred = read.preferred_node_selector_terms
    return Subset(
        name=read.name or "",
        required=required if required is not None else read.required_node_selector,
        preferred=tuple((preferred if preferred is not None else read.preferred_node_selector) or ()),
        tolerations=tuple(read.tolerations or ()),
        limit=read.max_replicas,
        patch=read.patch or None,
    )


def _target(read: _Target | None) -> TargetRef | None:
    return None if read is None else TargetRef(read.api_version or "", read.kind or "", read.name or "")


def _filter(read: _Filter | None) -> TargetFilter | None:
    return None if read is None else TargetFilter(read.selector, tuple(read.replicas_path_list or ()))
