"""The pods of a ShardSet whose workers the manager starts itself (driver `pods`).

Which pods there ought to be, which step of a rollout is due, and, for workers that are told their
slots once and for all, when a pod may start: not before every pod that was told one of its slots is
proven gone. A terminating pod is not gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import msgspec

from tidewright.events.base import Because, Decision, JsonObject, ObjectRef, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.shards import ChangeRollout, RolloutChange
from tidewright.sharding.document import Document
from tidewright.sharding.keyspace import parse_runs, runs
from tidewright.shardmanager import setworkers
from tidewright.shardmanager.fleet import KnownPod, Template
from tidewright.shardmanager.pods import ContainerMissing, find_container
from tidewright.shardmanager.rollout import Rollout, ShardState, ShardStatus, Step, next_step
from tidewright.shardmanager.sets import MemberSeen, ShardSetState
from tidewright.shardmanager.shardset import (
    API_VERSION,
    GENERATION_ANNOTATION,
    INDEX_LABEL,
    KIND,
    SET_LABEL,
    SLOTS_ANNOTATION,
    Driver,
    Mode,
    SetSpec,
)
from tidewright.shardmanager.state import Asked, State

OLD, NEW = 0, 1
_NOT_HERE = frozenset({ShardState.MISSING, ShardState.FAILED})


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done about the pods, and when to look again without any event."""

    decisions: tuple[Decision, ...] = ()
    wake_at: float | None = None


def fold_pod(state: State, event: PodObserved | PodGone) -> None:
    """Take in what a pod's change means to its set."""
    after = state.pods.get(event.namespace, {}).get(event.name)
    for key, shard_set in state.sets.items():
        if shard_set.namespace != event.namespace or index_of(shard_set, event.name) is None:
            continue
        shard_set.seen(event.name)
        if isinstance(event, PodObserved) and event.labels.get(SET_LABEL) == shard_set.name and after:
            _note_readiness(shard_set, after, state.now)
            if not shard_set.spec.dynamic:
                _member_of(shard_set, after)
        elif isinstance(event, PodGone) or after is None:
            for member, seen in shard_set.members.items():
                if seen.name == event.name and not seen.record and member != _id_of(after):
                    seen.lost = True
            current = _id_of(after)
            shard_set.ready_at = {
                pod: at
                for pod, at in shard_set.ready_at.items()
                if pod == current or not pod.startswith(f"{event.name}#")
            }
            if shard_set.rollout.leaving == event.name:
                shard_set.rollout.leaving = ""
        if key not in state.touched:
            state.touched.append(key)


def index_of(shard_set: ShardSetState, name: str) -> int | None:
    """The shard index in a pod's name, None when it is no pod name of this set."""
    stem, dash, number = name.rpartition("-")
    return int(number) if dash and stem == shard_set.name and number.isdecimal() else None


def answered(state: State, shard_set: ShardSetState, asked: Asked, outcome: Outcome) -> None:
    """How a creation, deletion or scale came out. A fact follows; what was refused is tried again later."""
    refusal = "" if isinstance(outcome, Applied) else outcome.message or outcome.reason
    shard_set.answered(asked.verb, asked.name, state.now, refusal)
    if asked.verb == "delete" and isinstance(outcome, Applied):
        pod = state.pods.get(shard_set.namespace, {}).get(asked.name)
        if pod is not None:
            pod.deleting = True


def owners_by_pods(state: State, shard_set: ShardSetState, document: Document) -> list[str | None]:
    """With injected workers a slot belongs to the pod that was told so; nobody can be moved a slot."""
    target: list[str | None] = [record.owner or None for record in document.slots]
    for pod in _managed(state, shard_set):
        member = _id_of(pod)
        if member in document.members:
            for slot in slots_of(pod):
                if slot < len(target) and not target[slot]:
                    target[slot] = member
    return target


def ends(state: State, shard_set: ShardSetState, seen: MemberSeen) -> bool:
    """Whether the pod of a worker that can hand over is on its way out: it need not wait for the signal."""
    if shard_set.spec.driver is not Driver.PODS or not shard_set.spec.dynamic:
        return False
    pod = state.pods.get(shard_set.namespace, {}).get(seen.name)
    return pod is not None and pod.deleting and _is_managed(shard_set, pod)


def slots_of(pod: KnownPod) -> list[int]:
    """The slots that a pod was told."""
    try:
        return parse_runs(pod.annotations.get(SLOTS_ANNOTATION, ""))
    except ValueError:
        return []


def settled(shard_set: ShardSetState) -> bool:
    """Whether no rollout is under way."""
    return shard_set.spec.driver is not Driver.PODS or shard_set.rollout.complete


def wanted_template(state: State, shard_set: ShardSetState) -> Template | None:
    """The template to roll out: the last good one after an undo, and for one that was rolled back."""
    rollout, key = shard_set.rollout, f"{shard_set.namespace}/{shard_set.spec.template}"
    found = state.templates.get(key) or rollout.template or rollout.good
    if found is None:
        return None
    if rollout.good is not None and (shard_set.spec.undo or found.version == rollout.rejected):
        return rollout.good
    return found


def next_pods(state: State, shard_set: ShardSetState, document: Document) -> Pods:
    """One step: create what is missing, or replace one pod that is outdated."""
    spec = shard_set.spec
    template = wanted_template(state, shard_set)
    if spec.driver is not Driver.PODS or template is None or not document.slots:
        return Pods()
    if _template_trouble(spec, template):
        return Pods()  # reported as trouble; the pods that run go on
    plan = _Plan(state, shard_set, template)
    decisions: list[Decision] = list(plan.rollout_changes())
    decisions += plan.lost()
    decisions += plan.forced()
    step = plan.step
    match step.action:
        case "pause":
            decisions.append(plan.change("paused", step.reason))
        case "replace":
            decisions += plan.replace(step, document)
    decisions += plan.creations()
    return Pods(decisions=tuple(decisions), wake_at=plan.wake_at())


def fold_rollout(state: State, shard_set: ShardSetState, event: ChangeRollout) -> None:
    """Take over a change of the rollout."""
    rollout = shard_set.rollout
    template = wanted_template(state, shard_set)
    match event.state:
        case "started":
            rollout.template, rollout.complete, rollout.paused = template, False, False
            rollout.progress_at = event.at
            if rollout.good is None:
                rollout.good = template
        case "paused":
            rollout.paused, rollout.resumes = True, shard_set.spec.resumes
            if shard_set.spec.rollback_auto and template is not None and template != rollout.good:
                rollout.rejected = template.version
        case "resumed":
            rollout.paused, rollout.progress_at = False, event.at
            rollout.rejected, rollout.resumes = "", shard_set.spec.resumes
        case "draining":
            rollout.leaving = event.pod
        case "complete":
            rollout.complete, rollout.good, rollout.paused = True, template, False
            table = setworkers.tables(shard_set)
            shard_set.index_table = setworkers.index_of_slot(table, shard_set.spec.slots)


def rollout_status(state: State, shard_set: ShardSetState) -> JsonObject | None:
    """How far the rollout is, None for sets whose pods are not ours to start."""
    template = wanted_template(state, shard_set)
    if shard_set.spec.driver is not Driver.PODS or template is None or not shard_set.document.slots:
        return None
    if _template_trouble(shard_set.spec, template):
        return None
    plan = _Plan(state, shard_set, template)
    name = shard_set.name
    outdated = [f"{name}-{s.index}" for s in plan.statuses if s.generation == OLD]
    unready = [f"{name}-{s.index}" for s in plan.statuses if s.state is not ShardState.READY]
    done = shard_set.rollout.complete and not outdated
    return {
        "state": "Paused" if plan.paused else "Complete" if done else "Progressing",
        "shards": shard_set.size,
        "outdated": outdated,
        "notReady": unready,
        "draining": shard_set.rollout.leaving,
        "template": template.version,
        "waitsFor": plan.step.reason,
    }


def troubles(state: State, shard_set: ShardSetState) -> dict[str, str]:
    """What a human should know about the pods; reason to message, empty where all is well."""
    spec = shard_set.spec
    if spec.driver is not Driver.PODS:
        return {}
    found = dict.fromkeys(
        ("EffectRefused", "TemplateMissing", "TemplateUnusable", "ForeignPod", "ShardStuck", "RolloutPaused"),
        "",
    )
    template = wanted_template(state, shard_set)
    if template is None:
        found["TemplateMissing"] = f"podtemplate {shard_set.namespace}/{spec.template} not found"
    else:
        found["TemplateUnusable"] = _template_trouble(spec, template)
    pods = state.pods.get(shard_set.namespace, {})
    foreign = [
        n for n in sorted(pods) if index_of(shard_set, n) is not None and not _is_managed(shard_set, pods[n])
    ]
    if foreign:
        found["ForeignPod"] = (
            f"pods {', '.join(foreign)} have a name of this set and are not of it; left alone"
        )
    found["EffectRefused"] = "; ".join(f"{w}: {why}" for w, why in sorted(shard_set.refused.items()))
    stuck = [p.name for p in _managed(state, shard_set) if _overdue(spec, p, state.now)]
    if stuck:
        found["ShardStuck"] = (
            f"pods {', '.join(stuck)} do not go away for {spec.fence_after_s:g} s: fence their nodes"
        )
    if shard_set.rollout.paused:
        found["RolloutPaused"] = f"no progress for {spec.progress_deadline_s:g} s"
    return found


def _overdue(spec: SetSpec, pod: KnownPod, now: float) -> bool:
    """Whether a pod has been on its way out for longer than it may."""
    return pod.deleting_since is not None and now >= pod.deleting_since + spec.fence_after_s


def _template_trouble(spec: SetSpec, template: Template) -> str:
    """Why no pod can be made of a template, empty when one can."""
    try:
        container = find_container(template.template.get("spec") or {}, spec.container)
    except ContainerMissing:
        return f"podtemplate {spec.template} has no container {spec.container}"
    flag = setworkers.conflicting_flag(spec, container)
    return f"container {spec.container} of podtemplate {spec.template} has {flag} already" if flag else ""


class _Plan:
    """The pods of one set against what they ought to be, at one moment."""

    def __init__(self, state: State, shard_set: ShardSetState, template: Template) -> None:
        self.state, self.shard_set, self.spec, self.now = state, shard_set, shard_set.spec, state.now
        self.template = template
        self.pods = {
            index: pod
            for pod in _managed(state, shard_set)
            if (index := index_of(shard_set, pod.name)) is not None
        }
        self.table = setworkers.tables(shard_set)
        self.digests = {i: self._digest(i, template) for i in range(shard_set.size)}
        indexes = sorted(set(range(shard_set.size)).union(self.pods))
        self.statuses = [s for i in indexes if (s := self._status(i)) is not None]
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
                approved=self.spec.approved,
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

    def change(self, what: RolloutChange, reason: str, pod: str = "") -> ChangeRollout:
        return ChangeRollout(
            at=self.now,
            target=_ref(self.shard_set),
            state=what,
            pod=pod,
            generation=_digest_of(self.template.template),
            last_good=_digest_of(self.shard_set.rollout.good.template) if self.shard_set.rollout.good else "",
            reason=reason,
        )

    def lost(self) -> Iterator[Decision]:
        """Pods that have ended are removed, so that their names are free."""
        for status in self.statuses:
            pod = self.pods.get(status.index)
            if status.state is ShardState.FAILED and pod is not None and not pod.deleting:
                yield from self._delete(pod, "ShardFailed")

    def forced(self) -> Iterator[Decision]:
        """Pods that do not go away are removed by force, where the set allows it because its sink checks epochs."""
        if self.spec.force_delete:
            for pod in self.pods.values():
                if _overdue(self.spec, pod, self.now) and _id_of(pod) not in self.shard_set.forced:
                    yield from self._delete(pod, "ShardStuck", grace_period_s=0)

    def replace(self, step: Step, document: Document) -> Iterator[Decision]:
        """Take one outdated pod out of service: drained first where its worker can be."""
        pod = self.pods[step.index]
        member = _member_named(self.shard_set, pod.name)
        drains = self.spec.dynamic and self.spec.mode is Mode.DRAIN and member is not None
        if drains and member is not None and member.id in document.members:
            others = [m for m in document.ready() if m != member.id]
            if document.owned_by(member.id) and others:
                if self.shard_set.rollout.leaving != pod.name:
                    yield self.change("draining", "ShardOutdated", pod.name)
                return
        yield from self._delete(pod, "ShardOutdated")

    def creations(self) -> Iterator[Decision]:
        """Missing pods, each as soon as nobody can still run one of its slots."""
        taken = {slot for pod in self.pods.values() for slot in slots_of(pod)}
        names = self.state.pods.get(self.shard_set.namespace, {})
        for index in range(self.shard_set.size):
            name = f"{self.shard_set.name}-{index}"
            if index in self.pods or name in names:
                continue
            mine = self.table[index]
            if not self.spec.dynamic and taken.intersection(mine):
                continue
            taken.update(mine)
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
        dues += [until for until in self.shard_set.holds.values() if until > self.now]
        return min(dues, default=None)

    def _status(self, index: int) -> ShardStatus | None:
        pod = self.pods.get(index)
        wanted = self.digests.get(index)
        if pod is None:
            blocked = not self.spec.dynamic and bool(
                {s for p in self.pods.values() for s in slots_of(p)}.intersection(self.table[index])
            )
            return None if blocked else ShardStatus(index=index, generation=NEW, state=ShardState.MISSING)
        current = NEW if pod.annotations.get(GENERATION_ANNOTATION) == wanted else OLD
        return ShardStatus(index=index, generation=current, state=self._state(pod))

    def _state(self, pod: KnownPod) -> ShardState:
        if pod.deleting:
            return ShardState.TERMINATING
        if pod.phase in ("Failed", "Succeeded"):
            return ShardState.FAILED
        since = self.shard_set.ready_at.get(_id_of(pod))
        if pod.phase == "Unknown":
            return ShardState.NOT_READY
        if since is None:
            return ShardState.STARTING
        return ShardState.SETTLING if since + self.spec.min_ready_s > self.now else ShardState.READY

    def _all_there(self) -> bool:
        return set(self.pods) == set(range(self.shard_set.size))

    def _digest(self, index: int, template: Template) -> str:
        injected = setworkers.injected(self.shard_set, index, self.table)
        return _digest_of([template.template, list(injected.args), injected.env, runs(self.table[index])])

    def _create(self, index: int, name: str) -> CreateObject:
        rollout = self.shard_set.rollout
        template = rollout.good if self.paused and rollout.good is not None else self.template
        metadata, spec = setworkers.pod_parts(
            self.shard_set,
            template.template,
            index,
            self.table,
            annotations={
                GENERATION_ANNOTATION: self._digest(index, template),
                SLOTS_ANNOTATION: runs(self.table[index]),
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
        if f"delete {self.shard_set.namespace}/{pod.name}" in self.state.in_flight:
            return
        if self.shard_set.held("delete", pod.name, self.now):
            return
        yield DeleteObject(
            at=self.now,
            target=ObjectRef(
                api_version="v1",
                kind="Pod",
                namespace=self.shard_set.namespace,
                name=pod.name,
                uid=pod.uid,
            ),
            grace_period_s=grace_period_s,
            because=(Because(rule=rule, values={"pod": pod.name, "phase": pod.phase}),),
        )


def _managed(state: State, shard_set: ShardSetState) -> list[KnownPod]:
    pods = state.pods.get(shard_set.namespace, {})
    return [pods[name] for name in sorted(pods) if _is_managed(shard_set, pods[name])]


def _is_managed(shard_set: ShardSetState, pod: KnownPod) -> bool:
    return (
        pod.labels.get(SET_LABEL) == shard_set.name
        and GENERATION_ANNOTATION in pod.annotations
        and index_of(shard_set, pod.name) is not None
    )


def _note_readiness(shard_set: ShardSetState, pod: KnownPod, now: float) -> None:
    member = _id_of(pod)
    if pod.ready and not pod.deleting and pod.phase == "Running":
        if member not in shard_set.ready_at:
            shard_set.ready_at[member] = now
            shard_set.rollout.progress_at = now
    else:
        shard_set.ready_at.pop(member, None)


def _member_of(shard_set: ShardSetState, pod: KnownPod) -> None:
    """An injected worker's pod is its membership: there from its start to its proven end."""
    member = MemberSeen(name=pod.name, incarnation=pod.uid)
    if member.id not in shard_set.members:
        for seen in shard_set.members.values():
            # A new pod of this name proves that the earlier one is gone, also when its end went unseen.
            seen.lost = seen.lost or (seen.name == pod.name and not seen.record)
        shard_set.members[member.id] = member


def _member_named(shard_set: ShardSetState, name: str) -> MemberSeen | None:
    return next((m for m in shard_set.members.values() if m.name == name and not m.lost), None)


def _id_of(pod: KnownPod | None) -> str:
    return f"{pod.name}#{pod.uid}" if pod is not None else ""


def _ref(shard_set: ShardSetState) -> ObjectRef:
    return ObjectRef(
        api_version=API_VERSION,
        kind=KIND,
        namespace=shard_set.namespace,
        name=shard_set.name,
        uid=shard_set.uid,
    )


_encoder = msgspec.json.Encoder(order="deterministic")


def _digest_of(content: JsonObject | Sequence[object]) -> str:
    return blake2b(_encoder.encode(content), digest_size=8).hexdigest()
