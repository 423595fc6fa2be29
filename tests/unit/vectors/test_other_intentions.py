"""Passes of a propeller's manager, turns of requests and plans: what differs by intention passes by what it is, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.vectors import provisioning, provisioning_scaleup, shard_passes, shards
from tests.vectors.reference import propeller_pass as p
from tests.vectors.reference import tags
from tests.vectors.reference.switches import smallest
from tests.vectors.shard_configs import manager_of
from tests.vectors.suite import Case, Result, Verdict
from tidewright.kube.durations import format_duration
from tidewright.shardmanager.propeller.config_hash import accepted_hashes

_PRODUCT: dict[str, Any] = {
    "pod-application": "kozmopropeller", "pod-template-container-name": "kozmo", "pod-template-name": "template",
    "pod-template-namespace": "kozmo", "scan-interval": format_duration(10.0),
    "shard": {"type": "Hash", "shard-count": 1, "per-shard-mapping": None},
}  # fmt: skip
_GET, _LIST = ["get", "podtemplates", "kozmo", "template"], ["list", "pods", "kozmo", "app=kozmopropeller"]
_DELETE, _CREATE = (
    ["delete", "pods", "kozmo", "kozmopropeller-0"],
    ["create", "pods", "kozmo", "kozmopropeller-0"],
)


def scan(
    pods: list[dict[str, Any]], calls: list[list[str]], error: str | None = None, **injected: Any
) -> Case:
    """A pass over a fleet of one pod, with a template of version 10."""
    counted = {
        "pods_created": calls.count(_CREATE) - bool(injected.get("create_err")),
        "pods_deleted": sum(c[0] == "delete" for c in calls),
    }
    running = sum(
        pod["phase"] == "Running" and ["delete", "pods", "kozmo", pod["name"]] not in calls for pod in pods
    )
    expect = {
        "calls": [_GET, _LIST, *calls],
        "counters": counted,
        "error": error,
        "pods_running_gauge": None if "list_err" in injected else running,
    }
    given = {
        "shard": _PRODUCT["shard"],
        "template_resource_version": "10",
        "pods": pods,
        "injected": injected,
    }
    return {"id": "any", "title": "", "group": "scan", "given": given, "expect": expect}


def pod(
    name: str, version: str = "10", *, legacy: bool = False, made: bool = True, **more: Any
) -> dict[str, Any]:
    hashes = accepted_hashes(manager_of({"product_defaults": _PRODUCT}, _PRODUCT["shard"]).shard)
    annotations = {"podTemplateResourceVersion": version, "shardConfigHash": hashes[-1 if legacy else 0]}
    return {"name": name, "phase": "Running", "annotations": annotations if made else {}, **more}


SHOWN = {
    p.LEAVING: scan(
        [pod("kozmopropeller-0", "9", deleting=True)], [_DELETE, _CREATE], "\nfailed to create pod 'kozmopropeller-0' [taken]",
        create_err={"kozmopropeller-0": "taken"},
    ),
    p.FOREIGN: scan([pod("kozmopropeller-0"), pod("copy", made=False)], [["delete", "pods", "kozmo", "copy"]]),
    p.LEGACY_HASH: scan([pod("kozmopropeller-0", legacy=True)], [_DELETE, _CREATE]),
    p.LIST_FAILS: scan([], [], "no answer", list_err="no answer"),
}  # fmt: skip


def run(case: Case) -> Result:
    content = {
        "schema": "shard-manager-vectors/1",
        "defaults": {"product_defaults": _PRODUCT},
        "cases": [case],
    }
    (one,) = shards.SUITE.cases(content) or ()
    return shards.SUITE.run(one)


@pytest.mark.parametrize("tag", p.DIFFERENT)
def test_a_pass_passes_by_the_one_difference_that_it_shows(tag: str) -> None:
    result = run(SHOWN[tag])
    assert (result.verdict, result.intended) == (Verdict.PASSED, (tag,)), result.differences
    assert tag in tags()


@pytest.mark.parametrize("tag", p.DIFFERENT)
def test_a_pass_that_is_not_the_originals_is_no_intention(tag: str) -> None:
    counters = {"pods_created": 7, "pods_deleted": 0}
    wrong = {**SHOWN[tag], "expect": {**SHOWN[tag]["expect"], "counters": counters}}
    assert run(wrong).verdict is Verdict.FAILED


def test_another_pass_than_ours_is_no_intention() -> None:
    case = {**SHOWN[p.FOREIGN], "product_defaults": _PRODUCT, "native": False}
    ours = shard_passes.GROUPS["scan"](case["given"], {}, case)
    assert shard_passes.intended(case, case["expect"], ours) == (p.FOREIGN,)
    assert not shard_passes.intended(case, case["expect"], {**ours, "calls": [*ours["calls"], _DELETE]})


def turn(accepted_now: bool, **more: Any) -> Case:
    """A request that was accepted a minute ago and has its turn now, in a cluster without room."""
    before = [{"type": "Accepted", "status": "True", "ltt": -60}]
    request = {
        "name": "one", "class": "check-capacity.autoscaling.x-k8s.io",
        "podsets": [{"count": 2, "cpu": 1000, "memory": 100}], "conditions": before,
    }  # fmt: skip
    expected = {"pending_pods": 2, "injected_pods": 2, "accepted_now": {"one": accepted_now}, **more}
    return {
        "name": "any", "kind": "provreq-pickup", "requests": [request],
        "options": {"initial_backoff": 60, "max_backoff": 600}, "backoff": {}, "pending_pods": 0, "expected": expected,
    }  # fmt: skip


def test_a_request_that_was_accepted_before_stays_accepted_since() -> None:
    by = provisioning.run(turn(True))
    assert (by.verdict, by.intended) == (Verdict.PASSED, ("provreq-accepted-since",))
    assert (provisioning.run(turn(False)).verdict, provisioning.run(turn(False)).intended) == (
        Verdict.PASSED,
        (),
    )
    assert provisioning.run(turn(True, injected_pods=3)).verdict is Verdict.FAILED


def test_the_smallest_set_is_found_where_all_of_them_explain_and_only_there() -> None:
    assert smallest("abc", lambda ways: "b" in ways) == ("b",)
    assert smallest("abc", lambda ways: ways >= {"a", "c"}) == ("a", "c")
    assert smallest("abc", lambda ways: ways == {"b"}) == ()


def scale_up(pods: list[dict[str, Any]], expected: dict[str, Any], **options: Any) -> Case:
    """Two groups of a node each: of much processor, and of much memory; the first one is taken."""
    nodes = [
        {"name": "n1", "cpu": 2000, "memory": 100, "group": "ng1"},
        {"name": "n2", "cpu": 100, "memory": 2000, "group": "ng2"},
    ]
    return {
        "name": "any", "kind": "scale-up", "nodes": nodes, "node_groups": [], "pods": pods,
        "options": options, "choose": {"group": "ng1", "count": 1}, "expected": expected,
    }  # fmt: skip


def wants(name: str, node: str = "", **amounts: int) -> dict[str, Any]:
    return {"name": name, "cpu": 0, "memory": 0, **amounts, **({"node": node} if node else {})}


FULL = [wants("a", "n1", cpu=2000), wants("b", "n2", memory=2000)]
GOES_ON = scale_up([*FULL, wants("c", cpu=900), wants("d", memory=900)], {"scale_up": {"ng1": 1}})
"""The original waits with the second pod for its next loop, and ours orders for it as well."""
TOGETHER = scale_up([wants("c", cpu=900), wants("d", cpu=900)], {"scale_up": {"ng1": 1}})
"""Both have room on the node that is there, where the original's case does not look."""
ONE_BY_ONE = scale_up([wants("c", cpu=1900), wants("d", cpu=1900)], {"scale_up": {"ng1": 2}})
"""Each of them has room there, and not both; as the case does not look at that, it expects two."""


@pytest.mark.parametrize("case", [GOES_ON, TOGETHER])
def test_a_case_of_one_plan_passes_though_a_decider_does_more_or_less(case: Case) -> None:
    assert provisioning.run(case).verdict is Verdict.PASSED
    wrong = {**case, "expected": {"scale_up": {"ng1": 7}}}
    assert provisioning.run(wrong).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("case", "orders"),
    [
        (GOES_ON, {"ng1": 2, "ng2": 1}),
        (GOES_ON, {"ng1": 1, "ng2": 2}),
        (GOES_ON, {}),
        (TOGETHER, {"ng2": 1}),
        (ONE_BY_ONE, {}),
    ],
)
def test_a_decider_that_orders_anything_else_is_not_excused(
    monkeypatch: pytest.MonkeyPatch, case: Case, orders: dict[str, int]
) -> None:
    monkeypatch.setattr(provisioning_scaleup, "ordered", lambda _: orders)
    assert provisioning.run(case).verdict is Verdict.FAILED
