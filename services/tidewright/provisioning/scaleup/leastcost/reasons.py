"""What a plan of least cost costs, what it is compared with, and what each group was chosen for: for the log."""

from __future__ import annotations

from tidewright.events.base import Because
from tidewright.kube.podshape import PODS, PodShape
from tidewright.provisioning.scaleup.leastcost.planning import GroupShare, Joint
from tidewright.provisioning.scaleup.leastcost.prices import PRICED, VALUED, WEIGHED
from tidewright.provisioning.tell.amounts import amount_text
from tidewright.provisioning.tell.sentences import because

NAMED = 20
"""Groups of which it is said what they were chosen for."""
_RULES = {PRICED: "PlannedAsOne", VALUED: "ValuedAsOne", WEIGHED: "WeighedAsOne"}


def reasons_of(joint: Joint) -> tuple[Because, ...]:
    """The whole, then its groups, those for most pods first."""
    node = joint.prices.node
    cost = sum(node[share.group.id] * share.estimate.nodes for share in joint.shares)
    whole = because(
        _RULES[joint.prices.by],
        pods=sum(share.estimate.pods for share in joint.shares),
        groups=len(node),
        price=_amount(cost),
        bound=_amount(joint.bound),
    )
    return (whole, *(_chosen(share, node[share.group.id]) for share in joint.shares[:NAMED]))


def one_by_one(price: int | None, other: int | None) -> tuple[Because, ...]:
    """That the groups were better chosen one after the other, and what both plans cost."""
    return (because("OneByOne", price=_amount(price or 0), other=_amount(other or 0)),)


def _chosen(share: GroupShare, price: int) -> Because:
    most = max(share.items, key=lambda item: (item.count, item.shape.digest)).shape
    return because(
        "ChosenFor",
        group=share.group.id,
        pods=share.estimate.pods,
        shapes=len(share.items),
        asks=_asks(most),
        price=_amount(price),
    )


def _asks(shape: PodShape) -> str:
    """What a pod asks for."""
    asked = [
        amount_text(name, amount) + ("" if name == "cpu" else f" {name}")
        for name, amount in sorted(shape.requests.items())
        if amount and name != PODS
    ]
    return ", ".join(asked) or "nothing"


def _amount(micro: int) -> float:
    """Millionths as people write them."""
    return round(micro / 1_000_000, 4)
