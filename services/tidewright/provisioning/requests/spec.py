"""A ProvisioningRequest read: validation as the CRD has it, classes, parameters, virtual pods.

Spec 1.2 (fields), 1.5 (expansion), 2.1 (classes), 2.2 (parameters). The API server validates too; the
decider trusts nothing that it did not read itself, because a manifest may have been stored before
the CRD was installed as it is now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from tidewright.kube.digits import whole_number
from tidewright.kube.durations import LONGEST_S, parse_duration

CHECK_NAME = "check-capacity.autoscaling.x-k8s.io"
CHECK_ALIAS = "check-capacity.kubernetes.io"
ATOMIC_NAME = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ATOMIC_ALIASES = frozenset({"atomic-scale-up.kubernetes.io", "best-effort-atomic-scale-up.kubernetes.io"})

CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CONSUME_DEPRECATED = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
DRY_RUN = "tidewright.dev/dry-run"

MAX_POD_SETS = 32
MAX_NAME = 253
MAX_PARAMETERS = 100
MAX_PARAMETER_VALUE = 255
MAX_COUNT = 2**31 - 1
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Mode(Enum):
    """How a class is decided."""

    CHECK = "check"
    ATOMIC = "atomic"


class PodSet(msgspec.Struct, frozen=True):
    """So many pods of one template, in the request's namespace."""

    template: str
    count: int


class RequestSpec(msgspec.Struct, frozen=True):
    """A valid spec."""

    class_name: str
    pod_sets: tuple[PodSet, ...]
    parameters: dict[str, str] = {}

    @property
    def pods(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the parameters of a request say, understood.

    Attributes:
        no_retry: one failed attempt is the last.
        valid_until_s: seconds from creation after which an unprovisioned request fails; None: the
            general expiry alone.
        booking_s: seconds that room is kept; None for the setting.
        priority: place in the order of requests; None: the templates' highest.
        topology: label key whose value is the same for all pods.
        topology_per_set: it is the same within each pod set, and may differ between them.
        min_counts: pod set index to the number with which it is content.
        across_groups: one plan may combine groups.
        warnings: values that were not understood, and are ignored.
    """

    no_retry: bool = False
    valid_until_s: float | None = None
    booking_s: float | None = None
    priority: int | None = None
    topology: str = ""
    topology_per_set: bool = False
    min_counts: dict[int, int] = {}
    across_groups: bool = False
    warnings: tuple[str, ...] = ()


def validate(spec: Any, old: Any = None) -> list[str]:
    """What is wrong with a spec, as field and reason; empty when it is valid.

    Args:
        spec: the `spec` of the object as JSON; None when the object has none.
        old: the `spec` before an update; transition rules then apply to fields that both have.
    """
    if not isinstance(spec, Mapping):
        return ["spec: Required value"]
    wrong = [
        *_pod_sets(spec.get("podSets")),
        *_dns_name("spec.provisioningClassName", spec.get("provisioningClassName")),
        *_parameters(spec.get("parameters")),
    ]
    if isinstance(old, Mapping):
        for field in ("podSets", "provisioningClassName", "parameters"):
            if field in spec and field in old and spec[field] != old[field]:
                wrong.append(f"spec.{field}: Value is immutable")
    return wrong


def _dns_name(field: str, value: Any) -> list[str]:
    if value is None:
        return [f"{field}: Required value"]
    if not isinstance(value, str) or len(value) > MAX_NAME or not _NAME.fullmatch(value):
        return [f"{field}: {value!r} is not a DNS-1123 subdomain of at most {MAX_NAME} characters"]
    return []


def _pod_sets(pod_sets: Any) -> list[str]:
    if not isinstance(pod_sets, list):
        return ["spec.podSets: Required value"]
    if not 1 <= len(pod_sets) <= MAX_POD_SETS:
        return [f"spec.podSets: has {len(pod_sets)} items, must have 1 to {MAX_POD_SETS}"]
    wrong: list[str] = []
    for index, pod_set in enumerate(pod_sets):
        path = f"spec.podSets[{index}]"
        if not isinstance(pod_set, Mapping):
            wrong.append(f"{path}: must be an object")
            continue
        count = pod_set.get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_COUNT:
            wrong.append(f"{path}.count: {count!r} is not an integer from 1 to {MAX_COUNT}")
        reference = pod_set.get("podTemplateRef")
        name = reference.get("name") if isinstance(reference, Mapping) else None
        wrong.extend(_dns_name(f"{path}.podTemplateRef.name", name))
    return wrong


def _parameters(parameters: Any) -> list[str]:
    if parameters is None:
        return []
    if not isinstance(parameters, Mapping):
        return ["spec.parameters: must be a map of strings"]
    wrong: list[str] = []
    if len(parameters) > MAX_PARAMETERS:
        wrong.append(f"spec.parameters: has {len(parameters)} entries, at most {MAX_PARAMETERS} are allowed")
    for key in sorted(parameters):
        value = parameters[key]
        if not isinstance(value, str) or len(value) > MAX_PARAMETER_VALUE:
            wrong.append(
                f"spec.parameters[{key}]: must be a string of at most {MAX_PARAMETER_VALUE} characters"
            )
    return wrong


def parse(spec: Any) -> RequestSpec:
    """The spec, typed.

    Raises:
        ValueError: it is not valid; the message lists what is wrong.
    """
    wrong = validate(spec)
    if wrong:
        raise ValueError("; ".join(wrong))
    return RequestSpec(
        class_name=spec["provisioningClassName"],
        pod_sets=tuple(PodSet(s["podTemplateRef"]["name"], s["count"]) for s in spec["podSets"]),
        parameters=dict(spec.get("parameters") or {}),
    )


def mode_of(class_name: str, parameters: Mapping[str, str], instance: str = "") -> Mode | None:
    """How a request of this class is decided here; None when it is somebody else's. Spec 2.1.

    `instance` is the flag `check-capacity-processor-instance`; with it set, this service only checks.
    """
    processor = parameters.get("processorInstance", "")
    checks = (CHECK_NAME, CHECK_ALIAS)
    if not instance:
        if class_name in checks:
            return None if processor else Mode.CHECK
        return Mode.ATOMIC if class_name == ATOMIC_NAME or class_name in ATOMIC_ALIASES else None
    if processor:
        return Mode.CHECK if processor == instance and class_name in checks else None
    return Mode.CHECK if class_name in {instance + name for name in checks} else None


def is_check_alias(class_name: str) -> bool:
    """Whether `CapacityAvailable` is kept beside `Provisioned`: clients of the proposal look there."""
    return class_name.endswith(CHECK_ALIAS)


def parameters_of(parameters: Mapping[str, str], pod_sets: int) -> Parameters:
    """The parameters, understood; what is not understood is ignored and reported. Spec 2.2."""
    warnings: list[str] = []

    def number(key: str, minimum: int) -> int | None:
        text = parameters.get(key)
        if text is None:
            return None
        amount = whole_number(text.removeprefix("-"))
        if amount is not None and (value := -amount if text.startswith("-") else amount) >= minimum:
            return value
        warnings.append(f"{key}={text!r} is ignored: expected an integer, at least {minimum}")
        return None

    def duration(key: str) -> float | None:
        text = parameters.get(key)
        if text is None:
            return None
        try:
            value = float(text) if re.fullmatch(r"\d+", text) else parse_duration(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= LONGEST_S:
            warnings.append(
                f"{key}={text!r} is ignored: expected seconds, or a duration such as 90m, of 292 years at most"
            )
            return None
        return value

    flags = {}
    for key in ("noRetry", "AcrossGroups"):
        text = parameters.get(key, "false")
        if text not in ("true", "false"):
            warnings.append(f"{key}={text!r} is ignored: expected true or false")
        flags[key] = text == "true"
    scope = parameters.get("TopologyScope", "Request")
    if scope not in ("Request", "PodSet"):
        warnings.append(f"TopologyScope={scope!r} is ignored: expected Request or PodSet")
    valid_until_s = duration("ValidUntilSeconds")
    booking_s = duration("BookingSeconds")
    counts = {}
    for index in range(pod_sets):
        value = number(f"MinCount.{index}", 0)
        if value is None and index == 0 and pod_sets == 1:
            value = number("MinCount", 0)
        if value is not None:
            counts[index] = value
    return Parameters(
        # "0" is how an administrator says "try once" (spec 2.2)
        no_retry=flags["noRetry"] or valid_until_s == 0,
        valid_until_s=valid_until_s,
        booking_s=booking_s,
        priority=number("Priority", -(2**31)),
        topology=parameters.get("Topology", ""),
        topology_per_set=scope == "PodSet",
        min_counts=counts,
        across_groups=flags["AcrossGroups"],
        warnings=tuple(warnings),
    )


def topology_details(parameters: Parameters, domains: Sequence[str]) -> dict[str, str]:
    """Where a request with a topology has its room, for `provisioningClassDetails`: Kueue makes selectors of them.

    One value for all pods is `topology`; where pod sets differ, set `i` has `topology.i`.
    """
    if not parameters.topology or not any(domains):
        return {}
    if not parameters.topology_per_set:
        return {"topology": domains[0]}
    return {f"topology.{index}": value for index, value in enumerate(domains)}


def preset(class_parameters: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Parameters of a ProvisioningClass, overlaid by the request's own."""
    return {**class_parameters, **own}


def consumed_request(annotations: Mapping[str, str]) -> str:
    """The request that a pod consumes (in its own namespace), by either spelling; empty for none."""
    return annotations.get(CONSUME) or annotations.get(CONSUME_DEPRECATED) or ""


def consumes(annotations: Mapping[str, str]) -> bool:
    """Whether a pod carries a consume annotation at all, even an empty one."""
    return CONSUME in annotations or CONSUME_DEPRECATED in annotations


def missing_templates_message(referenced: int, missing: list[str]) -> str:
    """The message of `FailedToCreatePods`, verbatim as clients know it."""
    return (
        f"missing pod templates, {referenced} pod templates were referenced, "
        f"{len(missing)} templates were missing: {','.join(missing)}"
    )
