"""Which classes are decided here: the list of allowed ones, and the presets of a ProvisioningClass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.test_explaining import standing
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.config import ConfigSet
from tidewright.provisioning.flags import read

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"


def asked(**config: Any) -> Cluster:
    """One request of each class, both of which fit."""
    cluster = Cluster(config)
    cluster.add_node("n0", cpu=8000)
    cluster.template("one", "1")
    cluster.request("check", CHECK, [("one", 1)])
    cluster.request("atomic", ATOMIC, [("one", 1)])
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("allowed", "decided"),
    [
        ([CHECK], ["check"]),
        (ATOMIC, ["atomic"]),
        (f"{CHECK}, {ATOMIC}", ["atomic", "check"]),
        ([], ["atomic", "check"]),
        (None, ["atomic", "check"]),
        (["other"], []),
    ],
)
def test_only_requests_of_allowed_classes_are_touched(allowed: Any, decided: list[str]) -> None:
    cluster = asked(**{"allowed-classes": allowed})
    assert sorted(cluster.statuses) == [f"ns/{name}" for name in decided]
    said = " ".join(str(decision) for decision in cluster.said)
    for name in {"check", "atomic"} - set(decided):
        assert f"uid-{name}" not in said


def test_a_request_is_taken_up_once_its_class_is_allowed_and_its_user_can_ask_why_not_before() -> None:
    cluster = asked(**{"allowed-classes": [CHECK]})
    assert standing(cluster, "provisioningrequest", "atomic") == (
        f"Its class {ATOMIC} is not decided here: allowed-classes are {CHECK}."
    )
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={"allowed-classes": [CHECK, ATOMIC]}))
    cluster.settle()
    assert cluster.conditions("atomic")["Provisioned"].status == "True"


def test_who_asks_about_a_class_of_others_or_with_requests_off_is_told_so() -> None:
    cluster = asked()
    cluster.request("mine", "mine.example.com", [("one", 1)])
    cluster.request("away", CHECK, [("one", 1)], {"processorInstance": "b"})
    cluster.settle()
    assert (
        standing(cluster, "provisioningrequest", "mine") == "Its class mine.example.com is not decided here."
    )
    assert "for processorInstance b is not decided here" in standing(cluster, "provisioningrequest", "away")
    off = asked(**{"enable-provisioning-requests": False})
    assert "enable-provisioning-requests is false" in standing(off, "provisioningrequest", "check")


@pytest.mark.parametrize("wrong", [{"a": 1}, 5, ["a", 3], True])
def test_a_list_that_is_none_leaves_the_default_and_is_told(wrong: Any) -> None:
    settings, warnings = read({"allowed-classes": wrong})
    assert settings.allowed_classes == ()
    (warning,) = warnings
    assert (
        warning == f"allowed-classes={wrong!r}: expected names, as a list or with commas; the default stays"
    )


def test_presets_of_a_class_hold_for_its_requests_unless_they_say_otherwise() -> None:
    cluster = Cluster()
    cluster.add_node("n0", cpu=8000)
    cluster.template("one", "1")
    preset = {"BookingSeconds": "30"}
    cluster.tell(p.ProvisioningClassObserved(at=cluster.now, name=CHECK, spec={"parameters": preset}))
    cluster.request("preset", CHECK, [("one", 1)])
    cluster.request("own", CHECK, [("one", 1)], {"BookingSeconds": "300"})
    cluster.settle()
    cluster.tell(p.ProvisioningClassGone(at=cluster.now, name=CHECK))
    cluster.advance(60)
    ended = {name: "BookingExpired" in cluster.conditions(name) for name in ("preset", "own")}
    assert ended == {"preset": True, "own": False}
    assert msgspec.json.decode(msgspec.json.encode(cluster.state.classes)) == {}
