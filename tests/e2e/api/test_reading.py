"""Reading: resourceVersions, lists in pages, watches; each test is a statement of the API conventions."""

from __future__ import annotations

import pytest

from tests.e2e.api.client import MERGE, Client, Object, config_map, pod
from tidewright.kube.errors import KubeError


async def test_versions_grow_over_all_kinds(client: Client) -> None:
    first = await client.create(client.path("configmaps"), config_map("a"))
    second = await client.create(
        client.path("secrets"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}
    )
    third = await client.merge(client.path("configmaps", "a"), {"data": {"k": "v"}})
    versions = [int(found["metadata"]["resourceVersion"]) for found in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_list_carries_the_version_that_it_is_of(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("a"))
    listed = await client.get(client.path("configmaps"))
    assert listed["kind"] == "ConfigMapList"
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_a_list_at_an_exact_version_shows_the_past(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    listed = await client.get(client.path("configmaps"))
    await client.create(client.path("configmaps"), config_map("b"))
    await client.delete(client.path("configmaps", "a"))
    version = listed["metadata"]["resourceVersion"]
    then = await client.get(client.path("configmaps"), resourceVersion=version, resourceVersionMatch="Exact")
    names = [item["metadata"]["name"] for item in then["items"]]
    assert "a" in names
    assert "b" not in names
    assert then["metadata"]["resourceVersion"] == version


async def test_pages_are_consistent(client: Client) -> None:
    def page(name: str) -> Object:
        return {"metadata": {"name": name, "labels": {"book": "one"}}}  # others put their own beside it

    for index in range(7):
        await client.create(client.path("configmaps"), page(f"page-{index}"))
    selector = "book=one"
    first = await client.get(client.path("configmaps"), limit="3", labelSelector=selector)
    assert len(first["items"]) == 3
    await client.create(client.path("configmaps"), page("page-45"))
    await client.delete(client.path("configmaps", "page-6"))
    names = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        more = await client.get(
            client.path("configmaps"), limit="3", labelSelector=selector, **{"continue": token}
        )
        assert more["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in more["items"]]
        token = more["metadata"].get("continue")
    assert names == [f"page-{index}" for index in range(7)]


async def test_remaining_items_are_counted_without_selectors(client: Client) -> None:
    for index in range(4):
        await client.create(client.path("secrets"), {"metadata": {"name": f"s-{index}"}})
    page = await client.get(client.path("secrets"), limit="1")
    assert page["metadata"]["remainingItemCount"] == 3


async def test_a_list_from_the_future_is_refused(client: Client) -> None:
    version = int((await client.get(client.path("configmaps")))["metadata"]["resourceVersion"])
    with pytest.raises(KubeError) as refused:
        await client.get(client.path("configmaps"), resourceVersion=str(version + 1_000_000))
    assert refused.value.status == 504
    assert "Too large resource version" in refused.value.message


async def test_selectors_select(client: Client) -> None:
    await client.create(client.path("pods"), pod("red", colour="red"))
    await client.create(client.path("pods"), pod("blue", colour="blue"))
    pods = client.path("pods")
    assert await _names(client, pods, labelSelector="colour in (red)") == ["red"]
    assert await _names(client, pods, labelSelector="colour!=red") == ["blue"]
    assert await _names(client, pods, fieldSelector="metadata.name=blue") == ["blue"]
    assert await _names(client, pods, fieldSelector="status.phase=Pending") == ["blue", "red"]
    assert await _names(client, pods, fieldSelector="spec.nodeName=nowhere") == []


async def _names(client: Client, path: str, **query: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.get(path, **query))["items"]]


async def test_an_unknown_field_cannot_be_selected_by(client: Client) -> None:
    with pytest.raises(KubeError) as refused:
        await client.get(client.path("pods"), fieldSelector="spec.hostname=a")
    assert refused.value.status == 400
    assert "field label not supported: spec.hostname" in refused.value.message


async def test_a_watch_from_a_version_misses_nothing(client: Client) -> None:
    path = client.path("configmaps")
    version = (await client.get(path))["metadata"]["resourceVersion"]
    await client.create(path, config_map("w", k="1"))
    await client.merge(client.path("configmaps", "w"), {"data": {"k": "2"}})
    await client.delete(client.path("configmaps", "w"))
    events = await client.events(path, 3, resourceVersion=version, fieldSelector="metadata.name=w")
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"]["data"]["k"] for event in events] == ["1", "2", "2"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


async def test_a_watch_without_a_version_begins_with_what_exists(client: Client) -> None:
    await client.create(client.path("secrets"), {"metadata": {"name": "there"}})
    events = await client.events(client.path("secrets"), 1)
    assert (events[0]["type"], events[0]["object"]["metadata"]["name"]) == ("ADDED", "there")


async def test_a_watched_object_that_leaves_the_selection_is_deleted_for_the_watcher(client: Client) -> None:
    path = client.path("configmaps")
    made = await client.create(path, config_map("l") | {"metadata": {"name": "l", "labels": {"in": "yes"}}})
    version = made["metadata"]["resourceVersion"]
    await client.merge(client.path("configmaps", "l"), {"metadata": {"labels": {"in": "no"}}})
    await client.merge(client.path("configmaps", "l"), {"metadata": {"labels": {"in": "yes"}}})
    events = await client.events(path, 2, resourceVersion=version, labelSelector="in=yes")
    assert [event["type"] for event in events] == ["DELETED", "ADDED"]


async def test_initial_events_end_with_a_bookmark(client: Client) -> None:
    await client.create(client.path("secrets"), {"metadata": {"name": "there"}})
    events = await client.events(
        client.path("secrets"),
        2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[1]["object"]["kind"] == "Secret"


async def test_a_watch_from_an_old_version_is_refused_or_misses_nothing(client: Client) -> None:
    path = client.path("configmaps")
    await client.create(path, config_map("first", k="1"))
    await client.merge(client.path("configmaps", "first"), {"data": {"k": "2"}})
    await client.delete(client.path("configmaps", "first"))
    selected = {"resourceVersion": "1", "fieldSelector": "metadata.name=first"}
    events = await client.events(path, 1, **selected)
    if events[0]["type"] == "ERROR":  # the usual case; a young API server may still know all of its past
        assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")
    else:
        events = await client.events(path, 3, **selected)
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_watch_ends_when_its_time_is_up(client: Client) -> None:
    version = (await client.get(client.path("secrets")))["metadata"]["resourceVersion"]
    found = [
        event
        async for event in client.watch(client.path("secrets"), resourceVersion=version, timeoutSeconds="1")
    ]
    assert found == []


async def test_a_table_has_columns_and_rows(client: Client) -> None:
    await client.create(client.path("pods"), pod("t"))
    table = await client.call(
        "GET", client.path("pods"), accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    )
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:3] == ["t", "0/1", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_alone_can_be_asked_for(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("m", k="v"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    found = await client.call("GET", client.path("configmaps", "m"), accept=accept)
    assert found["kind"] == "PartialObjectMetadata"
    assert "data" not in found


async def test_a_large_list_is_compressed_for_clients_that_want_it(client: Client) -> None:
    for index in range(4):
        await client.create(client.path("configmaps"), config_map(f"big-{index}", text="x" * 60_000))
    answer = await client.kube.request("GET", client.path("configmaps"))
    assert answer.headers.get("content-encoding") == "gzip"
    assert len(answer.body) > 240_000


async def test_deleting_a_collection_deletes_what_is_selected(client: Client) -> None:
    for name, keep in (("a", "no"), ("b", "no"), ("c", "yes")):
        await client.create(client.path("configmaps"), {"metadata": {"name": name, "labels": {"keep": keep}}})
    await client.call("DELETE", client.path("configmaps"), labelSelector="keep=no")
    assert await _names(client, client.path("configmaps"), labelSelector="keep") == ["c"]


async def test_an_unchanged_update_keeps_the_version(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("same", k="v"))
    again = await client.call(
        "PATCH", client.path("configmaps", "same"), {"data": {"k": "v"}}, content_type=MERGE
    )
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
