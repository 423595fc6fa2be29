"""Strategic merge, as both of its users have it: the pods that spread patches, and the embedded API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidewright.kube.mergekeys import bare, strategy
from tidewright.kube.podapi import merging
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.sim.api.errors import ApiError
from tidewright.sim.api.kinds import schemas
from tidewright.sim.api.verbs import patch as verbs

Object = dict[str, Any]
Merge = Callable[[Object, Object], Object]
BOTH = pytest.mark.parametrize(
    "merge",
    [merging.merge, lambda pod, patch: verbs.strategic(pod, patch, "V1Pod")],
    ids=["pods of spread", "API server"],
)


def pod(*containers: Object, **spec: Any) -> Object:
    return {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": list(containers), **spec}}


def named(*names: str, **fields: Any) -> list[Object]:
    return [{"name": name, **fields} for name in names]


@BOTH
@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        # Lists merge by their key; a patch's elements are in its order, new ones first, and what was before one stays so.
        (
            {"containers": named("a", "b", "c")},
            {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]},
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c", "image": "i"}, {"name": "d"}]},
        ),
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 2}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 2}, {"containerPort": 1}]}]},
        ),
        # Others are replaced.
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": None, "b": "2"}}, {"nodeSelector": {"b": "2"}}),
        # $patch
        ({"volumes": named("a", "b")}, {"volumes": [{"name": "a", "$patch": "delete"}]}, {"volumes": named("b")}),
        (
            {"volumes": named("a", "b")},
            {"volumes": [{"$patch": "replace"}, {"name": "c"}]},
            {"volumes": named("c")},
        ),
        ({"affinity": {"podAffinity": {}}}, {"affinity": {"$patch": "delete"}}, {"affinity": {}}),
        (
            {"securityContext": {"runAsUser": 1, "fsGroup": 2}},
            {"securityContext": {"$patch": "replace", "runAsUser": 3}},
            {"securityContext": {"runAsUser": 3}},
        ),
        ({}, {"securityContext": {"$patch": "replace", "runAsUser": 3}}, {}),
        ({}, {"volumes": [{"name": "a", "$patch": "delete"}, {"name": "b", "emptyDir": None}]}, {"volumes": named("b")}),
        # $retainKeys
        (
            {"volumes": [{"name": "a", "emptyDir": {}}]},
            {"volumes": [{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}, "emptyDir": None}]},
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        ),
        # $setElementOrder
        (
            {"containers": named("a", "b", "c")},
            {"$setElementOrder/containers": named("c", "a")},
            {"containers": named("b", "c", "a")},
        ),
        (
            {"containers": named("a", "b")},
            {"$setElementOrder/containers": named("new", "b", "a"), "containers": [{"name": "new", "tty": True}]},
            {"containers": [{"name": "new", "tty": True}, {"name": "b"}, {"name": "a"}]},
        ),
        ({}, {"$setElementOrder/containers": named("a")}, {}),
    ],
)  # fmt: skip
def test_a_spec_is_merged(merge: Merge, before: Object, patch: Object, after: Object) -> None:
    given = {"spec": dict(before)}
    assert merge(given, {"spec": patch}) == {"spec": after}
    assert given == {"spec": before}


@BOTH
@pytest.mark.parametrize(
    ("change", "finalizers"),
    [
        ({"finalizers": ["c", "a"]}, ["c", "a", "b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}, ["b"]),
        ({"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"]),
        ({"finalizers": None}, None),
    ],
)
def test_a_set_of_scalars_is_merged(merge: Merge, change: Object, finalizers: list[str] | None) -> None:
    assert merge(pod(), {"metadata": change})["metadata"].get("finalizers") == finalizers


REFUSED: list[tuple[Object, str, int, str]] = [
    ({"affinity": {"$patch": "merge"}}, "valid are 'replace' and 'delete'", 500, "unknown patch type: merge in map: map[$patch:merge]"),
    ({"containers": [{"name": "a", "$patch": "add"}]}, "valid are 'replace' and 'delete'", 500, "unknown patch type: add in map"),
    ({"containers": [{"image": "i"}]}, "names no 'name', its merge key", 500, "map: map[image:i] does not contain declared merge key: name"),
    ({"containers": [{"$patch": "delete"}]}, "an element to delete names no 'name'", 500, "does not contain declared merge key: name"),
    ({"$retainKeys": ["containers"], "hostname": "h"}, "the patch also sets 'hostname'", 400, "invalid patch format of retainKeys"),
    ({"$retainKeys": "containers"}, "is no list", 400, "invalid patch format of retainKeys"),
    ({"$setElementOrder": []}, "names no field", 400, "invalid patch format of setElementOrder list"),
    ({"$deleteFromPrimitiveList": []}, "names no field", 400, "invalid patch format of primitive list"),
    ({"$setElementOrder/containers": "a"}, "orders a list", 500, "orders a list"),
    (
        {"$setElementOrder/containers": named("a", "b"), "containers": named("b", "a")},
        "not in the order of", 500, "not in the order of its $setElementOrder/containers",
    ),
    ({"containers": [["a"]]}, "holds lists", 422, "lists of lists are not supported"),
    ({"containers": ["a"]}, "mixes objects and scalars", 500, "mixes objects and scalars"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said", "code", "answered"), REFUSED)
def test_what_cannot_be_merged_is_refused_in_the_words_of_each(
    change: Object, said: str, code: int, answered: str
) -> None:
    before = pod({"name": "a"}, affinity={"podAffinity": {}})
    with pytest.raises(InvalidPatch) as refused:
        merging.merge(before, {"spec": change})
    assert said in str(refused.value)
    with pytest.raises(ApiError) as answer:
        verbs.strategic(before, {"spec": change}, "V1Pod")
    assert answer.value.code == code
    assert answered in str(answer.value)


@pytest.mark.parametrize(
    ("model", "before", "patch", "after"),
    [
        # By the type that a field belongs to, not by its name alone.
        ("V1Service", {"spec": {"ports": [{"port": 1}]}}, {"spec": {"ports": [{"port": 2}]}}, {"spec": {"ports": [{"port": 2}, {"port": 1}]}}),
        ("V1Node", {"spec": {"taints": [{"key": "a"}]}}, {"spec": {"taints": [{"key": "b"}]}}, {"spec": {"taints": [{"key": "b"}]}}),
        ("V1Node", {"spec": {"podCIDRs": ["a"]}}, {"spec": {"podCIDRs": ["b"]}}, {"spec": {"podCIDRs": ["b", "a"]}}),
        ("V1ServiceAccount", {"imagePullSecrets": named("a")}, {"imagePullSecrets": named("b")}, {"imagePullSecrets": named("b")}),
        ("V1ServiceAccount", {"secrets": named("a")}, {"secrets": named("b")}, {"secrets": named("b", "a")}),
        ("V1Endpoints", {"subsets": [{"addresses": [{"ip": "a"}]}]}, {"subsets": []}, {"subsets": []}),
        (
            "V1PodDisruptionBudget", {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"b": "2"}}}}, {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
        ),
        ("V1ConfigMap", {"data": {"a": "1"}}, {"data": {"b": "2"}}, {"data": {"a": "1", "b": "2"}}),
        (None, {"items": [1]}, {"items": [2]}, {"items": [2]}),
    ],
)  # fmt: skip
def test_other_kinds_merge_by_their_own_keys(
    model: str | None, before: Object, patch: Object, after: Object
) -> None:
    assert verbs.strategic(before, patch, model) == after


def test_what_the_documents_tell_kubectl_is_what_is_done() -> None:
    volumes = schemas.definition("V1PodSpec", "")["properties"]["volumes"]
    assert volumes["x-kubernetes-patch-merge-key"] == "name"
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    taints = schemas.definition("V1NodeSpec", "")["properties"]["taints"]
    assert not any(key.startswith("x-kubernetes-patch") for key in taints)
    selector = schemas.definition("V1PodDisruptionBudgetSpec", "")["properties"]["selector"]
    assert selector["x-kubernetes-patch-strategy"] == "replace"


def test_a_models_name_is_the_types_behind_its_version() -> None:
    names = (
        "V1PodSpec",
        "V2HorizontalPodAutoscalerStatus",
        "CoreV1Event",
        "V1beta1ResourceClaimStatus",
        "PodSpec",
    )
    assert [bare(name) for name in names] == [
        "PodSpec", "HorizontalPodAutoscalerStatus", "Event", "ResourceClaimStatus", "PodSpec",
    ]  # fmt: skip
    assert strategy("PodSpec", "tolerations").merge_key is None
