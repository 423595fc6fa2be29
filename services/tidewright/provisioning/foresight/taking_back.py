"""Nodes that are on their way for pods which do not come: as many orders are taken back as nobody else needs.

Where no machine was made yet, the size is lowered; machines that are no nodes yet are deleted. What is a node by then goes
by scale-down.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from tidewright.events.base import Decision
from tidewright.events.provisioning import DeleteInstances
from tidewright.provisioning.cluster.view import GroupView, View
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaleup.coming import upcoming
from tidewright.provisioning.scaleup.orders import group_ref, status_event, taken_back
from tidewright.provisioning.state import GroupState, Open, State
from tidewright.provisioning.tell.sentences import because


class TakingBack:
    """One look at the orders of some plans, at the end of an evaluation."""

    def __init__(self, state: State, index: Index, view: View, grid: Grid) -> None:
        """`grid` has all that is there, waits, is booked, expected or buffered where it found room."""
        self.state, self.index, self.view, self.grid = state, index, view, grid

    def of(self, plans: Set[str], ordering: Collection[str]) -> list[Decision]:
        """What is taken back of plans that were made for pods which have not come; nothing in groups that are ordered from now."""
        decisions: list[Decision] = []
        for name in sorted(self.view.groups):
            opened, group = self.state.open.get(name), self.state.groups.get(name)
            if (
                opened is None
                or group is None
                or name in ordering
                or group.zero_or_max
                or group.rest is not None
            ):
                continue
            missing = self._spare(name, opened, group, plans)
            if missing > 0:
                decisions += self._taken_back(name, group, missing, min(plans & opened.plans.keys()))
        return decisions

    def _spare(self, name: NodeGroupId, opened: Open, group: GroupState, plans: Set[str]) -> int:
        """Nodes of these plans that are on their way and that nobody needs."""
        seen = self.view.groups[name]
        theirs = sum(nodes for plan, nodes in opened.plans.items() if plan in plans)
        others = sum(nodes for plan, nodes in opened.plans.items() if plan not in plans)
        coming = seen.upcoming - seen.counts.not_started
        return min(theirs, coming - others, _free(self.grid, name, seen), group.target - group.min_size)

    def _taken_back(self, name: NodeGroupId, group: GroupState, missing: int, plan: str) -> list[Decision]:
        now, target = self.state.now, group.target
        orders = target - sum(instance.state != "deleting" for instance in group.instances)
        if orders > 0:  # the cloud says next what is left of the others
            size = target - min(missing, orders)
            return taken_back(now, name, size=size, from_size=target, plan=plan)
        unborn = [
            instance.id
            for instance in group.instances
            if instance.id not in self.index.machines
            and instance.id not in group.deleting
            and instance.state != "deleting"
        ]
        doomed = sorted(unborn, key=lambda machine: (-group.since.get(machine, 0.0), machine))[:missing]
        if not doomed:
            return []
        return [
            DeleteInstances(
                at=now,
                target=group_ref(name),
                instances=tuple(doomed),
                nodes=("",) * len(doomed),
                because=(because("TakenBack", group=name, count=len(doomed)),),
            ),
            status_event(
                now, "ScaleUpReverted", f"group {name}: {len(doomed)} nodes that had not come are taken back"
            ),
        ]


def _free(grid: Grid, name: NodeGroupId, seen: GroupView) -> int:
    """Nodes of a group on their way on which there is nothing but what is on each."""
    residents = (
        {item.shape.digest: item.count for item in seen.group.template.residents}
        if seen.group.template
        else {}
    )
    rows = (grid.rows.get(node) for node in upcoming(name, seen.upcoming)[len(seen.starting) :])
    return sum(row is not None and grid.held(row) == residents for row in rows)
