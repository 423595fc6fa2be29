"""The endpoint that labels new objects: it serves when it knows what it answers by, and whether it may."""

from __future__ import annotations

import asyncio

from tests.unit.shardmanager.test_hook import SPEC
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.acting import MODES
from tidewright.events.config import ModesSet
from tidewright.events.shards import ShardSetObserved
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.host.webhook.server import EndpointOptions
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable
from tidewright.log.reader import Record
from tidewright.shardmanager.labels.endpoint import ENDPOINT, Endpoint


async def test_it_does_not_serve_before_the_modes_were_read(log: Log) -> None:
    """In shadow it would ask to be called; the log answers at first only what is asked about the sets."""
    observed = ShardSetObserved(at=0.0, namespace="shop", name="orders", spec=SPEC)
    fact = log.subjects.fact(log.slot_of("shop"), "shardset", "shop", "orders")
    modes = log.subjects.config(MODES)
    await log.commit([
        Message(fact, registry.encode(observed)), Message(modes, registry.encode(ModesSet(at=0.0, mode="shadow"))),
    ])  # fmt: skip
    last, asked, answers = log.last, 0, False

    async def late(subject: str) -> Record | None:
        nonlocal asked
        if subject == modes:
            asked += 1
            if not answers:
                raise LogUnavailable("no answer")
        return await last(subject)

    log.last = late  # type: ignore[method-assign]
    options = EndpointOptions(nats_url="", cluster="test")
    process = Process(ProcessOptions(service=ENDPOINT), Health(ENDPOINT), asyncio.Event())
    endpoint = Endpoint(log, options, process)
    tasks = [asyncio.create_task(work) for work in endpoint.following()]
    try:
        await until(lambda: endpoint.sets.current.is_set() and asked > 1)
        assert not endpoint.current.is_set()
        answers = True
        await until(endpoint.current.is_set)
        assert not endpoint.standing(log, process)._held().acts
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
