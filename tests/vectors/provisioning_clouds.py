"""Kinds `cloud-*`: what providers make of what their clouds say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import msgspec

from tests.vectors.suite import Case, differences
from tidewright.cloud.aws.client import AwsGroup, AwsProvider
from tidewright.cloud.aws.config import AwsConfig
from tidewright.cloud.calls import Calls
from tidewright.cloud.clusterapi.client import ClusterApiGroup, ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig
from tidewright.cloud.clusterapi.objects import Machine, Scalable, bounds
from tidewright.cloud.errors import CloudError, Invalid, Unavailable
from tidewright.cloud.externalgrpc import errors, objects
from tidewright.cloud.externalgrpc.client import ExternalGrpcProvider
from tidewright.cloud.externalgrpc.config import GrpcConfig
from tidewright.cloud.externalgrpc.wire import externalgrpc_pb2 as wire
from tidewright.cloud.kubernetes import Cluster
from tidewright.cloud.provider import GroupOptions

_LIMITS = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
_OPTIONS = {"scale_down_unneeded": "scale_down_unneeded_s", "max_node_startup_time": "max_node_startup_s"}


def _externalgrpc(case: Case) -> list[str]:
    expected = case.get("expected_ours", case["expected"])
    return differences(expected, _answered(case))


def _answered(case: Case) -> dict[str, Any]:
    if "code" in case:
        return {"result": _unimplemented(case)}
    response = case["response"]
    if isinstance(response, list):
        return {"instances": _instances(response)}
    if "nodeGroup" in response:
        return {"managed": asyncio.run(_managed(response["nodeGroup"]["id"]))}
    given: dict[str, Any] = {_OPTIONS[name]: float(value) for name, value in case["defaults"].items()}
    defaults = GroupOptions(**given)
    said = wire.NodeGroupAutoscalingOptions(**response)
    message = wire.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=said)
    options = objects.options_of(message, defaults)
    return {name: getattr(options, field) for name, field in _OPTIONS.items()}


def _instances(response: list[dict[str, Any]]) -> list[dict[str, Any]]:
    message = wire.NodeGroupNodesResponse()
    for said in response:
        instance = message.instances.add(id=said["id"])
        instance.status.instanceState = said["state"]
        if error := said.get("error"):
            instance.status.errorInfo.errorCode = error["code"]
            instance.status.errorInfo.errorMessage = error["message"]
            instance.status.errorInfo.instanceErrorClass = error["class"]
    found: list[dict[str, Any]] = []
    for read in objects.instances_of(message):
        status: dict[str, Any] | None = None
        if read.state is not None:
            status = {"state": read.state.name.lower()}
            if read.error is not None:
                status["error"] = {
                    "class": int(read.error.error_class),
                    "code": read.error.code,
                    "message": read.error.message,
                }
        found.append({"id": read.id, "status": status})
    return found


async def _managed(group_id: str) -> bool:
    provider = ExternalGrpcProvider(GrpcConfig(address="nowhere:1"), Calls("c"))

    async def ask(method: str, request: Any) -> Any:
        return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup(id=group_id))

    provider.ask = ask  # type: ignore[method-assign]
    return await provider.node_group_for_node("p", {}) is not None


def _unimplemented(case: Case) -> str:
    code = next(known for known in grpc.StatusCode if known.value[0] == case["code"])
    none = grpc.aio.Metadata()
    reasons = {
        _of(errors.of_rpc(grpc.aio.AioRpcError(code, none, none), method, changes=False))
        for method in case["methods"]
    }
    return reasons.pop() if len(reasons) == 1 else repr(reasons)


def _of(error: CloudError) -> str:
    return {"NotImplemented": "not-implemented"}.get(error.reason, error.reason)


def _aws(case: Case) -> list[str]:
    said = case["asg"]
    provider = AwsProvider(AwsConfig(), Calls("c"))
    if said["registered"]:
        provider._changed_at[said["name"]] = said["last_size_change"]

    async def ask(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if case["activities"] == "error":
            raise Unavailable("as the case says")
        told = [{"StatusCode": a["status"], "StartTime": a["start"]} for a in case["activities"]]
        return {"Activities": told}

    provider.ask = ask  # type: ignore[method-assign]
    group = AwsGroup(
        provider,
        {
            "AutoScalingGroupName": said["name"],
            "AvailabilityZones": said["zones"],
            "DesiredCapacity": said["desired"],
            "Instances": said["instances"],
        },
        None,
    )
    instances = asyncio.run(group.nodes())
    first = instances[0] if instances else None
    error = None if first is None else first.error
    found = {
        "placeholders": len(instances),
        "health": "" if error is None else error.code,
        "first_id": "" if first is None else first.id,
        "error": None if error is None else {"class": int(error.error_class), "code": error.code},
    }
    return differences(case["expected"], found)


def _clusterapi(case: Case) -> list[str]:
    if "annotations" in case:
        return differences(case["expected"], _bounds(case["annotations"]))
    provider = ClusterApiProvider(ClusterApiConfig(), Cluster(Calls("c")))
    replicas = [int(case["replicas"])]

    async def scale(kind: str, resource: Scalable, size: int) -> Scalable:
        replicas.append(size)
        return resource

    provider.scale = scale  # type: ignore[method-assign]
    notes = {f"{_LIMITS}max-size": "10"}
    about = {"name": "md", "namespace": "ns", "annotations": notes}
    resource = msgspec.convert({"metadata": about, "spec": {"replicas": replicas[0]}}, Scalable)
    group = ClusterApiGroup(provider, "MachineDeployment", resource, _machines(case["machines"]))
    try:
        asyncio.run(group.decrease_target_size(case["delta"], key="k", expect=replicas[0]))
    except CloudError:
        return differences(case["expected"], {"replicas": replicas[-1], "error": True})
    return differences(case["expected"], {"replicas": replicas[-1], "error": False})


def _machines(said: dict[str, int]) -> list[Machine]:
    """So many machines; of these the first ones are deleting, then failed, then pending."""
    states = [state for state in ("deleting", "failed", "pending") for _ in range(said.get(state, 0))]
    machines: list[Machine] = []
    for number in range(said["total"]):
        state = states[number] if number < len(states) else ""
        about: dict[str, Any] = {"name": f"m{number}", "namespace": "ns"}
        if state == "deleting":
            about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"failed": {"phase": "Failed"}, "pending": {"phase": "Provisioning"}}.get(
            state, {"phase": "Running", "nodeRef": {"name": f"n{number}"}}
        )
        spec = {"providerID": f"p://{number}"} if "nodeRef" in status else {}
        machines.append(msgspec.convert({"metadata": about, "spec": spec, "status": status}, Machine))
    return machines


def _bounds(said: dict[str, str | None]) -> dict[str, Any]:
    notes = {f"{_LIMITS}{end}-size": text for end, text in said.items() if text is not None}
    try:
        low, high = bounds(notes, "cluster.x-k8s.io")
    except Invalid as error:
        return {"error": error.code}
    return {"min": low, "max": high}


KINDS: dict[str, Callable[[Case], list[str]]] = {
    "cloud-aws": _aws,
    "cloud-clusterapi": _clusterapi,
    "cloud-externalgrpc": _externalgrpc,
}
