"""Answers go to who asked, in the asker's own account: a reply subject on the log leads nowhere.

In one account the server appended whatever it answered on the reply subject, past all permissions: the
content of one's own snapshots as another's decision, an answer's JSON as the actuator's checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.attacks.bus import ATTACKERS, CLUSTER, ROOT, STREAM, Bus, answered, asked
from tidewright.asking.services import EVERY
from tidewright.cli.contract.permissions import imports
from tidewright.log.install import members_of
from tidewright.log.snapshots import bucket

TARGETS = (
    f"{ROOT}.decision.1.provisioning.nodegroup._.a",
    f"{ROOT}.decision.1.autoscaler.deployment.shop.web",
    f"{ROOT}.outcome.1.deployment.shop.web",
    f"{ROOT}.fact.1.pod.shop.web-0",
    f"{ROOT}.checkpoint.all.actuator",
    f"{ROOT}.config.all.clock",
    f"$KV.{members_of(STREAM)}.autoscaler.forged",
    f"$O.{bucket(STREAM, 'spread')}.M.forged",
    f"$JS.API.STREAM.PURGE.{STREAM}",
    f"$JS.API.STREAM.DELETE.{STREAM}",
)


def questions(attacker: str) -> Sequence[tuple[str, object]]:
    """Everything that the attacker may ask, in the forms in which there is something to answer."""
    found: list[tuple[str, object]] = []
    for subject in imports(CLUSTER)[attacker]:
        if not subject.startswith("$JS.API."):
            continue
        stream = subject.split(".")[-1]
        if ".MSG.GET." in subject or ".DIRECT.GET." in subject:
            found += [(subject, {"seq": 1}), (subject, {"seq": 1, "next_by_subj": ">"})]
            found.append((subject, {"multi_last": [f"{ROOT}.>"], "batch": 10}))
        elif "CONSUMER.CREATE" in subject:
            config = {"ack_policy": "none", "mem_storage": True}
            found.append((subject, {"stream_name": stream, "config": config}))
        elif "MSG.NEXT" not in subject:
            found.append((subject, {}))
    return found


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_no_answer_lands_on_the_log_or_in_a_bucket(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    async with bus.client(attacker) as client:
        for subject, body in questions(attacker):
            got = await answered(client, subject, body)
            assert not isinstance(got.get("error"), str), (subject, got)  # somebody answers
            for target in TARGETS:
                await asked(client, subject, body, reply=target)
        await asyncio.sleep(0.3)  # nothing is waited for; what does come, had the time to
    assert await bus.contents() == before


@pytest.mark.parametrize("attacker", EVERY)
async def test_nothing_that_is_pulled_is_stored_again(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    create, pull = f"$JS.API.CONSUMER.CREATE.{STREAM}", f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}"
    async with bus.client(attacker) as client:
        for target in TARGETS:
            for pattern in (f"{ROOT}.>", target if target.startswith(ROOT) else f"{ROOT}.fact.>"):
                config = {"ack_policy": "none", "filter_subject": pattern, "mem_storage": True}
                made = await answered(client, create, {"stream_name": STREAM, "config": config})
                body = {"batch": 20, "expires": 1_000_000_000, "idle_heartbeat": 100_000_000}
                await asked(client, f"{pull}.{made['name']}", body, reply=target)
        await asyncio.sleep(0.5)
    assert await bus.contents() == before
