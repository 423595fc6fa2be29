"""Where an incumbent (as the log has observed it) and we differ."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tidewright.asking.answers.comparing import ComparedChange, ComparedObject, ComparedRow, ComparisonList
from tidewright.asking.answers.form import stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.lookups import Found, decided_about, decisions, decoded
from tidewright.asking.objects import moment as read_moment
from tidewright.asking.point_in_time import SEQUENCE, Moment, is_past, last_before, moment_of
from tidewright.asking.source import Source, slot_in
from tidewright.autoscaler.tell.comparing import WITHIN_S, Comparing, Comparison, CountChange, PairVerdict
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Event
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import Record
from tidewright.log.subjects import escape

KINDS = ("watermarkpodautoscaler", "deployment", "statefulset", "replicaset", "cloneset", "workload")
"""Kinds whose facts tell what is scaled, and by how much."""
BEFORE_S = 600.0
"""Log seconds that are read before what is told, beside those within which two things belong together: the outcome of what we wrote
comes later than the decision, the target's new count as well, and what is nearest to a change depends on the changes before it."""
LATELY_S = 86_400.0
"""Log seconds that are told where nobody says since when: a log of weeks is read as a whole for whoever asks for that alone."""
AT_ONCE = 1000
"""Records that are folded before anybody else has a turn."""
VERDICTS = {
    PairVerdict.SAME: "same", PairVerdict.DIFFERENT: "different",
    PairVerdict.ONLY_OURS: "onlyOurs", PairVerdict.ONLY_THEIRS: "onlyTheirs",
}  # fmt: skip


async def begin_of(source: Source, text: str, moment: Moment) -> float:
    """The log time from which on a comparison tells: what was asked for, as far as there is a log.

    Args:
        source: the log.
        text: a time or how long ago, or `seq:N`; empty for the last day.
        moment: the end of what is compared; nothing begins behind it.

    Raises:
        BadInput: it is no time, or a sequence that is not retained.
    """
    if not text:
        at = moment.at - LATELY_S
    elif SEQUENCE.match(text):
        at = (await moment_of(source, text, "--since")).at
    else:
        at = read_moment(text, moment.at, "--since")
    return min(max(at, 0.0), moment.at)


async def comparisons(
    source: Source,
    moment: Moment,
    *,
    namespace: str = "",
    name: str = "",
    since: float,
    within_s: float = WITHIN_S,
) -> list[Comparison]:
    """Fold what the log has about the objects of a namespace (empty: of all), or the one of a name.

    The log is read from shortly before `since`. What we decided before, and again in the stretch, is told as of the
    first time in the stretch.

    Args:
        source: the log.
        moment: what is behind it is left out.
        namespace: empty for all.
        name: empty for all.
        since: log time before which no row is told, seconds.
        within_s: by which a decision and the incumbent's change may lie apart, log seconds.

    Raises:
        BadInput: no such object.
    """
    slot = slot_in(source, namespace) if namespace else "*"
    space = f"{escape(namespace)}.*" if namespace else ">"
    root = source.subjects.root
    facts = [f"{root}.fact.{slot}.{kind}.{space}" for kind in KINDS]
    spoken = [f"{root}.decision.{slot}.autoscaler.*.{space}", f"{root}.outcome.{slot}.*.{space}"]
    comparing = Comparing()
    first, _ = await source.bounds()
    after = await last_before(source, first, moment.seq, since - within_s - BEFORE_S)
    if after >= first:
        for record in await source.last_of_all(facts, after):
            _fold(comparing, source, record)
    async with aclosing(source.merged([*facts, *spoken], after)) as records:
        count = 0
        async for record in records:
            if record.seq > moment.seq:
                break
            _fold(comparing, source, record)
            count += 1
            if not count % AT_ONCE:
                await asyncio.sleep(0)
    if after >= first:
        await _recall(comparing, source, since, after)
    results = [one for one in comparing.results(within_s, since) if not name or one.name == name]
    if not results:
        what = f"WatermarkPodAutoscaler {name}" if name else "WatermarkPodAutoscaler"
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise BadInput(f"{source.name}: no {what} in {where}; `tidewright compare wpa -A` shows all")
    return results


def _fold(comparing: Comparing, source: Source, record: Record) -> None:
    found = decoded(record) if is_past(source, record) else None
    if found is not None and isinstance(found.event, Event):
        comparing.fold(found.event)


async def _recall(comparing: Comparing, source: Source, since: float, up_to: int) -> None:
    """Why we had left an object that the incumbent then changed, where that was said before what was read."""

    def is_hold(found: Found) -> bool:
        return found.seq <= up_to and isinstance(found.event, HoldReplicas)

    for namespace, name in comparing.unexplained(since):
        about = decided_about(source, "autoscaler", Reference(KINDS[0], namespace, name))
        for found in await decisions(source, [about], up_to, is_hold, enough=1):
            if isinstance(found.event, HoldReplicas):
                comparing.recall(found.event)


def answer(source: Source, moment: Moment, since: float, compared: list[Comparison]) -> ComparisonList:
    """For programs."""
    return ComparisonList(
        log=source.name,
        sequence=moment.seq,
        at=stamp(moment.at),
        since=stamp(since),
        items=tuple(map(_object, compared)),
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
