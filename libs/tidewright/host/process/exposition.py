"""Series that a decider tells of its states, in Prometheus's text form.

Tens of thousands of objects take seconds to tell, so
that the loop turns in between; what is told of one object is of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tidewright.host.fold.series import Exposition, Series, State, Tally

AT_A_TIME: Final = 200
"""Series between two turns of the loop."""


def _family(name: str, helped: Mapping[str, str]) -> str:
    """The name that a series is listed under: a histogram's parts under the histogram's own."""
    stem, _, part = name.rpartition("_")
    return stem if part in ("bucket", "sum", "count") and name not in helped and stem in helped else name


async def text(
    exposition: Exposition[State], states: Callable[[], Iterable[State]], tally: Tally[State] | None = None
) -> str:
    """The series of all states, with what the process has counted, grouped by their names."""
    lines: dict[str, list[str]] = {}
    for count, series in enumerate(_all(exposition, states, tally)):
        family = _family(series.name, exposition.help)
        family_lines = lines.get(family)
        if family_lines is None:
            kind = "counter" if series.counter else "gauge"
            family_lines = lines[family] = [
                f"# HELP {family} {exposition.help.get(family, family)}",
                f"# TYPE {family} {exposition.types.get(family) or (kind if family == series.name else 'histogram')}",
            ]
        labels = ",".join([f'{key}="{_escaped(text)}"' for key, text in series.labels.items()])
        family_lines.append(f"{series.name}{{{labels}}} {_number(series.value)}")
        if count % AT_A_TIME == AT_A_TIME - 1:
            await asyncio.sleep(0)
    return "".join(["\n".join(block) + "\n" for block in lines.values()])


def _all(
    exposition: Exposition[State], states: Callable[[], Iterable[State]], tally: Tally[State] | None
) -> Iterator[Series]:
    for state in list(states()):
        yield from exposition.series(state)
        if tally is not None:
            yield from tally.series(state)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text
