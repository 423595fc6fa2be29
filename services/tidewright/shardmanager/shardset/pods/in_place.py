"""One step over the pods of a ShardSet: create what is missing, replace one that is outdated.

For workers that are told their slots once and for all, a pod starts not before every pod that was told
one of its slots is proven gone. A terminating pod is not gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.shards import ChangeRollout, RolloutChange
from tidewright.sharding.document import Document
from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.propeller.fleet import KnownPod, Template
from tidewright.shardmanager.shardset import signals
from tidewright.shardmanager.shardset.pods import claims, workers
from tidewright.shardmanager.shardset.pods.marks import (
    deletion,
    digest_of,
    id_of,
    index_of,
    managed,
    member_named,
    overdue,
    set_ref,
)
from tidewright.shardmanager.shardset.pods.rollbacks import rejected
from tidewright.shardmanager.shardset.pods.rollout import (
    Rollout,
    RolloutStep,
    ShardState,
    ShardStatus,
    next_step,
)
from tidewright.shardmanager.shardset.spec import (
    GENERATION_ANNOTATION,
    INDEX_LABEL,
    SET_LABEL,
    CanaryAnalysis,
    Mode,
)
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State

OLD, NEW = 0, 1
_NOT_HERE = frozenset({ShardState.MISSING, ShardState.FAILED})


class PodPlan:
    """The pods of one set against what they ought to be, at one moment."""

    def __init__(self, state: State, shard_set: ShardSetState, template: Template) -> None:
        self.state, self.shard_set, self.spec, self.now = state, shard_set, shard_set.spec, state.now
        self.template = template
        self.pods: dict[int, KnownPod] = {}
        self.second: list[KnownPod] = []
        for pod in managed(state, shard_set):
            index = index_of(shard_set, pod.name)
            if index is not None and index in self.pods:
                self.second.append(pod)  # gate mode was left in the middle of a rollout
            elif index is not None:
                self.pods[index] = pod
        self.table = workers.tables(shard_set)
        self.digests = {i: self._digest(i, template) for i in range(shard_set.size)}
        indexes = sorted(set(range(shard_set.size)).union(self.pods))
        self.statuses = self._backlogged([s for i in indexes if (s := self._status(i)) is not None])
        here = tuple(s for s in self.statuses if s.state not in _NOT_HERE)
        self.paused = self.spec.paused or shard_set.rollout.paused
        under_way = shard_set.rollout.template is not None and not shard_set.rollout.complete
        self.step = next_step(
            Rollout(
                desired=NEW,
                shards=here,
                # What is missing is created by `creations`, and counts against the bound all the same.
                max_unavailable=max(0, self.spec.max_unavailable - (len(self.statuses) - len(here))),
                paused=self.paused,
                since_progress_s=self.now - shard_set.rollout.progress_at if under_way else 0.0,
                progress_deadline_s=self.spec.progress_deadline_s,
                canary=self.spec.canary,
                approved=self.spec.approved or shard_set.rollout.judged == digest_of(template.template),
            )
        )

    def rollout_changes(self) -> Iterator[Decision]:
        """A new template or shape starts a rollout; everything ready in it completes it."""
        rollout = self.shard_set.rollout
        if rollout.template is None or rollout.template.template != self.template.template:
            yield self.change("started", "TemplateChanged")
        elif rollout.paused and self.spec.resumes != rollout.resumes:
            yield self.change("resumed", "Asked")
        elif not rollout.complete and self.step.action == "done" and self._all_there():
            yield self.change("complete", "AllReady")
        elif rollout.complete and any(s.generation == OLD for s in self.statuses):
            yield self.change("started", "ShardsChanged")
        elif self.step.reason == "CanaryHold" and self.spec.analysis is not None:
            yield from self._judge_canary(self.spec.analysis)

    def _judge_canary(self, limits: CanaryAnalysis) -> Iterator[ChangeRollout]:
        """Let a canary pass that does as well as the others for long enough; pause for one that does not."""
        since = self.shard_set.rollout.canary_since
        if since is None:
            yield self.change("canary", "CanaryHold")
            return
        pods = {
            self.pods[s.index].name for s in self.statuses if s.generation == NEW and s.index in self.pods
        }
        verdict = signals.canary(self.shard_set, pods, limits)
        if verdict.worse:
            yield self.change("paused", f"CanaryFailed: {verdict.worse}")
        elif verdict.known and self.now >= since + limits.period_s:
            yield self.change("approved", "CanaryPassed")

    def _backlogged(self, statuses: list[ShardStatus]) -> list[ShardStatus]:
        """A replaced shard has not settled while more than twice the work waits than before the step."""
        before, now = self.shard_set.rollout.backlog, signals.backlog(self.shard_set)
        if before is None or now is None or now <= max(2 * before, signals.BACKLOG_FLOOR):
            return statuses
        return [
            msgspec.structs.replace(s, state=ShardState.SETTLING)
            if s.generation == NEW and s.state is ShardState.READY
            else s
            for s in statuses
        ]

    def change(self, what: RolloutChange, reason: str, pod: str = "") -> ChangeRollout:
        return ChangeRollout(
            at=self.now,
            target=set_ref(self.shard_set),
            state=what,
            pod=pod,
            generation=digest_of(self.template.template),
            last_good=digest_of(self.shard_set.rollout.good.template) if self.shard_set.rollout.good else "",
            reason=reason,
            rejected=rejected(self.shard_set, self.template) if what == "paused" else "",
            tables=workers.told_tables(self.shard_set, self.table) if what == "complete" else (),
        )

    def lost(self) -> Iterator[Decision]:
        """Pods that have ended are removed, so that their names are free."""
        for status in self.statuses:
            pod = self.pods.get(status.index)
            if status.state is ShardState.FAILED and pod is not None and not pod.deleting:
                yield from self._delete(pod, "ShardFailed")
        for pod in self.second:
            if not pod.deleting:
                yield from self._delete(pod, "ShardTwice")

    def forced(self) -> Iterator[Decision]:
        """Pods that do not go away are removed by force, where the set allows it because its sink checks epochs."""
        if self.spec.force_delete:
            for pod in self.pods.values():
                if overdue(self.spec, pod, self.now) and id_of(pod) not in self.shard_set.forced:
                    yield from self._delete(pod, "ShardStuck", grace_period_s=0)

    def replace(self, step: RolloutStep, document: Document) -> Iterator[Decision]:
        """Take one outdated pod out of service: drained first where its worker can be."""
        pod = self.pods[step.index]
        member = member_named(self.shard_set, pod.name)
        drains = self.spec.dynamic and self.spec.handover is Mode.DRAIN and member is not None
        if drains and member is not None and member.id in document.members:
            others = [m for m in document.ready() if m != member.id]
            if document.owned_by(member.id) and others:
                if self.shard_set.rollout.leaving != pod.name:
                    yield self.change("draining", "ShardOutdated", pod.name)
                return
        yield from self._delete(pod, "ShardOutdated")

    def creations(self) -> Iterator[Decision]:
        """Missing pods, each as soon as nobody can still run one of its slots."""
        names = self.state.pods.get(self.shard_set.namespace, {})
        if len(self.pods) >= self.shard_set.size and all(i in self.pods for i in range(self.shard_set.size)):
            return
        taken = [claims.told(pod) for pod in (*self.pods.values(), *self.second)]
        for index in range(self.shard_set.size):
            name = f"{self.shard_set.name}-{index}"
            if index in self.pods or name in names:
                continue
            mine = workers.claim(self.shard_set, index, self.table)
            if not self.spec.dynamic and any(claims.overlap(mine, other) for other in taken):
                continue
            taken.append(mine)
            if self.shard_set.held("create", name, self.now):
                continue
            if f"create {self.shard_set.namespace}/{name}" not in self.state.in_flight:
                yield self._create(index, name)

    def wake_at(self) -> float | None:
        """When a pod will have been ready for long enough, or the progress deadline passes."""
        dues = [
            at + self.spec.min_ready_s
            for at in self.shard_set.ready_at.values()
            if at + self.spec.min_ready_s > self.now
        ]
        if not self.shard_set.rollout.complete and not self.paused:
            deadline = self.shard_set.rollout.progress_at + self.spec.progress_deadline_s + 1
            dues += [deadline] if deadline > self.now else []
        dues += [
            pod.deleting_since + self.spec.fence_after_s
            for pod in self.pods.values()
            if pod.deleting_since is not None and pod.deleting_since + self.spec.fence_after_s > self.now
        ]
        dues += [until for until in self.shard_set.holds() if until > self.now]
        since, limits = self.shard_set.rollout.canary_since, self.spec.analysis
        if since is not None and limits is not None and since + limits.period_s > self.now:
            dues.append(since + limits.period_s)
        return min(dues, default=None)

    def _status(self, index: int) -> ShardStatus | None:
        pod = self.pods.get(index)
        digest = self.digests.get(index)
        if pod is None:
            mine = workers.claim(self.shard_set, index, self.table)
            blocked = not self.spec.dynamic and any(
                claims.overlap(mine, claims.told(other)) for other in self.pods.values()
            )
            return None if blocked else ShardStatus(index=index, generation=NEW, state=ShardState.MISSING)
        current = NEW if pod.annotations.get(GENERATION_ANNOTATION) == digest else OLD
        return ShardStatus(index=index, generation=current, state=self._state(pod))

    def _state(self, pod: KnownPod) -> ShardState:
        if pod.deleting:
            return ShardState.TERMINATING
        if pod.phase in ("Failed", "Succeeded"):
            return ShardState.FAILED
        since = self.shard_set.ready_at.get(id_of(pod))
        if pod.phase == "Unknown":
            return ShardState.NOT_READY
        if since is None:
            return ShardState.STARTING
        return ShardState.SETTLING if since + self.spec.min_ready_s > self.now else ShardState.READY

    def _all_there(self) -> bool:
        return set(self.pods) == set(range(self.shard_set.size))

    def _digest(self, index: int, template: Template) -> str:
        injected = workers.injected(self.shard_set, index, self.table)
        return digest_of([template.template, list(injected.args), injected.env, runs(self.table[index])])

    def _create(self, index: int, name: str) -> CreateObject:
        rollout = self.shard_set.rollout
        template = rollout.good if self.paused and rollout.good is not None else self.template
        metadata, spec = workers.pod_parts(
            self.shard_set,
            template.template,
            index,
            self.table,
            name=name,
            annotations={
                GENERATION_ANNOTATION: self._digest(index, template),
                **workers.said(self.shard_set, index, self.table),
            },
            labels={SET_LABEL: self.shard_set.name, INDEX_LABEL: str(index)},
        )
        return CreateObject(
            at=self.now,
            target=ObjectRef(api_version="v1", kind="Pod", namespace=self.shard_set.namespace, name=name),
            manifest={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
            because=(
                Because(rule="ShardMissing", values={"shard": index, "slots": runs(self.table[index])}),
            ),
        )

    def _delete(self, pod: KnownPod, rule: str, grace_period_s: int | None = None) -> Iterator[DeleteObject]:
        yield from deletion(self.state, self.shard_set, pod, rule, grace_period_s)
