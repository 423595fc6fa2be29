"""`tidewright compare wpa`: where the incumbent and we differ, and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.source import FromFile, Source, opened, slot_in
from tidewright.cli.commands import BY_NAME

if TYPE_CHECKING:
    from tidewright.autoscaler.tell.comparing import Comparison, CountChange, Row

KINDS = ("watermarkpodautoscaler", "deployment", "statefulset", "replicaset", "cloneset", "workload")
"""Kinds whose facts tell what is scaled, and by how much."""

WRITTEN = (
    "{name}: {count} of our decisions were written, and are nobody else's to compare with; run the actuator with "
    "--mode shadow beside an incumbent."
)

app = App(name="compare", help_format="plaintext", help_epilogue=BY_NAME["compare"].epilogue)


@app.command(name="wpa")
def wpa(
    name: Annotated[str, Parameter(help="The WatermarkPodAutoscaler; all of the namespace by default.")] = "",
    /,
    *,
    namespace: Namespace = "",
    all_namespaces: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], help="Of every namespace.", negative="")
    ] = False,
    since: Annotated[str, Parameter(help="From this log time on; or so long ago, such as 24h.")] = "",
    within: Annotated[
        float, Parameter(help="Seconds by which a decision and the incumbent's change may lie apart.")
    ] = 60.0,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Where the incumbent (as observed in the cluster) and we differ, and why; exit code 1 when we do."""
    from tidewright.autoscaler.tell.comparing import PairVerdict

    if within < 0:
        raise BadInput(f"--within {within:g}: seconds, 0 or more")
    if name and all_namespaces:
        raise BadInput("a name and --all-namespaces: give one of them")
    space = "" if all_namespaces else meant(namespace)

    async def run() -> tuple[list[Comparison], str]:
        async with opened(log, file) as source:
            return await compared(source, space, name, since, within), source.name

    comparisons, where = asyncio.run(run())
    emit([_json(comparison) for comparison in comparisons], output, lambda: _text(comparisons, where))
    differing = any(
        row.verdict is not PairVerdict.SAME for comparison in comparisons for row in comparison.rows
    )
    return 1 if differing else 0


async def compared(
    source: Source, namespace: str, name: str, since: str, within_s: float
) -> list[Comparison]:
    """Fold what the log has about the objects of a namespace (empty: of all).

    Raises:
        BadInput: no such object.
    """
    from tidewright.asking.objects import moment
    from tidewright.asking.point_in_time import end_of
    from tidewright.autoscaler.tell.comparing import Comparing
    from tidewright.events import registry
    from tidewright.events.base import Event
    from tidewright.log.subjects import escape

    start = moment(since, await end_of(source)) if since else None
    slot = slot_in(source, namespace) if namespace else "*"
    space = f"{escape(namespace)}.*" if namespace else ">"
    root = source.subjects.root
    patterns = [f"{root}.fact.{slot}.{kind}.{space}" for kind in KINDS]
    patterns += [f"{root}.decision.{slot}.autoscaler.*.{space}", f"{root}.outcome.{slot}.*.{space}"]
    comparing = Comparing()
    async for record in source.merged(patterns):
        try:
            event = registry.decode(record.body)
        except registry.NotAnEvent:
            continue
        if isinstance(event, Event):
            comparing.fold(event)
    comparisons = [
        comparison for comparison in comparing.results(within_s, start) if not name or comparison.name == name
    ]
    if not comparisons:
        what = f"WatermarkPodAutoscaler {name}" if name else "WatermarkPodAutoscaler"
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise BadInput(f"{source.name}: no {what} in {where}; `tidewright compare wpa -A` shows all")
    return comparisons


def _json(comparison: Comparison) -> dict[str, Any]:
    from tidewright.autoscaler.tell.comparing import PairVerdict
    from tidewright.kube.times import rfc3339

    def change(count_change: CountChange | None) -> dict[str, Any] | None:
        if count_change is None:
            return None
        return {
            "at": rfc3339(count_change.at),
            "from": count_change.before,
            "to": count_change.after,
            "times": count_change.times,
        }

    return {
        "namespace": comparison.namespace,
        "name": comparison.name,
        "written_by_us": comparison.written,
        "counts": {verdict.value.replace(" ", "_"): comparison.count(verdict) for verdict in PairVerdict},
        "rows": [
            {
                "at": rfc3339(row.at),
                "verdict": row.verdict.value.replace(" ", "_"),
                "ours": change(row.ours),
                "theirs": change(row.theirs),
                "why": list(row.why),
            }
            for row in comparison.rows
        ],
    }


def _text(comparisons: list[Comparison], where: str) -> str:
    from tidewright.autoscaler.tell.comparing import PairVerdict

    headings = ["NAMESPACE", "NAME", "SAME", "DIFFERENT", "ONLY-OURS", "ONLY-THEIRS", "WRITTEN-BY-US"]
    rows = [headings]
    rows += [
        [
            comparison.namespace,
            comparison.name,
            *(str(comparison.count(verdict)) for verdict in PairVerdict),
            str(comparison.written),
        ]
        for comparison in comparisons
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    for comparison in comparisons:
        differing = [row for row in comparison.rows if row.verdict is not PairVerdict.SAME]
        if differing:
            lines += ["", f"{comparison.namespace}/{comparison.name}"]
            for row in differing:
                lines += _told(row)
        if comparison.written:
            lines += [
                "",
                WRITTEN.format(name=f"{comparison.namespace}/{comparison.name}", count=comparison.written),
            ]
    if all(row.verdict is PairVerdict.SAME for comparison in comparisons for row in comparison.rows):
        count = sum(len(comparison.rows) for comparison in comparisons)
        same, none = ", and we would have made each of them", " by anybody: there is nothing to compare yet"
        lines += ["", f"{where}: {count} changes{same if count else none}."]
    return "\n".join(lines)


def _told(row: Row) -> list[str]:
    from tidewright.kube.times import readable

    def change(who: str, count_change: CountChange | None) -> str:
        if count_change is None:
            return f"{who} nothing"
        again = f" (decided {count_change.times} times)" if count_change.times > 1 else ""
        return f"{who} {count_change.before} -> {count_change.after} at {readable(count_change.at)}{again}"

    return [
        f"  {readable(row.at)}  {row.verdict.value}: {change('we', row.ours)}, {change('the incumbent', row.theirs)}",
        *(f"    - {sentence}" for sentence in row.why),
    ]
