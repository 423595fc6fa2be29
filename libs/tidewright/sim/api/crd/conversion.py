"""Conversion between served versions of one stored kind.

Custom resources convert trivially (only `apiVersion` changes). Events are stored once, as core/v1, and
served in two groups that name some fields differently. HorizontalPodAutoscalers are stored as autoscaling/v2;
what v1 has no field for is in annotations there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.sim.api.kinds.resources import Kind

Object = dict[str, Any]
_CORE_ONLY = ("firstTimestamp", "lastTimestamp", "count", "source")
_CORE_TO_EVENTS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
)


def convert(kind: Kind, api_version: str, obj: Object) -> Object:
    """The object as `api_version`; shares what does not change."""
    if kind.table_name == "autoscaling/horizontalpodautoscalers":
        if obj.get("apiVersion", api_version) == api_version:
            return obj | {"apiVersion": api_version, "kind": kind.kind}
        convert_to = _autoscaler_v1 if api_version == "autoscaling/v1" else _autoscaler_v2
        return convert_to(obj) | {"apiVersion": api_version, "kind": kind.kind}
    if kind.table_name != "/events":
        return obj | {"apiVersion": api_version, "kind": kind.kind}
    result = dict(obj)
    if api_version == "v1" and obj.get("apiVersion") != "v1":
        for core, events in _CORE_TO_EVENTS:
            if events in result:
                result[core] = result.pop(events)
        for core in _CORE_ONLY:
            name = _deprecated(core)
            if name in result:
                result[core] = result.pop(name)
    elif api_version != "v1" and obj.get("apiVersion") == "v1":
        for core, events in _CORE_TO_EVENTS:
            if core in result:
                result[events] = result.pop(core)
        for core in _CORE_ONLY:
            if core in result:
                result[_deprecated(core)] = result.pop(core)
    result["apiVersion"] = api_version
    return result


_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_TARGET = "targetCPUUtilizationPercentage"
_OBSERVED = "currentCPUUtilizationPercentage"


def _is_cpu(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    return metric.get("type") == "Resource" and resource.get("name") == "cpu"


def _autoscaler_v1(obj: Object) -> Object:
    """autoscaling/v1 knows one target for the CPU and nothing else."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    kept: Object = {}
    others = []
    for metric in spec.pop("metrics", None) or ():
        target = (metric.get("resource") or {}).get("target") or {}
        if _is_cpu(metric) and _TARGET not in spec and target.get("averageUtilization") is not None:
            spec[_TARGET] = target["averageUtilization"]
        else:
            others.append(metric)
    currents = []
    for metric in status.pop("currentMetrics", None) or ():
        current = (metric.get("resource") or {}).get("current") or {}
        if _is_cpu(metric) and current.get("averageUtilization") is not None:
            status[_OBSERVED] = current["averageUtilization"]
        else:
            currents.append(metric)
    parts = ((_METRICS, others), (_BEHAVIOR, spec.pop("behavior", None)), (_CURRENT, currents),
             (_CONDITIONS, status.pop("conditions", None)))  # fmt: skip
    for name, value in parts:
        if value:
            kept[name] = msgspec.json.encode(value).decode()
    status = {"currentReplicas": 0, "desiredReplicas": 0} | status
    return obj | {"metadata": _annotated(obj, kept), "spec": spec, "status": status}


def _autoscaler_v2(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = obj["metadata"].get("annotations") or {}

    def kept(name: str) -> Any:
        try:
            return msgspec.json.decode(annotations[name])
        except (KeyError, msgspec.DecodeError):
            return None

    target, observed = spec.pop(_TARGET, None), status.pop(_OBSERVED, None)
    metrics = list(kept(_METRICS) or ())
    if target is not None or not metrics:
        metrics.insert(0, _cpu("target", {"type": "Utilization", "averageUtilization": target or 80}))
    spec["metrics"] = metrics
    if kept(_BEHAVIOR):
        spec["behavior"] = kept(_BEHAVIOR)
    if kept(_CONDITIONS):
        status["conditions"] = kept(_CONDITIONS)
    current = list(kept(_CURRENT) or ())
    if observed is not None:
        current.insert(0, _cpu("current", {"averageUtilization": observed}))
    status["currentMetrics"] = current or None
    return obj | {"metadata": _annotated(obj, {}), "spec": spec, "status": status}


def _cpu(part: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", part: value}}


def _annotated(obj: Object, kept: Object) -> Object:
    """The metadata with exactly these annotations of the conversion."""
    meta = dict(obj["metadata"])
    ours = (_METRICS, _BEHAVIOR, _CONDITIONS, _CURRENT)
    rest = {
        key: value for key, value in (meta.pop("annotations", None) or {}).items() if key not in ours
    } | kept
    return meta | {"annotations": rest} if rest else meta


def _deprecated(core: str) -> str:
    return "deprecated" + core[0].upper() + core[1:]
