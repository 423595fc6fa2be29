"""Certificates of endpoints in the bundles of the API server: joined, retired, expired, never a key."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tidewright.actuator.endpoints import Endpoints, bundle_of, certificate, joined
from tidewright.actuator.verdict import Done, Refused
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.endpoints import ForgetEndpoint, TrustEndpoint
from tidewright.host.webhook import certificates
from tidewright.host.webhook.announce import Address
from tidewright.kube.errors import KubeError
from tidewright.kube.ownership import CRD_VERSION
from tidewright.spread.api import hooks

NOW = datetime.now(UTC)
ONE, OTHER = (certificates.make(("127.0.0.1",)) for _ in range(2))
OLD = certificates.make(("127.0.0.1",), now=NOW - timedelta(days=3))
ANNOUNCED = hooks.announcement(Address(url="https://127.0.0.1:9443"))
TARGET = ObjectRef(
    api_version="admissionregistration.k8s.io/v1", kind="MutatingWebhookConfiguration", name=hooks.NAME
)
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{hooks.DEFINITION}"


class Server:
    """An API server's objects by path; `meanwhile` runs once before the next write, as another writer would."""

    def __init__(self, **objects: JsonObject) -> None:
        self.objects: dict[str, JsonObject] = dict(objects)
        self.version = 0
        self.writes: list[str] = []
        self.meanwhile: Any = None

    async def ask(self, method: str, path: str, body: bytes | None) -> JsonObject:
        given = msgspec.json.decode(body) if body else {}
        if method == "GET":
            if path not in self.objects:
                raise KubeError(404, "NotFound", path)
            return self.objects[path]
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        self.writes.append(method)
        self.version += 1
        if method == "POST":
            path = f"{path}/{given['metadata']['name']}"
            if path in self.objects:
                raise KubeError(409, "AlreadyExists", path)
        elif method == "DELETE":
            return self.objects.pop(path)
        elif self.objects[path]["metadata"].get("resourceVersion") != given["metadata"].get(
            "resourceVersion"
        ):
            raise KubeError(409, "Conflict", path)
        given["metadata"]["resourceVersion"] = str(self.version)
        for hook in given.get("webhooks", ()):
            hook.setdefault("objectSelector", {})  # as the API server fills in
        self.objects[path] = given
        return given

    def trusted(self) -> list[str]:
        (found,) = [o for o in self.objects.values() if o["kind"] == "MutatingWebhookConfiguration"]
        return bundle_of(found["webhooks"][0]["clientConfig"]["caBundle"], NOW)


def trust(ca: str, *retired: str) -> TrustEndpoint:
    return TrustEndpoint(
        at=0, target=TARGET, ca=ca, retired=retired,
        configurations=ANNOUNCED.configurations, conversions=ANNOUNCED.conversions,
    )  # fmt: skip


def forget(ca: str, *, last: bool, alone: bool = False) -> ForgetEndpoint:
    return ForgetEndpoint(
        at=0, target=TARGET, ca=ca, remove_last=last, alone=alone,
        configurations=ANNOUNCED.configurations, conversions=ANNOUNCED.conversions,
    )  # fmt: skip


def crd() -> JsonObject:
    versions = [
        {"name": "v1alpha1", "served": True, "storage": True},
        {"name": "v1beta1", "served": False, "storage": False},
    ]
    metadata = {"annotations": {CRD_VERSION: "1"}}
    return {"kind": "CustomResourceDefinition", "metadata": metadata, "spec": {"versions": versions}}


async def test_replicas_are_joined_and_each_leaves_alone() -> None:
    server = Server(**{CRD: crd()})
    applier = Endpoints(server.ask)
    assert await applier.attempt(trust(ONE.ca_pem)) == Done()
    assert await applier.attempt(trust(OTHER.ca_pem)) == Done()
    assert server.trusted() == [ONE.ca_pem, OTHER.ca_pem]
    assert [v["served"] for v in server.objects[CRD]["spec"]["versions"]] == [True, True]
    writes = len(server.writes)
    assert await applier.attempt(trust(OTHER.ca_pem)) == Done(found=True)
    assert len(server.writes) == writes
    assert await applier.attempt(forget(ONE.ca_pem, last=True)) == Done()
    assert server.trusted() == [OTHER.ca_pem]
    assert await applier.attempt(forget(OTHER.ca_pem, last=True)) == Done()
    assert list(server.objects) == [CRD]
    assert [v["served"] for v in server.objects[CRD]["spec"]["versions"]] == [True, False]
    assert server.objects[CRD]["spec"]["conversion"] == {"strategy": "None"}


async def test_the_definition_of_a_vendor_is_left_and_one_that_we_convert_already_is_kept_up() -> None:
    vendors = crd() | {"metadata": {}}
    server = Server(**{CRD: vendors})
    applier = Endpoints(server.ask)
    await applier.attempt(trust(ONE.ca_pem))
    assert server.trusted() == [ONE.ca_pem]
    assert server.objects[CRD] is vendors
    await applier.attempt(forget(ONE.ca_pem, last=True))
    assert server.objects == {CRD: vendors}
    # As a version left it that knew no annotation: its conversion is this endpoint's own.
    before = crd() | {"metadata": {}}
    before["spec"]["conversion"] = ANNOUNCED.conversions[hooks.DEFINITION]
    server = Server(**{CRD: before})
    await Endpoints(server.ask).attempt(trust(ONE.ca_pem))
    client = server.objects[CRD]["spec"]["conversion"]["webhook"]["clientConfig"]
    assert bundle_of(client["caBundle"], NOW) == [ONE.ca_pem]


async def test_behind_a_service_the_configurations_outlive_the_last_replica() -> None:
    server = Server()
    applier = Endpoints(server.ask)
    await applier.attempt(trust(ONE.ca_pem))
    await applier.attempt(forget(ONE.ca_pem, last=False))
    assert server.trusted() == []  # nobody is trusted, so the failure policy decides


async def test_a_replica_that_was_killed_keeps_nothing_in_force_at_an_address_of_one() -> None:
    for alone in (False, True):
        server = Server(**{CRD: crd()})
        applier = Endpoints(server.ask)
        await applier.attempt(trust(ONE.ca_pem))  # killed, and started again with a key of its own
        await applier.attempt(trust(OTHER.ca_pem))
        await applier.attempt(forget(OTHER.ca_pem, last=True, alone=alone))
        assert (list(server.objects) == [CRD]) is alone
        assert (server.objects[CRD]["spec"]["conversion"] == {"strategy": "None"}) is alone


async def test_alone_does_not_count_where_the_configurations_call_another_address() -> None:
    server = Server(**{CRD: crd()})
    applier = Endpoints(server.ask)
    await applier.attempt(trust(ONE.ca_pem))
    elsewhere = hooks.announcement(Address(url="https://127.0.0.1:9444"))
    leaving = ForgetEndpoint(
        at=0, target=TARGET, ca=OTHER.ca_pem, remove_last=True, alone=True,
        configurations=elsewhere.configurations, conversions=elsewhere.conversions,
    )  # fmt: skip
    await applier.attempt(leaving)
    assert server.trusted() == [ONE.ca_pem]
    assert server.objects[CRD]["spec"]["conversion"]["strategy"] == "Webhook"


@pytest.mark.parametrize(
    ("address", "port", "alone"),
    [
        (Address(url="https://127.0.0.1:9443"), 9443, True),
        (Address(url="https://localhost"), 443, True),
        (Address(url="https://127.0.0.1:9443"), 9444, False),
        (Address(url="https://balancer.example:9443"), 9443, False),
        (Address(service="kube-system/spread:9443"), 9443, False),
    ],
)
def test_an_address_is_of_one_replica_when_nothing_can_stand_before_it(
    address: Address, port: int, alone: bool
) -> None:
    assert address.is_ours_alone(port) is alone


async def test_a_lost_race_is_run_again_and_both_are_in() -> None:
    server = Server()
    applier = Endpoints(server.ask)

    async def another() -> None:
        await Endpoints(server.ask).attempt(trust(OTHER.ca_pem))

    server.meanwhile = another
    assert await applier.attempt(trust(ONE.ca_pem)) == Done()
    assert sorted(server.trusted()) == sorted([ONE.ca_pem, OTHER.ca_pem])
    server.meanwhile = another
    await applier.attempt(forget(OTHER.ca_pem, last=False))


async def test_a_renewed_certificate_replaces_the_old_one_and_expired_ones_go() -> None:
    server = Server()
    applier = Endpoints(server.ask)
    await applier.attempt(trust(ONE.ca_pem))
    for path, found in server.objects.items():
        bundle = base64.b64encode((ONE.ca_pem + OLD.ca_pem).encode()).decode()
        for hook in found["webhooks"]:
            hook["clientConfig"]["caBundle"] = bundle
        server.objects[path] = found
    await applier.attempt(trust(OTHER.ca_pem, ONE.ca_pem))
    assert server.trusted() == [OTHER.ca_pem]
    mutating = next(iter(server.objects.values()))
    assert mutating["webhooks"][0]["objectSelector"] == {}  # what was filled in stays


async def test_a_private_key_gets_no_further() -> None:
    server = Server()
    leaked = ONE.ca_pem + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    answer = await Endpoints(server.ask).attempt(trust(leaked))
    assert answer == Refused("Invalid", "ca holds a private key: only a certificate may be published")
    assert not server.writes


@pytest.mark.parametrize("text", ["", "no certificate", ONE.ca_pem + OTHER.ca_pem])
def test_what_is_not_one_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not one PEM certificate"):
        certificate(text)


def test_a_bundle_that_cannot_be_read_counts_as_empty() -> None:
    assert bundle_of("***", NOW) == []
    assert bundle_of(joined(["***"], ONE.ca_pem, (), NOW), NOW) == [ONE.ca_pem]
