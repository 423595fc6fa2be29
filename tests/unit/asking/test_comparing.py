"""A comparison of a stretch: read from shortly before it, and told as by who has read everything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.exports import write_export
from tests.recorded.ended import RECORDED
from tests.unit.autoscaler.world import NS, workload, wpa
from tidewright.asking.comparing import BEFORE_S, comparisons
from tidewright.asking.exported import ExportedLog
from tidewright.asking.point_in_time import moment_of
from tidewright.autoscaler.tell.comparing import Comparison
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas, WatermarkPodAutoscalerGone
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadObserved
from tidewright.events.outcomes import Applied
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record
from tidewright.log.subjects import slot_of

SCALER = ObjectRef(
    api_version="datadoghq.com/v1alpha1", kind="WatermarkPodAutoscaler", namespace=NS, name="wpa"
)
WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NS, name="web")
NOW = 100_000.0
SINCE = NOW - 3600.0


class Watched(ExportedLog):
    """Knows from where it was read, and whether that was ended."""

    begun: int = -1
    closed = False

    async def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        if len(patterns) > 1:
            self.begun = after
        try:
            async for record in super().merged(patterns, after):
                yield record
        finally:
            self.closed = True


def hold(at: float, reason: str) -> HoldReplicas:
    return HoldReplicas(
        at=at, id=f"autoscaler.0.{int(at)}.0", target=SCALER, replicas=2, reason=reason, shadow=True
    )


def scale(at: float, before: int, after: int) -> ScaleWorkload:
    return ScaleWorkload(
        at=at, id=f"autoscaler.0.{int(at)}.0", target=WEB, replicas=after, from_replicas=before,
        owner=f"WatermarkPodAutoscaler/{NS}/wpa", shadow=True,
    )  # fmt: skip


def log_of(path: Path, events: Sequence[Event]) -> Watched:
    """A log of these, a subject each as the services give them."""
    manifest = ExportFile(RECORDED).manifest
    subjects = ExportedLog(ExportFile(RECORDED)).subjects
    slot = slot_of(NS, manifest.slots)
    records = []
    for seq, event in enumerate(events, 1):
        match event:
            case Decision():
                target = event.target  # type: ignore[attr-defined]  # only such are made here
                subject = subjects.decision(slot, "autoscaler", target.kind.lower(), NS, target.name)
            case Applied():
                subject = subjects.outcome(slot, "deployment", NS, "web")
            case WorkloadObserved():
                subject = subjects.fact(slot, "deployment", NS, event.name)
            case _:
                subject = subjects.fact(slot, "watermarkpodautoscaler", NS, "wpa")
        records.append(Record(seq, subject, registry.encode(event), {}))
    manifest = msgspec.structs.replace(manifest, first_seq=1, last_seq=len(records), keys=())
    write_export(path, manifest, [], records)
    return Watched(ExportFile(path))


LONG_AGO = [
    wpa(1.0),
    workload(2.0, 2),
    hold(3.0, "WithinMarks"),
    *[workload(10.0 + n, 2 + n % 2) for n in range(1000)],  # the incumbent goes to and fro: 2, 3, 2, ... 3
]


async def told(source: Watched, since: float) -> Comparison:
    (found,) = await comparisons(source, await moment_of(source, ""), namespace=NS, name="wpa", since=since)
    return found


async def test_a_stretch_is_told_without_reading_what_is_long_before_it(tmp_path: Path) -> None:
    recent = [
        scale(SINCE + 10, 3, 4),
        workload(SINCE + 30, 4),
        workload(SINCE + 2000, 5),
        hold(NOW, "AtMaximum"),
    ]
    source = log_of(tmp_path / "x.twlog", [*LONG_AGO, *recent])
    found = await told(source, SINCE)
    assert source.begun == len(LONG_AGO)
    assert source.closed
    both, theirs = found.rows
    assert both.ours is not None
    assert theirs.theirs is not None
    assert (both.verdict.value, both.ours.after) == ("same", 4)
    assert (theirs.theirs.before, theirs.theirs.after) == (4, 5)
    assert "WithinMarks" in theirs.why[-1], "why we left it was said long before the stretch"
    whole = await told(source, 0.0)
    assert source.begun == 0
    assert found.rows == tuple(row for row in whole.rows if row.at >= SINCE)


async def test_the_first_change_of_a_stretch_has_what_was_before_it(tmp_path: Path) -> None:
    source = log_of(tmp_path / "x.twlog", [*LONG_AGO, workload(SINCE + 5, 7)])
    (row,) = (await told(source, SINCE)).rows
    assert row.theirs is not None
    assert (row.theirs.before, row.theirs.after) == (3, 7)


async def test_what_was_written_is_counted_in_the_stretch(tmp_path: Path) -> None:
    """What the target shows at its beginning of what we wrote before is not the incumbent's."""
    before = SINCE - BEFORE_S / 2
    events = [
        *LONG_AGO,
        scale(500 * 60.0, 3, 4), Applied(at=500 * 60.0, decision="autoscaler.0.30000.0"), workload(30001.0, 4),
        scale(before, 4, 5), Applied(at=before + 1, decision=f"autoscaler.0.{int(before)}.0"), workload(SINCE + 1, 5),
        scale(NOW - 60, 5, 6), Applied(at=NOW - 59, decision=f"autoscaler.0.{int(NOW - 60)}.0"), workload(NOW - 58, 6),
    ]  # fmt: skip
    source = log_of(tmp_path / "x.twlog", events)
    found = await told(source, SINCE)
    assert found.rows == ()
    assert found.written == 1
    assert (await told(source, 0.0)).written == 3


async def test_one_that_went_before_the_stretch_is_still_known(tmp_path: Path) -> None:
    gone = WatermarkPodAutoscalerGone(at=2000.0, namespace=NS, name="wpa")
    source = log_of(tmp_path / "x.twlog", [*LONG_AGO, gone, workload(NOW, 9)])
    assert (await told(source, SINCE)).rows == ()


@pytest.mark.parametrize("since", [-5.0, 0.0, 1.0, 700.0, NOW, NOW * 2])
async def test_a_stretch_may_begin_anywhere(tmp_path: Path, since: float) -> None:
    source = log_of(tmp_path / "x.twlog", [*LONG_AGO, workload(NOW, 9)])
    whole = await told(source, 0.0)
    assert (await told(source, since)).rows == tuple(row for row in whole.rows if row.at >= since)
