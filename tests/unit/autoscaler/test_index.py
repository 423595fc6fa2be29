"""The look-ups of a namespace find who is concerned, whatever the order in which things came."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.unit.autoscaler.world import NS, World, pod, sample, spec, workload, wpa
from tidewright.autoscaler.fold.index import NamespaceIndex


def bound(index: NamespaceIndex, name: str, selector: str | None) -> None:
    index.bind(name, target=f"apps/Deployment/{name}", queries=(f"external/{name}/",), selector=selector)


@pytest.mark.parametrize("selector", ["app=web", "app in (web,api)", "app", "", "app=web,tier!=db"])
def test_a_label_set_is_found_before_and_after_the_selector(selector: str) -> None:
    for group_first in (True, False):
        index = NamespaceIndex()
        if group_first:
            index.add_group("app=web", {"app": "web"})
        bound(index, "a", selector)
        if not group_first:
            index.add_group("app=web", {"app": "web"})
        assert index.watchers("app=web") == ("a",)
        assert index.selected("a") == (("app=web",), "")


def test_what_is_let_go_is_forgotten() -> None:
    index = NamespaceIndex()
    index.add_group("app=web", {"app": "web"})
    bound(index, "a", "app=web")
    bound(index, "b", "app=web")
    index.unbind("a")
    assert index.watchers("app=web") == ("b",)
    bound(index, "b", "app=api")
    assert index.watchers("app=web") == ()
    index.add_group("app=api", {"app": "api"})
    assert index.watchers("app=api") == ("b",)
    index.drop_group("app=api")
    assert index.selected("b") == ((), "")
    index.unbind("b")
    assert index.by_query == {}
    assert index.by_target == {}


def test_a_selector_that_cannot_be_read_selects_nothing_and_says_why() -> None:
    index = NamespaceIndex()
    index.add_group("app=web", {"app": "web"})
    bound(index, "a", "app in (web")
    keys, error = index.selected("a")
    assert keys == ()
    assert error


def test_facts_in_any_order_lead_to_the_same_decision() -> None:
    facts = [wpa(100), workload(100, 2), pod(100, "web-77-0"), pod(100, "web-77-1")]
    given = set()
    for order in permutations(facts):
        world = World()
        world.feed(*order)
        given.add(
            tuple((type(d).__name__, getattr(d, "replicas", None)) for d in world.feed(sample(101, 40_000)))
        )
    assert len(given) == 1
    assert ("ScaleWorkload", 3) in given.pop()


def test_a_pod_that_changes_its_labels_leaves_the_target() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(pod(101, "web-77-0", labels={"app": "debug"}))
    namespace = world.fold.state.namespaces[NS]
    assert sorted(namespace.groups) == ["app=debug", "app=web"]
    world.feed(sample(102, 7_000))
    assert world.object().kept.utilizations == (7_000,)  # divided by the one pod that is left


def test_pods_of_another_owner_do_not_count() -> None:
    world = World()
    world.feed(wpa(100, spec=spec()), workload(100, 2), pod(100, "a"), pod(100, "b", owners=()))
    world.feed(sample(102, 7_000))
    assert world.object().kept.utilizations == (7_000,)
