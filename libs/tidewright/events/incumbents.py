"""Facts about incumbents: other controllers that are at the work that one of our services does."""

from __future__ import annotations

import msgspec

from tidewright.events.base import Fact


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing in the cluster that shows an incumbent at work.

    Attributes:
        kind: of the object that shows it (`Deployment`, `Lease`, ...); empty for several objects of a kind.
        shows: what of it does, for people: `runs image ...`, `is renewed by ...`.
    """

    kind: str
    namespace: str = ""
    name: str = ""
    shows: str = ""


class IncumbentObserved(Fact, frozen=True, kw_only=True, tag="fact.incumbent-observed.v1"):
    """Whether another controller is at the work of one of our services, and on which objects.

    Written by the watcher when that, or what shows it, changes; never for a mere renewal. While one is
    seen, the service decides without acting on these objects, unless `ModesSet.regardless` names it.

    Attributes:
        service: ours, whose work it is.
        rival: the incumbent's name, for people; empty when none was ever seen.
        present: it is at work.
        evidence: what shows it, sorted; empty when it is gone.
        everywhere: it acts on objects of the whole cluster, as far as is known.
        namespaces: where it acts when not everywhere, sorted.
        since: log time since when it has been seen, or has been gone, seconds.
        quiet_s: of one that is gone: for how long nothing had shown it before that was believed, wall seconds.
        unseen: what could not be looked at, and for want of which right; an incumbent may be at work unnoticed.
    """

    service: str
    rival: str = ""
    present: bool = False
    evidence: tuple[Evidence, ...] = ()
    everywhere: bool = False
    namespaces: tuple[str, ...] = ()
    since: float = 0.0
    quiet_s: float = 0.0
    unseen: tuple[str, ...] = ()

    def covers(self, namespace: str) -> bool:
        """Whether it is at work on objects of a namespace; empty for objects that are in none."""
        return self.present and (self.everywhere or namespace in self.namespaces)
