"""`tidewright diff`: which decisions of two logs differ, or of a log and its replay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.diff import BOOKKEEPING, Change, Differences, answer, compared, replayed
from tidewright.asking.errors import BadInput
from tidewright.asking.lines import line, title
from tidewright.asking.manifests import one_document
from tidewright.asking.opening import opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.service_state import deciders
from tidewright.asking.services import load
from tidewright.asking.tables import plain
from tidewright.events.base import Decision
from tidewright.host.fold.configuration import ConfigPart
from tidewright.kube.nearest import nearest
from tidewright.kube.times import readable


def configuration(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`NAME=FILE` each: configurations that take the place of recorded ones.

    Raises:
        BadInput: not of that form, or the file holds no mapping.
    """
    overrides: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise BadInput(f"--config {text}: write NAME=FILE, for example autoscaler=strict.yaml")
        services = {service.name: service for service in deciders(())}
        if name not in services:
            raise BadInput(f"--config {text}: {name!r} configures nobody; {nearest(name, services)}")
        data = one_document(Path(path), f"--config {text}", f"a mapping, the configuration of {name}")
        if not isinstance(data, dict):
            raise BadInput(f"--config {text}: {path} holds {type(data).__name__}, a mapping is expected")
        part: ConfigPart[Any] = load(services[name]).config
        if problems := part.problems(data):
            raise BadInput(f"--config {text}: {'; '.join(problems)}")
        overrides[part.name] = data
    return overrides


def diff(
    before: Annotated[Path | None, Parameter(help="An exported log; a running one by default.")] = None,
    after: Annotated[Path | None, Parameter(help="Another one; the replay of the first by default.")] = None,
    /,
    *,
    config: Annotated[
        tuple[str, ...], Parameter(help="NAME=FILE: replay under this configuration; may be repeated.")
    ] = (),
    service: Annotated[
        tuple[str, ...], Parameter(help="Only these services; may be repeated; all deciders by default.")
    ] = (),
    everything: Annotated[
        bool, Parameter(name="--all", help="List timers and statuses, too.", negative="")
    ] = False,
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which decisions of two logs differ, or of a log and its replay; exit code 1 when some do."""
    chosen = deciders(service)
    if after is not None and config:
        raise BadInput("--config: two logs are compared as they are; give one log to replay it")
    overrides = configuration(config)

    async def run() -> Differences:
        async with opened(log, before) as first:
            if after is not None:
                async with opened(log, after) as second:
                    collected = Differences(first.name, second.name, books=everything)
                    await compared(first, second, chosen, collected)
                    return collected
            under = f" under {', '.join(config)}" if config else ""
            collected = Differences(first.name, f"its replay by this version{under}", books=everything)
            await replayed(first, chosen, overrides, collected)
            return collected

    differences = asyncio.run(run())
    emit(builtins(answer(differences)), output, lambda: plain(_as_text(differences)))
    return 1 if differences.count else 0


def _as_text(differences: Differences) -> str:
    lines = [f"{differences.before}, and {differences.after}: {differences.decisions} decisions compared."]
    if not differences.count:
        return "\n".join([*lines, "They are the same."])
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(differences.kinds.items()))
    lines.append(f"{differences.count} differ{'s' if differences.count == 1 else ''}: {counts}.")
    for change in differences.first:
        lines.append(f"{readable(change.at)}  {change.seq:>9}  {change.service}  {change.about}")
        lines += [f"  - {_told(change.before)}"] if change.before is not None else []
        lines += [f"  + {_told(change.after)}"] if change.after is not None else []
        lines += _reasons(change)
    listed = sum(
        count for kind, count in differences.kinds.items() if differences.books or not _is_book(kind)
    )
    if listed > len(differences.first):
        lines.append(f"and {listed - len(differences.first)} more")
    return "\n".join(lines)


def _is_book(kind: str) -> bool:
    return kind.split(" ", 1)[1] in {book.__name__ for book in BOOKKEEPING}


def _told(decision: Decision) -> str:
    return f"{title(decision)} {line(decision)}"


def _reasons(change: Change) -> list[str]:
    """Where both sides say the same, the reasons that differ."""
    if change.before is None or change.after is None or _told(change.before) != _told(change.after):
        return []
    was, now = change.before.because, change.after.because
    lines = [f"    - {reason.rule} {reason.values}" for reason in was if reason not in now]
    lines += [f"    + {reason.rule} {reason.values}" for reason in now if reason not in was]
    return lines or ["    (fields that the line does not show; -o json has them)"]
