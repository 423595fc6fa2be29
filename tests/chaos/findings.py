"""The log and the API server's request log read together: what is lost, what is doubled."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision, Outcome
from tidewright.events.decisions import Effect, ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.log.reader import Record
from tidewright.sim.api.requestlog import Entry

SCALE = re.compile(r"^/apis/apps/v1/namespaces/([^/]+)/deployments/([^/]+)/scale$")

Target = tuple[str, str]
"""Namespace and name of a workload."""


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
    def answered_twice(self) -> list[str]:
        """Decisions with more than one outcome."""
        return [id_ for id_, found in self.outcomes.items() if len(found) > 1]


@dataclass
class Effects:
    """Scale effects by the log beside those that the API server made.

    Attributes:
        applied: scale decisions with the outcome `Applied` that did not find the value there.
        writes: requests that changed a scale.
        lost: targets where a decision is said to be applied and no write came.
        doubled: targets with more writes than decisions that could have made them.
    """

    applied: int = 0
    writes: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


def effects(ledger: Ledger, entries: Iterable[Entry]) -> Effects:
    """Compare, target by target.

    An attempt whose answer was lost may have written before another attempt found the value there, or
    before a later decision superseded it: such a decision may have one write, never two. One that
    was applied and did not find the value has exactly one.
    """
    surely: Counter[Target] = Counter()
    perhaps: Counter[Target] = Counter()
    for id_, effect in ledger.effects.items():
        if not isinstance(effect, ScaleWorkload):
            continue
        target = (effect.target.namespace, effect.target.name)
        outcome = next(iter(ledger.outcomes.get(id_, ())), None)
        if isinstance(outcome, Applied) and not outcome.found:
            surely[target] += 1
        else:
            perhaps[target] += 1
    writes: Counter[Target] = Counter()
    for entry in entries:
        found = SCALE.match(entry.path.partition("?")[0])
        if found and entry.method != "GET" and entry.code == 200 and entry.rv:
            writes[found[1], found[2]] += 1
    result = Effects(surely.total(), writes.total())
    for target in sorted(surely.keys() | writes.keys()):
        if writes[target] < surely[target]:
            result.lost += ["/".join(target)] * (surely[target] - writes[target])
        most = surely[target] + perhaps[target]
        if writes[target] > most:
            result.doubled += ["/".join(target)] * (writes[target] - most)
    return result


def requests(path: Path) -> list[Entry]:
    """The request log, over all restarts; the line that a kill cut off counts as never written."""
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except msgspec.DecodeError:
            continue
    return entries


def differences(name: str, found: Any, wanted: Any) -> list[str]:
    """Where two nested values part, as lines for people."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        lines = []
        for key in sorted(found.keys() | wanted.keys(), key=str):
            lines += differences(f"{name}.{key}", found.get(key), wanted.get(key))
        return lines
    return [] if found == wanted else [f"{name}: {found!r}, undisturbed {wanted!r}"]
