"""What a container must satisfy, in the API server's words: names, ports, variables, mounts, probes, resources.

Fields that the API server fills with defaults may be absent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.podapi import names
from tidewright.kube.podapi.fielderrors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_negative,
    not_supported,
    required,
)

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TERMINATION_POLICIES = ("FallbackToLogsOnError", "File")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_MAX_PORT = 65535
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})

Fields = Mapping[str, Any]


def container_errors(
    container: Fields, path: str, volumes: Collection[str], seen: set[str], ports: set[str]
) -> Iterator[FieldError]:
    """What is wrong with a container.

    Args:
        container: of a pod.
        path: where it is.
        volumes: names of the pod's volumes.
        seen: names of the containers before it; its own is added.
        ports: ports of the machine that the containers before it take; its own are added.
    """
    yield from name_errors(container.get("name") or "", f"{path}.name", seen)
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for key in _PROBES:
        yield from _probe_errors(container.get(key), f"{path}.{key}")
    yield from _port_errors(container.get("ports") or (), f"{path}.ports", ports)
    yield from _env_errors(container.get("env") or (), f"{path}.env")
    yield from _mount_errors(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from one_of(container, "imagePullPolicy", _PULL_POLICIES, path)
    yield from one_of(container, "terminationMessagePolicy", _TERMINATION_POLICIES, path)
    yield from _resource_errors(container.get("resources") or {}, f"{path}.resources")


def one_of(fields: Fields, key: str, supported: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """A field that has one of a few values, if any."""
    if fields.get(key) and fields[key] not in supported:
        yield not_supported(f"{path}.{key}", fields[key], supported)


def name_errors(name: str, path: str, seen: set[str]) -> Iterator[FieldError]:
    """A name that is a DNS label, and the only one; it is added to those `seen`."""
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, message) for message in names.label(name))
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _probe_errors(probe: Fields | None, path: str) -> Iterator[FieldError]:
    if probe is None:
        return
    handlers = [handler for handler in _HANDLERS if probe.get(handler) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from not_negative(f"{path}.{key}", probe.get(key))


def _port_errors(ports: Sequence[Fields], path: str, taken: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        at = f"{path}[{i}]"
        name, number = port.get("name") or "", port.get("containerPort") or 0
        protocol, host_port = port.get("protocol") or "TCP", port.get("hostPort") or 0
        if name:
            faults = names.port(name)
            yield from (invalid(f"{at}.name", name, message) for message in faults)
            if not faults and name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
        if number == 0:
            yield required(f"{at}.containerPort")
        elif not 0 < number <= _MAX_PORT:
            yield invalid(f"{at}.containerPort", number, f"must be between 1 and {_MAX_PORT}, inclusive")
        if host_port and not 0 < host_port <= _MAX_PORT:
            yield invalid(f"{at}.hostPort", host_port, f"must be between 1 and {_MAX_PORT}, inclusive")
        yield from one_of(port, "protocol", _PROTOCOLS, at)
        if host_port:
            place = f"{protocol}/{port.get('hostIP') or ''}/{host_port}"
            if place in taken:
                yield duplicate(f"{at}.hostPort", place)
            taken.add(place)


def _env_errors(env: Sequence[Fields], path: str) -> Iterator[FieldError]:
    for i, variable in enumerate(env):
        name, source = variable.get("name") or "", variable.get("valueFrom")
        if not name:
            yield required(f"{path}[{i}].name")
        elif "=" in name or not (name.isascii() and name.isprintable()):
            message = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield invalid(f"{path}[{i}].name", name, message)
        if source is None:
            continue
        if not source:
            message = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
                "`fileKeyRef`"
            )
            yield invalid(f"{path}[{i}].valueFrom", "", message)
        if variable.get("value"):
            yield invalid(f"{path}[{i}].valueFrom", "", "may not be specified when `value` is not empty")


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
    amounts: dict[str, dict[str, int]] = {"limits": {}, "requests": {}}
    for part, read in amounts.items():
        for name, text in (resources.get(part) or {}).items():
            at = f"{path}.{part}[{name}]"
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(at, name, "must be a standard resource type or fully qualified")
                yield invalid(at, name, "must be a standard resource for containers")
            try:
                amount = quantities.parse(text).nanos
            except quantities.NotAQuantity as error:
                yield invalid(at, text, str(error))
                continue
            read[name] = amount
            if amount < 0:
                yield invalid(at, text, "must be greater than or equal to 0")
            elif name not in _STANDARD and amount % 10**9:
                yield invalid(at, text, "must be an integer")
    for name, amount in amounts["requests"].items():
        if amount > amounts["limits"].get(name, amount):
            message = f"must be less than or equal to {name} limit of {resources['limits'][name]}"
            yield invalid(f"{path}.requests", resources["requests"][name], message)
