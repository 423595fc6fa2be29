"""What the API server checks of a new pod and of changes to one; the rules of its spec are `kube/podapi`."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.podapi.fielderrors import FieldError, forbidden
from tidewright.kube.podapi.rules import RESTART_POLICIES, pod_spec_errors

Object = dict[str, Any]

UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def template(
    spec: Any, path: str, restart: tuple[str, ...] = RESTART_POLICIES, claims: Collection[str] = ()
) -> Iterator[FieldError]:
    """What is wrong with the spec of a pod.

    `restart` are the restart policies that its owner allows, `claims` the volumes that its owner adds.

    Raises:
        NotAQuantity: an amount is none; the API server does not come to the rules then, for it cannot decode it.
    """
    given = spec if isinstance(spec, dict) else {}
    for part in ("containers", "initContainers"):
        for container in given.get(part) or ():
            for amounts in (container.get("resources") or {}).values():
                for amount in amounts.values() if isinstance(amounts, dict) else ():
                    quantities.parse(amount)
    return pod_spec_errors(given, path, restart=restart, claims=claims, comparing=True)


def create(obj: Object) -> list[FieldError]:
    return list(template(obj.get("spec"), "spec"))


def update(new: Object, old: Object) -> list[FieldError]:
    """What a change of a pod may not change: nearly everything."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if before is after or before == after:
        return []
    allowed = copy.deepcopy(after)
    for part in ("containers", "initContainers"):
        for mine, theirs in zip(allowed.get(part) or (), before.get(part) or (), strict=False):
            if "image" in theirs:
                mine["image"] = theirs["image"]
    causes: list[FieldError] = []
    for field in ("activeDeadlineSeconds", "schedulingGates"):
        _put_back(allowed, before, field)
    kept = before.get("tolerations") or []
    if all(toleration in (after.get("tolerations") or []) for toleration in kept):
        _put_back(allowed, before, "tolerations")
    gates_before = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in gates_before:
            message = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.append(forbidden(f"spec.schedulingGates[{index}].name", message))
    if gates_before:  # a pod that is held back may still be narrowed down
        for field in ("nodeSelector", "affinity"):
            _put_back(allowed, before, field)
    if allowed != before:
        causes.append(forbidden("spec", UPDATE_FORBIDDEN))
    return causes


def _put_back(target: Object, source: Object, field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
