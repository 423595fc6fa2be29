"""What the API server checks of a container: names, ports, variables, mounts, probes, resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tidewright.kube import quantities
from tidewright.sim.api import names
from tidewright.sim.api.errors import Cause
from tidewright.sim.api.structural import shown

Object = dict[str, Any]


def invalid(field: str, value: Any, message: str) -> Cause:
    return Cause(field, f"Invalid value: {shown(value)}: {message}")


def required(field: str, message: str = "") -> Cause:
    return Cause(field, "Required value" + (f": {message}" if message else ""), "FieldValueRequired")


def unsupported(field: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{item}"' for item in supported)
    return Cause(
        field, f"Unsupported value: {shown(value)}: supported values: {listed}", "FieldValueNotSupported"
    )


def not_negative(field: str, value: Any) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def forbidden(field: str, message: str) -> Cause:
    return Cause(field, f"Forbidden: {message}", "FieldValueForbidden")


def spec_of(obj: Object) -> Object:
    """The spec of an object; empty when it has none."""
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def check(
    container: Object, path: str, seen: set[str], volumes: set[Any], ports: set[str]
) -> Iterator[Cause]:
    """What is wrong with a container.

    Args:
        container: of a pod.
        path: where it is.
        seen: names of the containers before it; its own is added.
        volumes: names of the pod's volumes.
        ports: ports of the machine that the containers before it take; its own are added.
    """
    name, image = container.get("name") or "", container.get("image") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid(f"{path}.name", name, message) for message in names.label(name))
        if name in seen:
            yield Cause(f"{path}.name", f"Duplicate value: {shown(name)}", "FieldValueDuplicate")
        seen.add(name)
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for index, port in enumerate(container.get("ports") or ()):
        yield from _port(port, f"{path}.ports[{index}]", ports)
    policy = container.get("imagePullPolicy")
    if policy not in {"Always", "IfNotPresent", "Never"}:
        yield unsupported(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield Cause(f"{at}.name", f"Not found: {shown(mount['name'])}", "FieldValueNotFound")
        if not mount.get("mountPath"):
            yield required(f"{at}.mountPath")
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(field), dict):
            yield from _probe(container[field], f"{path}.{field}")
    if container.get("resources"):
        yield from _resources(container["resources"], f"{path}.resources")


_LETTER = re.compile(r"[a-z]")
_PORT_NAME = re.compile(r"[-a-z0-9]+")


def _port(port: Object, path: str, ports: set[str]) -> Iterator[Cause]:
    name, number, host_port = port.get("name"), port.get("containerPort"), port.get("hostPort")
    if name:
        if len(name) > 15:
            yield invalid(f"{path}.name", name, "must be no more than 15 characters")
        if not _PORT_NAME.fullmatch(name):
            message = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            yield invalid(f"{path}.name", name, message)
        if not _LETTER.search(name):
            yield invalid(f"{path}.name", name, "must contain at least one letter (a-z)")
    if not number:
        yield required(f"{path}.containerPort")
    elif not 0 < number < 65536:
        yield invalid(f"{path}.containerPort", number, "must be between 1 and 65535, inclusive")
    protocol = port.get("protocol")
    if protocol not in {"TCP", "UDP", "SCTP"}:
        yield unsupported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP"))
    if host_port:
        if not 0 < host_port < 65536:
            yield invalid(f"{path}.hostPort", host_port, "must be between 1 and 65535, inclusive")
        taken = f"{protocol}/{port.get('hostIP') or ''}/{host_port}"
        if taken in ports:
            yield Cause(f"{path}.hostPort", f"Duplicate value: {shown(taken)}", "FieldValueDuplicate")
        ports.add(taken)


def _variable(variable: Object, path: str) -> Iterator[Cause]:
    name = variable.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    elif "=" in name or not (name.isascii() and name.isprintable()):
        message = (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
        yield invalid(f"{path}.name", name, message)
    source = variable.get("valueFrom")
    if isinstance(source, dict):
        if not source:
            message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            yield invalid(f"{path}.valueFrom", "", message)
        if variable.get("value"):
            yield invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def _probe(probe: Object, path: str) -> Iterator[Cause]:
    handlers = [name for name in _HANDLERS if isinstance(probe.get(name), dict)]
    if not handlers:
        yield required(path, "must specify a handler type")
    for name in handlers[1:]:
        message = "Forbidden: may not specify more than 1 handler type"
        yield Cause(f"{path}.{name}", message, "FieldValueForbidden")
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from not_negative(f"{path}.{field}", probe.get(field))


_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def _resources(resources: Object, path: str) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for part in ("limits", "requests"):
        for name, amount in (resources.get(part) or {}).items():
            at = f"{path}.{part}[{name}]"
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(at, name, "must be a standard resource type or fully qualified")
                yield invalid(at, name, "must be a standard resource for containers")
            nanos = quantities.parse(amount).nanos
            if nanos < 0:
                yield invalid(at, amount, "must be greater than or equal to 0")
            elif name not in _STANDARD and nanos % 10**9:
                yield invalid(at, amount, "must be an integer")
    for name, amount in (resources.get("requests") or {}).items():
        if name not in limits:
            continue
        wanted, limit = quantities.parse(amount), quantities.parse(limits[name])
        if wanted.nanos > limit.nanos:
            yield invalid(
                f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}"
            )
