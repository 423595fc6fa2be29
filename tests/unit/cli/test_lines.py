"""Every event has words of its own in a list of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewright.asking import lines
from tidewright.cli.contract import golden
from tidewright.events import registry
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.base import Event, ObjectRef
from tidewright.events.decisions import PatchObject, ScaleWorkload
from tidewright.events.facts import ShapeObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import PodTemplateObserved, ResourceQuotaObserved
from tidewright.events.shards import AssignmentEntry, ChangeAssignment

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "events"


@pytest.mark.parametrize("tag", sorted(registry.BY_NAME))
def test_no_event_is_told_by_its_fields(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(event: Event) -> str:
        raise AssertionError(
            f"no words for {type(event).__name__}: give it a line in services/tidewright/<service>/tell/lines.py of the "
            "service in whose module of tidewright.events it is, and otherwise in services/tidewright/asking/wording.py (docs/adding.md)"
        )

    monkeypatch.setattr(lines, "_fields", refused)
    event = registry.decode(json.dumps(json.loads(golden.stored(GOLDEN, tag))).encode())
    said = lines.line(event)
    assert said
    assert "\n" not in said


POD = ObjectRef(api_version="v1", kind="Pod", namespace="shop", name="p")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            ShapeObserved(
                at=1.0, digest="d", namespace="shop", requests={"cpu": 1500, "memory": 64 << 20, "pods": 1},
                scheduling={"tolerations": []},
            ),
            "a form of pods in shop that asks for cpu 1.5, memory 64Mi, pods 1, with tolerations",
        ),
        (
            PodTemplateObserved(at=1.0, name="t", template={"spec": {"containers": [{"name": "c", "image": "busybox"}]}}),
            "pods of c (busybox)",
        ),
        (
            ResourceQuotaObserved(at=1.0, name="q", hard={"requests.cpu": 4000, "pods": 10}, used={"pods": 3}),
            "used are pods 3 of 10, requests.cpu 0 of 4",
        ),
        (
            RecommendationReceived(at=1.0, name="r", target_replicas=7, lower_bound_replicas=5, observed_value=81.5),
            "7 replicas recommended (at least 5) at 81.5",
        ),
        (
            PatchObject(at=1.0, target=POD, patch={"metadata": {"labels": {"a": "b", "c": None}}, "spec": {"l": [1]}}),
            "set metadata.labels.a=b, metadata.labels.c=null, spec.l",
        ),
        (
            ChangeAssignment(
                at=1.0, target=POD, entry=AssignmentEntry(kind="create", revision=0, at=1.0, keyspace=64)
            ),
            "revision 1: the keyspace of 64 slots was made",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)  # fmt: skip
def test_numbers_are_told_in_units_of_people(event: Any, said: str) -> None:
    assert lines.line(event) == said


def test_what_is_not_done_is_told_as_what_would_be() -> None:
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")
    scale = ScaleWorkload(at=1.0, target=target, from_replicas=4, replicas=8, shadow=True)
    assert lines.line(scale) == "would set replicas 4 -> 8 (shadow)"
    dry = msgspec.structs.replace(scale, dry_run=True)
    assert lines.line(dry) == "would set replicas 4 -> 8 (dry run)"


@pytest.mark.parametrize("reason", ["Shadow", "DryRun"])
def test_what_was_not_carried_out_does_not_read_as_if_it_had_been(reason: str) -> None:
    assert lines.line(Applied(at=1.0, decision="d", reason=reason)) == f"not carried out ({reason})"
    assert lines.line(Applied(at=1.0, decision="d", reason="Renewed")) == "applied (Renewed)"
