"""Writing: create, update, patch, delete; each test is a statement of the API conventions."""

from __future__ import annotations

import re

import pytest

from tests.e2e.api.client import APPLY, JSON_PATCH, STRATEGIC, Client, causes, config_map, deployment, pod
from tidewright.kube.errors import KubeError


async def test_the_server_sets_identity_and_time(client: Client) -> None:
    given = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    sent = deployment("d")
    sent["metadata"] |= given
    meta = (await client.create(client.path("deployments", group="apps"), sent))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert not meta["creationTimestamp"].startswith("2001")
    assert meta["generation"] == 1
    made = await client.create(client.path("configmaps"), {"metadata": {"name": "a", **given}})
    assert made["metadata"]["generation"] == 7  # of a kind that counts none, nobody touches it


async def test_names_are_generated(client: Client) -> None:
    made = await client.create(client.path("configmaps"), {"metadata": {"generateName": "gen-"}})
    assert re.fullmatch(r"gen-[a-z0-9]{5}", made["metadata"]["name"])


async def test_a_name_can_be_taken_once(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("configmaps"), config_map("a"))
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")
    assert refused.value.message == 'configmaps "a" already exists'


async def test_an_update_of_an_old_version_is_a_conflict(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("a"))
    await client.merge(client.path("configmaps", "a"), {"data": {"k": "v"}})
    with pytest.raises(KubeError) as refused:
        await client.update(client.path("configmaps", "a"), made)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_a_patch_with_an_old_version_is_a_conflict(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("a"))
    await client.merge(client.path("configmaps", "a"), {"data": {"k": "v"}})
    version = made["metadata"]["resourceVersion"]
    with pytest.raises(KubeError) as refused:
        await client.merge(client.path("configmaps", "a"), {"metadata": {"resourceVersion": version}})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


async def test_an_update_without_a_version_overwrites(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a", k="1"))
    found = await client.update(client.path("configmaps", "a"), config_map("a", k="2"))
    assert found["data"] == {"k": "2"}


async def test_generation_counts_changes_of_the_spec(client: Client) -> None:
    made = await client.create(client.path("deployments", group="apps"), deployment("d"))
    path = client.path("deployments", "d", group="apps")
    assert made["metadata"]["generation"] == 1
    labelled = await client.merge(path, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    paused = await client.merge(path, {"spec": {"paused": True}})
    assert paused["metadata"]["generation"] == 2


async def test_defaults_are_filled_in(client: Client) -> None:
    made = await client.create(client.path("deployments", group="apps"), deployment("d"))
    spec = made["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["progressDeadlineSeconds"] == 600
    template = spec["template"]["spec"]
    assert (template["restartPolicy"], template["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert template["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_pods_are_prepared(client: Client) -> None:
    sent = pod("p")
    sent["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 0.5, "memory": "128Mi"}}
    sent["status"] = {"phase": "Running"}
    made = await client.create(client.path("pods"), sent)
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "Burstable"
    assert made["spec"]["priority"] == 0
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    assert {toleration["key"] for toleration in made["spec"]["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


async def test_json_patch_tests_and_replaces(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a", k="1"))
    path = client.path("configmaps", "a")
    operations = [
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "replace", "path": "/data/k", "value": "2"},
        {"op": "add", "path": "/data/l", "value": "3"},
    ]
    found = await client.call("PATCH", path, operations, content_type=JSON_PATCH)
    assert found["data"] == {"k": "2", "l": "3"}
    with pytest.raises(KubeError) as refused:
        await client.call("PATCH", path, operations, content_type=JSON_PATCH)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")


async def test_strategic_patch_merges_lists_by_key(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    change = {
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {"name": "main", "env": [{"name": "A", "value": "1"}]},
                        {"name": "side", "image": "registry.example/side:1"},
                    ]
                }
            }
        }
    }
    path = client.path("deployments", "d", group="apps")
    found = await client.call("PATCH", path, change, content_type=STRATEGIC)
    containers = {c["name"]: c for c in found["spec"]["template"]["spec"]["containers"]}
    assert set(containers) == {"main", "side"}
    assert containers["main"]["image"] == "registry.example/pause:1"
    assert containers["main"]["env"] == [{"name": "A", "value": "1"}]
    drop = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    found = await client.call("PATCH", path, drop, content_type=STRATEGIC)
    assert [c["name"] for c in found["spec"]["template"]["spec"]["containers"]] == ["main"]


async def test_strategic_patch_is_not_for_custom_resources(
    client: Client, crontabs: dict[str, dict[str, str]]
) -> None:
    path = client.path("crontabs", "x", group=crontabs["spec"]["group"])
    with pytest.raises(KubeError) as refused:
        await client.call("PATCH", path, {}, content_type=STRATEGIC)
    assert refused.value.status in (404, 415)


async def test_a_dry_run_changes_nothing(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("a"), dryRun="All")
    assert made["metadata"]["uid"]
    with pytest.raises(KubeError):
        await client.get(client.path("configmaps", "a"))
    await client.create(client.path("configmaps"), config_map("a"))
    await client.merge(client.path("configmaps", "a"), {"data": {"k": "v"}}, dryRun="All")
    await client.delete(client.path("configmaps", "a"), dryRun="All")
    assert not (await client.get(client.path("configmaps", "a"))).get("data")


async def test_finalizers_hold_an_object(client: Client) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["tidewright.test/hold"]
    await client.create(client.path("configmaps"), held)
    path = client.path("configmaps", "held")
    await client.delete(path)
    found = await client.get(path)
    assert "deletionTimestamp" in found["metadata"]
    with pytest.raises(KubeError) as refused:
        await client.merge(
            path, {"metadata": {"finalizers": ["tidewright.test/hold", "tidewright.test/more"]}}
        )
    assert refused.value.status == 422
    assert "no new finalizers can be added if the object is being deleted" in refused.value.message
    await client.merge(path, {"metadata": {"finalizers": None}})
    await client.gone(path)


async def test_preconditions_of_a_deletion_are_checked(client: Client) -> None:
    made = await client.create(client.path("configmaps"), config_map("a"))
    path = client.path("configmaps", "a")
    with pytest.raises(KubeError) as refused:
        await client.delete(path, {"preconditions": {"uid": "another"}})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    with pytest.raises(KubeError) as refused:
        await client.delete(path, {"preconditions": {"resourceVersion": "1"}})
    assert refused.value.status == 409
    done = await client.delete(path, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert done["status"] == "Success"
    assert done["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


async def test_a_pod_on_a_node_is_given_time_to_end(client: Client) -> None:
    await client.create(client.path("pods"), pod("p"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "no-such-node"},
    }
    await client.create(client.path("pods", "p", "binding"), binding)
    path = client.path("pods", "p")
    deleted = await client.delete(path, {"gracePeriodSeconds": 20})
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 20
    assert "deletionTimestamp" in (await client.get(path))["metadata"]
    await client.delete(path, {"gracePeriodSeconds": 0})
    await client.gone(path)


async def test_an_unscheduled_pod_goes_at_once(client: Client) -> None:
    await client.create(client.path("pods"), pod("p") | {"metadata": {"name": "p"}})
    await client.delete(client.path("pods", "p"), {"gracePeriodSeconds": 0})
    await client.gone(client.path("pods", "p"))


# -- server-side apply -------------------------------------------------------------------------------


async def test_apply_creates_and_owns(client: Client) -> None:
    wanted = config_map("a", k="1")
    made = await client.apply(client.path("configmaps", "a"), wanted, "one")
    entry = made["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"], entry["fieldsType"]) == ("one", "Apply", "FieldsV1")
    assert entry["fieldsV1"]["f:data"] == {"f:k": {}}
    again = await client.apply(client.path("configmaps", "a"), wanted, "one")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_managed_fields_tell_maps_from_their_keys(client: Client) -> None:
    sent = deployment("d")
    sent["metadata"]["annotations"] = {"a": "1"}
    made = await client.create(client.path("deployments", group="apps"), sent, fieldManager="writer")
    (entry,) = [one for one in made["metadata"]["managedFields"] if one["manager"] == "writer"]
    fields = entry["fieldsV1"]
    assert fields["f:metadata"]["f:annotations"] == {".": {}, "f:a": {}}
    template = fields["f:spec"]["f:template"]
    assert template["f:metadata"]["f:labels"] == {".": {}, "f:app": {}}
    container = template["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert (container["."], container["f:image"]) == ({}, {})
    assert "." not in fields["f:spec"]
    assert "." not in template["f:spec"]["f:containers"]
    assert fields["f:spec"]["f:strategy"]["f:rollingUpdate"] == {
        ".": {},
        "f:maxSurge": {},
        "f:maxUnavailable": {},
    }
    path = client.path("deployments", "d", group="apps")
    changed = await client.merge(path, {"metadata": {"managedFields": [{}]}})
    assert "writer" not in [one["manager"] for one in changed["metadata"].get("managedFields", ())]


async def test_another_manager_conflicts_until_it_forces(client: Client) -> None:
    path = client.path("configmaps", "a")
    await client.apply(path, config_map("a", k="1", other="x"), "one")
    with pytest.raises(KubeError) as refused:
        await client.apply(path, config_map("a", k="2"), "two")
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert causes(refused.value) == [(".data.k", "FieldManagerConflict")]
    forced = await client.apply(path, config_map("a", k="2"), "two", force="true")
    assert forced["data"] == {"k": "2", "other": "x"}


async def test_what_is_no_longer_applied_goes(client: Client) -> None:
    path = client.path("configmaps", "a")
    await client.apply(path, config_map("a", k="1", gone="x"), "one")
    await client.merge(path, {"data": {"foreign": "y"}})
    found = await client.apply(path, config_map("a", k="1"), "one")
    assert found["data"] == {"k": "1", "foreign": "y"}


async def test_shared_fields_stay_when_one_owner_leaves(client: Client) -> None:
    path = client.path("configmaps", "a")
    await client.apply(path, config_map("a", shared="1", own="1"), "one")
    await client.apply(path, config_map("a", shared="1"), "two")
    found = await client.apply(path, config_map("a", own="1"), "one")
    assert found["data"] == {"shared": "1", "own": "1"}


async def test_an_ordinary_write_takes_a_field_over(client: Client) -> None:
    path = client.path("configmaps", "a")
    await client.apply(path, config_map("a", k="1"), "one")
    await client.merge(path, {"data": {"k": "2"}}, fieldManager="editor")
    with pytest.raises(KubeError) as refused:
        await client.apply(path, config_map("a", k="1"), "one")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.k'


async def test_apply_merges_lists_by_key(client: Client) -> None:
    path = client.path("deployments", "d", group="apps")
    await client.apply(path, deployment("d"), "one")
    side = deployment("d")
    side["spec"] = {
        "selector": side["spec"]["selector"],
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "side", "image": "registry.example/side:1"}]},
        },
    }
    found = await client.apply(path, side, "two")
    assert [c["name"] for c in found["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    side["spec"]["template"]["spec"]["containers"] = []
    found = await client.apply(path, side, "two")
    assert [c["name"] for c in found["spec"]["template"]["spec"]["containers"]] == ["main"]


async def test_apply_needs_a_manager(client: Client) -> None:
    with pytest.raises(KubeError) as refused:
        await client.call("PATCH", client.path("configmaps", "a"), config_map("a"), content_type=APPLY)
    assert refused.value.status == 422
    assert "fieldManager" in refused.value.message
