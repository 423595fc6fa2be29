"""Scales of custom workloads that a spread targets: read when the object changes, said in the fact about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.unit.watcher.cluster import Cluster, refusal
from tests.waiting import text_of, until
from tidewright.events.facts import ObjectFact, WorkloadObserved
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import GroupKind
from tidewright.kube.discovery import Resource
from tidewright.kube.projection.reading import Malformed
from tidewright.watcher import scales
from tidewright.watcher.scales import Scales
from tidewright.watcher.workload_watch import readable

KIND = GroupKind("games.example.com", "GameSet")
ARENA = ("shop", KIND, "arena")
PATH = "/apis/games.example.com/v1/namespaces/shop/gamesets/arena/scale"
PLACE = Resource("games.example.com", "v1", "gamesets", "GameSet", namespaced=True, scale=True)
FACT = WorkloadObserved(
    at=0, namespace="shop", name="arena", uid="u", api_version="games.example.com/v1", kind="GameSet", replicas=7,
    selector="of=the-template",
)  # fmt: skip


class Said:
    """What was said, and who waits for it."""

    def __init__(self) -> None:
        self.facts: list[WorkloadObserved] = []
        self._arrived = asyncio.Event()

    async def __call__(self, subject: str, fact: ObjectFact) -> None:
        assert subject == "subject"
        assert isinstance(fact, WorkloadObserved)
        self.facts.append(fact)

    async def until(self, wanted: Callable[[WorkloadObserved], bool]) -> None:
        await until(lambda: self.facts, lambda facts: any(map(wanted, facts)), what=text_of(wanted))


@asynccontextmanager
async def reading(cluster: Cluster, folder: Path, said: Said) -> AsyncIterator[Scales]:
    async with await Kube.connect(cluster.kubeconfig(folder)) as kube:
        made = Scales(kube, said)
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def answered(replicas: int, selector: str) -> dict[str, object]:
    return {
        "metadata": {"name": "arena", "namespace": "shop"},
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "selector": selector},
    }


async def test_the_scale_of_a_target_is_read_with_each_change_of_the_object(tmp_path: Path) -> None:
    said = Said()
    async with Cluster().serving() as cluster, reading(cluster, tmp_path, said) as made:
        cluster.answers[PATH] = answered(3, "game=arena")
        await made.observe(ARENA, "subject", PLACE, FACT)
        assert [(f.replicas, f.selector) for f in said.facts] == [(7, "")]  # nobody asked yet
        made.follow(frozenset((ARENA,)))
        await said.until(lambda f: (f.replicas, f.selector) == (3, "game=arena"))
        cluster.answers[PATH] = answered(5, "game=duel")
        await made.observe(ARENA, "subject", PLACE, FACT)
        await said.until(lambda f: (f.replicas, f.selector) == (5, "game=duel"))


async def test_without_a_scale_there_are_no_replicas_and_nothing_is_selected(tmp_path: Path) -> None:
    said = Said()
    async with Cluster().serving() as cluster, reading(cluster, tmp_path, said) as made:
        made.follow(frozenset((ARENA,)))
        await made.observe(ARENA, "subject", msgspec.structs.replace(PLACE, scale=False), FACT)
        assert [(f.replicas, f.selector) for f in said.facts] == [(-1, "")]
        said.facts.clear()
        cluster.answers[PATH] = refusal(404, "NotFound", "no scale")
        await made.observe(ARENA, "subject", PLACE, FACT)
        await said.until(lambda f: (f.replicas, f.selector) == (-1, ""))


async def test_a_scale_that_cannot_be_read_for_now_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scales, "AGAIN_S", 0.05)
    said = Said()
    async with Cluster().serving() as cluster, reading(cluster, tmp_path, said) as made:
        cluster.answers[PATH] = refusal(503, "ServiceUnavailable", "later")
        made.follow(frozenset((ARENA,)))
        await made.observe(ARENA, "subject", PLACE, FACT)
        await until(lambda: PATH in cluster.requests)
        assert said.facts == []
        cluster.answers[PATH] = answered(2, "")
        await said.until(lambda f: f.replicas == 2)


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        ({"replicas": 4}, 4),
        ({"replicas": "many"}, -1),
        ({"replicas": True}, -1),
        ({"replicas": {"min": 1}, "selector": "app=web", "template": []}, -1),
        ("anything", -1),
        (None, -1),
    ],
)
def test_an_owner_is_read_whatever_its_spec_looks_like(spec: object, replicas: int) -> None:
    owner = {"apiVersion": "x/v1", "kind": "Above", "name": "top", "uid": "t", "controller": True}
    metadata = {"name": "arena", "namespace": "shop", "uid": "u", "ownerReferences": [owner]}
    raw = msgspec.json.encode({"metadata": metadata, "spec": spec})
    fact = readable("games.example.com/v1", "GameSet")(raw).fact
    assert isinstance(fact, WorkloadObserved)
    assert (fact.uid, [o.name for o in fact.owners], fact.replicas) == ("u", ["top"], replicas)


def test_an_object_withoutreadable_metadata_is_none() -> None:
    with pytest.raises(Malformed):
        readable("games.example.com/v1", "GameSet")(b'{"metadata": 3}')
