"""What the tests of the admission endpoint share: replicas of it, a decider beside them, and clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import jsonpatch
import msgspec

from tests.alone import Alone
from tests.nats_server import EmbeddedServer
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.facts import Owner, PodObserved, TemplateObserved, WorkloadObserved
from tidewright.events.spread import KindRefused, WorkloadSpreadObserved
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.spread.admission.books import Books
from tidewright.spread.admission.endpoint import Endpoint, Options
from tidewright.spread.decide import DECIDER
from tidewright.spread.state import SpreadState, State

NAMESPACE = "shop"
SPREAD = "web"
HASH = "5d9c7b8f6d"
KINDS: dict[type[Event], str] = {
    WorkloadSpreadObserved: "workloadspread",
    PodObserved: "pod",
    TemplateObserved: "template",
    KindRefused: "kindrefused",
}
"""Kinds in subjects, where they are not the workload's."""


def spec(*limits: int | str | None, **more: Any) -> JsonObject:
    """A spread of the Deployment `web` over zones a, b, c... with these limits."""
    subsets = []
    for zone, limit in zip("abcdef", limits, strict=False):
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        subset: JsonObject = {"name": zone, "requiredNodeSelectorTerm": term}
        if limit is not None:
            subset["maxReplicas"] = limit
        subsets.append(subset)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"targetRef": target, "subsets": subsets, **more}


def spread_fact(given: JsonObject, generation: int = 1, **more: Any) -> WorkloadSpreadObserved:
    return WorkloadSpreadObserved(
        at=time.time(), namespace=NAMESPACE, name=SPREAD, uid="ws", generation=generation, spec=given, **more
    )


def deployment(replicas: int) -> list[WorkloadObserved]:
    """The Deployment and its ReplicaSet."""
    owner = Owner(kind="Deployment", name="web", uid="d", api_version="apps/v1", controller=True)
    common: dict[str, Any] = {
        "at": time.time(),
        "namespace": NAMESPACE,
        "api_version": "apps/v1",
        "replicas": replicas,
        "revision": "1",
    }
    return [
        WorkloadObserved(kind="Deployment", name="web", uid="d", **common),
        WorkloadObserved(
            kind="ReplicaSet",
            name=f"web-{HASH}",
            uid="rs",
            labels={"pod-template-hash": HASH},
            owners=(owner,),
            **common,
        ),
    ]


def new_pod(n: int = 0) -> JsonObject:
    """A pod as the ReplicaSet's controller sends it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"web-{HASH}",
        "uid": "rs",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"web-{HASH}-",
            "namespace": NAMESPACE,
            "labels": {"app": "web", "pod-template-hash": HASH},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "image": f"main:{n}"}]},
    }


def review(uid: str, obj: JsonObject | None, *, operation: str = "CREATE", **request: Any) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "operation": operation,
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": NAMESPACE,
                "object": obj,
                **request,
            },
        }
    )


async def say(log: Log, *facts: Event) -> None:
    """Append facts as the watcher would."""
    messages = []
    for fact in facts:
        kind = KINDS.get(type(fact), "")
        kind = kind or str(getattr(fact, "kind", type(fact).__name__)).lower()
        namespace = getattr(fact, "namespace", NAMESPACE)
        name = fact.digest if isinstance(fact, TemplateObserved) else getattr(fact, "name", "")
        subject = log.subjects.fact(log.slot_of(namespace), kind, namespace, name)
        messages.append(Message(subject, registry.encode(fact)))
    await log.commit(messages)


class Replica:
    """One replica of the endpoint, and a client that trusts it."""

    def __init__(self, log: Log, options: Options) -> None:
        self.log = log
        self.books = Books(log, Writer("spread"))
        self.endpoint = Endpoint(self.books, options)
        self.tasks: list[asyncio.Task[None]] = []
        self.client: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self.tasks = [asyncio.create_task(self.books.follow()), asyncio.create_task(self.books.append_late())]
        await self.books.current.wait()
        await self.endpoint.server.start()
        self.trust()

    def trust(self) -> None:
        context = ssl.create_default_context(cadata=self.endpoint.server.certificate.ca_pem)
        self.client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))

    async def post(self, path: str, body: bytes) -> JsonObject:
        assert self.client is not None
        async with self.client.post(
            f"https://127.0.0.1:{self.endpoint.server.port}{path}", data=body
        ) as response:
            text = await response.read()
            assert response.status == 200, text
            answered: JsonObject = msgspec.json.decode(text)["response"]
            return answered

    async def admit(self, uid: str, obj: JsonObject) -> JsonObject:
        """The pod as admitted. Raises when it is refused."""
        answered = await self.post("/mutate-pod", review(uid, obj))
        assert answered["allowed"], answered
        patch = msgspec.json.decode(base64.b64decode(answered.get("patch", "")) or b"[]")
        patched: JsonObject = jsonpatch.apply_patch(obj, patch)
        return patched

    async def stop(self) -> None:
        if self.client is not None:
            await self.client.close()
        await self.endpoint.server.stop()
        for task in self.tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def replicas(nats: EmbeddedServer, count: int) -> AsyncIterator[list[Replica]]:
    """Replicas of the endpoint, each with a connection of its own."""
    options = Options(nats_url=nats.url, cluster="test")
    made: list[Replica] = []
    try:
        for _ in range(count):
            log = await Log.connect(nats.url, "test", timeout_s=10.0)
            await log.adopt_slots()
            made.append(Replica(log, options))
        await asyncio.gather(*(r.start() for r in made))
        yield made
    finally:
        for replica in made:
            await replica.stop()
            await replica.log.close()


@asynccontextmanager
async def deciding(log: Log) -> AsyncIterator[Host[State]]:
    """A host with the spread's decider; ended as SIGTERM would."""
    writer = Writer("spread")
    host = Host(DECIDER, log, Alone(writer.incarnation), Health("spread"), writer=writer)
    stop = asyncio.Event()
    task = asyncio.create_task(host.run(stop))
    try:
        yield host
    finally:
        stop.set()
        async with asyncio.timeout(90):
            await task


def spread_of(host: Host[State]) -> SpreadState | None:
    owned = host.owned.get(host.log.slot_of(NAMESPACE))
    return None if owned is None else owned.fold.state.spreads.get(f"{NAMESPACE}/{SPREAD}")


def subset_of(pod: JsonObject) -> str | None:
    """Where an admitted pod was put."""
    text = (pod["metadata"].get("annotations") or {}).get("apps.kruise.io/matched-workloadspread")
    return None if text is None else msgspec.json.decode(text)["subset"]


def observed(pod: JsonObject, name: str) -> PodObserved:
    """The fact about an admitted pod that came to exist."""
    meta = pod["metadata"]
    owners = tuple(
        Owner(kind=o["kind"], name=o["name"], uid=o["uid"], api_version=o["apiVersion"], controller=True)
        for o in meta["ownerReferences"]
    )
    return PodObserved(
        at=time.time(),
        namespace=NAMESPACE,
        name=name,
        uid=f"uid-{name}",
        phase="Running",
        labels=meta["labels"],
        annotations=meta.get("annotations") or {},
        owners=owners,
        created_at=time.time(),
    )
