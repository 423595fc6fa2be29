"""The decider: what is done about an event, with reasons.

Reads   nodes, pods and their shapes, node groups, ProvisioningRequests, ProvisioningClasses,
        PodTemplates, DaemonSets, ResourceQuotas; volumes, devices, namespaces; its own decisions; outcomes; timers; the
        configuration `provisioning`
Writes  PlanScaleUp, IncreaseNodeGroup, DecreaseNodeGroup, DeleteInstances, CreateNodeGroup,
        DeleteNodeGroup, AcceptRequest, AttemptRequest, BookCapacity, ReleaseCapacity, BackOffGroup,
        CloseScaleUp, TrackIdleNodes, DeclineScaleUp, SetStatus, CreateObject, DeleteObject,
        PatchObject, RecordObjectEvent, ReportClusterStatus, SetTimer, CancelTimer
Pure    no clock, no I/O, no randomness

One partition for the whole cluster: it reads the facts of all slots. Whatever may be answered wakes
it through one timer, after a short quiet window, so that a burst of pods is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tidewright.events.acting import INCUMBENT
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import RecordObjectEvent, SetTimer
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.provisioning import (
    NodeGroupGone,
    ProvisioningRequestGone,
    ProvisioningRequestObserved,
)
from tidewright.events.timers import TimerFired
from tidewright.provisioning import exposition, fold, holding, parts, statusmap
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.followup import answered, cancelled, not_taken_back, respecified
from tidewright.provisioning.indexing import index_of
from tidewright.provisioning.orders import STATUS_MAP
from tidewright.provisioning.state import State

SERVICE = "provisioning"
STATE_VERSION = 4


class ProvisioningDecider:
    """Provisioning, as its host sees it (`tidewright.host.decider.Decider`)."""

    service = SERVICE
    state_version = STATE_VERSION
    state_type = State
    durations = "cluster_autoscaler_function_duration_seconds"
    activity = "cluster_autoscaler_last_activity"
    loop = parts.MAIN
    kinds = frozenset(
        (
            "pod",
            "node",
            "shape",
            "nodegroup",
            "provisioningrequest",
            "provisioningclass",
            "podtemplate",
            "daemonset",
            "resourcequota",
            "namespace",
            "persistentvolumeclaim",
            "persistentvolume",
            "storageclass",
            "csinode",
            "csidriver",
            "csistoragecapacity",
            "resourceclaim",
            "resourceclaimtemplate",
            "resourceslice",
            "deviceclass",
            INCUMBENT,
        )
    )

    def __init__(self) -> None:
        self.part: parts.Part = parts.unmeasured

    def initial(self) -> State:
        """The empty state of the one partition."""
        return State()

    @property
    def series_help(self) -> Mapping[str, str]:
        """What the series on `/metrics` mean, by name."""
        return exposition.HELP

    def series(self, state: State) -> Iterator[exposition.Series]:
        """The series on `/metrics`."""
        return exposition.series(state)

    def evolve(self, state: State, event: Event) -> State:
        """Fold one event."""
        return fold.evolve(state, event)

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        """Answer one event; `state` already includes it."""
        index = index_of(state)
        found: list[Decision] = []
        match event:
            case TimerFired(key=fold.EVALUATE):
                if not state.evaluating:
                    due = fold.rearmed(state)
                    return [SetTimer(at=event.at, key=fold.EVALUATE, due=due or state.now)]
                with self.part(parts.MAIN):
                    made = Evaluation(state, seed=f"{event.at:.6f}", part=self.part).run()
                return holding.recorded(state, _addressed(state, made), evaluated=True)
            case Applied() | Rejected() | Failed() | Superseded():
                found = [*answered(state, index, event.decision), *not_taken_back(state, event.message)]
            case NodeGroupGone():
                found = answered(state, index, "")
            case ProvisioningRequestObserved() if state.touched:
                found = respecified(state, state.touched[0])
            case ProvisioningRequestGone():
                found = cancelled(state, index, fold.key_of(event))
        due = _wake_at(state, index.settings.quiet_s)
        if due is not None:
            found.append(SetTimer(at=event.at, key=fold.EVALUATE, due=due))
        return holding.recorded(state, _addressed(state, found)) if found else found


def _addressed(state: State, found: list[Decision]) -> list[Decision]:
    """Object events about groups are about the status ConfigMap, wherever it is configured to be."""
    target = statusmap.target(index_of(state).settings)
    return [
        msgspec.structs.replace(d, target=target)
        if isinstance(d, RecordObjectEvent) and d.target == STATUS_MAP and target != STATUS_MAP
        else d
        for d in found
    ]


def _wake_at(state: State, quiet_s: float) -> float | None:
    """When the evaluation timer has to fire, if it does not do so in time already."""
    if not state.woken:
        return None
    due = state.now + quiet_s
    return due if state.due is None or state.due > due else None


DECIDER = ProvisioningDecider()
