"""The pods of a ShardSet whose workers the manager starts itself (driver `pods`).

Which pods there ought to be, which step of a rollout is due, and, for workers that are told their
slots once and for all, when a pod may start: not before every pod that was told one of its slots is
proven gone. A terminating pod is not gone.
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import Decision, JsonObject
from tidewright.sharding.document import Document
from tidewright.shardmanager.propeller.fleet import Template
from tidewright.shardmanager.propeller.pods import ContainerMissing, find_container
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.pods import claims, gates, workers
from tidewright.shardmanager.shardset.pods.gate_plan import GatePlan
from tidewright.shardmanager.shardset.pods.in_place import OLD, PodPlan
from tidewright.shardmanager.shardset.pods.marks import id_of, index_of, is_managed, managed, overdue
from tidewright.shardmanager.shardset.pods.rollbacks import wanted_template
from tidewright.shardmanager.shardset.pods.rollout import ShardState
from tidewright.shardmanager.shardset.spec import (
    Driver,
    Mode,
    SetSpec,
)
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done about the pods, and when to look again without any event."""

    decisions: tuple[Decision, ...] = ()
    wake_at: float | None = None


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


def next_pods(state: State, shard_set: ShardSetState, document: Document) -> Pods:
    """One step: create what is missing, or replace one pod that is outdated."""
    spec = shard_set.spec
    template = wanted_template(state, shard_set)
    if spec.driver is not Driver.PODS or template is None or not document.slots:
        return Pods()
    if _template_trouble(spec, template):
        return Pods()  # reported as trouble; the pods that run go on
    if spec.handover is Mode.GATE:
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


def rollout_status(state: State, shard_set: ShardSetState) -> JsonObject | None:
    """How far the rollout is, None for sets whose pods are not ours to start."""
    template = wanted_template(state, shard_set)
    if shard_set.spec.driver is not Driver.PODS or template is None or not shard_set.document.slots:
        return None
    if _template_trouble(shard_set.spec, template):
        return None
    if shard_set.spec.handover is Mode.GATE:
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
    reports = dict.fromkeys(
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
        reports["GateLost"] = (
            f"leases {', '.join(lost)} were taken by others while the manager held them: two workers may have acted"
        )
    template = wanted_template(state, shard_set)
    if template is None:
        reports["TemplateMissing"] = f"podtemplate {shard_set.namespace}/{spec.template} not found"
    else:
        reports["TemplateUnusable"] = _template_trouble(spec, template)
    pods = state.pods.get(shard_set.namespace, {})
    foreign = [
        n for n in sorted(pods) if index_of(shard_set, n) is not None and not is_managed(shard_set, pods[n])
    ]
    if foreign:
        reports["ForeignPod"] = (
            f"pods {', '.join(foreign)} have a name of this set and are not of it; left alone"
        )
    reports["EffectRefused"] = "; ".join(f"{w}: {why}" for w, why in sorted(shard_set.refused.items()))
    stuck = [p.name for p in managed(state, shard_set) if overdue(spec, p, state.now)]
    if stuck:
        reports["ShardStuck"] = (
            f"pods {', '.join(stuck)} do not go away for {spec.fence_after_s:g} s: fence their nodes"
        )
    if shard_set.rollout.paused:
        deadline = f"no progress for {spec.progress_deadline_s:g} s"
        reports["RolloutPaused"] = (
            deadline if shard_set.rollout.why in ("", "ProgressDeadlineExceeded") else shard_set.rollout.why
        )
    return reports


def _template_trouble(spec: SetSpec, template: Template) -> str:
    """Why no pod can be made of a template, empty when one can."""
    try:
        container = find_container(template.template.get("spec") or {}, spec.container)
    except ContainerMissing:
        return f"podtemplate {spec.template} has no container {spec.container}"
    flag = workers.conflicting_flag(spec, container)
    return f"container {spec.container} of podtemplate {spec.template} has {flag} already" if flag else ""
