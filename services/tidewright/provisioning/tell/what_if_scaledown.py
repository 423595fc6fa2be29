"""What would be removed now, in which order, and what keeps the rest: on a copy of the state, nothing is decided. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from tidewright.provisioning.consolidation.trials import Round
from tidewright.provisioning.evaluate import room_of
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.candidates.eligible import AT_MINIMUM, BEING_DELETED
from tidewright.provisioning.scaledown.cards import Card
from tidewright.provisioning.scaledown.choosing import cooling
from tidewright.provisioning.scaledown.live import EXPECTED, Room, cards_of
from tidewright.provisioning.scaledown.scanning import healthy, whole_pass
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding, staying
from tidewright.provisioning.tell.capitals import capital
from tidewright.provisioning.tell.in_number import in_number

SCALE_DOWN, CONSOLIDATION, REPLACE = "scale-down", "consolidation", "replace"


class GoingNode(msgspec.Struct, frozen=True, kw_only=True):
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


class Replacing(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that would be replaced, once later rounds agree, or are being replaced.

    Attributes:
        groups: what is ordered for it: group to nodes.
        pods: how many move; 0 of what is under way.
        before_micro, after_micro: what the nodes cost an hour, and the others, in millionths.
        saves_micro: the difference.
        overlap_micro: what it costs that both run until the pods have moved; 0 of what is under way.
        under_way: the others are ordered.
        rule: what decides it: `replace`.
    """

    nodes: tuple[str, ...]
    groups: dict[str, int]
    pods: int
    before_micro: int
    after_micro: int
    saves_micro: int
    overlap_micro: int = 0
    under_way: bool = False
    rule: str = REPLACE


class ScaleDownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass would do now.

    Attributes:
        going: nodes that would go now, in their order.
        replacing: what others that cost less would replace, or do; at most one at a time.
        later: nodes that nobody needs and that wait; why.
        staying: reason to nodes that stay for it; none of those that are replaced, or would be.
        saves_micro: price of one hour of what goes now or later, as far as prices are known.
        cooling: nothing goes now, since nodes have just come or gone.
        healthy: not too many nodes are unready.
    """

    going: tuple[GoingNode, ...]
    replacing: tuple[Replacing, ...] = ()
    later: dict[str, str]
    staying: dict[str, tuple[str, ...]]
    saves_micro: int | None
    cooling: bool
    healthy: bool


def preview(state: State, now: float) -> ScaleDownAnswer:
    """A whole pass on this state, which is used up by it."""
    state.now = max(state.now, now)
    index = index_of(state)
    cards = cards_of(state, index, state.now)
    room = room_of(state, state.now)
    if not index.settings.scale_down or not healthy(cards, index.settings):
        off = not index.settings.scale_down
        stay = {staying.SCALE_DOWN_OFF if off else staying.UNHEALTHY: tuple(sorted(state.nodes))}
        return ScaleDownAnswer(going=(), later={}, staying=stay, saves_micro=None, cooling=False, healthy=off)
    cools = cooling(state, room, index.settings, state.now)
    plan = whole_pass(state, index, room, state.now)
    replacing = _replacing(state, room, plan)
    goes = {name for one in replacing for name in one.nodes if name not in state.removals}
    stays: dict[str, list[str]] = {}
    for name in sorted(set(state.nodes) - set(plan.unneeded) - goes):
        stays.setdefault(_why(state, plan, cards.cards[name], needed=name in room.needed), []).append(name)
    going = tuple(_leaving(state, plan, leaver.name, drains=leaver.drains) for leaver in plan.going)
    prices = [_price(state, name) for name in plan.unneeded]
    known = [price for price in prices if price is not None]
    later = {name: plan.waiting.get(name, staying.MAX_PARALLELISM) for name in plan.unneeded}
    if cools:
        going = ()
    return ScaleDownAnswer(
        going=going,
        later={name: why for name, why in later.items() if name not in {one.node for one in going}},
        staying={reason: tuple(names) for reason, names in sorted(stays.items())},
        saves_micro=sum(known) if known else None,
        cooling=cools,
        healthy=True,
        replacing=replacing,
    )


def _replacing(state: State, room: Room, plan: passes.PassPlan) -> tuple[Replacing, ...]:
    """What is being replaced, and what a round would find now beside it."""
    index = index_of(state)
    under_way = tuple(
        Replacing(
            nodes=tuple(replacement.nodes),
            groups=dict(replacement.groups),
            pods=0,
            before_micro=replacement.before_micro,
            after_micro=replacement.after_micro,
            saves_micro=replacement.before_micro - replacement.after_micro,
            under_way=True,
        )
        for replacement in state.consolidating.replacements
    )
    if not index.settings.replaces:
        return under_way
    this = Round(state, index, room, plan, state.now)
    for replacement in state.consolidating.replacements:
        this.leave_to(tuple(replacement.nodes))
    found, _ = this.search()
    if found is None:
        return under_way
    return (
        *under_way,
        Replacing(
            nodes=found.nodes,
            groups=dict(found.groups),
            pods=found.pods,
            before_micro=found.before_micro,
            after_micro=found.after_micro,
            saves_micro=found.before_micro - found.after_micro,
            overlap_micro=found.overlap_micro,
        ),
    )


def _why(state: State, plan: passes.PassPlan, card: Card, *, needed: bool) -> str:
    """Why a node stays."""
    name = card.node.name
    refusal, paused = plan.refused.get(name), state.paused.get(name)
    if name in state.removals:
        return BEING_DELETED
    if card.reason:
        return card.reason
    if needed:
        return "Expected"
    if refusal is not None:
        return refusal.pod_reason or refusal.reason
    group = state.groups.get(card.node.group)
    if group is not None and group.target <= group.min_size:
        return AT_MINIMUM
    return (paused.pod_reason or paused.reason) if paused is not None else staying.NOT_REACHED


def _leaving(state: State, plan: passes.PassPlan, name: str, *, drains: bool) -> GoingNode:
    removal = plan.unneeded[name]
    return GoingNode(
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


def in_words(reason: str) -> str:
    """What a reason for which nodes stay means, for people, and what would let them go, where that is known; else empty."""
    if reason == "Expected":
        words = staying.refusal_sentence(EXPECTED)
    else:
        of_pods = f"a pod keeps each: {staying.PODS[reason]}." if reason in staying.PODS else ""
        words = " Or ".join(filter(None, (staying.NODES.get(reason, ""), of_pods)))
    return capital(words)


def _said(reason: str, names: Sequence[str]) -> str:
    """A line about nodes that stay, or wait, for a reason."""
    words = in_words(reason)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"  - {reason}: {', '.join(names[:5])}{more}{'. ' if words else ''}{words}"


def as_text(answer: ScaleDownAnswer) -> str:
    """For people."""
    lines = []
    for number, going in enumerate(answer.going, 1):
        saves = f", saves {going.saves_micro / 1e6:.2f} per hour" if going.saves_micro is not None else ""
        by = f", {going.rule}" if going.rule != SCALE_DOWN else ""
        places = staying.places(Counter(going.places).elements())
        moved = f": {in_number(f'{going.pods} pods go')} to {places}" if going.pods else ""
        lines.append(f"{number}. {going.node} of group {going.group} ({going.kind}{by}){moved}{saves}")
    if not lines:
        lines.append("Nothing goes now.")
    for one in answer.replacing:
        others = ", ".join(f"{nodes} of group {group}" for group, nodes in sorted(one.groups.items()))
        how = "Is being replaced" if one.under_way else "Would be replaced once later rounds agree"
        moved = in_number(f", {one.pods} pods move") if one.pods else ""
        prices = f"{one.after_micro / 1e6:.2f} instead of {one.before_micro / 1e6:.2f} per hour"
        saved = f"{prices}, saves {one.saves_micro / 1e6:.2f}"
        lines += ["", f"{how} ({one.rule}): {', '.join(one.nodes)} by {others}{moved}: {saved}"]
    if answer.cooling:
        lines.append("Nodes have just come or gone: nothing begins to go before the delays are over.")
    if answer.later:
        waiting = sorted((why, names) for names, why in folding.by_reason(answer.later))
        lines += ["", "Nobody needs, and wait:", *(_said(why, names) for why, names in waiting)]
    if answer.staying:
        lines += ["", "Stay:", *(_said(reason, names) for reason, names in answer.staying.items())]
    if answer.saves_micro is not None:
        lines += ["", f"In all that nobody needs costs {answer.saves_micro / 1e6:.2f} per hour."]
    return "\n".join(lines)
