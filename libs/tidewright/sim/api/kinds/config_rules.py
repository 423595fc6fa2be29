"""What the API server checks of configuration, services, storage, quotas, nodes, roles and webhooks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.podapi import names
from tidewright.kube.podapi.fielderrors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_negative,
    not_supported,
    required,
)
from tidewright.kube.podapi.termrules import EFFECTS
from tidewright.sim.api.kinds.resources import spec_of

Object = dict[str, Any]

MAX_DATA_BYTES = 1024 * 1024
MAX_USER_PRIORITY = 1_000_000_000
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
IMMUTABLE = "field is immutable"


def config_map(obj: Object) -> Iterator[FieldError]:
    total = 0
    for key in obj.get("data") or ():
        if key in (obj.get("binaryData") or ()):
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for part in ("data", "binaryData"):
        for key, value in (obj.get(part) or {}).items():
            if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
                yield invalid(f"{part}[{key}]", key, _CONFIG_KEY_MESSAGE)
            total += len(value or "")
    if total > MAX_DATA_BYTES:
        yield FieldError("[]", f"Too long: may not be more than {MAX_DATA_BYTES} bytes", "FieldValueTooLong")


def secret(obj: Object) -> Iterator[FieldError]:
    data = obj.get("data") or {}
    yield from config_map({"data": data})
    for key in _SECRET_KEYS.get(obj.get("type") or "", ()):
        if key not in data:
            yield required(f"data[{key}]")


_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def not_base64(obj: Object) -> int | None:
    """The first byte that is not base64 of data that has to be; None when all is."""
    part = obj.get("binaryData" if obj.get("kind") == "ConfigMap" else "data")
    if part:
        for value in part.values():
            try:
                base64.b64decode(value or "", validate=True)
            except (binascii.Error, ValueError):
                match = _BASE64.match(value)
                whole = match.end() if match else 0
                return whole if whole < len(value) else len(value) - len(value) % 4
    return None


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def data_kept(new: Object, old: Object) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    causes = []
    if not new.get("immutable"):
        causes.append(forbidden("immutable", "field is immutable when `immutable` is set"))
    for part in ("data", "binaryData"):
        if (new.get(part) or {}) != (old.get(part) or {}):
            causes.append(forbidden(part, "field is immutable when `immutable` is set"))
    return causes


def secret_update(new: Object, old: Object) -> list[FieldError]:
    causes = data_kept(new, old)
    if new.get("type") != old.get("type"):
        causes.append(invalid("type", new.get("type"), IMMUTABLE))
    return causes


def service(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    kind = spec.get("type")
    if kind not in {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}:
        yield not_supported("spec.type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield invalid(f"spec.ports[{index}].port", number or 0, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
            yield not_supported(f"spec.ports[{index}].protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))
        target = port.get("targetPort")
        if isinstance(target, int) and not 0 < target < 65536:
            yield invalid(f"spec.ports[{index}].targetPort", target, "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")


def service_update(new: Object, old: Object) -> list[FieldError]:
    after, before = spec_of(new).get("clusterIP"), spec_of(old).get("clusterIP")
    if before and before != "None" and after != before and spec_of(new).get("type") != "ExternalName":
        return [invalid("spec.clusterIPs[0]", [after], "may not change once set")]
    return []


def priority_class(obj: Object) -> Iterator[FieldError]:
    value = obj.get("value", 0)
    if value > MAX_USER_PRIORITY and not obj["metadata"].get("name", "").startswith("system-"):
        yield forbidden("value", f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}")


def known_priority_class(obj: Object) -> list[FieldError]:
    causes = list(priority_class(obj))
    name = obj["metadata"].get("name", "")
    if name.startswith("system-") and name not in {"system-cluster-critical", "system-node-critical"}:
        message = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        causes.append(forbidden("metadata.name", message))
    return causes


def resource_quota(obj: Object) -> Iterator[FieldError]:
    for name in spec_of(obj).get("hard") or ():
        plain = name.removeprefix("requests.").removeprefix("limits.")
        if "/" not in name and plain not in _QUOTA_NAMES and not plain.startswith("hugepages-"):
            yield invalid(f"spec.hard[{name}]", name, "must be a standard resource type or fully qualified")
            yield invalid(f"spec.hard[{name}]", name, "must be a standard resource for quota")


_QUOTA_NAMES = frozenset(
    {
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)


def claim(obj: Object) -> Iterator[FieldError]:
    spec = spec_of(obj)
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required("spec.resources[storage]")


def limit_range(obj: Object) -> Iterator[FieldError]:
    for index, item in enumerate(spec_of(obj).get("limits") or ()):
        most = item.get("max") or {}
        for field, said in (("default", "default"), ("defaultRequest", "default request")):
            for name, amount in (item.get(field) or {}).items():
                if name in most and quantities.parse(amount).nanos > quantities.parse(most[name]).nanos:
                    message = f"{said} value {amount} is greater than max value {most[name]}"
                    yield invalid(
                        f"spec.limits[{index}].{field}[{name}]",
                        most[name] if field == "default" else amount,
                        message,
                    )


def event(obj: Object) -> Iterator[FieldError]:
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    namespace = obj["metadata"].get("namespace", "")
    if (involved.get("namespace") or "default") != namespace:
        yield invalid(
            "involvedObject.namespace", involved.get("namespace", ""), "does not match event.namespace"
        )


def role_binding(obj: Object) -> Iterator[FieldError]:
    role = obj.get("roleRef") or {}
    if role.get("kind") not in {"Role", "ClusterRole"}:
        yield not_supported("roleRef.kind", role.get("kind"), ("Role", "ClusterRole"))
    if not role.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or ()):
        if not subject.get("name"):
            yield required(f"subjects[{index}].name")
        if subject.get("kind") not in {"ServiceAccount", "User", "Group"}:
            kinds = ("ServiceAccount", "User", "Group")
            yield not_supported(f"subjects[{index}].kind", subject.get("kind"), kinds)


def priority_class_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("value", 0) != old.get("value", 0):
        return [forbidden("value", "may not be changed in an update.")]
    return []


def lease(obj: Object) -> Iterator[FieldError]:
    seconds = spec_of(obj).get("leaseDurationSeconds")
    if isinstance(seconds, int) and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative("spec.leaseTransitions", spec_of(obj).get("leaseTransitions"))


def node(obj: Object) -> Iterator[FieldError]:
    seen = set()
    for index, taint in enumerate(spec_of(obj).get("taints") or ()):
        key = taint.get("key") or ""
        for message in names.qualified(key):
            yield invalid(f"metadata.taints[{index}].key", key, message)
        if taint.get("effect") not in EFFECTS:
            yield not_supported(
                f"metadata.taints[{index}].effect",
                taint.get("effect"),
                EFFECTS,
            )
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            yield FieldError(f"metadata.taints[{index}]", f"Duplicate value: {taint}", "FieldValueDuplicate")
        seen.add(identity)


def role_binding_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


def webhooks(obj: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name") or ""
        if len(name.split(".")) < 3:
            yield invalid(
                f"{path}.name", name, "should be a domain with at least three segments separated by dots"
            )
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        if not hook.get("admissionReviewVersions"):
            yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
        if hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            if hook.get("sideEffects"):
                yield not_supported(f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
            else:
                yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
        if hook.get("failurePolicy") not in {"Fail", "Ignore"}:
            yield not_supported(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
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
