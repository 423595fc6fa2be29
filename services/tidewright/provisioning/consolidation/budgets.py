"""How many nodes of a group may go at a time: budgets as Karpenter's users know them. Addendum 4.1, 4.2 rule 9.

A budget is a number of nodes or a percentage of the group's, rounded up; with a schedule it holds in its windows alone, and with
reasons for these alone. The smallest that holds counts, less what is going already and what is not ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.kube.durations import parse_duration
from tidewright.kube.windows import SHORTEST_S, Window, standing, unreadable, windows
from tidewright.provisioning.consolidation.modes import OTHERS

EMPTY, UNDERUTILISED = "Empty", "Underutilized"
REASONS = (EMPTY, UNDERUTILISED)
EXHAUSTED = "ConsolidationBudget"
_PART = "%"
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MOST = 50


class Disruptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One budget.

    Attributes:
        nodes: a number, or a percentage such as `10%`.
        schedule: five fields of cron, UTC, or a word for them such as `@daily`; empty: it always holds. `duration` says for how long from then.
        reasons: of `Empty` and `Underutilized`; empty: for both.
    """

    nodes: str
    schedule: str = ""
    duration: str = ""
    reasons: tuple[str, ...] = ()

    def holds(self, reason: str, now: float) -> bool:
        """Whether it bounds what goes for a reason at this moment."""
        if self.reasons and reason not in self.reasons:
            return False
        return not self.schedule or standing(self.windows(), now).open

    def windows(self) -> tuple[Window, ...]:
        """When it holds, of one with a schedule; the words for schedules are those of cron."""
        return windows(f"{_in_fields(self.schedule)} {self.duration}")

    def amount(self, size: int) -> int:
        """Nodes of a group of this size that may be away at a time."""
        if self.nodes.endswith(_PART):
            return -(-size * int(self.nodes.removesuffix(_PART)) // 100)
        return int(self.nodes)


_FIELDS = frozenset(Disruptions.__struct_fields__)
_NAMED = "nodes, schedule, duration and reasons"
DEFAULT = (Disruptions(nodes="10%"),)
Budgets = Mapping[str, tuple[Disruptions, ...]]
"""Group, or `*` for the others, to its budgets."""
NOTHING: Budgets = {OTHERS: (Disruptions(nodes="0"),)}
"""What holds where budgets were written that cannot be read: they are there to keep nodes, and the default lets some go."""


def read_by_group(value: Any) -> dict[str, tuple[Disruptions, ...]]:
    """Budgets of all groups, or an object of groups (`*` for the others), each as `read_budgets` has it.

    Raises:
        TypeError, ValueError: a field is not what it may be; the message names it.
    """
    if not isinstance(value, Mapping):
        return {OTHERS: read_budgets(value)}
    if _is_budget(value):
        raise ValueError(
            "expected budgets in a list, as [{nodes: 10%}], or an object of groups; those of a group `nodes` are a list, too"
        )
    found: dict[str, tuple[Disruptions, ...]] = {}
    for group, several in value.items():
        try:
            found[str(group)] = read_budgets(several)
        except (TypeError, ValueError) as error:
            raise ValueError(f"of group {group} {error}") from error
    return found


def _is_budget(value: Mapping[Any, Any]) -> bool:
    """Whether an object is one budget rather than one of groups, of which one may be called as a field is."""
    return set(value) <= _FIELDS and isinstance(value.get("nodes"), int | str)


def of_group(given: Budgets, group: str) -> tuple[Disruptions, ...]:
    """The budgets of a group: its own, those of the others, or the default."""
    return given.get(group, given.get(OTHERS, DEFAULT))


def read_budgets(value: Any) -> tuple[Disruptions, ...]:
    """Budgets, as a list of objects or as one number or percentage.

    Raises:
        TypeError, ValueError: a field is not what it may be; the message names it.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        raise ValueError("it is text: a list of budgets stands there as it is, without quotes")
    if isinstance(value, int | str) and not isinstance(value, bool):
        value = [{"nodes": value}]
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(f"expected nodes as a number or percentage, or a list of at most {MOST} budgets")
    return tuple(_read(each) for each in value)


def _read(given: Any) -> Disruptions:
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r}: expected an object with {_NAMED}")
    unknown = [str(key) for key in given if key not in _FIELDS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no field of a budget; it has {_NAMED}")
    nodes = given.get("nodes")
    number = str(nodes).removesuffix(_PART)
    if isinstance(nodes, bool) or not number.isdecimal() or (number != str(nodes) and int(number) > 100):
        there = f"nodes={nodes!r}" if "nodes" in given else "nodes is missing"
        raise ValueError(f"{there}: expected 0 or more, or a percentage from 0% to 100%")
    reasons = given.get("reasons") or []
    known = f"{' or '.join(REASONS)}, or both"
    if not isinstance(reasons, list):
        raise TypeError(f"reasons={reasons!r}: expected a list, with {known}")
    if others := [str(reason) for reason in reasons if reason not in REASONS]:
        raise ValueError(f"reasons: expected {known}, not {', '.join(others)}")
    schedule, duration = _times(given.get("schedule") or "", given.get("duration") or "")
    return Disruptions(nodes=str(nodes), schedule=schedule, duration=duration, reasons=tuple(reasons))


def _times(schedule: Any, duration: Any) -> tuple[str, str]:
    """When a budget holds, and for how long, both or neither."""
    if bool(schedule) != bool(duration):
        there, missing = ("schedule", "duration") if schedule else ("duration", "schedule")
        raise ValueError(f"{there} stands there without {missing}: they belong together")
    if not schedule:
        return "", ""
    wrong = unreadable(_in_fields(str(schedule)))
    if wrong:
        raise ValueError(
            f"schedule={schedule!r}: {wrong}; expected minute, hour, day, month and weekday of cron in UTC, "
            f"as '0 8 * * mon-fri', or one of {', '.join(_WORDS)}"
        )
    try:
        long_enough = parse_duration(str(duration)) >= SHORTEST_S
    except ValueError:
        long_enough = False
    if not long_enough:
        raise ValueError(f"duration={duration!r}: expected a minute or more, as 8h or 1h30m")
    return str(schedule), str(duration)


def _in_fields(schedule: str) -> str:
    """A schedule in the fields of cron, also of one that is a word for them."""
    return _WORDS.get(schedule, schedule)


def left(budgets: Sequence[Disruptions], reason: str, size: int, away: int, now: float) -> int:
    """Nodes of a group that may go now for a reason, 0 or more; without a budget that holds all.

    Args:
        budgets: of the settings.
        reason: `Empty` or `Underutilized`.
        size: nodes of the group that are there.
        away: those of them that are going, or not ready.
        now: log time.
    """
    holding = [budget.amount(size) for budget in budgets if budget.holds(reason, now)]
    return max(0, min([size, *holding]) - away)


def next_change(given: Budgets, now: float) -> float | None:
    """When a window next opens or closes; None when none ever does."""
    scheduled = [budget for several in given.values() for budget in several if budget.schedule]
    ends = (standing(b.windows(), now).until for b in scheduled)
    return min((end for end in ends if end is not None), default=None)


def opens(budgets: Sequence[Disruptions], reason: str, size: int, now: float) -> float | None:
    """When one of so many nodes may go for a reason again, if none is away; None where that is never seen."""
    these = {OTHERS: tuple(budget for budget in budgets if not budget.reasons or reason in budget.reasons)}
    at = now
    for _ in range(MOST):
        change = next_change(these, at)
        if change is None or left(budgets, reason, size, 0, change):
            return change
        at = change
    return None
