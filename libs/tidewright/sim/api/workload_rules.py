"""What the API server checks of workloads, configuration, services and their neighbours, by table name."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.sim.api import pod_rules
from tidewright.sim.api.errors import Cause
from tidewright.sim.api.pod_rules import invalid, not_negative, pod_spec, required, unsupported

Object = dict[str, Any]

MAX_DATA_BYTES = 1024 * 1024
MAX_USER_PRIORITY = 1_000_000_000
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable"


def _forbidden(field: str, message: str) -> Cause:
    return Cause(field, f"Forbidden: {message}", "FieldValueForbidden")


def _spec(obj: Object) -> Object:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def _listed(check: Callable[[Object], Iterator[Cause]]) -> Callable[[Object], list[Cause]]:
    return lambda obj: list(check(obj))


# -- workloads ---------------------------------------------------------------------------------------


def _workload(restart: tuple[str, ...]) -> Callable[[Object], list[Cause]]:
    def check(obj: Object) -> list[Cause]:
        spec = _spec(obj)
        causes = list(not_negative("spec.replicas", spec.get("replicas")))
        causes += _selector(spec)
        template = spec.get("template") or {}
        causes += pod_spec(template.get("spec"), "spec.template.spec", restart)
        return causes

    return check


def _selector(spec: Object) -> Iterator[Cause]:
    given = spec.get("selector")
    if not isinstance(given, dict):
        yield required("spec.selector")
        return
    try:
        selector = LabelSelector.of(given)
    except SelectorError as error:
        yield invalid("spec.selector", given, str(error))
        return
    if selector.everything:
        yield invalid("spec.selector", given, "empty selector is invalid for deployment")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not selector.matches(labels):
        yield invalid(
            "spec.template.metadata.labels", labels or {}, "`selector` does not match template `labels`"
        )


def _selector_kept(new: Object, old: Object) -> list[Cause]:
    after, before = _spec(new).get("selector"), _spec(old).get("selector")
    return [] if after == before else [invalid("spec.selector", after, _IMMUTABLE)]


def _stateful_set_update(new: Object, old: Object) -> list[Cause]:
    mutable = (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
    after = {key: value for key, value in _spec(new).items() if key not in mutable}
    before = {key: value for key, value in _spec(old).items() if key not in mutable}
    if after == before:
        return []
    named = ", ".join(f"'{field}'" for field in mutable[:-1])
    return [
        _forbidden(
            "spec",
            f"updates to statefulset spec for fields other than {named} and '{mutable[-1]}' are forbidden",
        )
    ]


def _job(obj: Object) -> Iterator[Cause]:
    spec = _spec(obj)
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        yield from not_negative(f"spec.{field}", spec.get(field))
    template = spec.get("template") or {}
    yield from pod_spec(template.get("spec"), "spec.template.spec", ("OnFailure", "Never"))


def _job_update(new: Object, old: Object) -> list[Cause]:
    after, before = _spec(new), _spec(old)
    fields = ["selector", "completionMode"]
    if not (before.get("suspend") and not (old.get("status") or {}).get("startTime")):
        fields.append("template")
    if after.get("completionMode") != "Indexed":
        fields.append("completions")
    return [
        invalid(f"spec.{field}", after.get(field), _IMMUTABLE)
        for field in fields
        if after.get(field) != before.get(field)
    ]


def _cron_job(obj: Object) -> Iterator[Cause]:
    spec = _spec(obj)
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        found = len(schedule.split())
        yield invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {found}: [{schedule}]")
    if spec.get("concurrencyPolicy") not in {"Allow", "Forbid", "Replace"}:
        yield unsupported(
            "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace")
        )


def _budget(obj: Object) -> Iterator[Cause]:
    spec = _spec(obj)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        yield from not_negative(f"spec.{field}", value)
        if isinstance(value, str) and not re.fullmatch(r"\d+%", value):
            yield invalid(
                f"spec.{field}", value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
                "regex used for validation is '[0-9]+%')",
            )  # fmt: skip


def _autoscaler(obj: Object) -> Iterator[Cause]:
    spec = _spec(obj)
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if isinstance(high, int) and high < 1:
        yield invalid("spec.maxReplicas", high, "must be greater than 0")
    if isinstance(low, int) and isinstance(high, int) and high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            yield required(f"spec.scaleTargetRef.{field}")


# -- configuration, services and the rest ------------------------------------------------------------


def _config_map(obj: Object) -> Iterator[Cause]:
    total = 0
    for part in ("data", "binaryData"):
        for key, value in (obj.get(part) or {}).items():
            if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
                yield invalid(f"{part}[{key}]", key, _CONFIG_KEY_MESSAGE)
            total += len(value or "")
    if total > MAX_DATA_BYTES:
        yield Cause("", f"Too long: may not be more than {MAX_DATA_BYTES} bytes", "FieldValueTooLong")


def _secret(obj: Object) -> Iterator[Cause]:
    yield from _config_map({"data": obj.get("data")})
    for key, value in (obj.get("data") or {}).items():
        try:
            base64.b64decode(value or "", validate=True)
        except (binascii.Error, ValueError):
            yield invalid(f"data[{key}]", "<redacted>", "illegal base64 data")


def _data_kept(new: Object, old: Object) -> list[Cause]:
    if not old.get("immutable"):
        return []
    causes = []
    if not new.get("immutable"):
        causes.append(_forbidden("immutable", "field is immutable when `immutable` is set"))
    for part in ("data", "binaryData"):
        if (new.get(part) or {}) != (old.get(part) or {}):
            causes.append(_forbidden(part, "field is immutable when `immutable` is set"))
    return causes


def _secret_update(new: Object, old: Object) -> list[Cause]:
    causes = _data_kept(new, old)
    if new.get("type") != old.get("type"):
        causes.append(invalid("type", new.get("type"), _IMMUTABLE))
    return causes


def _service(obj: Object) -> Iterator[Cause]:
    spec = _spec(obj)
    kind = spec.get("type")
    if kind not in {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}:
        yield unsupported("spec.type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield invalid(f"spec.ports[{index}].port", number or 0, "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")


def _service_update(new: Object, old: Object) -> list[Cause]:
    after, before = _spec(new).get("clusterIP"), _spec(old).get("clusterIP")
    if before and before != "None" and after != before and _spec(new).get("type") != "ExternalName":
        return [invalid("spec.clusterIPs[0]", [after], "may not change once set")]
    return []


def _priority_class(obj: Object) -> Iterator[Cause]:
    value = obj.get("value", 0)
    if value > MAX_USER_PRIORITY and not obj["metadata"].get("name", "").startswith("system-"):
        yield _forbidden("value", f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}")


def _priority_class_update(new: Object, old: Object) -> list[Cause]:
    if new.get("value", 0) != old.get("value", 0):
        return [_forbidden("value", "may not be changed in an update.")]
    return []


def _lease(obj: Object) -> Iterator[Cause]:
    seconds = _spec(obj).get("leaseDurationSeconds")
    if isinstance(seconds, int) and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")


def _node(obj: Object) -> Iterator[Cause]:
    seen = set()
    for index, taint in enumerate(_spec(obj).get("taints") or ()):
        if taint.get("effect") not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
            yield unsupported(
                f"metadata.taints[{index}].effect",
                taint.get("effect"),
                ("NoExecute", "NoSchedule", "PreferNoSchedule"),
            )
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            yield Cause(f"metadata.taints[{index}]", f"Duplicate value: {taint}", "FieldValueDuplicate")
        seen.add(identity)


def _role_binding_update(new: Object, old: Object) -> list[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


def _webhooks(obj: Object) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name") or ""
        if len(name.split(".")) < 3:
            yield invalid(
                f"{path}.name", name, "should be a domain with at least three segments separated by dots"
            )
        if name in seen:
            yield Cause(f"{path}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        seen.add(name)
        if not hook.get("admissionReviewVersions"):
            yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
        if hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            if hook.get("sideEffects"):
                yield unsupported(f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
            else:
                yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
        if hook.get("failurePolicy") not in {"Fail", "Ignore"}:
            yield unsupported(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
        timeout_s = hook.get("timeoutSeconds", 10)
        if not 1 <= timeout_s <= 30:
            yield invalid(
                f"{path}.timeoutSeconds", timeout_s, "the timeout value must be between 1 and 30 seconds"
            )
        config = hook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            yield required(f"{path}.clientConfig", "exactly one of url or service is required")
        elif config.get("url") and not str(config["url"]).startswith("https://"):
            yield invalid(f"{path}.clientConfig.url", config["url"], "'https' is the only allowed URL scheme")


_ALWAYS = ("Always",)
RULES_CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "/pods": pod_rules.create,
    "/configmaps": _listed(_config_map),
    "/secrets": _listed(_secret),
    "/services": _listed(_service),
    "/nodes": _listed(_node),
    "/replicationcontrollers": lambda obj: list(
        pod_spec((_spec(obj).get("template") or {}).get("spec"), "spec.template.spec", _ALWAYS)
    ),
    "apps/deployments": _workload(_ALWAYS),
    "apps/replicasets": _workload(_ALWAYS),
    "apps/statefulsets": _workload(_ALWAYS),
    "apps/daemonsets": _workload(_ALWAYS),
    "batch/jobs": _listed(_job),
    "batch/cronjobs": _listed(_cron_job),
    "policy/poddisruptionbudgets": _listed(_budget),
    "autoscaling/horizontalpodautoscalers": _listed(_autoscaler),
    "scheduling.k8s.io/priorityclasses": _listed(_priority_class),
    "coordination.k8s.io/leases": _listed(_lease),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _listed(_webhooks),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _listed(_webhooks),
}
RULES_UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "/pods": pod_rules.update,
    "/configmaps": _data_kept,
    "/secrets": _secret_update,
    "/services": _service_update,
    "apps/deployments": _selector_kept,
    "apps/replicasets": _selector_kept,
    "apps/daemonsets": _selector_kept,
    "apps/statefulsets": _stateful_set_update,
    "batch/jobs": _job_update,
    "scheduling.k8s.io/priorityclasses": _priority_class_update,
    "rbac.authorization.k8s.io/rolebindings": _role_binding_update,
    "rbac.authorization.k8s.io/clusterrolebindings": _role_binding_update,
}
