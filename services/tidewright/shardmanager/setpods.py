"""The pods of a ShardSet whose workers the manager starts itself (driver `pods`).

Which pods there ought to be, which step of a rollout is due, and, for workers that are told their
slots once and for all, when a pod may start: not before every pod that was told one of its slots is
proven gone. A terminating pod is not gone.
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import Decision, JsonObject, Outcome
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.shards import ChangeRollout
from tidewright.sharding.document import Document
from tidewright.shardmanager import claims, gates, setworkers, signals
from tidewright.shardmanager.fleet import KnownPod, Template
from tidewright.shardmanager.gateplan import GatePlan
from tidewright.shardmanager.members import MemberSeen
from tidewright.shardmanager.podplan import OLD, PodPlan
from tidewright.shardmanager.pods import ContainerMissing, find_container
from tidewright.shardmanager.podsof import id_of, index_of, is_managed, managed, overdue
from tidewright.shardmanager.rollout import ShardState
from tidewright.shardmanager.sets import ShardSetState
from tidewright.shardmanager.shardset import (
    SET_LABEL,
    Driver,
    Mode,
    SetSpec,
)
from tidewright.shardmanager.state import Asked, State


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
                if seen.name == event.name and not seen.record and member != id_of(after):
                    seen.lost = True
            current = id_of(after)
            shard_set.ready_at = {
                pod: at
                for pod, at in shard_set.ready_at.items()
                if pod == current or not pod.startswith(f"{event.name}#")
            }
            if shard_set.rollout.leaving == event.name:
                shard_set.rollout.leaving = ""
        if key not in state.touched:
            state.touched.append(key)


def answered(state: State, shard_set: ShardSetState, asked: Asked, outcome: Outcome) -> None:
    """How a creation, deletion or scale came out. A fact follows; what was refused is tried again later."""
    refusal = "" if isinstance(outcome, Applied) else outcome.message or outcome.reason
    there = state.pods.get(shard_set.namespace, {}).get(asked.name)
    if asked.verb == "create" and there is not None and is_managed(shard_set, there):
        refusal = ""  # the fact was faster than the answer: nothing is missing, and no further fact may come
    shard_set.answered(asked.verb, asked.name, state.now, refusal)
    if asked.verb == "delete" and isinstance(outcome, Applied):
        pod = state.pods.get(shard_set.namespace, {}).get(asked.name)
        if pod is not None:
            pod.deleting = True


def owners_by_pods(state: State, shard_set: ShardSetState, document: Document) -> list[str | None]:
    """With injected workers a slot belongs to the pod that was told so; nobody can be moved a slot."""
    target: list[str | None] = [record.owner or None for record in document.slots]
    for pod in managed(state, shard_set):
        member = id_of(pod)
        if member in document.members and not gates.closed(shard_set, pod.name):
            for slot in claims.slots_of(pod):
                if slot < len(target) and not target[slot]:
                    target[slot] = member
    return target


def ends(state: State, shard_set: ShardSetState, seen: MemberSeen) -> bool:
    """Whether the pod of a worker that can hand over is on its way out: it need not wait for the signal."""
    if shard_set.spec.driver is not Driver.PODS or not shard_set.spec.dynamic:
        return False
    pod = state.pods.get(shard_set.namespace, {}).get(seen.name)
    return pod is not None and pod.deleting and is_managed(shard_set, pod)


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
    if spec.mode is Mode.GATE:
        gated = GatePlan(state, shard_set, template)
        return Pods(decisions=tuple(gated.decisions()), wake_at=gated.wake_at())
    plan = PodPlan(state, shard_set, template)
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
            rollout.backlog = rollout.canary_since = None
            rollout.judged = rollout.why = ""
            if rollout.good is None:
                rollout.good = template
        case "paused":
            rollout.paused, rollout.resumes, rollout.why = True, shard_set.spec.resumes, event.reason
            if shard_set.spec.rollback_auto and template is not None and template != rollout.good:
                rollout.rejected = template.version
        case "resumed":
            rollout.paused, rollout.progress_at = False, event.at
            rollout.rejected, rollout.resumes = "", shard_set.spec.resumes
            rollout.canary_since, rollout.why = None, ""
        case "draining":
            rollout.leaving = event.pod
            rollout.backlog = signals.backlog(shard_set)
        case "canary":
            rollout.canary_since = event.at
        case "approved":
            rollout.judged, rollout.progress_at = event.generation, event.at
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
    if shard_set.spec.mode is Mode.GATE:
        return GatePlan(state, shard_set, template).status(template)
    plan = PodPlan(state, shard_set, template)
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
        (
            "EffectRefused",
            "TemplateMissing",
            "TemplateUnusable",
            "ForeignPod",
            "ShardStuck",
            "RolloutPaused",
            "GateLost",
        ),
        "",
    )
    if lost := sorted(name for name, gate in shard_set.gates.items() if gate.lost):
        found["GateLost"] = (
            f"leases {', '.join(lost)} were taken by others while the manager held them: two workers may have acted"
        )
    template = wanted_template(state, shard_set)
    if template is None:
        found["TemplateMissing"] = f"podtemplate {shard_set.namespace}/{spec.template} not found"
    else:
        found["TemplateUnusable"] = _template_trouble(spec, template)
    pods = state.pods.get(shard_set.namespace, {})
    foreign = [
        n for n in sorted(pods) if index_of(shard_set, n) is not None and not is_managed(shard_set, pods[n])
    ]
    if foreign:
        found["ForeignPod"] = (
            f"pods {', '.join(foreign)} have a name of this set and are not of it; left alone"
        )
    found["EffectRefused"] = "; ".join(f"{w}: {why}" for w, why in sorted(shard_set.refused.items()))
    stuck = [p.name for p in managed(state, shard_set) if overdue(spec, p, state.now)]
    if stuck:
        found["ShardStuck"] = (
            f"pods {', '.join(stuck)} do not go away for {spec.fence_after_s:g} s: fence their nodes"
        )
    if shard_set.rollout.paused:
        deadline = f"no progress for {spec.progress_deadline_s:g} s"
        found["RolloutPaused"] = (
            deadline if shard_set.rollout.why in ("", "ProgressDeadlineExceeded") else shard_set.rollout.why
        )
    return found


def _template_trouble(spec: SetSpec, template: Template) -> str:
    """Why no pod can be made of a template, empty when one can."""
    try:
        container = find_container(template.template.get("spec") or {}, spec.container)
    except ContainerMissing:
        return f"podtemplate {spec.template} has no container {spec.container}"
    flag = setworkers.conflicting_flag(spec, container)
    return f"container {spec.container} of podtemplate {spec.template} has {flag} already" if flag else ""


def _note_readiness(shard_set: ShardSetState, pod: KnownPod, now: float) -> None:
    member = id_of(pod)
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
