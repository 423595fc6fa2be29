"""The model's answer to a case, under the names of `expected`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.vectors.reference.spread import admission, matching
from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.passes import Pass, Scene, reconcile
from tests.vectors.reference.spread.patching import about_space, applies, errors_of
from tests.vectors.reference.spread.pods import listed
from tests.vectors.reference.spread.status import status_of, to_json
from tests.vectors.reference.spread.ways import Ways
from tests.vectors.spread_cluster import UID, Cluster, validated
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import BUILT_IN, BadApiVersion, BadPath
from tidewright.kube.podapi.merging import merge_patch_of
from tidewright.kube.podapi.nodeterms import node_of
from tidewright.kube.selectors import SelectorError
from tidewright.kube.workloadspreads.inject import adoption_patch, with_rules
from tidewright.kube.workloadspreads.limits import NotALimit, percentage
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import Spread, parse
from tidewright.spread.api import validation
from tidewright.spread.match.matching import NotFound
from tidewright.spread.match.pods import pod_of

WORKLOADS_SPREAD = "test-workloadSpread"
"""The spread of the workload whose pod a case is about that says no more of it."""


class NotModelled(Exception):
    """The model knows nothing of such a case."""


def same_time(at: float) -> int:
    return int(at)


def status_json(status: Any) -> JsonObject:
    written = to_json(status, same_time)
    written.pop("observedGeneration", None)
    return written


def around(c: Cluster, ways: Ways) -> admission.Around:
    return admission.Around(c.whitelist, c.read, ways, c.versioned)


def pod_create(c: Cluster, event: Mapping[str, Any], ways: Ways) -> JsonObject:
    obj = c.pods[0]
    status = status_of(c.case.get("status"))
    answer: JsonObject = {"allowed": True, "subset": None, "patch": {}, "generatedUid": None}
    if event.get("dryRun"):
        return {**answer, "status": status_json(status)}
    try:
        spread = admission.spread_for(pod_of(obj), c.spreads, around(c, ways))
        created = admission.create(obj, spread, status, around(c, ways), UID)
    except admission.Refused as refused:
        after = refused.status if refused.status is not None else status
        recorded = UID in str(to_json(after, same_time))
        return {
            **answer,
            "allowed": False,
            "error": refused.reason,
            "status": status_json(after),
            "generatedUid": False if recorded else None,
            # The reference leaves the rules in its copy of a pod whose patch did not apply.
            "patch": {} if refused.subset is None else merge_patch_of(obj, with_rules(obj, refused.subset)),
        }
    return {
        **answer,
        "subset": created.subset,
        "patch": merge_patch_of(obj, created.pod),
        "status": status_json(created.status),
        "generatedUid": (created.subset is not None) if created.key else None,
    }


def pod_remove(c: Cluster, event: Mapping[str, Any], ways: Ways) -> JsonObject:
    obj = c.pods[0]
    status = status_of(c.case.get("status"))
    if event.get("dryRun"):
        return {"allowed": True, "status": status_json(status)}
    placement = pod_of(obj).placement
    named = next((s for s in c.spreads if placement is not None and s.name == placement.name), None)
    try:
        evicted = event["type"] == "admission.podEviction"
        after = admission.remove(obj, named, status, around(c, ways), evicted=evicted)
    except admission.Refused as refused:
        return {"allowed": False, "error": refused.reason, "status": status_json(status)}
    return {"allowed": True, "status": status_json(after)}


def one_pass(c: Cluster, _: Mapping[str, Any], ways: Ways) -> JsonObject:
    spread = c.spread
    target = spread.target
    nothing: JsonObject = {
        "status": c.case.get("status") or {},
        "conditions": {},
        "deletionCosts": {},
        "deletionCostWrites": [],
        "adoptions": {},
        "adoptionPatches": {},
        "deletedPods": [],
        "events": [],
        "requeueAfterSeconds": 0,
    }
    if target is None:
        return nothing
    try:
        view = _view(c, ways)
    except (NotFound, BadPath, SelectorError) as error:
        old = status_of(c.case.get("status")).subsets or ()
        answer: JsonObject = {
            **nothing,
            "error": "NotFound" if isinstance(error, NotFound) else "ReplicasPath",
            "conditions": {e.name: None if e.condition is None else str(e.condition.open) for e in old},
            "deletionCosts": {p["metadata"]["name"]: None for p in c.pods},
        }
        if isinstance(error, NotFound):  # asked for after pods are adopted
            adopted = _reconciled(c, _view(c, ways | {w.LAST_KNOWN}), ways).adopted
            answer = {**answer, "adoptions": adopted, "adoptionPatches": _patches(spread, adopted)}
        return answer
    done = _reconciled(c, view, ways)
    current = {p.name: p.cost for p in view.pods}
    answer = {
        **nothing,
        "status": status_json(done.status),
        "conditions": {
            e.name: None if e.condition is None else str(e.condition.open) for e in done.status.subsets or ()
        },
        "lastTransitionTimes": {
            e.name: None if e.condition is None else same_time(e.condition.at)
            for e in done.status.subsets or ()
        },
        "deletionCosts": {
            p.name: str(done.costs[p.name]) if p.name in done.costs else None for p in view.pods
        },
        "deletionCostWrites": sorted(p for p, cost in done.costs.items() if current[p] != str(cost)),
        "adoptions": done.adopted,
        "adoptionPatches": _patches(spread, done.adopted),
        "deletedPods": sorted(done.delete),
        "events": sorted(done.events),
        "requeueAfterSeconds": done.again_s,
    }
    if done.invalid:
        answer["fault"] = "index-out-of-range"
    return answer


def _view(c: Cluster, ways: Ways) -> matching.TargetView:
    """The target as a pass sees it. Raises what `matching.view` does."""
    pods = [listed(p) for p in c.pods]
    if "workloadReplicas" in c.case and c.workload is None:
        view = matching.TargetView(c.case["workloadReplicas"], c.case.get("latest", ""), tuple(pods))
    else:
        target = c.target(c.spread)
        view = matching.view(c.spread, target, c.replica_sets, pods, c.whitelist, c.versioned, ways)
    if "workloadReplicas" in c.case:
        view = msgspec.structs.replace(view, replicas=c.case["workloadReplicas"])
    if "latest" in c.case:
        view = msgspec.structs.replace(view, version=c.case["latest"])
    return view


def _reconciled(c: Cluster, view: matching.TargetView, ways: Ways) -> Pass:
    nodes = {n.name: n for n in map(node_of, c.case.get("nodes") or ())}
    objects = {p["metadata"]["name"]: p for p in c.pods}
    scene = Scene(c.spread, view, nodes, objects.__getitem__, 0.0, ways, c.versioned)
    return reconcile(scene, status_of(c.case.get("status")))


def _patches(spread: Spread, adopted: Mapping[str, str]) -> JsonObject:
    """What is written to adopted pods."""
    return {
        pod: adoption_patch(spread, subset)
        for pod, name in adopted.items()
        if (subset := spread.subset(name)) is not None
    }


def lookup_workload_version(c: Cluster, _: Mapping[str, Any], ways: Ways) -> JsonObject:
    assert c.workload is not None
    try:
        kind = c.workload["kind"]
        version = matching.workload_version(kind, c.workload, c.replica_sets, c.versioned, ways)
    except NotFound:
        return {"version": "", "error": "NotFound"}
    return {"version": version, "error": None}


def lookup_selected(c: Cluster, _: Mapping[str, Any], ways: Ways) -> JsonObject:
    """A filter without a selector selects no pod at admission, and all of them in the controller [Q-1]."""
    given = c.spread.target_filter
    if given is not None and given.selector is None and w.FILTER_WITHOUT_SELECTOR not in ways:
        return {"selected": False, "error": False}
    try:
        return {"selected": selected(given, pod_of(c.pods[0]).labels), "error": False}
    except SelectorError:
        return {"selected": False, "error": True}


def spread_admission(c: Cluster, event: Mapping[str, Any], ways: Ways) -> JsonObject:
    """A limit passes that becomes a number once every percent sign is taken off [Q-2]; all else is judged as by ours."""
    if c.case.get("featureGate") is False or "rawObject" in event:
        raise NotModelled
    obj: JsonObject = c.case["spread"]
    subsets: list[JsonObject] = obj["spec"].get("subsets") or []
    if w.LIMIT_NO_NUMBER not in ways:
        subsets = [_read_leniently(s) for s in subsets]
    workload = _with_template(c)
    if w.PATCH_SHAPE not in ways and workload is None:
        subsets = [s if applies(s.get("patch") or {}) else _without_patch(s) for s in subsets]
    obj = {**obj, "spec": {**obj["spec"], "subsets": subsets}}
    others = [parse(s) for s in event.get("others") or ()]
    if w.TARGET_SHARED not in ways:
        others = [msgspec.structs.replace(other, target_filter=None) for other in others]
    surroundings = validation.Surroundings(c.whitelist, others, c.read)
    found = validation.errors(obj, surroundings, event.get("old"))
    if w.IMAGE_TRIMMED not in ways:
        found = [error for error in found if not about_space(error)]
    if w.PATCH_ONCE not in ways and workload is not None:
        patches = {f"spec.subsets[{n}].patch": s["patch"] for n, s in enumerate(subsets) if s.get("patch")}
        found = [
            more
            for error in found
            for more in (
                [error] if error.field not in patches else errors_of(workload, patches[error.field], error)
            )
        ]
    return validated(found)


def _without_patch(subset: JsonObject) -> JsonObject:
    return {key: value for key, value in subset.items() if key != "patch"}


def _with_template(c: Cluster) -> JsonObject | None:
    """The workload, where it is there and of a kind that has a template of pods."""
    target = c.spread.target
    if target is None or target.kind not in {kind.kind for kind in BUILT_IN}:
        return None
    try:
        return c.read(target.api_version, target.kind, target.name)
    except (NotFound, BadApiVersion):
        return None


def _read_leniently(subset: JsonObject) -> JsonObject:
    limit = subset.get("maxReplicas")
    if not isinstance(limit, str):
        return subset
    try:
        return {**subset, "maxReplicas": f"{percentage(limit)}%"}
    except NotALimit:
        return subset


def trigger(c: Cluster, event: Mapping[str, Any], ways: Ways) -> JsonObject:
    """A pod's change wakes the spread that its annotation names, and only when it stops or gets another version [Q-10].

    Ours is woken by it as the spread of its workload, which the cases name as annotations do.
    """
    if event["object"].get("kind") != "Pod":
        raise NotModelled
    if w.EVERY_FACT_WAKES in ways:
        return {"enqueue": WORKLOADS_SPREAD}
    old, new, annotated = event.get("old") or {}, event.get("new") or {}, event["object"].get("annotation")
    if annotated is None:
        return {"enqueue": None}
    if event["action"] == "update":
        stopped = old.get("active", True) and not new.get("active", True)
        if not stopped and old.get("version") == new.get("version"):
            return {"enqueue": None}
    return {"enqueue": annotated.get("name")}


RUN: dict[str, Callable[[Cluster, Mapping[str, Any], Ways], JsonObject]] = {
    "admission.podCreate": pod_create,
    "admission.podDelete": pod_remove,
    "admission.podEviction": pod_remove,
    "admission.workloadSpread": spread_admission,
    "lookup.podSelected": lookup_selected,
    "lookup.workloadVersion": lookup_workload_version,
    "reconcile": one_pass,
    "trigger": trigger,
}
