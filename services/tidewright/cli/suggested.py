"""What a shell may complete a line with from the log: kinds, names, sequences and decisions.

Asked for by the scripts of `tidewright completion` as `tidewright __complete LINE`, at every press of a key: it is quick or
says nothing, and no trouble of it is anybody's. Names are whatever others wrote on the log: only such as need no quoting in
any shell are offered.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

COMMAND = "__complete"
OF_THE_LOG = ("get", "explain", "state", "series", "events", "compare")
"""Commands whose lines are completed from the log."""
WITHIN_S = 3.0
AT_MOST = 100
LAST = 400
"""Sequences from the end of the log among which decisions are looked for."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
_MOMENTS = ("--at", "--since", "--until")
_NOT_MEANT = ("-f", "-w", "-A", "--follow", "--watch", "--all-namespaces", "--parked")
"""Options without a value: what comes behind is none of theirs."""


def answer(line: str) -> int:
    """Print what the last word of a line may become, one a line; returns the exit code."""
    for word in suggestions(line):
        print(word)
    return 0


def suggestions(line: str) -> list[str]:
    """What the last word of a line may become; it is the empty one behind a space."""
    words = line.split()[1:]
    if not line or line[-1].isspace():
        words.append("")
    if len(words) < 2 or words[0] not in OF_THE_LOG:
        return []

    found: list[str] = []
    with suppress(Exception):
        found = asyncio.run(_found(words))
    return [word for word in found if word.startswith(words[-1]) and _PLAIN.fullmatch(word)][:AT_MOST]


async def _found(words: Sequence[str]) -> list[str]:

    from tidewright.asking.opening import opened

    before, current = words[-2], words[-1]
    options, typed = _parted(words[1:-1])
    if before.startswith("-") and before not in (*_MOMENTS, "--decision", "--for", *_NOT_MEANT):
        return []
    if current.startswith("-"):
        return []
    asked = _parsed(options)
    async with asyncio.timeout(WITHIN_S), opened(asked.get("log"), asked.get("file")) as source:
        if before in _MOMENTS or before == "--decision":
            return await _decided(source, ids=before == "--decision")
        if before == "--for":
            return await _objects(source, current, asked)
        if words[0] == "compare":
            return await _names(source, "watermarkpodautoscaler", asked) if typed == ["wpa"] else []
        if words[0] == "events" or len(typed) > 1:
            return []
        return await (_names(source, typed[0], asked) if typed else _objects(source, current, asked))


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options that say which log is meant, with their values; and words that belong to no option."""
    options, typed = list[str](), list[str]()
    of = ""
    for word in words:
        if of:
            if of in ("-n", "--log", "--data", "--cluster") or of.startswith(("--na", "--trust")):
                options += [of, word]
            of = ""
        elif word.startswith("-"):
            of = "" if "=" in word or word in _NOT_MEANT else word
            if "=" in word:
                options.append(word)
        else:
            typed.append(word)
    return options, typed


def _parsed(options: Sequence[str]) -> dict[str, Any]:
    """As `tidewright state` takes them, with what the environment says."""
    from tidewright.cli.main import application

    _, bound, _ = application().parse_args(["state", "a/b", *options], exit_on_error=False, print_error=False)
    return dict(bound.arguments)


async def _objects(source: Any, current: str, asked: dict[str, Any]) -> list[str]:
    """Kinds; of one that is typed with a slash the objects."""
    kind, slash, _ = current.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in await _names(source, kind, asked)]
    from tidewright.asking import listing
    from tidewright.asking.objects import SHORT
    from tidewright.asking.point_in_time import moment_of

    there = {item.kind for item in (await listing.kinds(source, await moment_of(source, ""))).items}
    return sorted(there | {short for short, long in SHORT.items() if long in there and short != f"{long}s"})


async def _names(source: Any, kind: str, asked: dict[str, Any]) -> list[str]:
    from tidewright.asking.namespaces import meant
    from tidewright.asking.objects import CLUSTER_SCOPED, kind_of
    from tidewright.log.subjects import escape, unescape

    kind = kind_of(kind)
    space = "*" if kind in CLUSTER_SCOPED else escape(meant(asked.get("namespace", "")))
    records = await source.last([f"{source.subjects.root}.fact.*.{escape(kind)}.{space}.*"])
    return sorted({unescape(record.subject.rpartition(".")[2]) for record in records})


async def _decided(source: Any, *, ids: bool) -> list[str]:
    """The last decisions, the latest first: their ids, or the sequences of them."""
    from tidewright.asking.lines import decision_of
    from tidewright.events import registry

    records = [r for r in await source.tail(LAST) if source.subjects.class_token(r.subject) == "decision"]
    return [decision_of(registry.read(r.body)) if ids else f"seq:{r.seq}" for r in reversed(records)]
