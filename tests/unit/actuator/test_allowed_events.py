"""Object events of provisioning about workloads of kinds that nobody has listed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewright.actuator.allowed.bounds import Refusal
from tidewright.actuator.allowed.judge import judge
from tidewright.actuator.options import Options
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import MOST_MESSAGES, RecordObjectEvent
from tidewright.log.subjects import ALL, Slot, Subjects
from tidewright.provisioning.fold.common import DID_NOT_COME, OF_WORKLOADS

TOLD = RecordObjectEvent(
    at=1.0,
    id="provisioning.all.7.0",
    target=ObjectRef(api_version="example.com/v1", kind="GameServerSet", namespace="ns", name="lobby"),
    event_type="Warning",
    reason=DID_NOT_COME,
    message="they have not come",
    component="cluster-autoscaler",
)


def judged(effect: RecordObjectEvent) -> Any:
    subjects = Subjects("c")
    target = effect.target
    subject = subjects.decision(ALL, "provisioning", target.kind.lower(), target.namespace, target.name)
    return judge(
        subjects.parse(subject), effect, Options(nats_url="", cluster="c").bounds, lambda _: Slot("1")
    )


@pytest.mark.parametrize("reason", sorted({DID_NOT_COME, *OF_WORKLOADS}))
def test_what_is_said_of_pods_that_are_expected_is_told_of_workloads_of_any_kind(reason: str) -> None:
    assert not isinstance(judged(msgspec.structs.replace(TOLD, reason=reason)), Refusal)


@pytest.mark.parametrize("other", [{"reason": "Killing"}, {"component": "kubelet"}])
def test_nothing_else_is(other: dict[str, str]) -> None:
    assert isinstance(judged(msgspec.structs.replace(TOLD, **other)), Refusal)


@pytest.mark.parametrize("kind", ["GameServerSet", "ConfigMap"])
def test_no_decision_asks_for_a_crowd_of_them(kind: str) -> None:
    """Who acts looks at each, and does nothing else meanwhile."""
    api_version = "v1" if kind == "ConfigMap" else TOLD.target.api_version
    target = msgspec.structs.replace(TOLD.target, kind=kind, api_version=api_version)
    for also, refused in ((MOST_MESSAGES - 1, False), (MOST_MESSAGES, True)):
        told = msgspec.structs.replace(TOLD, target=target, also=("again",) * also)
        assert isinstance(judged(told), Refusal) is refused
