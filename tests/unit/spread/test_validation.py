"""Rules about updates (V24), and words of errors that say nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.spread.cluster import spec
from tidewright.kube.customworkloads import Whitelist
from tidewright.kube.podapi.fielderrors import required
from tidewright.spread.api.validation import Surroundings, errors
from tidewright.spread.match.matching import NotFound

META: dict[str, Any] = {
    "name": "web",
    "namespace": "shop",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "resourceVersion": "7",
    "generation": 3,
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}


def unread(api_version: str, kind: str, name: str) -> Any:
    raise NotFound(name)


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({}, {}, []),
        ({}, {"uid": "other"}, ["metadata.uid"]),
        ({}, {"name": "other", "namespace": "other"}, ["metadata.name", "metadata.namespace"]),
        ({}, {"creationTimestamp": None}, ["metadata.creationTimestamp"]),
        ({}, {"resourceVersion": ""}, ["metadata.resourceVersion"]),
        ({}, {"generation": 2}, ["metadata.generation"]),
        ({"deletionTimestamp": "x"}, {"deletionTimestamp": "y"}, ["metadata.deletionTimestamp"]),
        ({"deletionTimestamp": "x"}, {"deletionTimestamp": "x", "finalizers": ["f/g"]}, ["metadata.finalizers"]),
        ({"deletionGracePeriodSeconds": 30}, {}, ["metadata.deletionGracePeriodSeconds"]),
        ({}, {"labels": {"a b": "x"}}, ["metadata.labels"]),
        ({}, {"annotations": {"A/b": "any text at all"}}, []),
        ({}, {"annotations": {"a b": "x"}}, ["metadata.annotations"]),
        ({}, {"annotations": {"a": "x" * (256 << 10)}}, ["metadata.annotations"]),
        ({}, {"ownerReferences": [OWNER]}, []),
        ({}, {"ownerReferences": [{**OWNER, "uid": "", "kind": ""}]}, ["metadata.ownerReferences.kind", "metadata.ownerReferences.uid"]),
        ({}, {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]}, ["metadata.ownerReferences.apiVersion"]),
        ({}, {"ownerReferences": [{**OWNER, "controller": True}] * 2}, ["metadata.ownerReferences"]),
    ],
)  # fmt: skip
def test_an_update_keeps_to_the_rules_about_metadata(
    before: dict[str, Any], after: dict[str, Any], fields: list[str]
) -> None:
    old = {"metadata": {**META, **before}, "spec": spec(1, None)}
    new = {"metadata": {**META, **after}, "spec": spec(1, None)}
    found = errors(new, Surroundings(Whitelist(), [], unread), old)
    assert [error.field for error in found] == fields


def test_an_error_without_a_detail_says_what_is_wrong_all_the_same() -> None:
    assert str(required("spec.image")) == "spec.image: Required value"
