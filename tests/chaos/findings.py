"""The decisions on the log and what became of them; where two states part."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tidewright.events import registry
from tidewright.events.base import Decision, Outcome
from tidewright.events.decisions import Effect
from tidewright.log.reader import Record


@dataclass
class Ledger:
    """Every decision on the log, and what became of it.

    Attributes:
        decisions: by id, in the order of the log.
        twice: ids that stand on the log more than once.
        outcomes: by the id of the decision.
    """

    decisions: dict[str, Decision] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    outcomes: dict[str, list[Outcome]] = field(default_factory=lambda: defaultdict(list))

    def take(self, record: Record) -> None:
        """One record of the log; entries of ledgers repeat a decision on purpose, and are not counted."""
        cls = record.subject.split(".", 3)[2]
        if cls not in ("decision", "outcome"):
            return
        event = registry.decode(record.body)
        if cls == "decision" and isinstance(event, Decision):
            if event.id in self.decisions:
                self.twice.append(event.id)
            self.decisions[event.id] = event
        elif isinstance(event, Outcome):
            self.outcomes[event.decision].append(event)

    @property
    def effects(self) -> dict[str, Effect]:
        """The decisions that the actuator has to answer."""
        return {id_: d for id_, d in self.decisions.items() if isinstance(d, Effect)}

    @property
    def unanswered(self) -> list[str]:
        """Effects without an outcome."""
        return [id_ for id_ in self.effects if id_ not in self.outcomes]

    @property
    def stray(self) -> list[str]:
        """Outcomes of decisions that are not on the log."""
        return [id_ for id_ in self.outcomes if id_ not in self.decisions]

    @property
    def answered_twice(self) -> list[str]:
        """Decisions with more than one outcome."""
        return [id_ for id_, found in self.outcomes.items() if len(found) > 1]


def differences(name: str, found: Any, wanted: Any) -> list[str]:
    """Where two nested values part, as lines for people."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        lines = []
        for key in sorted(found.keys() | wanted.keys(), key=str):
            lines += differences(f"{name}.{key}", found.get(key), wanted.get(key))
        return lines
    return [] if found == wanted else [f"{name}: {found!r}, undisturbed {wanted!r}"]
