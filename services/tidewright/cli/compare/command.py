"""`tidewright compare wpa`: where the incumbent and we differ, and why."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from tidewright.asking.answers.comparing import ComparisonList
from tidewright.asking.answers.form import builtins
from tidewright.asking.comparing import answer, begin_of, comparisons
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.tables import plain, table
from tidewright.autoscaler.tell.comparing import Comparison, CountChange, PairVerdict, Row
from tidewright.cli.commands import BY_NAME
from tidewright.kube.times import readable

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
    since: Annotated[
        str, Parameter(help="From this log time on, or so long ago; 3650d is all that the log has.")
    ] = "24h",
    within: Annotated[
        float, Parameter(help="Seconds by which a decision and the incumbent's change may lie apart.")
    ] = 60.0,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Where the incumbent (as observed in the cluster) and we differ, and why; exit code 1 when we do."""
    if within < 0:
        raise BadInput(f"--within {within:g}: seconds, 0 or more")
    if name and all_namespaces:
        raise BadInput("a name and --all-namespaces: give one of them")
    space = "" if all_namespaces else meant(namespace)

    async def run() -> tuple[list[Comparison], float, ComparisonList]:
        async with opened(log, file) as source:
            moment = await moment_of(source, "")
            begun = await begin_of(source, since, moment)
            found = await comparisons(
                source, moment, namespace=space, name=name, since=begun, within_s=within
            )
            return found, begun, answer(source, moment, begun, found)

    compared, begun, told = asyncio.run(run())
    emit(
        builtins(told), output, lambda: plain(_text(compared, told.log, begun)),
        names=lambda: (f"watermarkpodautoscaler/{item.name}" for item in told.items),
    )  # fmt: skip
    differing = any(row.verdict is not PairVerdict.SAME for comparison in compared for row in comparison.rows)
    return 1 if differing else 0


def _text(comparisons: list[Comparison], where: str, since: float) -> str:
    headings = ("NAMESPACE", "NAME", "SAME", "DIFFERENT", "ONLY-OURS", "ONLY-THEIRS", "WRITTEN-BY-US")
    rows = [
        (
            comparison.namespace,
            comparison.name,
            *(str(comparison.count(verdict)) for verdict in PairVerdict),
            str(comparison.written),
        )
        for comparison in comparisons
    ]
    lines = [table(headings, rows, cut=False)]
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
    every = [row for comparison in comparisons for row in comparison.rows]
    differing_count = sum(row.verdict is not PairVerdict.SAME for row in every)
    summary = f"{len(every)} change{'s' * (len(every) != 1)}"
    if not every:
        summary += " by anybody: there is nothing to compare yet"
    elif differing_count:
        summary += f", {differing_count} of them otherwise than ours"
    else:
        summary += ", and we would have made each of them"
    lines += ["", f"{where}, from {readable(since)} UTC on: {summary}."]
    return "\n".join(lines)


def _told(row: Row) -> list[str]:
    def change(who: str, count_change: CountChange | None) -> str:
        if count_change is None:
            return f"{who} nothing"
        again = f" (decided {count_change.times} times)" if count_change.times > 1 else ""
        return f"{who} {count_change.before} -> {count_change.after} at {readable(count_change.at)}{again}"

    return [
        f"  {readable(row.at)}  {row.verdict.value}: {change('we', row.ours)}, {change('the incumbent', row.theirs)}",
        *(f"    - {sentence}" for sentence in row.why),
    ]
