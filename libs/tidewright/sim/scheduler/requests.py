"""What a pod asks for: requests summed the way the API defines them."""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.kube.podspecs import amounts
from tidewright.sim.controllers.objects import Container, PodSpec

DEFAULT_CPU_MILLIS = 100
DEFAULT_MEMORY_BYTES = 200 * 2**20
"""What scores (never filters) take a container without a request for."""


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """The pod's requests: containers and sidecars together, or an init container's peak; overhead.

    `cpu` in millicores, everything else in units; `pods` is always 1.
    """
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, _of(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        requests = _of(container)
        if container.restart_policy == "Always":
            _add(sidecars, requests)
            requests = sidecars
        else:
            requests = _sum(sidecars, requests)
        for name, value in requests.items():
            peak[name] = max(peak.get(name, 0), value)
    _add(total, sidecars)
    for name, value in peak.items():
        total[name] = max(total.get(name, 0), value)
    _add(total, amounts(spec.overhead))
    total["pods"] = 1
    return total


def scored_requests(spec: PodSpec) -> tuple[int, int]:
    """CPU in millicores and memory in bytes as scores count them: defaults for missing requests."""
    cpu = memory = 0
    for container in spec.containers:
        requests = _of(container)
        cpu += requests.get("cpu", DEFAULT_CPU_MILLIS)
        memory += requests.get("memory", DEFAULT_MEMORY_BYTES)
    return cpu, memory


def _of(container: Container) -> dict[str, int]:
    resources = container.resources
    return amounts({**resources.limits, **resources.requests})


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(base: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    total = dict(base)
    _add(total, other)
    return total
