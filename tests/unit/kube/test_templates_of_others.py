"""Pod templates of kinds of somebody else: whatever stands in the place of one, the rest of the workload is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewright.events.facts import TemplateObserved, WorkloadObserved
from tidewright.watcher.workload_watch import readable


def stage(spec: Any) -> tuple[WorkloadObserved, TemplateObserved]:
    meta = {"name": "st", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    raw = msgspec.json.encode({"metadata": meta, "spec": {"replicas": 2, "template": {"spec": spec}}})
    found = readable("demo.example.com/v1", "Stage")(raw)
    assert isinstance(found.fact, WorkloadObserved)
    assert isinstance(found.shape, TemplateObserved)
    return found.fact, found.shape


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"containers": "none"}, "Expected `array`, got `str` - at `$.containers`"),
        ({"containers": [3]}, "Expected `object`, got `int` - at `$.containers[0]`"),
        ({"volumes": [1]}, "Expected `object`, got `int` - at `$.volumes[0]`"),
        ({"containers": [{"command": 7}]}, "'int' object is not iterable"),
        ("a pod", "Expected `object`, got `str`"),
    ],
)
def test_what_is_wrong_with_a_template_is_said_and_its_workload_told(spec: Any, why: str) -> None:
    fact, template = stage(spec)
    assert (fact.replicas, fact.template) == (2, template.digest)
    assert why in template.error
    assert template.spec == {}


def test_a_template_that_can_be_read_has_no_error() -> None:
    _, template = stage({"containers": [{"name": "c", "image": "pause"}]})
    assert template.error == ""
    assert template.spec != {}
