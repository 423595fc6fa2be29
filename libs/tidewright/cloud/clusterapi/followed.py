"""What is followed of a management cluster: scalable resources, Machines by who owns them, and machine templates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import structlog

from tidewright.cloud.clusterapi.objects import (
    DEPLOYMENT,
    MACHINE,
    SCALABLE,
    SET,
    Machine,
    Metadata,
    Scalable,
)
from tidewright.cloud.clusterapi.places import Places
from tidewright.cloud.errors import Forbidden, NotFound
from tidewright.cloud.informer import Informer
from tidewright.cloud.kubernetes import Cluster
from tidewright.kube.discovery import FORGET_S

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

_log = structlog.get_logger(__name__)


class _Infrastructure(msgspec.Struct, frozen=True):
    """A machine template of an infrastructure provider."""

    metadata: Metadata
    status: dict[str, Any] = {}


_machine = msgspec.json.Decoder(Machine)
_scalable = msgspec.json.Decoder(Scalable)
_infrastructure = msgspec.json.Decoder(_Infrastructure)


class Followed:
    """Informers of all of it, and which Machines a resource has."""

    def __init__(self, cluster: Cluster, places: Places, namespaces: Sequence[str]) -> None:
        """`namespaces`: where resources are looked for; one that is empty means all."""
        self._cluster = cluster
        self._places = places
        self._namespaces = tuple(namespaces)
        self._others: dict[str, Places] = {}
        """Of infrastructure providers, by API group."""
        self._resources: dict[tuple[str, str], Informer[Scalable]] = {}
        self._machines: dict[str, Informer[Machine]] = {}
        self._templates: dict[tuple[str, str, str], Informer[_Infrastructure]] = {}
        self._absent: dict[tuple[str, str, str], float] = {}
        """Kinds of templates that are not served, and when to ask again (the loop's time)."""
        self._known: list[Informer[Any]] = []
        """Whose objects were taken in last."""
        self._sets: dict[Key, tuple[str, str]] = {}
        """MachineSet to its own owner."""
        self._owner: dict[Key, str] = {}
        self._owned: dict[str, dict[Key, Machine]] = {}

    @property
    def informers(self) -> list[Informer[Any]]:
        """All that are followed."""
        return [*self._resources.values(), *self._machines.values(), *self._templates.values()]

    @property
    def resources(self) -> Iterable[tuple[str, Scalable]]:
        """Kind and resource of all that there are."""
        for (kind, _), informer in self._resources.items():
            for resource in informer.objects.values():
                yield kind, resource

    def machines_of(self, group_id: str) -> Sequence[Machine]:
        """The Machines of a resource, by name, over MachineSets where a MachineDeployment has those."""
        return [machine for _, machine in sorted(self._owned.get(group_id, {}).items())]

    def take_in(self) -> bool:
        """Bring up to date who owns what; whether anything at all has changed since the last time."""
        informers = self.informers
        news = [informer.news() for informer in informers]
        anew = informers != self._known or None in news
        self._known = informers
        if not anew and not any(news):
            return False
        if self._sets_changed() or anew:
            self._owner.clear()
            self._owned.clear()
            for machines in self._machines.values():
                for key, machine in machines.objects.items():
                    self._put(key, machine)
            return True
        touched = dict(zip(informers, news, strict=True))
        for machines in self._machines.values():
            for key in touched[machines] or ():
                self._put(key, machines.objects.get(key))
        return True

    def _sets_changed(self) -> bool:
        """Whether a MachineSet came, went, or has another owner."""
        sets = {
            key: resource.metadata.owner
            for (kind, _), informer in self._resources.items()
            if kind == SET
            for key, resource in informer.objects.items()
        }
        changed, self._sets = sets != self._sets, sets
        return changed

    def _put(self, key: Key, machine: Machine | None) -> None:
        before = self._owner.pop(key, None)
        if before is not None:
            del self._owned[before][key]
        if machine is None:
            return
        kind, name = machine.metadata.owner
        namespace = key[0]
        if kind == SET and self._sets.get((namespace, name), ("", ""))[0] == DEPLOYMENT:
            kind, name = self._sets[namespace, name]
        if kind:
            owner = f"{kind}/{namespace}/{name}"
            self._owner[key] = owner
            self._owned.setdefault(owner, {})[key] = machine

    async def stop(self) -> None:
        """End following."""
        for informer in self.informers:
            await informer.stop()

    async def follow(self) -> None:
        """Follow what is served, and wait until all of it is there.

        Raises:
            CloudError: something cannot be followed at the moment.
        """
        for namespace in self._namespaces:
            for kind in SCALABLE:
                place = self._places.known(kind)
                known = self._resources.get((kind, namespace))
                if known is not None and (place is None or known.path != place.collection(namespace)):
                    await self._resources.pop((kind, namespace)).stop()
                    known = None
                if known is None and place is not None:
                    path = place.collection(namespace)
                    self._resources[kind, namespace] = Informer(self._cluster, path, _scalable.decode)
            path = (await self._places.resource(MACHINE)).collection(namespace)
            following = self._machines.get(namespace)
            if following is not None and following.path != path:
                await self._machines.pop(namespace).stop()
                following = None
            if following is None:
                self._machines[namespace] = Informer(self._cluster, path, _machine.decode)
        informers: list[Informer[Any]] = [*self._resources.values(), *self._machines.values()]
        async with self._cluster.calls.patience("the first lists"):
            await asyncio.gather(*(informer.settled() for informer in informers))
        for informer in informers:
            if informer.error is not None:
                raise informer.error

    async def follow_templates(self, resources: Iterable[Scalable]) -> None:
        """Follow the infrastructure templates that resources refer to; those that nobody may read are left out.

        Raises:
            CloudError: one cannot be followed at the moment.
        """
        wanted = {
            (api_group, kind, namespace if self._namespaces != ("",) else "")
            for api_group, kind, namespace in map(_template_key, resources)
            if kind
        }
        for key in [key for key in self._templates if key not in wanted]:
            await self._templates.pop(key).stop()
        now = asyncio.get_running_loop().time()
        for key in sorted(wanted):
            api_group, kind, namespace = key
            if key in self._templates or now < self._absent.get(key, 0.0):
                continue
            places = self._others.setdefault(api_group, Places(self._cluster, api_group))
            try:
                place = await places.resource(kind)
            except (NotFound, Forbidden) as error:
                self._absent[key] = now + FORGET_S
                _log.info("no machine templates", kind=kind, group=api_group, error=error.message)
                continue
            self._templates[key] = Informer(
                self._cluster, place.collection(namespace), _infrastructure.decode
            )
        async with self._cluster.calls.patience("the first lists of machine templates"):
            await asyncio.gather(*(informer.settled() for informer in self._templates.values()))
        for informer in self._templates.values():
            if informer.error is not None and not isinstance(informer.error, NotFound | Forbidden):
                raise informer.error

    def infrastructure_of(self, resource: Scalable) -> Mapping[str, Any] | None:
        api_group, kind, namespace = _template_key(resource)
        reference = resource.spec.template.spec.infrastructureRef
        for place in ("", namespace):
            informer = self._templates.get((api_group, kind, place))
            if informer is not None and reference is not None:
                found = informer.objects.get((namespace, reference.name))
                return {"status": found.status} if found is not None else None
        return None


def _template_key(resource: Scalable) -> tuple[str, str, str]:
    """API group, kind and namespace of a resource's machine template; empty where it refers to none."""
    reference = resource.spec.template.spec.infrastructureRef
    if reference is None or not reference.group or not reference.name:
        return "", "", ""
    return reference.group, reference.kind, reference.namespace or resource.metadata.namespace
