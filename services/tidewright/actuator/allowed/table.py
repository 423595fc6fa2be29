"""Which service may ask for which effect on which kind: one line each. RBAC is generated from it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tidewright.actuator.allowed import fields, pods, webhooks
from tidewright.actuator.allowed.bounds import Bounds, Feature
from tidewright.actuator.plan import Ground
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import EndpointEffect, ForgetEndpoint, TrustEndpoint
from tidewright.events.provisioning import (
    CreateNodeGroup,
    DecreaseNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseNodeGroup,
    MarkNode,
    ReportClusterStatus,
    ResolvePod,
)

Kind: TypeAlias = tuple[str, str]
"""Group (empty for the core group) and kind."""
Slot: TypeAlias = Literal["namespace", "all", "any"]

ANY: Final[Kind] = ("*", "*")
POD: Final[Kind] = ("", "Pod")
NODE: Final[Kind] = ("", "Node")
CONFIG_MAP: Final[Kind] = ("", "ConfigMap")
LEASE: Final[Kind] = ("coordination.k8s.io", "Lease")
GROUP: Final[Kind] = ("cloud", "NodeGroup")
WPA: Final[Kind] = ("datadoghq.com", "WatermarkPodAutoscaler")
REQUEST: Final[Kind] = ("autoscaling.x-k8s.io", "ProvisioningRequest")
BUFFER: Final[Kind] = ("autoscaling.x-k8s.io", "CapacityBuffer")
POD_TEMPLATE: Final[Kind] = ("", "PodTemplate")
SPREAD: Final[Kind] = ("apps.kruise.io", "WorkloadSpread")
SET: Final[Kind] = ("shards.tidewright.dev", "ShardSet")
MEMBER: Final[Kind] = ("shards.tidewright.dev", "ShardMember")
STATEFUL_SET: Final[Kind] = ("apps", "StatefulSet")
DEPLOYMENT: Final[Kind] = ("apps", "Deployment")
WORKLOADS: Final[tuple[Kind, ...]] = (
    DEPLOYMENT, STATEFUL_SET, ("apps", "ReplicaSet"), ("batch", "Job"), ("", "ReplicationController"),
    ("apps.kruise.io", "CloneSet"),
)  # fmt: skip
MUTATING: Final[Kind] = ("admissionregistration.k8s.io", "MutatingWebhookConfiguration")

_CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"


def anything(effect: Any) -> str:
    """The fields of the effect say nothing that could be wrong."""
    return ""


def no_bounds(effect: Any, bounds: Bounds) -> str:
    """As `anything`, for effects that are judged by the actuator's options."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What one service may ask for.

    Attributes:
        kinds: of the target; `ANY`: any of Kubernetes, but none of the cloud.
        check: of its fields: why not, "" when it may.
        bounded: the same, where the actuator's options count.
        ground: what it must be founded on (`grounds`); empty for nothing.
        marks: labels or annotations, one of which the object must carry when it is looked at.
        harmless: allowed in closed namespaces, too: it tells, and changes nothing.
        where: the namespaces are said by the ground.
        anywhere: in closed namespaces, too: its ground says on whose behalf.
        slot: the slot that the service decides it in: that of the target's namespace, or another.
    """

    service: str
    feature: Feature
    effect: type[Effect]
    kinds: tuple[Kind, ...]
    check: Callable[[Any], str] = anything
    bounded: Callable[[Any, Bounds], str] = no_bounds
    ground: Ground = ""
    marks: tuple[str, ...] = ()
    harmless: bool = False
    where: bool = False
    anywhere: bool = False
    slot: Slot = "namespace"

    def covers(self, effect: Effect, kind: Kind) -> bool:
        """Whether it speaks about this type of effect on this kind."""
        if type(effect) is not self.effect:
            return False
        return kind in self.kinds or (ANY in self.kinds and kind[0] != GROUP[0])


def _cloud(effect: type[Effect]) -> Grant:
    return Grant(
        service="provisioning", feature=Feature.PROVISIONING, effect=effect, kinds=(GROUP,), slot="all"
    )


def _events(service: str, component: str, *kinds: Kind, slot: Slot = "namespace") -> Grant:
    return Grant(
        service=service, feature=Feature.EVENTS, effect=RecordObjectEvent, kinds=kinds,
        check=fields.told_by(component), harmless=True, slot=slot,
    )  # fmt: skip


def _config_ignored(service: str, component: str) -> Grant:
    """Of a service that is configured as one, and tells it in its first slot."""
    return _events(service, component, CONFIG_MAP, slot="any")


def _endpoint(
    service: str,
    feature: Feature,
    effect: type[EndpointEffect],
    bounded: Callable[[Any, Bounds], str],
    ground: Ground = "",
) -> Grant:
    return Grant(
        service=service, feature=feature, effect=effect, kinds=(MUTATING,), bounded=bounded, ground=ground,
        slot="all",
    )  # fmt: skip


_A, _P, _B, _H, _D, _S, _M = (
    Feature.AUTOSCALING, Feature.PROVISIONING, Feature.BUFFERS, Feature.PLACEHOLDERS, Feature.SCALE_DOWN, Feature.SPREAD, Feature.SHARDS,
)  # fmt: skip

# fmt: off
GRANTS: Final[tuple[Grant, ...]] = (
    Grant(service="autoscaler", feature=_A, effect=ScaleWorkload, kinds=(ANY,), ground="autoscaler"),
    Grant(service="autoscaler", feature=_A, effect=SetStatus, kinds=(WPA,), check=fields.status_as(""), harmless=True),
    Grant(service="autoscaler", feature=_A, effect=PatchObject, kinds=(WPA,), check=fields.autoscaler_patch),
    _events("autoscaler", "wpa_controller", WPA), _config_ignored("autoscaler", "wpa_controller"),

    _cloud(IncreaseNodeGroup), _cloud(DecreaseNodeGroup), _cloud(DeleteInstances),
    _cloud(CreateNodeGroup), _cloud(DeleteNodeGroup),
    Grant(service="provisioning", feature=_P, effect=SetStatus, kinds=(REQUEST,), slot="all", harmless=True,
          check=fields.status_as(_CLUSTER_AUTOSCALER)),
    Grant(service="provisioning", feature=_P, effect=DeleteObject, kinds=(REQUEST,), slot="all", check=fields.with_uid),
    Grant(service="provisioning", feature=_P, effect=PatchObject, kinds=(NODE,), slot="all",
          check=fields.noting(fields.RESERVED)),
    Grant(service="provisioning", feature=_P, effect=ReportClusterStatus, kinds=(CONFIG_MAP,), slot="all",
          ground="status", where=True),
    Grant(service="provisioning", feature=_H, effect=CreateObject, kinds=(POD,), slot="all", where=True,
          check=pods.placeholder, ground="placeholder"),
    Grant(service="provisioning", feature=_H, effect=DeleteObject, kinds=(POD,), slot="all", where=True,
          check=fields.placeholder_deleted, marks=(fields.PLACEHOLDER, fields.CHUNK)),
    Grant(service="provisioning", feature=_D, effect=MarkNode, kinds=(NODE,), slot="all", check=fields.marking),
    Grant(service="provisioning", feature=_D, effect=EvictPod, kinds=(POD,), slot="all", check=fields.drained_pod,
          ground="drained", anywhere=True),
    Grant(service="provisioning", feature=_B, effect=ResolvePod, kinds=(BUFFER,), slot="all", ground="buffer"),
    Grant(service="provisioning", feature=_B, effect=CreateObject, kinds=(POD_TEMPLATE,), slot="all",
          check=fields.managed_template, ground="buffer"),
    Grant(service="provisioning", feature=_B, effect=PatchObject, kinds=(POD_TEMPLATE,), slot="all",
          check=fields.managed_template_patch, ground="buffer"),
    Grant(service="provisioning", feature=_B, effect=SetStatus, kinds=(BUFFER,), slot="all", harmless=True,
          check=fields.status_as(_CLUSTER_AUTOSCALER)),
    _events("provisioning", _CLUSTER_AUTOSCALER, REQUEST, BUFFER, POD, CONFIG_MAP, NODE, *WORKLOADS, slot="all"),
    # Custom workloads may be of any kind.
    Grant(service="provisioning", feature=Feature.EVENTS, effect=RecordObjectEvent, kinds=(ANY,), slot="all", harmless=True,
          check=fields.told_as(
              _CLUSTER_AUTOSCALER, "ExpectedPodsDidNotCome", "ExpectedPodsLimited", "PodTemplateUnreadable", "PodCountsImpossible",
              "WorkloadUnreadable",
          )),

    Grant(service="spread", feature=_S, effect=SetStatus, kinds=(SPREAD,), check=fields.status_as(""), harmless=True),
    Grant(service="spread", feature=_S, effect=PatchObject, kinds=(POD,), check=fields.spread_patch, ground="matched"),
    Grant(service="spread", feature=_S, effect=DeleteObject, kinds=(POD,), ground="spread", marks=(fields.MATCHED,)),
    Grant(service="spread", feature=_S, effect=EvictPod, kinds=(POD,), ground="spread", marks=(fields.MATCHED,)),
    _events("spread", "workloadspread-controller", SPREAD), _config_ignored("spread", "workloadspread-controller"),

    Grant(service="shard-manager", feature=_M, effect=SetStatus, kinds=(SET,), check=fields.status_as(""),
          harmless=True),
    Grant(service="shard-manager", feature=_M, effect=CreateObject, kinds=(POD,), check=pods.worker, ground="template"),
    Grant(service="shard-manager", feature=_M, effect=DeleteObject, kinds=(POD,),
          marks=(fields.SHARD_SET, fields.CONFIG_HASH)),
    Grant(service="shard-manager", feature=_M, effect=CreateObject, kinds=(LEASE,), check=fields.lock_made),
    Grant(service="shard-manager", feature=_M, effect=PatchObject, kinds=(LEASE,), check=fields.lease_patch,
          slot="any"),
    Grant(service="shard-manager", feature=_M, effect=DeleteObject, kinds=(LEASE,), check=fields.lock_deleted),
    Grant(service="shard-manager", feature=_M, effect=HoldLease, kinds=(LEASE,), check=fields.hold, ground="lock",
          slot="any"),
    Grant(service="shard-manager", feature=_M, effect=PatchObject, kinds=(MEMBER,), check=fields.member_taken),
    Grant(service="shard-manager", feature=_M, effect=DeleteObject, kinds=(MEMBER,)),
    Grant(service="shard-manager", feature=_M, effect=ScaleWorkload, kinds=(STATEFUL_SET,), ground="set"),
    Grant(service="shard-manager", feature=Feature.OWN_SERVICES, effect=ScaleWorkload, kinds=(DEPLOYMENT,),
          check=fields.own_service, ground="service", where=True),
    Grant(service="shard-manager", feature=Feature.SHARD_LABELS, effect=PatchObject, kinds=(ANY,),
          check=fields.slot_label, slot="any"),
    _config_ignored("shard-manager", "shard-manager"),

    _endpoint("spread-admission", Feature.ADMISSION, TrustEndpoint, webhooks.spread),
    _endpoint("spread-admission", Feature.ADMISSION, ForgetEndpoint, webhooks.spread),
    _endpoint("shard-labels", Feature.SHARD_LABELS, TrustEndpoint, webhooks.labels, "labels"),
    _endpoint("shard-labels", Feature.SHARD_LABELS, ForgetEndpoint, webhooks.labels),
)
# fmt: on

SERVICES: Final = frozenset(grant.service for grant in GRANTS)
"""Those that may ask for anything."""


def kind_of(effect: Effect) -> Kind:
    """Group and kind of an effect's target."""
    return effect.target.api_version.rpartition("/")[0], effect.target.kind
