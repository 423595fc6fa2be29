"""What is wrong is refused, with the status, the reason and a message that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.api.client import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Client,
    Object,
    causes,
    config_map,
    deployment,
    pod,
)
from tidewright.kube.errors import KubeError


async def refusal(client: Client, *args: Any, **options: Any) -> KubeError:
    with pytest.raises(KubeError) as refused:
        await client.call(*args, **options)
    return refused.value


async def test_malformed_json(client: Client) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), b'{"metadata": ')
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_malformed_yaml(client: Client) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), b"a: [", content_type="application/yaml")
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_yaml_is_understood(client: Client) -> None:
    body = b"metadata:\n  name: from-yaml\ndata:\n  k: v\n"
    made = await client.call("POST", client.path("configmaps"), body, content_type="application/yaml")
    assert made["data"] == {"k": "v"}


async def test_an_unknown_content_type(client: Client) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), b"x", content_type="text/plain")
    assert (error.status, error.reason) == (415, "UnsupportedMediaType")


async def test_an_unknown_patch_type(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    error = await refusal(
        client, "PATCH", client.path("configmaps", "a"), b"{}", content_type="application/json"
    )
    assert (error.status, error.reason) == (415, "UnsupportedMediaType")


async def test_a_representation_that_nobody_has(client: Client) -> None:
    error = await refusal(client, "GET", client.path("configmaps"), accept="text/csv")
    assert error.status == 406


async def test_a_huge_body(client: Client) -> None:
    body = b'{"metadata":{"name":"big"},"data":{"k":"%s"}}' % (b"x" * 3_300_000)
    error = await refusal(client, "POST", client.path("configmaps"), body)
    assert (error.status, error.reason) == (413, "RequestEntityTooLarge")


async def test_unknown_fields_by_validation(client: Client) -> None:
    sent = deployment("d")
    sent["spec"]["replicaz"] = 1
    path = client.path("deployments", group="apps")
    error = await refusal(client, "POST", path, sent, fieldValidation="Strict")
    assert (error.status, error.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.replicaz"' in error.message
    answer = await client.kube.request("POST", path, body=_json(sent), query={"fieldValidation": "Warn"})
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.replicaz\\""'


def _json(value: Object) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


async def test_a_field_of_the_wrong_type(client: Client) -> None:
    sent = deployment("d")
    sent["spec"]["replicas"] = "three"
    error = await refusal(client, "POST", client.path("deployments", group="apps"), sent)
    assert (error.status, error.reason) == (400, "BadRequest")
    assert (
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        in error.message
    )


@pytest.mark.parametrize(
    ("metadata", "field", "message"),
    [
        ({"name": "Upper"}, "metadata.name", "a lowercase RFC 1123 subdomain must consist of"),
        ({"name": "x" * 254}, "metadata.name", "253"),
        (
            {"name": "a", "labels": {"k": "not ok"}},
            "metadata.labels",
            "a valid label must be an empty string or",
        ),
        ({"name": "a", "labels": {"-k": "v"}}, "metadata.labels", "name part must consist of alphanumeric"),
        ({"name": "a", "annotations": {"a b": "v"}}, "metadata.annotations", "name part must consist of"),
        ({}, "metadata.name", "name or generateName is required"),
    ],
)
async def test_invalid_metadata(client: Client, metadata: Object, field: str, message: str) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), {"metadata": metadata})
    assert (error.status, error.reason) == (422, "Invalid")
    assert field in [found for found, _ in causes(error)]
    assert message in error.message


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"containers": []}, "spec.containers", "Required value"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image", "Required value"),
        (
            {"containers": [{"name": "A_b", "image": "i"}]},
            "spec.containers[0].name",
            "a lowercase RFC 1123 label",
        ),
        (
            {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]},
            "spec.containers[1].name",
            'Duplicate value: "a"',
        ),
        (
            {
                "containers": [
                    {
                        "name": "a",
                        "image": "i",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ]
            },
            "spec.containers[0].resources.requests",
            "must be less than or equal to cpu limit",
        ),
        ({"restartPolicy": "Perhaps"}, "spec.restartPolicy", "Unsupported value"),
    ],
)
async def test_invalid_pods(client: Client, change: Object, field: str, message: str) -> None:
    sent = pod("p")
    sent["spec"] |= change
    error = await refusal(client, "POST", client.path("pods"), sent)
    assert (error.status, error.reason) == (422, "Invalid")
    assert error.message.startswith('Pod "p" is invalid: ')
    assert field in [found for found, _ in causes(error)]
    assert message in error.message


async def test_an_invalid_quantity(client: Client) -> None:
    sent = pod("p")
    sent["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "lots"}}
    error = await refusal(client, "POST", client.path("pods"), sent)
    assert (error.status, error.reason) == (400, "BadRequest")
    assert "quantities must match the regular expression" in error.message


async def test_a_selector_that_does_not_match_its_template(client: Client) -> None:
    sent = deployment("d")
    sent["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    error = await refusal(client, "POST", client.path("deployments", group="apps"), sent)
    assert error.status == 422
    assert "spec.template.metadata.labels" in [found for found, _ in causes(error)]
    assert "`selector` does not match template `labels`" in error.message


async def test_a_selector_is_immutable(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    change = {
        "spec": {
            "selector": {"matchLabels": {"app": "d", "x": "y"}},
            "template": {"metadata": {"labels": {"x": "y"}}},
        }
    }
    error = await refusal(
        client, "PATCH", client.path("deployments", "d", group="apps"), change, content_type=MERGE
    )
    assert error.status == 422
    assert "field is immutable" in error.message


async def test_most_of_a_pod_is_immutable(client: Client) -> None:
    await client.create(client.path("pods"), pod("p"))
    error = await refusal(
        client, "PATCH", client.path("pods", "p"), {"spec": {"hostname": "other"}}, content_type=MERGE
    )
    assert error.status == 422
    assert "pod updates may not change fields other than" in error.message


async def test_a_patch_that_does_not_apply(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    operations = [{"op": "remove", "path": "/data/none"}]
    error = await refusal(
        client, "PATCH", client.path("configmaps", "a"), operations, content_type=JSON_PATCH
    )
    assert (error.status, error.reason) == (422, "Invalid")


async def test_a_patch_that_is_none(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    error = await refusal(client, "PATCH", client.path("configmaps", "a"), b"{", content_type=MERGE)
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_unknown_kinds_groups_and_names(client: Client) -> None:
    for path in (
        client.path("nonsense"),
        "/api/v2/pods",
        "/apis/apps/v1/things",
        "/apis/apps/v9/deployments",
    ):
        error = await refusal(client, "GET", path)
        assert (error.status, error.message) == (404, "the server could not find the requested resource")
    error = await refusal(client, "GET", "/apis/nonsense.example/v1/things")
    assert (error.status, error.body) == (404, b"404 page not found\n")  # nobody's path: no Status
    error = await refusal(client, "GET", client.path("pods", "none"))
    assert (error.status, error.reason, error.message) == (404, "NotFound", 'pods "none" not found')


async def test_a_namespace_that_is_not_there(client: Client) -> None:
    error = await refusal(client, "POST", "/api/v1/namespaces/none-such/configmaps", config_map("a"))
    assert (error.status, error.message) == (404, 'namespaces "none-such" not found')


async def test_names_that_disagree(client: Client) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    error = await refusal(client, "PUT", client.path("configmaps", "a"), config_map("b"))
    assert error.status == 400
    assert error.message == "the name of the object (b) does not match the name on the URL (a)"
    sent = config_map("c")
    sent["metadata"]["namespace"] = "other"
    error = await refusal(client, "POST", client.path("configmaps"), sent)
    assert error.status == 400
    assert error.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_versions_that_disagree(client: Client) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), deployment("d"))
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_a_method_that_a_resource_has_not(client: Client) -> None:
    error = await refusal(client, "POST", client.path("configmaps", "a"), config_map("a"))
    assert (error.status, error.reason) == (405, "MethodNotAllowed")


async def test_a_limit_that_is_no_number(client: Client) -> None:
    error = await refusal(client, "GET", client.path("configmaps"), limit="many")
    assert error.status in (400, 422)


async def test_a_broken_continue_token(client: Client) -> None:
    error = await refusal(client, "GET", client.path("configmaps"), **{"continue": "broken"})
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_a_field_that_is_said_twice(client: Client) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    path = client.path("configmaps")
    error = await refusal(client, "POST", path, body, fieldValidation="Strict")
    assert (error.status, error.reason) == (400, "BadRequest")
    assert 'strict decoding error: duplicate field "metadata.name"' in error.message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"metadata": x}', "invalid character 'x' looking for beginning of value"),
        (b'{"metadata" {}}', "invalid character '{' after object key"),
        (b'{"a": 1 "b": 2}', "invalid character '\"' after object key:value pair"),
        (b'{"a": [1 2]}', "invalid character '2' after array element"),
        (b"{b: 1}", "invalid character 'b' looking for beginning of object key string"),
        (b'{"metadata": {', "unexpected end of JSON input"),
        (b"[]", "json: cannot unmarshal array into Go value of type struct"),
    ],
)
async def test_a_body_that_does_not_parse(client: Client, body: bytes, why: str) -> None:
    error = await refusal(client, "POST", client.path("configmaps"), body)
    assert (error.status, error.reason) == (400, "BadRequest")
    assert error.message.startswith("the object provided is unrecognized (must be of type ConfigMap): ")
    assert why in error.message


async def test_a_patch_that_makes_a_field_another_type(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    path = client.path("deployments", "d", group="apps")
    change = {"spec": {"replicas": "x"}}
    error = await refusal(client, "PATCH", path, change, content_type=STRATEGIC)
    assert (error.status, error.reason) == (422, "Invalid")
    assert 'patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32' in error.message
    error = await refusal(client, "PATCH", path, change, content_type=MERGE)
    assert (error.status, error.reason) == (422, "Invalid")
    assert (
        "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        in error.message
    )


async def test_what_cannot_be_selected_by(client: Client) -> None:
    error = await refusal(client, "GET", client.path("pods"), fieldSelector="spec.x=1")
    assert (error.status, error.message) == (400, "field label not supported: spec.x")
    error = await refusal(client, "GET", client.path("configmaps"), fieldSelector="data.a=1")
    told = '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert (error.status, error.message) == (400, told)
    error = await refusal(client, "GET", client.path("pods"), labelSelector="a b")
    assert error.status == 400
    assert "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt" in error.message


async def test_an_account_that_is_not_there(client: Client) -> None:
    sent = pod("p")
    sent["spec"]["serviceAccountName"] = "nobody"
    error = await refusal(client, "POST", client.path("pods"), sent)
    assert (error.status, error.reason) == (403, "Forbidden")
    assert error.message == (
        f'pods "p" is forbidden: error looking up service account {client.namespace}/nobody: '
        'serviceaccount "nobody" not found'
    )


async def test_fields_that_are_said_twice_are_warned_of(client: Client) -> None:
    path = client.path("configmaps")
    body = b'{"metadata":{"name":"twice","name":"twice"},"data":{"k":"1"}}'
    answer = await client.kube.request("POST", path, body=body)
    assert answer.headers["warning"] == '299 - "duplicate field \\"metadata.name\\""'
    text = b"metadata:\n  name: text\n  name: text\n"
    answer = await client.kube.request("POST", path, body=text, content_type="application/yaml")
    assert answer.headers["warning"] == '299 - "line 3: key \\"name\\" already set in map"'
    change = b'{"data":{"k":"3","k":"4"}}'
    answer = await client.kube.request(
        "PATCH", client.path("configmaps", "twice"), body=change, content_type=MERGE
    )
    assert answer.headers["warning"] == '299 - "duplicate field \\"data.k\\""'


@pytest.mark.parametrize(
    ("strategy", "field", "message"),
    [
        ({"type": "Sideways"}, "spec.strategy", 'supported values: "Recreate", "RollingUpdate"'),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            {"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "200%"}},
            "spec.strategy.rollingUpdate.maxSurge",
            "a valid percent string must be a numeric string",
        ),
    ],
)
async def test_a_strategy_that_leads_nowhere(
    client: Client, strategy: Object, field: str, message: str
) -> None:
    sent = deployment("d")
    sent["spec"]["strategy"] = strategy
    error = await refusal(client, "POST", client.path("deployments", group="apps"), sent)
    assert (error.status, error.reason) == (422, "Invalid")
    assert field in [found for found, _ in causes(error)]
    assert message in error.message


async def test_what_is_applied_has_to_fit_its_type(client: Client) -> None:
    path = client.path("configmaps", "a")
    with pytest.raises(KubeError) as refused:
        await client.apply(path, config_map("a") | {"dota": {"k": "v"}}, "one")
    assert ".dota: field not declared in schema" in refused.value.message
    with pytest.raises(KubeError) as refused:
        await client.apply(path, {"metadata": {"name": "a"}}, "one")
    assert refused.value.status == 400
