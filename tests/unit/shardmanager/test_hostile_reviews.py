"""Reviews of objects of any content are answered with their label, whatever their ShardSet says."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.mutations import encoded, mutated, own
from tests.hostile.objects import NS, OBJECTS
from tidewright.events import registry
from tidewright.events.base import JsonObject
from tidewright.events.shards import ShardSetObserved
from tidewright.host.webhook.announce import Address
from tidewright.host.webhook.reviews import BadReview, of_objects, read_review
from tidewright.kube.kinds import BY_NAME
from tidewright.kube.projection.reading import Malformed
from tidewright.shardmanager.labels.hook import Labelled, announcement, labelled, labelling

ORDER: JsonObject = {
    "apiVersion": "example.com/v1",
    "kind": "Order",
    "metadata": {
        "name": "o",
        "namespace": NS,
        "labels": {"a": "b", "shards.tidewright.dev/slot": "5"},
        "ownerReferences": [{"kind": "Order", "name": "p", "uid": "pu", "controller": True}],
    },
}


def labelling_set() -> JsonObject:
    found: JsonObject = own(OBJECTS["shardset"][0])
    found["spec"]["workers"]["injector"] = "selector-flag"
    found["spec"]["handover"] = {"mode": "restart"}
    found["spec"]["assignment"] = {"strategy": "sticky"}
    return found


def labelled_by(obj: JsonObject) -> Labelled | None:
    try:
        fact = BY_NAME["shardset"].project(encoded(obj)).fact
    except Malformed:
        return None
    read = registry.decode(registry.encode(fact))
    assert isinstance(read, ShardSetObserved)
    return labelled(read)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_a_review_of_any_content_is_answered(seed: int) -> None:
    chance = Random(seed)
    valid = labelled_by(labelling_set())
    assert valid is not None
    other = labelled_by(mutated(labelling_set(), chance))
    if other is not None:
        announcement(Address("https://labels"), [valid, other])
    request = {
        "uid": "u",
        "operation": chance.choice(("CREATE", "UPDATE", "DELETE")),
        "resource": {"group": "example.com", "version": "v1", "resource": "orders"},
        "namespace": NS,
        "object": mutated(ORDER, chance),
        "oldObject": chance.choice((None, ORDER, mutated(ORDER, chance))),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    for shard_set in (valid, other):
        with suppress(BadReview):
            labelling(of_objects(read_review(encoded(body))), shard_set)
