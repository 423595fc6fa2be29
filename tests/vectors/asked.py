"""Which deciders a case has asked: seen while it runs, not said by its adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tidewright.asking.services import BY_NAME, DECIDERS, load
from tidewright.events.base import Decision
from tidewright.host.fold.decider import Decider


@contextmanager
def watched() -> Iterator[set[str]]:
    """While it lasts, the names of services whose `decide` is called are put into the set."""
    asked: set[str] = set()
    with ExitStack() as stack:
        for name in DECIDERS:
            decider: Decider[Any, Any] = load(BY_NAME[name])
            # Frozen for everybody else: adapters hold the decider itself, wherever they have it from.
            stack.callback(object.__setattr__, decider, "decide", decider.decide)
            object.__setattr__(decider, "decide", _noting(asked, name, decider.decide))
        yield asked


def _noting(
    asked: set[str], name: str, decide: Callable[..., Sequence[Decision]]
) -> Callable[..., Sequence[Decision]]:
    def noted(*given: Any) -> Sequence[Decision]:
        asked.add(name)
        return decide(*given)

    return noted
