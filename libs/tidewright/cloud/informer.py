"""Objects of one kind at an API server as they are now: one list, and a watch that keeps it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from tidewright.cloud.errors import CloudError
from tidewright.cloud.kubernetes import Cluster, cloud_error
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import (
    Added,
    Deleted,
    Item,
    ListDone,
    ListStarted,
    Modified,
    Page,
    list_watch_batches,
)

_log = structlog.get_logger(__name__)
CONNECTING_S = 5.0
"""Wall seconds between two tries with a configuration that cannot be used."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...


class _Object(Protocol):
    @property
    def metadata(self) -> _Named: ...


T = TypeVar("T", bound=_Object)


class Informer(Generic[T]):
    """One kind. Watches are no calls of the cloud's budget: they last.

    Attributes:
        objects: by namespace and name; those that cannot be read are left out.
        error: why it cannot follow at the moment; None while it does.
    """

    def __init__(self, cluster: Cluster, path: str, read: Callable[[bytes], T]) -> None:
        """`read` makes an object of its JSON; what it refuses with `msgspec.MsgspecError` is passed over."""
        self.objects: dict[tuple[str, str], T] = {}
        self.error: CloudError | None = None
        self.path = path
        self._cluster = cluster
        self._read = read
        self._listing: dict[tuple[str, str], T] = {}
        self._touched: set[tuple[str, str]] | None = None
        self._is_complete = False
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    @property
    def is_complete(self) -> bool:
        """Whether there has been a whole list."""
        return self._is_complete

    def news(self) -> set[tuple[str, str]] | None:
        """What was touched since the last call; None: all of it, there was a whole list."""
        touched, self._touched = self._touched, set()
        return touched

    async def settled(self) -> None:
        """Wait until it follows, or says why it does not."""
        while not (self._is_complete or self.error is not None):
            self._news.clear()
            await self._news.wait()

    async def stop(self) -> None:
        """End following; `objects` stay."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self) -> None:
        while True:
            try:
                kube = await self._cluster.connected()
            except KubeError as error:
                self._failed(error)
                await asyncio.sleep(CONNECTING_S)
                continue
            async for items in list_watch_batches(
                kube, self.path, on_error=self._failed, on_watch=self._follows
            ):
                for item in items:
                    self._take(item)

    def _take(self, item: Item) -> None:
        match item:
            case ListStarted():
                self._listing = {}
            case Page(objects=raws):
                self._listing.update(_keyed(self._readable(raws)))
            case ListDone():
                self.objects, self._listing = self._listing, {}
                self._touched = None
                self._is_complete = True
                self._follows()
            case Added() | Modified():
                for key, it in _keyed(self._readable((item.raw,))):
                    self.objects[key] = it
                    self._touch(key)
            case Deleted():
                for key, _ in _keyed(self._readable((item.raw,))):
                    self.objects.pop(key, None)
                    self._touch(key)

    def _touch(self, key: tuple[str, str]) -> None:
        if self._touched is not None:
            self._touched.add(key)

    def _readable(self, raws: Iterable[bytes | msgspec.Raw]) -> Iterator[T]:
        for raw in raws:
            try:
                yield self._read(bytes(raw))
            except msgspec.MsgspecError as error:
                _log.warning("an object cannot be read", path=self.path, error=str(error))

    def _follows(self) -> None:
        self.error = None
        self._news.set()

    def _failed(self, error: KubeError) -> None:
        self.error = cloud_error(error, f"GET {self.path}")
        self._news.set()


def _keyed(objects: Iterable[T]) -> Iterator[tuple[tuple[str, str], T]]:
    return (((it.metadata.namespace, it.metadata.name), it) for it in objects)
