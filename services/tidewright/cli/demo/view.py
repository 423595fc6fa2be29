"""What happens in the demo, while it happens: a table on a terminal, lines otherwise."""

from __future__ import annotations

import sys

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tidewright.autoscaler.tell.sentences import sentences
from tidewright.cli.chart import bars, clock, sampled
from tidewright.cli.demo.drawn import Drawn, View
from tidewright.cli.demo.story import Story
from tidewright.cli.demo.summary import DemoRun
from tidewright.events.decisions import ScaleWorkload

SHOWN = 8
"""Scale decisions in the table."""
WIDTH = 60


def reason(scale: ScaleWorkload) -> str:
    """The reason of a scale decision in one line: its first sentence is the measurement."""
    said = sentences(scale.because)
    return said[0] if said else "no reason recorded"


class Lines:
    """One line per scale decision once its outcome is known, on stderr or stdout; for pipes and files."""

    def __init__(self, *, quiet_stdout: bool) -> None:
        self._stream = sys.stderr if quiet_stdout else sys.stdout
        self._said = 0
        self._story = Story()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        for scale in self._story.scales[self._said :]:
            self._say(scale, "open")

    def update(self, story: Story) -> None:
        """Say what has come of the decisions, in their order."""
        self._story = story
        for scale in story.scales[self._said :]:
            outcome = story.applied(scale)
            if not outcome:
                return
            self._said += 1
            if not story.repeats(scale):
                self._say(scale, outcome, story.outcomes[scale.id].message)

    def _say(self, scale: ScaleWorkload, outcome: str, message: str = "") -> None:
        change = f"{scale.from_replicas:>3} -> {scale.replicas:<3} replicas"
        said = "" if outcome == "applied" else f" ({outcome}{': ' if message else ''}{message})"
        print(
            f"{clock(self._story.times[scale.id])}  {change}{said}  {reason(scale)}",
            file=self._stream,
            flush=True,
        )


class Screen(Drawn):
    """A table that is drawn anew; for terminals."""

    def __init__(self, run: DemoRun, *, stderr: bool) -> None:
        super().__init__(stderr=stderr)
        self._run = run

    def update(self, story: Story) -> None:
        """Draw what is known."""
        run = self._run
        share = min(1.0, max(0.0, (story.now - run.start) / (run.end - run.start)))
        head = Text.assemble(
            (f"{clock(story.now)}  ", "bold"),
            f"{share:>4.0%} of the load, {run.speed:,.0f} times faster   ",
            f"load {'-' if story.value is None else format(story.value, ',.0f')}   ",
            (f"replicas {story.wanted}", "bold green"),
            f" ({story.ready} ready)   decisions {sum(story.decisions.values())}",
        )
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("time", "replicas", "because", "outcome"):
            table.add_column(column, no_wrap=column != "because")
        for scale in story.steps[-SHOWN:]:
            up = scale.replicas > scale.from_replicas
            change = Text(f"{scale.from_replicas} -> {scale.replicas}", style="green" if up else "yellow")
            # As text: a metric's selector in brackets would be taken for markup.
            because = Text(reason(scale))
            table.add_row(clock(story.times[scale.id]), change, because, story.applied(scale) or "open")
        self._live.update(Group(head, Text(), *self._curves(story), Text(), table))

    def _curves(self, story: Story) -> list[Text]:
        run = self._run
        columns = max(1, round(WIDTH * min(1.0, max(0.0, (story.now - run.start) / (run.end - run.start)))))
        until = max(story.now, run.start + 1)
        curves = []
        for name, points, style in (
            ("load    ", story.load, "cyan"),
            ("replicas", story.replicas, "green"),
        ):
            for index, line in enumerate(bars(sampled(points, run.start, until, columns), 2)):
                curves.append(Text.assemble((f"{name if index == 1 else '':<9}", "dim"), (line, style)))
        return curves


def view_for(run: DemoRun, *, json_output: bool) -> View[Story]:
    """A table when a person watches, lines otherwise; with JSON on stdout it goes to stderr."""
    stream = sys.stderr if json_output else sys.stdout
    return Screen(run, stderr=json_output) if stream.isatty() else Lines(quiet_stdout=json_output)
