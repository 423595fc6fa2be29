"""Sentences about one thing, which are made of numbers and read as of several: `its 1 pods fit on 1 other nodes`. Pure.

What is recorded stays as it was written; this is for who reads it.
"""

from __future__ import annotations

import re

_ALL = re.compile(r"\ball 1 (pods|nodes|chunks)( of group \S+)? (fit|have|are)\b")
_ONE = re.compile(
    r"(?<![\d.,:/-])1 (other |more )?(pods|nodes|chunks|groups|shapes|instances|pod templates)\b(?: (fit|have|are|move|go|were)\b)?"
)
_VERBS = {"fit": "fits", "have": "has", "are": "is", "move": "moves", "go": "goes", "were": "was"}


def in_number(text: str) -> str:
    """A sentence with `1 pods` and the like in the singular, and the verb behind it."""
    text = _ALL.sub(lambda m: f"the only {m[1][:-1]}{m[2] or ''} {_VERBS[m[3]]}", text)
    return _ONE.sub(lambda m: f"1 {m[1] or ''}{m[2][:-1]}{f' {_VERBS[m[3]]}' if m[3] else ''}", text)
