"""What the admission endpoint knows besides the ledgers: owners of pods, templates, configuration, the log's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tidewright.events import registry
from tidewright.events.acting import Acting
from tidewright.events.base import JsonObject
from tidewright.events.config import ClockSet, ConfigSet, ModesSet
from tidewright.events.facts import Owner, PodObserved, TemplateObserved, WorkloadGone, WorkloadObserved
from tidewright.events.spread import KindRefused
from tidewright.kube.customworkloads import BadWhitelist, Whitelist, group_version
from tidewright.kube.kinds import TEMPLATE
from tidewright.kube.workloadspreads.spec import TargetRef
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.subjects import Subjects
from tidewright.spread.control.versions import versions_by
from tidewright.spread.fold.evolve import evolve
from tidewright.spread.match.matching import Forbidden, NotFound
from tidewright.spread.state import State

OWNER_KINDS = ("replicaset", "deployment", "statefulset", "job", "cloneset", "workload", "customworkload")
REFUSED = "kindrefused"


def filters(names: Subjects) -> list[str]:
    """What of the log is to be taken: of each subject the last word is enough."""
    return [names.configs, *(names.facts("*", kind) for kind in (*OWNER_KINDS, REFUSED))]


class Observed:
    """What was observed of a cluster, as far as an admission depends on it."""

    def __init__(self, log: Log, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.acting = Acting()
        self.other_modes = asyncio.Event()
        """Set when the modes have changed; whoever has looked clears it."""
        self._log = log
        self._settings = State()
        self._owners: dict[tuple[str, str, str, str], JsonObject] = {}
        self._unreadable: dict[tuple[str, str], str] = {}
        self._templates: dict[tuple[str, str, str, str], str] = {}

    def take(self, body: bytes) -> None:
        """Fold one message of those that `filters` finds.

        Raises:
            NotAnEvent: it cannot be read.
            BadApiVersion: of an owner.
        """
        match event := registry.decode(body):
            case WorkloadObserved() | WorkloadGone():
                self._owner(event)
            case KindRefused():
                self._unreadable[event.group, event.kind] = event.error
            case ClockSet():
                self.clock.set(event)
            case ConfigSet():
                evolve(self._settings, event)
            case ModesSet():
                if self.acting.heard(event):
                    self.other_modes.set()

    def _owner(self, event: WorkloadObserved | WorkloadGone) -> None:
        key = (event.namespace, group_version(event.api_version)[0], event.kind, event.name)
        if isinstance(event, WorkloadGone):
            self._owners.pop(key, None)
            self._templates.pop(key, None)
            return
        if event.template:
            self._templates[key] = event.template
        else:
            self._templates.pop(key, None)
        self._owners[key] = {"metadata": {"name": event.name, "ownerReferences": _references(event.owners)}}

    @property
    def whitelist(self) -> Whitelist:
        """The custom workloads; the last ones that could be read."""
        return self._settings.whitelist

    @property
    def stated_whitelist(self) -> Whitelist | BadWhitelist:
        """The custom workloads as they stand in the ConfigMap now, or why they cannot be read (V5)."""
        fault = self._settings.whitelist_fault
        return BadWhitelist(fault) if fault else self._settings.whitelist

    @property
    def versioned_kinds(self) -> frozenset[str]:
        return versions_by(self._settings.settings).kinds

    def reader(self, namespace: str) -> Callable[[str, str, str], JsonObject]:
        """Owners of a namespace, as `matching` reads them."""

        def read(api_version: str, kind: str, name: str) -> JsonObject:
            owner = self._owners.get((namespace, group_version(api_version)[0], kind, name))
            if owner is None and (refusal := self._unreadable.get((group_version(api_version)[0], kind))):
                raise Forbidden(f"{kind} {namespace}/{name}: {refusal}")
            if owner is None:
                raise NotFound(f"{kind} {namespace}/{name} has not been seen")
            return owner

        return read

    async def pod(self, namespace: str, name: str) -> JsonObject | None:
        """A pod as it was seen last, as far as its leaving takes it; None when it was not, or is gone.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        record = await self._log.last(
            self._log.subjects.fact(self._log.slot_of(namespace), "pod", namespace, name)
        )
        fact = registry.read(record.body) if record is not None else None
        if not isinstance(fact, PodObserved):
            return None
        metadata: JsonObject = {
            "name": fact.name,
            "namespace": fact.namespace,
            "uid": fact.uid,
            "labels": fact.labels,
            "annotations": fact.annotations,
            "ownerReferences": _references(fact.owners),
        }
        if fact.deleting_at is not None:
            metadata["deletionTimestamp"] = fact.deleting_at
        return {"metadata": metadata, "status": {"phase": fact.phase}}

    async def template(self, namespace: str, target: TargetRef) -> TemplateObserved | None:
        """The form of a workload's pod template now; None when there is none, or it is not known.

        Raises:
            BadApiVersion: of the target.
            LogUnavailable: the log cannot be read.
        """
        key = (namespace, group_version(target.api_version)[0], target.kind, target.name)
        digest = self._templates.get(key)
        if digest is None:
            return None
        record = await self._log.last(
            self._log.subjects.fact(self._log.slot_of(namespace), TEMPLATE, namespace, digest)
        )
        fact = registry.read(record.body) if record is not None else None
        return fact if isinstance(fact, TemplateObserved) else None


def _references(owners: Iterable[Owner]) -> list[JsonObject]:
    """Owner references under the API's names."""
    return [
        {
            "apiVersion": o.api_version,
            "kind": o.kind,
            "name": o.name,
            "uid": o.uid,
            "controller": o.controller,
        }
        for o in owners
    ]
