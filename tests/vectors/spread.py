"""Adapter of `workload-spread*.json`: section 7 of `workload-spread.md`.

Each event type has one function that asks the product and gives what it concluded under the names of `expected`.

spread_world     a case's cluster as the decider sees it
spread_passes    one look of the decider at everything
spread_placing   requests about pods against the ledger
spread_wakes     what an event touches, and what the decider has read of a workload
spread_story     whole stories (`scenario`)
spread_cluster   the objects of a case, one at a time
spread_compare   what differs, by the conventions of the schema
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.vectors import spread_passes, spread_placing, spread_wakes
from tests.vectors.reference.spread.intended import intended, plain
from tests.vectors.spread_cluster import Cluster, validated
from tests.vectors.spread_compare import compare
from tests.vectors.spread_story import run_story
from tests.vectors.suite import Case, Result, Suite, Verdict
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import BadApiVersion, BadPath, replicas_at_paths
from tidewright.kube.podapi.nodeterms import node_of
from tidewright.kube.selectors import SelectorError
from tidewright.kube.workloadspreads import sharing
from tidewright.kube.workloadspreads.spec import BadSpread, parse
from tidewright.spread.api import validation
from tidewright.spread.control.adoption import fit
from tidewright.spread.match import matching
from tidewright.spread.match.matching import NotFound
from tidewright.spread.match.pods import pod_of, pod_version


def spread_admission(case: Case) -> JsonObject:
    c = Cluster(case)
    event = case["event"]
    if c.case.get("featureGate") is False:
        return {"allowed": False, "httpCode": 403, "errorFields": [], "errorCount": 0}
    try:
        if "rawObject" in event:
            obj = msgspec.json.decode(event["rawObject"])
        else:
            obj = c.case["spread"]
        around = validation.Surroundings(c.whitelist, [parse(s) for s in event.get("others") or ()], c.read)
        found = validation.errors(obj, around, event.get("old"))
    except (msgspec.DecodeError, BadSpread):
        return {"allowed": False, "httpCode": 400, "errorFields": [], "errorCount": 0}
    return validated(found)


def lookup_path(case: Case) -> JsonObject:
    c = Cluster(case)
    event = case["event"]
    try:
        return {"value": replicas_at_paths(c.case["workload"], event["paths"]), "error": False}
    except BadPath:
        return {"value": 0, "error": True}


def lookup_owner(case: Case) -> JsonObject:
    c = Cluster(case)
    target = c.spread.target
    assert target is not None
    try:
        return {
            "match": matching.owner_matches(target, pod_of(c.pods[0]).owner, c.whitelist, c.read),
            "error": None,
        }
    except NotFound:
        return {"match": False, "error": "NotFound"}
    except BadApiVersion:
        return {"match": False, "error": "parse"}


def lookup_selected(case: Case) -> JsonObject:
    c = Cluster(case)
    try:
        return {
            "selected": sharing.selected(c.spread.target_filter, pod_of(c.pods[0]).labels),
            "error": False,
        }
    except SelectorError:
        return {"selected": False, "error": True}


def lookup_pod_version(case: Case) -> JsonObject:
    c = Cluster(case)
    pod = pod_of(c.pods[0])
    return {"version": pod_version(pod.owner, pod.labels, c.versioned), "error": None}


def lookup_score(case: Case) -> JsonObject:
    c = Cluster(case)
    event = case["event"]
    subset = c.spread.subset(event["subset"])
    assert subset is not None
    score = fit(c.pods[0], node_of(c.case["nodes"][0]), subset, event["room"])
    return {"match": score is not None, "score": -1 if score is None else score}


def lookup_conflict(case: Case) -> JsonObject:
    c = Cluster(case)
    event = case["event"]
    others = [parse(s) for s in event["others"]]
    around = validation.Surroundings(c.whitelist, others, c.read)
    fields = [e.field for e in validation.errors(c.case["spread"], around)]
    return {"conflict": validation.conflict(c.spread, others) is not None, "errorFields": fields}


RUN: dict[str, Callable[[Case], JsonObject]] = {
    "admission.podCreate": spread_placing.create,
    "admission.podDelete": spread_placing.remove,
    "admission.podEviction": spread_placing.remove,
    "admission.workloadSpread": spread_admission,
    "lookup.replicas": spread_wakes.replicas,
    "lookup.replicasPath": lookup_path,
    "lookup.ownerMatch": lookup_owner,
    "lookup.podSelected": lookup_selected,
    "lookup.initialStatus": spread_wakes.initial,
    "lookup.podVersion": lookup_pod_version,
    "lookup.workloadVersion": spread_wakes.version,
    "lookup.matchScore": lookup_score,
    "lookup.conflict": lookup_conflict,
    "reconcile": spread_passes.looked_at,
    "trigger": spread_wakes.woken,
}


def run(case: Case) -> Result:
    """What ours answers is as expected, or explained by differences that are intended."""
    kind: str = case["event"]["type"]
    name = f"{case['id']} {case.get('name', '')}"
    if kind == "scenario":
        told = run_story(case)
        if told is None:
            return Result(name, kind, Verdict.NOT_COVERED)
        return Result(name, kind, Verdict.FAILED if told else Verdict.PASSED, tuple(told))
    if kind not in RUN:
        return Result(name, kind, Verdict.NOT_COVERED)
    answer = plain(RUN[kind](case))
    found = compare(case["expected"], answer)
    by = intended(case, answer) if found else ()
    if found and not by:
        return Result(name, kind, Verdict.FAILED, tuple(found))
    return Result(name, kind, Verdict.PASSED, intended=by)


def cases(content: Any) -> Sequence[Case] | None:
    """Recognise the schema: cases with an `event` of a known type."""
    found = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(found, list) or not found:
        return None
    for case in found:
        event = case.get("event") if isinstance(case, dict) else None
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str) or kind.partition(".")[0] not in {
            "admission",
            "lookup",
            "reconcile",
            "trigger",
            "scenario",
        }:
            return None
    return found


SUITE = Suite("workload spread", cases, run)
