"""What the control plane cleans up: dependents of deleted owners, contents of namespaces and definitions, old events.

The collector follows every write, notes what has to be looked at, and works it off in one task beside the
requests, with ordinary deletions, so that watchers see what they would see from the real controllers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tidewright.sim.api.admission import quota
from tidewright.sim.api.errors import NoSpace
from tidewright.sim.api.http.request import Request
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record, Table
from tidewright.sim.api.verbs.deletion import CRD_CLEANUP, FOREGROUND, ORPHAN, DeleteOptions

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_EVENTS = "/events"
_LAST_IN_NAMESPACE = (_EVENTS,)
EVENT_TTL_S = 3600.0
"""Log seconds that an object event stays after it was written last, as a real API server's `--event-ttl` has it."""
EXPIRY_S = 1.0
"""Wall seconds between two looks for events that have expired."""
NO_SPACE_S = 0.5
"""Wall seconds until what the disk had no room for is tried again."""


class Collector:
    """Works off what deletions leave behind."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._due: dict[
            tuple[str, str, str], None
        ] = {}  # (what, table or uid, key), in order, without repeats
        self._wake = asyncio.Event()
        self._held_namespaces: set[str] = set()
        self._events: deque[tuple[float, str, int]] = deque()  # when it expires, key, version

    def follow(self, kind: Kind, record: Record, previous: Record | None, obj: Object) -> None:
        """Note what a write makes necessary."""
        meta = obj["metadata"]
        gone = self._api.store.table(kind.table_name).objects.get(record.key) is None
        if kind.table_name == _EVENTS and not gone:
            self._events.append((self._api.stamps.now_s() + EVENT_TTL_S, record.key, record.rv))
        if self._api.store.table(quota.TABLE).keys and (
            gone or previous is None or kind.table_name == quota.TABLE
        ):
            self._note("quotas", "", record.namespace)
        if gone:
            if record.uid in self._api.store.dependents:
                self._note("orphans", record.uid, "")
            for owner in meta.get("ownerReferences") or ():
                self._note_owner(owner, record.namespace)
            if record.namespace in self._held_namespaces:
                self._note("namespace", "", record.namespace)
            if kind.custom:
                self._note_definition(kind)
            return
        if "deletionTimestamp" in meta:
            finalizers = meta.get("finalizers") or ()
            if kind.table_name == "/namespaces":
                self._note("namespace", "", record.name)
            if kind.table_name == _DEFINITIONS and CRD_CLEANUP in finalizers:
                self._note("definition", "", record.name)
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                self._note("owner", kind.table_name, record.key)
        if record.owners and (previous is None or previous.owners != record.owners):
            self._note("dependent", kind.table_name, record.key)

    def _note(self, what: str, table: str, key: str) -> None:
        self._due[what, table, key] = None
        self._wake.set()

    def _note_owner(self, reference: Object, namespace: str) -> None:
        """A dependent went: its owner may have waited for it."""
        kind = self._kind_of(reference)
        if kind is not None:
            key = f"{namespace if kind.namespaced else ''}/{reference['name']}"
            self._note("owner", kind.table_name, key)

    def _note_definition(self, kind: Kind) -> None:
        record = self._api.store.table(_DEFINITIONS).get("", kind.name)
        if record is not None and CRD_CLEANUP.encode() in record.raw:
            self._note("definition", "", kind.name)

    def resume(self) -> None:
        """Look again at what a restart may have interrupted."""
        for kind in self._api.registry:
            for record in self._api.store.table(kind.table_name).scan():
                if b'"deletionTimestamp"' in record.raw or record.owners or kind.table_name == _EVENTS:
                    self.follow(kind, record, None, record.decode())

    async def run(self) -> None:
        """Work off what is due, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                what, table, key = next(iter(self._due))
                del self._due[what, table, key]
                try:
                    await self._work(what, table, key)
                except NoSpace:
                    self._note(what, table, key)
                    await asyncio.sleep(NO_SPACE_S)
                await asyncio.sleep(0)  # requests come in between

    async def expire(self) -> None:
        """Take away object events that nobody wrote for long, until cancelled."""
        api = self._api
        kind, table = api.registry.named("events"), api.store.table(_EVENTS)
        while kind is not None:
            await asyncio.sleep(EXPIRY_S)
            while self._events and self._events[0][0] <= api.stamps.now_s():
                _, key, rv = self._events[0]
                record = table.objects.get(key)
                if record is not None and record.rv == rv:
                    try:
                        api.deletion.remove(kind, table, record, record.decode())
                    except NoSpace:
                        break  # at the next look
                self._events.popleft()
                await asyncio.sleep(0)  # requests come in between

    async def _work(self, what: str, table: str, key: str) -> None:
        match what:
            case "orphans":
                for name, dependent in sorted(self._api.store.dependents.get(table, ())):
                    self._note("dependent", name, dependent)
            case "dependent":
                await self._collect(table, key)
            case "owner":
                await self._settle_owner(table, key)
            case "quotas":
                for record in list(self._api.store.table(quota.TABLE).scan(key)):
                    quota.write_status(self._api, record)
            case "namespace":
                await self._empty_namespace(key)
            case _:
                await self._empty_definition(key)

    def _kind_of(self, reference: Object) -> Kind | None:
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        return self._api.registry.of_kind(group, str(reference.get("kind", "")))

    def _kind_of_table(self, name: str) -> Kind | None:
        return next((kind for kind in self._api.registry if kind.table_name == name and not kind.table), None)

    def _owner(self, reference: Object, namespace: str) -> Record | None:
        kind = self._kind_of(reference)
        if kind is None:
            return None
        record = self._api.store.table(kind.table_name).get(
            namespace if kind.namespaced else "", str(reference.get("name", ""))
        )
        return record if record is not None and record.uid == reference.get("uid") else None

    async def _collect(self, table_name: str, key: str) -> None:
        """Delete an object all of whose owners are gone; drop the gone ones from the others."""
        kind = self._kind_of_table(table_name)
        record = self._api.store.table(table_name).objects.get(key)
        if kind is None or record is None:
            return
        obj = record.decode()
        references = obj["metadata"].get("ownerReferences") or []
        unknown = [reference for reference in references if self._kind_of(reference) is None]
        alive = [r for r in references if self._owner(r, record.namespace) is not None]
        if unknown or not references:
            return
        if alive:
            if len(alive) < len(references):
                obj["metadata"]["ownerReferences"] = alive
                self._put(kind, record, obj)
            return
        if "deletionTimestamp" in obj["metadata"]:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        policy = (
            "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        )
        await self._delete(kind, record, policy)

    async def _settle_owner(self, table_name: str, key: str) -> None:
        """Go on with an owner that is deleted in the foreground, or whose dependents are orphaned."""
        kind = self._kind_of_table(table_name)
        record = self._api.store.table(table_name).objects.get(key)
        if kind is None or record is None:
            return
        obj = record.decode()
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or []
        if "deletionTimestamp" not in meta:
            return
        if ORPHAN in finalizers:
            for dependent_kind, dependent in self._dependents(record.uid):
                loose = dependent.decode()
                loose["metadata"]["ownerReferences"] = [
                    r for r in loose["metadata"].get("ownerReferences") or () if r["uid"] != record.uid
                ]
                if not loose["metadata"]["ownerReferences"]:
                    del loose["metadata"]["ownerReferences"]
                self._put(dependent_kind, dependent, loose)
            self._drop_finalizer(kind, table_name, key, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = False
            for dependent_kind, dependent in self._dependents(record.uid):
                dependent_meta = dependent.decode()["metadata"]
                blocking = blocking or any(
                    r.get("blockOwnerDeletion")
                    for r in dependent_meta["ownerReferences"]
                    if r["uid"] == record.uid
                )
                if "deletionTimestamp" not in dependent_meta:
                    await self._delete(dependent_kind, dependent, "Foreground")
            if not blocking or not self._api.store.dependents.get(record.uid):
                self._drop_finalizer(kind, table_name, key, FOREGROUND)

    def _dependents(self, uid: str) -> list[tuple[Kind, Record]]:
        dependents = []
        for table_name, key in sorted(self._api.store.dependents.get(uid, ())):
            kind = self._kind_of_table(table_name)
            record = self._api.store.table(table_name).objects.get(key)
            if kind is not None and record is not None:
                dependents.append((kind, record))
        return dependents

    async def _empty_namespace(self, name: str) -> None:
        """Delete what is in a terminating namespace; let it go when nothing is left."""
        api = self._api
        table = api.store.table("/namespaces")
        record = table.get("", name)
        if record is None or "deletionTimestamp" not in record.decode()["metadata"]:
            self._held_namespaces.discard(name)
            return
        self._held_namespaces.add(name)
        kinds = [k for k in api.registry if k.namespaced and not k.table and "list" in k.verbs]
        kinds.sort(key=lambda kind: kind.table_name in _LAST_IN_NAMESPACE)
        remaining = 0
        for kind in kinds:
            for item in list(api.store.table(kind.table_name).scan(name)):
                if "deletionTimestamp" not in item.decode()["metadata"]:
                    await self._delete(kind, item, "Background")
            remaining += api.store.table(kind.table_name).count(name)
        if remaining:
            return  # the last one to go calls again
        current = table.get("", name)
        kind_of_namespaces = api.registry.named("namespaces")
        if current is None or kind_of_namespaces is None:
            return
        self._held_namespaces.discard(name)
        obj = current.decode()
        obj["spec"] = {}
        if obj["metadata"].get("finalizers"):
            self._put(kind_of_namespaces, current, obj)
        else:
            api.deletion.remove(kind_of_namespaces, table, current, obj)

    async def _empty_definition(self, name: str) -> None:
        """Delete the objects of a terminating definition; let it go when none is left."""
        api = self._api
        kind = api.registry.named(name)
        if kind is not None and kind.custom:
            table = api.store.table(kind.table_name)
            for record in list(table.scan()):
                if "deletionTimestamp" not in record.decode()["metadata"]:
                    await self._delete(kind, record, "Background")
            if table.count():
                return
        definitions = api.registry.named("customresourcedefinitions.apiextensions.k8s.io")
        if definitions is not None:
            self._drop_finalizer(definitions, _DEFINITIONS, f"/{name}", CRD_CLEANUP)

    def _drop_finalizer(self, kind: Kind, table_name: str, key: str, finalizer: str) -> None:
        table = self._api.store.table(table_name)
        record = table.objects.get(key)
        if record is None:
            return
        obj = record.decode()
        meta = obj["metadata"]
        remaining = [name for name in meta.get("finalizers") or () if name != finalizer]
        if remaining:
            meta["finalizers"] = remaining
        else:
            meta.pop("finalizers", None)
        grace_s = meta.get("deletionGracePeriodSeconds") or 0
        if remaining or grace_s or self._api.strategies.has_own_finalizers(kind, obj):
            self._put(kind, record, obj)
        else:
            self._api.deletion.remove(kind, table, record, obj)

    def _put(self, kind: Kind, record: Record, obj: Object) -> None:
        table: Table = self._api.store.table(kind.table_name)
        stored = self._api.store.put(table, obj)
        self._api.committed(kind, stored, record, obj)

    async def _delete(self, kind: Kind, record: Record, policy: str) -> None:
        from tidewright.sim.api.errors import ApiError

        request = Request(
            "DELETE", "", {}, {"User-Agent": "sim-collector"}, b"", "delete", kind, kind.storage_version,
            record.namespace, record.name, "",
        )  # fmt: skip
        try:
            await self._api.deletion.delete(
                request, record.namespace, record.name, DeleteOptions(propagation_policy=policy)
            )
        except ApiError as error:
            if error.code not in {404, 409}:
                self._note("dependent", kind.table_name, record.key) if error.code >= 500 else None
