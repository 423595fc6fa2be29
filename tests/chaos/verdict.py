"""What the comparisons of a run come to: lines for people, and how many decisions are lost and doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.drains import Drains
from tests.chaos.effects import Effects
from tests.chaos.findings import Ledger, differences
from tests.chaos.live import Ended
from tests.chaos.scripted import Played
from tidewright.host.fold.verify import Report

EXAMPLES = 10
"""Of what is wrong, that are shown."""
MANY_KILLS = 10
"""Of so many kills some are aimed at drains, and one has to meet one."""


@dataclass
class Verdict:
    """Lines for people, and how many decisions are lost and doubled."""

    lines: list[str] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0
    kills: int = 0
    decisions: int = 0

    def add(self, other: Verdict) -> None:
        """Count another one in."""
        self.kills += other.kills
        self.decisions += other.decisions
        self.lost += other.lost
        self.doubled += other.doubled

    def tell(self) -> None:
        """Print what was said since the last time."""
        print("\n".join(self.lines), flush=True)
        self.lines.clear()

    def unfinished(self, what: str, error: Exception) -> None:
        """A part of the run came to no end, which is as bad as a lost decision."""
        self.say(f"{what} came to no end: {error}")
        self.lost += 1

    def total(self) -> str:
        return f"{self.kills} kills, {self.decisions} decisions, {self.lost} lost, {self.doubled} doubled"

    def say(self, line: str, *more: str) -> None:
        """A line, and a few examples under it."""
        self.lines += [line, *(f"  {one}" for one in more[:EXAMPLES])]

    def recomputed(self, report: Report) -> None:
        self.say(
            f"recomputed from the log: {report.decisions} decisions and {report.checkpoints} checkpoints, "
            f"{report.count} differ",
            *(f"{d.service} slot {d.slot} sequence {d.seq}: {d.cause}: {d.message}" for d in report.differences),
        )  # fmt: skip
        self.lost += report.count

    def answered(self, ledger: Ledger) -> None:
        kinds = Counter(type(found).__name__ for outcomes in ledger.outcomes.values() for found in outcomes)
        self.say(
            f"outcomes: {len(ledger.effects)} effects, {len(ledger.unanswered)} without an outcome, "
            f"{len(ledger.answered_twice)} with more than one, {len(ledger.stray)} outcomes of nothing; "
            f"{len(ledger.twice)} decisions twice on the log; {listed(kinds)}",
            *(f"no outcome: {id_} {type(ledger.decisions[id_]).__name__}" for id_ in ledger.unanswered),
            *(f"outcomes of {id_}: {ledger.outcomes[id_]}" for id_ in ledger.answered_twice),
            *(f"outcome of no decision: {id_}" for id_ in ledger.stray),
        )  # fmt: skip
        self.lost += len(ledger.unanswered)
        self.doubled += len(ledger.twice) + len(ledger.answered_twice) + len(ledger.stray)

    def written(self, effects: Effects) -> None:
        self.say(
            f"the API server's request log: {effects.writes.total()} writes ({listed(effects.writes)}) for "
            f"{effects.applied.total()} effects applied ({listed(effects.applied)}), "
            f"{len(effects.lost)} missing, {len(effects.doubled)} too many; {effects.unsure.total()} of the writes "
            f"({listed(effects.unsure)}) are those of attempts whose answer was lost, perhaps",
            *(f"missing: {place}" for place in effects.lost),
            *(f"too many: {place}" for place in effects.doubled),
        )
        self.say(
            f"the cloud: {effects.ordered} nodes ordered, {effects.machines} machines seen; nodes for {effects.foreseen} pods "
            "planned because of decisions to scale, before anybody made them"
        )
        self.lost += len(effects.lost)
        self.doubled += len(effects.doubled)

    def drained(self, drains: Drains, kills: int, amid: int) -> None:
        """`amid`: of the kills, those that met a drain. Where none of many did it is not known what they would have broken."""
        missed = kills >= MANY_KILLS and not amid
        self.say(
            f"kills in the middle of a drain: {amid} of {kills}",
            *([f"none of {kills} kills met a drain"] if missed else ()),
        )
        self.lost += missed
        self.say(
            f"drains by the API server's request log: {drains.evictions} evictions, {drains.charged} of them under a budget, "
            f"{len(drains.broken)} broke one; {len(drains.deleted)} nodes' machines deleted, {len(drains.lost)} pods lost with "
            f"them; {len(drains.past)} pods taken without an eviction, {len(drains.unnamed)} nodes without a decision, "
            f"{len(drains.untold)} not told by the log, {len(drains.stray)} with a mark that was left",
            *drains.wrong,
        )
        self.lost += len(drains.wrong)

    def ended(self, calm: Ended, shaken: Ended) -> None:
        state = calm.state
        apart = differences("", shaken.state, state)
        self.say(
            f"the end beside an undisturbed run: {len(state['workloads'])} workloads' replicas, "
            f"{len(state['autoscalers'])} autoscalers' and {len(state['requests'])} requests' conditions, "
            f"{len(state['places'])} workloads' places and their spreads' status, {len(state['sets'])} shard sets' "
            f"conditions, the slots of {len(state['workers'])} workers, and the cloud's nodes: {len(apart)} differ",
            *apart,
        )
        if shaken.wrong:
            self.say(
                f"no fixed point: {len(shaken.wrong)} objects are not where they have to be", *shaken.wrong
            )
        self.lost += len(apart) or len(shaken.wrong)

    def same(self, still: Played, killed: Played) -> None:
        apart = [
            name
            for name in sorted(still.decisions.keys() | killed.decisions.keys())
            if still.decisions.get(name) != killed.decisions.get(name)
        ]
        self.say(
            f"the stream of decisions beside an undisturbed run: {len(killed.ledger.decisions)} decisions about "
            f"{len(still.decisions)} things, {len(apart)} differ",
            *(difference(name, still, killed) for name in apart),
        )
        self.lost += len(apart)


def difference(name: str, still: Played, killed: Played) -> str:
    """The first decision about a thing that is not the same in both runs."""
    one, other = still.decisions.get(name, []), killed.decisions.get(name, [])
    n = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other)))  # fmt: skip
    return f"{name}: {len(other)} decisions, undisturbed {len(one)}; number {n}: {other[n:n + 1]}, undisturbed {one[n:n + 1]}"  # fmt: skip


def listed(counts: Counter[str]) -> str:
    """Counts by name, for people."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
