"""Removals begin: for each node that goes now the decision that says so, with who leaves it and why. Spec 4.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidewright.events.provisioning import PodToEvict, RemoveNode
from tidewright.kube.keys import PodKey, parts
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.drain.evictions import eviction_grace_s
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.removal.standing import movers
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because

EMPTY, DRAIN = "empty", "drain"
PLACES = 5
"""Nodes that a reason names, of those where pods would go."""


def begun(state: State, plan: passes.Plan, settings: Settings, now: float) -> list[RemoveNode]:
    """A decision for each node that goes, in their order."""
    return [_removal(state, plan, leaver, settings, now) for leaver in plan.going]


def _removal(state: State, plan: passes.Plan, leaver: Leaver, settings: Settings, now: float) -> RemoveNode:
    node, group = state.nodes[leaver.name], state.groups[leaver.group]
    removal, evicted = plan.unneeded[leaver.name], plan.evictions[leaver.name]
    # Expendable ones among them, which no pass looks at.
    leaving = movers(state, index_of(state), leaver.name, now)
    pods = dict.fromkeys((*evicted.pods, *leaving))
    whole = (other.name for other in plan.going if other.group == leaver.group) if group.zero_or_max else ()
    where = Counter(removal.moves.values()).most_common(PLACES)
    why = [because("Unneeded", node=leaver.name, unneeded_s=int(now - plan.memory.unneeded[leaver.name]))]
    if removal.moves:
        why.append(
            because(
                "PodsFitElsewhere",
                pods=len(removal.moves),
                places=", ".join(f"{name} ({pods})" for name, pods in where),
                nodes=len(set(removal.moves.values())),
            )
        )
    return RemoveNode(
        at=now,
        node=leaver.name,
        uid=node.uid,
        provider_id=node.provider_id,
        group=leaver.group,
        kind=DRAIN if leaver.drains or leaving else EMPTY,
        pods=tuple(_to_evict(state, pods, settings)),
        daemons=tuple(_to_evict(state, evicted.daemons, settings)),
        size=group.target,
        whole=tuple(whole),
        because=tuple(why),
    )


def _to_evict(state: State, pods: Iterable[PodKey], settings: Settings) -> Iterable[PodToEvict]:
    for key in pods:
        pod = state.pods[key]
        namespace, name = parts(key)
        own = pod.removal.grace_s if pod.removal is not None else None
        capped = eviction_grace_s(own, settings) if own is not None else None
        fields = state.shapes.get(pod.shape)
        yield PodToEvict(
            namespace=namespace,
            name=name,
            uid=pod.uid,
            grace_s=int(capped) if capped is not None and capped != own else None,
            priority=fields.priority if fields is not None else 0,
        )
