"""What authentication costs: the same commits and folds with signatures and without, by turns, in one run.

Two logs on one server, one of them with keys. Round by round the same is done on both, and the medians
of the rounds stand beside each other. What else the machine does moves them by more than a signature
does; so the cost of commits is the share of their time that was spent signing, in the same rounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median

import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.log_commit import DECIDERS, FOLDING, SLOTS, folded, pods
from tests.nats_server import EmbeddedServer
from tests.unit.log import authenticated
from tests.unit.log.authenticated import Authority
from tidewright.host.process.process import configure_logs
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.signer import Signer
from tidewright.log.subjects import ALL

COST_TARGET = 5.0
"""Of the commit rate, per cent."""
ROUNDS = 9
WRITES = {
    "watcher": authenticated.WRITES["watcher"],
    **{
        name: (*(f"{c}.*.{name}.>" for c in ("decision", "schedule")), f"checkpoint.*.{name}")
        for name in DECIDERS
    },
}


class Timed(Signer):
    """A signer that counts the seconds it takes."""

    seconds = 0.0

    def sign(self, messages: Sequence[tuple[str, bytes, dict[str, str]]]) -> None:
        begun = time.perf_counter()
        super().sign(messages)
        self.seconds += time.perf_counter() - begun


async def committed(log: Log, commits: int, size: int, start: int, last: int) -> tuple[float, int]:
    """Seconds that it takes to append so many commits of a checkpoint and `size - 1` facts; the last sequence."""
    writer = Writer("watcher")
    checkpoint = log.subjects.checkpoint(ALL, "watcher", "bench")
    batches = []
    for n in range(commits):
        facts = [
            Message(m.subject, m.body, writer.headers(f"watcher.pod.{writer.incarnation}.{start + n}"))
            for m in pods(log, (start + n) * size, size - 1)
        ]
        batches.append(facts)
    begun = time.perf_counter()
    for n, facts in enumerate(batches):
        end = Message(checkpoint, b'{"at":1.0}', writer.headers(f"{checkpoint}.{n}"), last)
        last = (await log.commit([*facts, end])).last_seq
    return time.perf_counter() - begun, last


async def by_turns(
    one: Callable[[int], Awaitable[float]], other: Callable[[int], Awaitable[float]], rounds: int
) -> tuple[float, float]:
    """The medians of what two take, by turns; one of them is first in every other round."""
    found: tuple[list[float], list[float]] = ([], [])
    for n in range(rounds):
        for which in (0, 1) if n % 2 else (1, 0):
            found[which].append(await (one, other)[which](n))
    return median(found[0]), median(found[1])


async def costs(
    plain: Log, signed: Log, signer: Timed, commits: int, size: int, rounds: int
) -> tuple[float, float, float]:
    """Commits per second without and with signatures, and the share of the time that went into these."""
    signer.seconds = total = 0.0
    ends = {id(plain): 0, id(signed): 0}
    for log in (plain, signed):
        found = await log.last(log.subjects.checkpoint(ALL, "watcher", "bench"))
        ends[id(log)] = found.seq if found else 0

    async def on(log: Log, n: int) -> float:
        nonlocal total
        took, ends[id(log)] = await committed(log, commits, size, n * commits, ends[id(log)])
        total += took if log is signed else 0.0
        return took

    before, after = await by_turns(lambda n: on(plain, n), lambda n: on(signed, n), rounds)
    return commits / before, commits / after, signer.seconds / total


async def measure(count: int, rounds: int) -> list[Figure]:
    authenticated.WRITES = WRITES
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "nats")
        await server.start()
        authority = Authority(Path(folder))
        try:
            async with (
                await Log.connect(server.url, "plain", timeout_s=5.0) as plain,
                await Log.connect(server.url, "signed", timeout_s=5.0) as signed,
            ):
                for log in (plain, signed):
                    await install_log(log, Plan(slots=SLOTS, deciders=DECIDERS))
                await authority.install(signed)
                signer = Timed("watcher", authority.key("watcher"))
                signed.authenticate(signer=signer)
                await signed.adopt_keys()
                small = await costs(plain, signed, signer, count // 100, 2, rounds)
                large = await costs(plain, signed, signer, max(4, count // 2000), 500, rounds)

                async def fold(log: Log) -> float:
                    """Facts per second."""
                    return (await folded(log, await _facts(log), FOLDING, 0))[0]

                believing = await Log.connect(server.url, "signed", timeout_s=5.0)
                async with believing:
                    believing.authenticate(
                        signer=Signer(FOLDING, authority.key(FOLDING)),
                        anchors=[authority.root.public_key()],
                    )
                    await believing.adopt_slots()
                    folds = (await fold(plain), await fold(believing))
        finally:
            await server.stop()
    before, after = folds
    return [
        *figures("small", "fenced commits of 2 messages", *small),
        *figures("large", "commits of 500 messages", *large),
        figure("log_signed/fold", after, "1/s", "higher", None, baseline="facts folded unchecked", baseline_value=before),
    ]  # fmt: skip


async def _facts(log: Log) -> int:
    """Facts on the log."""
    answer = await log.api(f"STREAM.INFO.{log.stream}", {"subjects_filter": log.subjects.facts("*", "pod")})
    return sum((answer["state"].get("subjects") or {}).values())


def figures(name: str, what: str, before: float, after: float, share: float) -> list[Figure]:
    return [
        figure(f"log_signed/{name}", after, "1/s", "higher", None, baseline=f"{what}, not signed", baseline_value=before),
        figure(f"log_signed/{name}_cost", 100 * share, "%", "lower", COST_TARGET),
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(40_000 if size == "full" else 10_000, ROUNDS if size == "full" else 5))


BENCHES = (Bench("log_signed", run),)
