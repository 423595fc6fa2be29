"""Two clusters of one name: what was decided about one is never carried out in the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.e2e.actuator.test_actuator import DEPLOYMENTS, WEB, Bench, Client, kube
from tests.looking import looked_at
from tests.nats_server import EmbeddedServer
from tidewright.actuator.options import Options
from tidewright.actuator.service import run
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.kube.clusterid import cluster_id
from tidewright.kube.errors import KubeError
from tidewright.log import errors
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log

__all__ = ["kube"]

NAME = "twins"
SCALE = ScaleWorkload(
    at=1.0,
    id="autoscaler.1.1.0",
    target=WEB,
    replicas=5,
    from_replicas=3,
    owner="WatermarkPodAutoscaler/shop/w",
)


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        f'clusters: [{{name: c, cluster: {{server: "{url}"}}}}]\n'
        "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
    )
    return path


async def test_an_actuator_in_the_other_cluster_takes_nothing_over_and_writes_nothing(
    kube: Client, nats: EmbeddedServer, tmp_path: Path
) -> None:
    options = Options(nats_url=nats.url, cluster=NAME, kubeconfig=kubeconfig(tmp_path, kube.url))
    async with await Log.connect(nats.url, NAME, timeout_s=10.0) as log:
        await log.ensure(cluster_id="of-the-other")
        await Bench(log, kube).decide(SCALE)
        before = await log.bounds()
        with pytest.raises(errors.OtherCluster, match=r"is of another cluster.*--cluster NAME"):
            async with asyncio.timeout(90):
                await run(options)
        assert await log.bounds() == before
    assert (await kube.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 3


async def test_in_its_own_cluster_it_acts(kube: Client, nats: EmbeddedServer, tmp_path: Path) -> None:
    options = Options(nats_url=nats.url, cluster=NAME, kubeconfig=kubeconfig(tmp_path, kube.url))
    async with await Log.connect(nats.url, NAME, timeout_s=10.0) as log:
        await install_log(log, Plan(cluster_id=await cluster_id(kube)))
        bench = Bench(log, kube)
        wpa = WatermarkPodAutoscalerObserved(
            at=1.0, namespace="shop", name="w",
            spec={"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        )  # fmt: skip
        slot, names = log.slot_of("shop"), log.subjects
        await log.commit(
            [Message(names.fact(slot, "watermarkpodautoscaler", "shop", "w"), registry.encode(wpa))]
        )
        await bench.decide(msgspec.structs.replace(SCALE, id=f"autoscaler.{slot}.1.0"))
        process = Process(ProcessOptions("actuator"), Health("actuator"))
        acting = asyncio.create_task(run(options, process))
        async with looked_at(log):
            (outcome,) = await bench.outcomes(1)
        process.stop.set()
        await acting
    assert isinstance(outcome, Applied)
    assert (await kube.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 5


async def test_whose_cluster_it_is_need_not_be_readable(kube: Client) -> None:
    kube.faults.append(lambda method, path: KubeError(403, "Forbidden", "no"))
    assert await cluster_id(kube) == ""
