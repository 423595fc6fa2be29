"""Nobody writes where another speaks: on the log, among the members, among the snapshots."""

from __future__ import annotations

import asyncio

import pytest

from tests.attacks.bus import ATTACKERS, CLUSTER, ROOT, STREAM, STREAMS, Bus, answer, answered, asked
from tidewright.asking.services import DECIDERS, EVERY
from tidewright.cli.contract.permissions import imports
from tidewright.host.loop.membership import BucketMembership
from tidewright.log.connection import Message
from tidewright.log.errors import LogForbidden, LogUnavailable
from tidewright.log.install import members_of


def spoken(service: str) -> list[str]:
    """Subjects that a service may publish, filled in."""
    found = [s for s in imports(CLUSTER)[service] if s.startswith((ROOT, "$KV.", "$O."))]
    return [subject.replace("*", "1").replace(">", "forged") for subject in found]


def foreign(attacker: str) -> list[str]:
    """Subjects of everybody else, which the attacker may not."""
    own = set(spoken(attacker)) if attacker in EVERY else set()
    return sorted({s for service in EVERY for s in spoken(service)} - own)


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_says_what_is_anothers(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    nobodys = [f"{ROOT}.timer.1.actuator.due", f"{ROOT}.gap.all.import"]
    async with bus.client(attacker) as client:

        async def tried(subject: str) -> None:
            await asked(client, subject, b"{}")
            assert "error" in await answer(client, subject, b"{}"), subject

        await asyncio.gather(*(tried(subject) for subject in (*foreign(attacker), *nobodys)))
    assert await bus.contents() == before


async def test_a_service_with_the_account_of_another_says_what_it_may_not_and_waits_for_nothing(
    bus: Bus,
) -> None:
    """Nobody would ever hear of it: the server refuses what it says of itself, and says so once for each."""
    async with await bus.log("autoscaler") as log:
        membership = BucketMembership(log, "watcher", "me")
        try:
            async with asyncio.timeout(90):
                with pytest.raises(LogForbidden, match=r"publish on \$KV\.TW_prod_members\.watcher\.me"):
                    await membership.join()
        finally:
            await membership.leave()


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_says_it_within_a_batch_of_ones_own(bus: Bus, attacker: str) -> None:
    if attacker not in EVERY:
        pytest.skip("has nothing of its own to say")
    mine = f"{ROOT}.checkpoint.1.{attacker}.forged"
    before = await bus.contents()
    async with await bus.log(attacker, timeout_s=1.0) as log:
        for subject in foreign(attacker)[:6]:
            with pytest.raises((LogForbidden, LogUnavailable)):
                await log.commit([Message(mine, b"{}"), Message(subject, b"{}"), Message(mine, b"{}")])
    assert await bus.contents() == before


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_a_decider_fires_its_own_timers_and_nobody_anothers(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    async with await bus.log(attacker) as patient, await bus.log(attacker, timeout_s=1.0) as log:

        async def may(service: str) -> bool:
            asking = patient if service == attacker and service in DECIDERS else log
            try:
                return await asking.may_append(f"{ROOT}.timer.all.{service}.asked")
            except (LogForbidden, LogUnavailable):
                return False

        found = await asyncio.gather(*(may(name) for name in EVERY))
    assert {name for name, allowed in zip(EVERY, found, strict=True) if allowed} == {attacker} & {*DECIDERS}
    assert await bus.contents() == before


STREAM_VERBS = (
    *(f"STREAM.{verb}" for verb in ("CREATE", "UPDATE", "PURGE", "DELETE", "RESTORE", "SNAPSHOT")),
    *(f"STREAM.{verb}" for verb in ("MSG.DELETE", "PEER.REMOVE", "LEADER.STEPDOWN")),
)


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_makes_changes_empties_copies_or_ends_a_stream(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    changed = {"max_msgs": 1, "allow_rollup_hdrs": True, "subjects": [f"{ROOT}.>"], "seq": 1, "keep": 0}
    copied = {"republish": {"src": ">", "dest": f"{ROOT}.decision.1.provisioning.x"}, "deliver_subject": "x"}
    async with bus.client(attacker) as client:

        async def tried(verb: str, stream: str) -> None:
            body = {"name": stream, **changed, **(copied if stream == "NEW" else {})}
            got = await answer(client, f"$JS.API.{verb}.{stream}", body)
            assert "error" in got, (verb, stream, got)

        every = [(verb, stream) for stream in (*STREAMS, "NEW") for verb in STREAM_VERBS]
        await asyncio.gather(*(tried(verb, stream) for verb, stream in every))  # nobody answers: a wait each
    assert await bus.contents() == before


SERVER_SUBJECTS = (
    *(
        f"$SYS.REQ.{name}"
        for name in ("SERVER.PING", "ACCOUNT.PING.CONNZ", "CLAIMS.UPDATE", "SERVER.PING.JSZ")
    ),
    *(f"$JS.API.{name}" for name in ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.log")),
    *(f"$JS.API.{name}" for name in (f"ACCOUNT.STREAM.MOVE.log.{STREAM}", "STREAM.NAMES", "STREAM.LIST")),
    f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.kept",
    "$SRV.PING",
)


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_speaks_to_the_server_itself(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    async with bus.client(attacker) as client:

        async def tried(subject: str) -> None:
            assert "error" in await answer(client, subject, {}), subject

        await asyncio.gather(*(tried(subject) for subject in SERVER_SUBJECTS))  # nobody answers: a wait each
    assert await bus.contents() == before


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_reads_anothers_snapshots_but_who_only_reads(bus: Bus, attacker: str) -> None:
    async with bus.client(attacker) as client:

        async def tried(name: str) -> None:
            may = attacker in (name, "reader", "archiver")
            ask = answered if may else answer
            got = await ask(client, f"$JS.API.STREAM.MSG.GET.OBJ_{STREAM}_snapshots_{name}", {"seq": 1})
            assert ("error" in got) is not may, (name, got)

        await asyncio.gather(*(tried(name) for name in DECIDERS))
        if attacker not in ("reader", "archiver"):  # who is alive, the others may see
            members = f"$JS.API.STREAM.MSG.GET.KV_{members_of(STREAM)}"
            got = await answered(client, members, {"last_by_subj": "x"})
            assert got["error"]["code"] == 404
