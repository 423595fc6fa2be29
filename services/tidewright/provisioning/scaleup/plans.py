"""What a plan is: which groups grow to which size, for what, and why the others do not.

`Plan` is what the planners give, `World` what they read. Words for results and reasons, as clients
see them, stand here as well. Whether the cloud does what a plan says is the saga's business.
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import Because
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.cluster.limits import Limits
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Layout
from tidewright.provisioning.scaleup import expander as exp
from tidewright.provisioning.settings import Settings

ALL_OR_NOTHING = "not all pods would fit and scale-up is using all-or-nothing strategy"
FILTERED_OUT = "expansion options filtered out and no longer considered"
NOT_CHOSEN = "another option was chosen"
DEARER = "what waits is cheaper on other groups"
MAX_NODES_TOTAL = "max total nodes in cluster reached"

SUCCESSFUL, NO_OPTIONS, NOT_NEEDED, ERROR, NOT_TRIED = (
    "Successful",
    "NoOptionsAvailable",
    "NotNeeded",
    "Error",
    "NotTried",
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One group's part of a plan: absolute sizes."""

    group: NodeGroupId
    from_size: int
    size: int
    max_size: int = 0

    @property
    def added(self) -> int:
        return self.size - self.from_size


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What the new nodes of one group will hold."""

    group: NodeGroupId
    layouts: tuple[Layout, ...]


class Plan(msgspec.Struct, kw_only=True):
    """What to order and why.

    Attributes:
        result: `Successful`, `NoOptionsAvailable`, `NotNeeded` or `Error`.
        targets: in the order of their execution.
        created: groups that come into being first.
        options: every option there was.
        chosen: ids of the options taken, in order.
        option_pods: pods per item that the options hold, before limits cut them.
        placed: pods per item that the plan places.
        able: group to the items that it could host, were it chosen.
        reasons: group to why it was skipped, or rejected.
        item_reasons: item and group to the predicate's reason.
        placements: what the new nodes will hold.
        event: something to report besides (`MaxNodesTotalReached`).
        notes: what there is to say about the priorities of groups.
        why: what it costs, where it was made to cost least.
    """

    result: str
    targets: tuple[Target, ...] = ()
    created: tuple[NodeGroupId, ...] = ()
    options: tuple[exp.Option, ...] = ()
    chosen: tuple[NodeGroupId, ...] = ()
    option_pods: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    able: dict[NodeGroupId, frozenset[int]] = {}
    reasons: dict[NodeGroupId, str] = {}
    item_reasons: dict[tuple[int, NodeGroupId], str] = {}
    placements: tuple[Placement, ...] = ()
    event: str = ""
    notes: tuple[exp.PriorityNote, ...] = ()
    why: tuple[Because, ...] = ()

    def awaiting(self, item: int) -> bool:
        """Whether some group could host the item, were it tried again."""
        return any(item in hosts for hosts in self.able.values())

    def out(self) -> dict[NodeGroupId, str]:
        """Group to why it is no option at all, whatever the item."""
        options = {option.group for option in self.options}
        reasons: dict[NodeGroupId, str] = {}
        for (_, group), reason in self.item_reasons.items():
            if group not in options:
                reasons.setdefault(group, reason)
        for group, reason in self.reasons.items():
            if group not in self.chosen and (reason != ALL_OR_NOTHING or group not in reasons):
                reasons[group] = reason  # what a pod lacks there says more than that not all fit
        return reasons

    def why_not(self, item: int) -> dict[NodeGroupId, str]:
        """Group to the reason why it does not help this item."""
        reasons = {group: reason for (number, group), reason in self.item_reasons.items() if number == item}
        return {**reasons, **self.reasons}


class World(msgspec.Struct, kw_only=True):
    """What a plan is made against. `limits` already counts what exists and is upcoming.

    Attributes:
        grid: existing and upcoming nodes with their pods.
        current_nodes: how many nodes there are, upcoming ones included.
        seed: draws the pick of the random expander.
    """

    groups: tuple[Group, ...]
    grid: Grid
    limits: Limits
    settings: Settings
    current_nodes: int
    seed: str = ""
