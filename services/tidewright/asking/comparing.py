"""Where an incumbent (as the log has observed it) and we differ."""

from __future__ import annotations

from tidewright.asking.answers import ComparedChange, ComparedObject, ComparedRow, ComparisonList, stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.lookups import decoded
from tidewright.asking.point_in_time import Moment, is_past
from tidewright.asking.source import Source, slot_in
from tidewright.autoscaler.tell.comparing import WITHIN_S, Comparing, Comparison, CountChange, PairVerdict
from tidewright.events.base import Event
from tidewright.log.subjects import escape

KINDS = ("watermarkpodautoscaler", "deployment", "statefulset", "replicaset", "cloneset", "workload")
"""Kinds whose facts tell what is scaled, and by how much."""
VERDICTS = {
    PairVerdict.SAME: "same", PairVerdict.DIFFERENT: "different",
    PairVerdict.ONLY_OURS: "onlyOurs", PairVerdict.ONLY_THEIRS: "onlyTheirs",
}  # fmt: skip


async def comparisons(
    source: Source,
    moment: Moment,
    *,
    namespace: str = "",
    name: str = "",
    since: float | None = None,
    within_s: float = WITHIN_S,
) -> list[Comparison]:
    """Fold what the log has about the objects of a namespace (empty: of all), or the one of a name.

    Args:
        source: the log.
        moment: what is behind it is left out.
        namespace: empty for all.
        name: empty for all.
        since: log time before which no row is told, seconds; None for all.
        within_s: by which a decision and the incumbent's change may lie apart, log seconds.

    Raises:
        BadInput: no such object.
    """
    slot = slot_in(source, namespace) if namespace else "*"
    space = f"{escape(namespace)}.*" if namespace else ">"
    root = source.subjects.root
    patterns = [f"{root}.fact.{slot}.{kind}.{space}" for kind in KINDS]
    patterns += [f"{root}.decision.{slot}.autoscaler.*.{space}", f"{root}.outcome.{slot}.*.{space}"]
    comparing = Comparing()
    async for record in source.merged(patterns):
        if record.seq > moment.seq:
            break
        found = decoded(record) if is_past(source, record) else None
        if found is not None and isinstance(found.event, Event):
            comparing.fold(found.event)
    results = [one for one in comparing.results(within_s, since) if not name or one.name == name]
    if not results:
        what = f"WatermarkPodAutoscaler {name}" if name else "WatermarkPodAutoscaler"
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise BadInput(f"{source.name}: no {what} in {where}; `tidewright compare wpa -A` shows all")
    return results


def answer(source: Source, moment: Moment, compared: list[Comparison]) -> ComparisonList:
    """For programs."""
    return ComparisonList(
        log=source.name, sequence=moment.seq, at=stamp(moment.at), items=tuple(map(_object, compared))
    )


def _object(comparison: Comparison) -> ComparedObject:
    return ComparedObject(
        namespace=comparison.namespace,
        name=comparison.name,
        written_by_us=comparison.written,
        counts={word: comparison.count(verdict) for verdict, word in VERDICTS.items()},
        rows=tuple(
            ComparedRow(
                at=stamp(row.at), verdict=VERDICTS[row.verdict], ours=_change(row.ours), theirs=_change(row.theirs),
                why=tuple(row.why),
            )
            for row in comparison.rows
        ),
    )  # fmt: skip


def _change(change: CountChange | None) -> ComparedChange | None:
    if change is None:
        return None
    return ComparedChange(at=stamp(change.at), from_=change.before, to=change.after, times=change.times)
