"""What to do next: per target in order, across targets by priority, and what is overtaken. Pure.

Effects wait in *lanes*: one per target, and one more per target for object events, which change
nothing there. The head of a lane may run when nothing of its lane does. Among heads the lowest rank
wins, then the older decision.

An effect is *superseded* when a later one in its lane speaks about the same aspect and wants
something else, and it has not been applied yet.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, Literal, TypeAlias

import msgspec

from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.events.provisioning import (
    CreateNodeGroup,
    DecreaseNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseNodeGroup,
    MarkNode,
    ReportClusterStatus,
    ResolvePod,
)

Lane: TypeAlias = tuple[str, str, str, str, str]
"""Group, kind, namespace and name of the target, and what kind of lane."""


EVENTS: Final = "events"
"""The kind of lane of object events."""
CLOUD: Final = "cloud"
"""In place of the group, for targets at a cloud."""

Ground: TypeAlias = Literal[
    "",
    "autoscaler",
    "spread",
    "matched",
    "template",
    "placeholder",
    "buffer",
    "drained",
    "status",
    "lock",
    "set",
    "service",
    "labels",
]
"""What an effect may have to be founded on; `tidewright.actuator.allowed.grounds` looks it up."""


class Rank(IntEnum):
    """Lower goes first."""

    WITHDRAW = -1
    """Of a webhook: it is taken out whatever holds, since pods may wait for it."""
    SCALE_UP = 0
    CHANGE = 1
    DEPARTURE = 2
    """The last step of a node's way out. It waits behind no evictions of others: they are many, and their nodes begin when this one is gone."""
    SCALE_DOWN = 3
    OBJECT_EVENT = 4
    STATUS = 5
    MEASURED_STATUS = 6


class Job(msgspec.Struct, frozen=True):
    """One decision to apply.

    Attributes:
        seq: its sequence on the log: the order of decisions.
        subject: its subject on the log.
        trace: its W3C traceparent; empty without one.
        ground: what it must be founded on (`allowed.grounds`); empty for nothing.
        marks: labels or annotations, one of which its object must carry.
    """

    seq: int
    subject: str
    effect: Effect
    trace: str = ""
    ground: Ground = ""
    marks: tuple[str, ...] = ()

    @property
    def lane(self) -> Lane:
        return lane_of(self.effect.target, events=isinstance(self.effect, RecordObjectEvent))


def lane_of(target: ObjectRef, *, events: bool = False) -> Lane:
    """The lane of a target; versions of a group are the same objects."""
    group = target.api_version.rpartition("/")[0]
    return (group, target.kind, target.namespace, target.name, EVENTS if events else "object")


def rank(effect: Effect) -> Rank:
    """Which effects go first: capacity before savings, and reports last."""
    match effect:
        case ForgetEndpoint():
            return Rank.WITHDRAW
        case ScaleWorkload():
            return Rank.SCALE_UP if effect.replicas > effect.from_replicas else Rank.SCALE_DOWN
        case IncreaseNodeGroup() | CreateNodeGroup():
            return Rank.SCALE_UP
        case MarkNode():
            return (
                Rank.SCALE_DOWN if effect.present else Rank.SCALE_UP
            )  # without it the node takes pods again
        case HoldLease():
            return Rank.SCALE_UP  # one small request with a deadline: behind many creations it would be late
        case DeleteInstances():
            return Rank.DEPARTURE
        case DeleteObject() | EvictPod() | DecreaseNodeGroup() | DeleteNodeGroup():
            return Rank.SCALE_DOWN
        case RecordObjectEvent():
            return Rank.OBJECT_EVENT
        case SetStatus():
            return Rank.STATUS if effect.urgent else Rank.MEASURED_STATUS
        case ReportClusterStatus():
            return Rank.MEASURED_STATUS
        case PatchObject() if effect.target.kind == "Node":
            return Rank.MEASURED_STATUS  # a remark for people: nothing waits for it
        case CreateObject() | PatchObject():
            return Rank.CHANGE
    return Rank.CHANGE


def supersedes(later: Effect, earlier: Effect) -> bool:
    """Whether `later`, about the same target, makes it pointless to apply `earlier`."""
    match earlier, later:
        case ScaleWorkload(), ScaleWorkload():
            return later.replicas != earlier.replicas and _same_object(earlier, later)
        case SetStatus(), SetStatus():
            # Equal but for the decisions that they name, one takes the other back all the same.
            return _wanted(later) != _wanted(earlier) and _same_object(earlier, later)
        case MarkNode(), MarkNode():
            return later.key == earlier.key and later != earlier and _same_object(earlier, later)
        case ResolvePod(), ResolvePod():
            return later.key != earlier.key and _same_object(earlier, later)
        case ReportClusterStatus(), ReportClusterStatus():
            return later.text != earlier.text
        case PatchObject(), PatchObject():
            if earlier.patch == later.patch or earlier.expect or later.expect:
                return False
            return leaves(earlier.patch) == leaves(later.patch) and _same_object(earlier, later)
    return False


def _wanted(effect: SetStatus) -> tuple[object, ...]:
    return effect.status, effect.stamp, effect.id if effect.stamp else ""


def _same_object(earlier: Effect, later: Effect) -> bool:
    earlier_uid, later_uid = earlier.target.uid, later.target.uid
    return not earlier_uid or not later_uid or earlier_uid == later_uid


def leaves(patch: JsonObject, prefix: tuple[str, ...] = ()) -> frozenset[tuple[str, ...]]:
    """The paths that a merge patch sets."""
    paths: set[tuple[str, ...]] = set()
    for name, value in patch.items():
        path = (*prefix, name)
        if isinstance(value, dict) and value:
            paths |= leaves(value, path)
        else:
            paths.add(path)
    return frozenset(paths)


class Plan:
    """Everything that waits or runs."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Job]] = {}
        self._running: dict[Lane, Job] = {}
        self._heads: list[tuple[Rank, int, Lane]] = []
        """A heap of heads that may run. An entry whose job is no longer the head is passed over."""
        self._reports: list[tuple[Rank, int, Lane]] = []
        """As `_heads`, of lanes of object events."""
        self._waiting = 0
        self._at_clouds = 0
        self.reporting = 0
        """How many object events run."""
        self.changing = 0
        """How many run that go before object events, at clouds too."""
        self._marks = 0
        """How many wait or run that mark a node."""

    def __len__(self) -> int:
        return self._waiting + len(self._running)

    @property
    def running(self) -> int:
        """How many of the API server's have been started and have no outcome; a cloud has its own limit."""
        return len(self._running) - self._at_clouds

    def first(self, *, reports: bool = True) -> tuple[Rank, int] | None:
        """Rank and sequence of the job that would run next, with or without object events; None when none may."""
        first = self._first_of(self._heads)
        report = self.first_report if reports else None
        return min(first, report) if first is not None and report is not None else first or report

    @property
    def first_report(self) -> tuple[Rank, int] | None:
        """As `first`, of object events alone."""
        return self._first_of(self._reports)

    def add(self, job: Job) -> list[tuple[Job, Job]]:
        """Take a job in; the waiting jobs that it supersedes, each with it, are out of the plan."""
        name = job.lane
        lane = self._lanes.setdefault(name, deque())
        # No object event says what another one says: a crowd of them about one object is not looked through for each.
        waits = () if name[-1] == EVENTS else lane
        overtaken = [waiting for waiting in waits if supersedes(job.effect, waiting.effect)]
        for waiting in overtaken:
            lane.remove(waiting)
        lane.append(job)
        self._waiting += 1 - len(overtaken)
        self._marks += isinstance(job.effect, MarkNode)
        self._marks -= sum(isinstance(waiting.effect, MarkNode) for waiting in overtaken)
        if name not in self._running:
            self._offer(name)
        return [(waiting, job) for waiting in overtaken]

    def next(self, *, reports: bool = True) -> Job | None:
        """The job to start now, as `first` has it; it runs until `done`."""
        first = self.first(reports=reports)
        if first is None:
            return None
        _, _, lane = heappop(self._heads if first == self._first_of(self._heads) else self._reports)
        queue = self._lanes[lane]
        job = queue.popleft()
        if not queue:
            del self._lanes[lane]
        self._waiting -= 1
        self._running[lane] = job
        self._at_clouds += lane[0] == CLOUD
        self.reporting += lane[-1] == EVENTS
        self.changing += rank(job.effect) < Rank.OBJECT_EVENT
        return job

    def done(self, job: Job) -> None:
        """A job has its outcome."""
        del self._running[job.lane]
        self._at_clouds -= job.lane[0] == CLOUD
        self.reporting -= job.lane[-1] == EVENTS
        self.changing -= rank(job.effect) < Rank.OBJECT_EVENT
        self._marks -= isinstance(job.effect, MarkNode)
        if job.lane in self._lanes:
            self._offer(job.lane)

    def alike(self, job: Job) -> int:
        """How many wait or run for which one look at the API server would do, as for this one."""
        return self._marks if isinstance(job.effect, MarkNode) else 1

    def superseding(self, job: Job) -> Job | None:
        """The first waiting job that makes a running one pointless to try again."""
        for waiting in self._lanes.get(job.lane, ()):
            if supersedes(waiting.effect, job.effect):
                return waiting
        return None

    def _offer(self, lane: Lane) -> None:
        head = self._lanes[lane][0]
        heappush(self._reports if lane[-1] == EVENTS else self._heads, (rank(head.effect), head.seq, lane))

    def _first_of(self, heads: list[tuple[Rank, int, Lane]]) -> tuple[Rank, int] | None:
        while heads and not self._current(heads[0]):
            heappop(heads)
        return heads[0][:2] if heads else None

    def _current(self, entry: tuple[Rank, int, Lane]) -> bool:
        _, seq, lane = entry
        queue = self._lanes.get(lane)
        return queue is not None and queue[0].seq == seq and lane not in self._running
