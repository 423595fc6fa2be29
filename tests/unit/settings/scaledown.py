"""What each setting of scale-down changes: a story of a few nodes, and two values under which it ends differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.provisioning.replaceworld import Pools
from tests.unit.provisioning.watched import OWNER, Watched, three_nodes
from tests.unit.settings.trying import ABSENT, Setting
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, JsonObject
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import Lately

SOON: JsonObject = {"scale-down-unneeded-time": "1m"}
GPU = "nvidia.com/gpu"
G, H = NodeGroupId("g"), NodeGroupId("h")
AGENT = f.Owner(api_version="apps/v1", kind="DaemonSet", name="agent", uid="agent", controller=True)
CUSTOM = f.Owner(api_version="example.com/v1", kind="Custom", name="c", uid="c", controller=True)
TRACKED, REMOVED, MARKED = p.TrackUnneededNodes, p.RemoveNode, p.MarkNode

Play = Callable[[Watched], None]


def story(play: Play, *, last_s: float = 1500) -> Callable[[JsonObject], list[Decision]]:
    """A story whose orders nobody carries out."""

    def told(config: JsonObject) -> list[Decision]:
        cluster = Watched(config)
        cluster.silent = True
        play(cluster)
        assert cluster.object_events("ConfigurationIgnored") == []
        cluster.advance(last_s)
        return cluster.said

    return told


def mixed(config: JsonObject) -> list[Decision]:
    cluster = three_nodes(config)
    cluster.advance(700)
    return cluster.said


def more_than_enough(cluster: Watched) -> None:
    """A pass ends when as many nodes are found as may go at a time, and as many again."""
    cluster.nodes(50)


def one_unready(cluster: Watched) -> None:
    cluster.nodes(3)
    cluster.again("g0", cluster.groups["g"].template.allocatable, ready=False)


def one_pod(**more: Any) -> Play:
    def play(cluster: Watched) -> None:
        cluster.nodes(2)
        cluster.placed("one", "g0", **more)
        for i in range(6):
            cluster.placed(f"many{i}", "g1")

    return play


def one_gpu(cluster: Watched) -> None:
    cluster.nodes(2, more={GPU: 4})
    shape = cluster.shape({"cpu": 100, GPU: 1})
    cluster.placed("one", "g0", shape=shape)


def no_place(cluster: Watched) -> None:
    cluster.nodes(2, cpu=1000)
    for node, name in (("g0", "a"), ("g1", "b"), ("g1", "c")):
        cluster.placed(name, node)


def empty_nodes(cluster: Watched) -> None:
    cluster.nodes(3)


def four_pods(cluster: Watched) -> None:
    cluster.nodes(5)
    for i in range(4):
        cluster.placed(f"p{i}", f"g{i}")


def one_after_another(cluster: Watched) -> None:
    cluster.nodes(2)
    cluster.nodes(1, "h", labels={"pool": "h"})
    for i in range(6):
        cluster.placed(f"many{i}", "h0")
    cluster.advance(180)
    for i in range(6):
        cluster.gone(f"many{i}")


def after(lately: Lately) -> Play:
    def play(cluster: Watched) -> None:
        cluster.nodes(2)
        cluster.nodes(2, "h", labels={"pool": "h"})
        cluster.state.lately[H] = lately

    return play


def came(cluster: Watched) -> None:
    after(Lately(add=cluster.now))(cluster)


def failed(cluster: Watched) -> None:
    after(Lately(failure=cluster.now))(cluster)


def of_the_system(age_s: float) -> Play:
    def play(cluster: Watched) -> None:
        cluster.nodes(2)
        for i in range(6):
            cluster.placed(f"many{i}", "g1")
        cluster.tell(
            f.WorkloadObserved(
                at=cluster.now,
                namespace="kube-system",
                name="web",
                api_version="apps/v1",
                kind="ReplicaSet",
                replicas=1,
            )
        )
        cluster.tell(
            f.PodObserved(
                at=cluster.now,
                namespace="kube-system",
                name="dns",
                uid="dns",
                shape=cluster.small,
                phase="Running",
                node="g0",
                created_at=cluster.now - age_s,
                owners=(OWNER,),
                removal=f.Removal(),
            )
        )

    return play


def with_agent(**more: Any) -> Play:
    """A node that is used a lot, but for what its agent asks for."""

    def play(cluster: Watched) -> None:
        cluster.nodes(2)
        cluster.tell(p.DaemonSetObserved(at=cluster.now, namespace="ns", name="agent", template={}))
        shape = cluster.shape({"cpu": 1900, "memory": 2**30})
        cluster.placed("agent", "g0", shape=shape, **{"owners": (AGENT,), **more})
        cluster.placed("one", "g0")
        for i in range(6):
            cluster.placed(f"many{i}", "g1")

    return play


def agent_alone(cluster: Watched) -> None:
    cluster.nodes(2)
    cluster.tell(p.DaemonSetObserved(at=cluster.now, namespace="ns", name="agent", template={}))
    cluster.placed("agent", "g0", owners=(AGENT,))


def agent_beside(cluster: Watched) -> None:
    agent_alone(cluster)
    cluster.placed("one", "g0")
    for i in range(6):
        cluster.placed(f"many{i}", "g1")


def used(cluster: Watched) -> None:
    cluster.nodes(3)
    for i in range(15):
        cluster.placed(f"pod{i}", f"g{i % 3}")


def just_used(cluster: Watched) -> None:
    used(cluster)
    cluster.placed("more", "g0")
    cluster.gone("more")


def replaced(config: JsonObject, **label: str) -> list[Decision]:
    """A dear node whose pod needs no more than a cheap one."""
    labels = {name.replace("_", "/"): value for name, value in label.items()}
    cluster = Pools(config)
    cluster.pool("dear", 1, cpu=8000, price=1_000_000, labels=labels)
    cluster.pool("cheap", 0, cpu=4000, price=300_000, labels=labels)
    cluster.running("pod", "dear0", 3500)
    cluster.advance(300)
    return cluster.said


def replaced_spot(config: JsonObject) -> list[Decision]:
    return replaced(config, **{"karpenter.sh_capacity-type": "spot"})


LOCAL = f.Removal(volumes=(f.LocalVolume(name="data", kind="hostPath"),))
MIRROR = f.Removal(mirror=True)
TRIED_SCALE_DOWN: dict[str, Setting] = {
    "scan-interval": Setting(mixed, (ABSENT, "30s"), TRACKED),
    "node-removal-latency-tracking-enabled": Setting(mixed, (ABSENT, True), TRACKED),
    "max-node-skip-eval-time-tracker-enabled": Setting(
        story(more_than_enough, last_s=60), (ABSENT, True), TRACKED
    ),
    "scale-down-unready-enabled": Setting(story(one_unready), (ABSENT, False), TRACKED),
    "scale-down-unready-time": Setting(story(one_unready), (ABSENT, "5m"), REMOVED),
    "scale-down-utilization-threshold": Setting(mixed, (ABSENT, 0.1), TRACKED),
    "scale-down-gpu-utilization-threshold": Setting(story(one_gpu), (ABSENT, 0.1), TRACKED),
    "scale-down-delay-after-delete": Setting(story(one_after_another), (ABSENT, "15m"), REMOVED, SOON),
    "scale-down-delay-after-failure": Setting(story(failed), (ABSENT, "10m"), REMOVED, SOON),
    "scale-down-delay-type-local": Setting(story(came), (ABSENT, True), REMOVED, SOON),
    "unremovable-node-recheck-timeout": Setting(story(no_place), (ABSENT, "10m"), TRACKED),
    "max-scale-down-parallelism": Setting(story(empty_nodes), (ABSENT, 1), REMOVED),
    "max-drain-parallelism": Setting(story(four_pods), (ABSENT, 2), REMOVED),
    "skip-nodes-with-system-pods": Setting(story(of_the_system(60)), (ABSENT, False), REMOVED),
    "blocking-system-pod-distruption-timeout": Setting(story(of_the_system(1800)), (ABSENT, "10m"), REMOVED),
    "skip-nodes-with-local-storage": Setting(story(one_pod(removal=LOCAL)), (ABSENT, False), REMOVED),
    "skip-nodes-with-custom-controller-pods": Setting(
        story(one_pod(owners=(CUSTOM,))), (ABSENT, False), REMOVED
    ),
    "min-replica-count": Setting(story(one_pod()), (ABSENT, 20), REMOVED),
    "ignore-daemonsets-utilization": Setting(story(with_agent()), (ABSENT, True), REMOVED),
    "ignore-mirror-pods-utilization": Setting(
        story(with_agent(owners=(), removal=MIRROR)), (ABSENT, True), REMOVED
    ),
    "daemonset-eviction-for-empty-nodes": Setting(story(agent_alone), (ABSENT, True), REMOVED),
    "daemonset-eviction-for-occupied-nodes": Setting(story(agent_beside), (ABSENT, False), REMOVED),
    "max-graceful-termination-sec": Setting(story(one_pod()), (ABSENT, 10), REMOVED),
    "max-bulk-soft-taint-count": Setting(story(empty_nodes), (ABSENT, 1), MARKED),
    "consolidation": Setting(story(used), (ABSENT, "underutilised"), REMOVED),
    "consolidate-after": Setting(
        story(just_used), (ABSENT, "Never"), REMOVED, {"consolidation": "underutilised"}
    ),
    "min-saving": Setting(replaced, (ABSENT, "80%"), p.ReplaceNodes),
    "spot-types-min": Setting(replaced_spot, (ABSENT, 1), p.ReplaceNodes),
    "consolidation-budgets": Setting(story(used), (ABSENT, "0"), REMOVED, {"consolidation": "underutilised"}),
    "cordon-node-before-terminating": Setting(story(empty_nodes), (ABSENT, False), MARKED),
}
"""The setting to what it changes."""
