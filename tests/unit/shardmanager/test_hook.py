"""The slot label at admission."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tidewright.events.shards import ShardSetObserved
from tidewright.host.webhook.announce import Address
from tidewright.host.webhook.reviews import BadReview, read_review
from tidewright.shardmanager.labels.hook import announcement, labelled, labelling

SOURCE = {"group": "shop.io", "kind": "Policy", "key": "{namespace}/{name}", "selector": "app=shop"}
SPEC: dict[str, Any] = {
    "keyspace": {"slots": 64},
    "source": {"customResource": SOURCE},
    "workers": {
        "driver": "pods",
        "injector": "selector-flag",
        "template": {"name": "t", "container": "c"},
    },
    "handover": {"mode": "restart"},
}
LABEL = "shards.tidewright.dev/slot"


def the_set(**source: Any) -> Any:
    spec = {**SPEC, "source": {"customResource": {**SOURCE, **source}}}
    return labelled(ShardSetObserved(at=0.0, namespace="shop", name="orders", spec=spec))


def ask(
    one: Any, labels: dict[str, str], *, old: dict[str, str] | None = None, **metadata: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The operations and warnings for an object."""
    obj = {"metadata": {"name": "a", "labels": {"app": "shop", **labels}, **metadata}}
    request: dict[str, Any] = {"uid": "u", "operation": "CREATE", "namespace": "shop", "object": obj}
    if old is not None:
        request |= {"operation": "UPDATE", "oldObject": {"metadata": {"name": "a", "labels": old}}}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    said = msgspec.json.decode(labelling(read_review(msgspec.json.encode(body)), one))["response"]
    assert said["allowed"]
    patch = msgspec.json.decode(base64.b64decode(said["patch"])) if "patch" in said else []
    return patch, said.get("warnings", [])


def value(patch: list[dict[str, Any]]) -> str:
    assert patch[0]["path"] == "/metadata/labels/shards.tidewright.dev~1slot"
    return str(patch[0]["value"])


def test_a_new_object_gets_the_slot_of_its_key_and_a_child_that_of_its_parent() -> None:
    mine, _ = ask(the_set(), {})
    parent = {"kind": "Policy", "name": "a", "uid": "1", "controller": True}
    child, _ = ask(the_set(), {}, name="b", ownerReferences=[parent])
    assert value(mine) == value(child)
    assert 0 <= int(value(mine)) < 64
    other, _ = ask(the_set(), {}, name="b")
    assert value(other) != value(mine)


def test_without_any_labels_the_labels_themselves_are_made() -> None:
    body = {"metadata": {"name": "a"}}
    request = {"uid": "u", "operation": "CREATE", "namespace": "shop", "object": body}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    said = labelling(read_review(msgspec.json.encode(review)), the_set(selector=""))
    patch = msgspec.json.decode(base64.b64decode(msgspec.json.decode(said)["response"]["patch"]))
    assert patch[0]["path"] == "/metadata/labels"


def test_a_legal_label_of_a_user_is_respected_with_a_warning_and_an_illegal_one_replaced() -> None:
    of_key = value(ask(the_set(), {})[0])
    other = str((int(of_key) + 1) % 64)
    patch, warnings = ask(the_set(), {LABEL: other})
    assert patch == []
    assert f"respected; its key has slot {of_key}" in warnings[0]
    for wrong in ("64", "-1", "007", "x", ""):
        patch, warnings = ask(the_set(), {LABEL: wrong})
        assert value(patch) == of_key
        assert "expected a slot from 0 to 63" in warnings[0]


def test_an_update_does_not_move_an_object_to_another_worker() -> None:
    patch, warnings = ask(the_set(), {LABEL: "3"}, old={"app": "shop", LABEL: "5"})
    assert value(patch) == "5"
    assert "without a hand-over" in warnings[0]
    patch, _ = ask(the_set(), {}, old={"app": "shop", LABEL: "5"})
    assert value(patch) == "5"
    assert ask(the_set(), {LABEL: "5"}, old={"app": "shop", LABEL: "5"}) == ([], [])


def test_a_name_that_is_still_to_be_generated_has_no_slot_yet() -> None:
    assert ask(the_set(), {}, name="", generateName="a-") == ([], [])
    patch, _ = ask(the_set(), {LABEL: "99"}, name="", generateName="a-")
    assert patch[0]["op"] == "remove"


def test_objects_outside_the_selector_and_of_unknown_sets_are_left_alone() -> None:
    assert ask(the_set(selector="app=other"), {}) == ([], [])
    assert ask(None, {}) == ([], [])


def test_the_api_server_is_told_of_the_kind_and_the_namespace() -> None:
    made = announcement(Address("https://127.0.0.1:1"), [the_set()])
    hook = made.configurations[0]["webhooks"][0]
    assert hook["rules"][0]["resources"] == ["policies"]
    left_out, only = hook["namespaceSelector"]["matchExpressions"]
    assert only == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}
    assert {"kube-system", "tidewright"} <= set(left_out["values"])
    assert hook["failurePolicy"] == "Ignore"
    everywhere = announcement(Address("https://127.0.0.1:1"), [the_set(allNamespaces=True)])
    (only_left_out,) = everywhere.configurations[0]["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert only_left_out == left_out


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"kind": "AdmissionReview"}', b'{"request": {}, "kind": "x"}']
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(BadReview):
        read_review(body)


def test_sets_whose_workers_follow_by_themselves_label_nothing() -> None:
    spec = {"source": {"customResource": SOURCE}}
    assert labelled(ShardSetObserved(at=0.0, namespace="shop", name="orders", spec=spec)) is None
