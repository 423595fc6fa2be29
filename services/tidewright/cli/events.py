"""`tidewright events`: what happened, in order, a readable line each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins, stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.events import CLASSES, Class, found, wanted
from tidewright.asking.lines import answer, decision_of, line, object_of, subject_object, title
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, not_negative
from tidewright.asking.ordered import in_order
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.tables import as_yaml, cell, plain
from tidewright.asking.told_time import told
from tidewright.events import registry
from tidewright.events.base import Event, Outcome
from tidewright.events.outcomes import Applied, Superseded
from tidewright.log.reader import Record


def events(
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Only of this namespace.")] = "",
    about: Annotated[str, Parameter(name="--for", help="Only of this object, as KIND/NAME.")] = "",
    classes: Annotated[
        tuple[Class, ...], Parameter(name="--class", help="Only of these classes; may be repeated.")
    ] = CLASSES,
    since: Annotated[str, Parameter(help="From this log time on, so long ago (15m), or seq:N.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time, so long ago, or seq:N.")] = "",
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="Go on with what comes.", negative="")
    ] = False,
    parked: Annotated[
        bool, Parameter(help="Only messages that do not decode, which are set aside.", negative="")
    ] = False,
    tail: Annotated[
        int | None, Parameter(help="Only the last so many, before what comes.", validator=not_negative)
    ] = None,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What happened, in order, a readable line each."""
    if follow and until:
        raise BadInput("--follow and --until: what comes has no end, give one of them")
    if follow and file is not None:
        raise BadInput(f"--follow and --log {file}: nothing is added to a file")
    if parked and (about or classes != CLASSES):
        raise BadInput(
            "--parked: a message that does not decode is of no known class or object; -n narrows it"
        )

    async def run() -> int:
        async with opened(log, file) as source:
            selection = await wanted(
                source, classes, namespace, about=about, since=since, until=until, parked=parked
            )
            count, shown = 0, _ShownEvents(output)
            async with (
                aclosing(found(source, selection, follow=follow, tail=tail)) as those,
                aclosing(in_order(those, follow=follow)) as ordered,
            ):
                async for record, event in ordered:
                    shown.print(record, event)
                    count += 1
            if not count and selection.about is not None and not (since or until or tail == 0):
                from tidewright.asking.suggestions import unknown

                raise await unknown(source, selection.about, await moment_of(source, ""))
            return count

    if not asyncio.run(run()):
        what = "messages that do not decode" if parked else "events"
        print(f"no {what}{f' for {about}' if about else ''} in this range", file=sys.stderr)
    return 0


COLUMNS = ("TIME", "SEQUENCE", "CLASS", "EVENT", "OBJECT", "WHAT IT SAYS")
_WIDTHS = (23, 9, 8, 30)
_ID_WIDTH = 28
_COLOURS = {"decision": 36, "outcome": 32, "config": 35, "timer": 2, "ledger": 2}
"""SGR codes of classes; facts are as the terminal has them."""
_FAILED = 31


class _ShownEvents:
    """Events as they are printed, one by one: a table whose width nobody knows before its end has columns of fixed width."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.begun = False
        self.reached = 0.0
        """The greatest time shown so far: of what is listed late that stands in its place, and its own behind it."""
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def print(self, record: Record, event: Event | registry.Unknown | registry.NotAnEvent) -> None:
        """One event; the header before the first."""
        match self.output:
            case "json":
                print(json.dumps(builtins(answer(record, event))), flush=True)
            case "yaml":
                print(f"---\n{as_yaml(builtins(answer(record, event)))}", end="", flush=True)
            case "name":
                print(
                    plain("/".join(part for part in subject_object(record.subject)[1::2] if part)), flush=True
                )
            case _:
                self._row(record, event)

    def _row(self, record: Record, event: Event | registry.Unknown | registry.NotAnEvent) -> None:
        if not self.begun:
            self.begun = True
            print(self._painted(self._line(*COLUMNS, decision="DECISION"), 1), flush=True)
        cls, where = subject_object(record.subject)[0], object_of(record.subject)
        if isinstance(event, registry.NotAnEvent):
            row, colour = ("", str(record.seq), cls, "", where, f"does not decode: {event}"), _FAILED
            decision = ""
        else:
            at = told(event)
            self.reached = max(self.reached, at)
            said = line(event) if at == self.reached else f"{line(event)} (of {_written(at)})".strip()
            row = (_written(self.reached), str(record.seq), cls, title(event), where, said)
            failed = cls == "halt" or (
                isinstance(event, Outcome) and not isinstance(event, Applied | Superseded)
            )
            colour, decision = _FAILED if failed else _COLOURS.get(cls, 0), decision_of(event)
        print(self._painted(self._line(*map(cell, row), decision=cell(decision)), colour), flush=True)

    def _line(self, *row: str, decision: str) -> str:
        at, seq, cls, kind, where, what = row
        time, number, name, event = _WIDTHS
        line = f"{at:<{time}}  {seq:>{number}}  {cls:<{name}}  {kind:<{event}} "
        if self.output == "wide":
            line += f"{decision:<{_ID_WIDTH}} "
        return f"{line}{where}  {what}"

    def _painted(self, line: str, colour: int) -> str:
        return f"\x1b[{colour}m{line}\x1b[0m" if self.coloured and colour else line


def _written(at: float) -> str:
    return stamp(at).replace("T", " ").removesuffix("Z")
