"""The provider interface over Cluster API's objects.

What all groups are like comes from informers: a refresh costs one call, whatever there is. A single group is read
afresh for an order: the resource, and its Machines only where the order is about them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from tidewright.cloud.calls import Calls
from tidewright.cloud.clusterapi import marks
from tidewright.cloud.clusterapi.config import PREFIX as DISCOVERY
from tidewright.cloud.clusterapi.config import ClusterApiConfig, Selector, config_of, selector_of
from tidewright.cloud.clusterapi.followed import Followed
from tidewright.cloud.clusterapi.objects import (
    DEPLOYMENT,
    LABEL_OF,
    MACHINE,
    POOL,
    SCALABLE,
    SET,
    Machine,
    Metadata,
    Scalable,
    bounds,
)
from tidewright.cloud.clusterapi.places import Places
from tidewright.cloud.clusterapi.template import PREFIX, ignored, options_of, template_of
from tidewright.cloud.errors import CloudError, Conflict, Invalid, NotFound, NotImplementedByCloud
from tidewright.cloud.kubernetes import MERGE_PATCH, Cluster
from tidewright.cloud.optional import MadeElsewhere, WithoutOptionalCalls
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    InstanceState,
    NodeTemplate,
    Promise,
)
from tidewright.cloud.providers import Surroundings

GPU_LABEL: Final = "cluster-api/accelerator"
TRIES: Final = 5
"""Writes of a size that a removal attempts, where the resource changes beside it but not in its size."""
KEYS_KEPT: Final = 8
"""Removals that a MachinePool remembers."""
LABEL_ROOM: Final = 63

_log = structlog.get_logger(__name__)


class ClusterApiGroup(MadeElsewhere):
    """One scalable resource as it was read, with its Machines."""

    CLOUD = "Cluster API"
    NOT_MADE = "groups of Cluster API are made as its objects"
    NOT_REMOVED = "groups of Cluster API go with its objects"

    def __init__(
        self,
        provider: ClusterApiProvider,
        kind: str,
        resource: Scalable,
        machines: Sequence[Machine] | None,
        infrastructure: Mapping[str, Any] | None = None,
    ) -> None:
        """`machines`: None reads them when they are needed."""
        self._provider = provider
        self._kind = kind
        self._resource = resource
        self._machines = machines
        self._infrastructure = infrastructure
        self._made: tuple[NodeTemplate | None] | None = None
        """The template, once it was asked for."""
        self._problem: Invalid | None = None
        try:
            self._bounds = bounds(resource.metadata.notes, provider.config.group)
        except Invalid as error:
            self._bounds = (0, 0)
            self._problem = Invalid(f"{self.id}: {error.message}", code=error.code)

    @property
    def id(self) -> str:
        return id_of(self._kind, self._resource)

    @property
    def debug(self) -> str:
        problem = f", {self._problem.message}" if self._problem else ""
        return f"{self.id} ({self.min_size}..{self.max_size}{problem})"

    @property
    def min_size(self) -> int:
        return self._bounds[0]

    @property
    def max_size(self) -> int:
        return self._bounds[1]

    @property
    def price_per_hour(self) -> float | None:
        return None

    @property
    def machine_type(self) -> str:
        return self._label("node.kubernetes.io/instance-type")

    @property
    def zone(self) -> str:
        return (
            self._label("topology.kubernetes.io/zone")
            or self._resource.spec.template.spec.failureDomain
            or ""
        )

    def _label(self, name: str) -> str:
        try:
            template = self._template()
        except Invalid:
            return ""
        return template.labels.get(name, "") if template is not None else ""

    @property
    def is_wanted(self) -> bool:
        """Whether it may have machines at all, and can grow from none."""
        if self._problem is not None:
            return True  # so that it is said
        if not self.max_size:
            return False
        try:
            return bool(self._resource.size) or self._template() is not None
        except Invalid:
            return True  # as above

    @property
    def initial(self) -> int:
        return 0

    @property
    def ignored(self) -> tuple[str, ...]:
        return ignored(self._resource, self._provider.config.group)

    async def target_size(self) -> int:
        if self._problem is not None:
            raise self._problem
        return self._resource.size

    async def begun(self, key: str) -> int:
        del key
        return 0

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key  # the size is the key
        size = await self.target_size()
        if delta <= 0:
            raise Invalid(f"{self.id}: increase by {delta}; the delta must be > 0")
        self._expect(expect)
        if size + delta > self.max_size:
            raise Invalid(f"{self.id}: size {size} + {delta} is above the maximum {self.max_size}")
        await self._set(size + delta)

    def _expect(self, size: int | None) -> None:
        if size is not None and self._resource.size != size:
            raise Conflict(f"{self.id}: target size is {self._resource.size}, not {size}")

    async def _set(self, size: int) -> None:
        self._resource = await self._provider.scale(self._kind, self._resource, size)

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        """Mark the Machines and lower the size. A repeat finishes what was begun; what cannot be finished is undone."""
        size = await self.target_size()
        machines = await self._all()
        ids = list(dict.fromkeys(instance_ids))
        if self._kind == POOL and not machines:
            await self._leave_pool(ids, key)
            return
        of_id = {machine.id: machine for machine in machines}
        for instance_id in ids:
            if instance_id not in of_id:
                owner = self._provider.owner(instance_id) or "no group that is known"
                raise Invalid(f"{self.id}: instance {instance_id} is of {owner}")
        chosen = [of_id[instance_id] for instance_id in ids if not of_id[instance_id].is_leaving]
        begun = {
            machine.id: mark for machine in chosen if (mark := marks.mark_of(machine)) and mark.key == key
        }
        going = [it for it in chosen if it.id not in begun or not begun[it.id].is_done(self._resource)]
        if not going:
            return
        if any(it.id in begun and not begun[it.id].is_half(self._resource) for it in going):
            # Somebody else set the size since: nobody can say whether ours was there before.
            await self._undo(it for it in going if it.id in begun)
            raise Conflict(f"{self.id}: its size was set to {size} by somebody else during the removal {key}")
        if size - len(going) < self.min_size:
            raise Invalid(f"{self.id}: size {size} - {len(going)} is below the minimum {self.min_size}")
        await self._clear(machines, key)
        await self._remove(going, marks.Mark(key, self._resource.metadata.generation, size - len(going)))

    async def _remove(self, going: Sequence[Machine], mark: marks.Mark) -> None:
        try:
            for machine in going:
                if marks.mark_of(machine) != mark:
                    await self._provider.annotate(
                        machine, marks.marking(mark, self._provider.config.group, time.time())
                    )
            await self._lower(mark)
        except CloudError as error:
            if not error.retriable:  # a repeat finishes the others
                await self._undo(going)
            raise

    async def _lower(self, mark: marks.Mark) -> None:
        """Set the size that belongs to a mark, while nobody else sets any."""
        for _ in range(TRIES):
            try:
                await self._set(mark.size)
            except Conflict:
                self._resource = await self._provider.read(self._kind, self._resource.metadata)
                if not mark.is_half(self._resource):
                    raise
            else:
                return
        raise Conflict(f"{self.id}: it changes all the time")

    async def _clear(self, machines: Sequence[Machine], key: str = "") -> None:
        """See to it that a smaller size deletes no Machine that it is not for.

        Raises:
            CloudError: `Conflict` where somebody else marked one; or a mark that stayed behind could not be taken off.
        """
        prefix = self._provider.config.group
        for machine in machines:
            if not machine.is_leaving and marks.is_of_another(machine, prefix):
                raise Conflict(
                    f"{self.id}: Machine {machine.metadata.name} has the annotation {marks.delete_machine(prefix)}, which"
                    " is not ours: a smaller size would delete it. Delete it, or take the annotation off"
                )
        for machine in machines:
            mark = marks.mark_of(machine)
            stays = mark is not None and mark.key != key and not mark.is_done(self._resource)
            if stays and not machine.is_leaving:
                await self._provider.annotate(machine, marks.unmarking(prefix))

    async def _undo(self, machines: Iterable[Machine]) -> None:
        """Take our marks off; where that fails, the next removal in the group does it."""
        for machine in machines:
            with suppress(CloudError):
                await self._provider.annotate(machine, marks.unmarking(self._provider.config.group))

    async def _leave_pool(self, ids: Sequence[str], key: str) -> None:
        """A smaller MachinePool without Machines: its infrastructure chooses who goes."""
        notes = self._resource.metadata.notes
        keys = notes.get(marks.DECISION, "").split()
        if key in keys:
            return
        for instance_id in ids:
            if instance_id not in (self._resource.spec.providerIDList or ()):
                owner = self._provider.owner(instance_id) or "no group that is known"
                raise Invalid(f"{self.id}: instance {instance_id} is of {owner}")
        size = self._resource.size - len(ids)
        if size < self.min_size:
            raise Invalid(
                f"{self.id}: size {self._resource.size} - {len(ids)} is below the minimum {self.min_size}"
            )
        kept = " ".join([*keys, key][-KEYS_KEPT:])
        self._resource = await self._provider.resize_pool(self._resource, size, kept)

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key  # the size is the key
        size = await self.target_size()
        if delta >= 0:
            raise Invalid(f"{self.id}: decrease by {delta}; the delta must be < 0")
        self._expect(expect)
        machines = await self._all()
        there = len(self._resource.spec.providerIDList or ()) if self._kind == POOL and not machines else 0
        for machine in machines:
            mark = marks.mark_of(machine)
            there += machine.is_there and not (mark is not None and mark.is_done(self._resource))
        if size + delta < there:
            raise Invalid(
                f"{self.id}: decrease by {-delta}, but only {max(0, size - there)} orders are unfulfilled;"
                " existing nodes are deleted by id"
            )
        await self._clear(machines)
        await self._set(size + delta)

    async def _all(self) -> Sequence[Machine]:
        if self._machines is None:
            self._machines = await self._provider.machines(self._kind, self._resource)
        return self._machines

    @property
    def instance_ids(self) -> Sequence[str]:
        """Of all its machines, as they were read."""
        return [it.id for it in self._machines or ()] or self._resource.spec.providerIDList or ()

    async def nodes(self) -> Sequence[Instance]:
        machines = await self._all()
        if self._kind == POOL and not machines:
            ids = self._resource.spec.providerIDList or ()
            return [Instance(id=instance_id, state=InstanceState.RUNNING) for instance_id in ids]
        return [machine.instance() for machine in machines]

    def _template(self) -> NodeTemplate | None:
        if self._made is None:
            self._made = (
                template_of(self._resource, self._infrastructure, self._provider.config.architecture),
            )
        return self._made[0]

    async def template(self) -> NodeTemplate:
        template = self._template()
        if template is None:
            raise NotImplementedByCloud(
                f"{self.id}: nothing says the cpu and memory of its nodes: set the annotations {PREFIX}cpu and"
                f" {PREFIX}memory, or status.capacity of its infrastructure template"
            )
        return template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        return options_of(self._resource, self._provider.config.group, defaults)


class ClusterApiProvider(WithoutOptionalCalls):
    """Groups of one management cluster. Call `refresh` before reading groups."""

    NO_PRICES = "Cluster API has no prices"
    NO_MACHINE_TYPES = "Cluster API has no machine types"
    NO_NEW_GROUPS = ClusterApiGroup.NOT_MADE

    name = "clusterapi"
    promise = Promise.ABSOLUTE

    def __init__(self, config: ClusterApiConfig, cluster: Cluster) -> None:
        self.config = config
        self._cluster = cluster
        self._places = Places(cluster, config.group, config.version)
        self._followed = Followed(cluster, self._places, config.namespaces)
        self._groups: dict[str, ClusterApiGroup] = {}
        self._is_current = False
        """Whether the groups are made of all that was taken in."""
        self._owners: dict[str, str] | None = {}
        """Machine to its group, as of the last refresh; None until somebody asks."""
        self._said: frozenset[str] = frozenset()

    # --- Looking ----------------------------------------------------------------------------------

    async def refresh(self) -> None:
        await self._places.read()
        await self._followed.follow()
        await self._followed.follow_templates(resource for _, resource in self._ours())
        # Nothing is awaited from here on: what is heard later is of the next refresh.
        if self._followed.take_in():
            self._is_current = False
        if self._is_current:
            return  # groups and machines are as they were
        resources = self._ours()
        groups: dict[str, ClusterApiGroup] = {}
        for kind, resource in resources:
            group_id = id_of(kind, resource)
            machines = self._followed.machines_of(group_id)
            infrastructure = self._followed.infrastructure_of(resource)
            group = ClusterApiGroup(self, kind, resource, machines, infrastructure)
            if group.is_wanted:
                groups[group_id] = group
        self._tell_unusable(resources, groups)
        self._groups, self._owners, self._is_current = groups, None, True

    def _ours(self) -> list[tuple[str, Scalable]]:
        """Kind and resource of all that are selected."""
        return [
            (kind, resource) for kind, resource in self._followed.resources if self._is_ours(kind, resource)
        ]

    def _is_ours(self, kind: str, resource: Scalable) -> bool:
        metadata = resource.metadata
        return (
            metadata.deletionTimestamp is None
            and f"{self.config.group}/paused" not in metadata.notes
            and not (kind == SET and metadata.owner[0] == DEPLOYMENT)
            and self.config.takes(metadata.namespace, resource.spec.clusterName, metadata.labels or {})
        )

    def _tell_unusable(
        self, resources: Sequence[tuple[str, Scalable]], groups: Mapping[str, ClusterApiGroup]
    ) -> None:
        """Say once of each resource with limits why it is no group."""
        annotation = f"{self.config.group}/cluster-api-autoscaler-node-group-max-size"
        unusable = frozenset(
            group_id
            for kind, resource in resources
            if resource.metadata.notes.get(annotation, "0") != "0"
            and (group_id := id_of(kind, resource)) not in groups
        )
        for group_id in sorted(unusable - self._said):
            _log.info(
                "no node group: it has no machines, and nothing says what they would be like",
                id=group_id, do=f"annotate it with {PREFIX}cpu and {PREFIX}memory",
            )  # fmt: skip
        self._said = unusable

    def node_groups(self) -> Sequence[ClusterApiGroup]:
        return [group for _, group in sorted(self._groups.items())]

    async def group(self, group_id: str) -> ClusterApiGroup:
        kind, _, rest = group_id.partition("/")
        namespace, _, name = rest.partition("/")
        known = ", ".join(sorted(self._groups)) or "ids are KIND/NAMESPACE/NAME"
        none = NotFound(f"no node group {group_id!r}; there are: {known}")
        if kind not in SCALABLE or not namespace or not name:
            raise none
        place = await self._places.resource(kind)
        try:
            resource = msgspec.convert(await self._cluster.ask("GET", place.item(namespace, name)), Scalable)
        except NotFound as error:
            raise none from error
        if not self._is_ours(kind, resource):
            raise Conflict(f"{group_id} is paused, is being deleted, or is not among those that are selected")
        # Its machine template as it is known: orders go by sizes, and templates are for who looks at all groups.
        return ClusterApiGroup(self, kind, resource, None, self._followed.infrastructure_of(resource))

    def owner(self, provider_id: str) -> str:
        """The group of a machine as of the last refresh; empty where it has none."""
        if self._owners is None:
            self._owners = {
                instance_id: group_id
                for group_id, group in self._groups.items()
                for instance_id in group.instance_ids
            }
        return self._owners.get(provider_id, "")

    async def node_group_for_node(
        self, provider_id: str, labels: Mapping[str, str]
    ) -> ClusterApiGroup | None:
        del labels
        return self._groups.get(self.owner(provider_id))

    # --- What orders come to ----------------------------------------------------------------------

    async def read(self, kind: str, metadata: Metadata) -> Scalable:
        """A resource as it is now.

        Raises:
            CloudError: it cannot be read.
        """
        place = await self._places.resource(kind)
        return msgspec.convert(
            await self._cluster.ask("GET", place.item(metadata.namespace, metadata.name)), Scalable
        )

    async def machines(self, kind: str, resource: Scalable) -> list[Machine]:
        """The Machines of a resource as they are now, in one list by its label.

        Raises:
            CloudError: they cannot be read.
        """
        metadata = resource.metadata
        place = await self._places.resource(MACHINE)
        label = f"{self.config.group}/{LABEL_OF[kind]}={metadata.name}"
        if len(metadata.name) > LABEL_ROOM:  # Cluster API writes a digest then
            label = f"{self.config.group}/cluster-name={resource.spec.clusterName}"
        listed = await self._cluster.items(place.collection(metadata.namespace), label=label)
        found = [msgspec.convert(it, Machine) for it in listed]
        return [it for it in found if kind == DEPLOYMENT or it.metadata.owner == (kind, metadata.name)]

    async def scale(self, kind: str, resource: Scalable, size: int) -> Scalable:
        """Set the size of a resource, if it is still as it was read.

        Raises:
            CloudError: `Conflict` where it has changed.
        """
        metadata = resource.metadata
        place = await self._places.resource(kind)
        body = {"metadata": {"resourceVersion": metadata.resourceVersion}, "spec": {"replicas": size}}
        answer = await self._cluster.ask(
            "PATCH", place.item(metadata.namespace, metadata.name, "scale"), body, content_type=MERGE_PATCH
        )
        version = str(answer["metadata"]["resourceVersion"])
        return msgspec.structs.replace(
            resource,
            metadata=msgspec.structs.replace(
                metadata, resourceVersion=version, generation=metadata.generation + 1
            ),
            spec=msgspec.structs.replace(resource.spec, replicas=size),
        )

    async def resize_pool(self, resource: Scalable, size: int, keys: str) -> Scalable:
        """Set the size of a MachinePool together with the removals that it remembers, if it is still as it was read.

        Raises:
            CloudError: `Conflict` where it has changed.
        """
        metadata = resource.metadata
        place = await self._places.resource(POOL)
        body = {
            "metadata": {
                "resourceVersion": metadata.resourceVersion,
                "annotations": {marks.DECISION: keys},
            },
            "spec": {"replicas": size},
        }
        answer = await self._cluster.ask(
            "PATCH", place.item(metadata.namespace, metadata.name), body, content_type=MERGE_PATCH
        )
        return msgspec.convert(answer, Scalable)

    async def annotate(self, machine: Machine, patch: Mapping[str, Any]) -> None:
        """Write annotations of a Machine, if it is still that one.

        Raises:
            CloudError: they were not written.
        """
        metadata = machine.metadata
        place = await self._places.resource(MACHINE)
        body = {"metadata": {"uid": metadata.uid, **patch["metadata"]}}
        await self._cluster.ask(
            "PATCH", place.item(metadata.namespace, metadata.name), body, content_type=MERGE_PATCH
        )

    # --- What Cluster API has not -----------------------------------------------------------------

    def gpu_label(self) -> str:
        return GPU_LABEL

    async def gpu_types(self) -> Sequence[str]:
        return ()

    async def cleanup(self) -> None:
        """Stop following, and close the connection."""
        await self._followed.stop()
        await self._cluster.close()


def id_of(kind: str, resource: Scalable) -> str:
    """The id of a group."""
    return f"{kind}/{resource.metadata.namespace}/{resource.metadata.name}"


def provider(config: str, calls: Calls, around: Surroundings) -> ClusterApiProvider:
    """Groups of the management cluster that CONFIG names, or of the cluster that the process works for.

    Raises:
        ValueError: CONFIG cannot be used.
    """
    said = config_of(config or around.config, os.environ)
    own = tuple(selector_of(text) for text in around.discovery if text.startswith(DISCOVERY))
    said = msgspec.structs.replace(said, selectors=() if Selector() in own else (*said.selectors, *own))
    cluster = Cluster(
        calls,
        kubeconfig=Path(said.kubeconfig).expanduser() if said.kubeconfig else around.kubeconfig,
        context=(said.context or None) if said.kubeconfig else around.context,
        in_cluster=around.in_cluster and not said.kubeconfig,
    )
    return ClusterApiProvider(said, cluster)
