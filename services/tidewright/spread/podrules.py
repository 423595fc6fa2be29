"""What a pod spec must satisfy: the part of Kubernetes' rules that a subset's patch can break (V12).

Fields that the API server fills with defaults may be absent. Rules about storage, security contexts
and features beyond those below are left to the API server, which checks each pod anyway.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from tidewright.kube import quantities
from tidewright.spread.fielderrors import (
    FieldError,
    dns_label_faults,
    duplicate,
    forbidden,
    invalid,
    label_errors,
    label_name_faults,
    not_found,
    not_supported,
    required,
    subdomain_faults,
)
from tidewright.spread.nodeterms import PREFERRED, REQUIRED
from tidewright.spread.termrules import preferred_errors, term_errors, toleration_errors

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_TERMINATION_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
_MAX_PORT = 65535
_MAX_DEADLINE_S = 2**31 - 1
_ENV_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+")

Fields = Mapping[str, Any]
Faults = Callable[[str], Iterator[str]]


def pod_spec_errors(spec: Fields, path: str, claims: Collection[str] = ()) -> Iterator[FieldError]:
    """Errors of a pod spec. `claims`: names that a volume claim template will add as volumes."""
    volumes: Sequence[Fields] = spec.get("volumes") or ()
    yield from _volume_errors(volumes, f"{path}.volumes")
    known = {v.get("name") or "" for v in volumes} | set(claims)
    names: set[str] = set()
    containers: Sequence[Fields] = spec.get("containers") or ()
    if not containers:
        yield required(f"{path}.containers", "a pod needs a container")
    for i, container in enumerate(containers):
        yield from _container_errors(container, f"{path}.containers[{i}]", known, names)
    for i, container in enumerate(spec.get("initContainers") or ()):
        yield from _container_errors(container, f"{path}.initContainers[{i}]", known, names)
    yield from _one_of(spec, "restartPolicy", _RESTART_POLICIES, path)
    yield from _one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from label_errors(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield required(f"{path}.imagePullSecrets[{i}].name")
    yield from _affinity_errors(
        (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity"
    )
    for key, faults in (
        ("serviceAccountName", subdomain_faults),
        ("nodeName", subdomain_faults),
        ("hostname", dns_label_faults),
        ("subdomain", dns_label_faults),
    ):
        yield from _named(spec, key, faults, path)
    yield from toleration_errors(spec.get("tolerations") or (), f"{path}.tolerations")
    yield from _host_alias_errors(spec.get("hostAliases") or (), f"{path}.hostAliases")
    yield from _named(spec, "priorityClassName", subdomain_faults, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE_S:
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be in the range 1-{_MAX_DEADLINE_S}")
    yield from _named(spec, "runtimeClassName", subdomain_faults, path)
    yield from _constraint_errors(
        spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"
    )
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        for fault in label_name_faults(kind):
            yield invalid(f"{path}.readinessGates[{i}].conditionType", kind, fault)


def _one_of(fields: Fields, key: str, supported: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if fields.get(key) and fields[key] not in supported:
        yield not_supported(f"{path}.{key}", fields[key], supported)


def _named(fields: Fields, key: str, faults: Faults, path: str) -> Iterator[FieldError]:
    if fields.get(key):
        for fault in faults(fields[key]):
            yield invalid(f"{path}.{key}", fields[key], fault)


def _name_errors(name: str, path: str, seen: set[str]) -> Iterator[FieldError]:
    if not name:
        yield required(path)
        return
    for fault in dns_label_faults(name):
        yield invalid(path, name, fault)
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _volume_errors(volumes: Sequence[Fields], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, volume in enumerate(volumes):
        at = f"{path}[{i}]"
        sources = [key for key in volume if key != "name"]
        for extra in sources[1:]:
            yield forbidden(f"{at}.{extra}", "a volume has one source")
        for key, needed in (
            ("hostPath", "path"),
            ("secret", "secretName"),
            ("configMap", "name"),
            ("persistentVolumeClaim", "claimName"),
        ):
            if key in sources and not (volume[key] or {}).get(needed):
                yield required(f"{at}.{key}.{needed}")
        yield from _name_errors(volume.get("name") or "", f"{at}.name", seen)


def _container_errors(
    container: Fields, path: str, volumes: Collection[str], names: set[str]
) -> Iterator[FieldError]:
    yield from _name_errors(container.get("name") or "", f"{path}.name", names)
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image.strip() != image:
        yield invalid(f"{path}.image", image, "must not begin or end with white space")
    for key in _PROBES:
        yield from _probe_errors(container.get(key), f"{path}.{key}")
    yield from _port_errors(container.get("ports") or (), f"{path}.ports")
    yield from _env_errors(container.get("env") or (), f"{path}.env")
    yield from _mount_errors(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from _one_of(container, "imagePullPolicy", _PULL_POLICIES, path)
    yield from _one_of(container, "terminationMessagePolicy", _TERMINATION_POLICIES, path)
    yield from _resource_errors(container.get("resources") or {}, f"{path}.resources")


def _probe_errors(probe: Fields | None, path: str) -> Iterator[FieldError]:
    if probe is None:
        return
    handlers = [h for h in _HANDLERS if h in probe]
    if not handlers:
        yield required(path, f"a probe needs a handler: {', '.join(_HANDLERS)}")
    for extra in handlers[1:]:
        yield forbidden(f"{path}.{extra}", "a probe has one handler")
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        if (probe.get(key) or 0) < 0:
            yield invalid(f"{path}.{key}", probe[key], "must not be negative")


def _port_errors(ports: Sequence[Fields], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        at = f"{path}[{i}]"
        name = port.get("name") or ""
        if name and name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            yield required(f"{at}.containerPort")
        elif not 1 <= number <= _MAX_PORT:
            yield invalid(f"{at}.containerPort", number, f"must be in the range 1-{_MAX_PORT}")
        if (host := port.get("hostPort") or 0) and not 1 <= host <= _MAX_PORT:
            yield invalid(f"{at}.hostPort", host, f"must be in the range 1-{_MAX_PORT}")
        yield from _one_of(port, "protocol", _PROTOCOLS, at)


def _env_errors(env: Sequence[Fields], path: str) -> Iterator[FieldError]:
    for i, variable in enumerate(env):
        name = variable.get("name") or ""
        if not name:
            yield required(f"{path}[{i}].name")
        elif not _ENV_NAME.fullmatch(name):
            yield invalid(f"{path}[{i}].name", name, "printable characters other than '=' only")
        source = variable.get("valueFrom")
        if source is not None and variable.get("value"):
            yield invalid(f"{path}[{i}].valueFrom", "", "may not be given together with value")


def _mount_errors(mounts: Sequence[Fields], path: str, volumes: Collection[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, mount in enumerate(mounts):
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{path}[{i}].name")
        if name not in volumes:
            yield not_found(f"{path}[{i}].name", name)
        if not place:
            yield required(f"{path}[{i}].mountPath")
        elif place in seen:
            yield invalid(f"{path}[{i}].mountPath", place, "must be unique")
        seen.add(place)


def _resource_errors(resources: Fields, path: str) -> Iterator[FieldError]:
    amounts: dict[str, dict[str, int]] = {}
    for part in ("limits", "requests"):
        read = amounts.setdefault(part, {})
        for name, text in (resources.get(part) or {}).items():
            try:
                amount = quantities.parse(text).nanos
            except quantities.NotAQuantity as error:
                yield invalid(f"{path}.{part}[{name}]", text, str(error))
                continue
            read[name] = amount
            if amount < 0:
                yield invalid(f"{path}.{part}[{name}]", text, "must not be negative")
    for name, amount in amounts["requests"].items():
        if name in amounts["limits"] and amount > amounts["limits"][name]:
            yield invalid(
                f"{path}.requests", resources["requests"][name], f"must not exceed the {name} limit"
            )


def _affinity_errors(affinity: Fields, path: str) -> Iterator[FieldError]:
    hard = affinity.get(REQUIRED)
    if hard is not None:
        terms = hard.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(f"{path}.{REQUIRED}.nodeSelectorTerms", "at least one term")
        for i, term in enumerate(terms):
            yield from term_errors(term, f"{path}.{REQUIRED}.nodeSelectorTerms[{i}]")
    yield from preferred_errors(affinity.get(PREFERRED) or (), f"{path}.{PREFERRED}")


def _host_alias_errors(aliases: Sequence[Fields], path: str) -> Iterator[FieldError]:
    for i, alias in enumerate(aliases):
        ip = alias.get("ip") or ""
        try:
            ipaddress.ip_address(ip)
        except ValueError:
            yield invalid(f"{path}[{i}].ip", ip, "must be an IP address")
        for j, host in enumerate(alias.get("hostnames") or ()):
            for fault in subdomain_faults(host):
                yield invalid(f"{path}[{i}].hostnames[{j}]", host, fault)


def _constraint_errors(constraints: Sequence[Fields], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        at = f"{path}[{i}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        action = constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            yield invalid(f"{at}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{at}.topologyKey")
        if action not in _UNSATISFIABLE:
            yield not_supported(f"{at}.whenUnsatisfiable", action, _UNSATISFIABLE)
        if (key, action) in seen:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{key}, {action}")
        seen.add((key, action))
