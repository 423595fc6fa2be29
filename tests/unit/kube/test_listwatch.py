from __future__ import annotations

from contextlib import aclosing

import pytest
from aiohttp import web

from tests.unit.kube.api import Api, bookmark, event, page, pod, serving, status
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import (
    Added,
    Bookmark,
    Deleted,
    Item,
    ListDone,
    ListStarted,
    Modified,
    Page,
    list_watch,
)

PODS = "/api/v1/pods"


async def take(api: Api, count: int, **options: object) -> list[Item]:
    items: list[Item] = []
    async with serving(api), Kube.at(api.url) as kube:
        stream = list_watch(kube, PODS, **options)  # type: ignore[arg-type]  # options of each test
        async with aclosing(stream):
            async for item in stream:
                items.append(item)
                if len(items) == count:
                    break
    return items


def names(items: list[Item]) -> list[str]:
    return [type(item).__name__ for item in items]


async def test_pages_then_changes_then_bookmarks() -> None:
    api = Api()
    api.lists = [page("9", pod("a", "1"), pod("b", "2"), more="t"), page("9", pod("c", "3"))]
    api.watches = [
        [
            event("ADDED", pod("d", "10")) + event("MODIFIED", pod("a", "11")),
            event("DELETED", pod("b", "12")),
            bookmark("15"),
        ]
    ]
    items = await take(api, 8, page_size=2)
    assert names(items) == [
        "ListStarted",
        "Page",
        "Page",
        "ListDone",
        "Added",
        "Modified",
        "Deleted",
        "Bookmark",
    ]
    assert items[3] == ListDone("9")
    assert items[7] == Bookmark("15")
    added, modified, deleted = items[4:7]
    assert isinstance(added, Added)
    assert isinstance(modified, Modified)
    assert isinstance(deleted, Deleted)
    assert (added.resource_version, modified.resource_version, deleted.resource_version) == ("10", "11", "12")
    assert [q.get("continue") for q in api.queries(watch=False)] == [None, "t"]
    assert api.queries(watch=True)[0]["resourceVersion"] == "9"


async def test_a_watch_that_ends_is_resumed_from_the_last_change() -> None:
    api = Api()
    api.lists = [page("9")]
    api.watches = [
        [event("ADDED", pod("a", "10"))],
        [bookmark("20")],
        [event("ADDED", pod("b", "21"))],
    ]
    await take(api, 6)
    assert [q["resourceVersion"] for q in api.queries(watch=True)] == ["9", "10", "20"]


async def test_a_stream_can_be_resumed_without_a_list() -> None:
    api = Api()
    api.watches = [[event("ADDED", pod("a", "10"))]]
    items = await take(api, 1, resource_version="7")
    assert names(items) == ["Added"]
    assert api.queries(watch=True)[0]["resourceVersion"] == "7"


@pytest.mark.parametrize("within_the_stream", [True, False])
async def test_410_is_answered_by_a_new_list(within_the_stream: bool) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    api = Api()
    api.watches = [[event("ERROR", gone)] if within_the_stream else status(410, "Expired")]
    api.lists = [page("30", pod("a", "29"))]
    items = await take(api, 3, resource_version="7")
    assert items[0] == ListStarted(relist=True)
    assert names(items[1:]) == ["Page", "ListDone"]


async def test_a_relist_says_so() -> None:
    api = Api()
    api.lists = [page("9"), page("30")]
    api.watches = [status(410, "Expired")]
    items = await take(api, 4)
    assert items[0] == ListStarted(relist=False)
    assert items[3] == ListStarted(relist=True)


async def test_errors_are_retried_and_reported() -> None:
    api = Api()
    api.lists = [status(503, "ServiceUnavailable", **{"Retry-After": "0.01"}), page("9")]
    api.watches = [
        status(500, "InternalError", **{"Retry-After": "0.01"}),
        [event("ADDED", pod("a", "10"))],
    ]
    errors: list[KubeError] = []
    items = await take(api, 4, on_error=errors.append)
    assert names(items) == ["ListStarted", "Page", "ListDone", "Added"]
    assert [e.status for e in errors] == [503, 500]


async def test_an_expired_page_token_starts_the_list_again_in_one_piece() -> None:
    api = Api()
    api.lists = [page("9", pod("a", "1"), more="t"), status(410, "Expired"), page("12", pod("b", "2"))]
    items = await take(api, 5)
    assert names(items) == ["ListStarted", "Page", "ListStarted", "Page", "ListDone"]
    assert "limit" not in api.queries(watch=False)[2]


async def test_garbage_on_the_watch_leads_to_a_new_list() -> None:
    api = Api()
    api.watches = [[event("ADDED", pod("a", "8")), b"no json\n"]]
    api.lists = [page("30")]
    items = await take(api, 4, resource_version="7")
    assert names(items) == ["Added", "ListStarted", "Page", "ListDone"]


async def test_a_streaming_list_ends_with_its_bookmark() -> None:
    api = Api()
    api.watches = [
        [
            event("ADDED", pod("a", "1")),
            event("ADDED", pod("b", "2")),
            bookmark("9", **{"k8s.io/initial-events-end": "true"}),
        ],
        [event("ADDED", pod("c", "10"))],
    ]
    items = await take(api, 4, streaming=True)
    assert names(items) == ["ListStarted", "Page", "ListDone", "Added"]
    listed = items[1]
    assert isinstance(listed, Page)
    assert len(listed.objects) == 2
    first, second = api.queries(watch=True)[:2]
    assert first["sendInitialEvents"] == "true"
    assert second["resourceVersion"] == "9"


async def test_a_server_without_streaming_lists_is_asked_for_pages() -> None:
    api = Api()
    api.watches = [status(422, "Invalid")]
    api.lists = [page("9", pod("a", "1"))]
    items = await take(api, 4, streaming=True)
    assert names(items) == ["ListStarted", "ListStarted", "Page", "ListDone"]


async def test_a_stalled_watch_is_dropped_and_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewright.kube.listwatch.WATCH_TIMEOUT_S", 0.05)
    monkeypatch.setattr("tidewright.kube.listwatch.READ_SLACK_S", 0.0)
    api = Api()

    async def stalled(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ADDED", pod("a", "10")))
        await api.closing.wait()
        return response

    api.watches = [stalled, [event("ADDED", pod("b", "11"))]]
    items = await take(api, 2, resource_version="7")
    assert names(items) == ["Added", "Added"]
    assert [q["resourceVersion"] for q in api.queries(watch=True)] == ["7", "10"]
