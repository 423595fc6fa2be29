"""A node group as lines of a chart. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidewright.events import provisioning as p
from tidewright.events.base import Decision, Event
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.plotter import Plotter, Sample

NODES = "nodes"


class ProvisioningPlotter:
    """Nodes of a group: wanted, there, on their way, and its bounds."""

    kinds = frozenset(("nodegroup",))

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Nothing: a group's fact has all its machines."""
        del fact
        return ()

    def samples(self, asked: Reference, facts: Sequence[Event], latest: Event) -> Sequence[Sample]:
        """What a poll of the cloud said."""
        if not isinstance(latest, p.NodeGroupObserved):
            return ()
        states = Counter(machine.state for machine in latest.machines)
        there = states.total() - states["creating"] - states["deleting"]
        return (
            Sample("wanted", NODES, latest.target_size),
            Sample("ready", NODES, there),
            Sample("onTheirWay", NODES, states["creating"]),
            Sample("leaving", NODES, states["deleting"]),
            Sample("minimum", NODES, latest.min_size),
            Sample("maximum", NODES, latest.max_size),
        )

    def change(self, asked: Reference, decision: Decision) -> tuple[float, float] | None:
        """An order for the group."""
        if isinstance(decision, p.IncreaseNodeGroup | p.DecreaseNodeGroup):
            return decision.from_size, decision.size
        return None


PLOTTER: Plotter = ProvisioningPlotter()
