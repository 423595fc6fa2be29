"""What the supervisor shows of its programs' lines: prefixed and coloured for people, JSON otherwise.

A program of ours logs JSON; nats-server logs in its own form. Both become one shape: `program`,
`level`, `event`, and the rest as they were.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Mapping
from typing import IO, Any

import msgspec

from tidewright.log.disk import is_full

LISTED = 4
"""Members of a list that a line for people shows."""
COLOURS = (36, 32, 35, 34, 33, 96, 92, 95)
LEVELS = {"debug": "2", "warning": "33", "error": "31", "critical": "31"}
_NATS = re.compile(r"^\[\d+\] \S+ \S+ \[(?P<level>[A-Z]{3})\] (?P<event>.*)$")
_NATS_LEVELS = {
    "DBG": "debug",
    "TRC": "debug",
    "INF": "debug",
    "WRN": "warning",
    "ERR": "error",
    "FTL": "critical",
}
_HARMLESS = re.compile(r"Failed restoring partial batch write .*no such file or directory$")
"""Said at a start when the last message is a timer that fired: it keeps the headers of the batch that set
it, and the server takes that batch for one that was not finished."""
_HIDDEN = frozenset({"event", "level", "timestamp", "service", "program"})


def parsed(program: str, line: str) -> dict[str, Any]:
    """A line of a program's output as the fields of a structured log line."""
    if line.startswith("{"):
        try:
            fields = msgspec.json.decode(line)
        except msgspec.DecodeError:
            fields = None
        if isinstance(fields, dict) and "event" in fields:
            return {"program": program, "level": "info", **fields}
    if match := _NATS.match(line):
        level = _NATS_LEVELS.get(match["level"], "info")
        if _HARMLESS.search(match["event"]):
            level = "debug"
        return {"program": program, "level": level, "event": match["event"].strip()}
    return {"program": program, "level": "info", "event": line}


class Printer:
    """Writes lines to a stream: for people on a terminal, JSON otherwise."""

    def __init__(
        self, stream: IO[str] | None = None, *, as_json: bool, colour: bool = False, level: str = "info"
    ) -> None:
        self._stream, self._json, self._colour = stream or sys.stderr, as_json, colour
        self._least = _rank(level)

    def __call__(self, program: str, line: str) -> None:
        """Show one line, when it is severe enough."""
        fields = parsed(program, line)
        if _rank(str(fields["level"])) < self._least:
            return
        text = msgspec.json.encode(fields).decode() if self._json else self._for_people(fields)
        try:
            print(text, file=self._stream, flush=True)
        except OSError as error:
            if not is_full(error):  # a line is lost then, and nothing else
                raise

    def _for_people(self, fields: Mapping[str, Any]) -> str:
        program, level = str(fields["program"]), str(fields["level"])
        rest = " ".join(
            f"{k}={_short(v)}" for k, v in fields.items() if k not in _HIDDEN and k != "exception"
        )
        prefix = f"{program:>13} |"
        event = str(fields["event"])
        if self._colour:
            prefix = f"\x1b[{COLOURS[zlib.crc32(program.encode()) % len(COLOURS)]}m{prefix}\x1b[0m"
            event = f"\x1b[{LEVELS[level]}m{event}\x1b[0m" if level in LEVELS else event
            rest = f"\x1b[2m{rest}\x1b[0m" if rest else ""
        elif level != "info":
            event = f"{level}: {event}"
        lines = [f"{prefix} {event} {rest}".rstrip()]
        lines += [f"{prefix}   {line}" for line in str(fields.get("exception", "")).splitlines()]
        return "\n".join(lines)


def _short(value: object) -> object:
    """A long list by its beginning and its length; anything else as it is."""
    if not isinstance(value, list) or len(value) <= LISTED:
        return value
    return f"[{', '.join(str(each) for each in value[:LISTED])}, ... {len(value)} in all]"


def _rank(level: str) -> int:
    return {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}.get(level, 1)
