"""Series that a decider tells of its states, in Prometheus's text form.

A decider that has any brings `series(state)`. Tens of thousands of objects take seconds to tell, so
that the loop turns in between; what is told of one object is of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

AT_A_TIME: Final = 200
"""Series between two turns of the loop."""


class Series(Protocol):
    """One line of the exposition."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def value(self) -> float: ...
    @property
    def counter(self) -> bool: ...


class Telling(Protocol):
    """What a decider with series of its own brings.

    One whose names with parts (`_sum`, `_count`) are summaries also brings `series_types`, their type by name.
    """

    @property
    def series_help(self) -> Mapping[str, str]:
        """What each name says, for people."""
        ...

    def series(self, state: Any) -> Iterable[Series]: ...


def of(decider: object) -> Telling | None:
    """The decider's own series; None when it has none."""
    return decider if hasattr(decider, "series") and hasattr(decider, "series_help") else None


def _family(name: str, helped: Mapping[str, str]) -> str:
    """The name that a series is listed under: a histogram's parts under the histogram's own."""
    stem, _, part = name.rpartition("_")
    return stem if part in ("bucket", "sum", "count") and name not in helped and stem in helped else name


async def told(telling: Telling, states: Callable[[], Iterable[Any]]) -> str:
    """The series of all states, grouped by their names."""
    lines: dict[str, list[str]] = {}
    types: Mapping[str, str] = getattr(telling, "series_types", {})
    for count, series in enumerate(_all(telling, states)):
        family = _family(series.name, telling.series_help)
        found = lines.get(family)
        if found is None:
            kind = "counter" if series.counter else "gauge"
            found = lines[family] = [
                f"# HELP {family} {telling.series_help.get(family, family)}",
                f"# TYPE {family} {types.get(family) or (kind if family == series.name else 'histogram')}",
            ]
        labels = ",".join([f'{key}="{_escaped(text)}"' for key, text in series.labels.items()])
        found.append(f"{series.name}{{{labels}}} {_number(series.value)}")
        if count % AT_A_TIME == AT_A_TIME - 1:
            await asyncio.sleep(0)
    return "".join(["\n".join(found) + "\n" for found in lines.values()])


def _all(telling: Telling, states: Callable[[], Iterable[Any]]) -> Iterator[Series]:
    for state in list(states()):
        yield from telling.series(state)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text
