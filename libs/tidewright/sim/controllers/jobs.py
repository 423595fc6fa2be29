"""Job: pods until enough of them succeeded, or too many failed.

Reads   Jobs and their pods
Writes  pods, the status; the Job itself when its time to live has run out
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewright.kube.conditions import find
from tidewright.kube.times import rfc3339, seconds_or_none
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    JOB,
    POD,
    Condition,
    Job,
    JsonObject,
    Key,
    Pod,
    owner_of,
)
from tidewright.sim.controllers.plan import Plan
from tidewright.sim.controllers.replicasets import pod_manifest
from tidewright.sim.controllers.writes import create, delete, patch

INDEX: Final = "batch.kubernetes.io/job-completion-index"
BURST: Final = 500
FIRST_BACKOFF_S: Final = 10.0
"""Log seconds before a failed pod is replaced; doubled with each further failure, up to 600."""


class Progress(msgspec.Struct, frozen=True):
    """Where a Job stands.

    Attributes:
        verdict: `""` while it goes on, else the type of its final condition.
        reason: of the final condition.
        want: how many pods should be active now.
    """

    want: int
    verdict: str = ""
    reason: str = ""
    message: str = ""


def progress(job: Job, succeeded: int, failed: int, active: int, now: float) -> Progress:
    """What a Job needs, given its pods so far. `now` is log time."""
    spec = job.spec
    if failed > spec.backoff_limit:
        return Progress(0, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    started = seconds_or_none(job.status.start_time) or 0.0
    deadline = spec.active_deadline_seconds
    if deadline is not None and started and not spec.suspend and now >= started + deadline:
        return Progress(0, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    if spec.completions is None:
        if succeeded and active == 0:
            return Progress(0, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        want = active if succeeded else spec.parallelism
    else:
        if succeeded >= spec.completions:
            return Progress(0, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        want = min(spec.parallelism, spec.completions - succeeded)
    return Progress(0 if spec.suspend else want)


def compressed(indexes: Iterable[int]) -> str:
    """Completed indexes as the API writes them: `0-2,5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def index_of(pod: Pod) -> int:
    """The completion index of an Indexed Job's pod; -1 without one."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else -1


class Jobs:
    """The controller."""

    kind = JOB
    name = "job"

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(JOB), cache.pods]

    def keys(self, item: Any) -> Iterable[Key]:
        if isinstance(item, Job):
            yield item.key
        elif isinstance(item, Pod):
            owner = item.metadata.controller
            if owner is not None and owner.kind == "Job":
                yield (item.metadata.namespace, owner.name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        job = cache.of(JOB).get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            return plan
        if _final(job) is not None:
            _expire(job, now, plan)
            return plan
        pods = cache.pods.owned(job.metadata.uid)
        active = [pod for pod in pods if pod.active]
        succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
        failed = [pod for pod in pods if pod.status.phase == "Failed"]
        indexed = job.spec.completion_mode == "Indexed"
        done = {index_of(pod) for pod in succeeded} if indexed else set()
        # Pods that were deleted after they ended still count: the status remembers them.
        successes = len(done) if indexed else max(len(succeeded), job.status.succeeded)
        failures = max(len(failed), job.status.failed)
        step = progress(job, successes, failures, len(active), now)
        if step.want < len(active):
            _shrink(active, len(active) - step.want, plan)
        elif step.want > len(active):
            wait_s = _backoff_s(failed, failures, now)
            if wait_s > 0:
                plan.look_again(wait_s)
            else:
                taken = done | {index_of(pod) for pod in active}
                _grow(job, step.want - len(active), taken if indexed else None, plan)
        _deadline(job, now, plan)
        _report(
            job,
            active,
            successes,
            failed=failures,
            done=done if indexed else None,
            step=step,
            now=now,
            plan=plan,
        )
        return plan


def _final(job: Job) -> Condition | None:
    for type_ in ("Complete", "Failed"):
        condition = find(job.status.conditions, type_)
        if condition is not None and condition.status == "True":
            return condition
    return None


def _expire(job: Job, now: float, plan: Plan) -> None:
    ttl_s = job.spec.ttl_seconds_after_finished
    final = _final(job)
    if ttl_s is None or final is None:
        return
    due = (seconds_or_none(final.last_transition_time) or 0.0) + ttl_s
    if now >= due:
        plan.writes.append(delete(JOB, job.key, job.metadata.uid, propagation="Foreground"))
    else:
        plan.look_again(due - now)


def _backoff_s(failed: Sequence[Pod], failures: int, now: float) -> float:
    """How long a replacement still waits after the last failure."""
    if not failures:
        return 0.0
    ended = max((pod.ready_since for pod in failed), default=0.0)
    return ended + min(600.0, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10)) - now


def _shrink(active: Sequence[Pod], count: int, plan: Plan) -> None:
    newest = sorted(active, key=lambda pod: (pod.ready, -pod.metadata.created, pod.metadata.name))
    plan.writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in newest[:count])


def _grow(job: Job, count: int, taken: set[int] | None, plan: Plan) -> None:
    metadata = job.metadata
    owner = owner_of(JOB, metadata)
    count = min(count, BURST)
    if taken is None:
        manifest = pod_manifest(
            job.spec.template, owner, generateName=f"{metadata.name}-", namespace=metadata.namespace
        )
        body = msgspec.json.encode(manifest)
        plan.writes.extend(create(POD, metadata.namespace, body) for _ in range(count))
        return
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    for _, index in zip(range(count), free, strict=False):
        manifest = pod_manifest(
            job.spec.template,
            owner,
            generateName=f"{metadata.name}-{index}-",
            namespace=metadata.namespace,
            annotations={INDEX: str(index)},
            labels={INDEX: str(index)},
        )
        spec = dict(manifest["spec"])
        spec["hostname"] = f"{metadata.name}-{index}"
        plan.writes.append(create(POD, metadata.namespace, {**manifest, "spec": spec}))


def _deadline(job: Job, now: float, plan: Plan) -> None:
    deadline = job.spec.active_deadline_seconds
    started = seconds_or_none(job.status.start_time) or 0.0
    if deadline is not None and started and not job.spec.suspend and started + deadline > now:
        plan.look_again(started + deadline - now)


def _report(
    job: Job,
    active: Sequence[Pod],
    succeeded: int,
    *,
    failed: int,
    done: set[int] | None,
    step: Progress,
    now: float,
    plan: Plan,
) -> None:
    status = job.status
    at = rfc3339(now)
    current: JsonObject = {
        "active": 0 if step.verdict else len(active),
        "ready": 0 if step.verdict else sum(pod.ready for pod in active),
        "succeeded": succeeded,
        "failed": failed,
    }
    if done is not None:
        current["completedIndexes"] = compressed(done)
    if job.spec.suspend:
        current["startTime"] = None
    elif status.start_time is None:
        current["startTime"] = at
    conditions = list(status.conditions)
    suspended = find(conditions, "Suspended")
    if job.spec.suspend and (suspended is None or suspended.status != "True"):
        _set(conditions, "Suspended", "True", reason="JobSuspended", message="Job suspended", at=at)
    elif not job.spec.suspend and suspended is not None and suspended.status == "True":
        _set(conditions, "Suspended", "False", reason="JobResumed", message="Job resumed", at=at)
    if step.verdict:
        early = "SuccessCriteriaMet" if step.verdict == "Complete" else "FailureTarget"
        _set(conditions, early, "True", reason=step.reason, message=step.message, at=at)
        _set(conditions, step.verdict, "True", reason=step.reason, message=step.message, at=at)
        if step.verdict == "Complete":
            current["completionTime"] = at
    recorded: JsonObject = {
        "active": status.active,
        "ready": status.ready,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "completedIndexes": status.completed_indexes,
        "startTime": status.start_time,
        "completionTime": status.completion_time,
    }
    if any(recorded[name] != value for name, value in current.items()) or conditions != status.conditions:
        current["conditions"] = conditions
        plan.after.append(patch(JOB, job.key, {"status": current}, subresource="status"))


def _set(conditions: list[Condition], type_: str, status: str, *, reason: str, message: str, at: str) -> None:
    condition = Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=at)
    for index, known in enumerate(conditions):
        if known.type == type_:
            conditions[index] = condition
            return
    conditions.append(condition)
