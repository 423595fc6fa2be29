"""A scalable resource and a Machine, as far as they matter here. Pure.

Fields that a version of the API has elsewhere (`v1beta2` moved failures) are read from where they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from tidewright.cloud.errors import ErrorClass, Invalid
from tidewright.cloud.provider import Instance, InstanceError, InstanceState

DEPLOYMENT: Final = "MachineDeployment"
SET: Final = "MachineSet"
POOL: Final = "MachinePool"
MACHINE: Final = "Machine"
SCALABLE: Final = (DEPLOYMENT, SET, POOL)
LABEL_OF: Final = {DEPLOYMENT: "deployment-name", SET: "set-name", POOL: "pool-name"}
"""Kind to the label, after the API group, that its Machines have."""

_DECIMAL = re.compile(r"[+-]?[0-9]+")
_NO_ROOM = re.compile(
    r"Insufficient\w*Capacity|insufficient\b.*\bcapacity|out of (?:capacity|stock|resources)|stockout|quota|LimitExceeded"
    r"|ZONE_RESOURCE_POOL_EXHAUSTED|SkuNotAvailable|AllocationFailed|Overconstrained\w*AllocationRequest"
    r"|No valid host|No available host|resource_unavailable|resource_limit_exceeded",
    re.IGNORECASE,
)
"""What infrastructure providers say, in messages of their Machines, where a cloud has no more."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""
    apiVersion: str = ""  # noqa: N815 - the API's names, here and below
    apiGroup: str = ""  # noqa: N815
    controller: bool = False

    @property
    def group(self) -> str:
        """The API group: `v1beta2` says it without a version."""
        return self.apiGroup or self.apiVersion.rpartition("/")[0]


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: tuple[Reference, ...] | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815

    @property
    def notes(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.annotations or {}

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of its controller; empty where it has none."""
        for reference in self.ownerReferences or ():
            if reference.controller:
                return reference.kind, reference.name
        return "", ""


class Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Failure(msgspec.Struct, frozen=True):
    failureReason: str | None = None  # noqa: N815
    failureMessage: str | None = None  # noqa: N815


class _Deprecated(msgspec.Struct, frozen=True):
    v1beta1: _Failure = _Failure()


class _NodeReference(msgspec.Struct, frozen=True):
    name: str = ""


class _MachineSpec(msgspec.Struct, frozen=True):
    providerID: str | None = None  # noqa: N815
    failureDomain: str | None = None  # noqa: N815


class _MachineStatus(msgspec.Struct, frozen=True):
    nodeRef: _NodeReference | None = None  # noqa: N815
    phase: str = ""
    failureReason: str | None = None  # noqa: N815
    failureMessage: str | None = None  # noqa: N815
    conditions: tuple[Condition, ...] | None = None
    deprecated: _Deprecated | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One Machine."""

    metadata: Metadata
    spec: _MachineSpec = _MachineSpec()
    status: _MachineStatus = _MachineStatus()

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    @property
    def has_failed(self) -> bool:
        return self.status.phase == "Failed"

    @property
    def has_node(self) -> bool:
        return bool(self.status.nodeRef and self.status.nodeRef.name)

    @property
    def is_pending(self) -> bool:
        return not self.spec.providerID or not self.has_node

    @property
    def is_there(self) -> bool:
        """Whether it is a node that a smaller size would delete, and no order that is not fulfilled."""
        return self.has_node and not self.is_leaving

    @property
    def id(self) -> str:
        """The provider id, which its node has as well; a made-up one until it has any."""
        if self.spec.providerID:
            return self.spec.providerID
        state = "deleting" if self.is_leaving else "failed" if self.has_failed else "pending"
        return f"{state}-machine-{self.metadata.namespace}_{self.metadata.name}"

    @property
    def complaint(self) -> str:
        """Why it does not come up, in the words of its infrastructure provider; empty where nobody says."""
        said = [self.status.failureReason, self.status.failureMessage]
        if self.status.deprecated is not None:
            old = self.status.deprecated.v1beta1
            said += [old.failureReason, old.failureMessage]
        for condition in self.status.conditions or ():
            if condition.status == "False" and condition.type in ("InfrastructureReady", "Ready"):
                said += [condition.reason, condition.message]
        return ": ".join(dict.fromkeys(filter(None, said)))

    def instance(self) -> Instance:
        """As the cloud reports it (spec 5.3)."""
        state, error = self._state()
        return Instance(id=self.id, state=state, error=error, zone=self.spec.failureDomain or "")

    def _state(self) -> tuple[InstanceState | None, InstanceError | None]:
        other = ErrorClass.OTHER
        if self.is_leaving:
            failed = InstanceError(
                error_class=other, code="DeletingFailed", message="Machine deletion failed"
            )
            return InstanceState.DELETING, failed if self.has_failed else None
        if self.has_failed and self.has_node:
            return None, None
        no_room = self.is_pending and _NO_ROOM.search(self.complaint) is not None
        if self.has_failed or no_room:
            return InstanceState.CREATING, InstanceError(
                error_class=ErrorClass.OUT_OF_RESOURCES if no_room else other,
                code="ProvisioningFailed",
                message=": ".join(filter(None, ("Machine provisioning failed", self.complaint))),
            )
        return (InstanceState.CREATING if self.is_pending else InstanceState.RUNNING), None


class _Selector(msgspec.Struct, frozen=True):
    matchLabels: dict[str, str] | None = None  # noqa: N815


class _TaintEntry(msgspec.Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class _OfMachines(msgspec.Struct, frozen=True):
    infrastructureRef: Reference | None = None  # noqa: N815
    failureDomain: str | None = None  # noqa: N815
    taints: tuple[_TaintEntry, ...] | None = None


class _TemplateMetadata(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _TemplateMetadata = _TemplateMetadata()
    spec: _OfMachines = _OfMachines()


class _ScalableSpec(msgspec.Struct, frozen=True):
    replicas: int | None = None
    clusterName: str = ""  # noqa: N815
    template: _Template = _Template()
    providerIDList: tuple[str, ...] | None = None  # noqa: N815


class Scalable(msgspec.Struct, frozen=True, kw_only=True):
    """A MachineDeployment, MachineSet or MachinePool."""

    metadata: Metadata
    spec: _ScalableSpec = _ScalableSpec()

    @property
    def size(self) -> int:
        return self.spec.replicas or 0


def bounds(annotations: Mapping[str, str], prefix: str) -> tuple[int, int]:
    """Least and most machines, as the annotations say; one that is missing counts as 0.

    Raises:
        Invalid: not a number, negative, or the most below the least; the message names the annotation.
    """
    low_name, high_name = (f"{prefix}/cluster-api-autoscaler-node-group-{end}-size" for end in ("min", "max"))
    low = _count(annotations, low_name, "min")
    high = _count(annotations, high_name, "max")
    if high < low:
        raise Invalid(
            f"annotation {high_name}: {high} is below the minimum {low}", code="invalid max annotation"
        )
    return low, high


def _count(annotations: Mapping[str, str], name: str, end: str) -> int:
    text = annotations.get(name, "0")
    if not _DECIMAL.fullmatch(text) or len(text) > 10 or int(text) < 0:
        raise Invalid(
            f"annotation {name}: {text!r}: valid is a decimal number from 0", code=f"invalid {end} annotation"
        )
    return int(text)
