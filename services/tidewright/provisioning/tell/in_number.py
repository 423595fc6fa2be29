"""Sentences about one thing, which are made of numbers and read as of several: `its 1 pods fit on 1 other nodes`. Pure.

What is recorded stays as it was written; this is for who reads it.
"""

from __future__ import annotations

import re

_ALL = re.compile(r"\ball 1 (pods|nodes|chunks)( of group \S+)? (fit|have|are)\b")
_ONE = re.compile(
    r"(?<![\d.,:/-])1 (other |more )?(pods|nodes|chunks|groups|shapes|instances|cores|pod templates)\b(?: (fit|have|are|move|go|were)\b)?"
)
_OF = re.compile(r"(?<![\d.,:/-])(\d+) [a-z]+ of $")
_VERBS = {"fit": "fits", "have": "has", "are": "is", "move": "moves", "go": "goes", "were": "was"}


def in_number(text: str) -> str:
    """A sentence with `1 pods` and the like in the singular, and the verb behind it."""
    text = _ALL.sub(lambda m: f"the only {m[1][:-1]}{m[2] or ''} {_VERBS[m[3]]}", text)
    return _ONE.sub(_one, text)


def _one(found: re.Match[str]) -> str:
    verb = found[3] or ""
    of = _OF.search(found.string, 0, found.start())
    if of is None or of[1] == "1":  # in `8 pods of 1 shape are waiting` the verb is the pods'
        verb = _VERBS.get(verb, "")
    return f"1 {found[1] or ''}{found[2][:-1]}{f' {verb}' if verb else ''}"
