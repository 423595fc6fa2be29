"""One step over the pods of a ShardSet in gate mode: stand by, stop one old pod, open what is free."""

from __future__ import annotations

from collections.abc import Iterator

from tidewright.events.base import Because, Decision, JsonObject, ObjectRef
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.shards import ChangeRollout, RolloutChange
from tidewright.shardmanager.propeller.fleet import KnownPod, Template
from tidewright.shardmanager.shardset.pods import claims, gates, workers
from tidewright.shardmanager.shardset.pods.marks import deletion, digest_of, id_of, managed, overdue, set_ref
from tidewright.shardmanager.shardset.pods.rollbacks import rejected
from tidewright.shardmanager.shardset.spec import GENERATION_ANNOTATION, INDEX_LABEL, SET_LABEL
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State

_ENDED = ("Failed", "Succeeded")


class GatePlan:
    """The pods and locks of one set against what they ought to be, at one moment.

    While a rollout is paused the last good generation is what ought to be: what is lost comes back as
    it was, nothing is stopped, and a shard opens only where all that acted on its work is gone.
    """

    def __init__(self, state: State, shard_set: ShardSetState, template: Template) -> None:
        rollout = shard_set.rollout
        self.state, self.shard_set, self.spec, self.now = state, shard_set, shard_set.spec, state.now
        self.paused = self.spec.paused or rollout.paused
        self.wanted = template
        self.template = rollout.good if self.paused and rollout.good is not None else template
        self.table = workers.tables(shard_set)
        self.claims = [workers.claim(shard_set, index, self.table) for index in range(shard_set.size)]
        self.generation = self._generation()
        pods = managed(state, shard_set)
        self.new: dict[int, KnownPod] = {}
        self.old: list[KnownPod] = []
        for pod in pods:
            name = gates.read_pod(shard_set, pod.name)
            if name is not None and name.generation == self.generation and name.index < shard_set.size:
                self.new[name.index] = pod
            else:
                self.old.append(pod)

    def decisions(self) -> Iterator[Decision]:
        yield from self._rollout_changes()
        yield from self._ended()
        yield from self._standing_by()
        yield from self._releases()
        yield from self._stops()
        yield from self._upkeep()

    @property
    def done(self) -> bool:
        """Whether every shard runs as it ought to, and nothing else does."""
        ready = all(self._settled(self.new.get(index)) for index in range(self.shard_set.size))
        return ready and not self.old and not any(self._gated(index) for index in range(self.shard_set.size))

    def status(self, template: Template) -> JsonObject:
        """How far the rollout is, as the set's status says it."""
        expected = [gates.pod_of(self.shard_set, self.generation, i) for i in range(self.shard_set.size)]
        unready = [name for index, name in enumerate(expected) if not self._settled(self.new.get(index))]
        waiting = [name for index, name in enumerate(expected) if self._gated(index)]
        complete = self.shard_set.rollout.complete and self.done
        return {
            "state": "Paused" if self.paused else "Complete" if complete else "Progressing",
            "shards": self.shard_set.size,
            "outdated": [pod.name for pod in self.old],
            "notReady": unready,
            "standingBy": waiting,
            "draining": "",
            "template": template.version,
            "waitsFor": "" if complete else self._waits_for(),
        }

    def wake_at(self) -> float | None:
        """When a pod will have been ready for long enough, a lock is to be renewed, or a deadline passes."""
        dues = [at + self.spec.min_ready_s for at in self.shard_set.ready_at.values()]
        dues += [
            gate.opened_at + self.spec.min_ready_s
            for gate in self.shard_set.gates.values()
            if gate.state == "open"
        ]
        dues += self.shard_set.holds()
        dues += [
            pod.deleting_since + self.spec.fence_after_s
            for pod in (*self.old, *self.new.values())
            if pod.deleting_since is not None
        ]
        if not self.shard_set.rollout.complete and not self.paused:
            dues.append(self.shard_set.rollout.progress_at + self.spec.progress_deadline_s + 1)
        dues = [due for due in dues if due > self.now]
        dues += [
            max(self.now, gate.renewed_at + gates.RENEW_S)
            for name, gate in self.shard_set.gates.items()
            if gate.state == "held" and not self._in_flight("take", name)
        ]
        return min(dues, default=None)

    # The steps.

    def _rollout_changes(self) -> Iterator[ChangeRollout]:
        rollout = self.shard_set.rollout
        if rollout.template is None or rollout.template.template != self.wanted.template:
            yield self._change("started", "TemplateChanged")
        elif rollout.paused and self.spec.resumes != rollout.resumes:
            yield self._change("resumed", "Asked")
        elif not rollout.complete and not self.paused and self.done:
            yield self._change("complete", "AllReady")
        elif rollout.complete and self.old:
            yield self._change("started", "ShardsChanged")
        elif (
            not rollout.complete
            and not self.paused
            and self.now - rollout.progress_at > self.spec.progress_deadline_s
        ):
            yield self._change("paused", "ProgressDeadlineExceeded")

    def _ended(self) -> Iterator[DeleteObject]:
        """Pods that have ended are removed, and by force those that do not go where the set allows it."""
        for pod in (*self.old, *self.new.values()):
            if pod.phase in _ENDED and not pod.deleting:
                yield from self._delete(pod, "ShardFailed")
            elif (
                self.spec.force_delete
                and overdue(self.spec, pod, self.now)
                and id_of(pod) not in self.shard_set.forced
            ):
                yield from self._delete(pod, "ShardStuck", grace_period_s=0)

    def _standing_by(self) -> Iterator[Decision]:
        """A lock for each shard whose work somebody may still do, then its pod."""
        for index in range(self.shard_set.size):
            pod, lock = self._pod_name(index), self._lock(index)
            gate = self.shard_set.gates.get(lock)
            if index in self.new or pod in self.state.pods.get(self.shard_set.namespace, {}):
                continue
            if gate is None and self._rivals(index):
                if not self.shard_set.held("create", lock, self.now) and not self._in_flight("create", lock):
                    yield gates.make(self.shard_set, lock, self.now)
                continue
            if gate is not None and gate.state == "stale" and not self._in_flight("delete", lock):
                yield gates.remove(self.shard_set, lock, self.now)
            if gate is not None and gate.state in ("asked", "stale"):
                continue
            if self._rivals(index) and gate is not None and gate.state != "held":
                continue  # it was open before; what acts on its work now has to go first
            if not self.shard_set.held("create", pod, self.now) and not self._in_flight("create", pod):
                yield self._create(index)

    def _releases(self) -> Iterator[Decision]:
        for index, pod in sorted(self.new.items()):
            lock = self._lock(index)
            if self._gated(index) and not pod.deleting and not self._rivals(index):
                gate = self.shard_set.gates[lock]
                if gate.state == "held" and not self._in_flight("take", lock):
                    yield gates.release(self.shard_set, lock, self.now)

    def _stops(self) -> Iterator[DeleteObject]:
        """One old pod at a time, when all that are to follow stand by; those of one new shard back to back."""
        acting = [pod for pod in self.old if not gates.closed(self.shard_set, pod.name)]
        idle = [pod for pod in self.old if pod not in acting and not pod.deleting]
        if self.paused:
            return
        for pod in idle:
            yield from self._delete(pod, "ShardOutdated")  # it waits at a gate: nobody notices
        if not all(self._settled(self.new.get(index)) for index in range(self.shard_set.size)):
            return
        leaving = [pod for pod in acting if pod.deleting]
        staying = [pod for pod in acting if not pod.deleting]
        if not staying or len(leaving) >= self.spec.max_unavailable:
            return
        begun = [index for index in self.new if self._gated(index) and self._begun(index)]
        first = next((pod for pod in staying if any(self._overlaps(i, pod) for i in begun)), None)
        if first is None and not self._opening():
            first = staying[0]
        if first is not None:
            yield from self._delete(first, "ShardOutdated")

    def _upkeep(self) -> Iterator[Decision]:
        """Renew what is held; remove the locks of generations that are over."""
        present = {pod.name for pod in (*self.old, *self.new.values())}
        for name, gate in sorted(self.shard_set.gates.items()):
            if self._in_flight("take", name):
                continue
            pod = gates.pod_of(self.shard_set, gate.generation, gate.index)
            current = gate.generation == self.generation and gate.index < self.shard_set.size
            if not current and pod not in present and gate.state not in ("asked", "stale"):
                yield gates.remove(self.shard_set, name, self.now)
            elif gate.state == "held" and self.now >= gate.renewed_at + gates.RENEW_S:
                yield gates.renew(self.shard_set, name, self.now)

    # What is so.

    def _rivals(self, index: int) -> list[KnownPod]:
        """The pods that may act on a part of a shard's work, those on their way out too."""
        own = self.new.get(index)
        others = [pod for pod in (*self.old, *self.new.values()) if pod is not own]
        return [
            pod
            for pod in others
            if not gates.closed(self.shard_set, pod.name)
            and claims.overlap(self.claims[index], claims.told(pod))
        ]

    def _overlaps(self, index: int, pod: KnownPod) -> bool:
        return claims.overlap(self.claims[index], claims.told(pod))

    def _begun(self, index: int) -> bool:
        """Whether a part of a closed shard's work has no owner already, so that the rest is to follow at once."""
        mine = self.claims[index]
        covered = [claims.told(pod) for pod in self._rivals(index)]
        return not mine.mapped and any(
            all(slot not in claim.slots for claim in covered) for slot in mine.slots
        )

    def _opening(self) -> bool:
        """Whether a shard is just going live."""
        return any(
            gate.state == "opening"
            or (gate.state == "open" and gate.opened_at + self.spec.min_ready_s > self.now)
            for gate in self.shard_set.gates.values()
            if gate.generation == self.generation
        )

    def _gated(self, index: int) -> bool:
        gate = self.shard_set.gates.get(self._lock(index))
        return gate is not None and gate.state != "open"

    def _settled(self, pod: KnownPod | None) -> bool:
        if pod is None or pod.deleting:
            return False
        since = self.shard_set.ready_at.get(id_of(pod))
        return since is not None and since + self.spec.min_ready_s <= self.now

    def _waits_for(self) -> str:
        if self.paused:
            return "Paused"
        if not all(self._settled(self.new.get(index)) for index in range(self.shard_set.size)):
            return "StandBy"
        return "OldPods" if self.old else "MinReadySeconds"

    def _in_flight(self, verb: str, name: str) -> bool:
        return f"{verb} {self.shard_set.namespace}/{name}" in self.state.in_flight

    def _pod_name(self, index: int) -> str:
        return gates.pod_of(self.shard_set, self.generation, index)

    def _lock(self, index: int) -> str:
        return gates.lock_of(self.shard_set, self.generation, index)

    # How it is asked for.

    def _generation(self) -> str:
        per_shard = []
        for index, claim in enumerate(self.claims):
            injected = workers.injected(self.shard_set, index, self.table)
            per_shard.append([list(injected.args), injected.env, claim.annotation])
        return digest_of([self.template.template, per_shard])[:8]

    def _create(self, index: int) -> CreateObject:
        metadata, spec = workers.pod_parts(
            self.shard_set,
            self.template.template,
            index,
            self.table,
            name=self._pod_name(index),
            lock=self._lock(index),
            annotations={
                GENERATION_ANNOTATION: self.generation,
                **workers.said(self.shard_set, index, self.table),
            },
            labels={SET_LABEL: self.shard_set.name, INDEX_LABEL: str(index)},
        )
        name = str(metadata["name"])
        return CreateObject(
            at=self.now,
            target=ObjectRef(api_version="v1", kind="Pod", namespace=self.shard_set.namespace, name=name),
            manifest={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
            because=(Because(rule="ShardMissing", values={"shard": index, "waits": self._gated(index)}),),
        )

    def _delete(self, pod: KnownPod, rule: str, grace_period_s: int | None = None) -> Iterator[DeleteObject]:
        yield from deletion(self.state, self.shard_set, pod, rule, grace_period_s)

    def _change(self, what: RolloutChange, reason: str) -> ChangeRollout:
        good = self.shard_set.rollout.good
        return ChangeRollout(
            at=self.now,
            target=set_ref(self.shard_set),
            state=what,
            generation=digest_of(self.wanted.template),
            last_good=digest_of(good.template) if good else "",
            reason=reason,
            rejected=rejected(self.shard_set, self.wanted) if what == "paused" else "",
            tables=workers.told_tables(self.shard_set, self.table) if what == "complete" else (),
        )
