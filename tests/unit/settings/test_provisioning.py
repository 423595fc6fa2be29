"""Every setting of provisioning changes what is decided, or is named as one without meaning here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.workloads import Workloads
from tests.unit.settings.scaledown import TRIED_SCALE_DOWN
from tests.unit.settings.trying import ABSENT, Setting, matters, unknown
from tests.vectors.capacity_buffers import Buffers, priority_class
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, JsonObject
from tidewright.events.decisions import CreateObject, DeleteObject, SetStatus, SetTimer
from tidewright.provisioning.differences import DIFFERENCES, OF_BUFFERS
from tidewright.provisioning.flags import KEYS, WITHOUT_MEANING, read
from tidewright.provisioning.requests.spec import CONSUME
from tidewright.provisioning.settings import Settings

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
GIB = 2**30
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
TAINT = {"key": "booting", "value": "", "effect": "NoSchedule"}
MACHINE = {"name": "m4", "resources": {"cpu": 4000, "memory": 16 * GIB, "pods": 110}}
STOPPED = {"scale-down-enabled": False}

Play = Callable[[Cluster], None]
Scene = Callable[[JsonObject], list[Decision]]


def scene(play: Play, **how: Any) -> Scene:
    """A story from a cluster under a configuration, all of which is understood."""

    def told(config: JsonObject) -> list[Decision]:
        cluster = Cluster(config, **how)
        play(cluster)
        assert cluster.object_events("ConfigurationIgnored") == []
        return cluster.said

    return told


def pending(cluster: Cluster, count: int, cpu: int = 3000, **more: Any) -> None:
    shape = cluster.shape({"cpu": cpu, **more.pop("requests", {})}, priority=more.pop("priority", 0))
    for number in range(count):
        cluster.pod(f"p{number}", shape, **more)


def buffered(spec: JsonObject, play: Play | None = None, limit: str = "") -> Scene:
    """A buffer of chunks of one cpu in a cluster of one node with eight, and what happens then."""

    def told(config: JsonObject) -> list[Decision]:
        cluster = Buffers(config, room=8)
        resources = {"limits": {"cpu": limit}} if limit else {"requests": {"cpu": "1"}}
        cluster.pod_template("t", {"containers": [{"name": "c", "image": "i", "resources": resources}]})
        cluster.buffer("b", spec)
        cluster.settle()
        if play is not None:
            play(cluster)
            cluster.settle()
        assert cluster.object_events("ConfigurationIgnored") == []
        return cluster.said

    return told


def asks_for_its_room(cluster: Cluster) -> None:
    cluster.template("six", "6")
    cluster.request("r", CHECK, [("six", 1)])


def with_classes(cluster: Cluster) -> None:
    for name in ("tidewright-buffer", "low"):
        cluster.tell(priority_class(cluster.now, name))


def foreseen(config: JsonObject) -> list[Decision]:
    """A Deployment that grows to four pods, none of which is there."""
    cluster = Workloads(config)
    cluster.add_group("g")
    cluster.deployment("web", 4, template=cluster.form())
    cluster.settle()
    assert cluster.object_events("ConfigurationIgnored") == []
    return cluster.said


CHUNKS = {"podTemplateRef": {"name": "t"}, "replicas": 4}


def five_pods(cluster: Cluster) -> None:
    cluster.add_group("g")
    pending(cluster, 5)
    cluster.settle()


def five_gpus(cluster: Cluster) -> None:
    cluster.add_group("g", more={"nvidia.com/gpu": 1})
    pending(cluster, 5, cpu=100, requests={"nvidia.com/gpu": 1})
    cluster.settle()


def five_expendable(cluster: Cluster) -> None:
    cluster.add_group("g")
    pending(cluster, 5, priority=-11)
    cluster.settle()


def nothing_there(cluster: Cluster) -> None:
    pending(cluster, 1)
    cluster.settle()


def two_groups(**other: Any) -> Play:
    """Four pods, each of a node's size, and two groups."""

    def play(cluster: Cluster) -> None:
        cluster.add_group("a", labels={"pool": "a"} if "labels" in other else None)
        cluster.add_group("b", **other)
        pending(cluster, 4)
        cluster.settle()

    return play


def nearly_alike(memory: int = 16 * GIB, free: int = 16 * GIB) -> Play:
    """Two groups whose nodes differ in capacity and allocatable memory by so much."""

    def play(cluster: Cluster) -> None:
        for name, capacity, allocatable in (("a", 16 * GIB, 16 * GIB), ("b", memory, free)):
            cluster.add_group(name, memory=allocatable)
            group = cluster.groups[name]
            group.template = msgspec.structs.replace(
                group.template, capacity={"cpu": 4000, "memory": capacity, "pods": 110}
            )
            cluster.observe_group(name)
        pending(cluster, 4)
        cluster.settle()

    return play


def with_daemons(cluster: Cluster) -> None:
    """Two groups alike but for what a DaemonSet, which is for one of them, leaves free."""
    for name in ("a", "b"):
        cluster.add_group(name, labels={"pool": name})
    containers = [{"name": "c", "resources": {"requests": {"memory": "2Gi"}}}]
    template = {"spec": {"containers": containers, "nodeSelector": {"pool": "b"}}}
    cluster.tell(p.DaemonSetObserved(at=cluster.now, namespace="ns", name="d", template=template))
    pending(cluster, 4)
    cluster.settle()


def wasteful_or_wide(cluster: Cluster) -> None:
    cluster.add_group("snug", cpu=3000)
    cluster.add_group("wide", cpu=32_000, memory=128 * GIB)
    pending(cluster, 5)
    cluster.settle()


def tainted(cluster: Cluster) -> None:
    cluster.add_group("g")
    group = cluster.groups["g"]
    group.template = msgspec.structs.replace(group.template, taints=(TAINT,))
    cluster.observe_group("g")
    pending(cluster, 1)
    cluster.settle()


def failing(after_s: float) -> Play:
    """A cloud that has nothing, for so long, and pods that wait."""

    def play(cluster: Cluster) -> None:
        cluster.add_group("g")
        cluster.refuse["g"] = "OutOfCapacity"
        pending(cluster, 1)
        cluster.advance(after_s)

    return play


def failing_seldom(cluster: Cluster) -> None:
    """A cloud that has nothing now, and nothing four hours later."""
    cluster.add_group("g")
    cluster.refuse["g"] = "OutOfCapacity"
    pending(cluster, 1)
    cluster.settle()
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="p0", uid="uid-p0"))
    cluster.advance(4 * HOUR)
    pending(cluster, 1)
    cluster.settle()


def never_coming(cluster: Cluster) -> None:
    """Two nodes that are ordered and never come, in a group that has two at least."""
    cluster.add_group("g", minimum=2)
    pending(cluster, 2)
    cluster.advance(HOUR)


def stillborn(cluster: Cluster) -> None:
    """A machine that the cloud made and that cannot come up."""
    cluster.add_group("g", minimum=1)
    pending(cluster, 1)
    cluster.settle()
    group = cluster.groups["g"]
    group.instances = [p.Instance(id=group.instances[0].id, state="creating", error_class=1, error_code="X")]
    cluster.observe_group("g")
    cluster.settle()


def over_quota(cluster: Cluster) -> None:
    cluster.add_group("g", maximum=8)
    cluster.refuse["g"] = "QuotaExceeded"
    pending(cluster, 8)
    cluster.settle()
    del cluster.refuse["g"]
    cluster.advance(HOUR)


def not_ready(count: int, age_s: float = HOUR) -> Play:
    """Nodes of which one is ready, and full, and a pod that waits."""

    def play(cluster: Cluster) -> None:
        cluster.add_group("g", maximum=20, target=count + 1)
        for number in range(count + 1):
            cluster.add_node(f"n{number}", "g")
        for number in range(count):
            cluster.tell(
                f.NodeObserved(
                    at=cluster.now, name=f"n{number}", allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 110},
                    ready=False, ready_changed_at=cluster.now, created_at=cluster.now - age_s,
                    provider_id=f"sim://n{number}",
                )
            )  # fmt: skip
        cluster.pod("sitting", cluster.shape({"cpu": 4000}), node=f"n{count}")
        pending(cluster, 1)
        cluster.settle()

    return play


def idle(cluster: Cluster, *, minutes: float = 30, **group: Any) -> None:
    """Three nodes with nothing to do."""
    cluster.add_group("g", target=3, **group)
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name, "g")
    cluster.advance(minutes * MINUTE)


def idle_after_an_order(cluster: Cluster) -> None:
    cluster.add_group("other", labels={"pool": "other"})
    shape = cluster.shape({"cpu": 3000}, {"nodeSelector": {"pool": "other"}})
    cluster.pod("p", shape)
    cluster.settle()
    idle(cluster)


def idle_gpus(cluster: Cluster) -> None:
    idle(cluster, more={"nvidia.com/gpu": 1})


def below_minimum(cluster: Cluster) -> None:
    cluster.add_group("g", minimum=2)
    cluster.settle()


def trickling(cluster: Cluster) -> None:
    """Pods that come one by one, for five seconds."""
    cluster.add_group("g")
    shape = cluster.shape({"cpu": 3000})
    for number in range(50):
        cluster.pod(f"p{number}", shape)
        cluster.advance(0.1)


def request(*, pods: int = 1, nodes: int = 1, until_s: float = 5.0) -> Play:
    """One request for pods, each of which has room on a node of its own."""

    def play(cluster: Cluster) -> None:
        for number in range(nodes):
            cluster.add_node(f"n{number}")
        cluster.template("t", "3")
        cluster.request("r", CHECK, [("t", pods)])
        cluster.advance(until_s)

    return play


def requests(count: int) -> Play:
    def play(cluster: Cluster) -> None:
        cluster.add_node("n", cpu=count * 1000)
        cluster.template("t", "1")
        for number in range(count):
            cluster.request(f"r{number:03}", CHECK, [("t", 1)])
        cluster.settle()

    return play


def without_template(cluster: Cluster) -> None:
    cluster.request("r", CHECK, [("t", 1)])
    cluster.advance(MINUTE)


def orphan(cluster: Cluster) -> None:
    cluster.add_group("g")
    pending(cluster, 1, annotations={CONSUME: "absent"})
    cluster.advance(HOUR)


def controlled(cluster: Cluster) -> None:
    cluster.template("t", "3")
    cluster.request("r", CHECK, [("t", 1)], controlled=True)
    cluster.advance(15 * DAY)


def asked(cluster: Cluster, name: str, namespace: str = "ns", age_s: float = 0.0, **parameters: str) -> None:
    """A request for one pod of three cores, made so long ago."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    template = {"spec": {"containers": containers}}
    cluster.tell(p.PodTemplateObserved(at=cluster.now, namespace=namespace, name="t", template=template))
    cluster.tell(
        p.ProvisioningRequestObserved(
            at=cluster.now, namespace=namespace, name=name, uid=name, generation=1, created_at=cluster.now - age_s,
            spec={
                "provisioningClassName": CHECK,
                "podSets": [{"podTemplateRef": {"name": "t"}, "count": 1}],
                "parameters": parameters,
            },
        )
    )  # fmt: skip


def by_turns(cluster: Cluster) -> None:
    """A namespace that has room already asks for more, a little before another one asks for the first time."""
    cluster.add_node("n")
    asked(cluster, "first")
    cluster.settle()
    asked(cluster, "second", age_s=60)
    asked(cluster, "third", "other")
    cluster.settle()
    cluster.add_node("late")
    cluster.advance(2 * MINUTE)


def starving(cluster: Cluster) -> None:
    """An old request and one of a higher priority, and room for one of them."""
    asked(cluster, "old", age_s=HOUR)
    asked(cluster, "high", Priority="10")
    cluster.add_node("n")
    cluster.settle()


def passed_by(cluster: Cluster) -> None:
    cluster.add_node("n")
    for name, cores in (("large", "8"), ("small", "1")):
        cluster.template(name, cores)
        cluster.request(name, CHECK, [(name, 1)])
        cluster.settle()


INCREASE, STATUS, TIMER = p.IncreaseNodeGroup, SetStatus, SetTimer
GONE, TRIED, MADE = p.DeleteInstances, p.AttemptRequest, CreateObject
BALANCED = {"balance-similar-node-groups": True}
HOLD = {"profile": "hold"}
COMING = scene(never_coming, boots=False)

TRIED_SETTINGS: dict[str, Setting] = {
    # What is ordered, and where.
    # Of one group that is looked at, not of all that is ordered: a group for which many are needed looks worse.
    "max-nodes-per-scaleup": Setting(
        scene(wasteful_or_wide), (ABSENT, 1), INCREASE, {"expander": "most-pods,least-waste"}
    ),
    "max-nodes-total": Setting(scene(five_pods), (ABSENT, 2), INCREASE),
    "cores-total": Setting(scene(five_pods), (ABSENT, "0:8"), INCREASE),
    "memory-total": Setting(scene(five_pods), (ABSENT, "0:32"), INCREASE),
    "gpu-total": Setting(scene(five_gpus), (ABSENT, ["nvidia.com/gpu:0:2"]), INCREASE),
    "quotas": Setting(scene(five_pods), (ABSENT, [{"id": "q", "limits": {"nodes": 2}}]), INCREASE),
    "expendable-pods-priority-cutoff": Setting(scene(five_expendable), (ABSENT, -20), INCREASE),
    "new-pod-scale-up-delay": Setting(scene(five_pods), (ABSENT, "1m"), INCREASE),
    "scale-up-from-zero": Setting(scene(five_pods), (ABSENT, False), INCREASE),
    "machine-types": Setting(scene(nothing_there), (ABSENT, [MACHINE]), p.CreateNodeGroup),
    "enforce-node-group-min-size": Setting(scene(below_minimum), (ABSENT, True), INCREASE),
    "balance-similar-node-groups": Setting(scene(two_groups()), (ABSENT, True), INCREASE),
    "balancing-ignore-label": Setting(scene(two_groups(labels={"pool": "b"})), (ABSENT, "pool"), INCREASE, BALANCED),
    "balancing-label": Setting(scene(two_groups(memory=64 * GIB)), (ABSENT, "pool"), INCREASE, BALANCED),
    "memory-difference-ratio": Setting(scene(nearly_alike(memory=17 * GIB)), (ABSENT, 0.1), INCREASE, BALANCED),
    "max-allocatable-difference-ratio": Setting(
        scene(nearly_alike(free=15 * GIB)), (ABSENT, 0.1), INCREASE, {**BALANCED, "max-free-difference-ratio": 0.1}
    ),
    "max-free-difference-ratio": Setting(scene(with_daemons), (ABSENT, 0.2), INCREASE, {**BALANCED, "balancing-ignore-label": "pool"}),
    "parallel-scale-up": Setting(scene(two_groups(), boots=False), (ABSENT, True), p.PlanScaleUp, BALANCED),
    "expander": Setting(scene(wasteful_or_wide), (ABSENT, "most-pods"), INCREASE),
    "priorities": Setting(
        scene(wasteful_or_wide), ({"1": ["snug"]}, {"1": ["wide"]}), INCREASE, {"expander": "priority"}
    ),
    "startup-taint": Setting(scene(tainted), (ABSENT, "booting"), INCREASE),
    "ignore-taint": Setting(scene(tainted), (ABSENT, "booting"), INCREASE),
    "status-taint": Setting(scene(tainted), (ABSENT, "booting"), INCREASE),
    "foresight": Setting(foreseen, (ABSENT, "workloads"), INCREASE),
    "enable-proactive-scaleup": Setting(foreseen, (ABSENT, True), INCREASE),
    "pod-injection-limit": Setting(foreseen, (ABSENT, 2), INCREASE, {"foresight": "workloads"}),
    "quiet-window": Setting(scene(trickling), (ABSENT, "1s"), INCREASE),
    "burst-window": Setting(scene(trickling), (ABSENT, "4s"), INCREASE, {"quiet-window": "1s"}),
    "dry-run": Setting(scene(five_pods), (ABSENT, True), INCREASE),
    # What does not come.
    "initial-node-group-backoff-duration": Setting(scene(failing(5)), (ABSENT, "1m"), p.BackOffGroup),
    "max-node-group-backoff-duration": Setting(scene(failing(HOUR)), (ABSENT, "6m"), p.BackOffGroup),
    "node-group-backoff-reset-timeout": Setting(scene(failing_seldom), (ABSENT, "5h"), p.BackOffGroup),
    "max-node-provision-time": Setting(COMING, (ABSENT, "5m"), p.BackOffGroup),
    "force-delete-unregistered-nodes": Setting(COMING, (ABSENT, True), GONE),
    "force-delete-failed-nodes": Setting(scene(stillborn, boots=False), (ABSENT, True), GONE),
    "learnt-quota-half-life": Setting(scene(over_quota), (ABSENT, "10m"), INCREASE, STOPPED),
    "max-total-unready-percentage": Setting(scene(not_ready(5)), (ABSENT, 90), INCREASE),
    "ok-total-unready-count": Setting(scene(not_ready(5)), (ABSENT, 5), INCREASE),
    "max-node-startup-time": Setting(scene(not_ready(5)), (ABSENT, "2h"), p.ReportClusterStatus),
    # Nodes that nobody needs.
    "scale-down-enabled": Setting(scene(idle), (ABSENT, False), GONE),
    "scale-down-unneeded-time": Setting(scene(idle), (ABSENT, "1m"), GONE),
    "scale-down-delay-after-add": Setting(scene(idle_after_an_order), (ABSENT, "20m"), GONE),
    # Requests.
    "enable-provisioning-requests": Setting(scene(request()), (ABSENT, False), STATUS),
    "allowed-classes": Setting(scene(request()), (ABSENT, ATOMIC), STATUS),
    "check-capacity-processor-instance": Setting(scene(request()), (ABSENT, "another"), STATUS),
    "provisioning-request-initial-backoff-time": Setting(scene(request(nodes=0, until_s=HOUR)), (ABSENT, "2m"), TRIED),
    "provisioning-request-max-backoff-time": Setting(scene(request(nodes=0, until_s=HOUR)), (ABSENT, "3m"), TRIED),
    "check-capacity-batch-processing": Setting(scene(requests(12)), (ABSENT, True), TRIED),
    "check-capacity-provisioning-request-max-batch-size": Setting(
        scene(requests(12)), (ABSENT, 3), TRIED, {"check-capacity-batch-processing": True}
    ),
    "check-capacity-provisioning-request-batch-timebox": Setting(scene(requests(12)), (ABSENT, "1ms"), TRIED),
    "template-grace": Setting(scene(without_template), (ABSENT, "10s"), STATUS),
    "request-expiry": Setting(scene(request(nodes=0, until_s=DAY)), (ABSENT, "1h"), STATUS),
    "request-ttl": Setting(scene(request(until_s=DAY)), (ABSENT, "1h"), DeleteObject),
    "delete-controlled-requests": Setting(scene(controlled), (ABSENT, True), DeleteObject),
    "booking-duration": Setting(scene(request(until_s=HOUR)), (ABSENT, "20m"), p.ReleaseCapacity),
    "consumer-orphan-timeout": Setting(scene(orphan), (ABSENT, "5m"), INCREASE),
    "fair-share": Setting(scene(by_turns), (ABSENT, True), p.BookCapacity),
    "starvation-age": Setting(scene(starving), (ABSENT, "10m"), p.BookCapacity),
    "head-deadline": Setting(scene(passed_by), (ABSENT, "5m"), TRIED),
    # Buffers.
    "capacity-buffer-pod-injection-enabled": Setting(buffered(CHUNKS), (ABSENT, False), p.FillBuffer),
    "capacity-buffer-controller-enabled": Setting(buffered(CHUNKS), (ABSENT, False), STATUS),
    "capacity-buffer-pod-dry-run-enabled": Setting(buffered(CHUNKS), (ABSENT, False), p.ResolvePod),
    "buffer-max-chunks": Setting(buffered(CHUNKS), (ABSENT, 3), STATUS),
    "buffer-priority-class": Setting(buffered(CHUNKS, with_classes), (ABSENT, "low"), MADE, HOLD),
    "requests-use-buffers": Setting(buffered(CHUNKS, asks_for_its_room), (ABSENT, False), TRIED),
    "as-reference": Setting(buffered({"replicas": 4}), (ABSENT, True), STATUS),
    # Room that is held.
    "profile": Setting(scene(request()), ("compat", "hold"), MADE),
    "placeholders": Setting(scene(request()), (ABSENT, False), MADE, HOLD),
    "placeholder-image": Setting(scene(request()), (ABSENT, "mirror/pause:1"), MADE, HOLD),
    "placeholder-priority-class": Setting(scene(request()), (ABSENT, "low"), MADE, HOLD),
    "placeholder-limit": Setting(scene(request(nodes=3, pods=3)), (ABSENT, 1), MADE, HOLD),
    # What is told.
    "write-status-configmap": Setting(scene(five_pods), (ABSENT, False), p.ReportClusterStatus),
    "status-config-map-name": Setting(scene(five_pods), (ABSENT, "other"), p.ReportClusterStatus),
    "namespace": Setting(scene(five_pods), (ABSENT, "other"), p.ReportClusterStatus),
}  # fmt: skip


OF_DRAINS = frozenset(
    {
        "max-pod-eviction-time", "node-delete-delay-after-taint", "node-deletion-delay-timeout",
        "node-deletion-batcher-interval", "drain-priority-config",
    }
)  # fmt: skip
"""Settings of a removal under way: the tests of its steps try them."""


@pytest.mark.parametrize("key", sorted(set(KEYS) - OF_DRAINS))
def test_a_setting_changes_what_is_decided(key: str) -> None:
    matters(key, {**TRIED_SETTINGS, **TRIED_SCALE_DOWN})


@pytest.mark.parametrize(
    ("key", "bounds", "play"),
    [
        ("cores-total", "8:100", idle),
        ("memory-total", "32:100", idle),
        ("gpu-total", ["nvidia.com/gpu:2:9"], idle_gpus),
    ],
)
def test_a_lower_bound_changes_what_is_decided(key: str, bounds: Any, play: Play) -> None:
    matters(key, {key: Setting(scene(play), (ABSENT, bounds), GONE)})


def test_every_field_has_a_key_and_every_scene_a_setting() -> None:
    assert set(chain.from_iterable(KEYS.values())) == {
        field.name for field in msgspec.structs.fields(Settings)
    }
    assert unknown(KEYS, {**TRIED_SETTINGS, **TRIED_SCALE_DOWN}) == []


@pytest.mark.parametrize("flag", sorted(chain.from_iterable(WITHOUT_MEANING.values())))
def test_a_flag_without_meaning_here_is_said_to_be_one(flag: str) -> None:
    settings, warnings = read({flag: "1"})
    assert settings == Settings()
    (said,) = warnings
    assert said.startswith(f"{flag}: without meaning here, ")


def test_what_means_nothing_here_is_told_in_one_sentence_for_each_reason() -> None:
    cluster = Cluster(
        {
            "estimator": "5s",
            "scale-down-candidates-pool-ratio": "1",
            "scale-down-candidates-pool-min-count": 2,
        }
    )
    cluster.settle()
    (told,) = cluster.object_events("ConfigurationIgnored")
    assert told.message == (
        "estimator: without meaning here, here it is decided by events, exactly, and the host of services sees to "
        "the rest; scale-down-candidates-pool-min-count, scale-down-candidates-pool-ratio: without meaning here, the "
        "reference does not look at it any more either"
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("scale-down-utilization-threshold", 1.5, "expected a part of what is allocatable, from 0 to 1"),
        ("scale-down-unneeded-time", "-1m", "expected 0 or more"),
        ("max-drain-parallelism", -1, "expected 0 or more"),
        ("as-reference", "B16,B1", "expected true, false or some of B16"),
        ("drain-priority-config", "1:2:3", "expected priority:seconds"),
        ("drain-priority-config", "1:2,1:3", "a priority may stand there once"),
    ],
)
def test_a_setting_of_scale_down_that_cannot_be_keeps_its_default_and_says_what_may(
    key: str, value: Any, said: str
) -> None:
    settings, (warning,) = read({key: value})
    assert settings == Settings()
    assert warning.startswith(f"{key}={value!r}: {said}")


def test_groups_of_priorities_exclude_one_grace_period_for_all() -> None:
    settings, (warning,) = read(
        {"drain-priority-config": "0:60,1000:120", "max-graceful-termination-sec": 30}
    )
    assert [(level.priority, level.grace_s) for level in settings.drain_priorities] == [
        (0, 60.0),
        (1000, 120.0),
    ]
    assert settings.max_graceful_s == Settings().max_graceful_s
    assert warning.startswith("max-graceful-termination-sec=30: drain-priority-config says")


def test_the_ways_of_the_reference_are_taken_in_all_or_in_some() -> None:
    assert read({"as-reference": True})[0].as_reference == (*DIFFERENCES, *OF_BUFFERS)
    assert read({"as-reference": "B16,B21"})[0].as_reference == ("B16", "B21")
    assert read({"as-reference": "false"})[0].as_reference == ()


@pytest.mark.parametrize("text", ["nvidia.com/gpu", "nvidia.com/gpu:3:1", ":0:1", "nvidia.com/gpu:0:many"])
def test_bounds_of_devices_that_cannot_be_read_are_refused(text: str) -> None:
    settings, (said,) = read({"gpu-total": [text]})
    assert settings.gpu_limits == {}
    assert "expected TYPE:MIN:MAX with 0 <= MIN <= MAX; the default stays" in said


def test_bounds_of_several_devices_are_read_from_text_too() -> None:
    settings, warnings = read({"gpu-total": "nvidia.com/gpu:1:8,amd.com/gpu:0:4"})
    assert warnings == ()
    assert settings.gpu_floors == {"nvidia.com/gpu": 1, "amd.com/gpu": 0}
    assert settings.gpu_limits == {"nvidia.com/gpu": 8, "amd.com/gpu": 4}
