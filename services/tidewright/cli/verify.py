"""`tidewright verify`: fold the log again, and compare every decision byte for byte."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.service_state import deciders
from tidewright.asking.services import Service
from tidewright.asking.tables import plain
from tidewright.asking.verify import Verified, answer, archive_altered, verified
from tidewright.asking.withholding import Followed, as_json, as_text, followed, left_out_of
from tidewright.host.fold.verify import Difference


def verify(
    *,
    service: Annotated[
        tuple[str, ...], Parameter(help="Only these services; may be repeated; all deciders by default.")
    ] = (),
    resume: Annotated[
        bool,
        Parameter(
            help="Go on from where an interrupted run of the last day stood, without another look at what it read, and leave where this one stands.",
            negative="",
        ),
    ] = False,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Fold the log again and compare every decision byte for byte; exit code 1 when one differs."""
    chosen = deciders(service)

    async def run() -> tuple[Verified | Followed, str, tuple[str, ...]]:
        if log is not None and log.archive and file is None:
            if resume:
                raise BadInput(
                    f"--resume with --archive {log.archive}: an archive is verified as a whole; valid is either of them"
                )
            return await _archived(log, chosen)
        async with opened(log, file) as source:
            if without := left_out_of(source):
                if resume:
                    raise BadInput(
                        f"--resume: {source.name} was exported without {', '.join(without)}, so that nothing of it is decided again, and "
                        "there is nothing to go on from; leave out --resume, or give a whole export"
                    )
                return await followed(source.stored(), source.subjects), source.name, without
            return await verified(source, chosen, resumable=resume), source.name, ()

    result, name, without = asyncio.run(run())
    if isinstance(result, Followed):
        tally = result
        emit(as_json(tally, name, without), output, lambda: plain(as_text(tally, name, without)))
        return 1 if tally.count else 0
    whole = result
    emit(builtins(answer(whole, name)), output, lambda: plain(_as_text(whole, name, chosen)))
    return 0 if whole.good else 1


async def _archived(
    log: AskedLogOptions, chosen: tuple[Service, ...]
) -> tuple[Verified, str, tuple[str, ...]]:
    """An archive and the log, or what is wrong with the archive."""
    from tidewright.archive.reading import Altered
    from tidewright.asking.archived import with_archive

    try:
        async with with_archive(log, comparing=True) as source:
            return await verified(source, chosen, source.differences), source.name, ()
    except CommandError as error:
        if not isinstance(error.__cause__, Altered):
            raise
        return archive_altered(error.__cause__.found), f"archive {error.__cause__.url}", ()


def _as_text(result: Verified, name: str, asked: tuple[Service, ...]) -> str:
    report = result.report
    lines = [
        (
            f"{name}: folded {report.events} events of {', '.join(result.services) or 'no service'} again, "
            f"compared {report.decisions} decisions and {report.checkpoints} checkpoints."
        )
    ]
    if result.gone_on_from:
        lines.append(
            f"Up to message {result.gone_on_from} that was done by a run before, which was interrupted: that part was NOT LOOKED AT AGAIN. "
            "Without --resume all of it is."
        )
    idle = [service.name for service in asked if service.name not in result.services]
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
    lines.append(_authenticated(result))
    if not result.messages and report.count:
        lines = [f"{name}: it is not what was sealed, and was not folded: NOTHING ELSE WAS VERIFIED."]
    if not result.services and not report.count:
        nothing = (
            "The log is empty"
            if not result.messages
            else f"No decider has run on the {result.messages} messages of this log"
        )
        return "\n".join(
            [
                *lines,
                f"{nothing}: NOTHING WAS VERIFIED. If there should be more, it was erased, or this is another log.",
            ]
        )
    if not report.count:
        found = f"Behind message {result.gone_on_from}, every" if result.gone_on_from else "Every"
        lines.append(
            f"{found} decision is what its recorded facts give, byte for byte, and the chain is whole."
        )
        return "\n".join(lines)
    first = report.differences[0]
    several = "s" if report.count > 1 else ""
    lines += [
        f"{report.count} difference{several}. The first: {first.cause}, {_whose(first)}, sequence {first.seq}:",
        f"  {first.message}",
    ]
    if first.recorded:
        lines.append(f"  recorded   {first.recorded.decode(errors='replace')}")
    if first.recomputed:
        lines.append(f"  recomputed {first.recomputed.decode(errors='replace')}")
    lines += [f"  also {d.cause} at {d.seq} ({_whose(d)})" for d in report.differences[1:5]]
    return "\n".join(lines)


def _whose(difference: Difference) -> str:
    return f"{difference.service} slot {difference.slot}" if difference.slot else difference.service


def _authenticated(result: Verified) -> str:
    """By what the log is what its writers said."""
    if not result.generation:
        return "Nothing on this log is signed: whoever may write to it may have written any of it (`tidewright keys`)."
    said = f"{result.commits} commits with {result.signed} messages are signed by their writers, with the keys of generation {result.generation}"
    said += "" if result.vouched else ", for which no trust anchor was asked (--trust root.pub)"
    if result.history:
        said += f"; up to sequence {result.history} nothing is"
    if result.unknown:
        said += f"; of {result.unknown} messages the signature is not in this part of the log"
    return said + "."
