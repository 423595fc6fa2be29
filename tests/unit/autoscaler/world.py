"""A small world around the decider: facts in, decisions out, through the host's own fold order."""

from __future__ import annotations

from typing import Any, TypeVar

from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas, WatermarkPodAutoscalerObserved
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload, SetStatus
from tidewright.events.facts import MetricSampled, Owner, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import Slot

NS = "shop"
D = TypeVar("D", bound=Decision)


def external(name: str = "rps", low: str = "5", high: str = "10", **labels: str) -> dict[str, Any]:
    """An External metric of a spec."""
    body = {
        "metricName": name,
        "metricSelector": {"matchLabels": labels or {"app": "web"}},
        "lowWatermark": low,
        "highWatermark": high,
    }
    return {"type": "External", "external": body}


def spec(*metrics: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A spec for the target `web`; absolute values unless told otherwise."""
    return {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "metrics": list(metrics or (external(),)),
        "minReplicas": 1,
        "maxReplicas": 10,
        "algorithm": "average",
        **members,
    }


def pod(at: float, name: str, **fields: Any) -> PodObserved:
    """A ready pod of `web`."""
    given: dict[str, Any] = {
        "phase": "Running",
        "ready": True,
        "ready_changed_at": 10.0,
        "started_at": 5.0,
        "labels": {"app": "web"},
        "owners": (Owner(kind="ReplicaSet", name="web-77"),),
        **fields,
    }
    return PodObserved(at=at, namespace=NS, name=name, **given)


def workload(at: float, replicas: int, **fields: Any) -> WorkloadObserved:
    """The Deployment `web`."""
    given: dict[str, Any] = {
        "name": "web",
        "api_version": "apps/v1",
        "kind": "Deployment",
        "uid": "web-uid",
        "status_replicas": replicas,
        "selector": "app=web",
        **fields,
    }
    return WorkloadObserved(at=at, namespace=NS, replicas=replicas, **given)


def wpa(at: float, name: str = "wpa", **fields: Any) -> WatermarkPodAutoscalerObserved:
    """A WatermarkPodAutoscaler for `web`."""
    given: dict[str, Any] = {
        "uid": f"{name}-uid",
        "generation": 1,
        "created_at": 1.0,
        "spec": spec(),
        **fields,
    }
    return WatermarkPodAutoscalerObserved(at=at, namespace=NS, name=name, **given)


def sample(at: float, *values: int, name: str = "rps", **fields: Any) -> MetricSampled:
    """An answer to the query of `external(name)`; values in milli."""
    return MetricSampled(at=at, namespace=NS, name=f"external/{name}/app=web", series_milli=values, **fields)


class World:
    """One slot of the autoscaler."""

    def __init__(self, **policy: Any) -> None:
        self.fold: Fold[State] = Fold(DECIDER, Slot("0"))
        self.seq = 0
        if policy:
            self.feed(ConfigSet(at=0.0, name="autoscaler", data=policy))

    def feed(self, *events: Event) -> list[Decision]:
        """Fold events as the host does; all decisions that they gave."""
        given: list[Decision] = []
        for event in events:
            self.seq += 1
            body = registry.encode(event)
            given += [d.decision for d in self.fold.step(self.seq, body, registry.decode(body))]
        return given

    def start(self, replicas: int = 2, at: float = 100.0, **members: Any) -> None:
        """An object, its target and as many ready pods."""
        self.feed(
            wpa(at, spec=spec(**members)),
            workload(at, replicas),
            *(pod(at, f"web-77-{i}") for i in range(replicas)),
        )

    def object(self, name: str = "wpa") -> Autoscaler:
        """What is kept of an object."""
        return self.fold.state.namespaces[NS].objects[name]

    def apply(self, order: ScaleWorkload, at: float) -> list[Decision]:
        """The actuator has written the scale, and the watcher has seen it."""
        given = self.feed(Applied(at=at, decision=order.id))
        return given + self.feed(workload(at, order.replicas))

    def fire(self, name: str = "wpa") -> list[Decision]:
        """The object's timer fires when it is due."""
        due = self.object(name).timer_due
        if due is None:
            raise AssertionError(f"{name} has no timer")
        return self.feed(TimerFired(at=due, key=f"wpa/{NS}/{name}"))


def of(decisions: list[Decision], kind: type[D]) -> list[D]:
    """The decisions of one type."""
    return [decision for decision in decisions if isinstance(decision, kind)]


def one(decisions: list[Decision], kind: type[D]) -> D:
    """The only decision of one type."""
    found = of(decisions, kind)
    if len(found) != 1:
        raise AssertionError(f"expected one {kind.__name__}, found {decisions}")
    return found[0]


def holds(decisions: list[Decision]) -> list[str]:
    """The reasons for which nothing is scaled."""
    return [hold.reason for hold in of(decisions, HoldReplicas)]


def condition(status: SetStatus, type_: str) -> dict[str, Any]:
    """A condition of a status that is to be written."""
    return next(entry for entry in status.status["conditions"] if entry["type"] == type_)
