"""A fake cluster around the shard manager's fold: API, actuator and watcher in one, under a test's clock.

It models what matters to a manager of pods: deletion with grace (the object stays, with a deletion
time), names that are taken, new uids for old names, refusals, and facts that arrive later than the
answers (`lag`). Nothing moves by itself: a test says what happens next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tidewright.actuator.requests import LeaseHeld, lease_body, lease_patch
from tidewright.events import registry
from tidewright.events.base import Decision, Event, JsonObject, Outcome
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    HoldLease,
    PatchObject,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import ShardMemberGone, ShardMemberObserved, ShardSetObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.kube.mergepatch import merged
from tidewright.log.subjects import Slot
from tidewright.sharding.document import Document
from tidewright.sharding.wire import document_of
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.state import State
from tidewright.shardmanager.tell.tally import PassTally


class Pod(msgspec.Struct):
    name: str
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    phase: str = "Pending"
    ready: bool = False
    deleting_at: float | None = None
    manifest: JsonObject = {}


class Cluster:
    """One namespace `ns` and the slot of the log that it belongs to."""

    def __init__(self, namespace: str = "ns") -> None:
        self.namespace = namespace
        self.fold: Fold[State] = Fold(DECIDER, Slot("0"))
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.members: dict[str, JsonObject] = {}
        self.leases: dict[str, JsonObject] = {}
        self.status: JsonObject = {}
        self.timers: dict[str, float] = {}
        self.decided: list[Decision] = []
        self.log: list[Event] = []
        self.recorded: list[tuple[Event, list[Decision]]] = []
        self.refuse: Callable[[Effect], str] = lambda _effect: ""
        self.late: Callable[[Effect], bool] = lambda _effect: False
        """Whose answers wait in `unanswered`."""
        self.unanswered: list[Outcome] = []
        self.lag = False
        self.held: deque[Event] = deque()
        self.tally = PassTally()
        self._seq = 0
        self._uid = 0

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def document(self) -> Document:
        """The assignment as the last status says it: what workers see."""
        return document_of(self.status["assignment"])

    # What the outside does.

    def configure(self, *managers: JsonObject) -> list[Decision]:
        return self.submit(ConfigSet(at=self.now, name="shardmanager", data={"managers": list(managers)}))

    def template(
        self,
        version: str = "10",
        name: str = "kozmopropeller-template",
        container: str = "kozmopropeller",
        **spec: Any,
    ) -> list[Decision]:
        return self.submit(self.template_fact(version, name, container, **spec))

    def template_fact(self, version: str, name: str, container: str, **spec: Any) -> PodTemplateObserved:
        template = {"metadata": {}, "spec": {"containers": [{"name": container, "args": ["--x"], **spec}]}}
        return PodTemplateObserved(
            at=self.now, namespace=self.namespace, name=name, template=template, resource_version=version
        )

    def stateful_set(self, name: str, replicas: int) -> list[Decision]:
        return self.submit(self._workload(name, replicas))

    def _workload(self, name: str, replicas: int) -> WorkloadObserved:
        return WorkloadObserved(
            at=self.now,
            namespace=self.namespace,
            name=name,
            api_version="apps/v1",
            kind="StatefulSet",
            replicas=replicas,
        )

    def template_gone(self, name: str = "kozmopropeller-template") -> list[Decision]:
        return self.submit(PodTemplateGone(at=self.now, namespace=self.namespace, name=name))

    def shard_set(self, spec: JsonObject, name: str = "orders", generation: int = 1) -> list[Decision]:
        return self.submit(self.set_fact(spec, name, generation))

    def set_fact(self, spec: JsonObject, name: str = "orders", generation: int = 1) -> ShardSetObserved:
        return ShardSetObserved(
            at=self.now,
            namespace=self.namespace,
            name=name,
            uid="set-uid",
            generation=generation,
            spec=spec,
        )

    def member(self, name: str, incarnation: str, shard_set: str = "orders", **status: Any) -> list[Decision]:
        """A worker writes its record: it joins, renews, or reports."""
        record = f"{shard_set}-{name}-{incarnation}"
        found = self.members.setdefault(
            record,
            {
                "spec": {"shardSet": shard_set, "member": name, "incarnation": incarnation},
                "status": {"renewals": 0},
            },
        )
        found["status"] = {**found["status"], **status, "renewals": found["status"]["renewals"] + 1}
        return self._observe_member(record)

    def member_gone(self, record: str) -> list[Decision]:
        self.members.pop(record, None)
        return self.submit(ShardMemberGone(at=self.now, namespace=self.namespace, name=record))

    def add_pod(self, name: str, phase: str = "Running", **more: Any) -> Pod:
        self._uid += 1
        pod = Pod(
            name=name,
            uid=f"uid-{self._uid}",
            labels=more.get("labels", {}),
            annotations=more.get("annotations", {}),
            phase=phase,
            ready=phase == "Running",
            manifest=more.get("manifest", {}),
        )
        self.pods[name] = pod
        self._observe(name)
        return pod

    def run(self, *names: str) -> None:
        """Pods become Running and ready."""
        for name in names or list(self.pods):
            if self.pods[name].deleting_at is None:
                self.pods[name].phase, self.pods[name].ready = "Running", True
                self._observe(name)

    def fail(self, name: str, phase: str = "Failed") -> None:
        self.pods[name].phase, self.pods[name].ready = phase, False
        self._observe(name)

    def vanish(self, *names: str) -> None:
        """Terminating pods (or those named) are gone."""
        for name in names or [n for n, p in self.pods.items() if p.deleting_at is not None]:
            pod = self.pods.pop(name)
            self.submit(PodGone(at=self.now, namespace=self.namespace, name=name, uid=pod.uid))

    def advance(self, seconds: float) -> None:
        """Time passes; timers fire when they are due."""
        end = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= end]:
            at, key = min(due)
            del self.timers[key]
            self.now = max(self.now, at)
            self.submit(TimerFired(at=at, key=key))
        self.now = end

    def catch_up(self) -> None:
        """Deliver the facts that were held back by `lag`."""
        while self.held:
            self.deliver(self.held.popleft())

    def replayed(self) -> State:
        """The state of the same log, folded again with everything recomputed."""
        fold: Fold[State] = Fold(DECIDER, Slot("0"))
        for seq, event in enumerate(self.log, 1):
            fold.step(seq, registry.encode(event), event)
        return fold.state

    # The log, the actuator and the watcher.

    def submit(self, event: Event) -> list[Decision]:
        """Put one event on the log, and do what is decided about it."""
        if self.lag and not isinstance(event, Outcome | TimerFired):
            self.held.append(event)
            return []
        return self.deliver(event)

    def deliver(self, event: Event) -> list[Decision]:
        found: list[Decision] = []
        queue = deque([event])
        while queue:
            event = queue.popleft()
            self._seq += 1
            self.log.append(event)
            body = registry.encode(event)
            read = registry.decode(body)
            assert read == event
            event = read  # as it is read back: nothing that a test changes later is in the state
            folded: list[Decision] = []
            self.recorded.append((event, folded))
            step = self.fold.step(self._seq, body, event)
            self.tally.take(self.state, event, [decided.decision for decided in step])
            for decided in step:
                assert registry.decode(decided.body) == decided.decision
                if not decided.decision.shadow:
                    folded.append(decided.decision)
                found.append(decided.decision)
                queue.extend(self._act(decided.decision))
        self.decided.extend(found)
        return found

    def _act(self, decision: Decision) -> list[Event]:
        match decision:
            case SetTimer(key=key, due=due):
                self.timers[key] = due
                return []
            case SetStatus(status=status):
                self.status = status
                return [Applied(at=self.now, decision=decision.id)]
            case HoldLease():
                return [self._hold(decision)]
            case Effect():
                refusal = self.refuse(decision) or self._conflict(decision)
                if refusal:
                    return [Rejected(at=self.now, decision=decision.id, reason="Conflict", message=refusal)]
                facts = self._apply(decision)
                if self.lag:
                    self.held.extend(facts)
                    facts = []
                made = self.pods.get(decision.target.name) if isinstance(decision, CreateObject) else None
                created = made.uid if made is not None else ""
                result = {"uid": created} if created else {}
                outcome = Applied(at=self.now, decision=decision.id, result=result)
                if self.late(decision):
                    self.unanswered.append(outcome)
                    return facts
                return [outcome, *facts]
        return []

    def _conflict(self, effect: Effect) -> str:
        name = effect.target.name
        if effect.target.kind == "Lease":
            return self._lease_conflict(effect)
        match effect:
            case DeleteObject() if effect.target.kind == "ShardMember":
                return "" if name in self.members else f"{name} not found"
            case CreateObject() if name in self.pods:
                return f'pods "{name}" already exists'
            case DeleteObject() if name not in self.pods:
                return f'pods "{name}" not found'
            case DeleteObject() if effect.target.uid not in ("", self.pods[name].uid):
                return f"the uid of {name} is {self.pods[name].uid}"
            case PatchObject(expect=expect):
                found = self.members.get(name)
                if found is None:
                    return f"{name} not found"
                for pointer, wanted in expect.items():
                    section, key = pointer.strip("/").split("/")
                    if found[section].get(key) != wanted:
                        return f"{pointer} is {found[section].get(key)!r}, expected {wanted!r}"
        return ""

    def _hold(self, decision: HoldLease) -> Event:
        """As the actuator does it: on what stands there, under no other precondition."""
        name, lease = decision.target.name, self.leases.get(decision.target.name)
        if refusal := self.refuse(decision):
            return Failed(at=self.now, decision=decision.id, reason="Unavailable", message=refusal)
        try:
            body = lease_body(decision) if lease is None else lease_patch(decision, lease)
        except LeaseHeld as error:
            return Rejected(at=self.now, decision=decision.id, reason="LeaseHeld", result=error.record)
        self.leases[name] = merged(lease or {}, msgspec.json.decode(body or b"{}"))
        return Applied(at=self.now, decision=decision.id)

    def _lease_conflict(self, effect: Effect) -> str:
        found = self.leases.get(effect.target.name)
        match effect:
            case CreateObject():
                return f"{effect.target.name} already exists" if found else ""
            case PatchObject(expect=expect) if found is not None:
                for pointer, wanted in expect.items():
                    held = found["spec"].get(pointer.rpartition("/")[2])
                    if held != wanted:
                        return f"{pointer} is {held!r}, expected {wanted!r}"
                return ""
        return "" if found else f"{effect.target.name} not found"

    def _apply_lease(self, effect: Effect) -> None:
        match effect:
            case CreateObject(manifest=manifest):
                self.leases[effect.target.name] = {"spec": dict(manifest["spec"])}
            case PatchObject(patch=patch):
                self.leases[effect.target.name]["spec"].update(patch["spec"])
            case DeleteObject():
                del self.leases[effect.target.name]

    def _apply(self, effect: Effect) -> list[Event]:
        name = effect.target.name
        if effect.target.kind == "Lease":
            self._apply_lease(effect)
            return []
        match effect:
            case CreateObject(manifest=manifest):
                meta: Mapping[str, Any] = manifest["metadata"]
                self._uid += 1
                self.pods[name] = Pod(
                    name=name,
                    uid=f"uid-{self._uid}",
                    labels=dict(meta["labels"]),
                    annotations={**meta["annotations"], "tidewright.dev/decision": effect.id},
                    manifest=manifest,
                )
                return [self.fact(name)]
            case DeleteObject() if effect.target.kind == "ShardMember":
                del self.members[name]
                return [ShardMemberGone(at=self.now, namespace=self.namespace, name=name)]
            case DeleteObject():
                pod = self.pods[name]
                pod.deleting_at = pod.deleting_at or self.now
                return [self.fact(name)]
            case ScaleWorkload(replicas=replicas):
                return [self._workload(name, replicas)]
            case PatchObject(patch=patch):
                self.members[name]["spec"].update(patch["spec"])
                return [self._member_fact(name)]
        return []

    def _observe(self, name: str) -> None:
        self.submit(self.fact(name))

    def _observe_member(self, record: str) -> list[Decision]:
        return self.submit(self._member_fact(record))

    def fact(self, name: str) -> PodObserved:
        pod = self.pods[name]
        return PodObserved(
            at=self.now,
            namespace=self.namespace,
            name=name,
            uid=pod.uid,
            phase=pod.phase,
            ready=pod.ready,
            deleting_at=pod.deleting_at,
            labels=pod.labels,
            annotations=pod.annotations,
            args={
                c["name"]: tuple(c["args"])
                for c in (pod.manifest.get("spec") or {}).get("containers", ())
                if c.get("args")
            },
        )

    def _member_fact(self, record: str) -> ShardMemberObserved:
        found = self.members[record]
        return ShardMemberObserved(
            at=self.now,
            namespace=self.namespace,
            name=record,
            spec=dict(found["spec"]),
            status=dict(found["status"]),
        )
