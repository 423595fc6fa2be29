"""What the fold holds: objects, their targets, pods, samples; per namespace, as facts come in any order.

All of it encodes to JSON as it is. What can be derived from it (`index`) is not part of it, and is
built anew after a snapshot was read.
"""

from __future__ import annotations

import sys
from functools import cached_property

import msgspec

from tidewright.autoscaler.api.conditions import Change
from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.api.status import Kept
from tidewright.autoscaler.fold.index import NamespaceIndex
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.policy import DEFAULT, Policy, as_text, of_text
from tidewright.events.acting import Acting
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.base import JsonObject
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import Pod

KIND = "WatermarkPodAutoscaler"
TIMER = "wpa/"
"""How the keys of our timers begin: of an object's next look."""


class Ordered(msgspec.Struct, omit_defaults=True):
    """A scale that was decided and whose outcome is not known yet.

    Attributes:
        decision: its id.
        at: when it was decided, seconds.
        replicas: what the target shall have; `from_replicas` what it had.
        reason: for the object event.
    """

    decision: str
    at: float
    replicas: int
    from_replicas: int
    reason: str = ""


class Forecast(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of the load of an object that asks for forecasts.

    Attributes:
        lead_s: how far ahead; `confidence` how often the upper bound is to hold, 0 for as often as is worth its price.
        zone: the local time of seasons that begin, as `Season` has it.
        recorded_at: when it was recorded last, seconds.
        seasons: by the digest of the metric's query.
    """

    lead_s: float
    confidence: float
    zone: str = ""
    recorded_at: float = 0.0
    seasons: dict[str, Season] = {}


class Autoscaler(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One WatermarkPodAutoscaler.

    Attributes:
        rules: its spec compiled; None when it cannot be read, or was refused, and `problem` says why.
        asked: its spec, until something is recorded that follows from it, and while it is refused: as JSON text, since
            of thousands of objects at once what is taken apart is four times as large.
        lifecycle: text of the annotation that switches lifecycle control on; None without it.
        finalizers: those of the object while it is being deleted.
        kept: what its status remembers, as it was recorded last: written, or said along with another decision.
        fresh: queries answered since it looked last.
        hold: the last recorded reason for doing nothing; empty since a scale.
        ordered: the scale that is on its way.
        timer_due: when its timer fires; None without one.
        dirty: by how much, at most, `kept` is ahead of the status that is written.
        status_decision: id of the last status write, to hear of its failure.
        written_at: when it was decided.
        said: last text per reason of its object events.
        awaits_pods: what was recorded last waits for ready pods: another one alone may change it.
        added: replicas that its scales have added so far; `removed` likewise.
        labels: those of the object; the policy says which of them `labels_info` carries.
        mode: the mode that its annotation asks for; empty without one.
        real: while it is held back, what `kept` would be had nothing been thought; None for nothing.
        asks: text of the annotation that asks for forecasts; None without it.
        forecast: what is known of its load, since it was recorded that a forecast is asked for; None while none is.
    """

    name: str
    uid: str = ""
    created_at: float = 0.0
    generation: int = 0
    rules: Rules | None = None
    problem: str = ""
    asked: str | JsonObject | None = None
    lifecycle: str | None = None
    skip_owner_check: bool = False
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    kept: Kept = msgspec.field(default_factory=Kept)
    fresh: tuple[str, ...] = ()
    hold: str = ""
    ordered: Ordered | None = None
    timer_due: float | None = None
    dirty: Change = Change.NONE
    status_decision: str = ""
    written_at: float = -1e18
    said: dict[str, str] = {}
    awaits_pods: bool = False
    added: int = 0
    removed: int = 0
    labels: dict[str, str] = {}
    mode: str = ""
    real: Kept | None = None
    asks: str | None = None
    forecast: Forecast | None = None


class Workload(msgspec.Struct, omit_defaults=True):
    """A target, what might become one, or what stands between a target and its pods.

    Attributes:
        owners: references to its own owners, see `ownership`.
    """

    api_version: str
    kind: str
    name: str
    uid: str = ""
    replicas: int = 0
    observed: int = 0
    selector: str = ""
    owners: tuple[str, ...] = ()


class Monitor(msgspec.Struct, frozen=True):
    """What is known of the monitor.

    Attributes:
        state: its `status.monitorState`; None when that is absent or no text.
        error: why it cannot be read; empty when it was.
    """

    state: str | None = None
    error: str = ""


class PodGroup(msgspec.Struct):
    """Pods of one set of labels; they are selected together or not at all."""

    labels: dict[str, str]
    pods: dict[str, Pod]


class Namespace(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All that is known of one namespace.

    Attributes:
        workloads: by their key, see `spec.target_key`; `unreadable` says why others cannot be read.
        groups: pods by the text of their labels.
        samples: the latest answer to each metric query.
        recommendations: the latest answer of each object's recommender.
    """

    objects: dict[str, Autoscaler] = {}
    workloads: dict[str, Workload] = {}
    unreadable: dict[str, str] = {}
    groups: dict[str, PodGroup] = {}
    samples: dict[str, MetricSampled] = {}
    recommendations: dict[str, RecommendationReceived] = {}
    monitors: dict[str, Monitor] = {}


class State(msgspec.Struct, kw_only=True, dict=True, omit_defaults=True):
    """The fold of one slot.

    Attributes:
        now: the greatest log time so far, seconds.
        policy: the last configuration seen, whole, as JSON text; None before any. See `in_force`. It is not kept as this
            version reads it: a later one that goes on from here may know more settings.
        awaited: decision id to `namespace/name` of the object that waits for its outcome.
        acting: the modes in force.
    """

    now: float = 0.0
    policy: str | JsonObject | None = None
    namespaces: dict[str, Namespace] = {}
    awaited: dict[str, str] = {}
    acting: Acting = msgspec.field(default_factory=Acting)

    def __post_init__(self) -> None:
        """Of one that was stored the text is the one of the other slots, too."""
        if isinstance(self.policy, str):
            self.policy = sys.intern(self.policy)
        elif self.policy is not None:  # so it was stored at first, without what was not known then
            self.policy = as_text(self.policy)

    @cached_property
    def indices(self) -> dict[str, NamespaceIndex]:
        """The derived look-ups per namespace."""
        return {name: index_of(namespace) for name, namespace in self.namespaces.items()}

    @cached_property
    def in_force(self) -> Policy:
        """The policy that holds for this slot, as this version reads it."""
        return of_text(self.policy) if isinstance(self.policy, str) else DEFAULT

    def configure(self, data: JsonObject) -> None:
        """From now on this configuration holds."""
        self.policy = as_text(data)
        self.__dict__.pop("in_force", None)

    def namespace(self, name: str) -> tuple[Namespace, NamespaceIndex]:
        """A namespace with its look-ups; both are made when it is new."""
        namespace = self.namespaces.get(name)
        if namespace is None:
            namespace = self.namespaces[name] = Namespace()
            self.indices[name] = NamespaceIndex()
        return namespace, self.indices[name]


def index_of(namespace: Namespace) -> NamespaceIndex:
    """The look-ups of a namespace, from nothing."""
    index = NamespaceIndex()
    for key, group in namespace.groups.items():
        index.add_group(key, group.labels)
        for pod in group.pods:
            index.group_of[pod] = key
    for name in sorted(namespace.objects):
        bind(namespace, index, namespace.objects[name])
    return index


def asked_by(scaler: Autoscaler) -> JsonObject | None:
    """The spec that is kept of an object; None where none is."""
    asked = scaler.asked
    if not isinstance(asked, str):  # so it was stored at first
        return asked
    found: JsonObject = msgspec.json.decode(asked)
    return found


def bind(namespace: Namespace, index: NamespaceIndex, scaler: Autoscaler) -> None:
    """Make the look-ups know what an object asks for and which pods it selects."""
    rules = scaler.rules
    if rules is None or scaler.deleting:
        index.unbind(scaler.name)
        return
    workload = namespace.workloads.get(rules.target_key)
    index.bind(
        scaler.name,
        target=rules.target_key,
        queries=tuple(metric.query for metric in rules.metrics),
        selector=None if workload is None else workload.selector,
    )


def is_sampled(namespace: Namespace, scaler: Autoscaler, rules: Rules) -> bool:
    """Whether every metric has been answered once, be it by an error."""
    if rules.recommender is not None:
        return scaler.name in namespace.recommendations
    samples = namespace.samples
    return all(metric.query in samples for metric in rules.metrics)
