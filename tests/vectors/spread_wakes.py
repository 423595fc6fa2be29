"""`trigger` cases, and `lookup` cases whose answer is in the decider's state: what an event touches, what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.vectors.spread_world import NAMESPACE, NOW, World
from tests.vectors.suite import Case
from tidewright.events.base import Event, JsonObject
from tidewright.events.decisions import SetStatus
from tidewright.events.facts import Owner, PodGone, PodObserved, WorkloadGone, WorkloadObserved
from tidewright.events.timers import TimerFired
from tidewright.kube.workloadspreads.placements import Placement, annotation
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION
from tidewright.spread.control.versions import versions_by
from tidewright.spread.state import TIMER, spread_key

_TARGET = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "workload"}
_SPREAD = {
    "metadata": {"name": "test-workloadSpread"},
    "spec": {"targetRef": _TARGET, "subsets": [{"name": "subset-demo"}]},
}
_KIND_REPLICAS = {"Job": "parallelism"}


def woken(case: Case) -> JsonObject:
    """Which spread an event wakes. A pod that a case does not say more of is one of its spread's workload."""
    event = case["event"]
    obj, action = event["object"], event["action"]
    pod = obj["kind"] == "Pod"
    world = World({**case, "spreads": [_SPREAD]} if pod else case)
    if pod:
        world.fold(_workload(_TARGET, {}))
    elif obj.get("owner") is not None:
        world.fold(_workload(obj["owner"], {}))
    fact = _pod if pod else _workload
    if action != "create":
        world.fold(fact(obj, event.get("old") or {}))
    last: Event = fact(obj, event.get("new") or {})
    if action == "delete" and pod:
        last = PodGone(at=NOW, namespace=NAMESPACE, name="pod", uid="uid")
    elif action == "delete":
        last = WorkloadGone(
            at=NOW,
            namespace=NAMESPACE,
            name=obj["name"],
            uid=_uid(obj),
            kind=obj["kind"],
            api_version=obj["apiVersion"],
        )
    touched = world.fold(last)
    keys = [*touched.spreads, *([touched.home] if touched.home else [])]
    return {"enqueue": keys[0].partition("/")[2] if keys else None}


def _uid(obj: Mapping[str, Any]) -> str:
    return f"uid of {obj.get('name')}"


def _workload(obj: Mapping[str, Any], fields: Mapping[str, Any]) -> WorkloadObserved:
    owner = obj.get("owner")
    owners = (
        ()
        if owner is None
        else (
            Owner(
                kind=owner["kind"],
                name=owner["name"],
                uid=_uid(owner),
                api_version=owner["apiVersion"],
                controller=True,
            ),
        )
    )
    replicas = fields.get(_KIND_REPLICAS.get(obj["kind"], "replicas"), 1)
    return WorkloadObserved(
        at=NOW,
        namespace=NAMESPACE,
        name=obj["name"],
        uid=_uid(obj),
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        replicas=replicas,
        revision=fields.get("updateRevision") or fields.get("revision") or "",
        owners=owners,
    )


def _pod(obj: Mapping[str, Any], fields: Mapping[str, Any]) -> PodObserved:
    given = obj.get("annotation")
    placement = None if given is None else Placement(given.get("name", ""), given.get("subset", ""))
    return PodObserved(
        at=NOW,
        namespace=NAMESPACE,
        name="pod",
        uid="uid",
        owners=(
            Owner(
                kind=_TARGET["kind"],
                name=_TARGET["name"],
                uid=_uid(_TARGET),
                api_version=_TARGET["apiVersion"],
                controller=True,
            ),
        ),
        phase="Running" if fields.get("active", True) else "Succeeded",
        labels={"pod-template-hash": fields["version"]} if "version" in fields else {},
        annotations={} if placement is None else {MATCHED_ANNOTATION: annotation(placement)},
    )


def replicas(case: Case) -> JsonObject:
    """Replicas from which percentages are made limits."""
    world = World(case)
    rules = world.rules(case["spread"]["metadata"]["name"])
    return {"replicas": rules.replicas}


def initial(case: Case) -> JsonObject:
    """The ledger before any pod."""
    world, name = World(case), case["spread"]["metadata"]["name"]
    world.see(TimerFired(at=NOW, key=TIMER + spread_key(NAMESPACE, name)))
    (written,) = [d.status for d in world.decisions if isinstance(d, SetStatus)]
    return {"status": written["subsetStatuses"]}


def version(case: Case) -> JsonObject:
    """The version of a workload's current template."""
    workload = case["workload"]
    target = {key: workload[key] for key in ("apiVersion", "kind")} | {"name": workload["metadata"]["name"]}
    spread = {"metadata": {"name": "any"}, "spec": {"targetRef": target, "subsets": [{"name": "all"}]}}
    world = World({**case, "spread": spread})
    latest = versions_by(world.state.settings).latest(world.state, world.view("any"))
    return {"version": latest, "error": None}
