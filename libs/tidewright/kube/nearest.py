"""What an unknown name may have meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable

NAMED_AT_MOST = 12
"""Valid names that are listed where none is near."""


def closest(name: str, valid: Iterable[str]) -> str:
    """The valid name that is nearest to another one; empty where none is near."""
    from difflib import get_close_matches  # of the rare error alone

    by_case = {known.lower(): known for known in sorted(valid)}
    close = get_close_matches(name.lower(), by_case, n=1)
    return by_case[close[0]] if close else ""


def nearest(name: str, valid: Iterable[str]) -> str:
    """`did you mean tolerance?`, or where nothing is near, `valid are ...`."""
    known = sorted(valid)
    if meant := closest(name, known):
        return f"did you mean {meant}?"
    more = f" and {len(known) - NAMED_AT_MOST} more" if len(known) > NAMED_AT_MOST else ""
    return f"valid are {', '.join(known[:NAMED_AT_MOST])}{more}"
