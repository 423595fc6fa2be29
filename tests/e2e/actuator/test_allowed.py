"""A service that is taken over asks for what it may not: nothing in the cluster changes, and the outcome says by which rule.

Each attempt lies on the log as that service's host would have written it, under the subject that the bus lets it
publish, and a real actuator with its default bounds is set upon it. Beside each stands what the service may do.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.e2e.actuator.test_actuator import Client, kube, make_deployment
from tests.unit.actuator.effects import Watched
from tidewright.actuator import acting
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowed.bounds import Bounds, Feature
from tidewright.actuator.apply import Applier
from tidewright.actuator.options import Options
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event, JsonObject, ObjectRef, Outcome
from tidewright.events.config import ConfigSet
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
from tidewright.events.endpoints import EndpointEffect, ForgetEndpoint, TrustEndpoint
from tidewright.events.facts import NodeObserved, PodObserved
from tidewright.events.outcomes import Applied, Rejected
from tidewright.events.provisioning import (
    CapacityBufferObserved,
    IncreaseNodeGroup,
    MarkNode,
    PodTemplateObserved,
    ResolvePod,
)
from tidewright.events.shards import ShardSetObserved
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.host.process.health import Health
from tidewright.host.webhook import certificates
from tidewright.host.webhook.announce import Address
from tidewright.kube import webhooks
from tidewright.kube.discovery import Discovery
from tidewright.kube.taints import DELETION_CANDIDATE, DRAIN, TO_BE_DELETED
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL, Slot
from tidewright.spread.api import hooks

__all__ = ["kube"]

CA = certificates.make(("127.0.0.1",)).ca_pem
HERE = Address(url="https://127.0.0.1:9443")
CONTAINER: JsonObject = {
    "name": "orders",
    "image": "orders:1",
    "args": ["run"],
    "env": [{"name": "A", "value": "b"}],
}
TEMPLATE: JsonObject = {
    "metadata": {"labels": {"team": "x"}},
    "spec": {"serviceAccountName": "orders", "containers": [CONTAINER]},
}
SUBSET = {"name": "a", "patch": {"metadata": {"labels": {"subset": "a"}}}}


def ref(kind: str, name: str, namespace: str = "shop", api_version: str = "v1", uid: str = "") -> ObjectRef:
    return ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=name, uid=uid)


POD, NODE = ref("Pod", "web-1"), ref("Node", "n1", "")
WEB = ref("Deployment", "web", api_version="apps/v1")
LEASE = "coordination.k8s.io/v1"
CONFIGURATION = ref("MutatingWebhookConfiguration", hooks.NAME, "", webhooks.API_VERSION)
LABELLING = ref("MutatingWebhookConfiguration", webhooks.LABELS, "", webhooks.API_VERSION)


class Attacker:
    """Writes decisions as services do, has them acted upon, and looks whether anything has changed."""

    def __init__(self, log: Log, kube: Client) -> None:
        self.log, self.kube, self.health = log, kube, Health("actuator")
        self._made, self._read = 0, 0

    async def seen(self, kind: str, fact: Event) -> None:
        """The watcher says something."""
        names, namespace = self.log.subjects, getattr(fact, "namespace", "")
        subject = names.fact(self.log.slot_of(namespace), kind, namespace, fact.name)  # type: ignore[attr-defined]  # object facts have one
        await self.log.commit([Message(subject, registry.encode(fact))])

    async def configured(self, part: str, data: JsonObject) -> None:
        body = registry.encode(ConfigSet(at=1.0, name=part, data=data))
        await self.log.commit([Message(self.log.subjects.config(part), body)])

    def slot(self, service: str, effect: Effect) -> Slot:
        whole = service == "provisioning" or isinstance(effect, EndpointEffect)
        return ALL if whole else self.log.slot_of(effect.target.namespace)

    async def asks(
        self, service: str, effect: Effect, *, about: ObjectRef | None = None, slot: str = "", id_of: str = "",
        bounds: Bounds | None = None,
    ) -> Outcome:  # fmt: skip
        """The outcome of one decision. `about`, `slot`, `id_of`: what its subject or id says instead."""
        self._made += 1
        target, where = about or effect.target, Slot(slot) if slot else self.slot(service, effect)
        name = f"{id_of or service}.{where}.{self._made}.0"
        msgspec.structs.force_setattr(effect, "id", name)
        subject = self.log.subjects.decision(
            where, service, target.kind.lower(), target.namespace, target.name
        )
        await self.log.commit([Message(subject, registry.encode(effect))])
        options = Options(nats_url="", cluster="test", qps=500.0, **({"bounds": bounds} if bounds else {}))  # type: ignore[arg-type]  # one field
        self.health = Health("actuator")
        applier = Applier(self.kube, Discovery(self.kube))
        actuator = Actuator(options, self.log, applier, health=self.health, lookout=Watched())
        running = asyncio.create_task(actuator.run())
        try:
            return await self._outcome(name)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _outcome(self, decision: str) -> Outcome:
        async with (
            asyncio.timeout(90),
            self.log.reader([self.log.subjects.outcomes("*")], after=self._read) as reader,
        ):
            while True:
                for record in await reader.fetch(10, timeout_s=1.0):
                    self._read = record.seq
                    event = registry.decode(record.body)
                    if isinstance(event, Outcome) and event.decision == decision:
                        return event

    async def is_refused(self, rule: str, service: str, effect: Effect, **how: Any) -> str:
        """What the outcome says; nothing was written meanwhile."""
        self.kube.written.clear()
        outcome = await self.asks(service, effect, **how)
        assert isinstance(outcome, Rejected), f"{service} got {outcome}"
        assert (outcome.reason, outcome.message.endswith(f"({rule})")) == ("NotAllowed", True), (
            outcome.message
        )
        assert self.kube.writes() == []
        return outcome.message

    async def applied(self, service: str, effect: Effect, **how: Any) -> None:
        outcome = await self.asks(service, effect, **how)
        assert isinstance(outcome, Applied), f"{service} got {outcome}"

    def alerts(self, service: str, rule: str) -> float:
        found = self.health.metrics.registry.get_sample_value(
            "tidewright_actuator_not_allowed_total", {"service": service, "rule": rule}
        )
        return found or 0.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has an actuator of its own, and the one before has ended: what it may still write is not waited for."""
    monkeypatch.setattr(acting, "OWNED_S", 0.0)


@pytest.fixture
async def attacker(log: Log, kube: Client) -> Attacker:
    """In a cluster with a Deployment, a pod, a node; with an autoscaler, a spread, a template and a ShardSet."""
    it = Attacker(log, kube)
    await kube.make("/api/v1/namespaces/shop/pods", apiVersion="v1", kind="Pod", metadata={"name": "web-1"},
                    spec={"containers": [{"name": "c", "image": "i"}]})  # fmt: skip
    await kube.make("/api/v1/nodes", apiVersion="v1", kind="Node", metadata={"name": "n1"})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": 2, "maxReplicas": 6, "scaleTargetRef": target}
    await it.seen(
        "watermarkpodautoscaler",
        WatermarkPodAutoscalerObserved(at=1.0, namespace="shop", name="w", spec=spec),
    )
    await it.seen(
        "workloadspread",
        WorkloadSpreadObserved(at=1.0, namespace="shop", name="s", spec={"subsets": [SUBSET]}),
    )
    await it.seen(
        "podtemplate", PodTemplateObserved(at=1.0, namespace="shop", name="orders", template=TEMPLATE)
    )
    source = {"customResource": {"group": "shop.io", "kind": "Order"}}
    await it.seen(
        "shardset", ShardSetObserved(at=1.0, namespace="shop", name="orders", spec={"source": source})
    )
    return it


def scale(
    replicas: int, target: ObjectRef = WEB, owner: str = "WatermarkPodAutoscaler/shop/w"
) -> ScaleWorkload:
    return ScaleWorkload(at=1.0, target=target, replicas=replicas, from_replicas=3, owner=owner)


def patch(target: ObjectRef, content: JsonObject, **fields: Any) -> PatchObject:
    return PatchObject(at=1.0, target=target, patch=content, **fields)


def worker(namespace: str = "shop", pod: JsonObject | None = None, **container: Any) -> CreateObject:
    made = {**CONTAINER, "args": ["run", "--shard=1"], **container}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "orders-1", "namespace": namespace, "labels": {"team": "x", "app": "orders"}},
        "spec": {"serviceAccountName": "orders", "containers": [made], **(pod or {})},
    }
    return CreateObject(at=1.0, target=ref("Pod", "orders-1", namespace), manifest=manifest)


def placeholder(namespace: str = "kube-system", **spec: Any) -> CreateObject:
    name = "hold-0123456789abcdef"
    container = {
        "name": "hold",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1m"}},
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "tidewright"},
            "annotations": {"tidewright.dev/placeholder": "shop/r/d"},
        },
        "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }
    return CreateObject(at=1.0, target=ref("Pod", name, namespace), manifest=manifest)


def trust(change: Any = None, address: Address = HERE, **more: Any) -> TrustEndpoint:
    """What spread's admission announces, changed by the attacker."""
    made = hooks.announcement(address)
    configurations = msgspec.json.decode(msgspec.json.encode(made.configurations))
    if change is not None:
        change(configurations)
    return TrustEndpoint(
        at=1.0, target=CONFIGURATION, ca=CA, configurations=tuple(configurations),
        conversions=more.get("conversions", {}),
    )  # fmt: skip


# -- what the trial did ----------------------------------------------------------------------------------


async def test_no_service_gets_a_privileged_pod_into_kube_system(attacker: Attacker) -> None:
    evil = worker("kube-system", securityContext={"privileged": True})
    await attacker.is_refused("EffectOfService", "spread-admission", evil)
    await attacker.is_refused("EffectOfService", "autoscaler", evil)
    await attacker.is_refused("NamespaceClosed", "shard-manager", evil)
    await attacker.is_refused("CreateObjectFields", "provisioning", evil)


async def test_no_endpoint_gets_a_webhook_for_everything(attacker: Attacker) -> None:
    def everything(made: list[JsonObject]) -> None:
        made[0]["webhooks"][0]["rules"] = [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*/*"],
                "operations": ["*"],
                "scope": "*",
            }
        ]

    message = await attacker.is_refused("TrustEndpointFields", "spread-admission", trust(everything))
    assert "webhook mpod.kb.io: rules" in message
    await attacker.is_refused("TrustEndpointFields", "shard-labels", trust(everything))
    await attacker.is_refused("EffectOfService", "autoscaler", trust())
    await attacker.applied("spread-admission", trust())


async def test_no_endpoint_redirects_a_conversion_that_is_not_its_own(attacker: Attacker) -> None:
    webhook = {"clientConfig": {"url": "https://127.0.0.1:9443/convert"}, "conversionReviewVersions": ["v1"]}
    for name in ("certificates.cert-manager.io", "watermarkpodautoscalers.datadoghq.com"):
        evil = trust(conversions={name: {"strategy": "Webhook", "webhook": webhook}})
        assert name in await attacker.is_refused("TrustEndpointFields", "spread-admission", evil)
    away = {**webhook, "clientConfig": {"url": "https://evil.example/convert"}}
    evil = trust(conversions={webhooks.SPREADS: {"strategy": "Webhook", "webhook": away}})
    await attacker.is_refused("TrustEndpointFields", "spread-admission", evil)


async def test_no_service_cordons_a_node(attacker: Attacker) -> None:
    cordon = patch(NODE, {"spec": {"unschedulable": True}})
    for service in ("spread-admission", "shard-labels", "autoscaler", "spread"):
        await attacker.is_refused("EffectOfService", service, cordon)
    message = await attacker.is_refused("PatchObjectFields", "provisioning", cordon)
    assert message.startswith("it sets /spec/unschedulable: allowed are /metadata/annotations/tidewright.dev")
    await attacker.is_refused("PatchObjectFields", "shard-manager", cordon)
    await attacker.is_refused(
        "PatchObjectFields", "shard-manager", patch(NODE, {"metadata": {"labels": {"x": "1"}}})
    )
    await attacker.applied(
        "provisioning", patch(NODE, {"metadata": {"annotations": {"tidewright.dev/reservation": "r"}}})
    )


async def test_subject_id_and_slot_must_agree_with_the_target(attacker: Attacker) -> None:
    await attacker.is_refused("SubjectOfTarget", "autoscaler", scale(4), about=POD)
    other = ref("Deployment", "web", "kube-system", "apps/v1")
    await attacker.is_refused("SubjectOfTarget", "autoscaler", scale(4), about=other)
    await attacker.is_refused("IdOfDecider", "autoscaler", scale(4), id_of="provisioning")
    mine = attacker.log.slot_of("shop")
    wrong = next(str(n) for n in range(4) if str(n) != mine)
    await attacker.is_refused("SlotOfTarget", "autoscaler", scale(4), slot=wrong)
    await attacker.is_refused("SlotOfTarget", "autoscaler", scale(4), slot="all")
    await attacker.applied("autoscaler", scale(4))


# -- one by one ------------------------------------------------------------------------------------------


async def test_a_workload_is_scaled_only_for_an_autoscaler_that_names_it_and_within_its_limits(
    attacker: Attacker,
) -> None:
    await make_deployment(attacker.kube, "bank")
    bank = ref("Deployment", "bank", api_version="apps/v1")
    assert "limits, 2 to 6" in await attacker.is_refused("WithoutGround", "autoscaler", scale(0))
    await attacker.is_refused("WithoutGround", "autoscaler", scale(1_000))
    await attacker.is_refused("WithoutGround", "autoscaler", scale(4, bank))
    await attacker.is_refused(
        "WithoutGround", "autoscaler", scale(4, bank, "WatermarkPodAutoscaler/shop/bank")
    )
    await attacker.is_refused("WithoutGround", "autoscaler", scale(4, owner="WatermarkPodAutoscaler/other/w"))
    await attacker.is_refused("WithoutGround", "autoscaler", scale(4, owner=""))
    dns = ref("Deployment", "coredns", "kube-system", "apps/v1")
    await attacker.is_refused("NamespaceClosed", "autoscaler", scale(0, dns))
    await attacker.is_refused("EffectOfService", "spread", scale(4))
    await attacker.is_refused("WithoutGround", "shard-manager", scale(4, owner="service/autoscaler"))
    actuator = ref("Deployment", "actuator", "tidewright", "apps/v1")
    await attacker.is_refused(
        "ScaleWorkloadFields", "shard-manager", scale(0, actuator, "service/autoscaler")
    )
    await attacker.is_refused("WithoutGround", "shard-manager", scale(2, actuator, "service/autoscaler"))


async def test_a_pod_is_created_only_as_a_template_says_and_never_shares_its_node(attacker: Attacker) -> None:
    async def refused(rule: str, effect: CreateObject, says: str) -> None:
        assert says in await attacker.is_refused(rule, "shard-manager", effect)

    await refused("PodSecurity", worker(securityContext={"privileged": True}), "privileged")
    await refused("PodSecurity", worker(pod={"hostNetwork": True}), "hostNetwork")
    await refused(
        "PodSecurity", worker(pod={"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "hostPath"
    )
    await refused(
        "PodSecurity", worker(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), "SYS_ADMIN"
    )
    await refused("CreateObjectFields", worker(pod={"nodeName": "n1"}), "nodeName")
    await refused("WithoutGround", worker(image="evil:1"), "image differs")
    await refused("WithoutGround", worker(command=["sh", "-c", "evil"]), "command differs")
    await refused("WithoutGround", worker(args=["sh"]), "args do not begin")
    await refused("WithoutGround", worker(args=["run", "; curl evil"]), "neither a flag nor")
    await refused("WithoutGround", worker(pod={"serviceAccountName": "admin"}), "serviceAccountName differs")
    secret = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "bank", "key": "token"}}}
    await refused("WithoutGround", worker(env=[*CONTAINER["env"], secret]), "variable T")
    loader = {"name": "LD_PRELOAD", "value": "1"}
    await refused("WithoutGround", worker(env=[*CONTAINER["env"], loader]), "variable LD_PRELOAD")
    await refused("WithoutGround", worker("bank"), "namespace bank has no PodTemplate")
    elsewhere = worker()
    elsewhere.manifest["metadata"]["namespace"] = "kube-system"
    await refused("CreateObjectFields", elsewhere, "metadata.namespace")
    config_map = CreateObject(at=1.0, target=ref("ConfigMap", "c"), manifest={})
    await attacker.is_refused("EffectOfService", "shard-manager", config_map)


async def test_the_pod_of_a_template_is_created_and_of_one_that_was(attacker: Attacker) -> None:
    await attacker.kube.make(
        "/api/v1/namespaces/shop/serviceaccounts", apiVersion="v1", kind="ServiceAccount", metadata={"name": "orders"}
    )  # fmt: skip
    later = msgspec.json.decode(msgspec.json.encode(TEMPLATE))
    later["spec"]["containers"][0]["image"] = "orders:2"
    await attacker.seen(
        "podtemplate", PodTemplateObserved(at=2.0, namespace="shop", name="orders", template=later)
    )
    env = [*CONTAINER["env"], {"name": "SHARD_SLOTS", "value": "0-7,12"}]
    await attacker.applied("shard-manager", worker(env=env))  # a rollout that went back


async def test_pods_go_only_with_the_mark_of_who_wants_them_gone(attacker: Attacker) -> None:
    for service in ("spread", "shard-manager"):
        message = await attacker.is_refused("MarkOfObject", service, DeleteObject(at=1.0, target=POD))
        assert "Pod shop/web-1 carries none of" in message
    await attacker.is_refused("MarkOfObject", "spread", EvictPod(at=1.0, target=POD))
    await attacker.is_refused("EffectOfService", "autoscaler", EvictPod(at=1.0, target=POD))
    await attacker.is_refused("DeleteObjectFields", "provisioning", DeleteObject(at=1.0, target=POD))
    dns = ref("Pod", "coredns-1", "kube-system")
    await attacker.is_refused("NamespaceClosed", "spread", DeleteObject(at=1.0, target=dns))
    await attacker.is_refused(
        "NamespaceClosed", "spread", EvictPod(at=1.0, target=ref("Pod", "n", "tidewright"))
    )
    unspread = ref("Pod", "x", "bank")
    await attacker.is_refused("WithoutGround", "spread", DeleteObject(at=1.0, target=unspread))
    await attacker.is_refused("EffectOfService", "spread", DeleteObject(at=1.0, target=NODE))
    await attacker.is_refused(
        "EffectOfService", "shard-manager", DeleteObject(at=1.0, target=ref("Namespace", "shop", ""))
    )
    placed = {
        "metadata": {"annotations": {"apps.kruise.io/matched-workloadspread": '{"name":"s","subset":"a"}'}}
    }
    await attacker.applied("spread", patch(POD, placed))
    await attacker.applied("spread", EvictPod(at=1.0, target=POD))


async def test_pods_are_evicted_for_scale_down_only_from_a_node_that_it_marked(attacker: Attacker) -> None:
    pod = ref("Pod", "web-1", uid="u1")
    evict = EvictPod(at=1.0, target=pod, node="n1")
    await attacker.is_refused("EvictPodFields", "provisioning", EvictPod(at=1.0, target=POD, node="n1"))
    await attacker.is_refused("WithoutGround", "provisioning", evict)
    await attacker.seen("pod", PodObserved(at=1.0, namespace="shop", name="web-1", uid="u1", node="n1"))
    taints = ({"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"},)
    await attacker.seen("node", NodeObserved(at=1.0, name="n1", uid="n", taints=taints))
    assert "no mark of ours" in await attacker.is_refused("WithoutGround", "provisioning", evict)
    marked = NodeObserved(at=1.0, name="n1", uid="n", taints=taints, annotations={DRAIN: "d"})
    await attacker.seen("node", marked)
    elsewhere = EvictPod(at=1.0, target=pod, node="n2")
    assert "is on node n1" in await attacker.is_refused("WithoutGround", "provisioning", elsewhere)
    await attacker.applied("provisioning", evict)


async def test_nodes_are_given_our_taints_and_no_others(attacker: Attacker) -> None:
    node = ref("Node", "n1", "", uid="n")

    async def refused(effect: MarkNode) -> None:
        await attacker.is_refused("MarkNodeFields", "provisioning", effect)

    await refused(MarkNode(at=1.0, target=node, key="gpu", present=False))
    await refused(MarkNode(at=1.0, target=node, key=DELETION_CANDIDATE, present=True, drain="d", cordon=True))
    await refused(MarkNode(at=1.0, target=NODE, key=TO_BE_DELETED, present=True, drain="d"))
    gone = MarkNode(at=1.0, target=node, key=TO_BE_DELETED, present=False, drain="d")
    await attacker.is_refused("EffectOfService", "spread", gone)
    await attacker.applied("provisioning", gone)


async def test_patches_set_what_their_service_is_for_and_nothing_else(attacker: Attacker) -> None:
    async def refused(service: str, effect: PatchObject, rule: str = "PatchObjectFields") -> None:
        await attacker.is_refused(rule, service, effect)

    placed = {"apps.kruise.io/matched-workloadspread": '{"name":"s","subset":"a"}'}
    await refused("spread", patch(POD, {"spec": {"containers": []}}))
    await refused("spread", patch(POD, {"metadata": {"ownerReferences": []}}))
    await refused(
        "spread", patch(POD, {"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": ""}}})
    )
    await refused("spread", patch(POD, {"metadata": {"labels": {"app": "bank"}}}), "WithoutGround")
    await refused(
        "spread",
        patch(POD, {"metadata": {"labels": {"app": "bank"}, "annotations": placed}}),
        "WithoutGround",
    )
    await attacker.applied(
        "spread", patch(POD, {"metadata": {"labels": {"subset": "a"}, "annotations": placed}})
    )
    wpa = ref("WatermarkPodAutoscaler", "w", api_version="datadoghq.com/v1alpha1")
    await refused("autoscaler", patch(wpa, {"spec": {"maxReplicas": 1000}}))
    await refused("autoscaler", patch(wpa, {"metadata": {"labels": {"a": "b"}}}))
    lease = ref("Lease", "kube-scheduler", api_version=LEASE)
    taken = {"spec": {"holderIdentity": "tidewright-shard-manager_x"}}
    await refused(
        "shard-manager", patch(lease, taken, expect={"/spec/holderIdentity": "tidewright-shard-manager_x"})
    )
    await refused(
        "shard-manager", patch(lease, {"spec": {"holderIdentity": ""}}, expect={"/spec/holderIdentity": "a"})
    )
    member = ref("ShardMember", "m", api_version="shards.tidewright.dev/v1alpha1")
    await refused("shard-manager", patch(member, {"spec": {"taken": True, "slots": "0"}}))
    order = ref("Order", "o", api_version="shop.io/v1")
    await refused(
        "shard-manager", patch(order, {"metadata": {"labels": {"shards.tidewright.dev/slot": "1", "b": "2"}}})
    )
    await refused("shard-manager", patch(order, {"metadata": {"labels": {"tier": "gold"}}}))
    for governed in (
        ref("Namespace", "shop", ""),
        ref("Secret", "s"),
        ref("ClusterRole", "x", "", "rbac.authorization.k8s.io/v1"),
    ):
        await refused(
            "shard-manager", patch(governed, {"metadata": {"labels": {"shards.tidewright.dev/slot": "1"}}})
        )


async def test_leases_are_held_under_our_name_and_where_the_configuration_says(attacker: Attacker) -> None:
    ours = ref("Lease", "propeller-leader", api_version=LEASE)

    def hold(target: ObjectRef = ours, holder: str = "tidewright-shard-manager_1", **more: Any) -> HoldLease:
        return HoldLease(at=1.0, target=target, holder=holder, duration_s=15, **more)

    scheduler = ref("Lease", "kube-scheduler", "kube-system", LEASE)
    await attacker.is_refused("NamespaceClosed", "shard-manager", hold(scheduler, stopped="x y"))
    await attacker.is_refused("HoldLeaseFields", "shard-manager", hold(holder="flyte-propeller-0"))
    await attacker.is_refused("WithoutGround", "shard-manager", hold())
    lock = {"enabled": True, "lock-config-map": {"name": "propeller-leader", "namespace": "shop"}}
    managers = [{"namespace": "shop", "config": {"propeller": {"leader-election": lock}}}]
    await attacker.configured("shardmanager", {"managers": managers})
    await attacker.applied("shard-manager", hold())
    await attacker.is_refused(
        "WithoutGround", "shard-manager", hold(ref("Lease", "operator", api_version=LEASE))
    )
    made = CreateObject(at=1.0, target=ref("Lease", "operator", api_version=LEASE), manifest={"spec": {}})
    await attacker.is_refused("CreateObjectFields", "shard-manager", made)
    await attacker.is_refused(
        "DeleteObjectFields",
        "shard-manager",
        DeleteObject(at=1.0, target=ref("Lease", "operator", api_version=LEASE)),
    )


async def test_placeholders_do_nothing_and_have_the_configured_image(attacker: Attacker) -> None:
    evil = {"name": "hold", "image": "evil:1", "resources": {}}
    await attacker.is_refused("WithoutGround", "provisioning", placeholder(containers=[evil]))
    await attacker.is_refused("WithoutGround", "provisioning", placeholder("shop"))
    for spec in (
        {"containers": [{**evil, "command": ["sh"]}]},
        {"automountServiceAccountToken": True},
        {"serviceAccountName": "admin"},
        {"hostNetwork": True},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    ):
        await attacker.is_refused("CreateObjectFields", "provisioning", placeholder(**spec))
    for namespace in ("shop", "kube-system"):
        await attacker.is_refused(
            "DeleteObjectFields", "provisioning", DeleteObject(at=1.0, target=ref("Pod", "p", namespace))
        )


async def test_templates_are_kept_and_pods_are_tried_only_for_a_buffer_that_asks_for_it(
    attacker: Attacker,
) -> None:
    target = ref("CapacityBuffer", "web", api_version="autoscaling.x-k8s.io/v1beta1", uid="u")
    asking = ResolvePod(at=1.0, target=target, source=ref("PodTemplate", "theirs"))
    await attacker.is_refused("WithoutGround", "provisioning", asking)
    spec = {"podTemplateRef": {"name": "mine"}, "replicas": 1}
    await attacker.seen(
        "capacitybuffer", CapacityBufferObserved(at=1.0, namespace="shop", name="web", uid="u", spec=spec)
    )
    await attacker.is_refused("WithoutGround", "provisioning", asking)
    elsewhere = msgspec.structs.replace(asking, source=ref("PodTemplate", "mine", "bank"))
    await attacker.is_refused("WithoutGround", "provisioning", elsewhere)
    name = "capacitybuffer-web-pod-template"
    owner = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "name": "web", "uid": "u",
        "controller": True,
    }  # fmt: skip

    def kept(name: str = name, owner: JsonObject = owner, **more: Any) -> CreateObject:
        manifest = {"metadata": {"ownerReferences": [owner], **more}, "template": TEMPLATE}
        return CreateObject(at=1.0, target=ref("PodTemplate", name), manifest=manifest)

    for wrong in (kept("orders"), kept(owner={**owner, "kind": "Deployment"}), kept(labels={"a": "b"})):
        await attacker.is_refused("CreateObjectFields", "provisioning", wrong)
    await attacker.is_refused("WithoutGround", "provisioning", kept(owner={**owner, "uid": "another"}))
    change = {"metadata": {"ownerReferences": [owner]}, "template": TEMPLATE}
    theirs = patch(ref("PodTemplate", name), change)
    await attacker.is_refused("PatchObjectFields", "provisioning", theirs)
    await attacker.applied("provisioning", kept())
    expect = {"/metadata/ownerReferences/0/kind": "CapacityBuffer"}
    await attacker.applied("provisioning", patch(ref("PodTemplate", name), change, expect=expect))


async def test_statuses_reports_and_object_events_are_of_ones_own_kinds(attacker: Attacker) -> None:
    spread = ref("WorkloadSpread", "s", api_version="apps.kruise.io/v1alpha1")
    for service in ("autoscaler", "provisioning", "shard-manager"):
        await attacker.is_refused("EffectOfService", service, SetStatus(at=1.0, target=spread, status={}))
    await attacker.is_refused(
        "EffectOfService", "spread", SetStatus(at=1.0, target=POD, status={"phase": "Failed"})
    )
    await attacker.is_refused("EffectOfService", "autoscaler", SetStatus(at=1.0, target=NODE, status={}))
    request = ref("ProvisioningRequest", "r", api_version="autoscaling.x-k8s.io/v1")
    await attacker.is_refused(
        "SetStatusFields", "provisioning", SetStatus(at=1.0, target=request, status={}, apply_as="kueue")
    )
    await attacker.is_refused("DeleteObjectFields", "provisioning", DeleteObject(at=1.0, target=request))
    said = RecordObjectEvent(
        at=1.0, target=spread, event_type="Normal", reason="x", message="x", component="kubelet"
    )
    await attacker.is_refused("RecordObjectEventFields", "spread", said)
    await attacker.is_refused("EffectOfService", "autoscaler", said)


async def test_only_provisioning_orders_nodes(attacker: Attacker) -> None:
    group = ref("NodeGroup", "g", "", "cloud/v1")
    order = IncreaseNodeGroup(at=1.0, target=group, size=100, from_size=1)
    for service in ("autoscaler", "spread", "shard-manager", "spread-admission"):
        await attacker.is_refused("EffectOfService", service, order, slot="all")
    await attacker.is_refused("EffectOfService", "autoscaler", scale(4, group), slot="all")
    other = msgspec.structs.replace(order, target=ref("NodeGroup", "g", "", "apps/v1"))
    await attacker.is_refused("EffectOfService", "provisioning", other)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: made[0]["metadata"].update(name="cert-manager"), "named 'cert-manager'"),
        (lambda made: made[0]["webhooks"][0].update(name="mine.example"), "is none of"),
        (lambda made: made[0]["webhooks"][0].update(timeoutSeconds=30), "timeoutSeconds 30"),
        (lambda made: made[1]["webhooks"][0].update(failurePolicy="Fail"), "failurePolicy 'Fail'"),
        (lambda made: made[1]["webhooks"][1].update(failurePolicy="Fail"), "failurePolicy 'Fail'"),
        (lambda made: made[0]["webhooks"][0].pop("namespaceSelector"), "does not leave out kube-system"),
        (lambda made: made[0]["webhooks"][0].update(namespaceSelector={}), "does not leave out kube-system"),
        (lambda made: made[0]["webhooks"][0].update(clientConfig={"url": "https://evil.example/mutate-pod"}), "is none of spread-admission"),
        (lambda made: made[0]["webhooks"][0].update(clientConfig={"url": "https://127.0.0.1:1/other"}), "its path is"),
        (lambda made: made[0]["webhooks"][0].update(clientConfig={"service": {"namespace": "bank", "name": "s", "path": "/mutate-pod"}}), "service bank/s is not"),
        (lambda made: made[0]["webhooks"][0].update(reinvocationPolicy="IfNeeded"), "reinvocationPolicy is not declared"),
        (lambda made: made[0].update(kind="ValidatingAdmissionPolicy"), "kind 'ValidatingAdmissionPolicy'"),
        (lambda made: made[0]["metadata"].update(finalizers=["a/b"]), "the configuration is named"),
    ],
)  # fmt: skip
async def test_webhooks_are_those_that_are_declared(attacker: Attacker, change: Any, says: str) -> None:
    assert says in await attacker.is_refused("TrustEndpointFields", "spread-admission", trust(change))


async def test_who_leaves_changes_nothing_about_who_stays(attacker: Attacker) -> None:
    await attacker.applied("spread-admission", trust())
    path = f"/apis/{webhooks.API_VERSION}/mutatingwebhookconfigurations/{hooks.NAME}"
    before = await attacker.kube.get(path)
    elsewhere = hooks.announcement(Address(url="https://localhost:1"), "Fail")
    leaving = ForgetEndpoint(
        at=1.0, target=CONFIGURATION, ca=certificates.make(("x",)).ca_pem,
        configurations=elsewhere.configurations,
    )  # fmt: skip
    await attacker.applied("spread-admission", leaving)
    assert await attacker.kube.get(path) == before


async def test_labels_are_announced_only_for_what_shard_sets_are_about(attacker: Attacker) -> None:
    def labels(group: str, resource: str, name: str = "orders", **more: Any) -> TrustEndpoint:
        rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
                "operations": ["CREATE", "UPDATE"], "scope": "*", **more}  # fmt: skip
        client = {"url": f"https://127.0.0.1:9444/label/shop/{name}"}
        hook = webhooks.hook(
            f"{name}.shop.shards.tidewright.dev",
            client,
            rule,
            policy="Ignore",
            namespaces=webhooks.selector("tidewright"),
        )
        made = webhooks.configuration(webhooks.MUTATING, webhooks.LABELS, [hook])
        return TrustEndpoint(at=1.0, target=LABELLING, ca=CA, configurations=(made,))

    await attacker.is_refused("TrustEndpointFields", "shard-labels", labels("", "secrets"))
    await attacker.is_refused(
        "TrustEndpointFields", "shard-labels", labels("rbac.authorization.k8s.io", "roles")
    )
    await attacker.is_refused("TrustEndpointFields", "shard-labels", labels("*", "orders"))
    await attacker.is_refused("TrustEndpointFields", "shard-labels", labels("shop.io", "*"))
    await attacker.is_refused(
        "TrustEndpointFields", "shard-labels", labels("shop.io", "orders", operations=["DELETE"])
    )
    await attacker.is_refused("WithoutGround", "shard-labels", labels("", "configmaps"))
    await attacker.is_refused("WithoutGround", "shard-labels", labels("shop.io", "orders", "unheard-of"))
    await attacker.applied("shard-labels", labels("shop.io", "orders"))


# -- bounds, alerts, and what cannot be read ---------------------------------------------------------------


async def test_what_is_off_and_where_it_is_not_given_is_refused(attacker: Attacker) -> None:
    off = Bounds(features=frozenset(Feature) - {Feature.AUTOSCALING})
    await attacker.is_refused("FeatureOff", "autoscaler", scale(4), bounds=off)
    given = Bounds(given={"autoscaler": frozenset(("bank",))})
    message = await attacker.is_refused("NamespaceNotGiven", "autoscaler", scale(4), bounds=given)
    assert message.startswith("namespace shop is not given to autoscaler: given are bank")
    await attacker.applied("autoscaler", scale(4), bounds=Bounds(given={"autoscaler": frozenset(("shop",))}))


async def test_a_refusal_is_counted_and_said_once_per_cause(attacker: Attacker) -> None:
    with capture_logs() as logs:
        await attacker.is_refused("WithoutGround", "autoscaler", scale(0))
    assert attacker.alerts("autoscaler", "WithoutGround") == 1.0
    (said,) = [line for line in logs if line["event"] == "a service asks for what it may not"]
    assert (said["log_level"], said["service"], said["rule"]) == ("warning", "autoscaler", "WithoutGround")


@pytest.mark.parametrize(
    "manifest", [{"spec": [1]}, {"metadata": 3}, {"spec": {"containers": [7]}}, {"spec": {"volumes": 1}}]
)
async def test_what_cannot_be_judged_is_not_allowed(attacker: Attacker, manifest: JsonObject) -> None:
    evil = CreateObject(at=1.0, target=ref("Pod", "orders-1"), manifest=manifest)
    outcome = await attacker.asks("shard-manager", evil)
    assert isinstance(outcome, Rejected)
    assert attacker.kube.writes() == []
    await attacker.applied("autoscaler", scale(4))  # and the next one is done


async def test_what_is_refused_supersedes_nothing(attacker: Attacker) -> None:
    """Both lie on the log before the actuator reads: the attacker's stands behind the one that is meant."""
    names, slot = attacker.log.subjects, attacker.log.slot_of("shop")
    subject = names.decision(slot, "autoscaler", "deployment", "shop", "web")
    good = msgspec.structs.replace(scale(5), id=f"autoscaler.{slot}.900.0")
    evil = msgspec.structs.replace(scale(0), id=f"shard-manager.{slot}.901.0")
    foreign = names.decision(slot, "shard-manager", "deployment", "shop", "web")
    await attacker.log.commit(
        [Message(subject, registry.encode(good)), Message(foreign, registry.encode(evil))]
    )
    await attacker.applied("autoscaler", scale(5))  # behind it on the log, and the same once more
    assert ("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web/scale") in attacker.kube.writes()


async def test_a_decision_on_a_subject_of_another_form_stops_nobody(attacker: Attacker) -> None:
    subject = f"{attacker.log.subjects.root}.decision.0.autoscaler"
    body = registry.encode(msgspec.structs.replace(scale(4), id="autoscaler.0.1.0\r\nTw-Writer: watcher"))
    await attacker.log.commit([Message(subject, body)])
    good = attacker.log.subjects.decision(
        attacker.log.slot_of("shop"), "autoscaler", "deployment", "shop", "web"
    )
    await attacker.log.commit([Message(good, body)])
    await attacker.applied("autoscaler", scale(4))
