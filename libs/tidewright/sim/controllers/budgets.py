"""PodDisruptionBudget: how many disruptions are allowed right now.

Reads   PodDisruptionBudgets, the pods that they select, those pods' workloads
Writes  the budgets' status (the eviction subresource counts down from it)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tidewright.kube.conditions import find, transition
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.times import rfc3339, seconds_or_none
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    REPLICA_SET,
    STATEFUL_SET,
    Condition,
    JsonObject,
    Key,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    share,
)
from tidewright.sim.controllers.plan import Plan
from tidewright.sim.controllers.writes import patch

DISRUPTED_FOR_S: Final = 120.0
"""A pod that was evicted but is still there counts as disrupted for so long, log seconds."""


def desired_healthy(spec: PodDisruptionBudgetSpec, expected: int) -> int:
    """How many of `expected` pods must stay healthy."""
    if spec.max_unavailable is not None:
        return max(0, expected - share(spec.max_unavailable, expected, up=True))
    if spec.min_available is not None:
        return share(spec.min_available, expected, up=True)
    return max(0, expected - 1)


def expected_pods(cache: Cache, spec: PodDisruptionBudgetSpec, pods: Sequence[Pod]) -> int:
    """How many pods there should be: the workloads' wish where the budget counts from it."""
    if spec.max_unavailable is None and not isinstance(spec.min_available, str):
        return len(pods)
    wished: dict[str, int] = {}
    alone = 0
    for pod in pods:
        wish = _wish(cache, pod)
        if wish is None:
            alone += 1
        else:
            wished[wish[0]] = wish[1]
    return sum(wished.values()) + alone


def _wish(cache: Cache, pod: Pod) -> tuple[str, int] | None:
    """Uid and replicas of the workload that keeps the pod; None for a pod of its own."""
    owner = pod.metadata.controller
    if owner is None:
        return None
    key = (pod.metadata.namespace, owner.name)
    if owner.kind == "StatefulSet":
        stateful = cache.of(STATEFUL_SET).get(key)
        return (owner.uid, stateful.spec.replicas) if stateful is not None else None
    if owner.kind != "ReplicaSet":
        return None
    replica_set = cache.of(REPLICA_SET).get(key)
    if replica_set is None:
        return None
    above = replica_set.metadata.controller
    if above is not None and above.kind == "Deployment":
        deployment = cache.of(DEPLOYMENT).get((key[0], above.name))
        if deployment is not None:
            return (above.uid, deployment.spec.replicas)
    return (owner.uid, replica_set.spec.replicas)


class DisruptionBudgets:
    """The controller."""

    kind = DISRUPTION_BUDGET
    name = "disruption"

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, None]] = {}

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(DISRUPTION_BUDGET), cache.pods]

    def keys(self, item: Any) -> Iterable[Key]:
        namespace = item.metadata.namespace
        if isinstance(item, PodDisruptionBudget):
            self._by_namespace.setdefault(namespace, {})[item.key] = None
            yield item.key
        elif isinstance(item, Pod) and namespace in self._by_namespace:
            # Which of a namespace's few budgets select the pod is found out by `reconcile`.
            yield from self._by_namespace[namespace]

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        budget = cache.of(DISRUPTION_BUDGET).get(key)
        if budget is None:
            self._by_namespace.get(key[0], {}).pop(key, None)
            return plan
        selector = LabelSelector.of(budget.spec.selector)
        pods = [
            pod
            for pod in cache.pods.in_namespace(key[0])
            if not pod.finished and selector.matches(pod.metadata.labels)
        ]
        disrupted = _still_disrupted(budget, {pod.metadata.name: pod for pod in pods}, now)
        healthy = sum(
            pod.ready and pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted
            for pod in pods
        )
        expected = expected_pods(cache, budget.spec, pods)
        desired = desired_healthy(budget.spec, expected)
        allowed = max(0, healthy - desired) if expected else 0
        self._report(
            budget,
            disrupted,
            healthy,
            desired=desired,
            expected=expected,
            allowed=allowed,
            now=now,
            plan=plan,
        )
        if disrupted:
            plan.look_again(DISRUPTED_FOR_S)
        return plan

    def _report(
        self,
        budget: PodDisruptionBudget,
        disrupted: dict[str, str | None],
        healthy: int,
        *,
        desired: int,
        expected: int,
        allowed: int,
        now: float,
        plan: Plan,
    ) -> None:
        status, generation = budget.status, budget.metadata.generation
        kind, said = "DisruptionAllowed", "True" if allowed else "False"
        before = find(status.conditions, kind)
        condition = Condition(
            type=kind,
            status=said,
            reason="SufficientPods" if allowed else "InsufficientPods",
            last_transition_time=transition(
                (before.status, before.last_transition_time) if before is not None else None,
                said,
                rfc3339(now),
            ),
            observed_generation=generation,
        )
        current: JsonObject = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "observedGeneration": generation,
        }
        recorded = {
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "observedGeneration": status.observed_generation,
        }
        if current == recorded and before == condition and disrupted == status.disrupted_pods:
            return
        current["conditions"] = [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": "",
                "lastTransitionTime": condition.last_transition_time,
                "observedGeneration": generation,
            }
        ]
        gone = dict.fromkeys(name for name in status.disrupted_pods if name not in disrupted)
        current["disruptedPods"] = {**gone, **disrupted}
        # The eviction subresource writes the same status: only the state that was looked at changes.
        change = {"metadata": {"resourceVersion": budget.metadata.resource_version}, "status": current}
        plan.after.append(patch(DISRUPTION_BUDGET, budget.key, change, subresource="status"))


def _still_disrupted(budget: PodDisruptionBudget, pods: dict[str, Pod], now: float) -> dict[str, str | None]:
    """Evictions that were granted and of which nothing is seen yet."""
    return {
        name: when
        for name, when in budget.status.disrupted_pods.items()
        if name in pods
        and pods[name].metadata.deletion_timestamp is None
        and (seconds_or_none(when) or 0.0) + DISRUPTED_FOR_S > now
    }
