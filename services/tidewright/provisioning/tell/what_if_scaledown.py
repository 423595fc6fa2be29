"""What would be removed now, in which order, and what keeps the rest: on a copy of the state, nothing is decided. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from tidewright.provisioning.evaluate import room_of
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.cards import Card
from tidewright.provisioning.scaledown.scanning import cards_of, cooling, healthy, whole_pass
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import staying

SCALE_DOWN, CONSOLIDATION = "scale-down", "consolidation"


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A node that would go.

    Attributes:
        places: where its pods would go, with how many.
        rule: what decides it: `scale-down`, or `consolidation` of a node that is used.
        saves_micro: price of one hour of it, in millionths; None where no price is known.
    """

    node: str
    group: str
    kind: str
    pods: int
    places: dict[str, int] = {}
    saves_micro: int | None = None
    rule: str = SCALE_DOWN


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass would do now.

    Attributes:
        going: nodes that would go now, in their order.
        later: nodes that nobody needs and that wait; why.
        staying: reason to nodes that stay for it.
        saves_micro: price of one hour of what goes now or later, as far as prices are known.
        cooling: nothing goes now, since nodes have just come or gone.
        healthy: not too many nodes are unready.
    """

    going: tuple[Leaving, ...]
    later: dict[str, str]
    staying: dict[str, tuple[str, ...]]
    saves_micro: int | None
    cooling: bool
    healthy: bool


def preview(state: State, now: float) -> Answer:
    """A whole pass on this state, which is used up by it."""
    state.now = max(state.now, now)
    index = index_of(state)
    cards = cards_of(state, index, state.now)
    room = room_of(state, f"{state.now:.6f}")
    if not index.settings.scale_down or not healthy(cards, index.settings):
        off = not index.settings.scale_down
        stay = {"ScaleDownDisabled" if off else "ClusterUnhealthy": tuple(sorted(state.nodes))}
        return Answer(going=(), later={}, staying=stay, saves_micro=None, cooling=False, healthy=off)
    cools = cooling(state, room, index.settings, state.now)
    plan = whole_pass(state, index, room, state.now)
    stays: dict[str, list[str]] = {}
    for name in sorted(set(state.nodes) - set(plan.unneeded)):
        stays.setdefault(_why(state, plan, cards.cards[name], needed=name in room.needed), []).append(name)
    going = tuple(_leaving(state, plan, leaver.name, drains=leaver.drains) for leaver in plan.going)
    prices = [_price(state, name) for name in plan.unneeded]
    known = [price for price in prices if price is not None]
    later = {name: plan.waiting.get(name, "MaxParallelism") for name in plan.unneeded}
    if cools:
        going = ()
    return Answer(
        going=going,
        later={name: why for name, why in later.items() if name not in {one.node for one in going}},
        staying={reason: tuple(names) for reason, names in sorted(stays.items())},
        saves_micro=sum(known) if known else None,
        cooling=cools,
        healthy=True,
    )


def _why(state: State, plan: passes.Plan, card: Card, *, needed: bool) -> str:
    """Why a node stays; `NotReached` of one that the pass did not get to."""
    name = card.node.name
    refusal, paused = plan.refused.get(name), state.paused.get(name)
    if card.reason:
        return card.reason
    if needed:
        return "Expected"
    if refusal is not None:
        return refusal.pod_reason or refusal.reason
    return (paused.pod_reason or paused.reason) if paused is not None else "NotReached"


def _leaving(state: State, plan: passes.Plan, name: str, *, drains: bool) -> Leaving:
    removal = plan.unneeded[name]
    return Leaving(
        node=name,
        group=state.nodes[name].group,
        kind="drain" if drains else "empty",
        pods=len(removal.moves),
        places=dict(Counter(removal.moves.values())),
        saves_micro=_price(state, name),
        rule=CONSOLIDATION
        if cards_of(state, index_of(state), state.now).cards[name].consolidates
        else SCALE_DOWN,
    )


def _price(state: State, name: str) -> int | None:
    group = state.groups.get(state.nodes[name].group)
    return group.price_micro if group is not None else None


def as_text(answer: Answer) -> str:
    """For people."""
    lines = []
    for number, one in enumerate(answer.going, 1):
        saves = f", saves {one.saves_micro / 1e6:.2f} per hour" if one.saves_micro is not None else ""
        by = f", {one.rule}" if one.rule != SCALE_DOWN else ""
        moved = (
            f": {one.pods} pods go to {staying.places(Counter(one.places).elements())}" if one.pods else ""
        )
        lines.append(f"{number}. {one.node} of group {one.group} ({one.kind}{by}){moved}{saves}")
    if not lines:
        lines.append("Nothing goes now.")
    if answer.cooling:
        lines.append("Nodes have just come or gone: nothing begins to go before the delays are over.")
    if answer.later:
        lines += [
            "",
            "Nobody needs, and wait:",
            *(f"  - {name}: {why}" for name, why in sorted(answer.later.items())),
        ]
    if answer.staying:
        lines += ["", "Stay:"]
        for reason, names in answer.staying.items():
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"  - {reason}: {', '.join(names[:5])}{more}")
    if answer.saves_micro is not None:
        lines += ["", f"In all that nobody needs costs {answer.saves_micro / 1e6:.2f} per hour."]
    return "\n".join(lines)
