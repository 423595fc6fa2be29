"""Beside Datadog's controller: from its first sign on nothing is written, and when it is gone it goes on.

Its Deployment and its lock are made in the namespace of the test, and it watches that one alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import pytest_asyncio

from tests import waiting
from tests.e2e.autoscaler.world import PATIENCE_S, Object, World, shell, template, wants
from tests.e2e.conftest import Cluster, Services, services_on, tidewright
from tests.nats_server import EmbeddedServer
from tidewright.events import registry
from tidewright.events.acting import HELD_BACK, INCUMBENT
from tidewright.events.base import Event, Outcome
from tidewright.events.decisions import Effect, ScaleWorkload
from tidewright.events.incumbents import IncumbentObserved
from tidewright.host.loop.lookout import NOBODY
from tidewright.kube.errors import KubeError
from tidewright.kube.times import rfc3339_micro
from tidewright.log.reader import Reader
from tidewright.log.subjects import ALL

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOCK = "watermarkpodautoscaler-lock"
QUIET_S = "3"


class Tail:
    """What is on the log, as it comes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def until(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """Everything up to the first event that is wanted, which is the last one."""
        found: list[Event] = []

        async def read() -> list[Event]:
            for record in await self._reader.fetch(1, timeout_s=1):
                event = registry.decode(record.body) if record.body else None  # the end of a timer has none
                if isinstance(event, Event):
                    found.append(event)
            return found

        return await waiting.until(
            read,
            lambda events: bool(events) and wanted(events[-1]),
            what=waiting.text_of(wanted),
            within_s=PATIENCE_S,
            every_s=0.0,
        )


class Rival:
    """Datadog's controller, as far as the cluster shows it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deployment = f"{world.deployments}/datadog-wpa"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases"

    async def comes(self) -> None:
        labels = {"app.kubernetes.io/name": "watermarkpodautoscaler"}
        pods = template(labels)
        pods["spec"]["containers"][0] |= {
            "image": "gcr.io/datadoghq/watermarkpodautoscaler:v0.9.0",
            "command": ["watermarkpodautoscaler"],
            "env": [{"name": "WATCH_NAMESPACE", "value": self.world.namespace}],
        }
        manifest: Object = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "datadog-wpa", "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods},
        }
        await self.world.make(self.world.deployments, manifest)
        record = {"holderIdentity": "datadog-wpa-1_uuid", "leaseDurationSeconds": 15}
        lease: Object = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LOCK},
            "spec": record | {"renewTime": rfc3339_micro(time.time())},
        }
        await self.world.make(self.leases, lease)

    @contextlib.asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """It renews its lock every half second."""

        async def renew() -> None:
            while True:
                spec = {"renewTime": rfc3339_micro(time.time())}
                await self.world.patch(f"{self.leases}/{LOCK}", {"spec": spec})
                await asyncio.sleep(0.5)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def goes(self) -> None:
        """It is scaled to zero, and gives its lock back."""
        await self.world.patch(self.deployment, {"spec": {"replicas": 0}})
        await self.world.patch(f"{self.leases}/{LOCK}", {"spec": {"holderIdentity": ""}})

    async def leaves(self) -> None:
        """Nothing is left of it: a namespace on its way out still shows what is in it, to the next test too."""
        for path in (self.deployment, f"{self.leases}/{LOCK}"):
            with contextlib.suppress(KubeError):  # it never came
                await self.world.delete(path)


@pytest_asyncio.fixture(loop_scope="session")
async def rival(world: World) -> AsyncIterator[Rival]:
    """Another controller in the test's namespace, once it comes; it leaves with the test."""
    rival = Rival(world)
    yield rival
    await rival.leaves()


def met(*, present: bool) -> Callable[[object], bool]:
    return lambda event: (
        isinstance(event, IncumbentObserved) and event.service == "autoscaler" and event.present is present
    )


def scales_to(replicas: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ScaleWorkload) and event.replicas == replicas


async def all_done(tail: Tail, seen: Sequence[Event]) -> None:
    """Return when everything that was decided up to here has its outcome: it was decided before anybody was met."""
    open_ = {e.id for e in seen if isinstance(e, Effect)} - {
        e.decision for e in seen if isinstance(e, Outcome)
    }
    while open_:
        answered = (await tail.until(lambda e: isinstance(e, Outcome) and e.decision in open_))[-1]
        assert isinstance(answered, Outcome)
        open_.remove(answered.decision)


async def test_beside_an_incumbent_nothing_is_written_and_when_it_is_gone_it_goes_on(
    world: World, rival: Rival, cluster: Cluster, installed: list[str], nats_of_the_test: EmbeddedServer
) -> None:
    del installed  # wanted for being there
    async with services_on(cluster, nats_of_the_test.url) as services:
        await services.start(
            "watcher", "autoscaler", "actuator",
            watcher=("--metrics-interval", "0.5", "--incumbent-quiet", QUIET_S),
        )  # fmt: skip
        target = await world.deployment()
        world.measure(60)
        wpa = await world.autoscaler()
        await world.until(target, wants(6))
        await world.until(wpa, lambda found: found.get("status", {}).get("currentReplicas") == 6)

        async with await services.log() as log, log.reader([log.subjects.everything]) as reader:
            tail = Tail(reader)
            await rival.comes()
            async with rival.renewing():
                seen = await tail.until(met(present=True))
                found = seen[-1]
                assert isinstance(found, IncumbentObserved)
                assert found.covers(world.namespace)
                # What was decided before it was met may be committed behind that, and before what is held back.
                world.measure(100)
                seen += await tail.until(scales_to(10))
                assert getattr(seen[-1], "shadow", False)
                await all_done(tail, seen)
                before = (await world.get(wpa))["status"]
                world.measure(110)
                decided = await tail.until(scales_to(11))
                order = decided[-1]
                assert isinstance(order, ScaleWorkload)
                assert order.shadow
                assert order.dry_run
                assert order.because[-1].rule == HELD_BACK
                outcome = (await tail.until(lambda e: getattr(e, "decision", "") == order.id))[-1]
                assert getattr(outcome, "reason", "") in ("DryRun", "Shadow")
                assert (await world.get(target))["spec"]["replicas"] == 6
                assert (await world.get(wpa))["status"] == before
                told = await explain(services, world)
                assert "Nothing is written (dry-run): WatermarkPodAutoscaler controller is at work on" in told
                assert "--regardless autoscaler" in told
            await rival.goes()
            went = await tail.until(met(present=False))
            written = [e for e in went if isinstance(e, Effect) and not e.shadow]
            assert written == []
            await world.until(target, wants(11))
            # What was decided before it was known to be gone may still be committed behind that.
            await tail.until(lambda e: isinstance(e, ScaleWorkload) and e.replicas == 11 and not e.shadow)


async def test_regardless_of_an_incumbent_when_the_operator_says_so(
    world: World, rival: Rival, cluster: Cluster, installed: list[str], nats_of_the_test: EmbeddedServer
) -> None:
    del installed  # wanted for being there
    async with services_on(cluster, nats_of_the_test.url) as services:
        await rival.comes()
        await services.start(
            "watcher", "autoscaler", "actuator",
            watcher=("--metrics-interval", "0.5", "--mode", "enforce", "--regardless", "autoscaler"),
        )  # fmt: skip
        target = await world.deployment()
        world.measure(60)
        await world.autoscaler()
        await world.until(target, wants(6))
        async with await services.log() as log:
            subject = log.subjects.fact(ALL, INCUMBENT, "", "autoscaler")
            # It is seen, and said, all the same: maybe later, since nobody waits for it.
            await waiting.until(
                lambda: log.last(subject),
                lambda record: record is not None and met(present=True)(registry.decode(record.body)),
            )


async def test_one_that_came_while_nobody_looked_is_not_acted_beside(
    world: World, rival: Rival, cluster: Cluster, installed: list[str], nats_of_the_test: EmbeddedServer
) -> None:
    del installed  # wanted for being there
    looking = ("--metrics-interval", "0.5", "--incumbent-quiet", QUIET_S)
    async with services_on(cluster, nats_of_the_test.url) as services:
        await services.start("autoscaler")
        watcher, first, second = services.beside(), services.beside(), services.beside()
        await asyncio.gather(
            watcher.start("watcher", watcher=looking),
            first.start("actuator"),
        )
        target = await world.deployment()
        world.measure(60)
        wpa = await world.autoscaler()
        await world.until(target, wants(6))
        await world.until(wpa, lambda found: found.get("status", {}).get("currentReplicas") == 6)

        async with await services.log() as log, log.reader([log.subjects.everything]) as reader:
            tail = Tail(reader)
            await tail.until(scales_to(6))
            await first.supervisor.stop()
            world.measure(110)
            order = (await tail.until(scales_to(11)))[-1]
            assert isinstance(order, ScaleWorkload)
            assert not order.shadow, order.because
            await watcher.supervisor.stop()
            await rival.comes()
            async with rival.renewing():
                status = (await world.get(wpa))["status"]
                second.ready_within_s *= 2  # the watcher that it waits for is started after it
                alone = asyncio.create_task(second.start("actuator"))
                await second.until_said("actuator", NOBODY)
                assert f"It waits: {NOBODY}" in await explain(services, world)
                assert (await world.get(target))["spec"]["replicas"] == 6
                assert (await world.get(wpa))["status"] == status
                await services.beside().start("watcher", watcher=looking)
                await alone
                outcome = (await tail.until(lambda e: getattr(e, "decision", "") == order.id))[-1]
                assert getattr(outcome, "reason", "") == "DryRun"
                assert (await world.get(target))["spec"]["replicas"] == 6
                assert (await world.get(wpa))["status"] == status


async def explain(services: Services, world: World) -> str:
    code, out, error = await shell(
        *tidewright(
            "explain",
            "wpa/web",
            "-n",
            world.namespace,
            "--nats",
            services.nats_url,
            "--cluster",
            services.name,
        )
    )
    assert code == 0, error
    return out


@pytest_asyncio.fixture(loop_scope="session")
async def nats_of_the_test(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    """A log server of this test's own, in the session's loop."""
    server = EmbeddedServer(tmp_path_factory.mktemp("nats"))
    await server.start()
    yield server
    await server.stop()
