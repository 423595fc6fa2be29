"""Extended resources that a DeviceClass stands for: from a device plugin where one offers them, else devices of the class."""

from __future__ import annotations

import pytest

from tests.unit.provisioning.claimworld import ATOMIC, CHECK, GPU, device, grown, offers, provisioned, told
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.kube import kinds

RESOURCE = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def stands(
    cluster: Cluster, name: str = "gpu", *, driver: str = GPU, resource: str = RESOURCE, born: int = 1
) -> None:
    """A device class that stands for an extended resource; born on that day of the month."""
    told(
        cluster, "DeviceClass", name,
        metadata={"creationTimestamp": f"2026-01-{born:02}T00:00:00Z"},
        spec={"extendedResourceName": resource, "selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    )  # fmt: skip


def asking(cluster: Cluster, resource: str = RESOURCE, amount: int = 1) -> None:
    """The template `worker`: a pod that asks for so much of a resource."""
    limits = {"cpu": "100m", resource: str(amount)}
    container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
    cluster.tell(
        p.PodTemplateObserved(
            at=cluster.now, namespace="ns", name="worker", template={"spec": {"containers": [container]}}
        )
    )


def fits(cluster: Cluster, name: str, pods: int) -> bool:
    cluster.request(name, CHECK, [("worker", pods)])
    cluster.settle()
    found = provisioned(cluster, name)
    cluster.delete_request(name)
    cluster.settle()
    return found


def room(cluster: Cluster) -> int:
    """The most pods that fit, of up to nine."""
    return max((pods for pods in range(1, 10) if fits(cluster, f"r{pods}", pods)), default=0)


@pytest.mark.parametrize("resource", [RESOURCE, IMPLICIT])
@pytest.mark.parametrize(("amount", "pods"), [(1, 6), (2, 2), (4, 0)])
def test_devices_of_the_class_are_had_in_its_place(resource: str, amount: int, pods: int) -> None:
    cluster = Cluster()
    stands(cluster)
    for node in ("a", "b"):
        cluster.add_node(node)
        offers(cluster, node, *(device(f"d{i}") for i in range(3)))
    cluster.add_node("without")
    asking(cluster, resource, amount)
    assert room(cluster) == pods


def test_where_a_device_plugin_offers_it_that_is_what_counts() -> None:
    cluster = Cluster()
    stands(cluster)
    cluster.add_node("plugin", "", **{RESOURCE: 2})
    cluster.add_node("devices")
    cluster.add_node("both", "", **{RESOURCE: 1})
    for node in ("devices", "both"):
        offers(cluster, node, *(device(f"d{i}") for i in range(3)))
    asking(cluster)
    assert room(cluster) == 2 + 3 + 1


def test_a_plugin_that_offers_none_leaves_it_to_the_devices() -> None:
    cluster = Cluster()
    stands(cluster)
    cluster.add_node("n", "", **{RESOURCE: 0})
    offers(cluster, "n", device("d0"))
    asking(cluster)
    assert room(cluster) == 1


def test_pods_that_run_have_their_resource_or_their_devices_once() -> None:
    cluster = Cluster()
    stands(cluster)
    cluster.add_node("plugin", "", **{RESOURCE: 2})
    cluster.add_node("devices")
    offers(cluster, "devices", *(device(f"d{i}") for i in range(3)))
    shape = cluster.shape({"cpu": 100, RESOURCE: 1})
    cluster.pod("p0", shape, node="plugin")
    cluster.pod("p1", shape, node="devices")
    results = [{"driver": GPU, "pool": "devices", "device": "d0"}]
    told(
        cluster,
        "ResourceClaim",
        "p1-extended-resources-x",
        "ns",
        status={"allocation": {"devices": {"results": results}}},
    )
    asking(cluster)
    assert room(cluster) == 1 + 2


def test_without_a_class_that_stands_for_it_nothing_but_a_plugin_helps() -> None:
    cluster = Cluster()
    cluster.add_node("n")
    offers(cluster, "n", device("d0"))
    asking(cluster)
    assert room(cluster) == 0
    stands(cluster)
    assert room(cluster) == 1
    stands(cluster, resource="example.com/other")
    assert room(cluster) == 0
    stands(cluster)
    assert room(cluster) == 1
    cluster.tell(PlacementObjectGone(at=cluster.now, name="gpu", kind="DeviceClass"))
    assert room(cluster) == 0


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [((2, "a"), (1, "b"), "a"), ((1, "a"), (2, "b"), "b"), ((1, "b"), (1, "a"), "a")],
)
def test_of_several_classes_the_youngest_stands_for_it(
    first: tuple[int, str], second: tuple[int, str], chosen: str
) -> None:
    cluster = Cluster()
    for born, name in (first, second):
        stands(cluster, name, driver=GPU if name == chosen else "other.example.com", born=born)
    cluster.add_node("n")
    offers(cluster, "n", device("d0"))
    asking(cluster)
    assert room(cluster) == 1


def test_a_group_grows_whose_template_has_the_devices_or_the_plugin() -> None:
    def ordered(**groups: str) -> dict[str, int]:
        cluster = Cluster()
        stands(cluster)
        for name, what in groups.items():
            cluster.add_group(name, more={RESOURCE: 2} if what == "plugin" else {})
            if what == "devices":
                of_group = cluster.groups[name]
                told_devices = tuple({"driver": GPU, **device(f"d{i}")} for i in range(2))
                of_group.template = p.TemplateNode(
                    allocatable=of_group.template.allocatable, devices=told_devices
                )
                cluster.observe_group(name)
        asking(cluster)
        cluster.request("r", ATOMIC, [("worker", 3)])
        cluster.settle()
        return grown(cluster)

    assert ordered(plain="", gpus="devices") == {"gpus": 2}
    assert ordered(plain="", gpus="plugin") == {"gpus": 2}
    assert ordered(plain="") == {}


def test_pending_pods_have_nodes_ordered_and_are_told_what_is_short() -> None:
    cluster = Cluster()
    stands(cluster)
    cluster.add_group("plain")
    cluster.pod("p", cluster.shape({"cpu": 100, RESOURCE: 1}))
    cluster.settle()
    (event,) = cluster.object_events("NotTriggerScaleUp")
    assert (
        "Insufficient devices of class gpu: request example.com/gpu asks for 1, 0 are free" in event.message
    )


def test_what_the_watcher_keeps_of_a_class_is_what_decides() -> None:
    raw = (
        b'{"metadata": {"name": "gpu", "creationTimestamp": "2026-01-01T00:00:00Z"},'
        b' "spec": {"extendedResourceName": "example.com/gpu"}}'
    )
    fact = kinds.BY_NAME["deviceclass"].project(raw).fact
    assert isinstance(fact, PlacementObjectObserved)
    assert fact.fields == {"extendedResourceName": RESOURCE, "created": "2026-01-01T00:00:00Z"}
