"""Who has halted, by the checkpoints that are on the log: slots of deciders, parts of the watcher, the actuator."""

from __future__ import annotations

import msgspec
import pytest

from tidewright.actuator.ledger import ActPosition
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.running_log import RunningLog
from tidewright.console.standing import standing
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import WatchPosition

GOOD = {
    "watcher": msgspec.json.encode(WatchPosition(at=1.0, epoch=1, incarnation="x", resource_version="7")),
    "actuator": msgspec.json.encode(ActPosition(at=1.0, epoch=1, incarnation="x")),
}
FAR = msgspec.json.encode(ActPosition(at=1.0, epoch=1, incarnation="x", position=10**9))


@pytest.mark.parametrize(
    ("service", "part", "body", "place", "words"),
    [
        ("watcher", ("pod",), b"?", "watcher part pod", "is not readable"),
        ("watcher", ("pod",), GOOD["actuator"], "watcher part pod", "is not readable"),
        ("actuator", (), b"[]", "actuator", "is not readable"),
        ("actuator", (), FAR, "actuator", "says that everything up to 1000000000 is done"),
        ("spread", (), b"?", "spread slot all", "is not readable"),
    ],
)
async def test_a_part_whose_checkpoint_cannot_be_gone_on_from_is_told(
    log: Log, service: str, part: tuple[str, ...], body: bytes, place: str, words: str
) -> None:
    good = [
        Message(log.subjects.checkpoint(ALL, "watcher", "node"), GOOD["watcher"]),
        Message(log.subjects.checkpoint(ALL, "watcher", "pod"), GOOD["watcher"]),
        Message(log.subjects.checkpoint(ALL, "actuator"), GOOD["actuator"]),
    ]
    for message in good:
        await log.commit([message])
    log.directly = True
    source = RunningLog(log)
    before = await moment_of(source, "")
    assert (await standing(source, before)).halted == ()
    await log.commit([Message(log.subjects.checkpoint(ALL, service, *part), body)])
    (stopped,) = (await standing(source, await moment_of(source, ""))).halted
    assert stopped.place == place
    assert words in stopped.problem
    # as of before it nothing had halted
    assert (await standing(source, msgspec.structs.replace(before, end=False))).halted == ()
