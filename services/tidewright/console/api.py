"""The questions of `tidewright.asking.questions` over HTTP: the same answers as the command line's `-o json`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewright.asking import listing
from tidewright.asking.errors import BadInput, Unavailable
from tidewright.asking.events import CLASSES, Class, found, wanted
from tidewright.asking.explain import explained, explained_decision
from tidewright.asking.lines import answer as line_answer
from tidewright.asking.objects import SHORT, named
from tidewright.asking.ordered import in_order
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.questions import QUESTIONS
from tidewright.asking.rendering import answer as explanation_answer
from tidewright.asking.series import POINTS, series
from tidewright.asking.source import Source
from tidewright.asking.state import answer as state_answer
from tidewright.asking.state import state_of
from tidewright.console.asked import Moments
from tidewright.console.backwards import Backwards
from tidewright.console.lists import Lists
from tidewright.console.verifying import Verifying
from tidewright.events import registry
from tidewright.host.fold.explainer import Reference

MOST_EVENTS = 10_000
"""In one answer."""

Query: TypeAlias = Mapping[str, str]
Handler: TypeAlias = Callable[[Query], Awaitable[Any]]


@dataclass
class Answers:
    """The questions of one log."""

    source: Source
    moments: Moments
    lists: Lists
    backwards: Backwards
    verifying: Verifying

    def handlers(self) -> dict[str, Handler]:
        """By the question's name."""
        every: dict[str, Handler] = {
            "get": self.kinds, "list": self.listed, "explain": self.explain, "state": self.state, "series": self.series,
            "events": self.events, "compare": self.compare, "plan.scale-down": self.scale_down,
            "verify": self.verify,
        }  # fmt: skip
        known = {question.name: {p.name for p in question.parameters} for question in QUESTIONS}
        return {name: _strict(handler, known[name]) for name, handler in every.items()}

    async def kinds(self, query: Query) -> Any:
        return await listing.kinds(self.source, await moment_of(self.source, query.get("at", "")))

    async def listed(self, query: Query) -> Any:
        kind = _required(query, "kind").lower()
        moment = await moment_of(self.source, query.get("at", ""))
        space, name = query.get("namespace", ""), query.get("name", "")
        return await listing.listed(self.source, SHORT.get(kind, kind), moment, namespace=space, name=name)

    async def explain(self, query: Query) -> Any:
        asked = _object(query) if query.get("kind") or query.get("name") else None
        if identity := query.get("decision"):
            if query.get("at"):
                raise BadInput("at and decision: a decision has its own moment, give one of them")
            return explanation_answer(await explained_decision(self.source, identity, asked))
        if asked is None:
            raise BadInput("name one object with kind and name, or a decision")
        moment = await moment_of(self.source, query.get("at", ""))
        return explanation_answer(await explained(self.source, asked, moment))

    async def state(self, query: Query) -> Any:
        moment = await moment_of(self.source, query.get("at", ""))
        return state_answer(await state_of(self.source, _object(query), moment))

    async def series(self, query: Query) -> Any:
        since = await moment_of(self.source, query.get("since") or "1h", "--since")
        until = await moment_of(self.source, query.get("until", ""), "--until")
        points = query.get("points") or str(POINTS)
        if not points.isdigit():
            raise BadInput(f"points={points}: a number, 1 to 5000")
        return await series(self.source, _object(query), since, until, int(points))

    async def events(self, query: Query) -> Any:
        classes: list[Class] = [
            name for name in CLASSES if name in query.get("class", ",".join(CLASSES)).split(",")
        ]
        about = f"{query['kind']}/{query['name']}" if query.get("kind") and query.get("name") else ""
        tail = query.get("tail") or str(MOST_EVENTS)
        if not tail.isdigit() or not 1 <= int(tail) <= MOST_EVENTS:
            raise BadInput(f"tail={tail}: 1 to {MOST_EVENTS}")
        selection = await wanted(
            self.source, tuple(classes) or CLASSES, query.get("namespace", ""), about="", since=query.get("since", ""),
            until=query.get("until", ""), parked=False,
        )  # fmt: skip
        if about:
            selection.about = named(about, query.get("namespace", ""))
        rows = []
        async with (
            aclosing(found(self.source, selection, follow=False, tail=int(tail))) as those,
            aclosing(in_order(those, follow=False)) as ordered,
        ):
            async for record, event in ordered:
                if not isinstance(event, registry.NotAnEvent):
                    rows.append(line_answer(record, event))
        return rows

    async def compare(self, query: Query) -> Any:
        from tidewright.asking import comparing  # it imports what is compared

        moment = await moment_of(self.source, "")
        since = await comparing.begin_of(self.source, query.get("since", ""), moment)
        compared = await comparing.comparisons(
            self.source, moment, namespace=query.get("namespace", ""), name=query.get("name", ""), since=since
        )
        return comparing.answer(self.source, moment, since, compared)

    async def verify(self, query: Query) -> Any:
        """What the verification in the background found: the last run, or the one that found a difference."""
        del query
        ran = self.verifying.failure or self.verifying.latest
        if ran is None:
            not_yet = "nothing is verified yet" if self.verifying.command else "this console does not verify"
            raise Unavailable(f"{not_yet}: ask `tidewright verify`")
        return ran.answer

    async def scale_down(self, query: Query) -> Any:
        from tidewright.asking import planning  # it imports what decides

        moment = await moment_of(self.source, query.get("at", ""))
        return planning.answer_of_scale_down(
            self.source, moment, await planning.scale_down(self.source, moment)
        )


def _strict(handler: Handler, names: set[str]) -> Handler:
    async def checked(query: Query) -> Any:
        if unknown := sorted(set(query) - names):
            raise BadInput(
                f"{unknown[0]}: no parameter of this question; valid are {', '.join(sorted(names)) or 'none'}"
            )
        return await handler(query)

    return checked


def _required(query: Query, name: str) -> str:
    if not query.get(name):
        raise BadInput(f"{name}: is needed")
    return query[name]


def _object(query: Query) -> Reference:
    return named(f"{_required(query, 'kind')}/{_required(query, 'name')}", query.get("namespace", ""))
