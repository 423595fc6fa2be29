"""A kind's objects as one endless stream: list, watch, resume, re-list.

    ListStarted -> Page... -> ListDone -> (Added | Modified | Deleted | Bookmark)...
         ^------------------- 410, or a watch that cannot be resumed ------------'

A dropped or stalled watch is resumed from the last resourceVersion, silently. `410 Gone` is answered
by a new list: whatever was known and is in no page between `ListStarted` and `ListDone` is gone.
Errors never end the stream: they are retried with backoff and jitter, and said once per kind of
error.

Objects are raw bytes; nothing here decodes more than the type of a watch event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import stamina
import structlog

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError, Status, error_of
from tidewright.kube.projection.reading import as_nested_as_json_goes

_log = structlog.get_logger(__name__)

WATCH_TIMEOUT_S = 60.0
"""The server ends a watch after this long (plus up to a quarter), so a stalled one is noticed soon."""
READ_SLACK_S = 10.0
"""How much later than its own time-out a silent watch counts as stalled."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ListStarted(msgspec.Struct, frozen=True):
    """A new list begins.

    Attributes:
        relist: not the first of this stream: history was lost in between.
    """

    relist: bool


class Page(msgspec.Struct, frozen=True):
    """Some objects of the list, each as raw bytes (without `kind` and `apiVersion`, as lists are)."""

    objects: list[bytes]


class ListDone(msgspec.Struct, frozen=True):
    """The list is complete as of this resourceVersion."""

    resource_version: str


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's name
    annotations: dict[str, str] | None = None


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_versioned = msgspec.json.Decoder(_Versioned)


class _Change:
    """One watch event about one object.

    Attributes:
        raw: the object's bytes.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes | msgspec.Raw) -> None:
        self.raw = raw

    @property
    def resource_version(self) -> str:
        """Decoded on demand: whoever decodes the object knows it anyway."""
        return _versioned.decode(self.raw).metadata.resourceVersion


class Added(_Change):
    """The object appeared."""

    __slots__ = ()


class Modified(_Change):
    """The object changed."""

    __slots__ = ()


class Deleted(_Change):
    """The object is gone; `raw` is its last state."""

    __slots__ = ()


class Bookmark(msgspec.Struct, frozen=True):
    """All changes up to this resourceVersion have been given."""

    resource_version: str


Item: TypeAlias = ListStarted | Page | ListDone | Added | Modified | Deleted | Bookmark

_CHANGES: dict[str, type[Added | Modified | Deleted]] = {
    "ADDED": Added,
    "MODIFIED": Modified,
    "DELETED": Deleted,
}


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's name
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_WatchEvent)
_status = msgspec.json.Decoder(Status)


class _Expired(Exception):
    """The resourceVersion is too old: only a new list helps."""


async def list_watch(
    kube: Kube,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    page_size: int = 500,
    resource_version: str | None = None,
    streaming: bool = False,
    on_error: Callable[[KubeError], None] | None = None,
) -> AsyncGenerator[Item, None]:
    """One item at a time; see `list_watch_batches`."""
    batches = list_watch_batches(
        kube,
        path,
        query=query,
        page_size=page_size,
        resource_version=resource_version,
        streaming=streaming,
        on_error=on_error,
    )
    async for batch in batches:
        for item in batch:
            yield item


async def follow_one(
    kube: Kube,
    path: str,
    *,
    query: Mapping[str, str],
    on_error: Callable[[KubeError], None] | None = None,
) -> AsyncGenerator[bytes | msgspec.Raw | None, None]:
    """Follow the one object that `query` selects, for ever: as it is now and after each change; None while there is none."""
    there = False
    async for item in list_watch(kube, path, query=query, on_error=on_error):
        match item:
            case ListStarted():
                there = False
            case Page(objects=objects):
                for raw in objects:
                    there = True
                    yield raw
            case ListDone() if not there:
                yield None
            case Deleted():
                yield None
            case Added(raw=raw) | Modified(raw=raw):
                yield raw


async def list_watch_batches(
    kube: Kube,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    page_size: int = 500,
    resource_version: str | None = None,
    streaming: bool = False,
    on_error: Callable[[KubeError], None] | None = None,
    on_watch: Callable[[], None] | None = None,
    others: Sequence[str] = (),
) -> AsyncGenerator[list[Item], None]:
    """Follow the objects at a path for ever; items that arrived together come in one list.

    Args:
        kube: the server.
        path: of the collection (`/api/v1/pods`).
        query: label or field selectors.
        page_size: objects per page of a list; 0 for everything in one answer.
        resource_version: resume a watch from here and do not list at first.
        streaming: take the initial list as a stream of watch events (`sendInitialEvents`), which
            costs the server less memory; a server that refuses is asked for pages instead.
        on_error: called with each error that is going to be retried; what it raises ends the following.
        on_watch: called with each watch that the server has accepted.
        others: paths of the same objects in other versions, tried in turn where one is not served.
    """
    follower = _Follower(
        kube, (path, *others), dict(query or {}),
        page_size=page_size, streaming=streaming, on_error=on_error, on_watch=on_watch,
    )  # fmt: skip
    version = resource_version
    relist = False
    while True:
        if not version:
            async for items in follower.listed(relist):
                yield items
            version = follower.version
        relist = True
        try:
            async for items in follower.watched(version):
                yield items
        except _Expired:
            _log.info("history lost, listing again", path=path, resource_version=version)
            version = None
        else:  # pragma: no cover - a watch only ends by expiring
            version = follower.version


class _Follower:
    """The position in one kind's history, and how to move it."""

    def __init__(
        self,
        kube: Kube,
        paths: tuple[str, ...],
        query: dict[str, str],
        *,
        page_size: int,
        streaming: bool,
        on_error: Callable[[KubeError], None] | None,
        on_watch: Callable[[], None] | None,
    ) -> None:
        self._kube = kube
        self._paths = paths
        self._path = paths[0]
        self._untried = len(paths) - 1
        """Versions to try yet until it is said that none is served."""
        self._query = query
        self._page_size = page_size
        self._streaming = streaming
        self._on_error = on_error
        self._on_watch = on_watch
        self._said = ""
        self._last: _Change | None = None
        self._version = ""

    @property
    def version(self) -> str:
        """The resourceVersion up to which items have been given."""
        if self._last is not None:
            self._version = self._last.resource_version or self._version
            self._last = None
        return self._version

    async def listed(self, relist: bool) -> AsyncGenerator[list[Item], None]:
        """One complete list; a list that breaks in the middle starts again."""
        while True:
            yield [ListStarted(relist)]
            self._last = None
            try:
                pages = self._streamed() if self._streaming else self._paged()
                async for items in pages:
                    yield items
                return
            except _Expired:
                _log.info("the list expired while it was read, starting again", path=self._path)
                # Not again from a page token: the next list asks for everything at once.
                self._page_size = 0
            except _NoStreamingLists:
                _log.info("no streaming lists here, taking pages", path=self._path)
                self._streaming = False

    async def _paged(self) -> AsyncGenerator[list[Item], None]:
        token = ""
        while True:
            query = dict(self._query)
            if self._page_size:
                query["limit"] = str(self._page_size)
            if token:
                query["continue"] = token
            page = await self._page(query)
            yield [Page([bytes(item) for item in page.items or ()])]
            token = page.metadata.continue_
            if not token:
                self._version = page.metadata.resourceVersion
                yield [ListDone(self._version)]
                return

    async def _page(self, query: dict[str, str]) -> _List:
        async for attempt in self._attempts():
            with attempt:
                try:
                    answer = await self._kube.request("GET", self._path, query=query, timeout_s=60.0)
                    with as_nested_as_json_goes():
                        page = _list.decode(answer.body)
                except (msgspec.MsgspecError, RecursionError) as error:
                    raise KubeError(0, "Garbage", f"GET {self._path}: not a list: {error}") from error
                except KubeError as error:
                    if error.status == 410:
                        raise _Expired from error
                    raise
                self._said = ""
                return page
        raise AssertionError("attempts never end")

    async def _streamed(self) -> AsyncGenerator[list[Item], None]:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        async for attempt in self._attempts():
            with attempt:
                try:
                    objects: list[bytes] = []
                    async for lines in self._lines(query):
                        for line in lines:
                            with as_nested_as_json_goes():
                                event = _event.decode(line)
                            if event.type == "BOOKMARK":
                                metadata = _versioned.decode(event.object).metadata
                                if (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                                    self._version = metadata.resourceVersion
                                    yield [Page(objects), ListDone(self._version)]
                                    return
                            elif event.type == "ERROR":
                                raise _error_in(event.object)
                            else:
                                objects.append(bytes(event.object))
                except (msgspec.MsgspecError, RecursionError) as error:
                    raise KubeError(0, "Garbage", f"GET {self._path}: not a watch event: {error}") from error
                except KubeError as error:
                    if error.error_class == "invalid":
                        raise _NoStreamingLists from error
                    raise
                raise _NoStreamingLists
        raise AssertionError("attempts never end")

    async def watched(self, version: str) -> AsyncGenerator[list[Item], None]:
        """Changes after a resourceVersion, over as many watches as it takes.

        Raises:
            _Expired: the history from the last position is not there any more.
        """
        self._version = version
        self._last = None
        while True:
            async for attempt in self._attempts():
                with attempt:
                    progress = False
                    try:
                        async for lines in self._lines({"resourceVersion": self.version}):
                            items, failure = self._items(lines)
                            if items:
                                progress = True
                                yield items
                            if failure is not None:
                                raise failure
                    except KubeError as error:
                        if not progress:
                            raise
                        # A watch that gave something ends the series of attempts: no long wait now.
                        self._retry(error)
                    break
            # The server ended it in peace. One that does so at once must not make us spin.
            await asyncio.sleep(random.uniform(0.0, 0.1))  # noqa: S311 - jitter

    def _items(self, lines: list[bytes]) -> tuple[list[Item], Exception | None]:
        """What the lines say, and what ended them: the items before a failure count."""
        items: list[Item] = []
        for line in lines:
            try:
                with as_nested_as_json_goes():
                    event = _event.decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                text = line[:200].decode("utf-8", "replace")
                _log.warning("not a watch event, listing again", path=self._path, error=str(error), line=text)
                return items, _Expired()
            change = _CHANGES.get(event.type)
            if change is not None:
                item = change(event.object)
                self._last = item
                items.append(item)
            elif event.type == "BOOKMARK":
                self._version = _versioned.decode(event.object).metadata.resourceVersion
                self._last = None
                items.append(Bookmark(self._version))
            elif event.type == "ERROR":
                refusal = _error_in(event.object)
                return items, _Expired() if refusal.status == 410 else refusal
        if lines:
            self._said = ""
        return items, None

    async def _lines(self, query: Mapping[str, str]) -> AsyncGenerator[list[bytes], None]:
        timeout_s = WATCH_TIMEOUT_S * random.uniform(1.0, 1.25)  # noqa: S311 - jitter
        asked = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(timeout_s)),
            **query,
        }
        stream = self._kube.stream_batches(self._path, query=asked, read_timeout_s=timeout_s + READ_SLACK_S)
        try:
            async for lines in stream:
                if not lines and self._on_watch is not None:
                    self._on_watch()
                yield lines
        except KubeError as error:
            if error.status == 410:
                raise _Expired from error
            raise

    def _attempts(self) -> AsyncIterator[stamina.Attempt]:
        attempts: AsyncIterator[stamina.Attempt] = stamina.retry_context(
            on=self._retry,
            attempts=None,
            timeout=None,
            wait_initial=0.2,
            wait_max=30.0,
            wait_jitter=0.5,
        ).__aiter__()
        return attempts

    def _retry(self, error: Exception) -> bool | float:
        if not isinstance(error, KubeError):
            return False
        if error.status == 404:
            self._path = self._paths[(self._paths.index(self._path) + 1) % len(self._paths)]
            if self._untried:
                self._untried -= 1
                return True
        self._untried = len(self._paths) - 1
        if self._on_error is not None:
            self._on_error(error)
        said = f"{error.error_class} {error.reason}"
        if said != self._said:
            self._said = said
            if error.error_class == "gone":
                # A kind whose definition is not installed, or not yet.
                _log.info("not served here, asking again now and then", path=self._path)
            else:
                _log.warning(
                    "cannot follow, trying again until it works",
                    path=self._path,
                    reason=error.reason,
                    error_class=error.error_class,
                    message=error.message,
                )
        return error.retry_after_s or True


class _NoStreamingLists(Exception):
    """The server does not know `sendInitialEvents`."""


def _error_in(raw: msgspec.Raw) -> KubeError:
    try:
        code = _status.decode(raw).code
    except msgspec.MsgspecError:
        code = 0
    return error_of(code or 500, bytes(raw))
