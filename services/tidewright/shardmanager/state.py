"""What the shard manager remembers in one slot of the log."""

from __future__ import annotations

import msgspec

from tidewright.events.acting import Acting
from tidewright.events.base import Json
from tidewright.shardmanager.propeller.fleet import Fleet, KnownPod, Template
from tidewright.shardmanager.shardset.assignment.autosize import Follower
from tidewright.shardmanager.shardset.state import ShardSetState

SERVICE = "shard-manager"
SCAN_TIMER, LOCK_TIMER, SET_TIMER = "scan/", "lock/", "set/"
"""How the keys of timers begin: of a fleet's next pass, of its lock, and of a set's next round."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An effect whose outcome is awaited.

    Attributes:
        fleet: key of the fleet that asked, or empty.
        shard_set: key of the shard set that asked, or empty.
        verb: `create`, `delete`, `take`, `scale` or `hold`.
        name: of the object.
        uid: of the object that is deleted; empty where whatever has its name is meant.
        index: of the shard, -1 where none is meant.
        labels, annotations: of a fleet's pod that is made.
    """

    fleet: str = ""
    shard_set: str = ""
    verb: str
    name: str
    uid: str = ""
    index: int = -1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def meant(self, pod: KnownPod) -> bool:
        """Whether a pod of its name may be the one that it was about; a later one of that name is not."""
        return not self.uid or pod.uid in ("", self.uid)


class OurService(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One of our own services that is sized.

    Attributes:
        name: on the bus.
        entry: as it is configured; `own_services.read` says what is wrong with it.
        reported: what was said of that.
        loads: facts per second by replica, as last seen; replicas: that its Deployment wanted then.
    """

    name: str = ""
    entry: Json = None
    reported: str = ""
    loads: tuple[float, ...] = ()
    replicas: int = 0
    follower: Follower = msgspec.field(default_factory=Follower)


class State(msgspec.Struct, kw_only=True):
    """The fold of one slot.

    Attributes:
        now: greatest log time so far, seconds.
        fleets: propeller fleets by `namespace/application`.
        sets: shard sets by `namespace/name`.
        templates: PodTemplates by `namespace/name`.
        pods: by namespace and name, those that may belong to a fleet or a set.
        services: our own services that are sized, by `namespace/name` of their Deployments.
        replicas: wanted replicas of StatefulSets by `namespace/name`.
        asked: by decision id.
        acting: the modes in force.
    """

    now: float = 0.0
    fleets: dict[str, Fleet] = {}
    sets: dict[str, ShardSetState] = {}
    templates: dict[str, Template] = {}
    pods: dict[str, dict[str, KnownPod]] = {}
    services: dict[str, OurService] = {}
    replicas: dict[str, int] = {}
    asked: dict[str, Asked] = {}
    acting: Acting = msgspec.field(default_factory=Acting)
    in_flight: dict[str, str] = {}
    """Decision id by `verb namespace/name`, so that nothing is asked for twice at a time."""
