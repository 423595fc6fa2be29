"""What a pod's status says while it starts, runs, crashes and finishes. Pure.

All values are strategic merge patches of the status: conditions merge by type, container statuses
are given whole.
"""

from __future__ import annotations

from typing import Any, Final

from tidewright.kube.conditions import entry, transition
from tidewright.kube.times import rfc3339
from tidewright.sim.controllers.objects import Container, Pod
from tidewright.sim.delays import draw
from tidewright.sim.options import Delay, KubeletOptions

RUN_SECONDS: Final = "sim.tidewright.dev/run-seconds"
"""Annotation: the containers end by themselves after so many log seconds."""
EXIT_CODE: Final = "sim.tidewright.dev/exit-code"
"""Annotation: with which code they end; 0 without it."""
CRASH_AFTER: Final = "sim.tidewright.dev/crash-after-seconds"
"""Annotation: the containers crash so many log seconds after each start."""
START_SECONDS: Final = "sim.tidewright.dev/start-seconds"
"""Annotation: start delay of this pod (a number or a distribution) instead of the kubelet's."""
READY_SECONDS: Final = "sim.tidewright.dev/ready-seconds"
"""Annotation: delay from running to ready of this pod instead of the kubelet's."""


def start_delay_s(pod: Pod, options: KubeletOptions) -> float:
    """From the binding to running containers, log seconds."""
    return _delay(pod, START_SECONDS, options.start, options.seed, "start")


def ready_delay_s(pod: Pod, options: KubeletOptions) -> float:
    """From running to ready, log seconds; the longest readiness probe's initial delay is added."""
    probes = [
        container.readiness_probe.initial_delay_seconds
        for container in pod.spec.containers
        if container.readiness_probe
    ]
    own = _delay(pod, READY_SECONDS, options.readiness, options.seed, "ready")
    return own + max(probes, default=0)


def stop_delay_s(pod: Pod, options: KubeletOptions) -> float:
    """From the deletion mark to the end of the containers, never beyond the pod's grace period."""
    grace_s = pod.metadata.deletion_grace_period_seconds
    delay_s = draw(options.stop, options.seed, f"{pod.metadata.uid}/stop")
    return delay_s if grace_s is None else min(delay_s, float(grace_s))


def run_s(pod: Pod, options: KubeletOptions) -> float | None:
    """After how many log seconds the containers end by themselves; None for never."""
    own = _number(pod, RUN_SECONDS)
    if own is not None:
        return own
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        return draw(options.job_run, options.seed, f"{pod.metadata.uid}/run")
    return None


def crash_after_s(pod: Pod) -> float | None:
    """After how many log seconds the containers crash; None for never."""
    return _number(pod, CRASH_AFTER)


def exit_code(pod: Pod) -> int:
    return int(_number(pod, EXIT_CODE) or 0)


def _number(pod: Pod, annotation: str) -> float | None:
    text = pod.metadata.annotations.get(annotation)
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def _delay(pod: Pod, annotation: str, default: Delay, seed: int, what: str) -> float:
    text = pod.metadata.annotations.get(annotation)
    delay = default
    if text is not None:
        try:
            delay = Delay.parse(text)
        except ValueError:
            delay = default
    return draw(delay, seed, f"{pod.metadata.uid}/{what}")


def running(
    pod: Pod, *, ready: bool, started: float, since: float, now: float, pod_ip: str, restarts: int = 0
) -> dict[str, Any]:
    """The containers run, since `since`; `started` is when the kubelet took the pod up, log seconds."""
    at, began = rfc3339(now), rfc3339(since)
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": rfc3339(started),
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "hostIP": host_ip(pod.spec.node_name),
        "hostIPs": [{"ip": host_ip(pod.spec.node_name)}],
        "conditions": [
            _condition("PodReadyToStartContainers", at, status=True),
            _condition("Initialized", at, status=True),
            *readiness(pod, at, ready=ready),
        ],
        "containerStatuses": [
            _container(container, ready=ready, restarts=restarts, state={"running": {"startedAt": began}})
            for container in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        done = {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": began}
        status["initContainerStatuses"] = [
            _container(
                container,
                ready=True,
                restarts=0,
                state={"running": {"startedAt": began}}
                if container.restart_policy == "Always"
                else {"terminated": done},
            )
            for container in pod.spec.init_containers
        ]
    return {"status": status}


def crashed(pod: Pod, *, restarts: int, now: float) -> dict[str, Any]:
    """The containers ended badly and wait for their restart."""
    at = rfc3339(now)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    return {
        "status": {
            "conditions": readiness(pod, at, ready=False),
            "containerStatuses": [
                _container(container, ready=False, restarts=restarts, state={"waiting": waiting})
                for container in pod.spec.containers
            ],
        }
    }


def finished(pod: Pod, *, code: int, now: float) -> dict[str, Any]:
    """The containers ended for good."""
    at = rfc3339(now)
    reason = "Completed" if code == 0 else "Error"
    ended = {"exitCode": code, "reason": reason, "startedAt": pod.status.start_time or at, "finishedAt": at}
    not_ready = "PodCompleted" if code == 0 else "PodFailed"
    return {
        "status": {
            "phase": "Succeeded" if code == 0 else "Failed",
            "conditions": [
                {**condition, "reason": not_ready} for condition in readiness(pod, at, ready=False)
            ],
            "containerStatuses": [
                _container(container, ready=False, restarts=pod.restarts, state={"terminated": ended})
                for container in pod.spec.containers
            ],
        }
    }


def readiness(pod: Pod, at: str, *, ready: bool) -> list[dict[str, Any]]:
    """`ContainersReady` and `Ready`; a readiness gate that is not met keeps the pod from `Ready`."""
    gates = all(
        (gate_condition := pod.condition(gate.condition_type)) is not None and gate_condition.status == "True"
        for gate in pod.spec.readiness_gates
    )
    conditions = []
    for type_, status in (("ContainersReady", ready), ("Ready", ready and gates)):
        before = pod.condition(type_)
        said = None if before is None else (before.status == "True", before.last_transition_time)
        condition = _condition(type_, transition(said, status, at) or at, status=status)
        if not status:
            condition["reason"] = "ContainersNotReady" if not ready else "ReadinessGatesNotReady"
        conditions.append(condition)
    return conditions


def _condition(type_: str, at: str, *, status: bool) -> dict[str, Any]:
    return {**entry(type_, status, at), "lastProbeTime": None}


def _container(container: Container, *, ready: bool, restarts: int, state: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"sim://{container.image}",
        "containerID": f"sim://{container.name}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


def host_ip(node: str) -> str:
    """An address that stands for a node; equal names, equal addresses."""
    number = sum(ord(letter) * 131**place for place, letter in enumerate(reversed(node))) % (2**20 - 2) + 1
    return f"172.{16 + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def pod_ip(number: int) -> str:
    """The n-th pod address; they repeat after 16 million."""
    number = number % (2**24 - 2) + 1
    return f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"
