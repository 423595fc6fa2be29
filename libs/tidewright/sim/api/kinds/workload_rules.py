"""What the API server checks of workloads, configuration, services and their neighbours, by table name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tidewright.kube.podapi.fielderrors import (
    FieldError,
    forbidden,
    invalid,
    not_negative,
    not_supported,
    required,
)
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.sim.api.kinds import config_rules, pod_rules
from tidewright.sim.api.kinds.config_rules import IMMUTABLE
from tidewright.sim.api.kinds.resources import spec_of

Object = dict[str, Any]


def _listed(check: Callable[[Object], Iterator[FieldError]]) -> Callable[[Object], list[FieldError]]:
    return lambda obj: list(check(obj))


# -- workloads ---------------------------------------------------------------------------------------


_ALWAYS = ("Always",)


def _workload(restart: tuple[str, ...]) -> Callable[[Object], list[FieldError]]:
    def check(obj: Object) -> list[FieldError]:
        spec = spec_of(obj)
        causes: list[FieldError] = []
        for field in ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            causes += not_negative(f"spec.{field}", spec.get(field))
        causes += _selector(spec, obj.get("kind", "").lower())
        template = spec.get("template") or {}
        claims = [(c.get("metadata") or {}).get("name") or "" for c in spec.get("volumeClaimTemplates") or ()]
        causes += pod_rules.template(template.get("spec"), "spec.template.spec", restart, claims)
        return causes

    return check


_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def _amount(field: str, value: Any, *, at_most_all: bool = False) -> Iterator[FieldError]:
    """A count or a percentage."""
    yield from not_negative(field, value)
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield invalid(field, value, _PERCENT_MESSAGE)
        elif at_most_all and int(value[:-1]) > 100:
            yield invalid(field, value, "must not be greater than 100%")


def _deployment(obj: Object) -> list[FieldError]:
    causes = _workload(_ALWAYS)(obj)
    spec = spec_of(obj)
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind is None:
        pass  # there is no spec, which is told already
    elif kind not in {"Recreate", "RollingUpdate"}:
        shown = {"Type": kind, "RollingUpdate": rolling}
        causes.append(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    elif kind == "Recreate" and rolling is not None:
        message = "may not be specified when strategy `type` is 'Recreate'"
        causes.append(forbidden("spec.strategy.rollingUpdate", message))
    elif kind == "RollingUpdate" and isinstance(rolling, dict):
        causes += _rolling(rolling, "spec.strategy.rollingUpdate")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if isinstance(deadline, int) and ready >= 0 and deadline <= ready:
        causes.append(
            invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
        )
    return causes


def _rolling(rolling: Object, path: str) -> Iterator[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from _amount(f"{path}.maxUnavailable", unavailable, at_most_all=True)
    yield from _amount(f"{path}.maxSurge", surge)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def _daemon_set(obj: Object) -> list[FieldError]:
    causes = _workload(_ALWAYS)(obj)
    strategy = spec_of(obj).get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in {"OnDelete", "RollingUpdate"}:
        kinds = ("RollingUpdate", "OnDelete")
        causes.append(not_supported("spec.updateStrategy.type", strategy.get("type"), kinds))
    elif isinstance(rolling, dict):
        path = "spec.updateStrategy.rollingUpdate"
        causes += _amount(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), at_most_all=True)
        causes += _amount(f"{path}.maxSurge", rolling.get("maxSurge"), at_most_all=True)
    return causes


def _selector(spec: Object, kind: str) -> Iterator[FieldError]:
    given = spec.get("selector")
    if not isinstance(given, dict):
        yield required("spec.selector")
        message = "`selector` does not match template `labels`"
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        yield invalid("spec.template.metadata.labels", labels, message)
        return
    try:
        selector = LabelSelector.of(given)
    except SelectorError as error:
        yield invalid("spec.selector", given, str(error))
        return
    if selector.everything:
        yield invalid("spec.selector", given, f"empty selector is invalid for {kind or 'deployment'}")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not selector.matches(labels):
        yield invalid(
            "spec.template.metadata.labels", labels or {}, "`selector` does not match template `labels`"
        )


def _selector_kept(new: Object, old: Object) -> list[FieldError]:
    after, before = spec_of(new).get("selector"), spec_of(old).get("selector")
    return [] if after == before else [invalid("spec.selector", after, IMMUTABLE)]


def _stateful_set_update(new: Object, old: Object) -> list[FieldError]:
    mutable = (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
    after = {key: value for key, value in spec_of(new).items() if key not in mutable}
    before = {key: value for key, value in spec_of(old).items() if key not in mutable}
    if after == before:
        return []
    named = ", ".join(f"'{field}'" for field in mutable[:-1])
    return [
        forbidden(
            "spec",
            f"updates to statefulset spec for fields other than {named} and '{mutable[-1]}' are forbidden",
        )
    ]


def _job(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        yield from not_negative(f"spec.{field}", spec.get(field))
    template = spec.get("template") or {}
    yield from pod_rules.template(template.get("spec"), "spec.template.spec", ("OnFailure", "Never"))


def _job_update(new: Object, old: Object) -> list[FieldError]:
    after, before = spec_of(new), spec_of(old)
    fields = ["selector", "completionMode"]
    if not (before.get("suspend") and not (old.get("status") or {}).get("startTime")):
        fields.append("template")
    if after.get("completionMode") != "Indexed":
        fields.append("completions")
    negative = [*not_negative("spec.parallelism", after.get("parallelism"))]
    return negative + [
        invalid(f"spec.{field}", after.get(field), IMMUTABLE)
        for field in fields
        if after.get(field) != before.get(field)
    ]


def _cron_job(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        field_count = len(schedule.split())
        yield invalid(
            "spec.schedule", schedule, f"expected exactly 5 fields, found {field_count}: [{schedule}]"
        )
    if spec.get("concurrencyPolicy") not in {"Allow", "Forbid", "Replace"}:
        yield not_supported(
            "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace")
        )


def _budget(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from _amount(f"spec.{field}", spec.get(field), at_most_all=True)
    if spec.get("selector") is not None:
        try:
            LabelSelector.of(spec["selector"])
        except SelectorError as error:
            yield invalid("spec.selector", spec["selector"], str(error))


def _autoscaler(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if isinstance(high, int) and high < 1:
        yield invalid("spec.maxReplicas", high, "must be greater than 0")
    if isinstance(low, int) and isinstance(high, int) and high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            yield required(f"spec.scaleTargetRef.{field}")
    if not target.get("apiVersion"):
        yield invalid("spec.scaleTargetRef.apiVersion", "", "apiVersion must specify API group")


RULES_CREATE: dict[str, Callable[[Object], list[FieldError]]] = {
    "/pods": pod_rules.create,
    "/configmaps": _listed(config_rules.config_map),
    "/secrets": _listed(config_rules.secret),
    "/services": _listed(config_rules.service),
    "/nodes": _listed(config_rules.node),
    "/replicationcontrollers": lambda obj: list(
        pod_rules.template((spec_of(obj).get("template") or {}).get("spec"), "spec.template.spec", _ALWAYS)
    ),
    "/persistentvolumeclaims": _listed(config_rules.claim),
    "/resourcequotas": _listed(config_rules.resource_quota),
    "/limitranges": _listed(config_rules.limit_range),
    "/events": _listed(config_rules.event),
    "apps/deployments": _deployment,
    "apps/replicasets": _workload(_ALWAYS),
    "apps/statefulsets": _workload(_ALWAYS),
    "apps/daemonsets": _daemon_set,
    "batch/jobs": _listed(_job),
    "batch/cronjobs": _listed(_cron_job),
    "policy/poddisruptionbudgets": _listed(_budget),
    "autoscaling/horizontalpodautoscalers": _listed(_autoscaler),
    "scheduling.k8s.io/priorityclasses": config_rules.known_priority_class,
    "rbac.authorization.k8s.io/rolebindings": _listed(config_rules.role_binding),
    "rbac.authorization.k8s.io/clusterrolebindings": _listed(config_rules.role_binding),
    "coordination.k8s.io/leases": _listed(config_rules.lease),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _listed(config_rules.webhooks),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _listed(config_rules.webhooks),
}
RULES_UPDATE: dict[str, Callable[[Object, Object], list[FieldError]]] = {
    "/pods": pod_rules.update,
    "/configmaps": config_rules.data_kept,
    "/secrets": config_rules.secret_update,
    "/services": config_rules.service_update,
    "apps/deployments": _selector_kept,
    "apps/replicasets": _selector_kept,
    "apps/daemonsets": _selector_kept,
    "apps/statefulsets": _stateful_set_update,
    "batch/jobs": _job_update,
    "scheduling.k8s.io/priorityclasses": config_rules.priority_class_update,
    "rbac.authorization.k8s.io/rolebindings": config_rules.role_binding_update,
    "rbac.authorization.k8s.io/clusterrolebindings": config_rules.role_binding_update,
}
