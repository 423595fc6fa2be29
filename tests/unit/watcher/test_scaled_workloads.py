"""Kinds that are watched because an autoscaler scales them, for provisioning alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster, refusal
from tests.unit.watcher.test_service import WPAS, Tail, cluster, tail, watching, wpa_spec
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.facts import TemplateObserved, WorkloadGone, WorkloadObserved
from tidewright.events.spread import KindRefused, TargetReplicasObserved
from tidewright.kube.customworkloads import GroupKind
from tidewright.watcher.scaled_workloads import target_kind
from tidewright.watcher.workload_watch import Counts, counts_of

__all__ = ["cluster", "tail"]

GROUP, VERSION = "/apis/games.example.com", "/apis/games.example.com/v1"
FLEETS = f"{VERSION}/fleets"
KINDS = ("pod", "watermarkpodautoscaler", "workloadspread")
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}
SPREADS = "/apis/apps.kruise.io/v1alpha1/workloadspreads"
MAPS = "/api/v1/namespaces/ops/configmaps"
WHITELISTED = {
    "WorkloadSpread_Watch_Custom_Workload_WhiteList": msgspec.json.encode(
        {"workloads": [{"Group": "games.example.com", "Version": "v1", "Kind": "Fleet"}]}
    ).decode()
}
_E = TypeVar("_E", bound=Event)


def serve(cluster: Cluster, *, scale: bool = True) -> None:
    versions = [{"groupVersion": "games.example.com/v1", "version": "v1"}]
    cluster.answers[GROUP] = {"name": "games.example.com", "versions": versions}
    names = [("fleets", "Fleet"), *([("fleets/scale", "Scale")] if scale else [])]
    resources = [{"name": name, "kind": kind, "namespaced": True} for name, kind in names]
    cluster.answers[VERSION] = {"resources": resources}
    cluster.objects.setdefault(FLEETS, {})


async def fleet(cluster: Cluster, name: str, replicas: int) -> None:
    spec = {"replicas": replicas, "template": TEMPLATE}
    await cluster.put(FLEETS, "shop", name, spec=spec, status={"replicas": 1})


async def scaled(cluster: Cluster, name: str) -> None:
    """An autoscaler of some Fleet."""
    await cluster.put(WPAS, "shop", name, spec=wpa_spec("m", "Fleet", "games.example.com/v1"))


def token(subject: str) -> str:
    return subject.split(".")[4]


class Heard:
    """Events of one kind of subjects; the sampler tells of the scales of targets, too."""

    def __init__(self, tail: Tail, kind: str = "scaledworkload") -> None:
        self.tail, self.kind, self.looked = tail, kind, 0

    @property
    def all(self) -> list[Event]:
        known = zip(self.tail.events, self.tail.subjects, strict=True)
        return [event for event, subject in known if token(subject) == self.kind]

    async def until(self, kind: type[_E], holds: Callable[[_E], bool] = lambda _: True) -> _E:
        """The next one of a type that is as wanted."""
        while True:
            while self.looked < len(self.all):
                event = self.all[self.looked]
                self.looked += 1
                if isinstance(event, kind) and holds(event):
                    return event
            seen = len(self.tail.events)
            await self.tail.until(lambda _, seen=seen: len(self.tail.events) > seen)  # type: ignore[misc]  # bound now


def wants(name: str, replicas: int) -> Callable[[WorkloadObserved], bool]:
    return lambda fact: (fact.name, fact.replicas) == (name, replicas)


async def test_objects_of_a_kind_are_told_of_while_autoscalers_scale_some_by_one_watch(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    await fleet(cluster, "web", 3)
    await fleet(cluster, "other", 5)
    for number in range(20):
        await scaled(cluster, f"w{number}")
    heard, templates = Heard(tail), Heard(tail, "template")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        first = [await heard.until(WorkloadObserved) for _ in range(2)]
        assert {(fact.name, fact.replicas, fact.status_replicas) for fact in first} == {
            ("web", 3, 1),
            ("other", 5, 1),
        }
        said = await templates.until(TemplateObserved)
        assert {fact.template for fact in first} == {said.digest}
        await fleet(cluster, "web", 9)
        await heard.until(WorkloadObserved, lambda fact: fact.replicas == 9)
        assert cluster.requests.count(FLEETS) == 2  # a list, and a watch
        for number in range(1, 20):
            await cluster.drop(WPAS, "shop", f"w{number}")
        await fleet(cluster, "web", 10)
        await heard.until(WorkloadObserved, lambda fact: fact.replicas == 10)
        assert not any(isinstance(event, WorkloadGone) for event in heard.all)
        await cluster.drop(WPAS, "shop", "w0")
        gone = [await heard.until(WorkloadGone) for _ in range(2)]
        assert {(fact.name, fact.uid, fact.api_version) for fact in gone} == {
            (name, f"{name}-uid", "games.example.com/v1") for name in ("web", "other")
        }
        await scaled(cluster, "again")
        await heard.until(WorkloadObserved, wants("web", 10))


async def test_what_nobody_scales_any_longer_is_told_to_be_gone_by_the_next_watcher(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    heard = Heard(tail)
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(WorkloadObserved)
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await fleet(cluster, "web", 4)
        await heard.until(WorkloadObserved, lambda fact: fact.replicas == 4)
    assert not any(isinstance(event, WorkloadGone) for event in heard.all)
    await cluster.drop(WPAS, "shop", "w")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(WorkloadGone, lambda fact: fact.name == "web")


async def test_a_kind_that_may_not_be_read_is_told_with_the_rule_that_is_missing_and_others_go_on(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    await fleet(cluster, "web", 3)
    cluster.answers[FLEETS] = refusal(403, "Forbidden", "fleets is forbidden")
    await cluster.put(WPAS, "shop", "n", spec=wpa_spec("m", "Nothing", "none.example.com/v1"))
    await scaled(cluster, "w")
    # Not as of the kinds of spread's whitelist, of which alone spread is to know.
    heard, told = Heard(tail), {kind: Heard(tail, "scaledkindrefused") for kind in ("Fleet", "Nothing")}
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        refused = await told["Fleet"].until(KindRefused, lambda fact: fact.kind == "Fleet")
        rule = '{apiGroups: ["games.example.com"], resources: [fleets], verbs: [list, watch]}'
        assert "fleets is forbidden" in refused.error
        assert rule in refused.error
        nothing = await told["Nothing"].until(KindRefused, lambda fact: fact.kind == "Nothing")
        assert "no matches for kind" in nothing.error
        del cluster.answers[FLEETS]
        await told["Fleet"].until(KindRefused, lambda fact: fact.kind == "Fleet" and not fact.error)
        await heard.until(WorkloadObserved)
        await cluster.drop(WPAS, "shop", "n")
        await told["Nothing"].until(KindRefused, lambda fact: fact.kind == "Nothing" and not fact.error)


async def test_a_kind_without_a_scale_is_told_and_not_followed(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster, scale=False)
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        told = await Heard(tail, "scaledkindrefused").until(KindRefused)
    assert told.error == "it has no scale subresource"
    assert FLEETS not in cluster.requests


async def test_counts_that_stand_elsewhere_are_read_from_the_scale(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    await cluster.put(FLEETS, "shop", "web", spec={"size": 3, "template": TEMPLATE})
    cluster.answers[f"{VERSION}/namespaces/shop/fleets/web/scale"] = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=a"},
    }  # fmt: skip
    await scaled(cluster, "w")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        fact = await Heard(tail).until(WorkloadObserved)
    assert (fact.uid, fact.replicas, fact.status_replicas, bool(fact.template)) == ("web-uid", 3, 2, True)


async def served_with_a_whitelist(cluster: Cluster) -> dict[str, Any]:
    """A fleet that an autoscaler scales, where spread's whitelist may come; the options of a watcher that reads it."""
    serve(cluster)
    cluster.objects[MAPS] = {}
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    return {"kinds": KINDS, "whitelist_config_map": "ops/kruise-configuration"}


async def test_a_kind_that_spreads_whitelist_has_is_left_to_that_and_taken_up_again(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewright.watcher.scaled_workloads.WHITELIST_EVERY_S", 0.05)
    options = await served_with_a_whitelist(cluster)
    heard, spreads = Heard(tail), Heard(tail, "customworkload")
    async with watching(cluster, nats, tmp_path, **options):
        await heard.until(WorkloadObserved)
        await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
        await spreads.until(WorkloadObserved)
        replicas = 3
        while True:  # what is watched twice for a moment is told twice
            replicas += 1
            told = len(heard.all)
            await fleet(cluster, "web", replicas)
            await spreads.until(WorkloadObserved, wants("web", replicas))
            await asyncio.sleep(0.1)
            await fleet(cluster, "more", replicas)
            await spreads.until(WorkloadObserved, wants("more", replicas))
            if len(heard.all) == told:
                break
        await cluster.drop(MAPS, "ops", "kruise-configuration")
        await heard.until(WorkloadObserved, wants("web", replicas))
    assert not any(isinstance(event, WorkloadGone) for event in heard.all)


async def test_what_spread_tells_of_by_now_is_not_told_to_be_gone_when_nobody_scales_it_any_longer(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    options = await served_with_a_whitelist(cluster)
    heard, spreads = Heard(tail), Heard(tail, "customworkload")
    async with watching(cluster, nats, tmp_path, **options):
        await heard.until(WorkloadObserved)
    await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
    async with watching(cluster, nats, tmp_path, **options):
        await spreads.until(WorkloadObserved)
    await cluster.drop(WPAS, "shop", "w")
    refused = Heard(tail, "scaledkindrefused")
    async with watching(cluster, nats, tmp_path, **options):
        await cluster.put(WPAS, "shop", "n", spec=wpa_spec("m", "Nothing", "none.example.com/v1"))
        await refused.until(KindRefused, lambda fact: fact.kind == "Nothing")
    assert not any(isinstance(event, WorkloadGone) for event in heard.all)


async def test_what_goes_while_a_kind_is_handed_over_to_spreads_part_is_told_to_be_gone(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spread's part has never seen it; and what it has seen is its own to tell."""
    monkeypatch.setattr("tidewright.watcher.scaled_workloads.WHITELIST_EVERY_S", 0.05)
    options = await served_with_a_whitelist(cluster)
    await fleet(cluster, "other", 1)
    heard, spreads = Heard(tail), Heard(tail, "customworkload")
    async with watching(cluster, nats, tmp_path, **options):
        for _ in range(2):
            await heard.until(WorkloadObserved)
        cluster.answers[FLEETS] = lambda: refusal(503, "ServiceUnavailable", "not now")
        asked = cluster.requests.count(FLEETS)
        await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
        while cluster.requests.count(FLEETS) == asked:  # noqa: ASYNC110 - by spread's part
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        await cluster.drop(FLEETS, "shop", "web")
        del cluster.answers[FLEETS]
        assert (await heard.until(WorkloadGone)).name == "web"
        await spreads.until(WorkloadObserved, wants("other", 1))
        while True:  # followed by both until the other one has told of it
            told = len(heard.all)
            await fleet(cluster, "other", told)
            await spreads.until(WorkloadObserved, wants("other", told))
            await asyncio.sleep(0.1)
            if len(heard.all) == told:
                break
    assert [event.name for event in heard.all if isinstance(event, WorkloadGone)] == ["web"]


async def test_what_goes_while_a_kind_is_taken_over_from_spreads_part_is_told_to_be_gone(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    options = await served_with_a_whitelist(cluster)
    await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
    await fleet(cluster, "other", 1)
    heard, spreads = Heard(tail), Heard(tail, "customworkload")
    async with watching(cluster, nats, tmp_path, **options):
        for _ in range(2):
            await spreads.until(WorkloadObserved)
    await cluster.drop(MAPS, "ops", "kruise-configuration")
    await cluster.drop(FLEETS, "shop", "web")
    for _ in range(2):  # and told once
        async with watching(cluster, nats, tmp_path, **options):
            await fleet(cluster, "other", 2 + len(heard.all))
            await heard.until(WorkloadObserved, lambda fact: fact.name == "other" and fact.replicas > 1)
    (gone,) = [event for event in heard.all if isinstance(event, WorkloadGone)]
    assert (gone.namespace, gone.name, gone.uid, gone.kind) == ("shop", "web", "web-uid", "Fleet")


async def test_objects_of_a_kind_that_was_taken_away_meanwhile_are_told_to_be_gone(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    heard, refused = Heard(tail), Heard(tail, "scaledkindrefused")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(WorkloadObserved)
    del cluster.answers[GROUP], cluster.objects[FLEETS]
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await refused.until(KindRefused)
        gone = await heard.until(WorkloadGone)
    assert (gone.namespace, gone.name, gone.uid, gone.api_version) == (
        "shop", "web", "web-uid", "games.example.com/v1"
    )  # fmt: skip


async def test_a_kind_that_comes_soon_after_it_was_missed_is_followed(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long discovery holds that it is not there: that is for who asks at every sample."""
    monkeypatch.setattr("tidewright.watcher.workload_watch.AGAIN_S", 0.05)
    monkeypatch.setattr("tidewright.kube.discovery.FORGET_S", 3600.0)
    serve(cluster)
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    answers = {path: cluster.answers.pop(path) for path in (GROUP, VERSION)}
    objects = cluster.objects.pop(FLEETS)
    heard, told = Heard(tail), Heard(tail, "scaledkindrefused")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        assert "no matches for kind" in (await told.until(KindRefused)).error
        cluster.objects[FLEETS] = objects
        cluster.answers |= answers
        assert (await heard.until(WorkloadObserved)).name == "web"


@pytest.mark.parametrize("part", ["scaledworkload", "customworkload"])
async def test_a_kind_is_followed_in_another_version_once_its_own_is_served_no_longer(
    cluster: Cluster,
    nats: EmbeddedServer,
    tail: Tail,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
) -> None:
    monkeypatch.setattr("tidewright.watcher.workload_watch.AGAIN_S", 0.05)
    options = await served_with_a_whitelist(cluster)
    if part == "customworkload":
        await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
    heard = Heard(tail, part)
    async with watching(cluster, nats, tmp_path, **options):
        assert (await heard.until(WorkloadObserved)).api_version == "games.example.com/v1"
        cluster.answers[GROUP] = {"versions": [{"version": "v2"}]}
        cluster.answers[f"{GROUP}/v2"] = cluster.answers.pop(VERSION)
        cluster.objects[f"{GROUP}/v2/fleets"] = cluster.objects.pop(FLEETS)
        await cluster.forget()  # watches end
        assert (await heard.until(WorkloadObserved)).api_version == "games.example.com/v2"
        asked = cluster.requests.count(FLEETS)
        await cluster.put(f"{GROUP}/v2/fleets", "shop", "web", spec={"replicas": 8, "template": TEMPLATE})
        await heard.until(WorkloadObserved, lambda fact: fact.replicas in (8, -1))
        del cluster.answers[GROUP], cluster.answers[f"{GROUP}/v2"], cluster.objects[f"{GROUP}/v2/fleets"]
        await cluster.forget()
        assert (await heard.until(WorkloadGone)).name == "web"
    assert cluster.requests.count(FLEETS) == asked
    assert not [event for event in heard.all if isinstance(event, WorkloadGone) and event.name != "web"]


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_kind_that_the_whitelist_has_no_longer_is_refused_no_longer(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, meanwhile: bool
) -> None:
    """Nobody asks; and what autoscalers scale of it is another part's to tell."""
    options = await served_with_a_whitelist(cluster)
    await cluster.put(MAPS, "ops", "kruise-configuration", data=WHITELISTED)
    cluster.answers[FLEETS] = lambda: refusal(403, "Forbidden", "fleets is forbidden")
    whitelisted, scales = Heard(tail, "kindrefused"), Heard(tail, "scaledkindrefused")
    async with watching(cluster, nats, tmp_path, **options):
        assert "fleets is forbidden" in (await whitelisted.until(KindRefused)).error
        if not meanwhile:
            await cluster.drop(MAPS, "ops", "kruise-configuration")
            assert (await whitelisted.until(KindRefused)).error == ""
    if meanwhile:
        await cluster.drop(MAPS, "ops", "kruise-configuration")
    async with watching(cluster, nats, tmp_path, **options):
        if meanwhile:
            assert (await whitelisted.until(KindRefused)).error == ""
        told = await scales.until(KindRefused)
        assert (told.scaled, "fleets is forbidden" in told.error) == (True, True)
    assert not any(fact.scaled for fact in whitelisted.all if isinstance(fact, KindRefused))


async def test_replicas_at_paths_are_read_in_another_version_once_the_one_is_served_no_longer(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    serve(cluster)
    here, there = f"{VERSION}/namespaces/shop/fleets", f"{GROUP}/v2/namespaces/shop/fleets"
    cluster.objects[here], cluster.objects[SPREADS] = {}, {}
    await cluster.put(here, "shop", "web", spec={"size": 3})
    target = {"apiVersion": "games.example.com/v1", "kind": "Fleet", "name": "web"}
    paths = {"replicasPathList": ["spec.size"]}
    await cluster.put(SPREADS, "shop", "s", spec={"targetRef": target, "targetFilter": paths, "subsets": []})
    heard = Heard(tail, "targetreplicas")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(TargetReplicasObserved, lambda fact: fact.replicas == 3)
        cluster.answers[GROUP] = {"versions": [{"version": "v2"}]}
        cluster.answers[f"{GROUP}/v2"] = cluster.answers.pop(VERSION)
        cluster.objects[there] = cluster.objects.pop(here)
        await cluster.forget()  # watches end
        await cluster.put(there, "shop", "web", spec={"size": 4})
        await heard.until(TargetReplicasObserved, lambda fact: fact.replicas == 4)
        del cluster.objects[there], cluster.answers[GROUP], cluster.answers[f"{GROUP}/v2"]
        await cluster.forget()
        await heard.until(TargetReplicasObserved, lambda fact: "no matches for kind" in fact.error)


async def test_the_scale_of_a_target_is_read_in_another_version_once_its_own_is_served_no_longer(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the autoscaler it would be gone until the watcher is started again."""
    monkeypatch.setattr("tidewright.kube.discovery.FORGET_S", 0.0)
    serve(cluster)
    path = "namespaces/shop/fleets/web/scale"

    def scale(replicas: int) -> dict[str, Any]:
        return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": replicas}}

    cluster.answers[f"{VERSION}/{path}"] = scale(3)
    await scaled(cluster, "w")
    heard = Heard(tail, "workload")
    async with watching(cluster, nats, tmp_path, kinds=KINDS, metrics_interval_s=0.1):
        await heard.until(WorkloadObserved, lambda fact: fact.replicas == 3)
        cluster.answers[f"{GROUP}/v2"] = cluster.answers[VERSION]
        cluster.answers[f"{GROUP}/v2/{path}"] = scale(4)
        cluster.answers[GROUP] = {"versions": [{"version": "v2"}]}
        del cluster.answers[VERSION], cluster.answers[f"{VERSION}/{path}"]
        await heard.until(WorkloadObserved, lambda fact: fact.replicas == 4)
    assert not any(isinstance(event, WorkloadGone) for event in heard.all)


async def test_objects_that_are_not_where_discovery_has_them_are_told_of_once_and_looked_for_again(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewright.watcher.workload_watch.AGAIN_S", 0.05)
    serve(cluster)
    await fleet(cluster, "web", 3)
    await scaled(cluster, "w")
    heard, told = Heard(tail), Heard(tail, "scaledkindrefused")
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(WorkloadObserved)
        away = cluster.objects.pop(FLEETS)
        await cluster.forget()
        refused = await told.until(KindRefused)
        assert f"no {FLEETS}" in refused.error
        asked = cluster.requests.count(FLEETS)
        while cluster.requests.count(FLEETS) < asked + 3:  # noqa: ASYNC110 - the answers are of the test's server
            await asyncio.sleep(0.01)
        cluster.objects[FLEETS] = away
        await told.until(KindRefused, lambda fact: not fact.error)
        await fleet(cluster, "web", 4)
        await heard.until(WorkloadObserved, wants("web", 4))
    assert [fact.error for fact in told.all if isinstance(fact, KindRefused)] == [refused.error, ""]
    assert not any(isinstance(event, WorkloadGone) for event in heard.all)


async def test_a_scale_that_was_asked_for_before_says_nothing_of_an_object_that_counts_itself_by_now(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewright.watcher.scales.AGAIN_S", 0.05)
    serve(cluster)
    path = f"{VERSION}/namespaces/shop/fleets/web/scale"
    scale = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "app=a"},
    }  # fmt: skip
    cluster.answers[path] = scale
    await cluster.put(FLEETS, "shop", "web", spec={"size": 3, "template": TEMPLATE})
    await scaled(cluster, "w")
    heard = Heard(tail)
    async with watching(cluster, nats, tmp_path, kinds=KINDS):
        await heard.until(WorkloadObserved, wants("web", 3))
        cluster.answers[path] = lambda: refusal(503, "ServiceUnavailable", "not now")
        asked = cluster.requests.count(path)
        await cluster.put(FLEETS, "shop", "web", spec={"size": 4, "template": TEMPLATE})
        while cluster.requests.count(path) < asked + 3:  # noqa: ASYNC110 - the answers are of the test's server
            await asyncio.sleep(0.01)
        await fleet(cluster, "web", 9)
        await heard.until(WorkloadObserved, wants("web", 9))
        cluster.answers[path] = scale
        await asyncio.sleep(0.3)
        await fleet(cluster, "last", 1)
        await heard.until(WorkloadObserved, wants("last", 1))
    told = [event for event in heard.all if isinstance(event, WorkloadObserved)]
    assert [(fact.name, fact.replicas) for fact in told] == [("web", 3), ("web", 9), ("last", 1)]


@pytest.mark.parametrize(
    ("api_version", "kind", "followed"),
    [
        ("games.example.com/v1", "Fleet", GroupKind("games.example.com", "Fleet")),
        ("apps.kruise.io/v1beta1", "StatefulSet", GroupKind("apps.kruise.io", "StatefulSet")),
        *(
            (api_version, kind, None)
            for api_version, kind in (
                ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "ReplicaSet"),
                ("v1", "ReplicationController"), ("batch/v1", "Job"), ("apps.kruise.io/v1alpha1", "CloneSet"),
                ("a/b/c", "Odd"), ("v1", ""),
            )
        ),
    ],
)  # fmt: skip
def test_which_kinds_are_followed(api_version: str, kind: str, followed: GroupKind | None) -> None:
    fact = WatermarkPodAutoscalerObserved(
        at=1.0, namespace="shop", name="w", uid="u", spec=wpa_spec("m", kind, api_version)
    )
    assert target_kind(fact) == followed


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (b'{"spec":{"replicas":3},"status":{"replicas":2}}', Counts(3, 2)),
        (b'{"spec":{"replicas":0},"status":{}}', Counts(0, -1)),
        (b'{"spec":{"replicas":true},"status":{"replicas":"2"}}', Counts(-1, -1)),
        (b'{"spec":[],"status":{"replicas":2}}', Counts(-1, -1)),
        (b"{}", Counts(-1, -1)),
    ],
)
def test_counts_are_read_where_numbers_stand(text: bytes, counts: Counts) -> None:
    assert counts_of(text) == counts
