"""The log folded again, and every decision compared byte for byte."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidewright.archive.chain import Found
from tidewright.asking.answers.verify import Authenticated, FoundDifference, LogVerification
from tidewright.asking.fold_files import FoldFiles
from tidewright.asking.interrupted import EVERY_S, WHOSE, Going, Interruptible, Judging, going_on
from tidewright.asking.progress import progress
from tidewright.asking.seeding import Seeds
from tidewright.asking.service_state import inputs_of
from tidewright.asking.services import SERVICES, Role, Service, load
from tidewright.asking.source import Source
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.provenance import Provenance
from tidewright.host.fold.verify import Difference, Report, Verification, Verifier
from tidewright.host.process.software import software_in, software_of
from tidewright.log.belief import SAID
from tidewright.log.belief import Cause as Unbelieved
from tidewright.log.envelope import writer_of
from tidewright.log.passing import Judged, Passing
from tidewright.log.reader import Record

EVERY_N = 2000
ENDPOINTS = tuple(service.name for service in SERVICES if service.role is Role.ENDPOINT)


@dataclass(frozen=True)
class Verified:
    """What verification found.

    Attributes:
        services: those that have ever run on this log; of the others there is nothing to verify.
        messages: on the log, believed or not.
        commits, signed: commits with a good signature, and messages that are believed for one.
        unknown: messages of a part of a log, the ends of whose commits are left out of it.
        generation: of the key record; 0 on a log without one. `vouched`: a trust anchor vouches for it.
        history: sequence up to which nothing is signed.
        gone_on_from: sequence up to which an interrupted run before this one had verified it, and this one did not look
            again; 0: nothing was taken from one.
    """

    report: Report
    services: tuple[str, ...]
    messages: int = 0
    commits: int = 0
    signed: int = 0
    unknown: int = 0
    generation: int = 0
    vouched: bool = False
    history: int = 0
    gone_on_from: int = 0

    @property
    def good(self) -> bool:
        """Whether anything was verified, and everything is as it should be."""
        return self.report.count == 0 and bool(self.services)


async def verified(
    source: Source,
    services: tuple[Service, ...],
    before: Iterable[Difference] = (),
    *,
    resumable: bool = False,
    kept_every_s: float = EVERY_S,
) -> Verified:
    """Verify some services' decisions over everything that the log holds; what was found `before` is told first.

    A `resumable` one goes on from where an earlier one was interrupted, and leaves where it stands every so many wall seconds.
    """
    report = Report()
    for difference in before:
        report.add(difference)
    furthest = await source.furthest()
    first, last = await source.bounds()  # of a log that is being written: what comes later is another matter
    keyring = await source.keyring()
    generation = keyring.latest.said.generation if keyring is not None and keyring.latest is not None else 0
    ends = await source.ends()
    files = FoldFiles(await source.identity())
    going = await going_on(source, files, generation) if resumable and not report.count else None
    verifiers = await _verifiers(source, services, ends, report, going)
    if going is not None and not going.continues(verifiers, report):
        files.drop(WHOSE, software_in("tidewright"), going.progress.read_to)
        # Not looked for again: where it cannot be removed, it would be found for ever.
        going, verifiers = None, await _verifiers(source, services, ends, report, None)
    verification = Verification(verifiers)
    passing = Passing(source.subjects, keyring, partial=source.part, since=first)
    said: list[Difference] = []
    # Told after what decisions and digests say, which is more to the point where both are there.
    provenance = Provenance(source.subjects, ENDPOINTS, partial(_altered, said), since=first)
    seeds = Seeds(files, source.subjects, verifiers)
    take_headers, take, seed, messages = provenance.take, verification.take, seeds.take, 0
    every_s = kept_every_s if resumable else math.inf
    judging = Judging(report, passing, provenance, said, generation)
    interruptible = Interruptible(files, source.subjects, verifiers, judging, going=going, every_s=every_s)
    again_from = read_before = 0
    if going is not None:
        passing.go_on(going.progress.passed)
        provenance.go_on(going.progress.seen)
        messages, again_from, read_before = (
            going.progress.messages,
            going.progress.again_from,
            going.progress.read_to,
        )
    advanced_to = max(first, again_from)

    def judged(judgements: Iterable[Judged]) -> None:
        for record, cause in judgements:
            if cause is None:
                take_headers(record)
                take(record)
                seed(record)
            else:
                _unbelieved(report, record, cause)

    with progress("verifying", last - advanced_to + 1) as advance, seldom_collecting():
        async for record in source.stored(again_from):
            seq = record.seq
            if seq <= read_before:  # judged before, and wanted by slots whose next checkpoint had not come
                aside = report.aside
                take(record)
                report.aside = aside
            elif seq <= last:
                messages += 1
                judged(passing.take(record))
                interruptible.take(record, messages)
            if seq >= advanced_to + EVERY_N:
                advance(seq - advanced_to)
                advanced_to = seq
        judged(passing.finish())
    verification.finish()
    for difference in said:
        report.add(difference)
    for seq in passing.missing:
        message = f"message {seq} is signed by the end of its commit, and is not on the log: it was removed"
        report.add(Difference("the log", "", seq, "altered message", message))
    for verifier in verifiers:
        verifier.held_against(source.promised, first)
    _cut(report, first, last, furthest, verifiers)
    interruptible.done()
    keys = keyring.latest if keyring is not None else None
    return Verified(
        report, tuple(v.inputs.service for v in verifiers if v.checkpoints), messages, passing.commits, passing.signed,
        passing.unknown, generation, source.vouched, keys.said.history if keys else 0, read_before,
    )  # fmt: skip


async def _verifiers(
    source: Source,
    services: tuple[Service, ...],
    ends: dict[str, int] | None,
    report: Report,
    going: Going | None,
) -> list[Verifier]:
    """Of the services that have ever run, from where each begins."""
    verifiers = []
    for service in services:
        if ends is not None and not any(place.rpartition(".")[0] == service.name for place in ends):
            continue  # it has never run
        decider: Decider[Any, Any] = load(service)
        inputs = inputs_of(service, decider, source)
        snapshots = (
            await source.start(decider.service, inputs.every, decider.readable)
            if going is None
            else going.snapshots(service.name)
        )
        known = (
            None if ends is None else {slot: ends.get(f"{service.name}.{slot}", 0) for slot in inputs.every}
        )
        verifiers.append(
            Verifier(decider, inputs, report, snapshots=snapshots, ends=known, software=software_of(decider))
        )
    return verifiers


def archive_altered(found: Sequence[Found]) -> Verified:
    """What is said of an archive that is not what was sealed: nothing of it is folded."""
    report = Report()
    for one in found:
        report.add(Difference("the archive", "", one.seq, "altered archive", str(one)))
    return Verified(report, ())


def _altered(differences: list[Difference], record: Record, service: str, what: str) -> None:
    if len(differences) < Report.KEPT:
        message = f"message {record.seq} on {record.subject}: {what}"
        differences.append(
            Difference(service, "", record.seq, "altered message", message, recorded=record.body)
        )


def _unbelieved(report: Report, record: Record, cause: Unbelieved) -> None:
    writer = writer_of(record.subject, record.headers) or "nobody"
    message = f"message {record.seq} on {record.subject} is not believed ({cause.value}): {SAID[cause]}"
    report.add(Difference(writer, "", record.seq, "not authenticated", message, recorded=record.body))


def _cut(report: Report, first: int, last: int, furthest: int, verifiers: Sequence[Verifier]) -> None:
    """Note what is known to have been on the log beyond its end."""
    beyond = max([furthest, *(slot.covered for v in verifiers for slot in v.slots.values())])
    if beyond > last:
        report.add(
            Difference(
                "the log", "", last, "cut off",
                f"it ends with message {last}, and a snapshot or a checkpoint was made of message {beyond}: its end was cut off, "
                "or an earlier copy was put in its place" if last >= first else
                f"it is empty, and a snapshot was made of message {beyond}: it was erased",
            )
        )  # fmt: skip


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


def answer(result: Verified, name: str) -> LogVerification:
    """For programs."""
    report = result.report
    return LogVerification(
        log=name,
        verified=result.good,
        messages=result.messages,
        authenticated=Authenticated(
            keys=result.generation, vouched=result.vouched, history=result.history,
            commits=result.commits, messages=result.signed, unknown=result.unknown,
        ),
        services=tuple(result.services),
        events=report.events,
        decisions=report.decisions,
        checkpoints=report.checkpoints,
        undecided=report.undecided,
        set_aside=report.aside,
        written_by=dict(sorted(report.software.items())),
        differences=report.count,
        gone_on_from=result.gone_on_from,
        first=tuple(
            FoundDifference(
                service=d.service, slot=d.slot, sequence=d.seq, cause=d.cause, message=d.message,
                recorded=d.recorded.decode(errors="replace"), recomputed=d.recomputed.decode(errors="replace"),
            )
            for d in report.differences
        ),
    )  # fmt: skip
