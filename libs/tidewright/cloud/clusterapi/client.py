"""The provider interface over Cluster API's objects in a management cluster.

Sizes are set through the scale subresource under the resourceVersion that was read: who else changes the object in
between makes that a conflict. A deletion marks its Machines with the order and the size that it leads to, then sets
that size: a repeat after a crash between the two finds the marks, and sets it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import structlog

from tidewright.cloud.calls import Calls
from tidewright.cloud.clusterapi import resources as capi
from tidewright.cloud.clusterapi.config import ClusterApiConfig, config_of
from tidewright.cloud.errors import CloudError, Conflict, Invalid, NotFound, NotImplementedByCloud
from tidewright.cloud.kubernetes import MERGE_PATCH, Cluster
from tidewright.cloud.provider import (
    GpuConfig,
    GroupOptions,
    Instance,
    InstanceState,
    MachineType,
    NodeTemplate,
    Promise,
    ResourceLimit,
    Taint,
)
from tidewright.cloud.providers import Surroundings

PLURALS: Final = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
}
LABELS: Final = {
    "MachineDeployment": "deployment-name",
    "MachineSet": "set-name",
    "MachinePool": "pool-name",
}
"""Of a Machine, after the API group: which of these it is of."""
DECISION: Final = "tidewright.dev/decision"
"""Annotation of a Machine that is to go: the order's key, and the sizes from and to which its group goes."""

_log = structlog.get_logger(__name__)


class ClusterApiGroup:
    """One scalable resource, with its Machines as they were read."""

    def __init__(
        self,
        provider: ClusterApiProvider,
        kind: str,
        resource: capi.Object,
        machines: Sequence[capi.Object] | None,
    ) -> None:
        """`machines` is None where they are read when they are asked for."""
        self._provider = provider
        self._kind = kind
        self._resource = resource
        self._machines = machines
        self._min, self._max = capi.limits_of(resource, provider.api_group)
        self._size = capi.replicas(resource)
        self._version = str(capi.metadata(resource).get("resourceVersion", ""))
        self._template: NodeTemplate | None = None

    @property
    def namespace(self) -> str:
        return str(capi.metadata(self._resource).get("namespace", ""))

    @property
    def name(self) -> str:
        return str(capi.metadata(self._resource)["name"])

    @property
    def id(self) -> str:
        return f"{self._kind}/{self.namespace}/{self.name}"

    @property
    def debug(self) -> str:
        return f"{self.id} ({self._min}..{self._max}, replicas {self._size})"

    @property
    def min_size(self) -> int:
        return self._min

    @property
    def max_size(self) -> int:
        return self._max

    @property
    def autoprovisioned(self) -> bool:
        return False

    @property
    def atomic(self) -> bool:
        return False

    @property
    def price_per_hour(self) -> float | None:
        return None

    @property
    def machine_type(self) -> str:
        return (
            ""
            if self._template is None
            else self._template.labels.get("node.kubernetes.io/instance-type", "")
        )

    @property
    def zone(self) -> str:
        spec = ((self._resource.get("spec") or {}).get("template") or {}).get("spec") or {}
        return str(spec.get("failureDomain") or "")

    async def exists(self) -> bool:
        return True

    async def target_size(self) -> int:
        return self._size

    async def begun(self, key: str) -> int:
        del key
        return 0

    async def machines(self) -> Sequence[capi.Object]:
        """Its Machines, as they were read."""
        if self._machines is None:
            self._machines = await self._provider.machines_of(self._kind, self.namespace, self.name)
        return self._machines

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key
        self._as_expected(expect)
        if delta <= 0:
            raise Invalid(f"{self.id}: increase by {delta}; the delta must be > 0")
        if self._size + delta > self._max:
            raise Invalid(f"{self.id}: size {self._size} + {delta} is above the maximum {self._max}")
        await self._set(self._size + delta)

    async def atomic_increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del delta, key, expect
        raise NotImplementedByCloud("Cluster API has no atomic increase")

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        machines = {capi.instance_of(one).id: one for one in await self.machines()}
        pooled = self._pooled() if not machines else set()
        foreign = [wanted for wanted in instance_ids if wanted not in machines and wanted not in pooled]
        if foreign and self._provider.owner(foreign[0]) not in ("", self.id):
            raise Invalid(f"{self.id}: instance {foreign[0]} is of group {self._provider.owner(foreign[0])}")
        doomed = [
            machines[wanted]
            for wanted in dict.fromkeys(instance_ids)
            if wanted in machines and not capi.is_deleting(machines[wanted])
        ]
        begun = next((mark for one in doomed if (mark := _mark(one, key)) is not None), None)
        if begun is not None and self._size <= begun[1]:
            return  # the size was set, and the machines are about to go
        count = len(doomed) + len(pooled & set(instance_ids))
        size = self._size - count
        if size < self._min:
            raise Invalid(f"{self.id}: size {self._size} - {count} is below the minimum {self._min}")
        for machine in doomed:
            if begun is None or _mark(machine, key) is None:
                await self._provider.mark(machine, f"{key} {self._size} {size}")
        try:
            await self._set(size)
        except CloudError as error:
            if not error.retriable and not isinstance(error, Conflict):
                for machine in doomed:
                    await self._provider.mark(machine, None)
            raise

    def _pooled(self) -> set[str]:
        """Instances of a pool without Machine objects."""
        if self._kind != "MachinePool":
            return set()
        return {str(one) for one in (self._resource.get("spec") or {}).get("providerIDList") or ()}

    async def force_delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        del instance_ids, key
        raise NotImplementedByCloud("Cluster API has no forced deletion")

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key
        self._as_expected(expect)
        await self._set(capi.new_size(self._size, delta, await self.machines(), self.id))

    def _as_expected(self, expect: int | None) -> None:
        if expect is not None and self._size != expect:
            raise Conflict(f"{self.id}: replicas is {self._size}, not {expect}")

    async def _set(self, size: int) -> None:
        self._version = await self._provider.scale(
            self._kind, self.namespace, self.name, size=size, version=self._version
        )
        self._size = size

    async def nodes(self) -> Sequence[Instance]:
        found = capi.instances_of(await self.machines())
        if found:
            return found
        return [Instance(id=one, state=InstanceState.RUNNING) for one in sorted(self._pooled())]

    async def template(self) -> NodeTemplate:
        if self._template is None:
            infrastructure = await self._provider.infrastructure(self.namespace, self._resource)
            self._template = capi.template_of(self._resource, infrastructure)
        if self._template is None:
            raise NotImplementedByCloud(
                f"{self.id}: nobody says cpu and memory of its machines: annotate it with {capi.CAPACITY}cpu and memory"
            )
        return self._template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        return capi.options_of(self._resource, defaults, self._provider.api_group)

    async def create(self, *, key: str) -> ClusterApiGroup:
        del key
        raise NotImplementedByCloud("Cluster API makes no groups here")

    async def delete(self, *, key: str) -> None:
        del key
        raise NotImplementedByCloud("Cluster API removes no groups here")


class ClusterApiProvider:
    """The scalable resources that are selected. Call `refresh` before reading groups."""

    name = "clusterapi"
    promise = Promise.ABSOLUTE

    def __init__(self, config: ClusterApiConfig, cluster: Cluster) -> None:
        self.api_group = config.group or os.environ.get("CAPI_GROUP", "") or capi.GROUP
        self._config = config
        self._cluster = cluster
        self._version = config.version or os.environ.get("CAPI_VERSION", "")
        self._groups: dict[str, ClusterApiGroup] = {}
        self._owners: dict[str, str] = {}
        self._infrastructure: dict[tuple[str, str], capi.Object | None] = {}
        self._told: dict[str, str] = {}

    # --- groups -------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Four lists: the three kinds, and all Machines."""
        self._infrastructure.clear()
        lists = {kind: await self._listed(plural) for kind, plural in PLURALS.items()}
        machines = await self._listed("machines")
        by_group = self._by_group(machines, lists["MachineSet"])
        groups: dict[str, ClusterApiGroup] = {}
        owners: dict[str, str] = {}
        for kind, listed in lists.items():
            for resource in listed:
                group_id = _group_id(kind, resource)
                group = await self._checked(kind, resource, by_group.get(group_id, ()))
                if group is None:
                    continue
                groups[group.id] = group
                for instance in await group.nodes():
                    owners.setdefault(instance.id, group.id)
        self._groups, self._owners = dict(sorted(groups.items())), owners

    def _by_group(
        self, machines: Sequence[capi.Object], sets: Sequence[capi.Object]
    ) -> dict[str, list[capi.Object]]:
        """Machines by the group that owns them: through its set, where that is of a deployment."""
        deployment = {
            (capi.metadata(one).get("namespace"), capi.metadata(one)["name"]): capi.owner_of(
                one, "MachineDeployment"
            )
            for one in sets
        }
        by_group: dict[str, list[capi.Object]] = {}
        for machine in machines:
            namespace = str(capi.metadata(machine).get("namespace", ""))
            pool, owner = capi.owner_of(machine, "MachinePool"), capi.owner_of(machine, "MachineSet")
            if pool:
                group_id = f"MachinePool/{namespace}/{pool}"
            elif above := deployment.get((namespace, owner), ""):
                group_id = f"MachineDeployment/{namespace}/{above}"
            else:
                group_id = f"MachineSet/{namespace}/{owner}"
            by_group.setdefault(group_id, []).append(machine)
        return by_group

    async def _checked(
        self, kind: str, resource: capi.Object, machines: Sequence[capi.Object]
    ) -> ClusterApiGroup | None:
        """The group that a resource is; None when it is none of ours."""
        if not self._is_selected(kind, resource):
            return None
        group_id = _group_id(kind, resource)
        try:
            _, high = capi.limits_of(resource, self.api_group)
        except Invalid as error:
            if self._told.get(group_id) != error.message:
                self._told[group_id] = error.message
                _log.warning(
                    "a group cannot be used", group=group_id, error=error.message, do="mend the annotation"
                )
            return None
        if not high:
            return None
        group = ClusterApiGroup(self, kind, resource, machines)
        if not capi.replicas(resource):
            try:
                await group.template()
            except NotImplementedByCloud:
                return None  # nobody knows what its first node would be like
        return group

    def _is_selected(self, kind: str, resource: capi.Object) -> bool:
        if capi.is_paused(resource, self.api_group):
            return False
        if kind == "MachineSet" and capi.owner_of(resource, "MachineDeployment"):
            return False
        about, spec = capi.metadata(resource), resource.get("spec") or {}
        return not self._config.selectors or any(
            selector.matches(
                str(about.get("namespace", "")), str(spec.get("clusterName", "")), about.get("labels") or {}
            )
            for selector in self._config.selectors
        )

    def node_groups(self) -> Sequence[ClusterApiGroup]:
        return list(self._groups.values())

    async def group(self, group_id: str) -> ClusterApiGroup:
        kind, _, rest = group_id.partition("/")
        namespace, _, name = rest.partition("/")
        known = ", ".join(self._groups) or "none known here"
        if kind not in PLURALS or not namespace or not name:
            raise NotFound(f"no node group {group_id!r}: KIND/NAMESPACE/NAME; there are: {known}")
        try:
            resource = await self._cluster.ask("GET", await self._path(PLURALS[kind], namespace, name))
        except NotFound as error:
            raise NotFound(f"no node group {group_id!r}; there are: {known}") from error
        if not self._is_selected(kind, resource):
            raise NotFound(f"node group {group_id} is paused or not selected; there are: {known}")
        return ClusterApiGroup(self, kind, resource, None)

    def owner(self, instance_id: str) -> str:
        """The group of an instance, as of the last refresh; empty when nobody's."""
        return self._owners.get(instance_id, "")

    async def machines_of(self, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """The Machines of one group, by the label that Cluster API gives them."""
        label = f"{self.api_group}/{LABELS[kind]}={name}"
        return await self._cluster.items(await self._path("machines", namespace), label=label)

    async def infrastructure(self, namespace: str, resource: capi.Object) -> capi.Object | None:
        """The infrastructure's template of a resource; None when there is none, or it cannot be read."""
        found = capi.infrastructure_of(resource)
        if found is None:
            return None
        where, kind, name = found
        group, slash, version = where.partition("/")
        try:
            if not slash:
                version = await self._preferred(group)
            # Cluster API's contract: the plural is the kind in lower case with an s.
            path = f"/apis/{group}/{version}/namespaces/{quote(namespace)}/{kind.lower()}s/{quote(name)}"
            key = (path, "")
            if key not in self._infrastructure:
                self._infrastructure[key] = await self._cluster.ask("GET", path)
            return self._infrastructure[key]
        except NotFound:
            return None

    async def node_group_for_node(
        self, provider_id: str, labels: Mapping[str, str]
    ) -> ClusterApiGroup | None:
        del labels
        return self._groups.get(self._owners.get(provider_id, ""))

    async def has_instance(self, provider_id: str) -> bool:
        return provider_id in self._owners

    # --- writing ------------------------------------------------------------------------------

    async def scale(self, kind: str, namespace: str, name: str, *, size: int, version: str) -> str:
        """Set a size under the resourceVersion that was read; the new one is returned.

        Raises:
            CloudError: `Conflict` when the object was changed since.
        """
        path = f"{await self._path(PLURALS[kind], namespace, name)}/scale"
        body = {"metadata": {"resourceVersion": version}, "spec": {"replicas": size}}
        answer = await self._cluster.ask("PATCH", path, body, content_type=MERGE_PATCH)
        return str(capi.metadata(answer).get("resourceVersion", ""))

    async def mark(self, machine: capi.Object, order: str | None) -> None:
        """Mark a Machine as one that is to go when its group gets smaller; None takes the mark off."""
        about = capi.metadata(machine)
        path = await self._path("machines", str(about.get("namespace", "")), str(about["name"]))
        at = None if order is None else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        notes = {f"{self.api_group}/delete-machine": at, DECISION: order}
        body = {"metadata": {"annotations": notes, "uid": about.get("uid")}}
        await self._cluster.ask("PATCH", path, body, content_type=MERGE_PATCH)

    # --- the API ------------------------------------------------------------------------------

    async def _listed(self, plural: str) -> list[dict[str, Any]]:
        try:
            return await self._cluster.items(await self._path(plural))
        except NotFound:
            if plural == "machinepools":
                return []  # a feature of its own, which not every installation has
            raise

    async def _path(self, plural: str, namespace: str = "", name: str = "") -> str:
        if not self._version:
            self._version = await self._preferred(self.api_group)
        path = f"/apis/{self.api_group}/{self._version}"
        if namespace:
            path += f"/namespaces/{quote(namespace)}"
        return f"{path}/{plural}" + (f"/{quote(name)}" if name else "")

    async def _preferred(self, group: str) -> str:
        answer = await self._cluster.ask("GET", f"/apis/{group}")
        return str((answer.get("preferredVersion") or {}).get("version", ""))

    # --- optional -----------------------------------------------------------------------------

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        del template, start, end
        raise NotImplementedByCloud("Cluster API has no prices")

    async def pod_price(self, requests: Mapping[str, int], start: float, end: float) -> float:
        del requests, start, end
        raise NotImplementedByCloud("Cluster API has no prices")

    async def machine_types(self) -> Sequence[MachineType]:
        raise NotImplementedByCloud("Cluster API makes no groups here")

    async def new_node_group(
        self,
        machine_type: str,
        *,
        group_id: str = "",
        zone: str = "",
        max_size: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        resources: Mapping[str, str] | None = None,
    ) -> ClusterApiGroup:
        del machine_type, group_id, zone, max_size, labels, taints, resources
        raise NotImplementedByCloud("Cluster API makes no groups here")

    async def resource_limits(self) -> Mapping[str, ResourceLimit]:
        return {}

    def gpu_label(self) -> str:
        return capi.GPU_LABEL

    async def gpu_types(self) -> Sequence[str]:
        return ()

    def gpu_config(self, labels: Mapping[str, str]) -> GpuConfig | None:
        kind = labels.get(capi.GPU_LABEL)
        return None if kind is None else GpuConfig(label=capi.GPU_LABEL, type=kind, resource="nvidia.com/gpu")

    async def cleanup(self) -> None:
        await self._cluster.close()


def _group_id(kind: str, resource: capi.Object) -> str:
    about = capi.metadata(resource)
    return f"{kind}/{about.get('namespace', '')}/{about['name']}"


def _mark(machine: capi.Object, key: str) -> tuple[int, int] | None:
    """The sizes from and to which an order with this key goes, of a Machine that it has marked."""
    marked, _, sizes = capi.notes_of(machine).get(DECISION, "").partition(" ")
    before, _, after = sizes.partition(" ")
    return (int(before), int(after)) if marked == key and before.isdecimal() and after.isdecimal() else None


def provider(config: str, calls: Calls, around: Surroundings) -> ClusterApiProvider:
    """The resources that a file or `namespace=...` selects; without either, all of the cluster that the process works for.

    Raises:
        ValueError: it is none of these.
    """
    said = config_of(config)
    cluster = Cluster(
        calls,
        kubeconfig=Path(said.kubeconfig) if said.kubeconfig else around.kubeconfig,
        context=(said.context or None) if said.kubeconfig else around.context,
        in_cluster=around.in_cluster and not said.kubeconfig,
    )
    return ClusterApiProvider(said, cluster)
