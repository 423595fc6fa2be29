"""Much of the same said once: groups of one reason, lines that repeat, nodes of one name. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from tidewright.events.provisioning import GroupVerdict
from tidewright.provisioning.tell.capitals import capital
from tidewright.provisioning.tell.in_number import in_number

NAMED = 4
"""Names that are given of many."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


def once(lines: Iterable[str]) -> list[str]:
    """Each line once, in the order of their first places; with its count where it repeats."""
    counted = Counter(lines)
    return [f"{line.removesuffix('.')} ({n} times)." if n > 1 else line for line, n in counted.items()]


def named(names: Iterable[str], what: str = "group") -> str:
    """`group a`, or `groups a, b1..3, c, d and 12 more`."""
    several = set(names)
    return f"{what}{'s' * (len(several) != 1)} {nodes(several)}"


def by_reason(reasons: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Groups that share a reason, by the first of them."""
    shared: dict[str, list[str]] = {}
    for name in sorted(reasons):
        shared.setdefault(reasons[name], []).append(name)
    return [(names, reason) for reason, names in shared.items()]


def nodes(names: Iterable[str]) -> str:
    """Names, those that differ by a number as a range: `general-1..3, gpu-7`."""
    ranges: list[list[tuple[str, str]]] = []
    for stem, number, text in sorted(map(_split, set(names))):
        last = ranges[-1][-1] if ranges else None
        if last is not None and text and last[0] == stem and last[1] and int(last[1]) + 1 == number:
            ranges[-1].append((stem, text))
        else:
            ranges.append([(stem, text)])
    shown = ["".join(run[0]) + (f"..{run[-1][1]}" if len(run) > 1 else "") for run in ranges]
    more = sum(map(len, ranges[NAMED:]))
    return ", ".join(shown[:NAMED]) + (f" and {more} more" if more else "")


def _split(name: str) -> tuple[str, int, str]:
    """A name before its last number, and that number; no number for a name without."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2]), match[2]) if match else (name, -1, "")


def verdicts(all_of_them: Iterable[GroupVerdict]) -> list[str]:
    """What became of each group, with its numbers; groups that are out for one reason in one line."""
    lines: list[str] = []
    out: dict[str, str] = {}
    for verdict in all_of_them:
        held = in_number(f"{verdict.nodes} nodes for {verdict.pods} pods")
        size = f"{held}, {verdict.waste_permille / 20:.1f} % of their cpu and memory unused"
        if verdict.chosen:
            lines.append(f"Group {verdict.group} was chosen: {size}.")
        elif verdict.nodes:
            lines.append(f"Group {verdict.group} was not chosen ({verdict.reason}): {size}.")
        else:
            out[verdict.group] = verdict.reason
    for names, reason in by_reason(out):
        are = "is" if len(names) == 1 else "are"
        lines.append(f"{capital(named(names))} {are} out: {reason}.")
    return lines
