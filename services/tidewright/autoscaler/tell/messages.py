"""Object events of a pass, with the reference's reasons and texts (section 4.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.passes.evaluate import Pass
from tidewright.autoscaler.tell.go_format import without_operands
from tidewright.kube.times import readable

COMPONENT = "wpa_controller"
NORMAL = "Normal"
WARNING = "Warning"


class Message(NamedTuple):
    """An object event: type, reason, text."""

    type: str
    reason: str
    text: str


@lru_cache(maxsize=4096)
def time_text(at: float | None) -> str:
    """A time as the reference prints it: `2022-11-15 02:02:09 +0000 UTC`, or `<nil>`."""
    if at is None:
        return "<nil>"
    return f"{readable(at)} +0000 UTC"


def decided_not_to(rules: Rules, namespace: str, replicas: int, last_scale_at: float | None) -> str:
    """The end of both texts that say that nothing is scaled."""
    target = f"{rules.target_kind}/{namespace}/{rules.target_name}"
    return f"ecided not to scale {target} to {replicas} (last scale time was {time_text(last_scale_at)} )"


def not_scaling(
    rules: Rules, namespace: str, replicas: int, last_scale_at: float | None, *, strict: bool = False
) -> Message:
    text = f"D{decided_not_to(rules, namespace, replicas, last_scale_at)}"
    return Message(NORMAL, "NotScaling", without_operands(text) if strict else text)


def scaling(replicas: int, reason: str, *, strict: bool = False) -> Message:
    """A scale was written. Strictly, a `%` in the reason is taken for a verb to be filled in (D17)."""
    text = f"New size: {replicas}; reason: {reason}"
    return Message(NORMAL, "Scaling", without_operands(text) if strict else text)


def failed_scale(replicas: int, reason: str, error: str) -> Message:
    return Message(WARNING, "FailedScale", f"New size: {replicas}; reason: {reason}; error: {error}")


def failed_spec_check(text: str) -> Message:
    return Message(WARNING, "FailedSpecCheck", text)


def failed_monitor(error: str) -> Message:
    return Message(WARNING, "FailedGetDatadogMonitor", error)


def foreign_pods(evaluation: Pass) -> tuple[Message, ...]:
    """Ours: a metric's selector matches pods of other workloads, whose values are in the sum (D25)."""
    metrics = [calculation.display for calculation in evaluation.calculations if calculation.foreign]
    if not metrics:
        return ()
    text = f"pods of other workloads are in the sum of {', '.join(metrics)}: its selector matches more than the target's"
    return (Message(WARNING, "ForeignPods", text),)


def failed_process(error: str) -> Message:
    return Message(WARNING, "FailedProcessWPA", error)


def failure_reason(rules: Rules, index: int) -> str:
    """Reason of condition and object event when this metric failed; a recommender's is a Resource's (2.9)."""
    external = rules.recommender is None and rules.metrics[index].source == "external"
    return "FailedGetExternalMetric" if external else "FailedGetResourceMetric"


def compute_error(rules: Rules, evaluation: Pass) -> str:
    """Why no replica count could be computed, with what was being computed."""
    failure = evaluation.failure
    if failure is None:
        return ""
    if rules.recommender is not None:
        return f"failed to get the recommendation from {rules.recommender.url}: {failure.error}"
    metric = rules.metrics[evaluation.combined.failed]
    if metric.source == "external":
        return f"failed to compute replicas based on external metric {metric.name}: {failure.error}"
    return f"failed to get resource metric {metric.name}: {failure.error}"


def failed_compute(rules: Rules, evaluation: Pass) -> tuple[Message, ...]:
    """The two Warnings of a pass in which a metric failed."""
    failure = evaluation.failure
    if failure is None:
        return ()
    return (
        Message(WARNING, failure_reason(rules, evaluation.combined.failed), failure.error),
        Message(WARNING, "FailedComputeMetricsReplicas", compute_error(rules, evaluation)),
    )
