"""ResourceQuota: what the pods and objects of a namespace may add up to.

A new pod, or one whose requests grow, is charged against every quota of its namespace whose scopes it
matches; what would exceed one is forbidden (403) with the numbers. Usage is counted from the objects that
are there and written to the quotas' status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewright.kube import quantities
from tidewright.kube.quotascopes import in_scopes, scopes_of, traits_of
from tidewright.sim.api import errors
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
TABLE = "/resourcequotas"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_TERMINAL = frozenset({"Succeeded", "Failed"})


def check(api: Api, kind: Kind, new: Object, old: Object | None) -> None:
    """Raises 403 when the namespace's quotas do not allow the object."""
    quotas = api.store.table(TABLE)
    namespace = new["metadata"].get("namespace", "")
    if not quotas.keys or not kind.namespaced or kind.table_name == TABLE:
        return
    added = usage_of(kind, new)
    if old is not None:
        before = usage_of(kind, old)
        added = {name: amount - before.get(name, 0) for name, amount in added.items()}
        if all(amount <= 0 for amount in added.values()):
            return
    if not added:
        return
    for record in quotas.scan(namespace):
        quota = record.decode()
        spec = quota.get("spec") or {}
        if not _in_scope(spec, new):
            continue
        hard = {name: _nanos(amount) for name, amount in (spec.get("hard") or {}).items()}
        _check_one(api, kind, new, record=record, quota=quota, hard=hard, added=added, creating=old is None)


def _check_one(
    api: Api,
    kind: Kind,
    new: Object,
    *,
    record: Record,
    quota: Object,
    hard: dict[str, int],
    added: dict[str, int],
    creating: bool,
) -> None:
    name = new["metadata"].get("name", "")
    if kind.table_name == "/pods" and creating:
        missing = sorted(
            resource
            for resource in hard
            if resource.partition(".")[2] in _COMPUTE or resource in _COMPUTE
            if not _every_container_sets(new, resource)
        )
        if missing:
            raise errors.forbidden(
                kind.group,
                kind.plural,
                name,
                f"failed quota: {record.name}: must specify {_missing(new, missing)}",
            )
    relevant = {resource: amount for resource, amount in added.items() if resource in hard and amount > 0}
    if not relevant:
        return
    used = used_in(api, record.namespace, quota.get("spec") or {})
    exceeded = [
        resource
        for resource in sorted(relevant)
        if used.get(resource, 0) + relevant[resource] > hard[resource]
    ]
    if exceeded:

        def told(amounts: dict[str, int]) -> str:
            return ",".join(
                f"{resource}={_text(amounts.get(resource, 0), quota, resource)}" for resource in exceeded
            )

        raise errors.forbidden(
            kind.group,
            kind.plural,
            name,
            f"exceeded quota: {record.name}, requested: {told(relevant)}, used: {told(used)}, limited: {told(hard)}",
        )


def _missing(pod: Object, resources: list[str]) -> str:
    parts = []
    for resource in resources:
        names = [
            container.get("name", "")
            for container in (pod.get("spec") or {}).get("containers") or ()
            if not _container_sets(container, resource)
        ]
        parts.append(f"{resource} for: {','.join(names)}")
    return "; ".join(parts)


def _every_container_sets(pod: Object, resource: str) -> bool:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return all(_container_sets(container, resource) for container in containers)


def _container_sets(container: Object, resource: str) -> bool:
    part, _, name = resource.rpartition(".")
    return name in ((container.get("resources") or {}).get(part or "requests") or {})


def usage_of(kind: Kind, obj: Object) -> dict[str, int]:
    """What one object uses, in nanos of each resource's unit."""
    unit = quantities.NANOS_PER_UNIT
    counted = f"count/{kind.name}"
    if kind.table_name != "/pods":
        used = {counted: unit}
        if not kind.group:
            used[kind.plural] = unit
        if kind.table_name == "/persistentvolumeclaims":
            storage = (((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
            used["requests.storage"] = _nanos(storage)
        return used
    if (obj.get("status") or {}).get("phase") in _TERMINAL:
        return {counted: unit}
    used = {counted: unit, "pods": unit}
    for part in ("requests", "limits"):
        for name, amount in pod_resources(obj, part).items():
            used[f"{part}.{name}"] = amount
            if part == "requests" and name in _COMPUTE:
                used[name] = amount
    return used


def pod_resources(pod: Object, part: str) -> dict[str, int]:
    """Requests or limits of a pod: the sum of its containers, or the largest init container, with overhead."""
    spec = pod.get("spec") or {}
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            total[name] = total.get(name, 0) + _nanos(amount)
    for container in spec.get("initContainers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            total[name] = max(total.get(name, 0), _nanos(amount))
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, 0) + _nanos(amount)
    return total


def used_in(api: Api, namespace: str, spec: Object) -> dict[str, int]:
    """What the objects of a namespace use of a quota's resources."""
    resources = set(spec.get("hard") or {})
    used: dict[str, int] = dict.fromkeys(resources, 0)
    for kind in api.registry:
        if not kind.namespaced or kind.table or kind.table_name == TABLE:
            continue
        table = api.store.table(kind.table_name)
        is_pod = kind.table_name == "/pods"
        counts = {f"count/{kind.name}", kind.plural if not kind.group else ""} & resources
        if not is_pod and not counts and kind.table_name != "/persistentvolumeclaims":
            continue
        for record in table.scan(namespace):
            obj = record.decode()
            if is_pod and not _in_scope(spec, obj):
                continue
            for name, amount in usage_of(kind, obj).items():
                if name in resources:
                    used[name] += amount
    return used


def _in_scope(spec: Object, obj: Object) -> bool:
    return in_scopes(scopes_of(spec), traits_of(obj.get("spec") or {}))


def write_status(api: Api, record: Record) -> None:
    """Bring a quota's status up to date with what is there."""
    kind = api.registry.named("resourcequotas")
    if kind is None:
        return
    obj = record.decode()
    spec = obj.get("spec") or {}
    used = used_in(api, record.namespace, spec)
    status = {
        "hard": spec.get("hard") or {},
        "used": {name: _text(amount, obj, name) for name, amount in sorted(used.items())},
    }
    if obj.get("status") != status:
        obj["status"] = status
        stored = api.store.put(api.store.table(TABLE), obj)
        api.committed(kind, stored, record, obj)


def _nanos(amount: Any) -> int:
    try:
        return quantities.parse(str(amount)).nanos if amount is not None else 0
    except quantities.NotAQuantity:
        return 0


def _text(nanos: int, quota: Object, resource: str) -> str:
    """An amount in the notation of the quota's own bound."""
    try:
        bound = quantities.parse(str(((quota.get("spec") or {}).get("hard") or {}).get(resource, "0")))
    except quantities.NotAQuantity:
        return str(nanos // quantities.NANOS_PER_UNIT)
    return quantities.canonical(quantities.Quantity(nanos, bound.notation))
