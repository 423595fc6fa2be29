"""What a node costs: the price of its group; where no group has one, what the node has, weighted by scarcity.

Scarce is what is asked for little beside what nodes have of it: a plan then costs the sum over resources of what is ordered over
what is asked for, which is least where least is left over; nodes are such a resource too, so that they are not many. A resource that
nobody asks for counts as if one node's worth were asked for: a node with devices is not taken for pods without, unless nothing
else holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidewright.kube.podshape import PODS
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.scaleup.expander import pod_price

WEIGHT = 1_000_000
"""What a node costs that has as much of one resource as all pods ask for."""
PRICED, VALUED, WEIGHED = "price", "value", "scarcity"


class Prices(msgspec.Struct, frozen=True):
    """What nodes cost.

    Attributes:
        node: group to the price of one node: millionths an hour, or weight.
        by: `price`; `value` where some groups have none and count as those with one do; `scarcity` where none has one.
    """

    node: dict[NodeGroupId, int]
    by: str

    @property
    def real(self) -> bool:
        """Whether they are amounts of money."""
        return self.by != WEIGHED


def prices_of(groups: Sequence[Group], items: Sequence[Item]) -> Prices:
    """What a node of each of these groups costs, for planning these pods."""
    known = {g.id: g.price_micro for g in groups if g.price_micro is not None}
    if not known:
        return Prices(_by_scarcity(groups, items), WEIGHED)
    if len(known) == len(groups):
        return Prices(known, PRICED)
    listed = {g.id: _listed(g.node_capacity) for g in groups}
    paid, worth = sum(known.values()), sum(listed[name] for name in known) or 1
    return Prices({g.id: known.get(g.id, listed[g.id] * paid // worth) for g in groups}, VALUED)


def _listed(capacity: Mapping[str, int]) -> int:
    """What such a node costs at list rates, in millionths an hour."""
    gpus = sum(amount for name, amount in capacity.items() if name.endswith("/gpu"))
    return round(pod_price(capacity.get("cpu", 0), capacity.get("memory", 0), gpus) * 1_000_000)


def _by_scarcity(groups: Sequence[Group], items: Sequence[Item]) -> dict[NodeGroupId, int]:
    asked: dict[str, int] = {}
    for item in items:
        for name, amount in item.shape.requests.items():
            asked[name] = asked.get(name, 0) + amount * item.count
    had: dict[str, list[int]] = {}
    for group in groups:
        for name, amount in group.node_capacity.items():
            if amount > 0 and name != PODS and (asked.get(name) or "/" in name or name in ("cpu", "memory")):
                had.setdefault(name, []).append(amount)
    scale = {name: asked.get(name) or max(amounts) for name, amounts in had.items()}
    # The node itself counts as one more resource: of it as many are asked for as the largest nodes would do.
    fewest = max((-(-asked.get(name, 0) // max(amounts)) for name, amounts in had.items()), default=1)
    return {
        group.id: WEIGHT // max(1, fewest)
        + sum(group.node_capacity.get(name, 0) * WEIGHT // total for name, total in scale.items())
        for group in groups
    }
