"""A HorizontalPodAutoscaler for a service, where its replicas share the work.

Deciders whose slots replicas share out are scaled by how far they are behind the log and, as endpoints, by the processor time that
they take. Of the others (watcher, actuator, provisioning) one replica works and the rest stand by: more of them carry no more.

It is Kubernetes' own and none of ours, so the autoscaler is scaled while it cannot keep up, and never by itself.
"""

from __future__ import annotations

from tidewright.asking.services import SERVICES, Role, Service
from tidewright.cli.contract.helm.markup import Manifest, value
from tidewright.cli.contract.pods import labels_of, named

SERIES = "tidewright_fold_lag_events"
"""Events on the log that a replica has not folded yet."""
BUSY_PERCENT = 70
UP_S, DOWN_S = 60, 300
"""Between two steps: who joins takes slots over, and who leaves gives them, so there are few at a time."""


def shared(service: Service) -> str:
    """By what a service is scaled: `lag`, `cpu`, or nothing where one replica works."""
    if service.role is Role.DECIDER and service.partition == "slots":
        return "lag"
    return "cpu" if service.role is Role.ENDPOINT else ""


SCALABLE: dict[str, str] = {service.name: by for service in SERVICES if (by := shared(service))}


def autoscaler(service: Service, namespace: str) -> Manifest | None:
    """The object, with `.` as the values for this service; None for one that is not scaled."""
    by = SCALABLE.get(service.name)
    if by is None:
        return None
    if by == "lag":
        most = value("int64 (.lag | default 1000)")
        behind = {"metric": {"name": SERIES}, "target": {"type": "AverageValue", "averageValue": most}}
        # Who keeps up lags by nothing, whether there are just enough or too many: what they have to do tells which.
        metrics = [{"type": "Pods", "pods": behind}, _busy(BUSY_PERCENT)]
    else:
        metrics = [_busy(value(f"int64 (.cpu | default {BUSY_PERCENT})"))]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": named(service.name, namespace) | {"labels": labels_of(service.name)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": service.name},
            "minReplicas": value("int64 (.min | default 2)"),
            "maxReplicas": value("int64 .max"),
            "metrics": metrics,
            "behavior": {
                "scaleUp": _one_in(UP_S) | {"stabilizationWindowSeconds": UP_S},
                "scaleDown": _one_in(DOWN_S) | {"stabilizationWindowSeconds": 2 * DOWN_S},
            },
        },
    }


def _busy(percent: int | str) -> Manifest:
    """So much of the processor time that pods request."""
    target: Manifest = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _one_in(seconds: int) -> Manifest:
    return {"policies": [{"type": "Pods", "value": 1, "periodSeconds": seconds}]}
