"""What the API server checks of a pod's spec, in a pod or in a template, and of changes to a pod."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.selectors import SelectorError, requirement
from tidewright.sim.api import names
from tidewright.sim.api.errors import Cause
from tidewright.sim.api.structural import shown

Object = dict[str, Any]

UPDATE_FORBIDDEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def invalid(field: str, value: Any, message: str) -> Cause:
    return Cause(field, f"Invalid value: {shown(value)}: {message}")


def required(field: str, message: str = "") -> Cause:
    return Cause(field, "Required value" + (f": {message}" if message else ""), "FieldValueRequired")


def unsupported(field: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{item}"' for item in sorted(supported))
    return Cause(
        field, f"Unsupported value: {shown(value)}: supported values: {listed}", "FieldValueNotSupported"
    )


def not_negative(field: str, value: Any) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def pod_spec(spec: Any, path: str, restart: tuple[str, ...] = _RESTART) -> Iterator[Cause]:
    """What is wrong with the spec of a pod. `restart` are the restart policies that its owner allows."""
    if not isinstance(spec, dict):
        yield required(path)
        return
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield from _container(container, f"{path}.{part}[{index}]", seen)
    if spec.get("restartPolicy") not in restart:
        yield unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), restart)
    if spec.get("dnsPolicy") not in _DNS:
        yield unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    for field in ("activeDeadlineSeconds",):
        value = spec.get(field)
        if isinstance(value, int) and value < 1:
            yield invalid(f"{path}.{field}", value, "must be between 1 and 2147483647, inclusive")
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from (invalid(f"{path}.nodeSelector", key, message) for message in names.qualified(key))
        yield from (invalid(f"{path}.nodeSelector", value, message) for message in names.label_value(value))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread(constraint, f"{path}.topologySpreadConstraints[{index}]")
    yield from _node_affinity(spec, path)
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name") or ""
        if name in volumes:
            yield Cause(
                f"{path}.volumes[{index}].name", f"Duplicate value: {shown(name)}", "FieldValueDuplicate"
            )
        volumes.add(name)


def _container(container: Object, path: str, seen: set[str]) -> Iterator[Cause]:
    name = container.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid(f"{path}.name", name, message) for message in names.label(name))
        if name in seen:
            yield Cause(f"{path}.name", f"Duplicate value: {shown(name)}", "FieldValueDuplicate")
        seen.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort")
        if number is None:
            yield required(f"{path}.ports[{index}].containerPort")
        elif not 0 < number < 65536:
            yield invalid(
                f"{path}.ports[{index}].containerPort", number, "must be between 1 and 65535, inclusive"
            )
        if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
            yield unsupported(f"{path}.ports[{index}].protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))
    if container.get("imagePullPolicy") not in {"Always", "IfNotPresent", "Never"}:
        yield unsupported(
            f"{path}.imagePullPolicy", container.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never")
        )
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{path}.env[{index}].name")
    resources = container.get("resources")
    if resources:
        yield from _resources(resources, f"{path}.resources")


def _resources(resources: Object, path: str) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for part in ("limits", "requests"):
        for name, amount in (resources.get(part) or {}).items():
            if quantities.parse(amount).nanos < 0:
                yield invalid(f"{path}.{part}[{name}]", amount, "must be greater than or equal to 0")
    for name, amount in (resources.get("requests") or {}).items():
        if name not in limits:
            continue
        wanted, limit = quantities.parse(amount), quantities.parse(limits[name])
        if wanted.nanos > limit.nanos:
            yield invalid(
                f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}"
            )


def _toleration(toleration: Object, path: str) -> Iterator[Cause]:
    operator, key = toleration.get("operator") or "Equal", toleration.get("key")
    if operator not in {"Equal", "Exists", "Lt", "Gt"}:
        yield unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if not key and operator != "Exists":
        yield invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator == "Exists" and toleration.get("value"):
        yield invalid(
            f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
        )
    effect = toleration.get("effect")
    if effect and effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)


def _spread(constraint: Object, path: str) -> Iterator[Cause]:
    skew = constraint.get("maxSkew")
    if not isinstance(skew, int) or skew <= 0:
        yield invalid(f"{path}.maxSkew", skew or 0, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    when = constraint.get("whenUnsatisfiable")
    if when not in {"DoNotSchedule", "ScheduleAnyway"}:
        yield unsupported(f"{path}.whenUnsatisfiable", when or "", ("DoNotSchedule", "ScheduleAnyway"))


def _node_affinity(spec: Object, path: str) -> Iterator[Cause]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    where = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.get("requiredDuringSchedulingIgnoredDuringExecution") is not None and not wanted.get(
        "nodeSelectorTerms"
    ):
        yield required(f"{where}.nodeSelectorTerms", "must have at least one node selector term")
    for term_index, term in enumerate(wanted.get("nodeSelectorTerms") or ()):
        for index, expression in enumerate(term.get("matchExpressions") or ()):
            at = f"{where}.nodeSelectorTerms[{term_index}].matchExpressions[{index}]"
            try:
                requirement(
                    expression.get("key", ""), expression.get("operator", ""), expression.get("values") or ()
                )
            except SelectorError as error:
                yield invalid(at, expression.get("operator", ""), str(error))


def create(obj: Object) -> list[Cause]:
    return list(pod_spec(obj.get("spec"), "spec"))


def update(new: Object, old: Object) -> list[Cause]:
    """What a change of a pod may not change: nearly everything."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if before is after or before == after:
        return []
    allowed = copy.deepcopy(after)
    for part in ("containers", "initContainers"):
        for mine, theirs in zip(allowed.get(part) or (), before.get(part) or (), strict=False):
            if "image" in theirs:
                mine["image"] = theirs["image"]
    causes: list[Cause] = []
    for field in ("activeDeadlineSeconds", "schedulingGates"):
        _put_back(allowed, before, field)
    kept = before.get("tolerations") or []
    if all(toleration in (after.get("tolerations") or []) for toleration in kept):
        _put_back(allowed, before, "tolerations")
    gates_before = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    gates_after = {gate.get("name") for gate in after.get("schedulingGates") or ()}
    if not gates_after <= gates_before:
        causes.append(
            Cause(
                "spec.schedulingGates",
                "Forbidden: only deletion is allowed, but found new scheduling gates",
                "FieldValueForbidden",
            )
        )
    if gates_before:  # a pod that is held back may still be narrowed down
        for field in ("nodeSelector", "affinity"):
            _put_back(allowed, before, field)
    if allowed != before:
        causes.append(Cause("spec", UPDATE_FORBIDDEN, "FieldValueForbidden"))
    return causes


def _put_back(target: Object, source: Object, field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
