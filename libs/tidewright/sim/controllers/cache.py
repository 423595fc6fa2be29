"""Objects of some kinds as this process knows them, kept current by list and watch.

A store also takes in the answers of our own writes (`absorb`), so that a controller never acts
again on what it has just changed. An older watch event that comes later changes nothing: the
resourceVersion decides. What we deleted for good stays deleted (`forget`) until the watch says so.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import structlog

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import (
    Added,
    Deleted,
    ListDone,
    ListStarted,
    Modified,
    Page,
    list_watch_batches,
)
from tidewright.sim.controllers.objects import POD, ClientKind, Key, Object, Pod

_log = structlog.get_logger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - one letter, as type variables are
Listener: TypeAlias = Callable[[O | None, O | None], None]
"""Called with the object before and after; None for absent."""


class KindStore(Generic[O]):
    """All objects of one kind."""

    def __init__(self, kind: ClientKind[O]) -> None:
        self.kind = kind
        self.objects: dict[Key, O] = {}
        self.synced = asyncio.Event()
        self._decoder = msgspec.json.Decoder(kind.type)
        self._by_owner: dict[str, dict[Key, O]] = defaultdict(dict)
        self._by_namespace: dict[str, dict[Key, O]] = defaultdict(dict)
        self._gone: dict[str, None] = {}
        self._listeners: list[Listener[O]] = []
        self._listed: set[Key] | None = None

    def __len__(self) -> int:
        return len(self.objects)

    def get(self, key: Key) -> O | None:
        return self.objects.get(key)

    def owned(self, uid: str) -> list[O]:
        """The objects whose controller has this uid, by name."""
        return [item for _, item in sorted(self._by_owner.get(uid, {}).items())]

    def in_namespace(self, namespace: str) -> Iterable[O]:
        return self._by_namespace.get(namespace, {}).values()

    def listen(self, listener: Listener[O]) -> None:
        """Hear of each change from now on, and of everything that is there already."""
        self._listeners.append(listener)
        for item in list(self.objects.values()):
            listener(None, item)

    def absorb(self, raw: bytes | msgspec.Raw) -> O:
        """Take in an object as the server gave it; an older one than is known changes nothing."""
        item = self._decoder.decode(raw)
        key = item.metadata.key
        if self._listed is not None:
            self._listed.add(key)
        known = self.objects.get(key)
        if item.metadata.uid in self._gone:
            return item
        same = known is not None and known.metadata.uid == item.metadata.uid
        if known is not None and same and item.metadata.version <= known.metadata.version:
            return known
        self._put(key, known, item)
        return item

    def forget(self, key: Key, uid: str) -> None:
        """The object of this uid is deleted; a late watch event does not bring it back."""
        known = self.objects.get(key)
        self._gone[uid] = None
        if len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        if known is not None and known.metadata.uid == uid:
            self._put(key, known, None)

    def _delete(self, raw: bytes | msgspec.Raw) -> None:
        item = self._decoder.decode(raw)
        known = self.objects.get(item.metadata.key)
        self._gone.pop(item.metadata.uid, None)
        if known is not None and known.metadata.uid == item.metadata.uid:
            self._put(item.metadata.key, known, None)

    def _put(self, key: Key, old: O | None, new: O | None) -> None:
        if old is not None:
            owner = old.metadata.controller
            if owner is not None:
                _drop(self._by_owner, owner.uid, key)
            _drop(self._by_namespace, key[0], key)
        if new is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = new
            owner = new.metadata.controller
            if owner is not None:
                self._by_owner[owner.uid][key] = new
            self._by_namespace[key[0]][key] = new
        for listener in self._listeners:
            listener(old, new)

    async def follow(self, kube: Kube, query: Mapping[str, str] | None = None) -> None:
        """Keep the store current until cancelled."""
        path = self.kind.collection
        async for batch in list_watch_batches(
            kube, path, query=query, on_error=lambda error: self._say(path, error)
        ):
            for item in batch:
                try:
                    match item:
                        case Added() | Modified():
                            self.absorb(item.raw)
                        case Deleted():
                            self._delete(item.raw)
                        case Page(objects=objects):
                            for raw in objects:
                                self.absorb(raw)
                        case ListStarted():
                            self._listed = set()
                        case ListDone():
                            self._settle()
                except msgspec.ValidationError as error:
                    _log.warning("an object that does not decode is left out", path=path, error=str(error))
            await asyncio.sleep(0)

    def _settle(self) -> None:
        listed, self._listed = self._listed or set(), None
        for key, item in list(self.objects.items()):
            if key not in listed:
                self._put(key, item, None)
        self.synced.set()

    def _say(self, path: str, error: KubeError) -> None:
        _log.info("list or watch is retried", path=path, error=str(error))


def _drop(index: dict[str, dict[Key, O]], name: str, key: Key) -> None:
    """Take an object out of an index, and with the last one its place: names come and go for ever."""
    if (objects := index.get(name)) is not None:
        objects.pop(key, None)
        if not objects:
            del index[name]


class PodStore(KindStore[Pod]):
    """Pods, by node as well."""

    def __init__(self) -> None:
        super().__init__(POD)
        self._by_node: dict[str, dict[Key, Pod]] = defaultdict(dict)

    def on_node(self, node: str) -> list[Pod]:
        """The pods bound to a node, by namespace and name."""
        return [pod for _, pod in sorted(self._by_node.get(node, {}).items())]

    def _put(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.spec.node_name:
            _drop(self._by_node, old.spec.node_name, key)
        if new is not None and new.spec.node_name:
            self._by_node[new.spec.node_name][key] = new
        super()._put(key, old, new)


class Cache:
    """The stores of one process, one per kind, made when first asked for."""

    def __init__(self) -> None:
        self.pods = PodStore()
        self._stores: dict[str, KindStore[Any]] = {POD.collection: self.pods}
        self._queries: dict[str, Mapping[str, str]] = {}

    def of(self, kind: ClientKind[O]) -> KindStore[O]:
        """The store of a kind."""
        store = self._stores.get(kind.collection)
        if store is None:
            store = self._stores[kind.collection] = KindStore(kind)
        return store

    def known(self, kind: ClientKind[O]) -> KindStore[O] | None:
        """The store of a kind that somebody asked for; None otherwise."""
        return self._stores.get(kind.collection)

    def restrict(self, kind: ClientKind[O], query: Mapping[str, str]) -> None:
        """Follow only the objects that these label or field selectors choose."""
        self._queries[kind.collection] = query

    async def run(self, kube: Kube) -> None:
        """Follow every kind that has a store by now, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for path, store in self._stores.items():
                group.create_task(store.follow(kube, self._queries.get(path)), name=f"follow {path}")

    async def synced(self) -> None:
        """Wait until each store has had its first complete list."""
        for store in list(self._stores.values()):
            await store.synced.wait()
