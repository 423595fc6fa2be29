"""A node group of a cloud as a fact."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

import msgspec

from tidewright.cloud.errors import Invalid, NotImplementedByCloud
from tidewright.cloud.provider import Group, GroupOptions, InstanceState, NodeTemplate
from tidewright.cloud.provider import Instance as CloudInstance
from tidewright.events.provisioning import (
    NO_SETTINGS,
    GroupSettings,
    Instance,
    NodeGroupObserved,
    TemplateNode,
)
from tidewright.kube.durations import LONGEST_S
from tidewright.kube.podspecs import amounts
from tidewright.kube.projection.capacity import for_scheduling

MANY = 1000
"""Machines from which on a group is written shortly."""
MOST_IGNORED, MOST_SAID = 20, 500
"""Of what cannot be read of a group: so many, and so many characters of each, are on its fact."""

_STATES = {
    InstanceState.RUNNING: "running",
    InstanceState.CREATING: "creating",
    InstanceState.DELETING: "deleting",
}


_SHARE: Final = (lambda value: 0.0 <= value <= 1.0, "a number from 0 to 1")
_SECONDS: Final = (lambda value: 0.0 <= value <= LONGEST_S, "seconds from 0, 292 years at most")
_OWN: Final[dict[str, tuple[str, str, tuple[Callable[[float], bool], str]]]] = {
    "scale_down_utilization_threshold": ("threshold", "scale-down-utilization-threshold", _SHARE),
    "scale_down_gpu_utilization_threshold": ("gpu_threshold", "scale-down-gpu-utilization-threshold", _SHARE),
    "scale_down_unneeded_s": ("unneeded_s", "scale-down-unneeded-time", _SECONDS),
    "scale_down_unready_s": ("unready_s", "scale-down-unready-time", _SECONDS),
    "max_node_startup_s": ("startup_s", "max-node-startup-time", _SECONDS),
    "max_node_provision_s": ("", "max-node-provision-time", _SECONDS),
}
"""Options of a group that are numbers: the field of `GroupSettings`, the setting, and what is valid."""


async def read(group: Group) -> NodeGroupObserved:
    """One group as a fact, `at` 0.

    Raises:
        CloudError: it cannot be read.
    """
    if group.min_size > group.max_size:
        raise Invalid(
            f"{group.id}: minimum {group.min_size} is above the maximum {group.max_size}: correct them at the cloud"
        )
    # The size last, where a cloud is asked for both: read before an order and its machines after, an order that stands
    # would look as if nothing more were to come.
    instances = await group.nodes()
    size = await group.target_size()
    try:
        template = _template(await group.template())
    except NotImplementedByCloud:
        template = None
    options = await group.options(GroupOptions())
    options, odd = usable(options)
    price = group.price_per_hour
    fact = NodeGroupObserved(
        at=0.0,
        namespace="",
        name=group.id,
        min_size=group.min_size,
        max_size=group.max_size,
        target_size=size,
        instances=tuple(_instance(instance) for instance in instances),
        template=template,
        zero_or_max=bool(options.zero_or_max_node_scaling),
        allow_non_atomic=bool(options.allow_non_atomic_scale_up_to_max),
        max_provision_s=options.max_node_provision_s or 0.0,
        price_micro=None if price is None else round(price * 1e6),
        atomic_increase=group.atomic,
        autoprovisioned=group.autoprovisioned,
        machine_type=group.machine_type,
        zone=group.zone,
        own=_own(options),
        initial=group.initial,
        ignored=tuple(map(_short, (*group.ignored, *odd)[:MOST_IGNORED])),
    )
    return shortened(fact) if len(instances) >= MANY else fact


def usable(options: GroupOptions) -> tuple[GroupOptions, tuple[str, ...]]:
    """Options without the numbers that mean nothing, and what is said of these."""
    odd: dict[str, Any] = {}
    said: list[str] = []
    for name, (_, setting, (is_valid, valid)) in _OWN.items():
        value = getattr(options, name)
        if value is not None and not is_valid(value):
            odd[name] = None
            said.append(f"{setting} {value:g}: valid is {valid}")
    return msgspec.structs.replace(options, **odd), tuple(said)


def _short(text: str) -> str:
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}..."


def _own(options: GroupOptions) -> GroupSettings:
    numbers = {field: getattr(options, name) for name, (field, _, _) in _OWN.items() if field}
    own = GroupSettings(ignore_daemonsets=options.ignore_daemon_sets_utilization, **numbers)
    return NO_SETTINGS if own == NO_SETTINGS else own


def shortened(fact: NodeGroupObserved) -> NodeGroupObserved:
    """The same group with its machines without errors by state, and what their ids share written once."""
    plain = [instance for instance in fact.instances if not instance.error_class]
    ids = [instance.id for instance in plain] or [""]
    # What the first and the last in order share, all share.
    prefix = "".join(
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(ids), max(ids), strict=False))
    )
    many: dict[str, list[str]] = {}
    for instance in plain:
        many.setdefault(instance.state, []).append(instance.id.removeprefix(prefix))
    return msgspec.structs.replace(
        fact,
        instances=tuple(instance for instance in fact.instances if instance.error_class),
        many={state: tuple(endings) for state, endings in sorted(many.items())},
        prefix=prefix,
    )


def _instance(instance: CloudInstance) -> Instance:
    error = instance.error
    return Instance(
        id=instance.id,
        state="" if instance.state is None else _STATES[instance.state],
        error_class=0 if error is None else int(error.error_class),
        error_code="" if error is None else error.code,
        error_message="" if error is None else error.message,
    )


def _template(template: NodeTemplate) -> TemplateNode:
    return TemplateNode(
        labels=template.labels,
        taints=tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in template.taints),
        allocatable=amounts(template.allocatable or template.capacity),
        capacity=amounts(template.capacity),
        devices=template.devices,
        pods=tuple(for_scheduling(pod) for pod in template.static_pods),
    )


def busy(fact: NodeGroupObserved) -> bool:
    """Whether a group is not yet as it is ordered to be."""
    machines = fact.machines
    there = sum(instance.state != "deleting" for instance in machines)
    return there != fact.target_size or any(
        instance.state in ("creating", "deleting") for instance in machines
    )
