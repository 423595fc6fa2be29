"""Stories: a small cluster around the real decider, told step by step.

The decider folds facts and ledger entries and decides; admission places pods by the same ledger; this
module plays the API server, the workload's controller and the scheduler, and compares after each step.
Time is log time and jumps from timer to timer.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from tests.vectors.suite import Case
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import DeleteObject, PatchObject, SetTimer
from tidewright.events.facts import NodeObserved, PodGone, PodObserved, WorkloadObserved
from tidewright.events.facts import Owner as OwnerFact
from tidewright.events.spread import TargetReplicasObserved, WorkloadSpreadObserved
from tidewright.events.timers import TimerFired
from tidewright.kube.customworkloads import replicas_at_paths, whitelist_of
from tidewright.kube.podapi.nodeterms import Node, required_terms, term_matches
from tidewright.kube.projection import pods
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, Spread, parse
from tidewright.spread.control.victims import picked
from tidewright.spread.decide import DECIDER
from tidewright.spread.ledger import placing
from tidewright.spread.match.pods import VERSIONED_KINDS
from tidewright.spread.state import SpreadState
from tidewright.watcher.custom_workloads import place_of

START = 1_700_000_000.0
NAMESPACE = "default"
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}


class Untold(Exception):
    """A step that this module does not know how to play."""


class Story:
    """One cluster with one spread and one workload."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = START
        self.state = DECIDER.initial()
        self.object: JsonObject = dict(case["spread"])
        self.generation = 1
        self.pods: dict[str, JsonObject] = {}
        self.timers: dict[str, float] = {}
        self.names = itertools.count()
        self.revision = 1
        self.seq = itertools.count(1)
        target = self.spread.target
        assert target is not None
        self.target = target
        self.replicas = 0
        self.known = False
        self.selector = re.search(r"role=(\w+)", case["name"])
        self.nodes = self.make_nodes()
        self.workload_object: JsonObject = {"spec": self.replica_spec()}

    @property
    def spread(self) -> Spread:
        return parse(self.object)

    @property
    def view(self) -> SpreadState:
        return self.state.spreads[f"{NAMESPACE}/{self.spread.name}"]

    # -- the decider ---------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Fold an event, and do what was decided."""
        touched = DECIDER.evolve(self.state, event)
        decisions = list(DECIDER.decide(self.state, event, touched))
        for decision in decisions:
            DECIDER.evolve(self.state, decision)
        for decision in decisions:
            self.act(decision)

    def act(self, decision: Decision) -> None:
        match decision:
            case SetTimer(key=key, due=due):
                self.timers[key] = due
            case PatchObject(target=target, patch=patch) if target.name in self.pods:
                pod = self.pods[target.name]
                meta = pod["metadata"]
                for part, values in patch["metadata"].items():
                    meta[part] = {**meta.get(part, {}), **values}
                self.observe(target.name)
            case DeleteObject(target=target) if target.name in self.pods:
                self.delete(target.name)
                self.recreate()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and timers fire in order."""
        end = self.now + seconds
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k])
            due = self.timers[key]
            if due > end:
                break
            del self.timers[key]
            self.now = max(self.now, due)
            self.send(TimerFired(at=self.now, key=key))
        self.now = end

    # -- objects -------------------------------------------------------------------------------

    def make_nodes(self) -> list[Node]:
        """A node for each zone that the spec names, except where the story says that nothing fits."""
        closed = re.search(r"(\S+) cannot be scheduled", self.case["name"])
        zones: list[str] = []
        for subset in self.spread.subsets:
            if closed is not None and subset.name == closed[1]:
                continue
            terms = [subset.required or {}, *(t.get("preference") or {} for t in subset.preferred)]
            zones += [
                v for t in terms for e in t.get("matchExpressions") or () for v in e.get("values") or ()
            ]
        keys = {
            e["key"]
            for s in self.spread.subsets
            for t in (s.required or {}, *(p.get("preference") or {} for p in s.preferred))
            for e in t.get("matchExpressions") or ()
        }
        return [Node(f"node-{z}", dict.fromkeys(keys, z)) for z in dict.fromkeys(zones)]

    def replica_spec(self) -> JsonObject:
        """Replicas of a custom workload, where its path or its filter looks for them."""
        roles = dict(re.findall(r"\b(MASTER|Worker|PS) (\d+)", self.case["name"]))
        return {"tfReplicaSpecs": {role: {"replicas": int(n)} for role, n in roles.items()}}

    def open(self) -> None:
        for node in self.nodes:
            self.send(NodeObserved(at=self.now, name=node.name, labels=node.labels))
        whitelist = msgspec.json.encode({"workloads": self.case.get("whiteList") or []}).decode()
        self.send(ConfigSet(at=self.now, name="spread", data={"whitelist": whitelist}))

    def observe_spread(self) -> None:
        self.known = True
        spec = self.object["spec"]
        name = self.spread.name
        fact = WorkloadSpreadObserved(
            at=self.now, namespace=NAMESPACE, name=name, uid="ws", generation=self.generation, spec=spec
        )
        self.send(fact)
        whitelist = whitelist_of(
            msgspec.json.encode({"workloads": self.case.get("whiteList") or []}).decode()
        )
        place = place_of(fact, whitelist)
        if place is not None:
            replicas = replicas_at_paths(self.workload_object, place.paths)
            self.send(TargetReplicasObserved(at=self.now, namespace=NAMESPACE, name=name, replicas=replicas))

    def change_spec(self, **fields: Any) -> None:
        self.object = {**self.object, "spec": {**self.object["spec"], **fields}}
        self.generation += 1
        self.observe_spread()

    def observe_workload(self) -> None:
        self.send(
            WorkloadObserved(
                at=self.now,
                namespace=NAMESPACE,
                name=self.target.name,
                uid="workload",
                api_version=self.target.api_version,
                kind=self.target.kind,
                replicas=self.replicas,
                revision=str(self.revision),
            )
        )
        if self.target.kind == "Deployment":
            for revision in range(1, self.revision + 1):
                self.send(
                    WorkloadObserved(
                        at=self.now,
                        namespace=NAMESPACE,
                        name=f"{self.target.name}-{revision}",
                        uid=f"rs-{revision}",
                        api_version="apps/v1",
                        kind="ReplicaSet",
                        replicas=self.replicas,
                        revision=str(revision),
                        labels={"pod-template-hash": f"hash{revision}"},
                        owners=(
                            OwnerFact(
                                kind="Deployment",
                                name=self.target.name,
                                uid="workload",
                                api_version="apps/v1",
                                controller=True,
                            ),
                        ),
                    )
                )

    # -- pods ----------------------------------------------------------------------------------

    def create(self, labels: Mapping[str, str] | None = None) -> None:
        """The workload's controller creates a pod; admission places it; the scheduler binds it."""
        number = next(self.names)
        deployment = self.target.kind == "Deployment"
        owner = {
            "apiVersion": "apps/v1" if deployment else self.target.api_version,
            "kind": "ReplicaSet" if deployment else self.target.kind,
            "name": f"{self.target.name}-{self.revision}" if deployment else self.target.name,
            "uid": f"rs-{self.revision}" if deployment else "workload",
            "controller": True,
        }
        found: dict[str, str] = {**(labels or {})}
        if deployment:
            found["pod-template-hash"] = f"hash{self.revision}"
        meta: JsonObject = {"namespace": NAMESPACE, "labels": found, "ownerReferences": [owner]}
        name = f"{self.target.name}-{number}"
        meta.update({"generateName": f"{self.target.name}-"} if deployment else {"name": name})
        pod: JsonObject = {
            "metadata": meta,
            "spec": {"containers": [{"name": "main", "image": "main"}], "priority": 0},
        }
        role = (labels or {}).get("role")
        if self.known and (self.selector is None or role == self.selector[1]):
            pod = self.admit(pod, f"request-{number}")
        pod["metadata"].update(name=name, uid=f"uid-{number}", creationTimestamp=rfc3339(self.now))
        if pod["spec"].get("priorityClassName") and "priority" not in pod["spec"]:
            pod["spec"]["priority"] = 100  # as the built-in plugin does on reinvocation
        self.pods[name] = pod
        self.schedule(name)

    def admit(self, pod: JsonObject, request: str) -> JsonObject:
        ledger = self.view.ledger
        spread = placing.spread_on(ledger, NAMESPACE, self.spread.name)
        placed = placing.created(
            ledger, spread, pod, request=placing.Request(request, self.now), versioned_kinds=VERSIONED_KINDS
        )
        if placed.entry is not None:
            self.send(placed.entry)
        return msgspec.json.decode(msgspec.json.encode(placed.pod))  # type: ignore[no-any-return]  # JSON

    def schedule(self, name: str) -> None:
        pod = self.pods[name]
        terms = required_terms(pod["spec"])
        if not terms:
            pod["status"] = {"phase": "Running"}
            pod["spec"]["nodeName"] = "elsewhere"
        elif (
            node := next((n for n in self.nodes if any(term_matches(t, n) for t in terms)), None)
        ) is not None:
            pod["status"] = {"phase": "Running"}
            pod["spec"]["nodeName"] = node.name
        else:
            pod["status"] = {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "lastTransitionTime": rfc3339(self.now),
                    }
                ],
            }
        self.observe(name)

    def observe(self, name: str) -> None:
        found = pods.pod(msgspec.json.encode(self.pods[name]))
        assert isinstance(found.fact, PodObserved)
        if found.shape is not None:
            self.send(msgspec.structs.replace(found.shape, at=self.now))
        self.send(msgspec.structs.replace(found.fact, at=self.now))

    def delete(self, name: str) -> None:
        """A delete passes admission like a create; the pod is gone a moment later."""
        pod = self.pods[name]
        if self.known:
            spread = placing.spread_on(self.view.ledger, NAMESPACE, self.spread.name)
            request = placing.Request(f"delete-{name}", self.now)
            entry = placing.removed(self.view.ledger, spread, pod, request)
            if entry is not None:
                self.send(entry)
        del self.pods[name]
        self.send(PodGone(at=self.now, namespace=NAMESPACE, name=name, uid=pod["metadata"]["uid"]))

    def cheapest(self, version: str | None = None) -> str:
        """The pod that the workload's controller removes next."""
        rows = [
            r
            for r in (self.state.find(NAMESPACE, n)[1] for n in self.pods)
            if r is not None and (version is None or r.revision == version)
        ]
        (first,) = picked(rows, self.target.kind, 1, self.state.now).rows
        return first.name

    def recreate(self) -> None:
        while len(self.pods) < self.replicas:
            self.create()

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        self.observe_workload()
        self.settle()
        self.recreate()
        while len(self.pods) > self.replicas:
            self.delete(self.cheapest())
        self.settle()

    def settle(self) -> None:
        self.pass_time(2.0)

    # -- steps ---------------------------------------------------------------------------------

    def step(self, do: str, replicas: int | None) -> None:
        limits = re.match(r"set limits to ([\d/]+)", do)
        if limits is not None:
            values = [int(v) for v in limits[1].split("/")]
            subsets = [
                {**s, "maxReplicas": v} for s, v in zip(self.object["spec"]["subsets"], values, strict=True)
            ]
            self.change_spec(subsets=subsets)
            self.settle()
            if replicas is not None:
                self.scale(replicas)
        elif do in ("create workload", "scale") and replicas is not None:
            if do == "create workload":
                self.observe_spread()
            self.scale(replicas)
        elif do == "create the spread":
            self.prepare()
            self.observe_spread()
        elif do == "roll to a new image":
            self.revision += 1
            self.observe_workload()
            self.settle()
            for name in list(self.pods):
                if self.target.kind == "Deployment":
                    self.replace()
                else:
                    self.delete(name)
                    self.recreate()
        elif do.startswith("start the rollout"):
            self.revision += 1
            self.observe_workload()
        elif do == "one more replacement":
            self.replace()
        elif (removed := re.match(r"remove (\S+) from the spec", do)) is not None:
            kept = [s for s in self.object["spec"]["subsets"] if s["name"] != removed[1]]
            self.change_spec(subsets=kept)
        elif (adaptive := re.match(r"set Adaptive, rescheduleCriticalSeconds (\d+)", do)) is not None:
            after = int(adaptive[1])
            block = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": after}}
            self.change_spec(scheduleStrategy=block)
            self.pass_time(after + 1)
        elif (wait := re.match(r"wait up to (\d+) s", do)) is not None:
            self.pass_time(float(wait[1]))
        elif do.endswith("created"):
            self.observe_spread()
            for role, count in pods_named(do):
                for _ in range(count):
                    self.create({"role": role} if role else None)
            self.replicas = len(self.pods)
        else:
            raise Untold(do)
        self.settle()

    def prepare(self) -> None:
        """Pods that the story's name says run before the spread exists."""
        told = re.match(r"(\w+) pods (?:already )?run in ([-\w]+)", self.case["name"])
        if told is None:
            raise Untold(self.case["name"])
        foreign = re.search(r"\((\w+) carry another spread's annotation", self.case["name"])
        for n in range(NUMBERS[told[1]]):
            self.create()
            pod = self.pods[list(self.pods)[-1]]
            pod["spec"]["nodeName"] = f"node-{told[2]}"
            if foreign is not None and n < NUMBERS[foreign[1]]:
                pod["metadata"]["annotations"] = {
                    "apps.kruise.io/matched-workloadspread": '{"name":"other","subset":"zone-a"}'
                }
            self.observe(pod["metadata"]["name"])
        self.replicas = len(self.pods)
        self.observe_workload()

    def replace(self) -> None:
        """One step of a rolling update: create one new pod, remove the cheapest old one."""
        self.create()
        self.settle()
        self.delete(self.cheapest(f"hash{self.revision - 1}"))

    # -- what came of it -----------------------------------------------------------------------

    def outcome(self) -> JsonObject:
        rows = [r for r in (self.state.find(NAMESPACE, n)[1] for n in self.pods) if r is not None]
        names = [s.name for s in self.spread.subsets]
        mine = {r.name: r.subset if r.placed_by == self.spread.name else "" for r in rows}
        status = self.view.status or {}
        costs: dict[str, set[str]] = {}
        values = []
        for row in rows:
            value = self.pods[row.name]["metadata"].get("annotations", {}).get(DELETION_COST_ANNOTATION)
            if value is not None:
                values.append(int(value))
                for group in (mine[row.name] or "*uninjected", "*"):
                    costs.setdefault(group, set()).add(value)
        entries = {e["name"]: e for e in status.get("subsetStatuses") or ()}
        by_version = {
            which: dict(Counter(mine[r.name] for r in rows if r.revision == f"hash{revision}"))
            for which, revision in (("old", self.revision - 1), ("new", self.revision))
        }
        return {
            "podsPerSubset": {n: sum(s == n for s in mine.values()) for n in names},
            "podsPerVersion": {w: {n: c.get(n, 0) for n in names} for w, c in by_version.items()},
            "running": {
                n: sum(mine[r.name] == n and self.pods[r.name]["status"]["phase"] == "Running" for r in rows)
                for n in names
            },
            "replicas": {n: e["replicas"] for n, e in entries.items()},
            "missing": {n: e["missingReplicas"] for n, e in entries.items()},
            "costs": {group: sorted(found) for group, found in costs.items()},
            "conditions": {
                n: next((c["status"] for c in e.get("conditions") or () if c["type"] == "Schedulable"), None)
                for n, e in entries.items()
            },
            "uninjected": sum(not s for s in mine.values()),
            "positiveCosts": sum(v > 0 for v in values),
            "negativeCosts": sum(v < 0 for v in values),
            "zeroCosts": len(rows) - sum(v != 0 for v in values),
            "podPriority": max((p["spec"].get("priority", 0) for p in self.pods.values()), default=0),
        }


def pods_named(do: str) -> list[tuple[str, int]]:
    """`1 PS, 2 worker pods created` or `three pods created` as roles and counts."""
    told = [(role, int(n)) for n, role in re.findall(r"(\d+) (\w+)", do) if role != "pods"]
    if told:
        return told
    word = do.split()[0]
    return [("", NUMBERS[word] if word in NUMBERS else int(word))]


def run_story(case: Case) -> list[str] | None:
    """What differed after each step; None when a step is not known."""
    story = Story(case)
    story.open()
    found: list[str] = []
    for n, step in enumerate(case["event"]["steps"]):
        try:
            story.step(step["do"], step.get("replicas"))
        except Untold:
            return None
        have = story.outcome()
        for key, want in step["expect"].items():
            if isinstance(want, Mapping):
                have_part = {k: have[key].get(k) for k in want}
                want_part = {k: sorted(v) if isinstance(v, list) else v for k, v in want.items()}
                if have_part != want_part:
                    found.append(f"step {n} ({step['do']}): {key}: expected {want_part}, found {have_part}")
            elif have[key] != want:
                found.append(f"step {n} ({step['do']}): {key}: expected {want}, found {have[key]}")
    return found
