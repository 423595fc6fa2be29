"""Statuses that are applied: what is ours in them, and that nothing of others' is touched."""

from __future__ import annotations

import msgspec
import pytest

from tidewright.actuator import requests
from tidewright.actuator.requests import Mismatch
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import SetStatus

API = "autoscaling.x-k8s.io/v1"
ACCEPTED = {"type": "Accepted", "status": "True"}
THEIRS = {"type": "Approved", "status": "True"}


def effect(*conditions: JsonObject) -> SetStatus:
    target = ObjectRef(api_version=API, kind="ProvisioningRequest", namespace="ns", name="r", uid="u")
    return SetStatus(
        at=1.0, id="d.1", target=target, status={"conditions": list(conditions)}, stamp=("details", "by"),
        apply_as="cluster-autoscaler",
    )  # fmt: skip


def stored(*conditions: JsonObject, uid: str = "u", **more: object) -> JsonObject:
    return {
        "apiVersion": API,
        "metadata": {"uid": uid, "resourceVersion": "7"},
        "status": {"conditions": [*conditions], **more},
    }


def test_what_is_applied_is_ours_alone_and_of_this_object_as_it_was_seen() -> None:
    wanted = requests.stamped(effect(ACCEPTED))
    body = requests.apply_body(effect(ACCEPTED), wanted, stored(THEIRS))
    assert body is not None
    assert msgspec.json.decode(body) == {
        "apiVersion": API,
        "kind": "ProvisioningRequest",
        "metadata": {"namespace": "ns", "name": "r", "uid": "u", "resourceVersion": "7"},
        "status": {"conditions": [ACCEPTED], "details": {"by": "d.1"}},
    }


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (stored(THEIRS, {**ACCEPTED, "by": "them"}, details={"by": "d.1", "eta": "soon"}), True),
        (stored(ACCEPTED, details={"by": "d.0"}), False),
        (stored({**ACCEPTED, "status": "False"}, details={"by": "d.1"}), False),
        (stored(THEIRS, details={"by": "d.1"}), False),
        ({"apiVersion": API, "metadata": {"uid": "u"}}, False),
    ],
)
def test_a_status_that_holds_what_is_wanted_is_not_written_again(found: JsonObject, holds: bool) -> None:
    one = effect(ACCEPTED)
    assert (requests.apply_body(one, requests.stamped(one), found) is None) == holds


def test_another_object_of_the_name_is_left_alone() -> None:
    one = effect(ACCEPTED)
    with pytest.raises(Mismatch, match="another ProvisioningRequest of the same name"):
        requests.apply_body(one, requests.stamped(one), stored(uid="v"))
