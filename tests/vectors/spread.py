"""Adapter of `workload-spread*.json`: section 7 of `workload-spread.md`, run in the strict profile.

Each event type has one function that feeds the case to the service's own functions and gives what
they concluded under the names of `expected`. Stories (`scenario`) are in `spread_story`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.spread_story import run_story
from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import (
    BadApiVersion,
    BadPath,
    Whitelist,
    group_version,
    replicas_at_paths,
    whitelist_of,
)
from tidewright.kube.selectors import SelectorError
from tidewright.spread import admit, matching, validation
from tidewright.spread.adoption import fit
from tidewright.spread.inject import adoption_patch, with_rules
from tidewright.spread.matching import NotFound
from tidewright.spread.nodeterms import node_of
from tidewright.spread.podjson import merge_patch_of
from tidewright.spread.pods import VERSIONED_KINDS, Owner, Placement, pod_of, pod_version
from tidewright.spread.reconcile import reconcile
from tidewright.spread.spec import BadSpread, Spread, parse
from tidewright.spread.status import entry_json, initial_entries, status_of, to_json
from tidewright.spread.triggers import woken_by_pod, woken_by_workload

UID = "fresh-uid"
UID_PLACEHOLDER = "<uid>"


class Cluster:
    """The objects of a case, and its settings."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pods: list[JsonObject] = list(case.get("pods") or ())
        self.workload: JsonObject | None = case.get("workload")
        self.replica_sets: list[JsonObject] = [
            o
            for o in (*(case.get("replicaSets") or ()), *(case.get("objects") or ()))
            if o.get("kind") == "ReplicaSet"
        ]
        if self.workload is not None and not (self.workload.get("metadata") or {}).get("uid"):
            self._own_pods()
        found = [self.workload] if self.workload else []
        self.objects: list[JsonObject] = [
            *found,
            *(case.get("replicaSets") or ()),
            *(case.get("objects") or ()),
        ]
        kinds = case.get("versionedKinds")
        self.versioned = VERSIONED_KINDS if kinds is None else frozenset(kinds)
        self.whitelist: Whitelist = whitelist_of(
            msgspec.json.encode({"workloads": case.get("whiteList") or []}).decode()
        )

    def _own_pods(self) -> None:
        """An owner uid that the case omits does not matter: give it to the workload."""
        assert self.workload is not None
        meta = self.workload.get("metadata") or {}
        uid = next(
            (
                o.get("uid") or ""
                for p in self.pods
                for o in (p.get("metadata") or {}).get("ownerReferences") or ()
                if (o.get("kind"), o.get("name")) == (self.workload.get("kind"), meta.get("name"))
            ),
            "",
        )
        self.workload = {**self.workload, "metadata": {**meta, "uid": uid}}

    def read(self, api_version: str, kind: str, name: str) -> JsonObject:
        group, _ = group_version(api_version)
        for obj in self.objects:
            meta = obj.get("metadata") or {}
            same = group_version(obj.get("apiVersion") or "")[0] == group
            if same and obj.get("kind") == kind and meta.get("name") == name:
                return obj
        raise NotFound(f"{kind} {name}")

    def target(self, spread: Spread) -> JsonObject | None:
        assert spread.target is not None
        try:
            return self.read(spread.target.api_version, spread.target.kind, spread.target.name)
        except NotFound:
            return None

    @property
    def spread(self) -> Spread:
        return parse(self.case["spread"])

    @property
    def spreads(self) -> list[Spread]:
        given = self.case.get("spreads") or ([self.case["spread"]] if "spread" in self.case else [])
        return [parse(s) for s in given]


def same_time(at: float) -> int:
    return int(at)


def status_json(status: Any) -> JsonObject:
    written = to_json(status, same_time)
    written.pop("observedGeneration", None)
    return written


def pod_create(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    obj = c.pods[0]
    status = status_of(c.case.get("status"))
    answer: JsonObject = {"allowed": True, "subset": None, "patch": {}, "generatedUid": None}
    if event.get("dryRun"):
        return {**answer, "status": status_json(status)}
    try:
        spread = admit.spread_for(pod_of(obj), c.spreads, c.whitelist, c.read)
        made = admit.create(obj, spread, status, c.whitelist, c.read, 0.0, UID, versioned_kinds=c.versioned)
    except admit.Refused as refused:
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
        "subset": made.subset,
        "patch": merge_patch_of(obj, made.pod),
        "status": status_json(made.status),
        "generatedUid": (made.subset is not None) if made.key else None,
    }


def pod_remove(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    obj = c.pods[0]
    status = status_of(c.case.get("status"))
    if event.get("dryRun"):
        return {"allowed": True, "status": status_json(status)}
    placement = pod_of(obj).placement
    named = next((s for s in c.spreads if placement is not None and s.name == placement.name), None)
    try:
        after = admit.remove(obj, named, status, c.whitelist, c.read, 0.0, versioned_kinds=c.versioned)
    except admit.Refused as refused:
        return {"allowed": False, "error": refused.reason, "status": status_json(status)}
    return {"allowed": True, "status": status_json(after)}


def spread_admission(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
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
    return {
        "allowed": not found,
        "httpCode": 400 if found else 200,
        "errorCount": len(found),
        "errorFields": [e.field for e in found],
        "errors": [{"field": e.field, "type": e.type} for e in found],
    }


def lookup_replicas(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
    return {"replicas": matching.replicas_at_admission(c.spread, c.whitelist, c.read)}


def lookup_path(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    try:
        return {"value": replicas_at_paths(c.case["workload"], event["paths"]), "error": False}
    except BadPath:
        return {"value": 0, "error": True}


def lookup_owner(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
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


def lookup_selected(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
    try:
        return {
            "selected": matching.selected(c.spread.target_filter, pod_of(c.pods[0]).labels),
            "error": False,
        }
    except SelectorError:
        return {"selected": False, "error": True}


def lookup_initial(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
    replicas = matching.replicas_at_admission(c.spread, c.whitelist, c.read)
    return {"status": [entry_json(e, same_time) for e in initial_entries(c.spread.subsets, replicas)]}


def lookup_pod_version(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
    pod = pod_of(c.pods[0])
    return {"version": pod_version(pod.owner, pod.labels, c.versioned), "error": None}


def lookup_workload_version(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
    assert c.workload is not None
    try:
        kind = c.workload["kind"]
        version = matching.workload_version(kind, c.workload, c.replica_sets, c.versioned)
    except NotFound:
        return {"version": "", "error": "NotFound"}
    return {"version": version, "error": None}


def lookup_score(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    subset = c.spread.subset(event["subset"])
    assert subset is not None
    score = fit(c.pods[0], node_of(c.case["nodes"][0]), subset, event["room"])
    return {"match": score is not None, "score": -1 if score is None else score}


def lookup_conflict(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    others = [parse(s) for s in event["others"]]
    around = validation.Surroundings(c.whitelist, others, c.read)
    fields = [e.field for e in validation.errors(c.case["spread"], around)]
    return {"conflict": validation.conflict(c.spread, others) is not None, "errorFields": fields}


def one_pass(c: Cluster, _: Mapping[str, Any]) -> JsonObject:
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
        pods = [pod_of(p) for p in c.pods]
        if "workloadReplicas" in c.case and c.workload is None:
            view = matching.TargetView(c.case["workloadReplicas"], c.case.get("latest", ""), tuple(pods))
        else:
            view = matching.view(spread, c.target(spread), c.replica_sets, pods, c.whitelist, c.versioned)
    except (NotFound, BadPath, SelectorError) as error:
        old = status_of(c.case.get("status")).subsets or ()
        return {
            **nothing,
            "error": "NotFound" if isinstance(error, NotFound) else "ReplicasPath",
            "conditions": {e.name: None if e.condition is None else str(e.condition.open) for e in old},
            "deletionCosts": {p["metadata"]["name"]: None for p in c.pods},
        }
    if "workloadReplicas" in c.case:
        view = msgspec.structs.replace(view, replicas=c.case["workloadReplicas"])
    if "latest" in c.case:
        view = msgspec.structs.replace(view, version=c.case["latest"])
    nodes = {n.name: n for n in map(node_of, c.case.get("nodes") or ())}
    objects = {p["metadata"]["name"]: p for p in c.pods}
    done = reconcile(
        spread,
        view,
        status_of(c.case.get("status")),
        nodes,
        objects.__getitem__,
        0.0,
        versioned_kinds=c.versioned,
    )
    current = {p.name: p.cost for p in view.pods}
    answer: JsonObject = {
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
        "adoptionPatches": {
            pod: adoption_patch(spread, subset)
            for pod, name in done.adopted.items()
            if (subset := spread.subset(name)) is not None
        },
        "deletedPods": sorted(done.delete),
        "events": sorted(done.events),
        "requeueAfterSeconds": done.again_s,
        "scaleInOrder": scale_in_order(c, done.costs),
    }
    if done.invalid:
        answer["fault"] = "index-out-of-range"
    return answer


def scale_in_order(c: Cluster, costs: Mapping[str, int]) -> list[list[Any]]:
    """Subsets in the order in which equal pods would go, by cost alone."""
    order: list[list[Any]] = []
    pods = sorted((pod_of(p) for p in c.pods), key=lambda p: costs.get(p.name, 0))
    for pod in pods:
        subset = pod.placement.subset if pod.placement is not None else None
        if order and order[-1][0] == subset:
            order[-1][1] += 1
        else:
            order.append([subset, 1])
    return order


def trigger(c: Cluster, event: Mapping[str, Any]) -> JsonObject:
    obj, action = event["object"], event["action"]
    old, new = event.get("old") or {}, event.get("new") or {}
    if obj["kind"] == "Pod":
        given = obj.get("annotation")
        placement = None if given is None else Placement(given.get("name", ""), given.get("subset", ""))
        return {"enqueue": woken_by_pod(placement, action, old, new)}
    owner = obj.get("owner")
    ref = Owner(obj["apiVersion"], obj["kind"], obj["name"])
    controller = None if owner is None else Owner(owner["apiVersion"], owner["kind"], owner["name"])
    woken = woken_by_workload(ref, controller, action, old, new, c.spreads)
    return {"enqueue": None if woken is None else woken.name}


RUN: dict[str, Callable[[Cluster, Mapping[str, Any]], JsonObject]] = {
    "admission.podCreate": pod_create,
    "admission.podDelete": pod_remove,
    "admission.podEviction": pod_remove,
    "admission.workloadSpread": spread_admission,
    "lookup.replicas": lookup_replicas,
    "lookup.replicasPath": lookup_path,
    "lookup.ownerMatch": lookup_owner,
    "lookup.podSelected": lookup_selected,
    "lookup.initialStatus": lookup_initial,
    "lookup.podVersion": lookup_pod_version,
    "lookup.workloadVersion": lookup_workload_version,
    "lookup.matchScore": lookup_score,
    "lookup.conflict": lookup_conflict,
    "reconcile": one_pass,
    "trigger": trigger,
}


def compare(expected: JsonObject, actual: JsonObject) -> list[str]:
    """What differs, by the conventions of the schema."""
    wanted = dict(expected)
    found: list[str] = []
    for key in ("errorDetail", "note"):
        wanted.pop(key, None)
    if "status" in wanted:
        found.extend(status_differences(wanted.pop("status"), actual.get("status")))
    if "requeueAfterSeconds" in wanted:
        after = wanted.pop("requeueAfterSeconds")
        if abs(after - actual.get("requeueAfterSeconds", 0)) > 1 or (after == 0) != (
            actual["requeueAfterSeconds"] == 0
        ):
            found.append(
                f"$.requeueAfterSeconds: expected {after}, found {actual.get('requeueAfterSeconds')}"
            )
    if "errorFields" in wanted and "errorCount" not in wanted:
        missing = [f for f in wanted.pop("errorFields") if f not in actual.get("errorFields", ())]
        found.extend(f"$.errorFields: {field} is missing in {actual.get('errorFields')}" for field in missing)
    if "errors" in wanted:
        wanted["errors"] = [{"field": e["field"], "type": e["type"]} for e in wanted["errors"]]
    if "events" in wanted and not isinstance(wanted["events"], str):
        wanted["events"] = sorted(wanted["events"])
    for key in ("deletedPods", "deletionCostWrites"):
        if key in wanted:
            wanted[key] = sorted(wanted[key])
    for key in ("adoptions", "deletionCosts", "patch", "adoptionPatches"):
        if key in wanted:
            want, have = (
                plain(wanted.pop(key), costs=key == "deletionCosts"),
                plain(actual.get(key), costs=key == "deletionCosts"),
            )
            if want != have:
                found.append(f"$.{key}: expected {want!r}, found {have!r}")
    for key in ("error", "fault", "generatedUid"):
        if key not in wanted and actual.get(key) not in (None, False):
            found.append(f"$.{key}: expected none, found {actual[key]!r}")
        if wanted.get(key) is None and actual.get(key) is None:
            wanted.pop(key, None)
    found.extend(differences(wanted, actual))
    return found


def plain(value: Any, *, costs: bool = False) -> Any:
    """Without what says the same as its absence: a cost that is not written, a container's empty resources."""
    if isinstance(value, Mapping):
        absent = {k for k, v in value.items() if (k == "resources" and v == {}) or (costs and v is None)}
        return {k: plain(v) for k, v in value.items() if k not in absent}
    return [plain(v) for v in value] if isinstance(value, list) else value


def status_differences(expected: Any, actual: Any, path: str = "$.status") -> list[str]:
    """An omitted map is empty, omitted replicas are 0, a list that is not given is not checked."""
    if isinstance(expected, list):
        return entries_differences(expected, actual, path)
    found: list[str] = []
    expected, actual = expected or {}, actual or {}
    for key, value in expected.items():
        if key == "subsetStatuses":
            found.extend(entries_differences(value or [], actual.get(key) or [], f"{path}.{key}"))
        elif key == "versionedSubsetStatuses":
            have = actual.get(key) or {}
            if {v for v in value or {} if value[v] is not None} != set(have):
                found.append(f"{path}.{key}: expected versions {sorted(value)}, found {sorted(have)}")
                continue
            for version, entries in (value or {}).items():
                found.extend(
                    entries_differences(entries or [], have.get(version) or [], f"{path}.{key}.{version}")
                )
    return found


def entries_differences(expected: Sequence[Any], actual: Sequence[Any], path: str) -> list[str]:
    plain = [entry_plain(e) for e in actual]
    found = []
    if [e.get("name") for e in expected] != [e["name"] for e in plain]:
        return [f"{path}: expected {expected}, found {actual}"]
    for want, have in zip(expected, plain, strict=True):
        full = entry_plain(want)
        if "conditions" not in want:
            full.pop("conditions")
            have = {k: v for k, v in have.items() if k != "conditions"}
        if full != have:
            found.append(f"{path}.{want.get('name')}: expected {full}, found {have}")
    return found


def entry_plain(entry: Mapping[str, Any]) -> JsonObject:
    return {
        "name": entry.get("name"),
        "missingReplicas": entry.get("missingReplicas", 0),
        "replicas": entry.get("replicas", 0),
        "creatingPods": entry.get("creatingPods") or {},
        "deletingPods": entry.get("deletingPods") or {},
        "conditions": entry.get("conditions") or [],
    }


def run(case: Case) -> Result:
    event = case["event"]
    kind: str = event["type"]
    name = f"{case['id']} {case.get('name', '')}"
    if kind == "scenario":
        told = run_story(case)
        if told is None:
            return Result(name, kind, Verdict.NOT_COVERED)
        found = told
    elif kind in RUN:
        answer = msgspec.json.encode(RUN[kind](Cluster(case), event)).decode().replace(UID, UID_PLACEHOLDER)
        found = compare(case["expected"], msgspec.json.decode(answer))
    else:
        return Result(name, kind, Verdict.NOT_COVERED)
    return Result(name, kind, Verdict.FAILED if found else Verdict.PASSED, tuple(found))


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
