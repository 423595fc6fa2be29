"""What the API server checks of a pod's spec, in a pod or in a template, and of changes to a pod."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.sim.api import container_rules, names
from tidewright.sim.api.container_rules import invalid, required, unsupported
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


def pod_spec(spec: Any, path: str, restart: tuple[str, ...] = _RESTART) -> Iterator[Cause]:
    """What is wrong with the spec of a pod. `restart` are the restart policies that its owner allows."""
    if not isinstance(spec, dict):
        spec = {}
        yield required(f"{path}.containers")
        return
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    ports: set[str] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield from container_rules.check(container, f"{path}.{part}[{index}]", seen, volumes, ports)
    policy = spec.get("restartPolicy")
    if policy not in restart:
        if restart != _RESTART and policy in {"Always", None, ""} and "Never" in restart:
            yield required(f"{path}.restartPolicy", 'valid values: "OnFailure", "Never"')
        else:
            yield unsupported(f"{path}.restartPolicy", policy, restart)
    if spec.get("dnsPolicy") not in _DNS:
        yield unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    value = spec.get("activeDeadlineSeconds")
    if isinstance(value, int) and value < 1:
        yield invalid(f"{path}.activeDeadlineSeconds", value, "must be between 1 and 2147483647, inclusive")
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from (
                invalid(f"{path}.{field}", spec[field], message) for message in names.label(spec[field])
            )
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from (invalid(f"{path}.nodeSelector", key, message) for message in names.qualified(key))
        yield from (invalid(f"{path}.nodeSelector", value, message) for message in names.label_value(value))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    yield from _spreads(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(affinity.get(kind) or {}, f"{path}.affinity.{kind}")
    yield from _volumes(spec.get("volumes") or (), f"{path}.volumes")


def _volumes(volumes: Iterable[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name") or ""
        at = f"{path}[{index}].name"
        if not name:
            yield required(at)
        else:
            yield from (invalid(at, name, message) for message in names.label(name))
        if name in seen:
            yield Cause(at, f"Duplicate value: {shown(name)}", "FieldValueDuplicate")
        seen.add(name)


def _toleration(toleration: Object, path: str) -> Iterator[Cause]:
    operator, key = toleration.get("operator") or "Equal", toleration.get("key")
    effect = toleration.get("effect") or ""
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
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
    if effect and effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)


def _spreads(constraints: Iterable[Object], path: str) -> Iterator[Cause]:
    seen: set[tuple[Any, Any]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        skew, domains = constraint.get("maxSkew"), constraint.get("minDomains")
        if not isinstance(skew, int) or skew <= 0:
            yield invalid(f"{at}.maxSkew", skew or 0, "must be greater than zero")
        key, when = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        if when not in {"DoNotSchedule", "ScheduleAnyway"}:
            yield unsupported(f"{at}.whenUnsatisfiable", when or "", ("DoNotSchedule", "ScheduleAnyway"))
        if isinstance(domains, int) and domains <= 0:
            yield invalid(f"{at}.minDomains", domains, "must be greater than zero")
        if (key, when) in seen:
            value = f"{{{key}, {when}}}"
            field = f"{path}[{index - 1}].{{topologyKey, whenUnsatisfiable}}"
            yield Cause(field, f"Duplicate value: {shown(value)}", "FieldValueDuplicate")
        seen.add((key, when))


_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})


def _node_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    if wanted is not None and not wanted.get("nodeSelectorTerms"):
        yield required(f"{where}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate((wanted or {}).get("nodeSelectorTerms") or ()):
        yield from _node_term(term, f"{where}.nodeSelectorTerms[{index}]")
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(preferred, at)
        yield from _node_term(preferred.get("preference") or {}, f"{at}.preference")


def _node_term(term: Object, path: str) -> Iterator[Cause]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator") or "", expression.get("values") or []
        if operator in {"In", "NotIn"} and not values:
            yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in {"Exists", "DoesNotExist"} and values:
            message = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield Cause(f"{at}.values", message, "FieldValueForbidden")
        elif operator in {"Gt", "Lt"} and len(values) != 1:
            yield required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif operator not in _OPERATORS:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        key = expression.get("key") or ""
        yield from (invalid(f"{at}.key", key, message) for message in names.qualified(key))


def _weight(preferred: Object, path: str) -> Iterator[Cause]:
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(preferred, at)
        yield from _pod_term(preferred.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _pod_term(term: Object, path: str) -> Iterator[Cause]:
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, message) for message in names.qualified(key))
    if term.get("labelSelector") is not None:
        try:
            LabelSelector.of(term["labelSelector"])
        except SelectorError as error:
            yield invalid(f"{path}.labelSelector", term["labelSelector"], str(error))


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
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in gates_before:
            message = (
                f"Forbidden: only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            )
            causes.append(Cause(f"spec.schedulingGates[{index}].name", message, "FieldValueForbidden"))
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
