"""Custom resources: validation, defaulting, pruning, rules, versions, definitions that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.api.client import Client, Object, causes
from tests.e2e.api.crontabs import crontab, definition
from tidewright.kube.errors import KubeError

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"schedule": 1}, "spec.schedule", 'must be of type string: "integer"'),
        ({"schedule": "never"}, "spec.schedule", "should match"),
        ({"replicas": 11}, "spec.replicas", "should be less than or equal to 10"),
        ({"replicas": -1}, "spec.replicas", "should be greater than or equal to 0"),
        ({"policy": "Maybe"}, "spec.policy", 'supported values: "Allow", "Forbid"'),
        ({"image": "x" * 21}, "spec.image", "may not be more than 20"),
        ({"steps": [{"name": str(i)} for i in range(4)]}, "spec.steps", "must have at most 3 items"),
        ({"steps": [{}]}, "spec.steps[0].name", "Required value"),
        ({"steps": [{"name": "a"}, {"name": "a"}]}, "spec.steps[1]", "Duplicate value"),
        ({"image": "forbidden"}, "spec", "image must not be forbidden"),
        ({"budget": True}, "spec.budget", "must be of type"),
        ({"budget": 2}, "spec", "begins with a budget of 1"),
        ({"since": "yesterday"}, "spec.since", 'must be of type date-time: "yesterday"'),
        ({"since": "2200-01-01T00:00:00Z"}, "spec.since", "Forbidden: too far away for * * * * */5"),
        ({"target": {}}, "<nil>", '"spec.target" must validate one and only one schema (oneOf)'),
    ],
)
async def test_the_schema_is_enforced(
    client: Client, crontabs: Object, spec: dict[str, Any], field: str, message: str
) -> None:
    group = crontabs["spec"]["group"]
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("crontabs", group=group), crontab(group, "c", **spec))
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert refused.value.message.startswith(f'CronTab.{group} "c" is invalid: ')
    assert field in [cause for cause, _ in causes(refused.value)]
    assert message in refused.value.message


async def test_what_is_required_is_required(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    sent = crontab(group, "c")
    del sent["spec"]["schedule"]
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("crontabs", group=group), sent)
    assert "spec.schedule: Required value" in refused.value.message


async def test_defaults_fill_and_unknown_fields_go(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    sent = crontab(group, "c", steps=[{"name": "a"}], unknown=1, anything={"kept": {"deep": 1}}, pause=None)
    made = await client.create(client.path("crontabs", group=group), sent)
    assert made["spec"]["image"] == "busybox"
    assert made["spec"]["steps"] == [{"name": "a", "weight": 1}]
    assert made["spec"]["anything"] == {"kept": {"deep": 1}}
    assert "unknown" not in made["spec"]
    assert made["spec"]["pause"] is None


async def test_unknown_fields_are_warned_about_or_refused(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    path = client.path("crontabs", group=group)
    with pytest.raises(KubeError) as refused:
        await client.create(path, crontab(group, "c", unknown=1), fieldValidation="Strict")
    assert (refused.value.status, refused.value.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.unknown"' in refused.value.message


async def test_rules_compare_with_the_past(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    await client.create(client.path("crontabs", group=group), crontab(group, "c", replicas=3))
    path = client.path("crontabs", "c", group=group)
    with pytest.raises(KubeError) as refused:
        await client.merge(path, {"spec": {"replicas": 2}})
    assert "spec: Invalid value: " in refused.value.message
    assert "replicas may only grow" in refused.value.message
    assert (await client.merge(path, {"spec": {"replicas": 4}}))["spec"]["replicas"] == 4


async def test_generation_and_status_are_apart(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    made = await client.create(
        client.path("crontabs", group=group), crontab(group, "c") | {"status": {"replicas": 9}}
    )
    assert "status" not in made
    path = client.path("crontabs", "c", group=group)
    status = await client.merge(f"{path}/status", {"status": {"replicas": 1}, "spec": {"image": "other"}})
    assert status["status"] == {"replicas": 1}
    assert status["spec"]["image"] == "busybox"
    assert status["metadata"]["generation"] == 1
    changed = await client.merge(path, {"spec": {"image": "other"}, "status": {"replicas": 2}})
    assert changed["status"] == {"replicas": 1}
    assert changed["metadata"]["generation"] == 2


async def test_an_update_needs_a_version(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    await client.create(client.path("crontabs", group=group), crontab(group, "c"))
    with pytest.raises(KubeError) as refused:
        await client.update(client.path("crontabs", "c", group=group), crontab(group, "c"))
    assert refused.value.status == 422
    assert "metadata.resourceVersion" in refused.value.message
    assert "must be specified for an update" in refused.value.message


async def test_every_version_shows_the_object(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    await client.create(client.path("crontabs", group=group), crontab(group, "c"))
    other = await client.get(client.path("crontabs", "c", group=group, version="v1beta1"))
    assert other["apiVersion"] == f"{group}/v1beta1"
    listed = await client.get(client.path("crontabs", group=group, version="v1beta1"))
    assert [item["apiVersion"] for item in listed["items"]] == [f"{group}/v1beta1"]


async def test_apply_owns_keyed_list_elements(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    path = client.path("crontabs", "c", group=group)
    await client.apply(path, crontab(group, "c", steps=[{"name": "a", "weight": 2}]), "one")
    two: Object = crontab(group, "c")
    two["spec"] = {"steps": [{"name": "b"}]}
    found = await client.apply(path, two, "two")
    assert [step["name"] for step in found["spec"]["steps"]] == ["a", "b"]
    two["spec"] = {"steps": [{"name": "a", "weight": 3}]}
    with pytest.raises(KubeError) as refused:
        await client.apply(path, two, "two")
    assert '.spec.steps[name="a"].weight' in refused.value.message


async def test_a_definition_says_that_it_is_established(crontabs: Object) -> None:
    conditions = {c["type"]: c["status"] for c in crontabs["status"]["conditions"]}
    assert (conditions["NamesAccepted"], conditions["Established"]) == ("True", "True")
    assert crontabs["status"]["storedVersions"] == ["v1"]


async def test_a_definition_goes_with_its_objects(client: Client) -> None:
    wanted = definition("gone.tidewright.test")
    name = wanted["metadata"]["name"]
    await client.create(DEFINITIONS, wanted)
    path = client.path("crontabs", group="gone.tidewright.test")

    async def made() -> bool:
        try:
            await client.create(path, crontab("gone.tidewright.test", "c"))
        except KubeError as error:
            if error.status not in (404, 429):  # 429: the API server prepares its storage
                raise
            return False
        return True

    await client.until(made)
    await client.delete(f"{DEFINITIONS}/{name}")
    await client.gone(f"{DEFINITIONS}/{name}")
    await client.gone(path)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"metadata": {"name": "other.example.com"}}, "metadata.name", "must be spec.names.plural"),
        ({"scope": "Galactic"}, "spec.scope", "Unsupported value"),
        ({"storage": []}, "spec.versions", "must have exactly one version marked as storage version"),
        (
            {"untyped": True},
            "openAPIV3Schema.properties[spec].type",
            "must not be empty for specified object fields",
        ),
        ({"no schema": True}, "openAPIV3Schema", "openAPIV3Schema: Required value"),
        ({"rule": "self.image =="}, "x-kubernetes-validations[0].rule", "compilation failed"),
    ],
)
async def test_a_wrong_definition_is_refused(
    client: Client, change: dict[str, Any], field: str, message: str
) -> None:
    wanted = definition("wrong.tidewright.test")
    version: Object = wanted["spec"]["versions"][0]
    del wanted["spec"]["versions"][1]
    match change:
        case {"metadata": meta}:
            wanted["metadata"] = meta
        case {"scope": scope}:
            wanted["spec"]["scope"] = scope
        case {"storage": _}:
            version["storage"] = False
        case {"untyped": _}:
            del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"]
        case {"no schema": _}:
            del version["schema"]
        case {"rule": rule}:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["x-kubernetes-validations"] = [{"rule": rule}]
    with pytest.raises(KubeError) as refused:
        await client.create(DEFINITIONS, wanted)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert any(field in found for found, _ in causes(refused.value)), refused.value.message
    assert message in refused.value.message
