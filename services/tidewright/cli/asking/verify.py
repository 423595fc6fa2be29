"""`tidewright verify`: fold the log again, and compare every decision byte for byte."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.cli.asking.progress import progress
from tidewright.cli.asking.restored import deciders, inputs_of
from tidewright.cli.asking.source import FromFile, Source, opened
from tidewright.cli.options import AskedLogOptions, Output, emit
from tidewright.cli.services import Service, load
from tidewright.host.decider import Decider
from tidewright.host.software import software_of
from tidewright.host.verify import Report, Verification, Verifier

EVERY_N = 2000


@dataclass(frozen=True)
class Verified:
    """What verification found.

    Attributes:
        services: those that have ever run on this log; of the others there is nothing to verify.
    """

    report: Report
    services: tuple[str, ...]


async def verified(source: Source, services: tuple[Service, ...]) -> Verified:
    """Verify some services' decisions over everything that the log holds."""
    report = Report()
    first, last = await source.bounds()  # of a log that is being written: what comes later is another matter
    ends = await source.ends()
    verifiers = []
    for service in services:
        if ends is not None and not any(place.rpartition(".")[0] == service.name for place in ends):
            continue  # it has never run
        decider: Decider[Any] = load(service)
        inputs = inputs_of(service, decider, source)
        snapshots = await source.start(decider.service, inputs.every, decider.state_version)
        known = (
            None if ends is None else {slot: ends.get(f"{service.name}.{slot}", 0) for slot in inputs.every}
        )
        verifiers.append(Verifier(decider, inputs, report, snapshots, known, software_of(decider)))
    verification = Verification(verifiers)
    take, told = verification.take, first
    with progress("verifying", last - first + 1) as advance, seldom_collecting():
        async for record in source.records():
            seq = record.seq
            if seq <= last:
                take(record)
            if seq >= told + EVERY_N:
                advance(seq - told)
                told = seq
    verification.finish()
    return Verified(report, tuple(v.inputs.service for v in verifiers if v.checkpoints))


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for cycles less often: records and states have none, and there are millions of them.

    What is there before (modules, most of it) is left out, without being gone through once more for it.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def verify(
    *,
    service: Annotated[tuple[str, ...], Parameter(help="Only these services; all deciders by default.")] = (),
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Fold the log again and compare every decision byte for byte; exit code 1 when one differs."""
    chosen = deciders(service)

    async def run() -> tuple[Verified, str]:
        async with opened(log, file) as source:
            return await verified(source, chosen), source.name

    found, name = asyncio.run(run())
    emit(_as_json(found, name), output, lambda: _as_text(found, name, chosen))
    return 1 if found.report.count else 0


def _as_json(found: Verified, name: str) -> dict[str, Any]:
    report = found.report
    return {
        "log": name,
        "verified": report.count == 0,
        "services": list(found.services),
        "events": report.events,
        "decisions": report.decisions,
        "checkpoints": report.checkpoints,
        "undecided": report.undecided,
        "setAside": report.aside,
        "writtenBy": dict(sorted(report.software.items())),
        "differences": report.count,
        "first": [
            {
                "service": d.service, "slot": d.slot, "sequence": d.seq, "cause": d.cause, "message": d.message,
                "recorded": d.recorded.decode(errors="replace"), "recomputed": d.recomputed.decode(errors="replace"),
            }
            for d in report.differences
        ],
    }  # fmt: skip


def _as_text(found: Verified, name: str, asked: tuple[Service, ...]) -> str:
    report = found.report
    lines = [
        (
            f"{name}: folded {report.events} events of {', '.join(found.services) or 'no service'} again, "
            f"compared {report.decisions} decisions and {report.checkpoints} checkpoints."
        )
    ]
    idle = [service.name for service in asked if service.name not in found.services]
    if idle:
        lines.append(f"{', '.join(idle)}: no checkpoint on this log, so nothing to verify.")
    if report.undecided:
        lines.append(f"{report.undecided} events at the end are not decided yet.")
    if report.aside:
        lines.append(
            f"{report.aside} messages do not decode and were set aside, as the services did: `tidewright events --parked`."
        )
    if report.software:
        writers = ", ".join(f"{software} ({n})" for software, n in sorted(report.software.items()))
        lines.append(f"The decisions were written by {writers}.")
    if not found.services:
        return "\n".join(lines)
    if not report.count:
        lines.append("Every decision is what its recorded facts give, byte for byte, and the chain is whole.")
        return "\n".join(lines)
    first = report.differences[0]
    lines += [
        f"{report.count} differences. The first: {first.cause}, {first.service} slot {first.slot}, sequence {first.seq}:",
        f"  {first.message}",
    ]
    if first.recorded:
        lines.append(f"  recorded   {first.recorded.decode(errors='replace')}")
    if first.recomputed:
        lines.append(f"  recomputed {first.recomputed.decode(errors='replace')}")
    lines += [f"  also {d.cause} at {d.seq} ({d.service} slot {d.slot})" for d in report.differences[1:5]]
    return "\n".join(lines)
