"""Reviews of any content are answered, or refused as what no API server sends: no spread keeps the pods of others from being made."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.mutations import encoded, mutated
from tests.hostile.objects import NS, OBJECTS
from tests.unit.spread.cluster import new_pod
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.spread import ChangeLedger, LedgerRules, SubsetRule
from tidewright.host.webhook.reviews import BadReview, Review, answer, of_objects, read_review
from tidewright.kube.customworkloads import Whitelist
from tidewright.kube.jsonpatch import json_patch
from tidewright.kube.workloadspreads.spec import BadSpread, Spread, parse
from tidewright.spread.admission.endpoint import _read
from tidewright.spread.api import validation
from tidewright.spread.api.conversion import converted
from tidewright.spread.ledger import placing
from tidewright.spread.ledger.following import Followed
from tidewright.spread.ledger.placing import Request
from tidewright.spread.match.admit import Refused, spread_for
from tidewright.spread.match.matching import NotFound

SPREAD: JsonObject = OBJECTS["workloadspread"][0]
POD: JsonObject = {
    **new_pod(),
    "metadata": {
        **new_pod()["metadata"],
        "name": "web-1",
        "uid": "u",
        "annotations": {"apps.kruise.io/matched-workloadspread": '{"name":"web","subset":"a","uid":"x"}'},
    },
    "status": {"phase": "Running"},
}


def other(obj: JsonObject, chance: Random) -> JsonObject:
    for _ in range(chance.choice((0, 1, 1, 2))):
        obj = mutated(obj, chance)
    return obj


def reviewed(obj: Any, resource: str = "pods", operation: str = "CREATE", old: Any = None) -> Review | None:
    request = {
        "uid": "u",
        "operation": operation,
        "resource": {"group": "", "version": "v1", "resource": resource},
        "namespace": NS,
        "name": "n",
        "object": obj,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    try:
        review = read_review(encoded(body))
        return of_objects(review) if resource == "workloadspreads" else review
    except BadReview:
        return None


def reader(api_version: str, kind: str, name: str) -> JsonObject:
    if kind == "ReplicaSet":
        return OBJECTS["replicaset"][0]
    if kind == "Deployment":
        return OBJECTS["deployment"][0]
    raise NotFound(f"{api_version} {kind} {name}")


def read(review: Review) -> Spread | None:
    """The spread of a review, and all that is said of it."""
    assert review.obj is not None
    obj = {**review.obj, "metadata": {**(review.obj.get("metadata") or {}), "namespace": NS}}
    around = validation.Surroundings(Whitelist(), [parse(SPREAD)], reader)
    try:
        wrong = validation.errors(obj, around, review.old)
        spread = parse(obj)
    except BadSpread as error:
        answer(review, refused=str(error), code=400)
        return None
    answer(review, refused="; ".join(map(str, wrong)), warnings=validation.warnings(obj))
    return spread


@given(st.integers(0, 2**32))
@settings(max_examples=120)
def test_a_review_of_a_spread_of_any_content_is_answered(seed: int) -> None:
    chance = Random(seed)
    obj = other(SPREAD, chance)
    review = reviewed(obj, "workloadspreads", "UPDATE", other(SPREAD, chance))
    if review is not None and review.obj is not None:
        read(review)
    request = {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [obj]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    with suppress(BadReview):
        msgspec.json.decode(converted(encoded(body)))


@given(st.integers(0, 2**32))
@settings(max_examples=120)
def test_a_review_of_a_pod_of_any_content_is_answered_whatever_the_spread(seed: int) -> None:
    chance = Random(seed)
    of_spread, of_pod = reviewed(other(SPREAD, chance), "workloadspreads"), reviewed(other(POD, chance))
    spread = (read(of_spread) if of_spread is not None else None) or parse(SPREAD)
    if of_pod is None or of_pod.obj is None:
        return
    followed = Followed()
    target = ObjectRef(api_version="apps.kruise.io/v1alpha1", kind="WorkloadSpread", namespace=NS, name="web")
    rules = LedgerRules(subsets=(SubsetRule("a", 1), SubsetRule("b")), generation=1, replicas=3)
    followed.fold(ChangeLedger(at=1.0, target=target, rules=rules, counts={}))
    with suppress(Refused):
        pod = _read(of_pod.obj)
        spread_for(pod, [spread], Whitelist(), reader)
        placed = placing.created(followed.ledger, spread, of_pod.obj, request=Request("u", 1.0), pod=pod)
        answer(of_pod, patch=json_patch(of_pod.obj, placed.pod))
        placing.removed(followed.ledger, spread, of_pod.obj, Request("u", 1.0))
