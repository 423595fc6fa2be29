"""What a pod spec must satisfy, in a pod or in a template, in the API server's words.

Fields that the API server fills with defaults may be absent. What kinds of volumes and security contexts
have rules of their own about is left to the API server, which checks each pod anyway.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from tidewright.kube.podapi import names
from tidewright.kube.podapi.containerrules import container_errors, name_errors, one_of
from tidewright.kube.podapi.fielderrors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    label_errors,
    not_supported,
    required,
)
from tidewright.kube.podapi.nodeterms import PREFERRED, REQUIRED
from tidewright.kube.podapi.termrules import preferred_errors, term_errors, toleration_errors, weight_errors
from tidewright.kube.selectors import LabelSelector, SelectorError

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_MAX_DEADLINE_S = 2**31 - 1
_POSITIVE = "must be greater than zero"

Fields = Mapping[str, Any]
Faults = Callable[[str], tuple[str, ...]]


def pod_spec_errors(
    spec: Fields,
    path: str,
    claims: Collection[str] = (),
    restart: tuple[str, ...] = RESTART_POLICIES,
    *,
    comparing: bool = False,
) -> Iterator[FieldError]:
    """What is wrong with the spec of a pod.

    Args:
        spec: of the pod, or of a template.
        path: where it is.
        claims: names that a volume claim template will add as volumes.
        restart: the restart policies that the owner allows.
        comparing: tolerations may compare.
    """
    volumes: Sequence[Fields] = spec.get("volumes") or ()
    yield from _volume_errors(volumes, f"{path}.volumes")
    known = {v.get("name") or "" for v in volumes} | set(claims)
    seen: set[str] = set()
    ports: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for part in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(part) or ()):
            yield from container_errors(container, f"{path}.{part}[{i}]", known, seen, ports)
    yield from _restart_errors(spec.get("restartPolicy"), f"{path}.restartPolicy", restart)
    yield from one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from label_errors(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from _affinity_errors(spec.get("affinity") or {}, f"{path}.affinity")
    for key, faults in (
        ("serviceAccountName", names.subdomain),
        ("nodeName", names.subdomain),
        ("hostname", names.label),
        ("subdomain", names.label),
    ):
        yield from _named(spec, key, faults, path)
    yield from toleration_errors(spec.get("tolerations") or (), f"{path}.tolerations", comparing=comparing)
    yield from _host_alias_errors(spec.get("hostAliases") or (), f"{path}.hostAliases")
    yield from _named(spec, "priorityClassName", names.subdomain, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE_S:
        message = f"must be between 1 and {_MAX_DEADLINE_S}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, message)
    yield from _named(spec, "runtimeClassName", names.subdomain, path)
    yield from _constraint_errors(
        spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"
    )
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        at = f"{path}.readinessGates[{i}].conditionType"
        yield from (invalid(at, kind, message) for message in names.qualified(kind))


def _named(fields: Fields, key: str, faults: Faults, path: str) -> Iterator[FieldError]:
    if fields.get(key):
        yield from (invalid(f"{path}.{key}", fields[key], message) for message in faults(fields[key]))


def _restart_errors(policy: str | None, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    if policy in allowed:
        return
    if "Always" not in allowed and policy in ("Always", None, ""):  # a Job: the default is none of its own
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy:
        yield not_supported(path, policy, allowed)


def _volume_errors(volumes: Sequence[Fields], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, volume in enumerate(volumes):
        at = f"{path}[{i}]"
        sources = [key for key, source in volume.items() if key != "name" and source is not None]
        for extra in sources[1:]:
            yield forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
        for key, needed in (
            ("hostPath", "path"),
            ("secret", "secretName"),
            ("configMap", "name"),
            ("persistentVolumeClaim", "claimName"),
        ):
            if key in sources and not volume[key].get(needed):
                yield required(f"{at}.{key}.{needed}")
        yield from name_errors(volume.get("name") or "", f"{at}.name", seen)


def _affinity_errors(affinity: Fields, path: str) -> Iterator[FieldError]:
    nodes: Fields = affinity.get("nodeAffinity") or {}
    hard, at = nodes.get(REQUIRED), f"{path}.nodeAffinity"
    if hard is not None:
        terms = hard.get("nodeSelectorTerms") or ()
        if not terms:
            message = "must have at least one node selector term"
            yield required(f"{at}.{REQUIRED}.nodeSelectorTerms", message)
        for i, term in enumerate(terms):
            yield from term_errors(term, f"{at}.{REQUIRED}.nodeSelectorTerms[{i}]")
    yield from preferred_errors(nodes.get(PREFERRED) or (), f"{at}.{PREFERRED}")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods: Fields = affinity.get(kind) or {}
        for i, term in enumerate(pods.get(REQUIRED) or ()):
            yield from _pod_term_errors(term, f"{path}.{kind}.{REQUIRED}[{i}]")
        for i, preferred in enumerate(pods.get(PREFERRED) or ()):
            at = f"{path}.{kind}.{PREFERRED}[{i}]"
            yield from weight_errors(preferred, at)
            yield from _pod_term_errors(preferred.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _pod_term_errors(term: Fields, path: str) -> Iterator[FieldError]:
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, message) for message in names.qualified(key))
    if term.get("labelSelector") is not None:
        try:
            LabelSelector.of(term["labelSelector"])
        except SelectorError as error:
            yield invalid(f"{path}.labelSelector", term["labelSelector"], str(error))


def _host_alias_errors(aliases: Sequence[Fields], path: str) -> Iterator[FieldError]:
    for i, alias in enumerate(aliases):
        ip = alias.get("ip") or ""
        try:
            ipaddress.ip_address(ip)
        except ValueError:
            message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"{path}[{i}].ip", ip, message)
        for host in alias.get("hostnames") or ():
            at = f"{path}[{i}].hostnames"
            yield from (invalid(at, host, message) for message in names.subdomain(host))


def _constraint_errors(constraints: Sequence[Fields], path: str) -> Iterator[FieldError]:
    identities = [(c.get("topologyKey") or "", c.get("whenUnsatisfiable") or "") for c in constraints]
    for i, (constraint, (key, action)) in enumerate(zip(constraints, identities, strict=True)):
        at = f"{path}[{i}]"
        skew, domains = constraint.get("maxSkew") or 0, constraint.get("minDomains")
        if skew <= 0:
            yield invalid(f"{at}.maxSkew", skew, _POSITIVE)
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE:
            yield not_supported(f"{at}.whenUnsatisfiable", action, _UNSATISFIABLE)
        if (key, action) in identities[i + 1 :]:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if domains is not None and domains <= 0:
            yield invalid(f"{at}.minDomains", domains, _POSITIVE)
