"""Removals begin: for each node that goes now the decision that says so, with who leaves it and why. Spec 4.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidewright.events.base import Because
from tidewright.events.provisioning import PodToEvict, RemoveNode
from tidewright.kube.keys import PodKey, parts
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.drain.evictions import Evicted
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.removal.evicting import grace_s, priority_of
from tidewright.provisioning.scaledown.removal.standing import movers
from tidewright.provisioning.scaledown.scene import Removable
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Lately, State
from tidewright.provisioning.tell.sentences import because

EMPTY, DRAIN = "empty", "drain"
CONSOLIDATION, REPLACEMENT = "consolidation", "replacement"
"""Rules by which nodes go, beside scale-down's own."""
PLACES = 5
"""Nodes that a reason names, of those where pods would go."""


def begun(state: State, plan: passes.PassPlan, settings: Settings, now: float) -> list[RemoveNode]:
    """A decision for each node that goes, in their order."""
    return [_removal(state, plan, leaver, settings, now) for leaver in plan.going]


def _removal(
    state: State, plan: passes.PassPlan, leaver: Leaver, settings: Settings, now: float
) -> RemoveNode:
    group, removable, evicted = (
        state.groups[leaver.group],
        plan.unneeded[leaver.name],
        plan.evictions[leaver.name],
    )
    whole = (other.name for other in plan.going if other.group == leaver.group) if group.zero_or_max else ()
    why = [because("Unneeded", node=leaver.name, unneeded_s=int(now - plan.memory.unneeded[leaver.name]))]
    if removable.moves:
        why.append(_fits(removable))
    arithmetic = _consolidated(state, leaver, pods=len(removable.moves))
    why += arithmetic
    return _decision(
        state,
        leaver.name,
        evicted.pods,
        settings,
        now=now,
        drains=leaver.drains,
        daemons=evicted.daemons,
        whole=tuple(whole),
        why=why,
        rule=CONSOLIDATION if arithmetic else "",
    )


def replaced(
    state: State, removable: Removable, leaves: Evicted, settings: Settings, *, now: float, why: Because
) -> RemoveNode:
    """The decision for a node that others replace, and that goes now that they stand; `why` is what that saves."""
    return _decision(
        state,
        removable.node,
        leaves.pods,
        settings,
        now=now,
        drains=not removable.empty,
        daemons=leaves.daemons,
        whole=(),
        why=(why, _fits(removable)),
        rule=REPLACEMENT,
    )


def _fits(removable: Removable) -> Because:
    """Where the pods of a node go."""
    where = Counter(removable.moves.values()).most_common(PLACES)
    return because(
        "PodsFitElsewhere",
        pods=len(removable.moves),
        places=", ".join(f"{name} ({pods})" for name, pods in where),
        nodes=len(set(removable.moves.values())),
    )


def _decision(
    state: State,
    name: str,
    pods: Iterable[PodKey],
    settings: Settings,
    *,
    now: float,
    drains: bool,
    whole: tuple[str, ...],
    why: Sequence[Because],
    daemons: Iterable[PodKey] = (),
    rule: str = "",
) -> RemoveNode:
    """That a node goes, with these pods evicted, and why; `drains`: a pass found it with pods, whatever there is now."""
    node = state.nodes[name]
    leaving = movers(state, index_of(state), name, now)  # expendable ones among them, which no pass looks at
    return RemoveNode(
        at=now,
        node=name,
        uid=node.uid,
        provider_id=node.provider_id,
        group=node.group,
        kind=DRAIN if drains or leaving else EMPTY,
        pods=tuple(_to_evict(state, dict.fromkeys((*pods, *leaving)), settings)),
        daemons=tuple(_to_evict(state, daemons, settings)),
        size=state.groups[NodeGroupId(node.group)].target,
        whole=whole,
        rule=rule,
        because=tuple(why),
    )


def _consolidated(state: State, leaver: Leaver, *, pods: int) -> list[Because]:
    """The arithmetic of a node that consolidation found; nothing of one that scale-down did."""
    cards = index_of(state).cards
    card = cards.cards.get(leaver.name) if cards is not None else None
    if card is None or not card.consolidates or card.use is None:
        return []
    used, price = (
        f"{card.use.ratio * 100:.0f} % of its {card.use.resource}",
        state.groups[leaver.group].price_micro,
    )
    if price is None:
        return [because("ConsolidatedUnpriced", node=leaver.name, used=used, pods=pods, group=leaver.group)]
    before = f"{price / 1e6:.4f}"
    return [
        because(
            "Consolidated", node=leaver.name, used=used, pods=pods, before=before, after="0", saving=before
        )
    ]


def given_up(
    state: State, group: NodeGroupId, nodes: Sequence[str], settings: Settings, *, now: float, why: Because
) -> list[RemoveNode]:
    """A decision for each node of a group that is given up because others of it do not come: all of them, or none.

    They are drained like any: what runs there is asked to leave, and what may not leave keeps them. Nothing
    is begun while nodes are not removed here at all, of nodes of which too little is known, and soon after the
    last attempt. `why` is what happened to the others.
    """
    lately = state.lately.get(group, Lately())
    last = max((at for at in (lately.delete, lately.failure) if at is not None), default=None)
    known = all(state.nodes[name].delays is not None and name not in state.removals for name in nodes)
    resting = last is not None and now < last + settings.scale_down_delay_after_failure_s
    if not known or resting or settings.dry_run or not settings.scale_down:
        return []
    whole = tuple(nodes) if state.groups[group].zero_or_max else ()
    return [
        _decision(
            state, name, (), settings, now=now, drains=False, whole=whole,
            why=(because("GivenUp", node=name, group=group), why),
        )
        for name in nodes
    ]  # fmt: skip


def _to_evict(state: State, pods: Iterable[PodKey], settings: Settings) -> Iterable[PodToEvict]:
    for key in pods:
        pod, priority = state.pods[key], priority_of(state, key)
        namespace, name = parts(key)
        yield PodToEvict(
            namespace=namespace,
            name=name,
            uid=pod.uid,
            grace_s=grace_s(settings, pod, priority),
            priority=priority,
        )
