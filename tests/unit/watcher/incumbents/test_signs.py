"""What objects show of incumbents, as their distributions make them, and of ourselves: nothing."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.watcher.incumbents import manifests
from tests.unit.watcher.incumbents.manifests import CHARTS, LEADERS, Object, deployment, raw
from tidewright.kube.projection.reading import Malformed
from tidewright.watcher.incumbents.rivals import BY_SERVICE, LOOKS, RIVALS, Rival
from tidewright.watcher.incumbents.signs import LEADER, Sign, Weight, read, sign_of_writes

NOW = 1_790_000_000.0


def shown(kind: str, obj: Object) -> Sign | None:
    return read(kind, raw(obj))[1]


@pytest.mark.parametrize("service", CHARTS)
def test_each_rival_is_known_by_its_chart(service: str) -> None:
    sign = shown("Deployment", deployment(CHARTS[service]))
    assert sign is not None
    assert sign.rival.service == service
    assert sign.weight is Weight.RUNS
    assert sign.holds


@pytest.mark.parametrize("service", CHARTS)
def test_a_deployment_without_pods_is_known_and_stands_still(service: str) -> None:
    sign = shown("Deployment", deployment(CHARTS[service], replicas=0))
    assert sign is not None
    assert not sign.holds


def stripped(service: str, *, image: str = "", command: bool = False, labels: bool = False) -> Object:
    """A chart's Deployment of which only one thing tells what it is."""
    found = deployment(CHARTS[service])
    chart_labels = found["metadata"]["labels"]
    container = found["spec"]["template"]["spec"]["containers"][0]
    words = container.pop("command")
    container.pop("args", None)
    container["image"] = image or "mirror.example.com/infra/thing:1"
    found["metadata"] |= {"name": "x", "labels": chart_labels if labels else {}}
    found["spec"]["template"]["metadata"]["labels"] = {}
    if command:
        container["command"] = words
    return found


@pytest.mark.parametrize(
    ("service", "image"),
    [
        ("provisioning", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.30.0"),
        ("provisioning", "k8s.gcr.io/cluster-autoscaler-arm64:v1.17.3"),
        ("provisioning", "rancher/mirrored-cluster-autoscaler@sha256:00ff"),
        ("autoscaler", "localhost:5000/watermarkpodautoscaler"),
        ("spread", "openkruise-registry.cn-shanghai.cr.aliyuncs.com/openkruise/kruise-manager:v1.8.0"),
    ],
)
def test_the_image_alone_tells(service: str, image: str) -> None:
    sign = shown("Deployment", stripped(service, image=image))
    assert sign is not None
    assert (sign.rival.service, sign.evidence.shows) == (service, f"runs {image}")


@pytest.mark.parametrize("service", ["provisioning", "autoscaler", "shard-manager"])
def test_the_command_alone_tells(service: str) -> None:
    sign = shown("Deployment", stripped(service, command=True))
    assert sign is not None
    assert sign.rival.service == service


@pytest.mark.parametrize("service", ["provisioning", "autoscaler", "shard-manager"])
def test_the_labels_alone_tell(service: str) -> None:
    sign = shown("Deployment", stripped(service, labels=True))
    assert sign is not None
    assert sign.rival.service == service


def test_a_mirrored_image_under_the_example_manifest_tells_by_its_command() -> None:
    sign = shown("Deployment", deployment(manifests.CLUSTER_AUTOSCALER_EXAMPLE))
    assert sign is not None
    assert sign.rival.service == "provisioning"


@pytest.mark.parametrize(
    "other",
    [
        manifests.PROPORTIONAL_AUTOSCALER,
        manifests.KRUISE_ROLLOUT,
        manifests.PROPELLER_ALONE,
        manifests.OURS,
    ],
)
def test_others_and_ours_are_no_rivals(other: str) -> None:
    assert shown("Deployment", deployment(other)) is None


def test_a_kruise_that_spreads_nothing_is_no_rival() -> None:
    found = deployment(manifests.KRUISE_CHART)
    found["spec"]["template"]["spec"]["containers"][0]["args"][-1] = (
        "--feature-gates=PreDownloadImageForInPlaceUpdate=true,WorkloadSpread=false"
    )
    assert shown("Deployment", found) is None


# -- where ---------------------------------------------------------------------------------------


def watching(value: str | None) -> Object:
    found = deployment(manifests.WATERMARK_CHART)
    env = found["spec"]["template"]["spec"]["containers"][0]["env"]
    if value is None:
        del env[0]
    else:
        env[0]["value"] = value
    return found


@pytest.mark.parametrize(
    ("value", "scope"), [("", None), (None, None), ("shop", ("shop",)), ("b, a,b", ("a", "b"))]
)
def test_the_namespaces_of_a_watermark_controller(value: str | None, scope: tuple[str, ...] | None) -> None:
    sign = shown("Deployment", watching(value))
    assert sign is not None
    assert sign.scope == scope


def test_its_own_namespace_where_the_variable_refers_to_it() -> None:
    sign = shown("Deployment", deployment(manifests.WATERMARK_KUSTOMIZE))
    assert sign is not None
    assert sign.scope == ("datadog",)


@pytest.mark.parametrize("flag", [["--namespace=games"], ["--namespace", "games"]])
def test_the_namespace_flag_of_kruise(flag: list[str]) -> None:
    found = deployment(manifests.KRUISE_CHART)
    found["spec"]["template"]["spec"]["containers"][0]["args"] += flag
    sign = shown("Deployment", found)
    assert sign is not None
    assert sign.scope == ("games",)


def test_cluster_autoscaler_acts_everywhere_whatever_namespace_its_lock_is_in() -> None:
    sign = shown("Deployment", deployment(manifests.CLUSTER_AUTOSCALER_CHART))
    assert sign is not None
    assert sign.scope is None


def test_a_propeller_manager_acts_in_its_own_namespace() -> None:
    sign = shown("Deployment", deployment(manifests.PROPELLER_MANAGER_CHART))
    assert sign is not None
    assert sign.scope == ("flyte",)


# -- locks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", LEADERS)
def test_a_leaders_lease(service: str) -> None:
    namespace, name, holder = LEADERS[service]
    sign = shown("Lease", manifests.lease(namespace, name, holder, NOW))
    assert sign is not None
    assert (sign.rival.service, sign.holds, sign.beat_at, sign.lasts_s) == (service, True, NOW, 30.0)
    assert sign.evidence.shows == f"is held and renewed by {holder}"


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        ("provisioning", "Endpoints"),
        ("autoscaler", "ConfigMap"),
        ("spread", "ConfigMap"),
        ("shard-manager", "ConfigMap"),
    ],
)
def test_a_leaders_lock_from_before_there_were_leases(service: str, kind: str) -> None:
    namespace, name, holder = LEADERS[service]
    sign = shown(kind, manifests.old_lock(namespace, name, holder, NOW))
    assert sign is not None
    assert (sign.rival.service, sign.holds, sign.beat_at) == (service, True, NOW)


def test_the_evidence_of_a_lock_is_the_same_after_each_renewal() -> None:
    first, second = (
        shown("Lease", manifests.lease(*LEADERS["provisioning"], renewed)) for renewed in (NOW, NOW + 2)
    )
    assert first is not None
    assert second is not None
    assert first.evidence == second.evidence
    assert first.beat != second.beat


def test_a_lock_that_was_given_back_is_held_by_nobody() -> None:
    sign = shown("Lease", manifests.lease("kube-system", "cluster-autoscaler", "", NOW))
    assert sign is not None
    assert not sign.holds


def test_our_own_manager_on_the_propeller_managers_lock_is_not_a_rival() -> None:
    ours = manifests.lease(
        "flyte", "propeller-leader", "tidewright-shard-manager_ab12", NOW, manager="tidewright"
    )
    sign = shown("Lease", ours)
    assert sign is not None
    assert not sign.holds


@pytest.mark.parametrize(
    ("holder", "manager", "holds"),
    [
        ("flytepropeller-6b8c9_kq2m9xw8bz", "", False),
        ("flytepropeller-6b8c9_kq2m9xw8bz", "flytepropeller", False),
        ("pod-7_kq2m9xw8bz", "flytepropeller", False),
        ("flytepropeller-manager-5c7d9_kq2m9xw8bz", "", True),
        ("pod-7_kq2m9xw8bz", "flytepropeller-manager", True),
    ],
)
def test_a_propeller_without_a_manager_elects_by_the_same_lock_and_is_no_rival(
    holder: str, manager: str, holds: bool
) -> None:
    sign = shown("Lease", manifests.lease("flyte", "propeller-leader", holder, NOW, manager=manager))
    assert sign is not None
    assert sign.holds is holds


def test_leases_of_others_show_nothing() -> None:
    assert shown("Lease", manifests.lease("kube-node-lease", "node-1", "node-1", NOW)) is None
    assert shown("ConfigMap", manifests.old_lock("kube-system", "cluster-autoscaler", "x", NOW)) is None


# -- what is written -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "manager"),
    [
        ("provisioning", "cluster-autoscaler"),
        ("autoscaler", "watermarkpodautoscaler"),
        ("autoscaler", "manager"),
        ("spread", "kruise-manager"),
    ],
)
def test_the_field_manager_of_a_status(service: str, manager: str) -> None:
    rival = BY_SERVICE[service]
    sign = sign_of_writes(
        rival, rival.writes[0].kind, "shop",
        [manifests.written(manager, NOW - 50), manifests.written(manager, NOW), {"managedFields": None}],
    )  # fmt: skip
    assert sign is not None
    assert (sign.scope, sign.beat_at) == (None if service == "provisioning" else ("shop",), NOW)
    assert sign.evidence.shows == f"status is written by field manager {manager}"


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.service)
def test_our_own_writes_are_not_a_rivals(rival: Rival) -> None:
    stamp: Object = {"f:status": {"f:conditions": {}, "f:provisioningClassDetails": {"f:decision": {}}}}
    ours = [
        manifests.written("tidewright", NOW),
        manifests.written("cluster-autoscaler", NOW, operation="Apply", fields=stamp),
        manifests.written("kubectl-edit", NOW),
    ]
    assert sign_of_writes(rival, "Any", "shop", ours) is None


def test_a_status_applied_by_the_real_cluster_autoscaler_has_no_stamp_of_ours() -> None:
    theirs = manifests.written(
        "cluster-autoscaler", NOW, operation="Apply",
        fields={"f:status": {"f:conditions": {'k:{"type":"Provisioned"}': {}}}},
    )  # fmt: skip
    assert sign_of_writes(BY_SERVICE["provisioning"], "ProvisioningRequest", "shop", [theirs]) is not None


def test_writes_of_the_spec_by_the_same_name_say_nothing() -> None:
    entry = {
        "manager": "manager",
        "operation": "Update",
        "time": "2026-09-21T10:00:00Z",
        "fieldsV1": {"f:spec": {}},
    }
    rival = BY_SERVICE["autoscaler"]
    assert sign_of_writes(rival, "WatermarkPodAutoscaler", "shop", [{"managedFields": [entry]}]) is None


def test_the_status_map_by_cluster_autoscalers_own_stamp() -> None:
    sign = shown("ConfigMap", manifests.status_map("2026-09-21 14:13:20.190150095 +0000 UTC"))
    assert sign is not None
    assert sign.rival.service == "provisioning"
    assert sign.beat_at == pytest.approx(1_790_000_000.19, abs=0.01)


def test_the_status_map_by_its_field_manager() -> None:
    sign = shown("ConfigMap", manifests.status_map(None, at=NOW))
    assert sign is not None
    assert sign.beat_at == NOW


def test_the_status_map_that_we_write_is_ours() -> None:
    assert shown("ConfigMap", manifests.status_map(None, manager="tidewright", at=NOW)) is None


def test_a_webhook_of_kruise_for_pods() -> None:
    sign = shown("MutatingWebhookConfiguration", manifests.webhooks())
    assert sign is not None
    assert (sign.rival.service, sign.weight) == ("spread", Weight.TRACE)
    assert shown("MutatingWebhookConfiguration", manifests.webhooks(resource="clonesets")) is None
    assert shown("MutatingWebhookConfiguration", manifests.webhooks("tidewright-spread")) is None


# -- the table -----------------------------------------------------------------------------------


def test_everything_but_deployments_is_looked_at_by_name() -> None:
    assert [look.kind for look in LOOKS if not look.name] == ["Deployment"]
    for look in LOOKS:
        assert look.query == ({"fieldSelector": f"metadata.name={look.name}"} if look.name else {})


def test_what_cannot_be_read_is_an_error_that_names_the_field() -> None:
    with pytest.raises(Malformed, match=r"Deployment x cannot be read: .*spec\.template"):
        read("Deployment", b'{"metadata": {"name": "x"}, "spec": {"template": 5}}')


@pytest.mark.parametrize(
    "record",
    [
        '{"holderIdentity": "x", "leaseDurationSeconds": ' + "9" * 400 + "}",
        '{"x": ' + "[" * 100_000,
        '{"leaseDurationSeconds": "soon"}',
    ],
)
def test_a_lock_that_anybody_may_write_is_read_or_skipped(record: str) -> None:
    """One ended the watcher, and each that was started anew."""
    rival = RIVALS[0]
    meta = {"name": min(rival.locks), "namespace": "shop", "annotations": {LEADER: record}}
    body = msgspec.json.encode({"metadata": meta})
    if "999" in record:
        sign = read(rival.old_lock, body)[1]
        assert sign is not None
        assert sign.lasts_s == 7200.0
    else:
        with pytest.raises(Malformed, match=f"{rival.old_lock} shop/{meta['name']} cannot be read"):
            read(rival.old_lock, body)
