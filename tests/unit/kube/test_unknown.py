"""Fields that nobody knows are named, with what was meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tidewright.kube.nearest import closest, nearest
from tidewright.kube.unknown import manifest_problems, paths_of, schema_of, unknown_fields

WPA: dict[str, Any] = yaml.safe_load("""
apiVersion: datadoghq.com/v1alpha1
kind: WatermarkPodAutoscaler
metadata: {name: web, namespace: shop, labels: {any: thing}}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  maxReplicas: 9
  metrics:
  - type: External
    external: {metricName: rps, highWatermark: "9", metricSelector: {matchLabels: {any: thing}}}
""")
TEMPLATE: dict[str, Any] = yaml.safe_load("""
apiVersion: v1
kind: PodTemplate
metadata: {name: worker}
template:
  metadata: {labels: {any: thing}}
  spec:
    nodeSelector: {any: thing}
    containers: [{name: c, resources: {requests: {cpu: 1, example.com/device: 2}}}]
""")


@pytest.mark.parametrize("manifest", [WPA, TEMPLATE])
def test_what_the_api_knows_is_no_problem_and_every_misspelt_field_of_it_is_named(
    manifest: dict[str, Any],
) -> None:
    assert manifest_problems(manifest) == []
    free = {"any", "cpu", "example.com/device"}  # keys of maps: names are the user's
    for place, name in _fields(manifest):
        if name in free or name in ("apiVersion", "kind"):
            continue
        place[f"{name}x"] = place.pop(name)
        (problem,) = manifest_problems(manifest)
        assert f"has no field '{name}x'; did you mean {name}?" in problem or (
            f"there is no field '{name}x'; did you mean {name}?" in problem
        )
        place[name] = place.pop(f"{name}x")


def _fields(value: Any) -> list[tuple[dict[str, Any], str]]:
    """Every field at any depth, with what it is in."""
    if isinstance(value, list):
        return [field for entry in value for field in _fields(entry)]
    if not isinstance(value, dict):
        return []
    return [(value, name) for name in value] + [field for name in value for field in _fields(value[name])]


def test_what_is_preserved_whatever_it_is_and_kinds_of_others_are_not_judged() -> None:
    assert manifest_problems({"apiVersion": "v1", "kind": "Service", "spce": {}}) == []
    preserved = {"properties": {"patch": {"x-kubernetes-preserve-unknown-fields": True, "properties": {}}}}
    assert unknown_fields({"patch": {"any": {"thing": 1}}}, preserved) == []


def test_a_name_alone_stands_for_where_something_is() -> None:
    spec_schema = schema_of("datadoghq.com/v1alpha1", "WatermarkPodAutoscaler")["properties"]["spec"]
    assert paths_of("highWatermark", WPA["spec"], spec_schema) == ["metrics[0].external.highWatermark"]
    assert paths_of("lowWatermark", WPA["spec"], spec_schema) == ["metrics[0].external.lowWatermark"]
    assert paths_of("url", WPA["spec"], spec_schema) == []  # there is no recommender
    two: dict[str, Any] = {"metrics": [{"external": {}}, {"resource": {}}]}
    assert paths_of("highWatermark", two, spec_schema) == [
        "metrics[0].external.highWatermark",
        "metrics[1].resource.highWatermark",
    ]


def test_the_nearest_name_is_said_whatever_its_case_and_else_what_is_valid() -> None:
    assert nearest("HIGHWATERMARK", ["highWatermark", "tolerance"]) == "did you mean highWatermark?"
    assert nearest("zzz", ["tolerance", "algorithm"]) == "valid are algorithm, tolerance"
    assert nearest("zzz", [f"field{n:02}" for n in range(20)]).endswith("field11 and 8 more")
    assert (closest("zzz", ["tolerance"]), closest("shard-manager", ["shardmanager"])) == ("", "shardmanager")
