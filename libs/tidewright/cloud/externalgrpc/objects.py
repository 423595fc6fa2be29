"""Messages to values and back; Kubernetes objects among them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.cloud.errors import ErrorClass
from tidewright.cloud.externalgrpc.wire import externalgrpc_pb2 as wire
from tidewright.cloud.externalgrpc.wire import kubernetes_pb2 as kubernetes
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    NodeTemplate,
    Taint,
)
from tidewright.kube.podspecs import amounts

_DURATIONS = {
    "scale_down_unneeded_s": "scaleDownUnneededDuration",
    "scale_down_unready_s": "scaleDownUnreadyDuration",
    "max_node_provision_s": "MaxNodeProvisionDuration",
}
_NUMBERS = {
    "scale_down_utilization_threshold": "scaleDownUtilizationThreshold",
    "scale_down_gpu_utilization_threshold": "scaleDownGpuUtilizationThreshold",
}
_FLAGS = {
    "zero_or_max_node_scaling": "zeroOrMaxNodeScaling",
    "ignore_daemon_sets_utilization": "ignoreDaemonSetsUtilization",
}


def instances_of(response: Any) -> tuple[Instance, ...]:
    """The instances of a `NodeGroupNodesResponse`. An error without a code is none; state 0 says nothing."""
    return tuple(_instance(one) for one in response.instances)


def _instance(message: Any) -> Instance:
    status = message.status
    number = status.instanceState
    error = status.errorInfo
    if number not in set(InstanceState):
        return Instance(id=message.id)
    return Instance(
        id=message.id,
        state=InstanceState(number),
        error=InstanceError(
            error_class=ErrorClass.OUT_OF_RESOURCES
            if error.instanceErrorClass == ErrorClass.OUT_OF_RESOURCES
            else ErrorClass.OTHER,
            code=error.errorCode,
            message=error.errorMessage,
        )
        if error.errorCode
        else None,
    )


def instances_message(instances: Sequence[Instance]) -> Any:
    """The `NodeGroupNodesResponse` of instances."""
    messages = []
    for instance in instances:
        message = wire.Instance(id=instance.id)
        if instance.state is not None:
            message.status.instanceState = int(instance.state)
        if instance.error is not None:
            message.status.errorInfo.errorCode = instance.error.code
            message.status.errorInfo.errorMessage = instance.error.message
            message.status.errorInfo.instanceErrorClass = int(instance.error.error_class)
        messages.append(message)
    return wire.NodeGroupNodesResponse(instances=messages)


def options_of(response: Any, defaults: GroupOptions) -> GroupOptions:
    """The defaults with what a `NodeGroupAutoscalingOptionsResponse` says.

    What it leaves out stays the default, where the original makes zero of it; so does what cannot be said
    in it (`max_node_startup_s`, `allow_non_atomic_scale_up_to_max`).
    """
    if not response.HasField("nodeGroupAutoscalingOptions"):
        return defaults
    said = response.nodeGroupAutoscalingOptions
    own: dict[str, Any] = {
        name: getattr(said, field).ToTimedelta().total_seconds()
        for name, field in _DURATIONS.items()
        if said.HasField(field)
    }
    own |= {name: value for name, field in _NUMBERS.items() if (value := getattr(said, field))}
    own |= {name: True for name, field in _FLAGS.items() if getattr(said, field)}
    return msgspec.structs.replace(defaults, **own)


def options_message(options: GroupOptions) -> Any:
    """The `NodeGroupAutoscalingOptions` of options; what is None is left out."""
    message = wire.NodeGroupAutoscalingOptions()
    for name, field in _DURATIONS.items():
        if (value := getattr(options, name)) is not None:
            getattr(message, field).FromNanoseconds(round(value * 1e9))
    for name, field in (*_NUMBERS.items(), *_FLAGS.items()):
        if (value := getattr(options, name)) is not None:
            setattr(message, field, value)
    return message


def defaults_of(request: Any) -> GroupOptions:
    """The defaults that a `NodeGroupAutoscalingOptionsRequest` says; what it leaves out is zero there."""
    said = request.defaults
    return GroupOptions(
        **{
            name: getattr(said, field).ToTimedelta().total_seconds()
            for name, field in _DURATIONS.items()
            if said.HasField(field)
        },
        **{name: getattr(said, field) for name, field in (*_NUMBERS.items(), *_FLAGS.items())},
    )


def template_of(node_bytes: bytes) -> NodeTemplate | None:
    """The template in the bytes of a core/v1 Node; None when there are none."""
    if not node_bytes:
        return None
    node = kubernetes.Node.FromString(node_bytes)
    return NodeTemplate(
        capacity=_amounts(node.status.capacity),
        allocatable=_amounts(node.status.allocatable),
        labels={key: value for key, value in node.metadata.labels.items() if key != "kubernetes.io/hostname"},
        taints=tuple(
            Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints
        ),
    )


def node_bytes(name: str, template: NodeTemplate) -> bytes:
    """A core/v1 Node as it would join, ready, in bytes."""
    node = kubernetes.Node()
    node.metadata.name = name
    node.metadata.labels.update({**template.labels, "kubernetes.io/hostname": name})
    node.spec.taints.extend(
        kubernetes.Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in template.taints
    )
    for resource, amount in template.capacity.items():
        node.status.capacity[resource].string = amount
    for resource, amount in (template.allocatable or template.capacity).items():
        node.status.allocatable[resource].string = amount
    node.status.conditions.add(type="Ready", status="True")
    encoded: bytes = node.SerializeToString(deterministic=True)
    return encoded


def pod_bytes(requests: Mapping[str, int]) -> bytes:
    """A core/v1 Pod that asks for these amounts (cpu in millicores), in bytes."""
    pod = kubernetes.Pod()
    asked = pod.spec.containers.add(name="c").resources.requests
    for resource, amount in requests.items():
        asked[resource].string = f"{amount}m" if resource == "cpu" else str(amount)
    encoded: bytes = pod.SerializeToString(deterministic=True)
    return encoded


def pod_requests(content: bytes) -> dict[str, int]:
    """What the containers of a core/v1 Pod in bytes ask for together: cpu in millicores, others in whole units."""
    pod = kubernetes.Pod.FromString(content)
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        total.update(amounts(_amounts(container.resources.requests)))
    return dict(total)


def _amounts(quantities: Mapping[str, Any]) -> dict[str, str]:
    return {resource: quantity.string for resource, quantity in sorted(quantities.items())}
