"""`tidewright verify`: fold the log again, and compare every decision byte for byte."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.cli.asking.progress import progress
from tidewright.cli.asking.restored import deciders, inputs_of
from tidewright.cli.asking.source import FromFile, Source, opened
from tidewright.cli.options import LogOptions, Output, emit
from tidewright.cli.run import load
from tidewright.cli.services import Service
from tidewright.host.decider import Decider
from tidewright.host.verify import Report, Verifier

EVERY_N = 2000


async def verified(source: Source, services: tuple[Service, ...]) -> Report:
    """Verify some services' decisions over everything that the log holds."""
    report = Report()
    verifiers = []
    for service in services:
        decider: Decider[Any] = load(service)
        inputs = inputs_of(service, decider, source)
        snapshots = await source.start(decider.service, inputs.every, decider.state_version)
        verifiers.append(Verifier(decider, inputs, report, snapshots))
    first, last = await source.bounds()
    takes = [verifier.take for verifier in verifiers]
    with progress("verifying", last - first + 1) as advance:
        count = 0
        async for record in source.records():
            for take in takes:
                take(record)
            count += 1
            if count % EVERY_N == 0:
                advance(EVERY_N)
    for verifier in verifiers:
        verifier.finish()
    return report


def verify(
    *,
    service: Annotated[tuple[str, ...], Parameter(help="Only these services; all deciders by default.")] = (),
    log: LogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Fold the log again and compare every decision byte for byte; exit code 1 when one differs."""
    chosen = deciders(service)

    async def run() -> tuple[Report, str]:
        async with opened(log, file) as source:
            return await verified(source, chosen), source.name

    report, name = asyncio.run(run())
    emit(_as_json(report, name), output, lambda: _as_text(report, name, chosen))
    return 1 if report.count else 0


def _as_json(report: Report, name: str) -> dict[str, Any]:
    return {
        "log": name,
        "verified": report.count == 0,
        "events": report.events,
        "decisions": report.decisions,
        "checkpoints": report.checkpoints,
        "undecided": report.undecided,
        "differences": report.count,
        "first": [
            {
                "service": d.service, "slot": d.slot, "sequence": d.seq, "cause": d.cause, "message": d.message,
                "recorded": d.recorded.decode(errors="replace"), "recomputed": d.recomputed.decode(errors="replace"),
            }
            for d in report.differences
        ],
    }  # fmt: skip


def _as_text(report: Report, name: str, services: tuple[Service, ...]) -> str:
    lines = [
        (
            f"{name}: folded {report.events} events of {', '.join(s.name for s in services)} again, "
            f"compared {report.decisions} decisions and {report.checkpoints} checkpoints."
        )
    ]
    if report.undecided:
        lines.append(f"{report.undecided} events at the end are not decided yet.")
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
