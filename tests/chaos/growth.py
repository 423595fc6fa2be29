"""What each process takes, memory and disk, over time: looked at, written down, drawn, and judged.

A process that leaks takes ever more for as long as it lives, and a kill hides that. So the judge compares the most that
a process took in the last quarter of a run with the most of the quarter before it.
"""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TextIO

import msgspec
import psutil

MEBIBYTE = 1 << 20
MORE = 0.1
"""Of what it took a quarter of the run before, that a process may take more and still count as flat."""
MEMORY_SLACK = 8 * MEBIBYTE
DISK_SLACK = 32 * MEBIBYTE
"""Beside that share: a block of the log and a journal come and go whole."""
WIDTH, HEIGHT, MARGIN = 360, 110, 24
COLUMNS = 3


class Sample(msgspec.Struct, frozen=True):
    """What one process took at one look: `at_s` wall seconds after the beginning of the run, and bytes."""

    at_s: float
    name: str
    pid: int
    memory: int
    disk: int


class Grown(msgspec.Struct, frozen=True):
    """How much a process took at most in the third and in the last quarter of a run, in bytes."""

    name: str
    what: str
    third: int
    last: int
    flat: bool

    def told(self) -> str:
        return (
            f"{self.name}: {self.what} {_mib(self.third)} in the third quarter, {_mib(self.last)} in the last: "
            f"{'flat' if self.flat else 'GROWS'}"
        )


@dataclass(frozen=True)
class Followed:
    """A process to look at; `folder` is where it keeps what it has, None for nowhere."""

    name: str
    pid: int
    folder: Path | None = None


def look(at_s: float, processes: Iterable[Followed]) -> list[Sample]:
    """What these take now; one that is gone meanwhile is left out."""
    samples = []
    for process in processes:
        try:
            memory = psutil.Process(process.pid).memory_info().rss
        except psutil.Error:
            continue
        disk = size_of(process.folder) if process.folder is not None else 0
        samples.append(Sample(at_s, process.name, process.pid, memory, disk))
    return samples


def size_of(folder: Path) -> int:
    """Bytes of a folder's files; what goes meanwhile is not counted."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total


class Table:
    """The samples as a file of comma-separated values, which grows with each look: an end before time leaves it whole."""

    def __init__(self, file: TextIO) -> None:
        self.samples: list[Sample] = []
        self._file = file
        self._rows = csv.writer(file)
        self._rows.writerow(Sample.__struct_fields__)

    def add(self, samples: Sequence[Sample]) -> None:
        self.samples += samples
        self._rows.writerows(
            (f"{sample.at_s:.1f}", *msgspec.structs.astuple(sample)[1:]) for sample in samples
        )
        self._file.flush()


def judged(samples: Sequence[Sample], end_s: float) -> list[Grown]:
    """Whether each process took no more in the last quarter than in the one before, for memory and for disk.

    Who was not there in one of the two quarters is not judged, and neither is the disk of who has none.
    """
    found = []
    for name, of_one in by_name(samples).items():
        for what, slack in (("memory", MEMORY_SLACK), ("disk", DISK_SLACK)):
            third = [getattr(s, what) for s in of_one if 0.5 * end_s <= s.at_s < 0.75 * end_s]
            last = [getattr(s, what) for s in of_one if 0.75 * end_s <= s.at_s]
            if third and last and (what == "memory" or max(third + last)):
                flat = max(last) <= max(third) * (1 + MORE) + slack
                found.append(Grown(name, what, max(third), max(last), flat))
    return found


def by_name(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """The samples of each process, in the order of their names."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.name, []).append(sample)
    return dict(sorted(found.items()))


def drawn(samples: Sequence[Sample], kills: Mapping[str, Sequence[float]], end_s: float) -> str:
    """A picture (SVG): of each process its memory and, where it has one, its disk over time; a mark where it was killed."""
    panels: list[str] = []
    for name, of_one in by_name(samples).items():
        for what in ("memory", "disk"):
            points = [(sample.at_s, getattr(sample, what)) for sample in of_one]
            if what == "memory" or any(value for _, value in points):
                panels.append(_panel(f"{name}: {what}", points, kills.get(name, ()), end_s))
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + 2 * MARGIN) + MARGIN
    places = [
        f'<g transform="translate({MARGIN + n % COLUMNS * (WIDTH + MARGIN)},{MARGIN + n // COLUMNS * (HEIGHT + 2 * MARGIN)})">{panel}</g>'
        for n, panel in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(places)}</svg>\n'
    )


def _panel(title: str, points: Sequence[tuple[float, int]], kills: Sequence[float], end_s: float) -> str:
    most = max((value for _, value in points), default=0) or 1

    def x(at_s: float) -> str:
        return f"{WIDTH * at_s / max(end_s, 1.0):.1f}"

    line = " ".join(f"{x(at_s)},{HEIGHT - HEIGHT * value / most:.1f}" for at_s, value in points)
    marks = "".join(
        f'<line x1="{x(at_s)}" x2="{x(at_s)}" y1="0" y2="{HEIGHT}" stroke="#e0a0a0"/>' for at_s in kills
    )
    return (
        f'<text y="-6">{escape(title)}, at most {_mib(most)}</text><rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#cccccc"/>'
        f'{marks}<polyline points="{line}" fill="none" stroke="#205080"/><text y="{HEIGHT + 12}">0</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 12}" text-anchor="end">{end_s / 60:.0f} min</text>'
    )


def _mib(size: int) -> str:
    return f"{size / MEBIBYTE:.0f} MiB"
