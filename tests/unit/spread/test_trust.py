"""A replica makes itself known: by a decision, and is ready by its outcome."""

from __future__ import annotations

import asyncio

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.spread.cluster import replicas
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.acting import MODES
from tidewright.events.config import Mode, ModesSet
from tidewright.events.endpoints import EndpointEffect, ForgetEndpoint, TrustEndpoint
from tidewright.events.outcomes import Applied, Rejected
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.host.webhook import announce
from tidewright.host.webhook.announce import Address, Announcer
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.spread.api import hooks


async def answering(log: Log, seen: list[EndpointEffect], refuse: int = 0) -> None:
    """An actuator's part: one outcome for each decision, the first few of them refused."""
    async with log.reader([f"{log.subjects.root}.decision.>"]) as reader:
        while True:
            for record in await reader.fetch(10, timeout_s=1):
                effect = registry.decode(record.body)
                assert isinstance(effect, EndpointEffect)
                seen.append(effect)
                outcome: Applied | Rejected = Applied(at=effect.at, decision=effect.id)
                if len(seen) <= refuse:
                    outcome = Rejected(
                        at=effect.at, decision=effect.id, reason="Forbidden", message="no right"
                    )
                subject = log.subjects.outcome("all", effect.target.kind.lower(), "", effect.target.name)  # type: ignore[arg-type]  # a slot
                await log.commit([Message(subject, registry.encode(outcome))])


async def test_a_certificate_is_served_when_it_is_trusted_and_the_old_one_is_retired(
    nats: EmbeddedServer, log: Log
) -> None:
    seen: list[EndpointEffect] = []
    task = asyncio.create_task(answering(log, seen))
    async with replicas(nats, 1) as (replica,):
        announced = hooks.announcement(Address(url="https://127.0.0.1:9443"))
        announcer = Announcer(
            replica.log, Writer("spread-admission"), replica.books.observed.clock, announced
        )
        first = replica.endpoint.server.certificate.ca_pem
        await announcer.trust(first)
        standing = replica.endpoint.standing(
            log, Process(ProcessOptions(service="spread-admission"), Health("spread-admission"))
        )
        await standing.renew(announcer)
        second = replica.endpoint.server.certificate.ca_pem
        assert await announcer.forget(second, within_s=60)
    task.cancel()
    assert [(type(e), e.ca) for e in seen] == [
        (TrustEndpoint, first), (TrustEndpoint, second), (TrustEndpoint, second), (ForgetEndpoint, second),
    ]  # fmt: skip
    assert isinstance(seen[2], TrustEndpoint)
    assert seen[2].retired == (first,)
    async with log.reader([log.subjects.everything]) as reader:
        async for record in reader.until_current():
            assert b"PRIVATE KEY" not in record.body


async def test_a_refusal_is_said_and_tried_again(
    nats: EmbeddedServer, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announce, "AGAIN_S", 0.01)
    seen: list[EndpointEffect] = []
    task = asyncio.create_task(answering(log, seen, refuse=2))
    announced = hooks.announcement(Address(service="capacity/admission:8443"))
    async with replicas(nats, 1) as (replica,):
        announcer = Announcer(
            replica.log, Writer("spread-admission"), replica.books.observed.clock, announced
        )
        await announcer.trust(replica.endpoint.server.certificate.ca_pem)
    task.cancel()
    assert len(seen) == 3
    assert announcer.problem == ""


@pytest.mark.parametrize(
    ("url", "service", "message"),
    [
        ("", "", "either a URL or a service"),
        ("https://a", "b/c", "either a URL or a service"),
        ("http://127.0.0.1:1", "", "https:// only"),
        ("", "alone", "NAMESPACE/NAME"),
        ("", "a/b:https", "NAMESPACE/NAME"),
    ],
)
def test_an_address_that_cannot_be_called_is_refused(url: str, service: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Address(url, service)


def test_names_and_configs_of_addresses() -> None:
    assert Address("https://10.0.0.1:9443/").hosts == ("10.0.0.1",)
    assert Address("https://10.0.0.1:9443/").client_config("/x") == {"url": "https://10.0.0.1:9443/x"}
    behind = Address(service="capacity/admission:8443")
    assert behind.hosts == ("admission.capacity.svc", "admission.capacity.svc.cluster.local")
    assert behind.client_config("/x") == {
        "service": {"namespace": "capacity", "name": "admission", "path": "/x", "port": 8443}
    }


async def test_in_shadow_no_webhook_is_registered_and_on_the_way_down_it_is_taken_out(
    nats: EmbeddedServer, log: Log
) -> None:
    seen: list[EndpointEffect] = []
    answers = asyncio.create_task(answering(log, seen))
    process = Process(ProcessOptions(service="spread-admission"), Health("spread-admission"))

    async def say(mode: Mode) -> None:
        event = ModesSet(at=1.0, mode=mode)
        await log.commit([Message(log.subjects.config(MODES), registry.encode(event))])

    async with replicas(nats, 1) as (replica,):
        health, ca = process.health, replica.endpoint.server.certificate.ca_pem
        standing = replica.endpoint.standing(replica.log, process)
        await say("shadow")
        await until(lambda: not replica.books.observed.acting.of_service("spread").acts)
        telling = asyncio.create_task(standing.keep())
        await until(lambda: not health.not_ready and "no webhook is registered" in health.note)
        assert seen == []
        await say("enforce")
        await until(lambda: not health.not_ready and not health.note)
        assert [(type(e), e.ca) for e in seen] == [(TrustEndpoint, ca)]
        await say("shadow")
        await until(lambda: "no webhook is registered" in health.note)
        telling.cancel()
    answers.cancel()
    assert [(type(e), e.ca) for e in seen] == [(TrustEndpoint, ca), (ForgetEndpoint, ca)]
    assert isinstance(seen[1], ForgetEndpoint)
    assert seen[1].remove_last
