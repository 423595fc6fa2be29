"""What a group's next node will look like: its instance type, tags, and what EKS says of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidewright.cloud.aws.groups import tags_of
from tidewright.cloud.errors import Invalid, NotImplementedByCloud
from tidewright.cloud.provider import GroupOptions, NodeTemplate, Taint
from tidewright.kube import quantities
from tidewright.kube.durations import parse_duration

PREFIX: Final = "k8s.io/cluster-autoscaler/node-template/"
PODS: Final = "110"
GPU: Final = "nvidia.com/gpu"
GPU_LABEL: Final = "k8s.amazonaws.com/accelerator"
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_EKS_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group's instance type is said; exactly one of them.

    Attributes:
        instance_type: named by the group itself.
        requirements: what any of its types has at least.
        launch_configuration: its name.
        launch_template: id (or name, when there is none) and version.
    """

    instance_type: str = ""
    requirements: dict[str, Any] | None = None
    launch_configuration: str = ""
    launch_template: tuple[str, str, str] = ("", "", "")


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type in numbers."""

    name: str
    cpus: int
    memory_mib: int
    gpus: int = 0
    architecture: str = "amd64"


def source_of(group: Mapping[str, Any]) -> Source:
    """Where to look for a group's instance type.

    Raises:
        Invalid: its overrides say types and requirements at once.
        NotImplementedByCloud: it says nothing.
    """
    name = group["AutoScalingGroupName"]
    policy = group.get("MixedInstancesPolicy")
    if policy:
        launch = policy.get("LaunchTemplate") or {}
        overrides = launch.get("Overrides") or []
        types = [one["InstanceType"] for one in overrides if one.get("InstanceType")]
        wanted = [one["InstanceRequirements"] for one in overrides if one.get("InstanceRequirements")]
        if types and wanted:
            raise Invalid(
                f"{name}: overrides with InstanceType and with InstanceRequirements: one kind of them"
            )
        if types:
            return Source(instance_type=types[0])
        if wanted:
            return Source(requirements=wanted[0])
        return Source(launch_template=_launch(launch.get("LaunchTemplateSpecification") or {}))
    if group.get("LaunchTemplate"):
        return Source(launch_template=_launch(group["LaunchTemplate"]))
    if group.get("LaunchConfigurationName"):
        return Source(launch_configuration=group["LaunchConfigurationName"])
    raise NotImplementedByCloud(f"{name}: neither launch template nor launch configuration")


def _launch(said: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        str(said.get("LaunchTemplateId") or ""),
        str(said.get("LaunchTemplateName") or ""),
        str(said.get("Version") or "$Default"),
    )


def machine_of(said: Mapping[str, Any]) -> InstanceType:
    """An entry of DescribeInstanceTypes."""
    architectures = (said.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ["x86_64"]
    gpus = (said.get("GpuInfo") or {}).get("Gpus") or ()
    return InstanceType(
        name=said["InstanceType"],
        cpus=int(said["VCpuInfo"]["DefaultVCpus"]),
        memory_mib=int(said["MemoryInfo"]["SizeInMiB"]),
        gpus=sum(int(gpu.get("Count", 0)) for gpu in gpus if gpu.get("Manufacturer") == "NVIDIA"),
        architecture=next((_ARCHITECTURES[one] for one in architectures if one in _ARCHITECTURES), "amd64"),
    )


def at_least(machine: InstanceType, requirements: Mapping[str, Any]) -> InstanceType:
    """The machine with what the requirements promise of every type: their minimum."""
    cpus = (requirements.get("VCpuCount") or {}).get("Min")
    memory = (requirements.get("MemoryMiB") or {}).get("Min")
    gpus = (requirements.get("AcceleratorCount") or {}).get("Min")
    makers = requirements.get("AcceleratorManufacturers") or ()
    return msgspec.structs.replace(
        machine,
        cpus=machine.cpus if cpus is None else int(cpus),
        memory_mib=machine.memory_mib if memory is None else int(memory),
        gpus=int(gpus) if gpus is not None and "nvidia" in makers else machine.gpus,
    )


class EksGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What EKS says of a managed node group."""

    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    tags: dict[str, str] = {}


def eks_of(said: Mapping[str, Any]) -> EksGroup:
    """The `nodegroup` of DescribeNodegroup."""
    return EksGroup(
        labels=dict(said.get("labels") or {}),
        taints=tuple(
            Taint(key=t["key"], value=t.get("value", ""), effect=_EKS_EFFECTS[t["effect"]])
            for t in said.get("taints") or ()
            if t.get("effect") in _EKS_EFFECTS
        ),
        tags=dict(said.get("tags") or {}),
    )


def managed_by_eks(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """Cluster and node group, of a group that EKS manages."""
    cluster, group = tags.get("eks:cluster-name", ""), tags.get("eks:nodegroup-name", "")
    return (cluster, group) if cluster and group else None


def template_of(
    group: Mapping[str, Any],
    machine: InstanceType,
    *,
    region: str,
    reserved: Mapping[str, str],
    eks: EksGroup | None = None,
) -> NodeTemplate:
    """An empty node as it would join."""
    tags = {**tags_of(group), **(eks.tags if eks is not None else {})}
    zone = next(iter(group.get("AvailabilityZones") or ("",)))
    capacity = {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory_mib}Mi",
        "pods": PODS,
        **({GPU: str(machine.gpus)} if machine.gpus else {}),
    }
    for key, value in tags.items():
        if key.startswith(f"{PREFIX}resources/") and _is_quantity(value):
            capacity[key.removeprefix(f"{PREFIX}resources/")] = value
    labels = {
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        "topology.ebs.csi.aws.com/zone": zone,
    }
    for key, value in tags.items():
        if key.startswith(f"{PREFIX}label/"):
            labels[key.removeprefix(f"{PREFIX}label/")] = value
        elif key.startswith("eks:"):
            labels[key.removeprefix("eks:")] = value
    if eks is not None:
        labels |= eks.labels
    return NodeTemplate(
        capacity=capacity,
        allocatable=_less(capacity, reserved),
        labels=labels,
        taints=(*_taints(tags), *(eks.taints if eks is not None else ())),
    )


def _taints(tags: Mapping[str, str]) -> list[Taint]:
    found = []
    for key, said in sorted(tags.items()):
        value, colon, effect = said.rpartition(":")
        if key.startswith(f"{PREFIX}taint/") and colon and effect in _EFFECTS:
            found.append(Taint(key=key.removeprefix(f"{PREFIX}taint/"), value=value, effect=effect))
    return found


def _less(capacity: Mapping[str, str], reserved: Mapping[str, str]) -> dict[str, str]:
    """What is left of the capacity; empty when nothing is kept, which means the same as the capacity."""
    if not any(name in capacity for name in reserved):
        return {}
    left = dict(capacity)
    for name, amount in reserved.items():
        if name == "cpu" and name in capacity:
            left[name] = f"{max(0, quantities.milli(capacity[name]) - quantities.milli(amount))}m"
        elif name in capacity:
            left[name] = str(max(0, quantities.whole(capacity[name]) - quantities.whole(amount)))
    return left


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except ValueError:
        return False
    return True


def options_of(group: Mapping[str, Any], defaults: GroupOptions) -> GroupOptions:
    """The defaults with what the group's tags say; what cannot be read is ignored."""
    own: dict[str, Any] = {}
    for key, text in tags_of(group).items():
        if key.startswith(f"{PREFIX}autoscaling-options/"):
            own |= _option(key.removeprefix(f"{PREFIX}autoscaling-options/"), text)
    return msgspec.structs.replace(defaults, **own)


def ignored(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Tags of ours that say nothing, since they cannot be read; each with what would be valid."""
    found = {}
    for key, text in tags.items():
        kind, _, name = key.removeprefix(PREFIX).partition("/")
        if not key.startswith(PREFIX):
            continue
        if kind == "resources" and not _is_quantity(text):
            found[key] = "a quantity, as in 100Gi"
        elif kind == "taint" and not _taints({key: text}):
            found[key] = f"VALUE:EFFECT, EFFECT one of {', '.join(sorted(_EFFECTS))}"
        elif kind == "autoscaling-options" and not _option(name, text):
            found[key] = f"a value of its kind; options are {', '.join(_OPTIONS)}"
    return tuple(f"tag {key}: {tags[key]!r}: valid is {valid}" for key, valid in sorted(found.items()))


def _option(name: str, text: str) -> dict[str, Any]:
    """The field of an option and its value; empty for one that there is not, or that cannot be read."""
    if name not in _OPTIONS:
        return {}
    field, read = _OPTIONS[name]
    try:
        return {field: read(text)}
    except ValueError:
        return {}


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "scaledownutilizationthreshold": ("scale_down_utilization_threshold", float),
    "scaledowngpuutilizationthreshold": ("scale_down_gpu_utilization_threshold", float),
    "scaledownunneededtime": ("scale_down_unneeded_s", parse_duration),
    "scaledownunreadytime": ("scale_down_unready_s", parse_duration),
    "ignoredaemonsetsutilization": ("ignore_daemon_sets_utilization", _truth),
}
