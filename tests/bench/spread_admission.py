"""Admission of limited pods: one replica, TLS, a real nats-server with file storage, 300 pods per second.

The replica is a process of its own, as deployed; this one is the API server's part. The baseline is a bare
aiohttp server over TLS that answers the same payload with the same bytes, in a process of its own, too. Both
are asked in turn, a second each, so that whatever else the machine does meets both alike: where the echo's
tail is long, it is the machine's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import psutil
from aiohttp import web

from tests.bench.figures import Bench, Better, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.events import registry
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.facts import Owner, WorkloadObserved
from tidewright.events.spread import ChangeLedger, LedgerRules, SubsetRule
from tidewright.host.webhook import certificates
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log

NAMESPACE, NAME, HASH = "shop", "web", "5d9c7b8f6d"
RATE = 300
"""Pods per second, sustained."""
CONNECTIONS = 16


def spec() -> JsonObject:
    def subset(zone: str) -> JsonObject:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        return {
            "name": zone, "maxReplicas": 1_000_000, "requiredNodeSelectorTerm": term,
            "patch": {"metadata": {"labels": {"zone": zone}}},
        }  # fmt: skip

    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    return {"targetRef": target, "subsets": [subset("a"), subset("b"), subset("c")]}


def review(n: int) -> bytes:
    """What the API server sends for a pod of a usual size, 3 kB."""
    container = {
        "name": "main", "image": "registry.example.com/shop/web:1.2.3",
        "env": [{"name": f"SETTING_{i}", "value": "x" * 40} for i in range(25)],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
    }  # fmt: skip
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{NAME}-{HASH}", "uid": "rs",
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{NAME}-{HASH}-", "namespace": NAMESPACE,
            "labels": {"app": NAME, "pod-template-hash": HASH}, "ownerReferences": [reference],
        },
        "spec": {"containers": [container], "serviceAccountName": "default", "schedulerName": "default-scheduler"},
    }  # fmt: skip
    request = {
        "uid": f"request-{n}", "operation": "CREATE", "namespace": NAMESPACE, "object": pod,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
    }  # fmt: skip
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


async def prepare(log: Log) -> None:
    """The ledger's rules and the pods' owners on the log, as watcher and decider leave them."""
    slot = log.slot_of(NAMESPACE)
    rules = LedgerRules(
        subsets=tuple(SubsetRule(zone, 1_000_000) for zone in "abc"), spec=spec(), generation=1
    )
    now = time.time()
    target = ObjectRef(
        api_version="apps.kruise.io/v1alpha1", kind="WorkloadSpread", namespace=NAMESPACE, name=NAME
    )
    owner = Owner(kind="Deployment", name=NAME, uid="d", api_version="apps/v1", controller=True)
    replica_set = WorkloadObserved(
        at=now, namespace=NAMESPACE, name=f"{NAME}-{HASH}", uid="rs", api_version="apps/v1", kind="ReplicaSet",
        owners=(owner,), labels={"pod-template-hash": HASH},
    )  # fmt: skip
    await log.commit(
        [
            Message(
                log.subjects.ledger(slot, "spread", NAMESPACE, NAME),
                registry.encode(ChangeLedger(at=now, target=target, rules=rules)),
            ),
            Message(
                log.subjects.fact(slot, "replicaset", NAMESPACE, replica_set.name),
                registry.encode(replica_set),
            ),
        ]
    )


def serve_admission(tell: Connection, url: str) -> None:
    """A replica of the endpoint; tells its port and authority, and runs until it is ended."""
    import uvloop

    from tidewright.log.envelope import Writer
    from tidewright.spread.admission.books import Books
    from tidewright.spread.admission.endpoint import Endpoint, Options

    async def serve() -> None:
        async with await Log.connect(url, "bench") as log:
            await log.adopt_slots()
            books = Books(log, Writer("spread"))
            endpoint = Endpoint(books, Options(nats_url=url, cluster="bench"))
            following = asyncio.create_task(books.follow())
            await books.current.wait()
            await endpoint.server.start()
            tell.send((endpoint.server.port, endpoint.server.certificate.ca_pem))
            await following

    uvloop.run(serve())


def serve_echo(tell: Connection, body: bytes) -> None:
    """The baseline: TLS, and the same bytes for everybody."""
    import uvloop

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/mutate-pod", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        certificate = certificates.make(("127.0.0.1",))
        context = certificates.server_context(certificate)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        tell.send((int(runner.addresses[0][1]), certificate.ca_pem))
        await asyncio.Event().wait()

    uvloop.run(serve())


@asynccontextmanager
async def process(
    target: Callable[..., None], *arguments: Any
) -> AsyncIterator[tuple[int, str, psutil.Process]]:
    """A server in a process of its own: its port, the authority to trust, and the process."""
    spawning = multiprocessing.get_context("spawn")
    mine, other = spawning.Pipe()
    child = spawning.Process(target=target, args=(other, *arguments), daemon=True)
    child.start()
    try:
        port, ca = await asyncio.to_thread(mine.recv)
        yield port, ca, psutil.Process(child.pid)
    finally:
        child.terminate()
        child.join(10)


class Caller:
    """The API server's part towards one endpoint: connections that stay open, requests at a steady rate.

    Attributes:
        taken_s: of each request, seconds from its sending to its answer.
        sample: the last answer.
    """

    def __init__(self, port: int, ca: str) -> None:
        self.taken_s: list[float] = []
        self.sample = b""
        self._url = f"https://127.0.0.1:{port}/mutate-pod"
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cadata=ca), limit=CONNECTIONS, keepalive_timeout=60
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.close()

    async def once(self, body: bytes) -> None:
        """One request."""
        await self.asked(body)

    async def asked(self, body: bytes) -> bytes:
        """The answer to one request; how long it took counts."""
        began = time.perf_counter()
        async with self._client.post(self._url, data=body) as answer:
            found = self.sample = await answer.read()
            assert answer.status == 200, found
        self.taken_s.append(time.perf_counter() - began)
        return found

    async def warm(self, bodies: Sequence[bytes]) -> None:
        """Open the connections; what that takes does not count."""
        await asyncio.gather(*(self.once(body) for body in bodies))
        self.taken_s.clear()

    async def paced(self, bodies: Sequence[bytes], rate: float) -> None:
        """Send at a steady rate, whether or not the earlier ones are answered."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        running: set[asyncio.Task[None]] = set()
        for n, body in enumerate(bodies):
            wait = start + n / rate - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(self.once(body))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)


async def flat_out(port: int, ca: str, bodies: Sequence[bytes]) -> float:
    """Answers per second when every connection is busy all the time."""
    context = ssl.create_default_context(cadata=ca)
    waiting = list(bodies)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as client:

        async def worker() -> None:
            while waiting:
                body = waiting.pop()
                async with client.post(f"https://127.0.0.1:{port}/mutate-pod", data=body) as answer:
                    await answer.read()
                    assert answer.status == 200

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(4 * CONNECTIONS)))
        return len(bodies) / (time.perf_counter() - began)


def cpu_s(child: psutil.Process) -> float:
    """Processor seconds that a process has used: on a shared machine they say more than waiting does."""
    used = child.cpu_times()
    return float(used.user + used.system)


def at(taken_s: Sequence[float], share: float) -> float:
    """The value below which this share lies, in milliseconds."""
    ordered = sorted(taken_s)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3


def run(size: Size) -> list[Figure]:
    """A steady rate, a second here and a second there; then each as fast as it goes."""
    import uvloop

    return uvloop.run(_run(size))


async def _run(size: Size) -> list[Figure]:
    seconds, burst = (3, 500) if size == "small" else (20, 3000)
    bodies = (review(n) for n in count(0))
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        await server.start()
        try:
            async with await Log.connect(server.url, "bench") as log:
                await install_log(log, Plan(deciders=DECIDERS))
                await prepare(log)
            async with process(serve_admission, server.url) as (port, ca, child), Caller(port, ca) as ours:
                await ours.warm(list(islice(bodies, CONNECTIONS)))
                assert b'"patch"' in ours.sample
                async with process(serve_echo, ours.sample) as (echo_port, echo_ca, echo_child):
                    async with Caller(echo_port, echo_ca) as echo:
                        await echo.warm(list(islice(bodies, CONNECTIONS)))
                        before, echo_before = cpu_s(child), cpu_s(echo_child)
                        for _ in range(seconds):
                            for one in (ours, echo):
                                await one.paced(list(islice(bodies, RATE)), RATE)
                        cpu, echo_cpu = cpu_s(child) - before, cpu_s(echo_child) - echo_before
                    rate = await flat_out(port, ca, list(islice(bodies, burst)))
                    echo_rate = await flat_out(echo_port, echo_ca, list(islice(bodies, burst)))
        finally:
            await server.stop()
    pods = RATE * seconds

    def beside(
        words: str, value: float, unit: str, better: Better, target: float | None, by_echo: float
    ) -> Figure:
        return figure(
            f"spread_admission/{words}", value, unit, better, target,
            baseline="bare aiohttp over TLS, same payload", baseline_value=by_echo,
        )  # fmt: skip

    shares = {"p50": (0.5, 3.0), "p90": (0.9, None), "p99": (0.99, 15.0), "p99.9": (0.999, None)}
    return [
        *(
            beside(
                f"{name} at {RATE} pods/s",
                at(ours.taken_s, share), "ms", "lower", target, at(echo.taken_s, share),
            )
            for name, (share, target) in shares.items()
        ),
        beside("processor time of a pod", cpu / pods * 1e3, "ms", "lower", None, echo_cpu / pods * 1e3),
        beside("throughput", rate, "pods/s", "higher", None, echo_rate),
    ]  # fmt: skip


BENCHES = (Bench("spread_admission", run),)
