"""Looking for incumbents: a scripted cluster on one side, a real nats-server on the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster, refusal
from tests.unit.watcher.incumbents import manifests
from tests.unit.watcher.incumbents.manifests import CHARTS, LEADERS, deployment
from tests.unit.watcher.test_service import NODES, WPAS, Tail, cluster, tail, watching
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.facts import NodeObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.log.connection import Log

__all__ = ["cluster", "tail"]

DEPLOYMENTS = "/apis/apps/v1/deployments"
LEASES = "/apis/coordination.k8s.io/v1/leases"


@pytest.fixture
async def served(cluster: Cluster) -> Cluster:
    cluster.objects[LEASES] = {}
    return cluster


async def put(cluster: Cluster, path: str, obj: dict[str, Any]) -> None:
    content = {name: value for name, value in obj.items() if name != "metadata"}
    meta = obj["metadata"]
    await cluster.put(path, meta.get("namespace", ""), meta["name"], metadata=dict(meta), **content)


async def renew(cluster: Cluster, rival: str = "autoscaler") -> None:
    await put(cluster, LEASES, manifests.lease(*LEADERS[rival], time.time()))


def incumbent(service: str, **fields: object) -> Callable[[Event], bool]:
    return lambda event: (
        isinstance(event, IncumbentObserved)
        and event.service == service
        and all(getattr(event, field) == value for field, value in fields.items())
    )


async def test_an_incumbent_is_said_before_what_it_acts_on_and_its_renewals_are_not(
    served: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await put(served, DEPLOYMENTS, deployment(CHARTS["autoscaler"]))
    await renew(served)
    await served.put(WPAS, "shop", "web", spec={"minReplicas": 1})
    async with watching(served, nats, tmp_path):
        await tail.until(lambda event: isinstance(event, WatermarkPodAutoscalerObserved))
        said = [event for event in tail.events if isinstance(event, IncumbentObserved)]
        assert {event.service for event in said if event.present} == {"autoscaler"}
        while len(said[-1].evidence) < 2:
            found = await tail.until(incumbent("autoscaler"))
            assert isinstance(found, IncumbentObserved)
            said.append(found)
        assert {one.kind for one in said[-1].evidence} == {"Deployment", "Lease"}
        for _ in range(20):
            await renew(served)
        await served.put(NODES, "", "after-the-renewals")
        await tail.until(lambda event: isinstance(event, NodeObserved))
        assert [e for e in tail.events if isinstance(e, IncumbentObserved)] == said
    place = tail.subjects[tail.events.index(said[-1])]
    assert place == "tw.test.fact.all.incumbent._.autoscaler"


async def test_one_that_comes_later_is_said_and_when_it_goes_that_too(
    served: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with watching(served, nats, tmp_path, incumbent_quiet_s=0.3):
        await put(served, DEPLOYMENTS, deployment(CHARTS["spread"]))
        came = await tail.until(incumbent("spread", present=True))
        await put(served, DEPLOYMENTS, deployment(CHARTS["spread"], replicas=0))
        gone = await tail.until(incumbent("spread", present=False))
        assert isinstance(came, IncumbentObserved)
        assert isinstance(gone, IncumbentObserved)
        assert (came.rival, came.everywhere) == ("OpenKruise manager", True)
        assert (gone.evidence, gone.quiet_s) == ((), 0.3)
        assert gone.since == gone.at >= came.at + 0.3


async def test_field_managers_are_found_page_by_page(
    served: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = manifests.written("watermarkpodautoscaler", time.time())
    served.answers[WPAS] = {
        "metadata": {"resourceVersion": "1"},
        "items": [
            {"metadata": {"name": "web", "namespace": "shop", "uid": "1"} | theirs, "spec": {}},
            {"metadata": {"name": "own", "namespace": "ours", "uid": "2"}, "spec": {}},
        ],
    }
    async with watching(served, nats, tmp_path):
        found = await tail.until(incumbent("autoscaler"))
        assert isinstance(found, IncumbentObserved)
        assert (found.everywhere, found.namespaces) == (False, ("shop",))


async def test_a_right_that_is_lacking_is_said_once_and_holds_up_nothing(
    served: Cluster,
    nats: EmbeddedServer,
    tail: Tail,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    served.answers[LEASES] = lambda: refusal(403, "Forbidden", "leases is forbidden")
    await served.put(WPAS, "shop", "web", spec={"minReplicas": 1})
    async with watching(served, nats, tmp_path):
        said = await tail.until(incumbent("shard-manager"))
        assert isinstance(said, IncumbentObserved)
        assert not said.present
        assert said.unseen == ("list and watch leases.coordination.k8s.io named propeller-leader",)
        await tail.until(lambda event: isinstance(event, WatermarkPodAutoscalerObserved))
        del served.answers[LEASES]
        allowed = await tail.until(incumbent("shard-manager", unseen=()))
        assert isinstance(allowed, IncumbentObserved)
    told = [line for line in capfd.readouterr().out.splitlines() if "an incumbent may go unnoticed" in line]
    assert len([line for line in told if "propeller-leader" in line]) == 1


async def test_who_takes_over_says_nothing_again_on_the_log_and_warns_people_once_more(
    served: Cluster,
    nats: EmbeddedServer,
    log: Log,
    tail: Tail,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    await put(served, DEPLOYMENTS, deployment(CHARTS["provisioning"]))
    async with watching(served, nats, tmp_path):
        await tail.until(incumbent("provisioning", present=True))
    capfd.readouterr()
    await served.put(NODES, "", "second")
    async with watching(served, nats, tmp_path):
        await served.put(WPAS, "shop", "web", spec={"minReplicas": 1})
        await tail.until(lambda event: isinstance(event, WatermarkPodAutoscalerObserved))
    assert len([e for e in tail.events if isinstance(e, IncumbentObserved)]) == 1
    warned = [line for line in capfd.readouterr().out.splitlines() if "an incumbent is at work" in line]
    assert len(warned) == 1
