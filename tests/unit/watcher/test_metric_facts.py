from __future__ import annotations

import json

import pytest

from tidewright.events.autoscaler import WatermarkPodAutoscalerGone, WatermarkPodAutoscalerObserved
from tidewright.events.facts import MetricSampled
from tidewright.kube.errors import TIMEOUT, UNREACHABLE, KubeError
from tidewright.watcher import metric_facts
from tidewright.watcher.metric_queries import Query, Target, Wishes, custom_target

EXTERNAL = Query("shop", "external/requests/app=web")
CPU = Query("shop", "resource/cpu/app=web")


def external(*items: object) -> bytes:
    return json.dumps({"kind": "ExternalMetricValueList", "items": list(items)}).encode()


def pod_metrics(name: str, *usages: dict[str, str]) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "timestamp": "2026-11-21T12:00:00Z",
        "containers": [{"name": str(n), "usage": usage} for n, usage in enumerate(usages)],
    }


def test_an_external_query_asks_for_its_metric_and_selector() -> None:
    asked = metric_facts.request(Query("shop", "external/nginx%2Freq/app=web"))
    assert asked.path == "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/nginx%2Freq"
    assert asked.params == {"labelSelector": "app=web"}


def test_a_resource_query_asks_for_the_pods_of_its_selector() -> None:
    asked = metric_facts.request(CPU)
    assert asked.path == "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
    assert metric_facts.request(Query("shop", "resource/cpu/")).params == {}


def test_every_series_is_kept_in_milli_rounded_away_from_zero() -> None:
    body = external({"value": "1500m", "timestamp": "2026-11-21T12:00:00Z"}, {"value": "1u"}, {"value": "2"})
    assert metric_facts.sample(EXTERNAL, body, 9.0) == MetricSampled(
        at=9.0, namespace="shop", name=EXTERNAL.name, series_milli=(1500, 1, 2000), sampled_at=1795262400.0
    )


def test_a_pod_with_a_container_without_the_resource_is_left_out() -> None:
    body = json.dumps(
        {
            "items": [
                pod_metrics("a", {"cpu": "100m"}, {"cpu": "50m", "memory": "1Mi"}),
                pod_metrics("b", {"cpu": "100m"}, {"memory": "1Mi"}),
                pod_metrics("c"),
            ]
        }
    ).encode()
    assert metric_facts.sample(CPU, body, 9.0).pods_milli == {"a": 150}


@pytest.mark.parametrize(("query", "source"), [(EXTERNAL, "external"), (CPU, "resource")])
def test_no_value_is_a_failure_of_its_own(query: Query, source: str) -> None:
    fact = metric_facts.sample(query, external(), 9.0)
    assert (fact.error_class, fact.error) == ("empty", f"no metrics returned from {source} metrics API")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", external({"value": "lots"}), external({"value": True})]
)
def test_what_cannot_be_read_is_garbage(body: bytes) -> None:
    assert metric_facts.sample(EXTERNAL, body, 9.0).error_class == "garbage"


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (KubeError(0, UNREACHABLE, "refused"), "unavailable"),
        (KubeError(0, TIMEOUT, "late"), "timeout"),
        (KubeError(503, "ServiceUnavailable", "no adapter"), "unavailable"),
        (KubeError(403, "Forbidden", "no"), "forbidden"),
        (KubeError(404, "NotFound", "no such metric"), "not-found"),
        (KubeError(429, "TooManyRequests", "slow down"), "throttled"),
    ],
)
def test_every_refusal_has_a_class(error: KubeError, error_class: str) -> None:
    fact = metric_facts.refused(EXTERNAL, error, 9.0)
    assert (fact.error, fact.error_class, fact.series_milli) == (error.message, error_class, ())


def test_an_api_that_nobody_registered_is_called_that() -> None:
    for query, source in ((EXTERNAL, "external"), (CPU, "resource")):
        nobody = KubeError(404, "NotFound", "404 page not found", body=b"404 page not found\n")
        fact = metric_facts.refused(query, nobody, 9.0)
        assert fact.error.startswith(f"no {source} metrics API is registered (/apis/")
        assert f"--{source}-metrics-url" in fact.error
    adapter = KubeError(404, "NotFound", "the server could not find the metric requests for services")
    assert metric_facts.refused(EXTERNAL, adapter, 9.0).error == adapter.message


def wpa(name: str, *metrics: str, target: dict[str, str] | None = None) -> WatermarkPodAutoscalerObserved:
    entries = [
        {
            "type": "External",
            "external": {"metricName": metric, "metricSelector": {"matchLabels": {"a": "b"}}},
        }
        for metric in metrics
    ]
    spec = {"metrics": entries, "scaleTargetRef": target or {}}
    return WatermarkPodAutoscalerObserved(at=1.0, namespace="shop", name=name, spec=spec)


def test_two_autoscalers_that_ask_the_same_share_a_query() -> None:
    wanted = Wishes()
    assert len(wanted.observe(wpa("one", "m", "n"))[0]) == 2
    assert wanted.observe(wpa("two", "n")) == ([], [])
    assert [query.name for query in wanted.queries] == ["external/m/a=b", "external/n/a=b"]
    wanted.observe(WatermarkPodAutoscalerGone(at=2.0, namespace="shop", name="one"))
    assert [query.name for query in wanted.queries] == ["external/n/a=b"]


def test_only_targets_that_are_not_watched_are_polled() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}
    assert custom_target("shop", {"scaleTargetRef": deployment}) is None
    assert custom_target("shop", {"scaleTargetRef": rollout}) == Target(
        "shop", "argoproj.io/v1alpha1", "Rollout", "web"
    )
    assert custom_target("shop", {"scaleTargetRef": {"kind": 3}}) is None
    assert custom_target("shop", {"scaleTargetRef": "web"}) is None
    wanted = Wishes()
    assert wanted.observe(wpa("one", target=rollout))[0]
    assert [target.subject_name for target in wanted.targets] == ["Rollout.argoproj.io/web"]
    wanted.observe(wpa("one", target=deployment))
    assert wanted.targets == []


@pytest.mark.parametrize("items", [metric_facts.MAX_SERIES + 1, metric_facts.MAX_SERIES])
def test_an_answer_of_too_many_series_is_none(items: int) -> None:
    body = b'{"items":[' + b",".join([b'{"value":"1"}'] * items) + b"]}"
    fact = metric_facts.sample(EXTERNAL, body, 9.0)
    assert (fact.error_class, len(fact.series_milli)) == (
        ("", items) if items == metric_facts.MAX_SERIES else ("garbage", 0)
    )


def test_what_a_metrics_api_says_is_short_and_has_no_password() -> None:
    said = "GET http://user:s3cret@metrics/x: " + "x" * 10_000
    fact = metric_facts.refused(EXTERNAL, KubeError(500, "Odd", said), 9.0)
    assert fact.error.startswith("GET http://***@metrics/x: ")
    assert len(fact.error) < 600
    assert metric_facts.sample(EXTERNAL, b"[" * 5000, 9.0).error_class == "garbage"
