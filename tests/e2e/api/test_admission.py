"""Admission webhooks: who is asked, what their answers do, what happens when they do not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api.client import Client, Object, config_map, pod
from tests.e2e.api.webhooks import WebhookServer, allow, deny, patch
from tidewright.kube.errors import KubeError

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}
Register = Callable[..., Awaitable[None]]


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[WebhookServer]:
    async with WebhookServer(tmp_path) as server:
        yield server


@pytest.fixture
async def register(client: Client, hooks: WebhookServer) -> AsyncIterator[Register]:
    """Registers webhooks for the test's namespace, waits until they are asked, and removes them."""
    made: list[str] = []

    async def register(kind: str, *webhooks: Object) -> None:
        name = f"{client.namespace}-{len(made)}"
        plural = f"{kind}webhookconfigurations"
        complete = []
        for webhook in webhooks:
            path = webhook.pop("path")
            complete.append(
                {
                    "name": f"{path}.tidewright.test",
                    "clientConfig": {"url": f"{hooks.url}/{path}", "caBundle": hooks.bundle},
                    "rules": [RULE],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": client.namespace}},
                    "timeoutSeconds": 30,
                    **webhook,
                }
            )
            hooks.answers.setdefault(path, allow)
        made.append(f"{GROUP}/{plural}/{name}")
        await client.create(f"{GROUP}/{plural}", {"metadata": {"name": name}, "webhooks": complete})
        if not client.embedded:  # a real API server needs a moment until it asks
            import asyncio

            await asyncio.sleep(2)

    yield register
    for path in made:
        await client.delete(path)


async def refusal(client: Client, **data: str) -> KubeError:
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("configmaps"), config_map("a", **data))
    return refused.value


async def test_a_refusal_is_told(client: Client, hooks: WebhookServer, register: Register) -> None:
    hooks.answers["guard"] = deny("not today")
    await register("validating", {"path": "guard"})
    error = await refusal(client)
    assert (error.status, error.reason) == (403, "Forbidden")
    assert error.message == 'admission webhook "guard.tidewright.test" denied the request: not today'
    with pytest.raises(KubeError):
        await client.get(client.path("configmaps", "a"))


async def test_a_request_says_what_it_is_about(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    await register("validating", {"path": "look", "rules": [RULE | {"operations": ["*"]}]})
    await client.create(client.path("configmaps"), config_map("a", k="1"))
    await client.merge(client.path("configmaps", "a"), {"data": {"k": "2"}})
    await client.delete(client.path("configmaps", "a"))
    assert hooks.operations("look") == ["CREATE", "UPDATE", "DELETE"]
    created, updated, deleted = (asked for _, asked in hooks.asked)
    assert created["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (created["namespace"], created["name"], created["dryRun"]) == (client.namespace, "a", False)
    assert created["object"]["data"] == {"k": "1"}
    assert created["oldObject"] is None
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"k": "1"}, {"k": "2"})
    assert deleted["object"] is None
    assert deleted["oldObject"]["data"] == {"k": "2"}


async def test_a_patch_changes_the_object(client: Client, hooks: WebhookServer, register: Register) -> None:
    hooks.answers["stamp"] = patch({"op": "add", "path": "/metadata/labels", "value": {"stamped": "yes"}})
    await register("mutating", {"path": "stamp"})
    made = await client.create(client.path("configmaps"), config_map("a"))
    assert made["metadata"]["labels"] == {"stamped": "yes"}


async def test_what_a_patch_leaves_is_validated(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    hooks.answers["spoil"] = patch({"op": "add", "path": "/metadata/labels", "value": {"not ok": "v"}})
    await register("mutating", {"path": "spoil"})
    assert (await refusal(client)).status == 422


async def test_pods_are_defaulted_again_after_a_patch(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    side = {"name": "side", "image": "registry.example/side:1"}
    hooks.answers["inject"] = patch({"op": "add", "path": "/spec/containers/-", "value": side})
    await register("mutating", {"path": "inject", "rules": [RULE | {"resources": ["pods"]}]})
    made = await client.create(client.path("pods"), pod("p"))
    assert [c["name"] for c in made["spec"]["containers"]] == ["main", "side"]
    assert made["spec"]["containers"][1]["terminationMessagePolicy"] == "File"


async def test_selectors_and_conditions_narrow_down(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    hooks.answers |= {"labelled": deny("labelled"), "conditional": deny("conditional")}
    await register(
        "validating",
        {"path": "labelled", "objectSelector": {"matchLabels": {"guard": "yes"}}},
        {
            "path": "conditional",
            "matchConditions": [
                {"name": "risky", "expression": "has(object.data) && 'risky' in object.data"}
            ],
        },
    )
    await client.create(client.path("configmaps"), config_map("fine"))
    assert "conditional" in (await refusal(client, risky="yes")).message
    labelled = config_map("l")
    labelled["metadata"]["labels"] = {"guard": "yes"}
    with pytest.raises(KubeError, match="labelled"):
        await client.create(client.path("configmaps"), labelled)


@pytest.mark.parametrize(("policy", "made"), [("Fail", False), ("Ignore", True)])
async def test_the_failure_policy_decides_when_nobody_answers(
    client: Client, register: Register, policy: str, made: bool
) -> None:
    silent: dict[str, Any] = {
        "path": "silent",
        "failurePolicy": policy,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
    }
    await register("validating", silent)
    if made:
        await client.create(client.path("configmaps"), config_map("a"))
        return
    error = await refusal(client)
    assert (error.status, error.reason) == (500, "InternalError")
    assert 'failed calling webhook "silent.tidewright.test"' in error.message


async def test_a_dry_run_does_not_reach_webhooks_with_side_effects(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    await register("validating", {"path": "look"})
    await client.create(client.path("configmaps"), config_map("a"), dryRun="All")
    assert [asked["dryRun"] for _, asked in hooks.asked] == [True]


async def test_a_later_change_asks_an_earlier_webhook_again(
    client: Client, hooks: WebhookServer, register: Register
) -> None:
    hooks.answers["b-change"] = patch({"op": "add", "path": "/metadata/labels", "value": {"changed": "yes"}})
    await register("mutating", {"path": "a-first", "reinvocationPolicy": "IfNeeded"}, {"path": "b-change"})
    await client.create(client.path("configmaps"), config_map("a"))
    assert [name for name, _ in hooks.asked] == ["a-first", "b-change", "a-first"]


async def test_evictions_are_asked_about(client: Client, hooks: WebhookServer, register: Register) -> None:
    hooks.answers["keep"] = deny("it stays", 429)
    await register("validating", {"path": "keep", "rules": [RULE | {"resources": ["pods/eviction"]}]})
    await client.create(client.path("pods"), pod("p"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("pods", "p", "eviction"), eviction)
    assert refused.value.status == 429
    assert hooks.asked[0][1]["subResource"] == "eviction"
    assert (await client.get(client.path("pods", "p")))["metadata"]["name"] == "p"


async def test_a_webhook_needs_https_and_a_full_name(client: Client) -> None:
    wrong = {
        "metadata": {"name": f"{client.namespace}-wrong"},
        "webhooks": [{"name": "short", "clientConfig": {"url": "http://127.0.0.1/"}, "rules": [RULE]}],
    }
    with pytest.raises(KubeError) as refused:
        await client.create(f"{GROUP}/validatingwebhookconfigurations", wrong)
    assert refused.value.status == 422
    for field in ("webhooks[0].name", "webhooks[0].sideEffects", "webhooks[0].admissionReviewVersions"):
        assert field in refused.value.message
