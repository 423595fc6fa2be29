"""What happened in the demo, folded from the log. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidewright.asking.told_time import told
from tidewright.cli.demo.objects import NAME, NAMESPACE
from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled, PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.events.registry import wire_name


@dataclass
class Story:
    """What is known so far.

    Attributes:
        now: the latest log time so far, seconds: as time is compressed here, events lie further back than they came.
        times: the time that is shown of each decision (`asking.told_time`), by its id.
        value: the metric's latest value; None before the first.
        wanted, ready: replicas asked for, and pods that serve.
        decisions: count by event type.
        scales: every scale decision, in order.
        outcomes: decision id to its outcome.
        replicas, load: `(log time, value)` at every change.
    """

    now: float = 0.0
    value: float | None = None
    wanted: int = 0
    ready: int = 0
    decisions: dict[str, int] = field(default_factory=dict)
    scales: list[ScaleWorkload] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    replicas: list[tuple[float, int]] = field(default_factory=list)
    load: list[tuple[float, float]] = field(default_factory=list)
    _pods: dict[str, bool] = field(default_factory=dict)

    def fold(self, event: Event) -> None:
        """Take one event, in the order of the log."""
        self.now = max(self.now, told(event))
        match event:
            case MetricSampled() if event.series_milli and not event.refresh:
                self.value = sum(event.series_milli) / 1000
                self.load.append((self.now, self.value))
            case WorkloadObserved(kind="Deployment", namespace=ns, name=name) if (ns, name) == (
                NAMESPACE,
                NAME,
            ):
                if not self.replicas or event.replicas != self.wanted:
                    self.replicas.append((self.now, event.replicas))
                self.wanted = event.replicas
            case PodObserved(namespace=ns) if ns == NAMESPACE:
                self._pods[event.name] = event.ready is True and event.deleting_at is None
                self.ready = sum(self._pods.values())
            case PodGone(namespace=ns) if ns == NAMESPACE:
                self._pods.pop(event.name, None)
                self.ready = sum(self._pods.values())
            case Decision():
                self._decided(event)
            case Outcome():
                self.outcomes[event.decision] = event

    def _decided(self, decision: Decision) -> None:
        name = (wire_name(type(decision)) or "").removeprefix("decision.").rpartition(".")[0]
        self.decisions[name] = self.decisions.get(name, 0) + 1
        self.times[decision.id] = told(decision)
        if isinstance(decision, ScaleWorkload):
            self.scales.append(decision)

    def applied(self, decision: Decision) -> str:
        """What the actuator made of a decision, for people; empty while that is open."""
        outcome = self.outcomes.get(decision.id)
        return "" if outcome is None else type(outcome).__name__.lower()

    @property
    def unmet(self) -> dict[str, int]:
        """Why decisions were not carried out: the actuator's reasons, the most frequent first."""
        reasons = (o.reason for o in self.outcomes.values() if isinstance(o, Rejected | Failed))
        return dict(Counter(reasons).most_common())

    def repeats(self, decision: Decision) -> bool:
        """Whether the actuator found that it held already: taken again before its predecessor was seen to."""
        outcome = self.outcomes.get(decision.id)
        return isinstance(outcome, Applied) and outcome.found

    @property
    def steps(self) -> list[ScaleWorkload]:
        """The scale decisions without repeats."""
        return [scale for scale in self.scales if not self.repeats(scale)]

    def largest(self, *, up: bool) -> ScaleWorkload | None:
        """The scale decision with the largest step in one direction, an applied one if there is, the first."""
        sign = 1 if up else -1
        steps = [s for s in self.steps if sign * (s.replicas - s.from_replicas) > 0]
        return max(
            steps,
            key=lambda s: (self.applied(s) == "applied", abs(s.replicas - s.from_replicas)),
            default=None,
        )

    @property
    def settled(self) -> bool:
        """Whether every scale decision has its outcome."""
        return all(s.id in self.outcomes for s in self.scales)
