"""A watermark case as events through the autoscaler's decider: what it decides, and what is kept of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import msgspec

from tests.vectors.suite import Case
from tests.vectors.watermark_cases import Found, calculated, recommendation, sample
from tidewright.autoscaler.api import spec
from tidewright.autoscaler.api.status import Kept
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.fold.evolve import CONFIG
from tidewright.autoscaler.holds import INVALID_SPEC
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes import evaluate, passes
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.formula import int64
from tidewright.autoscaler.passes.measuring import UNTOLERATED_ZERO
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell import exposition
from tidewright.events import registry
from tidewright.events.autoscaler import DatadogMonitorObserved, WatermarkPodAutoscalerObserved
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import PatchObject, RecordObjectEvent, ScaleWorkload
from tidewright.events.facts import Owner, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied, Failed
from tidewright.host.fold.order import Fold
from tidewright.kube.conditions import find
from tidewright.kube.times import rfc3339
from tidewright.log.subjects import Slot

LABELS = {"pods": "of-the-target"}


def in_facts(case: Case) -> bool:
    """Whether facts can say the case: none says a readiness `Unknown`."""
    return all(pod["ready"] != "Unknown" for pod in case["inputs"].get("pods") or ())


class Decided:
    """What comes of one look at the object of a case, with the outcome of its scale."""

    def __init__(
        self, case: Case, policy: Policy, *, given: Sequence[Calculation] | None = None, body: bool = False
    ) -> None:
        """With `given`, what the metrics propose is what the case says. With `body`, its spec is taken as it is, whole or
        not: the case is of the body of a pass.
        """
        with ExitStack() as stack:
            if given is not None:
                stack.enter_context(patch.object(evaluate, "measure", lambda *_: tuple(given)))
            if body:
                stack.enter_context(patch.object(passes, "verdict", lambda *_, **__: ""))
            self._play(case, policy)

    def _play(self, case: Case, policy: Policy) -> None:
        inputs = case["inputs"]
        self._fold: Fold[State] = Fold(DECIDER, Slot("0"))
        self._seq = 0
        self.decisions: list[Decision] = []
        self.scaled = self.failed = False
        self._namespace, self._name = inputs.get("namespace", ""), inputs.get("name", "")
        now = inputs.get("now", 1.0)
        self._feed(ConfigSet(at=0.0, name=CONFIG, data=msgspec.to_builtins(policy)))
        for event in (*_surroundings(case, now), _object(case, now)):
            self._feed(event)
        for order in [d for d in self.decisions if isinstance(d, ScaleWorkload)]:
            reason = "DryRun" if order.dry_run else ""
            outcome: Event = Applied(at=now, decision=order.id, reason=reason)
            if inputs.get("scale_put_error"):
                message = "the object has been modified"
                outcome = Failed(at=now, decision=order.id, reason="Conflict", message=message)
                self.failed = not order.dry_run
            self.scaled = isinstance(outcome, Applied) and not order.dry_run
            self._feed(outcome)

    @property
    def kept(self) -> Kept:
        """What is kept of the object: all of it is in its status."""
        return self._fold.state.namespaces[self._namespace].objects[self._name].kept

    @property
    def events(self) -> list[list[str]]:
        """Type, reason and text of its object events."""
        return [
            [event.event_type, event.reason, event.message]
            for event in self.decisions
            if isinstance(event, RecordObjectEvent)
        ]

    @property
    def written(self) -> int | None:
        """The scale that was asked for; None without one."""
        return next(
            (d.replicas for d in self.decisions if isinstance(d, ScaleWorkload) and self.scaled), None
        )

    @property
    def reason(self) -> str:
        """Why the scale was asked for, in a dry run, too; empty without one."""
        scales = (d for d in self.decisions if isinstance(d, ScaleWorkload))
        steps = [s.values for d in scales for s in d.because if s.rule == "ScaleDecided"]
        return str(steps[-1]["reason"]) if steps else ""

    @property
    def refused(self) -> str | None:
        """Why its spec is not acted upon; None when it is."""
        steps = (step for decision in self.decisions for step in decision.because)
        return next((str(step.values["problem"]) for step in steps if step.rule == INVALID_SPEC), None)

    @property
    def counters(self) -> dict[str, float]:
        """What the exposition counts of written scales."""
        told = exposition.samples(self._fold.state)
        return {s.name.removeprefix(exposition.PREFIX): s.value for s in told if s.counter}

    @property
    def writes_spec(self) -> bool:
        """Whether the defaults are written into the spec."""
        return any(isinstance(d, PatchObject) for d in self.decisions)

    def _feed(self, event: Event) -> None:
        self._seq += 1
        self.decisions += [d.decision for d in self._fold.step(self._seq, registry.encode(event), event)]


def _surroundings(case: Case, now: float) -> Iterator[Event]:
    """All that is there before the object: its target, the pods, the answers to its queries, its monitor."""
    inputs, stored = case["inputs"], spec.decode(case["spec"])
    namespace, target = inputs.get("namespace", ""), stored.scale_target_ref
    if not inputs.get("scale_get_error"):
        yield WorkloadObserved(
            at=now,
            namespace=namespace,
            name=target.name,
            api_version=target.api_version,
            kind=target.kind,
            replicas=inputs.get("current_replicas", 0),
            status_replicas=inputs.get("status_replicas", 0),
            selector=",".join(f"{key}={value}" for key, value in LABELS.items()),
        )
    for pod in inputs.get("pods") or ():
        yield _pod(pod, namespace, now)
    try:
        rules = spec.parsed(case["spec"])
    except spec.InvalidSpec:
        return  # nothing is asked for
    for metric, answer in zip(rules.metrics, _answers(inputs, len(rules.metrics)), strict=True):
        said = sample(metric.source, answer.get("values_milli"), answer.get("error"), now)
        yield msgspec.structs.replace(said, namespace=namespace, name=metric.query)
    if (reply := recommendation(inputs.get("recommender_reply"), now)) is not None:
        yield msgspec.structs.replace(reply, namespace=namespace, name=inputs["name"])
    if (monitor := inputs.get("monitor")) is not None:
        state = monitor.get("monitorState")
        yield DatadogMonitorObserved(
            at=now, namespace=namespace, name=inputs["name"], state=state if isinstance(state, str) else None
        )


def _answers(inputs: Mapping[str, Any], count: int) -> Sequence[Mapping[str, Any]]:
    return inputs.get("metrics") or [{}] * count


def _pod(pod: Mapping[str, Any], namespace: str, now: float) -> PodObserved:
    ready = pod["ready"]
    return PodObserved(
        at=now,
        namespace=namespace,
        name=pod["name"],
        phase=pod["phase"],
        ready=None if not ready else ready == "True",
        ready_changed_at=pod["ready_transition_time"],
        started_at=pod["start_time"],
        deleting_at=now if pod.get("deleting") else None,
        labels=LABELS,
        owners=tuple(Owner(kind=o["kind"], name=o["name"]) for o in pod.get("owners") or ()),
    )


def _object(case: Case, now: float) -> WatermarkPodAutoscalerObserved:
    """The object with its status as it was stored last."""
    inputs = case["inputs"]
    status: dict[str, Any] = {
        "conditions": [
            {
                "type": entry["type"],
                "status": entry["status"],
                "lastTransitionTime": rfc3339(entry["last_transition_time"]),
            }
            for entry in inputs.get("conditions") or ()
        ],
        "currentReplicas": inputs.get("previous_current_replicas", 0),
        "desiredReplicas": inputs.get("previous_desired_replicas", 0),
        "scalingEventsCount": inputs.get("scaling_events_count", 0),
    }
    if inputs.get("last_scale_time") is not None:
        status["lastScaleTime"] = rfc3339(inputs["last_scale_time"])
    return WatermarkPodAutoscalerObserved(
        at=now,
        namespace=inputs.get("namespace", ""),
        name=inputs.get("name", ""),
        uid="uid",
        generation=1,
        spec=case["spec"],
        status=status,
        annotations=inputs.get("annotations") or {},
    )


def measured(decided: Decided, expected: Mapping[str, Any]) -> Found:
    """What the reasons and the status of a look say of its only metric, in the form of the cases."""
    steps = [step for decision in decided.decisions for step in decision.because]
    step = next(step for step in steps if step.rule in (*_READ, "MetricFailed"))
    values = step.values
    if step.rule == "MetricFailed":
        failed = Calculation(
            display=str(values["metric"]), error=str(values["error"]), error_class=str(values["class"])
        )
        return {"fault": expected["fault"]} if "fault" in expected else calculated(failed, expected)
    usage = values.get("value_milli", 0.0)
    found: Found = {
        "replicas": values["proposal"],
        "utilization_milli": int64(float(usage) if usage is not None else 0.0),
        "ready_replicas": values["ready"],
        "is_above": values.get("position") in ("above", "both"),
        "is_below": values.get("position") in ("below", "both"),
        "details": values.get("details", ""),
    }
    converging = find(decided.kept.conditions, c.CONVERGE)
    if converging is not None:
        found["converge_condition"] = {
            "status": str(converging.status),
            "reason": converging.reason,
            "message": converging.message,
        }
    return found


_READ = ("Measured", "Recommended", UNTOLERATED_ZERO)
