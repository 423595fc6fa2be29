"""Names of metric queries: there and back, and one name for one question."""

from __future__ import annotations

import pytest

from tidewright.kube.metricquery import MetricQuery, NotAQuery, queries


@pytest.mark.parametrize(
    "query",
    [
        MetricQuery("external", "requests.per.pod", "app=web,tier in (a,b)"),
        MetricQuery("resource", "nvidia.com/gpu", "app.kubernetes.io/name=web"),
        MetricQuery("external", "100%/s", ""),
    ],
)
def test_a_name_reads_back(query: MetricQuery) -> None:
    assert MetricQuery.parse(query.name) == query


@pytest.mark.parametrize(
    "name", ["", "external", "external/requests", "object/requests/app=x", "resource//a=b"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(NotAQuery, match="valid is for instance"):
        MetricQuery.parse(name)


def test_the_queries_of_a_spec_in_its_order_each_once() -> None:
    external = {"metricName": "lag", "metricSelector": {"matchLabels": {"b": "2", "a": "1"}}}
    same = {"metricName": "lag", "metricSelector": {"matchLabels": {"a": "1", "b": "2"}}}
    resource = {"name": "cpu", "metricSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    spec = {
        "metrics": [
            {"type": "Resource", "resource": resource},
            {"type": "External", "external": external},
            {"type": "External", "external": same},
        ]
    }
    assert queries(spec) == ("resource/cpu/x", "external/lag/a=1,b=2")


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        {},
        "cpu",
        [None],
        [{"type": "Object"}],
        [{"type": "External"}],
        [{"type": "External", "external": {"metricName": 3}}],
    ],
)
def test_entries_that_cannot_be_asked_yield_no_query(metrics: object) -> None:
    assert queries({"metrics": metrics}) == ()
