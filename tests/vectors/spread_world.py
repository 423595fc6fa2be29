"""A case's cluster as the decider sees it: facts that the watcher's own projections make, and a log that led there.

The previous status of a case is what the original keeps in its object; here it is entries of admission, and
decisions about rules, on the ledger. Times are log time: the moment of evaluation is `NOW`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.suite import Case
from tidewright.events.base import Decision, Event, JsonObject, ObjectRef
from tidewright.events.config import ConfigSet
from tidewright.events.spread import (
    ChangeLedger,
    LedgerChange,
    LedgerRules,
    PodLeaving,
    PodPlaced,
    TargetReplicasObserved,
    WorkloadSpreadObserved,
)
from tidewright.events.timers import TimerFired
from tidewright.kube.customworkloads import (
    BUILT_IN,
    BadPath,
    GroupKind,
    group_version,
    replicas_at_paths,
    whitelist_of,
)
from tidewright.kube.projection import nodes, pods, workloads
from tidewright.kube.times import rfc3339, seconds
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION
from tidewright.spread.control.versions import versions_by
from tidewright.spread.decide import DECIDER
from tidewright.spread.fold.touched import Touched
from tidewright.spread.match.pods import POD_TEMPLATE_HASH
from tidewright.spread.state import TIMER, SpreadState, spread_key, unpack_uid
from tidewright.watcher.custom_workloads import place_of
from tidewright.watcher.workload_watch import readable

NOW = 1_700_000_000.0
BEFORE = NOW - 10_000.0
"""When what a case begins with was told."""
NAMESPACE = "default"
AT_ONCE_S = 0.001
SETTINGS: JsonObject = {
    "unseenBoundSeconds": 30.0 + AT_ONCE_S,
    "leavingBoundSeconds": 15.0 + AT_ONCE_S,
    "statusEverySeconds": 0.0,
}
"""The original's bounds, which hold for the whole of their last second; and its status is that of each pass."""
REVISION = "deployment.kubernetes.io/revision"
_STAMPS = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")


def stamped(value: Any) -> Any:
    """An object of a case with the API's times in place of seconds relative to now; every transition has one."""
    if isinstance(value, Mapping):
        known = {**value}
        if "type" in value and "status" in value:
            known.setdefault("lastTransitionTime", 0)
        return {
            k: rfc3339(NOW + v) if k in _STAMPS and isinstance(v, int) else stamped(v)
            for k, v in known.items()
        }
    return [stamped(v) for v in value] if isinstance(value, list) else value


def relative(value: Any) -> Any:
    """The API's times as seconds relative to now."""
    if isinstance(value, Mapping):
        return {k: relative(v) for k, v in value.items()}
    if isinstance(value, list):
        return [relative(v) for v in value]
    if isinstance(value, str) and len(value) == len("2023-11-14T22:13:20Z") and value.endswith("Z"):
        return round(seconds(value) - NOW)
    return value


class World:
    """The decider over one case.

    Attributes:
        decisions: what was decided since the case's objects were told, in order.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.state = DECIDER.initial()
        self.decisions: list[Decision] = []
        self.pods: dict[str, JsonObject] = {}
        whitelist = msgspec.json.encode({"workloads": case.get("whiteList") or []}).decode()
        self.whitelist = whitelist_of(whitelist)
        versioned = [k.lower() for k in case.get("versionedKinds") or ()]
        settings = {**SETTINGS, "whitelist": whitelist, "versionedKinds": versioned}
        self.fold(ConfigSet(at=BEFORE, name="spread", data=settings))
        for node in case.get("nodes") or ():
            self.fold(nodes.node(encoded(node)).fact)
        for obj in self.workloads():
            self.tell_workload(obj)
        for given in case.get("spreads") or [case["spread"]] if "spread" in case or "spreads" in case else []:
            self.tell_spread(stamped(given))

    # -- telling -------------------------------------------------------------------------------

    def fold(self, event: Event) -> Touched:
        """Fold what was there before; what was decided then is told apart."""
        return DECIDER.evolve(self.state, event)

    def see(self, event: Event, at: float = NOW) -> None:
        """Fold an event, and what is decided about it."""
        event = msgspec.structs.replace(event, at=at)
        touched = DECIDER.evolve(self.state, event)
        decisions = list(DECIDER.decide(self.state, event, touched))
        for decision in decisions:
            DECIDER.evolve(self.state, decision)
        self.decisions.extend(decisions)

    def workloads(self) -> list[JsonObject]:
        """The target, and what stands between it and its pods."""
        case = self.case
        given = [case["workload"]] if case.get("workload") else []
        if "workloadReplicas" in case and not given:
            target = case["spread"]["spec"]["targetRef"]
            spec = {"replicas": case["workloadReplicas"]}
            given = [{**target, "metadata": {"name": target["name"]}, "spec": spec}]
        below = [
            obj for obj in (*(case.get("replicaSets") or ()), *(case.get("objects") or ())) if "kind" in obj
        ]
        if given and given[0]["kind"] == "Deployment":
            return numbered(given[0], below)
        return [*given, *below]

    def tell_workload(self, obj: JsonObject) -> None:
        """A workload, by the watcher's projection."""
        metadata = {**(obj.get("metadata") or {}), "namespace": NAMESPACE, "uid": self.uid_of(obj)}
        built_in = GroupKind(group_version(obj["apiVersion"])[0], obj["kind"]) in BUILT_IN
        project = (workloads.workload if built_in else readable)(obj["apiVersion"], obj["kind"])
        fact = project(encoded({**stamped(obj), "metadata": stamped(metadata)})).fact
        self.fold(msgspec.structs.replace(fact, at=BEFORE))

    def rules(self, name: str) -> LedgerRules:
        """The rules as the decider makes them of what it was told."""
        view = self.view(name)
        timer = TimerFired(at=self.state.now, key=TIMER + spread_key(NAMESPACE, name))
        for decision in DECIDER.decide(
            self.state, timer, Touched(spreads=[spread_key(NAMESPACE, view.name)])
        ):
            if isinstance(decision, ChangeLedger) and decision.rules is not None:
                return decision.rules
        assert view.ledger.rules is not None
        return view.ledger.rules

    def uid_of(self, obj: Mapping[str, Any]) -> str:
        """The uid of a workload; one that a case leaves out is that which its pods name."""
        metadata = obj.get("metadata") or {}
        named = (
            owner.get("uid")
            for pod in self.case.get("pods") or ()
            for owner in (pod.get("metadata") or {}).get("ownerReferences") or ()
            if (owner.get("kind"), owner.get("name")) == (obj.get("kind"), metadata.get("name"))
        )
        return metadata.get("uid") or next(filter(None, named), f"uid of {metadata.get('name')}")

    def tell_spread(self, obj: JsonObject) -> None:
        """A spread; and where paths say what the replicas of its target are, those."""
        metadata = obj.get("metadata") or {}
        deleting = metadata.get("deletionTimestamp")
        fact = WorkloadSpreadObserved(
            at=BEFORE,
            namespace=NAMESPACE,
            name=metadata["name"],
            uid=metadata.get("uid") or f"uid of {metadata['name']}",
            generation=metadata.get("generation") or 0,
            spec=obj.get("spec") or {},
            annotations=metadata.get("annotations") or {},
            deleting_at=None if deleting is None else seconds(deleting),
        )
        self.fold(fact)
        place = place_of(fact, self.whitelist)
        target = self.case.get("workload")
        if place is not None and target is not None:
            try:
                replicas, error = replicas_at_paths(target, place.paths), ""
            except BadPath as bad:
                replicas, error = 0, str(bad)
            self.fold(
                TargetReplicasObserved(
                    at=BEFORE, namespace=NAMESPACE, name=fact.name, replicas=replicas, error=error
                )
            )

    def tell_pods(self) -> None:
        """The case's pods, in their order; those that were let in are seen where they are, and no more is concluded yet."""
        for obj in self.case.get("pods") or ():
            self.pods[obj["metadata"]["name"]] = stamped(obj)
            self.observe(obj["metadata"]["name"], self._tell_pod)

    def _tell_pod(self, event: Event) -> None:
        touched = self.fold(event)
        for decision in DECIDER.decide(self.state, event, touched):
            if isinstance(decision, ChangeLedger):
                seen = tuple(
                    change for change in decision.changes if change.kind == "Seen" or change.reason == "Moved"
                )
                self.fold(msgspec.structs.replace(decision, changes=seen, rules=None, counts=None))

    def observe(self, name: str, how: Callable[[Event], object]) -> None:
        """A pod as it is now, by the watcher's projection."""
        obj = self.pods[name]
        metadata = {"namespace": NAMESPACE, "uid": f"uid of {name}", **obj["metadata"]}
        seen = pods.pod(encoded({**obj, "metadata": metadata}))
        if seen.shape is not None:
            how(msgspec.structs.replace(seen.shape, at=NOW))
        how(msgspec.structs.replace(seen.fact, at=NOW))

    # -- the previous status -------------------------------------------------------------------

    def view(self, name: str) -> SpreadState:
        """What the decider knows of a spread."""
        return self.state.spreads[f"{NAMESPACE}/{name}"]

    def tell_placed(self, name: str, entries: Mapping[str, Sequence[JsonObject]]) -> None:
        """Pods that were let in by the entries of a status, by version."""
        placed = [
            self.placed(name, version, entry["name"], pod, NOW + at)
            for version, subsets in entries.items()
            for entry in subsets
            for pod, at in (entry.get("creatingPods") or {}).items()
        ]
        for event in sorted(placed, key=lambda event: event.at):
            self.fold(event)

    def tell_leaving(self, name: str, entries: Mapping[str, Sequence[JsonObject]]) -> None:
        """Pods that are there in a subset, and whose delete was admitted, by the entries of a status."""
        told = {
            pod: NOW + at
            for subsets in entries.values()
            for entry in subsets
            for pod, at in (entry.get("deletingPods") or {}).items()
        }
        known = {pod for pod, row in self.view(name).pods.items() if row.placed_by == name and row.subset}
        for at, pod in sorted((at, pod) for pod, at in told.items() if pod in known):
            self.fold(self.leaving(name, pod, at))

    def placed(self, name: str, version: str, subset: str, pod: str, at: float) -> PodPlaced:
        """A pod was let in."""
        return PodPlaced(
            at=at,
            namespace=NAMESPACE,
            name=name,
            key=pod,
            request=f"create {pod}",
            version=version,
            spread=self.view(name).uid,
            subset=subset,
            pod=pod,
        )

    def leaving(self, name: str, pod: str, at: float) -> PodLeaving:
        """The delete of a pod that held its place was admitted."""
        row = self.view(name).pods[pod]
        version, subset, uid = versions_by(self.state.settings).of(row), row.subset, unpack_uid(row.uid)
        placement = placement_of(
            (self.pods[pod]["metadata"].get("annotations") or {}).get(MATCHED_ANNOTATION)
        )
        key = (placement.uid if placement is not None else "") or pod
        placed = self.view(name).ledger.placed.get(key)
        if not row.held and (placed is None or (placed.version, placed.subset) != (version, subset)):
            self.change(name, LedgerChange("Held", pod, pod, version, subset, "Found", uid=uid), at=at)
        return self.left(name, version, subset, pod, at, uid, key)

    def left(
        self, name: str, version: str, subset: str, pod: str, at: float, uid: str = "", key: str = ""
    ) -> PodLeaving:
        """The delete of a pod was admitted."""
        return PodLeaving(
            at=at,
            namespace=NAMESPACE,
            name=name,
            key=key or pod,
            request=f"delete {pod}",
            version=version,
            spread=self.view(name).uid,
            subset=subset,
            pod=pod,
            uid=uid,
        )

    def change(self, name: str, *changes: LedgerChange, at: float = BEFORE, **more: Any) -> None:
        """A decision about the ledger that was recorded before."""
        target = ObjectRef(api_version="", kind="WorkloadSpread", namespace=NAMESPACE, name=name)
        self.fold(ChangeLedger(at=at, target=target, changes=changes, **more))

    def tell_conditions(self, name: str, entries: Sequence[JsonObject]) -> None:
        """Which subsets are closed and since when, as decisions about rules; those that are open were closed before."""
        known: list[tuple[float, str, bool]] = []
        for entry in entries:
            for condition in entry.get("conditions") or ():
                at, is_open = condition.get("lastTransitionTime", 0), condition.get("status") != "False"
                if is_open:
                    known.append((at - 1, entry["name"], False))
                known.append((at, entry["name"], is_open))
        rules = self.rules(name)
        closed: dict[str, bool] = {}
        for at, subset, is_open in sorted(known):
            closed[subset] = not is_open
            subsets = tuple(
                msgspec.structs.replace(rule, closed=closed[rule.name])
                for rule in rules.subsets
                if rule.name in closed
            )
            self.change(name, at=NOW + at, rules=msgspec.structs.replace(rules, subsets=subsets))


def numbered(deployment: JsonObject, replica_sets: Sequence[JsonObject]) -> list[JsonObject]:
    """A Deployment and its ReplicaSets with their revisions, which its controller writes: that of its template is the last."""

    def revised(obj: JsonObject, revision: int) -> JsonObject:
        metadata = obj["metadata"]
        annotations = {REVISION: str(revision), **(metadata.get("annotations") or {})}
        return {**obj, "metadata": {**metadata, "annotations": annotations}}

    def template(obj: JsonObject) -> JsonObject:
        found = dict((obj.get("spec") or {}).get("template") or {})
        metadata = dict(found.get("metadata") or {})
        labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
        return {**found, "metadata": {**metadata, "labels": labels}}

    last = len(replica_sets) + 1
    return [
        revised(deployment, last),
        *(
            revised(obj, last if template(obj) == template(deployment) else n)
            for n, obj in enumerate(replica_sets, 1)
        ),
    ]


def encoded(obj: Any) -> bytes:
    return msgspec.json.encode(obj)
