"""What an event touched: all that passes from evolve to decide besides the state."""

from __future__ import annotations

from enum import IntFlag, auto

import msgspec

from tidewright.events.shards import ServiceLoadObserved
from tidewright.shardmanager.propeller.fleet import Fleet, KnownPod


class Look(IntFlag):
    """Why a fleet is to be looked at.

    `PASS`: a pass is due. `POD`: a pod of it has changed. `ANSWER`: an effect on a pod came out. `SCAN`: the
    time of a pass has come. `LOCK_TIMER`, `LOCK_ANSWER`: the same of its lock. `CONFIG`: its configuration has not been judged yet.
    `MODES`: who may act has changed, so that what is held back is said anew.
    """

    PASS = auto()
    POD = auto()
    ANSWER = auto()
    SCAN = auto()
    LOCK_TIMER = auto()
    LOCK_ANSWER = auto()
    CONFIG = auto()
    MODES = auto()


class PodChange(msgspec.Struct, frozen=True):
    """A pod before and after a fact; None where it was not, or is not, kept."""

    before: KnownPod | None
    after: KnownPod | None


class Touched(msgspec.Struct):
    """Of one event.

    Attributes:
        sets: keys of the shard sets concerned, in the order in which that was noticed.
        fleets: why the fleets concerned are to be looked at, by key.
        dropped: fleets that are not configured any more.
        pod: the pod that the event is about.
        load: of one of our own services that is sized.
    """

    sets: list[str] = []
    fleets: dict[str, Look] = {}
    dropped: list[Fleet] = []
    pod: PodChange | None = None
    load: ServiceLoadObserved | None = None

    def touch(self, shard_set: str) -> None:
        """A shard set is concerned."""
        if shard_set not in self.sets:
            self.sets.append(shard_set)

    def look(self, fleet: str, why: Look) -> None:
        """A fleet is to be looked at."""
        self.fleets[fleet] = self.fleets.get(fleet, Look(0)) | why
