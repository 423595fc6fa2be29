"""Facts of types that only a newer version knows: a slot waits before one and says so, and goes on where it is said again."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tests.unit.host.counting import COUNTING
from tests.unit.host.test_host import decisions, holds, hosting, pod
from tests.waiting import until
from tidewright.events import registry
from tidewright.host.loop.newer import is_newer
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL


def of_a_newer_version(log: Log, n: int, named: str = "fact.pod-observed.v9") -> Message:
    known = pod(log, "shop", n)
    return Message(
        known.subject, msgspec.json.encode(msgspec.json.decode(known.body) | {"type": named, "spots": 3})
    )


async def test_a_slot_waits_and_the_others_go_on_until_it_is_said_again(log: Log) -> None:
    slot = log.slot_of("shop")
    assert log.slot_of("bank") != slot
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        # What came before it is decided, in the same breath.
        newer = await log.commit(
            [pod(log, "shop", 0), pod(log, "shop", 1), pod(log, "shop", 2), of_a_newer_version(log, 3)]
        )
        await log.commit([pod(log, n, i) for i in range(4, 10) for n in ("shop", "bank")])
        await until(lambda: holds(log), lambda found: found.get("bank") == ["hold 1", "hold 2"])
        await until(lambda: bool(host.owned[slot].halted))
        assert (
            f"event {newer.last_seq} is a fact.pod-observed.v9 of a newer version" in host.owned[slot].halted
        )
        await until(lambda: "newer version" in host.health.not_ready)
        assert (await holds(log))["shop"] == ["hold 1"]
    # The same version, started again, stands where it stood.
    async with hosting(log) as host:
        await until(lambda: slot in host.owned and bool(host.owned[slot].halted))
        await log.commit([of_a_newer_version(log, 11)])
        await log.commit([pod(log, "shop", 3)])
        await log.commit([pod(log, "bank", i) for i in range(10, 13)])
        await until(lambda: holds(log), lambda found: len(found["bank"]) == 3)
        assert host.owned[slot].halted, "another fact of the newer version is its object's last word"
        await log.commit([pod(log, "shop", 11)])
        # 3 before it, 6 + 2 that were understood after it: those of the newer version count for nothing.
        await until(lambda: holds(log), lambda found: found["shop"] == ["hold 1", "hold 2", "hold 3"])
        await until(lambda: host.health.not_ready == "")
        assert not [owned.halted for owned in host.owned.values() if owned.halted]
    async with hosting(log) as host:
        await log.commit([pod(log, "shop", 12)])
        await until(
            lambda: holds(log), lambda found: found["shop"] == ["hold 1", "hold 2", "hold 3", "hold 4"]
        )
    assert len({decision.id for decision in await decisions(log)}) == len(await decisions(log))


@pytest.mark.parametrize(
    "named", ["fact.pod-observed", "decision.hold-replicas.v9", "x", "fact..v1", "fact.a.v1 "]
)
async def test_a_type_that_no_version_has_holds_nobody_up(log: Log, named: str) -> None:
    async with hosting(log) as host:
        await log.commit([of_a_newer_version(log, 0, named), *(pod(log, "shop", i) for i in range(3))])
        await until(lambda: holds(log), lambda found: found == {"shop": ["hold 1"]})
        assert not [owned.halted for owned in host.owned.values() if owned.halted]


EVERYTHING = dataclasses.replace(
    COUNTING, kinds=COUNTING.kinds | {"shape", "template", "metric", "nodegroup", "customworkload"}
)


def newer_fact(log: Log, kind: str) -> Message:
    body = {"type": f"fact.{kind}-observed.v9", "at": 1.0, "namespace": "shop", "name": "x"}
    return Message(log.subjects.fact(log.slot_of("shop"), kind, "shop", "x"), msgspec.json.encode(body))


def checkpoint(log: Log, part: str, answered: int | None) -> Message:
    body = {"type": "checkpoint.watch.v1"} | ({} if answered is None else {"answered": answered})
    return Message(log.subjects.checkpoint(ALL, "watcher", part), msgspec.json.encode(body))


@pytest.mark.parametrize("kind", ["pod", "shape"])
async def test_it_goes_on_when_a_watcher_has_answered_what_it_waits_for(log: Log, kind: str) -> None:
    """Nothing need be said on the subject again: whatever it was about cannot be said at all."""
    slot = log.slot_of("shop")
    async with hosting(log, decider=EVERYTHING) as host:
        await log.commit([pod(log, "shop", 0), newer_fact(log, kind)])
        await until(lambda: slot in host.owned and bool(host.owned[slot].halted))
        waits_for = int(host.owned[slot].halted.split()[1])
        # Neither the checkpoint of a watcher that has not come so far, nor one of another part, nor a newer watcher's.
        await log.commit([checkpoint(log, "pod", None)])
        await log.commit([checkpoint(log, "pod", waits_for - 1)])
        await log.commit([checkpoint(log, "node", waits_for)])
        await log.commit([Message(log.subjects.checkpoint(ALL, "watcher", "pod"), b"[")])
        await log.commit([pod(log, n, i) for i in range(1, 4) for n in ("shop", "bank")])
        await until(lambda: holds(log), lambda found: found == {"bank": ["hold 1"]})
        assert host.owned[slot].halted
    async with hosting(log, decider=EVERYTHING) as host:  # and not of what came before it was started
        await until(lambda: slot in host.owned and bool(host.owned[slot].halted))
        await log.commit([checkpoint(log, "pod", waits_for)])
        await until(lambda: holds(log), lambda found: found == {"bank": ["hold 1"], "shop": ["hold 1"]})
        await until(lambda: host.health.not_ready == "")
    async with hosting(log, decider=EVERYTHING):
        await log.commit([pod(log, "shop", i) for i in range(4, 6)])
        await until(lambda: holds(log), lambda found: found["shop"] == ["hold 1", "hold 2"])


@pytest.mark.parametrize("kind", ["metric", "nodegroup", "customworkload", "template"])
async def test_what_nobody_says_again_for_certain_is_read_past(log: Log, kind: str) -> None:
    async with hosting(log, decider=EVERYTHING) as host:
        await log.commit(
            [newer_fact(log, kind), newer_fact(log, kind), *(pod(log, "shop", i) for i in range(3))]
        )
        await until(lambda: holds(log), lambda found: found == {"shop": ["hold 1"]})
        assert not [owned.halted for owned in host.owned.values() if owned.halted]
        counted = host.health.metrics.registry.get_sample_value("tidewright_messages_set_aside_total")
        assert counted == 2.0


async def test_a_slot_that_waits_takes_no_notice_of_what_it_would_read_past(log: Log) -> None:
    slot = log.slot_of("shop")
    async with hosting(log, decider=EVERYTHING) as host:
        await log.commit([newer_fact(log, "shape"), newer_fact(log, "metric"), pod(log, "shop", 0)])
        await until(lambda: slot in host.owned and bool(host.owned[slot].halted))
        await log.commit([checkpoint(log, "pod", 10**9), pod(log, "shop", 1), pod(log, "shop", 2)])
        await until(lambda: holds(log), lambda found: found == {"shop": ["hold 1"]})


def test_which_types_are_a_newer_versions() -> None:
    assert is_newer(registry.Unknown(type="fact.pod-observed.v2", at=1.0))
    assert not is_newer(registry.UNREADABLE)
    assert not is_newer(registry.Unknown(type=f"fact.{'a' * 100}.v1", at=1.0))
    assert not is_newer(
        registry.decode(b'{"type":"fact.pod-observed.v1","at":1.0,"namespace":"a","name":"b"}')
    )
