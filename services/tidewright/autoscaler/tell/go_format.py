"""What Go's `fmt.Sprintf` makes of a text that it is given without operands.

The reference formats the texts of two object events twice (D17). The second time there is nothing
left to fill in, so every verb of the text is reported as missing: `50%d` becomes `50%!d(MISSING)`.
A verb is flags, a width, a precision and a letter; an operand's index `[n]` may precede each of the
last three. Every index is wrong here, and `*`, a width or precision that is an operand, is missing.
"""

from __future__ import annotations

import re

_FLAGS = re.compile(r"[#0+\- ]*")
_DIGITS = re.compile(r"[0-9]*")
_INDEX = re.compile(r"\[([^\]]*)\]")
_SHORTEST_INDEX = len("[n]")
_LARGE = 1_000_000


def without_operands(text: str) -> str:
    """The text as `fmt.Sprintf(text)` returns it."""
    parts: list[str] = []
    at = 0
    while (percent := text.find("%", at)) >= 0:
        parts.append(text[at:percent])
        verb = _Verb(text, percent + 1)
        parts.append(verb.said)
        at = verb.end
    parts.append(text[at:])
    return "".join(parts)


class _Verb:
    """One verb whose `%` lies just before `start`: what is `said` for it, and its `end`."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._wrong_index = False
        self.said = ""
        self.end = self._behind(_FLAGS, start)
        indexed = self._index()
        if self._star("%!(BADWIDTH)"):
            indexed = False
        else:
            self._number()
        if text[self.end : self.end + 1] == ".":
            self.end += 1
            indexed = self._index()
            if self._star("%!(BADPREC)"):
                indexed = False
            else:
                self._number()
        if not indexed:
            self._index()
        self._letter()

    def _behind(self, pattern: re.Pattern[str], start: int) -> int:
        match = pattern.match(self._text, start)
        return start if match is None else match.end()

    def _star(self, missing: str) -> bool:
        if self._text[self.end : self.end + 1] != "*":
            return False
        self.said += missing
        self.end += 1
        return True

    def _number(self) -> None:
        """Pass a number; one that is too large swallows the rest of the text."""
        end = self._behind(_DIGITS, self.end)
        self.end = len(self._text) if _is_too_large(self._text[self.end : end]) else end

    def _index(self) -> bool:
        """Pass an index, and say whether it is well-formed; of one that is not closed only the bracket."""
        text, start = self._text, self.end
        if text[start : start + 1] != "[":
            return False
        self._wrong_index = True
        index = _INDEX.match(text, start) if len(text) - start >= _SHORTEST_INDEX else None
        if index is None:
            self.end = start + 1
            return False
        self.end = index.end()
        number = index[1]
        return number.isascii() and number.isdigit() and not _is_too_large(number)

    def _letter(self) -> None:
        letter = self._text[self.end : self.end + 1]
        self.end += len(letter)
        if not letter:
            self.said += "%!(NOVERB)"
        elif letter == "%":
            self.said += "%"
        else:
            self.said += f"%!{letter}({'BADINDEX' if self._wrong_index else 'MISSING'})"


def _is_too_large(digits: str) -> bool:
    """A number is given up at the digit that follows a million or more."""
    return int(digits[:-1] or "0") > _LARGE
