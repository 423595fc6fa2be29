"""Help pages of one screen: options that few need are named there, and explained by `--help-all`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

ALL = "--help-all"
"""The page with everything."""
FURTHER = frozenset(
    (
        "Identity",
        "Process",
        "Clouds",
        "Metrics, recommenders and configuration",
        "What is allowed",
        "Speed",
        "Store",
        "Definitions and admission",
    )
)
"""Groups of options of which a page has the names alone."""


def default(value: object) -> str | None:
    """A default as a page shows it; None for one that says nothing."""
    if value is None or value is False or value in ("", ()):
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)


class Pages:
    """How the pages are printed; whole, or of one screen."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """One group of options."""
        from cyclopts.help.formatters import DefaultFormatter  # of a page alone

        if self._whole:
            DefaultFormatter()(console, options, panel)
            return
        if panel.title not in FURTHER:
            entries = [entry.copy(env_var=None) for entry in panel.entries]
            DefaultFormatter()(console, options, panel.copy(entries=entries))
            return
        from rich.padding import Padding
        from rich.text import Text

        names = [name for entry in panel.entries for name in entry.names if name.startswith("--")]
        told = Text.assemble(f"{panel.title} ({ALL} explains): ", (" ".join(names), "cyan"))
        console.print(Padding(told, (0, 2)))
