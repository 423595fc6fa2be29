"""Requests as values, and their execution with bounded concurrency.

A controller returns `Write`s; the `Writer` sends them and puts the answers into the cache, so that
the next look at the cache already shows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sim.api.errors import MODIFIED
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import ClientKind, Key, Object

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_encode = msgspec.json.encode


class Write(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        kind: of the object that the answer holds.
        key: namespace and name; for a create the name may be empty (`generateName`).
        uid: of the object that is deleted, so that the cache can forget it.
        tolerate: statuses that mean the goal is reached (404 for a delete).
    """

    method: str
    kind: ClientKind[Any]
    key: Key
    body: bytes | None = None
    subresource: str = ""
    content_type: str = "application/json"
    query: Mapping[str, str] | None = None
    uid: str = ""
    tolerate: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        key = (self.key[0], "") if self.method == "POST" and not self.subresource else self.key
        return self.kind.path(key, self.subresource)


def create(
    kind: ClientKind[Any], namespace: str, body: bytes | dict[str, Any], *, tolerate: tuple[int, ...] = ()
) -> Write:
    """Create an object; pass encoded bytes where many equal ones are made."""
    content = body if isinstance(body, bytes) else _encode(body)
    return Write("POST", kind, (namespace, ""), content, tolerate=tolerate)


def patch(
    kind: ClientKind[Any],
    key: Key,
    change: dict[str, Any],
    *,
    subresource: str = "",
    content_type: str = MERGE_PATCH,
    tolerate: tuple[int, ...] = (404,),
) -> Write:
    """Patch an object; one that is gone meanwhile needs no patch."""
    return Write("PATCH", kind, key, _encode(change), subresource, content_type, tolerate=tolerate)


def delete(
    kind: ClientKind[Any], key: Key, uid: str, *, grace_s: int | None = None, propagation: str | None = None
) -> Write:
    """Delete the object of this uid, and no other of the same name."""
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
    }
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if propagation is not None:
        options["propagationPolicy"] = propagation
    # 409 is the precondition: the object of that uid is gone, which is what was wanted.
    return Write("DELETE", kind, key, _encode(options), uid=uid, tolerate=(404, 409))


Told: TypeAlias = Callable[[Write, Object | None, Object | None], None]
"""Called with a write that was done, and its object before and after as far as they are known."""


class Writer:
    """Sends writes, at most `concurrency` at a time over all callers."""

    def __init__(self, kube: Kube, cache: Cache, concurrency: int = 64) -> None:
        self._kube = kube
        self._cache = cache
        self._slots = asyncio.Semaphore(concurrency)
        self.sent = 0

    async def send(self, write: Write, on_done: Told | None = None) -> bool:
        """Send one write; False when it was answered with a tolerated refusal.

        That an object has been modified says nothing of what the write is for, and is never tolerated: a 409 is when it says that there is
        one of the name already, or another one than was meant.

        `on_done` hears of a write that was done, with the object as it was known before and as it is now.

        Raises:
            KubeError: any other refusal, or no answer.
        """
        async with self._slots:
            self.sent += 1
            store = self._cache.known(write.kind) if on_done is not None else None
            before = store.get(write.key) if store is not None else None
            try:
                answer = await self._kube.request(
                    write.method,
                    write.path,
                    query=write.query,
                    body=write.body,
                    content_type=write.content_type,
                )
            except KubeError as error:
                if error.status in write.tolerate and MODIFIED not in error.message:
                    store = self._cache.known(write.kind)
                    if error.status == 404 and write.uid and store is not None:
                        store.forget(write.key, write.uid)
                    return False
                raise
        after = self._take_in(write, answer.body)
        if on_done is not None:
            on_done(write, before, after)
        return True

    def _take_in(self, write: Write, body: bytes) -> Object | None:
        store = self._cache.known(write.kind)
        if store is None or write.subresource not in ("", "status"):
            return None
        if write.method != "DELETE":
            taken: Object = store.absorb(body)
            return taken
        deleted = _deleted.decode(body)
        # A Status, or an object without a deletion mark or of grace 0, is gone for good. What has
        # finalizers stays until the watch says otherwise.
        lingers = deleted.kind != "Status" and deleted.metadata.deletionTimestamp is not None
        if lingers and (deleted.metadata.finalizers or deleted.metadata.deletionGracePeriodSeconds):
            store.absorb(body)
        else:
            store.forget(write.key, write.uid)
        return None

    async def send_all(self, writes: Iterable[Write], on_done: Told | None = None) -> None:
        """Send several writes side by side; the first error is raised after all were answered.

        Raises:
            KubeError: see `send`.
        """
        results = await asyncio.gather(
            *(self.send(write, on_done) for write in writes), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result


class _DeletedMeta(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815 - the API's name
    deletionGracePeriodSeconds: int | None = None  # noqa: N815 - the API's name
    finalizers: list[str] = []


class _Deleted(msgspec.Struct):
    kind: str = ""
    metadata: _DeletedMeta = msgspec.field(default_factory=_DeletedMeta)


_deleted = msgspec.json.Decoder(_Deleted)
