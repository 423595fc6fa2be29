"""Every setting of spread changes what is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.settings.trying import ABSENT, Setting, matters, unknown
from tests.unit.spread.cluster import HASH, NAMESPACE, SPREAD, deployment, spec, spread_fact
from tests.unit.spread.test_decide import START, Fold, placed
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import EvictPod, PatchObject, RecordObjectEvent, SetStatus
from tidewright.events.facts import PodGone, WorkloadObserved
from tidewright.events.spread import ChangeLedger, KindRefused, PodLeaving, PodPlaced, WorkloadSpreadGone
from tidewright.spread.state import Settings

Scene = Callable[[JsonObject], list[Decision]]
GAME = {"apiVersion": "games.example.com/v1", "kind": "GameSet", "name": "arena"}
WHITELIST = msgspec.json.encode(
    {
        "workloads": [
            {
                "Group": "games.example.com",
                "Kind": "GameSet",
                "subResources": [{"Group": "games.example.com", "Kind": "Game"}],
            }
        ]
    }
).decode()


def scene(*events: Event, limits: tuple[int | str | None, ...] = (3, None), until_s: float = 0.0) -> Scene:
    """A spread of a Deployment with two pods, what happens then, and time that passes."""

    def told(config: JsonObject) -> list[Decision]:
        fold = Fold(ConfigSet(at=0, name="spread", data=config), spread_fact(spec(*limits)), *deployment(2))
        said = [decision for event in events for decision in fold.see(msgspec.structs.replace(event))]
        return said + fold.pass_time(START + until_s)

    return told


def counting(config: JsonObject) -> list[Decision]:
    """Pods that come half a second apart."""
    fold = Fold(ConfigSet(at=0, name="spread", data=config), spread_fact(spec(9, None)), *deployment(9))
    said: list[Decision] = []
    for number in range(6):
        said += fold.pass_time(START + number * 0.5)
        said += fold.see(placed("a", number), START + number * 0.5)
    return said


def of_a_set(config: JsonObject) -> list[Decision]:
    """A pod of a CloneSet with a revision."""
    given = spec(3, None)
    given["targetRef"] = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
    target = WorkloadObserved(
        at=0, namespace=NAMESPACE, kind="CloneSet", name="web", uid="c", api_version="apps.kruise.io/v1alpha1",
        replicas=2, revision="web-7",
    )  # fmt: skip
    fold = Fold(ConfigSet(at=0, name="spread", data=config), spread_fact(given), target)
    pod = placed("a", 0)
    owner = msgspec.structs.replace(
        pod.owners[0], kind="CloneSet", name="web", uid="c", api_version="apps.kruise.io/v1alpha1"
    )
    labels = {**pod.labels, "controller-revision-hash": "web-7", "pod-template-hash": "7"}
    return fold.see(msgspec.structs.replace(pod, owners=(owner,), labels=labels))


def of_a_game(config: JsonObject) -> list[Decision]:
    """A spread of a custom workload, the parts of which may not be read."""
    given = spec(3, None)
    given["targetRef"] = GAME
    fold = Fold(ConfigSet(at=0, name="spread", data=config), spread_fact(given))
    group = "games.example.com"
    return fold.see(KindRefused(at=0, name=f"Game.{group}", group=group, kind="Game", error="forbidden"))


PLACED: dict[str, Any] = {
    "at": 0.0, "namespace": NAMESPACE, "name": SPREAD, "key": "web-0", "request": "r0", "version": HASH,
    "spread": "ws", "subset": "a", "pod": "web-0",
}  # fmt: skip
NEVER_SEEN = (PodPlaced(**PLACED),)
REFUSED = (
    placed("a", 0),
    PodLeaving(at=0, namespace=NAMESPACE, name=SPREAD, key="uid-web-0", request="r1", version=HASH, pod="web-0", subset="a"),
)  # fmt: skip
ROOM_AGAIN = (
    placed("a", 0),
    placed("b", 1),
    PodGone(at=0, namespace=NAMESPACE, name="web-0", uid="uid-web-0"),
)
DELETED = (placed("a", 0), WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD, uid="ws"))

TRIED: dict[str, Setting] = {
    "unseenBoundSeconds": Setting(scene(*NEVER_SEEN, until_s=30), (ABSENT, 60.0), ChangeLedger),
    "leavingBoundSeconds": Setting(scene(*REFUSED, until_s=30), (ABSENT, 60.0), ChangeLedger),
    "statusEverySeconds": Setting(counting, (ABSENT, 0.0), SetStatus),
    "versionedKinds": Setting(of_a_set, (ABSENT, ["CloneSet"]), ChangeLedger),
    "cleanUpDeleted": Setting(scene(*DELETED), (ABSENT, True), PatchObject),
    "bringBackSeconds": Setting(scene(*ROOM_AGAIN, limits=(1, None), until_s=60), (ABSENT, 5.0), EvictPod),
    "whitelist": Setting(of_a_game, (ABSENT, WHITELIST), RecordObjectEvent),
}
KEYS = [field.encode_name for field in msgspec.structs.fields(Settings)]


@pytest.mark.parametrize("key", KEYS)
def test_a_setting_changes_what_is_decided(key: str) -> None:
    matters(key, TRIED)


def test_every_scene_is_of_a_setting() -> None:
    assert unknown(KEYS, TRIED) == []
