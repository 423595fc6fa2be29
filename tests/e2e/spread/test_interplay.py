"""The autoscaler and the spread on one log: who leaves is said when the autoscaler decides, and it is they who leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.autoscaler.world import PATIENCE_S, wants
from tests.e2e.autoscaler.world import World as Scaled
from tests.e2e.conftest import Cluster, Services, tidewright
from tests.e2e.spread.world import World, clean, places, spread, subset
from tidewright.events import registry
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.spread import ForeseeScaleIn
from tidewright.host.fold.order import cause_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = ("apps/v1", "Deployment", "web")


@pytest_asyncio.fixture(loop_scope="session")
async def both(world: World, services: Services) -> AsyncIterator[Services]:
    """The autoscaler runs beside the spread; metrics are asked for twice a second."""
    await services.start("watcher", "autoscaler", "spread", "actuator", watcher=("--metrics-interval", "0.5"))
    await services.start("spread-admission")
    yield services
    await services.supervisor.stop()
    await clean(world.kube)


async def test_a_decided_scale_in_names_the_pods_and_those_pods_go(
    world: World, cluster: Cluster, both: Services
) -> None:
    scaled = Scaled(world.kube, cluster, world.namespace)
    subsets = (subset("a", 2), subset("b", 2), subset("c", 1), subset("d"))
    await world.make(world.spreads, spread("web", WEB, *subsets))
    target = await scaled.deployment()
    scaled.measure(60)
    await scaled.autoscaler()
    before = await world.until_spread({"a": 2, "b": 2, "c": 1, "d": 1})
    await scaled.until(target, lambda found: found["status"].get("readyReplicas") == 6)
    await world.until_costs({("a", "400"): 2, ("b", "300"): 2, ("c", "200"): 1, ("d", "100"): 1})
    scaled.measure(20)
    await scaled.until(target, wants(4))
    after = await world.until_pods(lambda pods: places(pods.values()) == {"a": 2, "b": 2} and len(pods) == 4)
    gone = before.keys() - after.keys()
    named = await foreseen(both, world, gone)
    # First that of the last subset, then that of the one before it; and these went.
    assert [(p.subset, p.cost) for p in named.pods] == [("d", "100"), ("c", "200")]
    assert {p.pod for p in named.pods} == gone
    assert named.alike == 0
    told = await explain(both, world, "ws/web")
    first, second = (p.pod for p in named.pods)
    text = f"At 4 replicas these leave, first one first: {first} (d, cost 100), {second} (c, cost 200)."
    assert text in told
    assert text in await explain(both, world, f"pod/{first}")


async def foreseen(services: Services, world: World, gone: set[str]) -> ForeseeScaleIn:
    """What was foreseen: for a decision of the autoscaler, and before any of the pods that went began to go."""
    records: list[tuple[int, object]] = []
    left = set(gone)
    async with await services.log() as log, log.reader([log.subjects.everything]) as reader:
        async with asyncio.timeout(PATIENCE_S):
            while left:
                for record in await reader.fetch(500, timeout_s=0.5):
                    if not record.body:
                        continue  # a timer that was taken back
                    event = registry.decode(record.body)
                    records.append((record.seq, event))
                    left -= {event.name} if isinstance(event, PodGone) else set()
    ((seq, found),) = [(seq, e) for seq, e in records if isinstance(e, ForeseeScaleIn)]
    cause = dict(records)[cause_of(found.id)[0]]
    assert isinstance(cause, ScaleWorkload)
    assert cause.replicas == found.replicas
    assert seq < min(at for at, event in records if _goes(event, gone))
    return found


def _goes(event: object, gone: set[str]) -> bool:
    leaving = isinstance(event, PodObserved) and event.deleting_at is not None
    return (leaving or isinstance(event, PodGone)) and getattr(event, "name", "") in gone


async def explain(services: Services, world: World, what: str) -> str:
    """What the command says."""
    command = tidewright(
        "explain", what, "-n", world.namespace, "--nats", services.nats_url, "--cluster", services.name
    )
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
