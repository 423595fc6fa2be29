"""Drains in the API server's request log: what each admitted eviction did to its budget, and who was lost with a machine.

The request log says of both what the store held at that moment. Whether a node's life is told, the log says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos import moving
from tests.chaos.effects import AGENT
from tests.chaos.findings import Ledger
from tidewright.asking.explain import explained
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.source import Source
from tidewright.events.facts import NodeGone, NodeObserved
from tidewright.events.provisioning import DeleteInstances, RemoveNode, UndoRemoval
from tidewright.host.fold.explainer import Reference
from tidewright.sim.api.http.request_log import Entry

EXPLAINED = 8
"""Gone nodes that are explained in full, evenly over all; of the others the decisions are looked for."""


@dataclass
class Drains:
    """What was looked at, and what may not be.

    Attributes:
        evictions: admitted ones of pods that a budget counts, or that run beside.
        charged: those of pods with a budget.
        deleted: nodes whose machines were deleted.
        broken: evictions that left a budget with fewer pods than it wants.
        past: pods that we took away otherwise than by an eviction.
        lost: pods that a machine took with it.
        unnamed: nodes whose machines were deleted without a decision that names them.
        untold: nodes of whose life the log does not tell all.
        stray: nodes that carried our mark for long after everything was back, and were not being drained.
    """

    evictions: int = 0
    charged: int = 0
    deleted: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """All that may not be, a line each."""
        named = {
            "budget broken": self.broken, "pod taken without an eviction": self.past, "pod lost with its machine": self.lost,
            "deleted without a decision": self.unnamed, "not told": self.untold, "mark left": self.stray,
        }  # fmt: skip
        return [f"{what}: {one}" for what, found in named.items() for one in found]


def drains(ledger: Ledger, entries: Iterable[Entry], namespace: str = moving.NAMESPACE) -> Drains:
    """Judge every eviction, deletion of a pod of the namespace and deletion of machines in the request log."""
    found = Drains()
    named = {n for d in ledger.decisions.values() if isinstance(d, DeleteInstances) for n in d.nodes}
    pods = f"/api/v1/namespaces/{namespace}/pods/"
    for entry in entries:
        path = entry.path.partition("?")[0]
        if entry.code not in (200, 201, 202):
            continue
        if path.endswith("/eviction") and entry.user_agent == AGENT:
            _evicted(found, path, entry.noted)
        elif entry.method == "DELETE" and entry.user_agent == AGENT and path.startswith(pods):
            found.past.append(path)
        elif path.endswith("/delete-nodes"):
            found.deleted.update(entry.noted["nodes"])
            found.unnamed += [node for node in entry.noted["nodes"] if node not in named]
            found.lost += [f"{pod['pod']} on {pod['node']}" for pod in entry.noted["pods"] if _moves(pod)]
    return found


def _evicted(found: Drains, path: str, noted: dict[str, Any]) -> None:
    if noted["ending"]:
        return  # asked once more, since an answer was lost
    found.evictions += 1
    found.charged += bool(noted["budgets"])
    for budget in noted["budgets"]:
        if budget["healthy"] - noted["serves"] < budget["desired"]:
            found.broken.append(
                f"{path} of a {'healthy' if noted['serves'] else 'failing'} pod: budget {budget['name']} "
                f"wants {budget['desired']} and had {budget['healthy']}"
            )


def _moves(pod: dict[str, Any]) -> bool:
    """Whether a pod would have had to move."""
    return (
        not pod["ending"]
        and pod["phase"] not in ("Succeeded", "Failed")
        and pod["owner"] not in ("DaemonSet", "Node")
    )


def strays(ledger: Ledger, nodes: Iterable[dict[str, Any]]) -> list[str]:
    """Nodes with our mark of a removal that was undone, or never begun. The log is to be read after the nodes."""
    undone = {d.removal for d in ledger.decisions.values() if isinstance(d, UndoRemoval)}
    found = []
    for node in nodes:
        drain = moving.drained_for(node)
        if drain and (drain in undone or not isinstance(ledger.decisions.get(drain), RemoveNode)):
            found.append(f"{node['metadata']['name']}: {drain}")
    return found


async def untold(
    source: Source, ledger: Ledger, facts: Sequence[object], label: str = "group", most: int = EXPLAINED
) -> list[str]:
    """Nodes of the cloud's groups that have gone, of which neither decisions nor `explain` say why.

    Nodes with this label are the groups'. About so many of those that have gone are explained in full, at most.
    """
    ours = {fact.name for fact in facts if isinstance(fact, NodeObserved) and label in fact.labels}
    gone = sorted(ours & {fact.name for fact in facts if isinstance(fact, NodeGone)})
    reasons: dict[str, bool] = {}
    places: dict[str, str] = {}
    """Where the pods of a node that was drained were to go."""
    for decision in ledger.decisions.values():
        match decision:
            case RemoveNode():
                reasons[decision.node] = bool(decision.because)
                elsewhere = (why.values for why in decision.because if why.rule == "PodsFitElsewhere")
                places[decision.node] = str(next(elsewhere, {}).get("places", ""))
            case DeleteInstances():
                reasons |= {n: reasons.get(n, False) or bool(decision.because) for n in decision.nodes}
    found = [f"node {name}: no decision says why it went" for name in gone if not reasons.get(name)]
    moment = await moment_of(source, "")
    for name in gone[:: max(1, -(-len(gone) // most))]:
        told = await explained(source, Reference("node", "", name), moment)
        if not any(
            isinstance(why.decided.event, RemoveNode | DeleteInstances) and why.sentences for why in told.why
        ):
            found.append(f"node {name}: explain says {[why.sentences for why in told.why]}")
        elif not any(places.get(name, "") in sentence for why in told.why for sentence in why.sentences):
            found.append(f"node {name}: explain does not say that its pods went to {places[name]}")
    return found
