"""A log on which everything that others may write is hostile: to pages, to terminals, to lines."""

from __future__ import annotations

from pathlib import Path

from tests.exports import write_export
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadObserved
from tidewright.events.provisioning import NodeGroupObserved
from tidewright.log.export import Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, SLOT_HASH, Subjects, slot_of

SCRIPT = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
QUOTED = "\"'><svg onload=window.hacked=1>"
CONTROLS = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m\u202egnp.exe\u2066"
MARKUP = "[bold red]loud[/bold red] [link=https://evil.example]here[/link]"
ALL_OF_IT = f"{SCRIPT}{QUOTED}{CONTROLS}{MARKUP} javascript:window.hacked=1"
NAME = f"shop{ALL_OF_IT}"
SPACE = "team"


def hostile_log(folder: Path) -> Path:
    """An export of it."""
    subjects = Subjects("test")
    slot = slot_of(SPACE, 4)
    condition = {"type": "ScalingActive", "status": "False", "reason": ALL_OF_IT, "message": ALL_OF_IT}
    metric = {"metricName": ALL_OF_IT, "highWatermark": "10", "lowWatermark": "5"}
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": NAME, "apiVersion": "apps/v1"},
        "metrics": [{"type": "External", "external": metric}], "minReplicas": 1, "maxReplicas": 5,
    }  # fmt: skip
    autoscaler = WatermarkPodAutoscalerObserved(
        at=1_770_000_010.0, namespace=SPACE, name=NAME, uid=ALL_OF_IT, spec=spec,
        status={"conditions": [condition], "currentReplicas": 1, "desiredReplicas": 2},
        annotations={ALL_OF_IT: ALL_OF_IT}, labels={ALL_OF_IT: ALL_OF_IT},
    )  # fmt: skip
    workload = WorkloadObserved(
        at=1_770_000_011.0, namespace=SPACE, name=NAME, api_version="apps/v1", kind="Deployment",
        labels={ALL_OF_IT: ALL_OF_IT},
    )  # fmt: skip
    group = NodeGroupObserved(at=1_770_000_012.0, name=NAME, error=ALL_OF_IT, message=ALL_OF_IT, max_size=3)
    scale = ScaleWorkload(
        id="autoscaler.1.2.0", at=1_770_000_013.0, target=ObjectRef(api_version="apps/v1", kind="Deployment", namespace=SPACE, name=NAME), replicas=2, from_replicas=1,
        owner=f"WatermarkPodAutoscaler/{SPACE}/{NAME}",
    )  # fmt: skip
    said: list[tuple[str, Event]] = [
        (subjects.fact(slot, "watermarkpodautoscaler", SPACE, NAME), autoscaler),
        (subjects.fact(slot, "deployment", SPACE, NAME), workload),
        (subjects.fact(ALL, "nodegroup", "", NAME), group),
        (subjects.decision(slot, "autoscaler", "deployment", SPACE, NAME), scale),
    ]
    records = [Record(n + 1, subject, registry.encode(event), {}) for n, (subject, event) in enumerate(said)]
    manifest = Manifest(
        cluster="test", stream="TW_test", slots=4, slot_hash=SLOT_HASH, first_seq=1, last_seq=len(records),
        version="0",
    )  # fmt: skip
    path = folder / "hostile.twlog"
    write_export(path, manifest, (), records)
    return path
