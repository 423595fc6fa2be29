"""`tidewright get`: what is decided on, an object a line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking import listing
from tidewright.asking.answers.form import builtins
from tidewright.asking.answers.listing import KindList, ListedObject, ObjectList
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.objects import CLUSTER_SCOPED, kind_of, named, spoken
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, At, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.source import Source
from tidewright.asking.tables import table
from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import typed_seconds

COLUMNS = ("NAME", "NOW -> WANTED", "WHY", "HELD UNTIL", "LAST CHANGE")
WIDE = ("SERVICE", "LAST DECISION")


def get(
    *what: Annotated[
        str, Parameter(help="A kind, or one object as KIND/NAME or KIND NAME; without, the kinds.")
    ],
    namespace: Namespace = "",
    everywhere: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], help="Of every namespace.", negative="")
    ] = False,
    at: At = "",
    watch: Annotated[
        bool, Parameter(name=["--watch", "-w"], help="Go on with what changes.", negative="")
    ] = False,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What is decided on: how it is, how it shall be, why, and what holds it; without a kind, the kinds."""
    if watch and at:
        raise BadInput("--watch and --at: what was does not change any more, give one of them")
    if watch and file is not None:
        raise BadInput(f"--watch and --log {file}: nothing is added to a file")
    if watch and not what:
        raise BadInput(
            "--watch: name the kind whose objects are watched, for example `tidewright get wpa --watch`"
        )
    kind, name = _asked(what)
    space = "" if everywhere or kind in CLUSTER_SCOPED else meant(namespace)

    async def run() -> int:
        async with opened(log, file) as source:
            moment = await moment_of(source, at)
            if not kind:
                _print_kinds(await listing.kinds(source, moment), output)
                return 0
            found = await listing.listed(source, kind, moment, namespace=space, name=name)
            if name and not found.items and not watch:
                from tidewright.asking.suggestions import unknown

                raise await unknown(source, Reference(kind, space, name), moment)
            shown = _ShownList(found, output, space, spaces=everywhere and kind not in CLUSTER_SCOPED)
            shown.print(moment.at)
            if watch:
                await _watch(source, found, shown, space, name)
            return 0

    return asyncio.run(run())


def _asked(what: Sequence[str]) -> tuple[str, str]:
    """Kind and name, each empty where it was not given.

    Raises:
        BadInput: nothing is decided about such objects; more than one object.
    """
    if not what:
        return "", ""
    if len(what) == 1 and "/" not in what[0]:
        return listing.listable(kind_of(what[0])), ""
    asked = named(spoken(what), "")
    return listing.listable(asked.kind), asked.name


async def _watch(source: Source, found: ObjectList, shown: _ShownList, namespace: str, name: str) -> None:
    async with aclosing(listing.watched(source, found, namespace=namespace, name=name)) as changes:
        async for item, now in changes:
            shown.print_one(item, now)


def _print_kinds(found: KindList, output: Output) -> None:
    def rows(*, wide: bool) -> str:
        if not found.items:
            return "nothing is decided on"
        columns = ("KIND", "OBJECTS", "SERVICES") if wide else ("KIND", "OBJECTS")
        return table(
            columns, [(k.kind, str(k.objects), ", ".join(k.services))[: len(columns)] for k in found.items]
        )

    emit(
        builtins(found), output, lambda: rows(wide=False), wide=lambda: rows(wide=True),
        names=lambda: (item.kind for item in found.items),
    )  # fmt: skip


class _ShownList:
    """A list as it is printed."""

    def __init__(self, found: ObjectList, output: Output, space: str, *, spaces: bool) -> None:
        self.found, self.output, self.space, self.spaces = found, output, space, spaces
        self._columns = [*(["NAMESPACE"] if spaces else []), *COLUMNS, *(WIDE if output == "wide" else ())]
        self._widths = [0] * len(self._columns)
        self._said = {_key(item): self._tells(item) for item in found.items}

    def print(self, now: float) -> None:
        """The list."""
        found = self.found
        if not found.items and self.output in ("table", "wide"):
            where = f" in namespace {self.space}; -A shows those of every namespace" if self.space else ""
            if found.kind in listing.LISTED:
                print(f"no {found.kind} is known{where}", file=sys.stderr)
            else:  # others look after them: many may be known
                print(
                    f"no {found.kind} that anything was decided about is there{where}; "
                    f"`tidewright explain {found.kind}/NAME` says what is known of one",
                    file=sys.stderr,
                )
            return
        emit(
            builtins(found), self.output, lambda: self._table(found.items, now),
            wide=lambda: self._table(found.items, now), names=lambda: map(_name, found.items),
        )  # fmt: skip

    def print_one(self, item: ListedObject, now: float) -> None:
        """One object whose row has changed, in the form of the list; in a table where another one is to be seen."""
        said, before = self._tells(item), self._said.get(_key(item))
        self._said[_key(item)] = said
        match self.output:
            case "json":
                print(json.dumps(builtins(item)), flush=True)
            case "yaml" | "name":
                emit(builtins(item), self.output, str, names=lambda: (_name(item),))
            case _ if said != before:
                print(self._table([item], now, header=not any(self._widths)), flush=True)

    def _tells(self, item: ListedObject) -> tuple[str, ...]:
        """What of it is in its row, whenever that is looked at."""
        told = (_change(item), item.why, item.held_until or "", item.last_change or "")
        return (*told, item.service, item.last_decision) if self.output == "wide" else told

    def _table(self, items: Sequence[ListedObject], now: float, *, header: bool = True) -> str:
        rows = []
        for item in items:
            row = [item.name, _change(item), item.why]
            if self.output == "wide":
                row += [item.held_until or "", item.last_change or "", item.service, item.last_decision]
            else:
                row += [_time(item.held_until, now), _time(item.last_change, now)]
            rows.append([item.namespace, *row] if self.spaces else row)
        # What comes later stands below what is there.
        for row in (self._columns, *rows):
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, row, strict=True)]
        return table(self._columns, rows, cut=self.output != "wide", header=header, least=self._widths)


def _key(item: ListedObject) -> tuple[str, str]:
    return item.namespace, item.name


def _change(item: ListedObject) -> str:
    return item.now if item.now == item.wanted or not item.wanted else f"{item.now or '?'} -> {item.wanted}"


def _name(item: ListedObject) -> str:
    return f"{item.kind}/{item.name}"


def _time(text: str | None, now: float) -> str:
    """A time as people read it quickest: how long before or after `now`."""
    if text is None:
        return ""
    ahead = typed_seconds(text) - now
    return f"in {_span(ahead)}" if ahead > 0 else f"{_span(-ahead)} ago"


def _span(seconds: float) -> str:
    """So long, in the two greatest units at most, as kubectl has ages."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m{whole % 60}s" if whole < 600 else f"{whole // 60}m"
    return f"{whole // 3600}h{whole % 3600 // 60}m" if whole < 172_800 else f"{whole // 86_400}d"
