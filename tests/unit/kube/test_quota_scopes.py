"""Which pods a quota's scopes mean."""

from __future__ import annotations

from typing import Any

import pytest

from tidewright.kube.quotascopes import in_scopes, limits_of, scopes_of, traits_of

ASKING = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
IDLE = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "0m"}}}]}
TERM = {"topologyKey": "zone", "namespaces": ["other"]}


@pytest.mark.parametrize(
    ("scope", "spec", "meant"),
    [
        ("Terminating", {"activeDeadlineSeconds": 5}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {}, True),
        ("BestEffort", IDLE, True),
        ("BestEffort", ASKING, False),
        ("NotBestEffort", ASKING, True),
        ("NotBestEffort", {"initContainers": ASKING["containers"]}, True),
        ("BestEffort", {"resources": {"limits": {"memory": "1Gi"}}}, False),
        ("PriorityClass", {"priorityClassName": "x"}, True),
        ("PriorityClass", {}, False),
        ("CrossNamespacePodAffinity", {}, False),
        ("VolumeAttributesClass", {}, False),
        (
            "CrossNamespacePodAffinity",
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            True,
        ),
        (
            "CrossNamespacePodAffinity",
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "namespaceSelector": {}}}
                        ]
                    }
                }
            },
            True,
        ),
    ],
)
def test_a_scope_means_pods_by_what_they_are(scope: str, spec: dict[str, Any], meant: bool) -> None:
    assert in_scopes(scopes_of({"scopes": [scope]}), traits_of(spec)) is meant


@pytest.mark.parametrize(
    ("operator", "values", "meant"),
    [
        ("In", ["high", "mid"], {"high"}),
        ("NotIn", ["high"], {"low", ""}),
        ("Exists", [], {"high", "low"}),
        ("DoesNotExist", [], {""}),
    ],
)
def test_priority_classes_are_selected_by_name(operator: str, values: list[str], meant: set[str]) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    scopes = scopes_of({"scopeSelector": {"matchExpressions": [expression]}})
    found = {
        name for name in ("high", "low", "") if in_scopes(scopes, traits_of({"priorityClassName": name}))
    }
    assert found == meant


def test_all_scopes_have_to_mean_a_pod() -> None:
    scopes = scopes_of({"scopes": ["NotBestEffort", "Terminating"]})
    assert not in_scopes(scopes, traits_of(ASKING))
    assert in_scopes(scopes, traits_of({**ASKING, "activeDeadlineSeconds": 1}))


def test_limits_are_summed_without_requests() -> None:
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "3"}}
    spec = {"containers": [{"resources": resources}, {"resources": {"limits": {"cpu": "500m"}}}]}
    assert limits_of(spec) == {"cpu": 3500}
