"""What happens to pods and nodes, while it happens: a table on a terminal, lines otherwise."""

from __future__ import annotations

import sys

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tidewright.cli.chart import bars, clock, sampled
from tidewright.cli.demo.drawn import Drawn, View
from tidewright.cli.demo.nodes.story import NodesStory
from tidewright.cli.demo.nodes.summary import NodesRun
from tidewright.events.provisioning import PlanScaleUp, RemoveNode
from tidewright.provisioning.tell.lines import line

SHOWN = 8
"""Decisions in the table."""
WIDTH = 60


def decided(story: NodesStory) -> list[PlanScaleUp | RemoveNode]:
    """Plans and removals in the order in which they were decided."""
    return sorted([*story.plans, *story.removals], key=lambda decision: story.times[decision.id])


def standing(story: NodesStory, decision: PlanScaleUp | RemoveNode) -> str:
    """What has come of a removal; empty for a plan, whose nodes are seen."""
    if isinstance(decision, PlanScaleUp):
        return ""
    if decision.id in story.removed:
        return "gone"
    return "undone" if decision.id in story.undone else "under way"


class NodesLines:
    """One line per plan and removal, and one per removal that was undone, on stderr or stdout; for pipes and files."""

    def __init__(self, *, quiet_stdout: bool) -> None:
        self._stream = sys.stderr if quiet_stdout else sys.stdout
        self._said: set[str] = set()

    def __enter__(self) -> NodesLines:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, story: NodesStory) -> None:
        """Say what has been decided since."""
        for decision in [*decided(story), *story.undone.values()]:
            if decision.id not in self._said:
                self._said.add(decision.id)
                counts = f"{story.pods:>3} pods {len(story.nodes):>3} nodes"
                print(
                    f"{clock(story.times[decision.id])}  {counts}  {line(decision)}",
                    file=self._stream,
                    flush=True,
                )


class NodesScreen(Drawn):
    """A table that is drawn anew; for terminals."""

    def __init__(self, run: NodesRun, *, stderr: bool) -> None:
        super().__init__(stderr=stderr)
        self._run = run

    def update(self, story: NodesStory) -> None:
        """Draw what is known."""
        run = self._run
        share = min(1.0, max(0.0, (story.now - run.start) / (run.end - run.start)))
        head = Text.assemble(
            (f"{clock(story.now)}  ", "bold"),
            f"{share:>4.0%} of the story, {run.speed:,.0f} times faster   ",
            f"pods {story.pods} ({story.waiting} wait)   ",
            (f"nodes {len(story.nodes)}", "bold green"),
            f" ({len(story.under_way)} on their way out)   decisions {sum(story.decisions.values())}",
        )
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("time", "decision", ""):
            table.add_column(column, no_wrap=column != "decision")
        for decision in decided(story)[-SHOWN:]:
            up = isinstance(decision, PlanScaleUp)
            what = Text(line(decision), style="green" if up else "yellow")
            table.add_row(clock(story.times[decision.id]), what, standing(story, decision))
        self._live.update(Group(head, Text(), *self._curves(story, share), Text(), table))

    def _curves(self, story: NodesStory, share: float) -> list[Text]:
        run = self._run
        columns, until = max(1, round(WIDTH * share)), max(story.now, run.start + 1)
        curves = []
        for name, points, style in (("pods", story.counts, "cyan"), ("nodes", story.sizes, "green")):
            for index, bar in enumerate(bars(sampled(points, run.start, until, columns), 2)):
                curves.append(Text.assemble((f"{name if index == 1 else '':<9}", "dim"), (bar, style)))
        return curves


def view_for(run: NodesRun, *, json_output: bool) -> View[NodesStory]:
    """A table when a person watches, lines otherwise; with JSON on stdout it goes to stderr."""
    stream = sys.stderr if json_output else sys.stdout
    return NodesScreen(run, stderr=json_output) if stream.isatty() else NodesLines(quiet_stdout=json_output)
