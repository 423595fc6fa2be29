"""What every page takes from its URL: the moment that is looked at, the stretch before it, and links that keep both."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec
from markupsafe import Markup, escape

from tidewright.asking.answers.form import stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.point_in_time import Moment, beginning_of, moment_of
from tidewright.asking.source import Source
from tidewright.asking.tables import plain
from tidewright.host.fold.explainer import Reference

WINDOWS: dict[str, float] = {"15m": 900.0, "1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0, "7d": 604_800.0}
"""Stretches that charts and counts can be of, by name, seconds."""
SAID = {"15m": "15 minutes", "1h": "hour", "6h": "6 hours", "1d": "day", "7d": "7 days"}
WINDOW = "1h"
KEPT = 256
"""Moments whose sequence is remembered."""
FRESH_S = 0.25
"""For so long, wall seconds, the end of the log is taken to be where it was."""
KEEPERS = {"booking of": "provisioningrequest", "buffer": "capacitybuffer"}
"""Who keeps room, as sentences of provisioning say it before their names."""
_KEEPER = re.compile(r"\b(booking of|buffer) ([a-z0-9-]+/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
_STEPPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|(?:seq:|#)\d+")


@dataclass(frozen=True)
class Looking:
    """What a page is asked for.

    Attributes:
        moment: what is looked at; its `end` when it is now.
        at: as it stands in URLs; empty for now. What is said from now on (`15m`, `14:14`) is the time that it meant.
        first, last: log times that can be looked at, seconds.
        window: name of the stretch before the moment.
        query: the other parameters of the page.
        under: path below which the pages of this log are; empty for the root.
    """

    moment: Moment
    at: str
    first: float
    last: float
    window: str
    query: Mapping[str, str]
    under: str = ""

    @property
    def live(self) -> bool:
        return not self.at

    @property
    def stretch(self) -> str:
        """The stretch before the moment, for people."""
        return SAID[self.window]

    @property
    def since(self) -> float:
        """The log time at which the stretch begins, seconds."""
        return max(self.first, self.moment.at - WINDOWS[self.window])

    def given(self, name: str) -> str:
        """A parameter of the page; empty when it is not given."""
        return self.query.get(name, "").strip()

    def link(self, path: str, **query: object) -> str:
        """A link that keeps the moment and the stretch. A parameter that is None or empty is left out."""
        kept: dict[str, object] = {"at": self.at, "window": "" if self.window == WINDOW else self.window}
        given = {
            name.rstrip("_"): value for name, value in {**kept, **query}.items() if value not in ("", None)
        }
        return self.under + path + (f"?{urlencode(given)}" if given else "")

    def object(self, reference: Reference, **query: object) -> str:
        """The page of an object."""
        return self.link(path_of(reference), **query)

    def told(self, sentence: str) -> Markup:
        """A sentence in which whoever keeps room is a link: the next question is about them."""
        parts: list[Markup] = []
        end, text = 0, plain(sentence)
        for keeper in _KEEPER.finditer(text):
            space, _, name = keeper[2].partition("/")
            page = self.object(Reference(KEEPERS[keeper[1]], space, name))
            parts += [
                escape(text[end : keeper.start(2)]),
                Markup('<a href="{}">{}</a>').format(page, keeper[2]),
            ]
            end = keeper.end(2)
        return Markup("").join([*parts, escape(text[end:])])


def path_of(reference: Reference) -> str:
    """Where the page of an object is; `_` stands for no namespace, which none is called."""
    space = quote(reference.namespace, safe="") or "_"
    return f"/object/{quote(reference.kind, safe='')}/{space}/{quote(reference.name, safe='/')}"


class Moments:
    """The moments of one log, found for the times that URLs name."""

    def __init__(self, source: Source, under: str = "") -> None:
        """`under` is the path below which the log's pages are."""
        self._source = source
        self._under = under
        self._known: OrderedDict[tuple[int, str], Moment] = OrderedDict()
        self._end: tuple[float, Moment] | None = None
        self._first: tuple[tuple[int, int], float] = ((0, 0), 0.0)
        self._lock = asyncio.Lock()

    async def looking(self, query: Mapping[str, str]) -> Looking:
        """What a query asks for.

        Raises:
            BadInput: no time, one outside of what is retained, or a window that there is none of.
        """
        window = query.get("window") or WINDOW
        if window not in WINDOWS:
            raise BadInput(f"window={window}: one of {', '.join(WINDOWS)}")
        at = query.get("at", "").strip()
        end = await self.now()
        first = await self._beginning()
        moment = await self._at(at, (first, end.at)) if at else end
        if at and not _STEPPED.fullmatch(at):
            at = stamp(moment.at)
        return Looking(moment, at, min(first, end.at), end.at, window, query, self._under)

    async def now(self) -> Moment:
        """The end of the log."""
        async with self._lock:
            read = time.monotonic()
            if self._end is None or read - self._end[0] > FRESH_S:
                self._end = (read, await moment_of(self._source, ""))
            return self._end[1]

    async def since(self, looking: Looking) -> Moment:
        """The beginning of the stretch."""
        if looking.since <= looking.first:
            first, _ = await self._source.bounds()
            return Moment(max(0, first - 1), looking.first)
        moment = await self._at(stamp(looking.since), (looking.first, looking.last))
        return msgspec.structs.replace(moment, end=False)

    async def _at(self, text: str, known: tuple[float, float] | None = None) -> Moment:
        """A moment that is named; one that has passed stays where it is."""
        if not _STEPPED.fullmatch(text):
            return await moment_of(self._source, text)
        found = self._known.get((self._source.remade, text))
        if found is None:
            found = await moment_of(self._source, text, known=known)
            if found.ended is None and not found.end:
                self._known[self._source.remade, text] = found
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return found

    async def _beginning(self) -> float:
        first, _ = await self._source.bounds()
        if self._first[0] != (of := (self._source.remade, first)):
            self._first = (of, await beginning_of(self._source, first))
        return self._source.since if self._source.since is not None else self._first[1]
