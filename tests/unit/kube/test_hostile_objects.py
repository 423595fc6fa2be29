"""An object of any content is a fact that reads back the same, or refused by name: it ends no watcher."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.mutations import VALUES, encoded, mutated, own
from tests.hostile.objects import CUSTOM, OBJECTS
from tidewright.events import registry
from tidewright.kube.kinds import BY_NAME
from tidewright.kube.projection import workloads
from tidewright.kube.projection.reading import Malformed, Project
from tidewright.kube.selectors import LabelSelector, SelectorError

PROJECTIONS: list[tuple[str, Project, Any]] = [
    *((kind, BY_NAME[kind].project, obj) for kind, objects in OBJECTS.items() for obj in objects),
    ("custom workload", workloads.workload("example.com/v1", "Fancy", checked_template=False), CUSTOM),
    ("bare workload", workloads.bare_workload("example.com/v1", "Fancy"), CUSTOM),
]


def holds(project: Project, raw: bytes) -> bool:
    """Whether an object is told; what is told of it is on the log as it is."""
    try:
        projected = project(raw)
    except Malformed:
        return False
    for fact in (projected.fact, projected.shape):
        assert fact is None or registry.read(registry.encode(fact)) == fact
    return True


@pytest.mark.parametrize(("kind", "project", "obj"), PROJECTIONS)
def test_what_is_valid_is_told(kind: str, project: Project, obj: object) -> None:
    assert holds(project, encoded(obj)), kind


@given(st.integers(0, 2**32))
@settings(max_examples=500)
def test_an_object_of_any_content_is_told_as_it_is_or_refused_by_name(seed: int) -> None:
    chance = Random(seed)
    _, project, obj = chance.choice(PROJECTIONS)
    for _ in range(chance.choice((1, 1, 2, 3))):
        obj = mutated(obj, chance)
    holds(project, encoded(obj))


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("csinode", ("spec", "drivers", 0, "name"), 5),
        ("resourcequota", ("spec", "scopeSelector", "matchExpressions"), ["x"]),
        ("persistentvolume", ("spec", "nodeAffinity", "required", "nodeSelectorTerms"), [7]),
        ("storageclass", ("allowedTopologies",), [7]),
        ("resourceslice", ("spec", "devices", 0, "attributes"), {"model": 5}),
        ("resourceclaim", ("status", "allocation", "devices", "results", 0, "pool"), ["n0"]),
        ("podtemplate", ("template", "spec", "containers"), ["x"]),
        ("podtemplate", ("template", "metadata", "labels"), ["x"]),
        ("podtemplate", ("template", "spec", "containers", 0, "resources", "limits", "cpu"), "soon"),
        ("daemonset", ("spec", "template", "spec", "affinity"), 7),
        ("poddisruptionbudget", ("spec", "selector", "matchLabels"), [1]),
        ("limitrange", ("spec", "limits"), {"type": "Pod"}),
        ("deployment", ("spec", "selector", "matchLabels"), [1]),
    ],
)
def test_what_no_api_server_lets_through_is_refused_where_it_comes_in(
    kind: str, path: tuple[str | int, ...], value: object
) -> None:
    """Each ended whoever read it: readers rely on the forms of the API."""
    obj = own(OBJECTS[kind][0])
    part = obj
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(Malformed, match=f"{obj['metadata']['name']} cannot be read"):
        BY_NAME[kind].project(encoded(obj))


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_a_selector_of_any_content_is_one_or_refused(seed: int) -> None:
    chance = Random(seed)
    labels, expressions = chance.choice(VALUES), chance.choice(VALUES)
    for selector in (
        {"matchLabels": labels},
        {"matchExpressions": expressions},
        {"matchExpressions": [expressions]},
        {"matchExpressions": [{"key": labels, "operator": expressions, "values": labels}]},
        labels,
    ):
        with suppress(SelectorError):
            LabelSelector.of(selector).matches({"a": "b"})
