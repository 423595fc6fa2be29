from __future__ import annotations

import msgspec
import pytest

from tidewright.events.autoscaler import DatadogMonitorObserved
from tidewright.events.facts import WorkloadObserved
from tidewright.events.provisioning import (
    DaemonSetObserved,
    PodDisruptionBudgetObserved,
    PodTemplateObserved,
    ProvisioningRequestObserved,
    ResourceQuotaObserved,
)
from tidewright.kube import kinds
from tidewright.kube.projection.reading import Malformed

META = {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
CONTAINER = {"name": "c", "image": "i", "env": [{"name": "x"}], "resources": {"requests": {"cpu": "1"}}}


def projected(kind: str, **content: object) -> object:
    return kinds.BY_NAME[kind].project(msgspec.json.encode({"metadata": META} | content)).fact


def test_a_pod_template_is_kept_whole() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    assert projected("podtemplate", template=template) == PodTemplateObserved(
        at=0.0, namespace="shop", name="a", uid="u", template=template, resource_version="7"
    )


def test_a_daemon_set_is_kept_as_scheduling_sees_it() -> None:
    template = {"spec": {"containers": [CONTAINER], "tolerations": [{"operator": "Exists"}]}}
    fact = projected("daemonset", spec={"template": template})
    assert isinstance(fact, DaemonSetObserved)
    assert fact.template["spec"] == {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"operator": "Exists"}],
    }


def test_a_quota_counts_cpu_in_milli_cores() -> None:
    fact = projected(
        "resourcequota",
        spec={"hard": {"pods": "9"}},
        status={"hard": {"requests.cpu": "1500m", "limits.memory": "1Gi"}, "used": {"cpu": "1", "pods": "3"}},
    )
    assert isinstance(fact, ResourceQuotaObserved)
    assert fact.hard == {"requests.cpu": 1500, "limits.memory": 2**30}
    assert fact.used == {"cpu": 1000, "pods": 3}


def test_a_quota_without_a_status_is_its_spec() -> None:
    fact = projected("resourcequota", spec={"hard": {"pods": "9"}})
    assert isinstance(fact, ResourceQuotaObserved)
    assert fact.hard == {"pods": 9}


def test_a_quota_of_some_pods_only_says_of_which() -> None:
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    scoped = {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [high]}}
    fact = projected("resourcequota", spec={"hard": {"pods": "0"}, **scoped}, status={"hard": {"pods": "0"}})
    assert isinstance(fact, ResourceQuotaObserved)
    assert fact.hard == {"pods": 0}
    assert fact.scopes == ({"scopeName": "BestEffort", "operator": "Exists"}, high)


@pytest.mark.parametrize("controller", [True, False])
def test_a_request_says_whether_a_controller_owns_it(controller: bool) -> None:
    owner = {"apiVersion": "v1", "kind": "W", "name": "w", "uid": "x", "controller": controller}
    fact = projected("provisioningrequest", metadata=META | {"ownerReferences": [owner]}, spec={"x": 1})
    assert isinstance(fact, ProvisioningRequestObserved)
    assert (fact.controlled, fact.spec) == (controller, {"x": 1})


@pytest.mark.parametrize(("state", "wanted"), [("OK", "OK"), (None, None), (3, None)])
def test_a_monitor_has_a_state_when_it_is_a_text(state: object, wanted: str | None) -> None:
    fact = projected("datadogmonitor", status={"monitorState": state})
    assert isinstance(fact, DatadogMonitorObserved)
    assert fact.state == wanted


def test_a_job_is_as_many_as_run_in_parallel() -> None:
    fact = projected("job", spec={"parallelism": 4}, status={"active": 3, "ready": 2})
    assert isinstance(fact, WorkloadObserved)
    assert (fact.replicas, fact.status_replicas, fact.ready_replicas) == (4, 3, 2)
    assert (fact.api_version, fact.kind) == ("batch/v1", "Job")


@pytest.mark.parametrize("kind", ["podtemplate", "daemonset", "resourcequota", "provisioningrequest"])
def test_what_cannot_be_read_is_named(kind: str) -> None:
    with pytest.raises(Malformed, match=f"(?i){kind} shop/a"):
        projected(
            kind,
            template=3,
            spec={"template": 3, "hard": 3} if kind != "provisioningrequest" else 3,
        )


def test_a_budget_says_how_many_pods_may_go() -> None:
    selector = {"matchLabels": {"app": "web"}}
    fact = (
        kinds.BY_NAME["poddisruptionbudget"]
        .project(
            msgspec.json.encode(
                {
                    "metadata": META | {"generation": 3},
                    "spec": {
                        "selector": selector,
                        "minAvailable": 1,
                        "unhealthyPodEvictionPolicy": "AlwaysAllow",
                    },
                    "status": {"disruptionsAllowed": 2, "observedGeneration": 2, "currentHealthy": 3},
                }
            )
        )
        .fact
    )
    assert fact == PodDisruptionBudgetObserved(
        at=0.0,
        namespace="shop",
        name="a",
        uid="u",
        selector=selector,
        allowed=2,
        behind=True,
        unhealthy_always=True,
    )


def test_a_budget_without_a_selector_is_not_one_that_selects_all() -> None:
    none = projected("poddisruptionbudget", spec={})
    every = projected("poddisruptionbudget", spec={"selector": {}})
    assert isinstance(none, PodDisruptionBudgetObserved)
    assert isinstance(every, PodDisruptionBudgetObserved)
    assert (none.selector, every.selector) == (None, {})


def test_a_replication_controller_says_how_many_pods_it_wants() -> None:
    fact = projected(
        "replicationcontroller", spec={"replicas": 2, "selector": {"app": "web"}, "template": {"spec": {}}}
    )
    assert isinstance(fact, WorkloadObserved)
    assert (fact.kind, fact.api_version) == ("ReplicationController", "v1")
    assert (fact.replicas, fact.selector, fact.template) == (2, "app=web", "")
