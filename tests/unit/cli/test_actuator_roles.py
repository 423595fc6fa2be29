"""The actuator's roles against what it asks the API server for: all of that, nothing else, and nothing that is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import yaml

from tidewright.actuator.allowance import Allowance
from tidewright.actuator.allowed.bounds import Feature
from tidewright.actuator.allowed.table import ANY, GRANTS, GROUP, Grant
from tidewright.actuator.apply import Applier
from tidewright.actuator.resolving import KNOWN
from tidewright.cli.contract import actuatorroles
from tidewright.cli.contract.actuatorroles import BY_DEFAULT, manifests
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import ForgetEndpoint, TrustEndpoint
from tidewright.events.provisioning import DeleteInstances, MarkNode, ReportClusterStatus, ResolvePod
from tidewright.events.shards import ShardSetObserved
from tidewright.host.webhook import certificates
from tidewright.host.webhook.announce import Address
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import BY_KIND
from tidewright.kube.ownership import CRD_VERSION
from tidewright.kube.taints import DRAIN, TO_BE_DELETED
from tidewright.shardmanager.labels import hook
from tidewright.spread.api import hooks

KUBERNETES = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
OWN = "tidewright"
CA = certificates.make(("x",)).ca_pem
VERBS = {"POST": "create", "PUT": "update"}
REQUESTS_OF = {"GET": "get", "PATCH": "patch", "DELETE": "delete", **VERBS}
PLACES = [grant for grant in GRANTS if grant.kinds != (GROUP,) or grant.effect is DeleteInstances]


class Recorder:
    """An API server whose objects are as an effect wants to find them; says what it was asked for."""

    def __init__(self, marks: Sequence[str], missing: bool) -> None:
        self.asked: set[tuple[str, str, str, str, str]] = set()
        self._marks, self._missing = marks, missing

    async def request(self, method: str, path: str, **options: Any) -> Any:
        parts = path.partition("?")[0].strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        name = rest[1] if len(rest) > 1 else ""
        verb = REQUESTS_OF[method] if name or method != "GET" else "list"
        resource = rest[0] + (f"/{rest[2]}" if len(rest) > 2 else "")
        self.asked.add((group, resource, verb, name, namespace))
        if self._missing and method in ("GET", "PATCH"):
            raise KubeError(404, "NotFound", path)
        if (method, resource) == ("PATCH", f"{rest[0]}/scale"):
            raise KubeError(422, "Invalid", "test failed")  # then it is looked, and written after that
        body: JsonObject = {
            "metadata": {"name": name, "uid": "u", "resourceVersion": "1", "annotations": dict.fromkeys((*self._marks, CRD_VERSION, DRAIN), "1")},
            "spec": {"taints": [{"key": TO_BE_DELETED}], "replicas": 3, "holderIdentity": "tidewright-shard-manager_1", "versions": [], "conversion": {}, "template": {}},
            "status": {"selector": "a=b"},
            "items": [{"metadata": {"name": "n"}, "spec": {"providerID": "i"}}],
        }  # fmt: skip
        return SimpleNamespace(body=msgspec.json.encode(body))


class Everywhere:
    """Discovery that knows the kinds of the table."""

    async def resources(self, group: str, kind: str) -> tuple[Resource, ...]:
        plural = BY_KIND[group, kind].plural if (group, kind) in BY_KIND else f"{kind.lower()}s"
        return (Resource(group, "v1", plural, kind, kind != "Node", True),)

    def doubt(self, group: str, kind: str) -> bool:
        """Nothing is anywhere else."""
        return False


def effects(grant: Grant) -> Iterator[Effect]:
    """One effect of a line of the table, on each of its kinds."""
    for group, kind in grant.kinds if ANY not in grant.kinds else (("apps", "Deployment"),):
        place = actuatorroles.where(grant, OWN)
        api = f"{group}/v1" if group else "v1"
        target = ObjectRef(
            api_version=api, kind=kind, namespace="" if kind == "Node" else place or "shop", name="n"
        )
        common: dict[str, Any] = {"at": 1.0, "id": "a.b.c", "target": target}
        match grant.effect.__name__:
            case ScaleWorkload.__name__:
                yield ScaleWorkload(**common, replicas=4, from_replicas=3)
            case SetStatus.__name__:
                apply_as = "cluster-autoscaler" if grant.service == "provisioning" else ""
                yield SetStatus(**common, status={"a": 1}, apply_as=apply_as)
            case PatchObject.__name__:
                yield PatchObject(**common, patch={"metadata": {"labels": {"a": "b"}}})
            case CreateObject.__name__:
                yield CreateObject(**common, manifest={})
            case DeleteObject.__name__:
                yield DeleteObject(**common)
            case EvictPod.__name__:
                yield EvictPod(**common)
            case MarkNode.__name__:
                yield MarkNode(**common, key=TO_BE_DELETED, present=True, drain="a.b.d", cordon=True)
            case HoldLease.__name__:
                yield HoldLease(**common, holder="tidewright-shard-manager_1", duration_s=15)
            case RecordObjectEvent.__name__:
                yield RecordObjectEvent(**common, event_type="Normal", reason="x", message="x", component="x")
            case ResolvePod.__name__:
                kinds = [("v1", "PodTemplate")]
                kinds += [
                    (f"{group}/" if group else "v1", kind) for group, kind in (*KNOWN, ("x.io", "Fleet"))
                ]
                for version, kind_of_source in kinds:
                    asked_about = ObjectRef(
                        api_version=version, kind=kind_of_source, namespace="shop", name="n"
                    )
                    yield ResolvePod(**common, source=asked_about)
            case ReportClusterStatus.__name__:
                name = msgspec.structs.replace(target, name=actuatorroles.STATUS_NAME)
                yield ReportClusterStatus(**(common | {"target": name}), text="x")
            case TrustEndpoint.__name__ | ForgetEndpoint.__name__:
                made = hooks.announcement(Address(url="https://127.0.0.1:1"))
                if grant.service == "shard-labels":
                    source = {"customResource": {"group": "shop.io", "kind": "Order"}}
                    fact = ShardSetObserved(at=0.0, namespace="shop", name="o", spec={"source": source})
                    found = hook.labelled(fact)
                    made = hook.announcement(Address(url="https://127.0.0.1:1"), [found] if found else [])
                announced: dict[str, Any] = {
                    "ca": CA, "configurations": made.configurations, "conversions": made.conversions,
                }  # fmt: skip
                if grant.effect is TrustEndpoint:
                    yield TrustEndpoint(**common, **announced)
                else:
                    yield ForgetEndpoint(**common, **announced, remove_last=True)


def deletion(*uids: str) -> DeleteInstances:
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g")
    return DeleteInstances(at=1.0, target=group, instances=("i",), nodes=("n",), uids=uids)


async def asked(grants: Sequence[Grant]) -> set[tuple[str, str, str, str, str]]:
    """Everything that is asked for, whether the objects are there or not: group, resource, verb, name, namespace."""
    found: set[tuple[str, str, str, str, str]] = set()

    async def free() -> None:
        return None

    if any(grant.effect is DeleteInstances for grant in grants):
        server = Recorder((), False)
        await Applier(cast("Any", server), cast("Discovery", Everywhere())).occupied(
            deletion(), Allowance(free)
        )
        found |= server.asked
    for grant in grants:
        for effect in effects(grant):
            for missing in (False, True):
                server = Recorder(grant.marks, missing)
                applier = Applier(cast("Any", server), cast("Discovery", Everywhere()))
                await applier.attempt(effect, Allowance(free), grant.marks)
                found |= server.asked
                applier.finished(effect)
                await applier.attempt(effect, Allowance(free), grant.marks)  # an object event counts up
                if grant.ground == "drained":  # what is looked at before the instance of the node is deleted
                    await applier.occupied(deletion("u"), Allowance(free))
                found |= server.asked
    return found


def granted(documents: Sequence[dict[str, Any]]) -> set[tuple[str, str, str, str, str]]:
    return {
        (group, resource, verb, name, document["metadata"].get("namespace", ""))
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def allows(given: tuple[str, str, str, str, str], wanted: tuple[str, str, str, str, str]) -> bool:
    group, resource, verb, name, namespace = given
    fits = resource in (wanted[1], f"*/{wanted[1].partition('/')[2]}")
    return (
        group in ("*", wanted[0]) and fits and verb == wanted[2] and name in ("", wanted[3])
        and namespace in ("", wanted[4])
    )  # fmt: skip


def patches_of_users_kinds(one: Grant) -> bool:
    return one.effect is PatchObject and ANY in one.kinds


@pytest.mark.parametrize("feature", list(Feature))
async def test_a_features_role_allows_what_its_effects_ask_for_and_nothing_that_they_do_not(
    feature: Feature,
) -> None:
    lines = [one for one in PLACES if one.feature is feature and not patches_of_users_kinds(one)]
    wanted = await asked(lines)
    given = granted(manifests(feature, own_namespace=OWN))
    missing = {one for one in wanted if not any(allows(rule, one) for rule in given)}
    assert missing == set()
    unused = {rule for rule in given if not any(allows(rule, one) for one in wanted)}
    assert unused == set()


def test_what_is_off_is_not_granted_and_what_lies_in_deploy_is_what_the_table_says() -> None:
    resources = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    on = {Feature(name[9:-5]) for name in resources if name.startswith("actuator-")}
    assert on == BY_DEFAULT
    for feature in Feature:
        documents = list(yaml.safe_load_all((KUBERNETES / f"actuator-{feature}.yaml").read_text()))
        assert documents == manifests(feature, own_namespace=OWN)
    services = yaml.safe_load_all((KUBERNETES / "services.yaml").read_text())
    (args,) = [
        d["spec"]["template"]["spec"]["containers"][0]["args"]
        for d in services
        if d["kind"] == "Deployment" and d["metadata"]["name"] == "actuator"
    ]
    assert set(args[args.index("--features") + 1].split(",")) == on


def test_no_role_is_wider_than_it_must_be() -> None:
    every = {one for feature in Feature for one in granted(manifests(feature, own_namespace=OWN))}
    assert {one[:2] for one in every if "*" in (one[0], one[1][:1])} == {("*", "*/scale")}
    assert not {
        one for one in every if one[1] in ("secrets", "serviceaccounts", "roles", "clusterroles", "pods/exec")
    }
    assert {one[4] for one in every if one[1] == "configmaps"} == {"kube-system"}
    assert {one[3] for one in every if one[1] == "customresourcedefinitions"} == {hooks.DEFINITION}
    creates = {one[1] for one in every if one[2] == "create" and not one[4]}
    assert creates == {
        "events", "pods", "podtemplates", "pods/eviction", "leases", "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
    }  # fmt: skip


def test_namespaces_make_roles_of_them_alone() -> None:
    documents = manifests(Feature.SPREAD, own_namespace=OWN, namespaces=("shop", "bank"))
    assert {(d["kind"], d["metadata"].get("namespace")) for d in documents} == {
        (kind, namespace) for kind in ("Role", "RoleBinding") for namespace in ("shop", "bank")
    }
    admission = manifests(Feature.ADMISSION, own_namespace=OWN, namespaces=("shop",))
    assert {d["kind"] for d in admission} == {
        "ClusterRole",
        "ClusterRoleBinding",
    }  # of the cluster, by their nature
