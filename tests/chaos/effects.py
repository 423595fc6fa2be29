"""Effects by the log beside those that the API server made, by its own request log.

What a request does is told by its method and path; effects and requests meet at a *place*: what is done,
and to which object (of a creation, which names no object in its path: in which collection). The orders of
nodes, which the API server does not see, are held against the machines that the cloud ever showed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.chaos import moving
from tests.chaos.findings import Ledger
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.outcomes import Applied, Rejected
from tidewright.events.provisioning import IncreaseNodeGroup, MarkNode, NodeGroupObserved, PlanScaleUp
from tidewright.sim.api.http.request_log import Entry

OURS = "fieldManager=chaos"
"""In the query of every write of the run itself: those are not counted."""
AGENT = "tidewright"
NAMESPACES = ("team-", moving.NAMESPACE)
"""What the names of the scenario's namespaces begin with. Elsewhere the run prepares the cluster."""
_PATH = re.compile(
    r"^/api(?:s/[^/]+)?/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)


class Place(NamedTuple):
    """What is done (`scale`, `status`, `patch`, `create`, `delete`, `evict`, `mark`, `event`), and to what."""

    verb: str
    plural: str
    namespace: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.plural} {self.namespace}/{self.name}"


@dataclass
class Effects:
    """What was compared, and what does not fit.

    Attributes:
        applied: by verb, decisions with the outcome `Applied` that did not find the effect there.
        writes: by verb, requests of ours that changed something.
        lost: places where a decision is said to be applied and no write came, once for each.
        unsure: by verb, those beyond what is said to be applied, of decisions that found their effect there, were
            superseded or rejected: an attempt whose answer was lost.
        doubled: places with more writes than decisions that could have made them, once for each.
        foreseen: pods for which nodes were planned before they were there, because of decisions to scale.
        ordered: nodes that the applied orders add up to, and that might have been ordered.
        machines: that the cloud ever showed.
    """

    applied: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    unsure: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    foreseen: int = 0
    ordered: int = 0
    machines: int = 0


def effects(ledger: Ledger, entries: Iterable[Entry], facts: Iterable[object] = ()) -> Effects:
    """Compare, place by place.

    An attempt whose answer was lost may have written before another attempt found the effect there, or
    before a later decision superseded it: such a decision may have one write, never two. One that
    was applied and did not find the effect has exactly one.

    An object event of which a count is raised is told apart from a new one: after a restart the same
    wish may be written anew, because who counts forgets; it is never written anew twice.
    """
    surely: Counter[Place] = Counter()
    perhaps: Counter[Place] = Counter()
    for id_, effect in ledger.effects.items():
        if (place := place_of(effect)) is None or not _counted(place.plural, place.namespace):
            continue
        outcome = next(iter(ledger.outcomes.get(id_, ())), None)
        if isinstance(outcome, Applied) and not outcome.found:
            surely[place] += outcome.result.get("written", _times(effect))
        else:
            perhaps[place] += _times(effect)
    writes, raised = _written(entries)
    result = Effects()
    for place, count in surely.items():
        result.applied[place.verb] += count
    for place, count in writes.items():
        result.writes[place.verb] += count
    for place in sorted(surely.keys() | writes.keys()):
        result.lost += [str(place)] * max(0, surely[place] - writes[place] - raised[place])
        beyond = max(0, writes[place] - surely[place])
        if unsure := min(beyond, perhaps[place]):
            result.unsure[place.verb] += unsure
        result.doubled += [str(place)] * max(0, beyond - perhaps[place])
    _machines(result, ledger, facts)
    planned = _planned(ledger)
    result.foreseen = planned.total()
    result.doubled += _ordered_again(ledger, planned)
    return result


def _planned(ledger: Ledger) -> Counter[str]:
    """Decisions to scale, to the pods for which nodes were planned because of them; not by plans of which an order was not carried out."""
    failed = {
        effect.plan
        for id_, effect in ledger.effects.items()
        if isinstance(effect, IncreaseNodeGroup)
        and not isinstance(next(iter(ledger.outcomes.get(id_, ())), None), Applied)
    }
    planned: Counter[str] = Counter()
    for plan in ledger.decisions.values():
        if isinstance(plan, PlanScaleUp) and not plan.shadow and plan.plan not in failed:
            for share in plan.expected:
                planned[share.decision] += share.pods if share.decision else 0
    return +planned


def _ordered_again(ledger: Ledger, planned: Counter[str]) -> list[str]:
    """Decisions for which nodes were planned for more pods than there are to be by them, a line each."""
    lines = []
    for id_, pods in sorted(planned.items()):
        decision = ledger.decisions.get(id_)
        most = decision.replicas if isinstance(decision, ScaleWorkload) else 0
        if pods > most:
            lines.append(f"order for {pods} pods because of {id_}, by which there are {most}")
    return lines


def _times(effect: Effect) -> int:
    """How many requests that change something an effect is."""
    return len(effect.messages) if isinstance(effect, RecordObjectEvent) else 1


def place_of(effect: Effect) -> Place | None:
    """Where an effect is to be found in the request log; None for those that are not counted there."""
    target = effect.target
    plural = f"{target.kind.lower()}s"
    match effect:
        case ScaleWorkload():
            return Place("scale", plural, target.namespace, target.name)
        case SetStatus():
            return Place("status", plural, target.namespace, target.name)
        case PatchObject():
            return Place("patch", plural, target.namespace, target.name)
        case DeleteObject():
            return Place("delete", plural, target.namespace, target.name)
        case EvictPod():
            return Place("evict", plural, target.namespace, target.name)
        case MarkNode():
            return Place("mark", plural, "", target.name)
        case CreateObject():
            return Place("create", plural, target.namespace)
        case RecordObjectEvent():
            return Place("event", "events", target.namespace or "default")
    return None


def _counted(plural: str, namespace: str) -> bool:
    """Whether what is done there is of the scenario."""
    return plural == "nodes" or namespace.startswith(NAMESPACES)


def _written(entries: Iterable[Entry]) -> tuple[Counter[Place], Counter[Place]]:
    """Requests that changed something, and those that raised the count of an object event."""
    writes: Counter[Place] = Counter()
    raised: Counter[Place] = Counter()
    seen: set[tuple[str, int]] = set()
    for entry in entries:
        path, _, query = entry.path.partition("?")
        changed = entry.method != "GET" and entry.code in (200, 201, 202) and entry.user_agent == AGENT
        if not changed or OURS in query or (found := _PATH.match(path)) is None:
            continue
        if not _counted(found["plural"], found["namespace"] or "") or entry.noted.get("ending"):
            continue
        # A write that leaves everything as it is gives the object no new version.
        if entry.rv and (path, entry.rv) in seen:
            continue
        seen.add((path, entry.rv))
        namespace, plural, name, sub = (found[k] or "" for k in ("namespace", "plural", "name", "sub"))
        match entry.method, plural, sub:
            case "PATCH", "events", "":
                raised[Place("event", plural, namespace)] += 1
            case "POST", "events", "":
                writes[Place("event", plural, namespace)] += 1
            case "POST", _, "" if not name:
                writes[Place("create", plural, namespace)] += 1
            case "PATCH", _, "":
                writes[Place("patch", plural, namespace, name)] += 1
            case "DELETE", _, "":
                writes[Place("delete", plural, namespace, name)] += 1
            case "POST", "pods", "eviction":
                writes[Place("evict", plural, namespace, name)] += 1
            case "PUT", "nodes", "":
                writes[Place("mark", plural, "", name)] += 1
            case "PUT" | "PATCH", _, "scale" | "status":
                writes[Place(sub, plural, namespace, name)] += 1
    return writes, raised


def _machines(result: Effects, ledger: Ledger, facts: Iterable[object]) -> None:
    most: Counter[str] = Counter()
    for id_, effect in ledger.effects.items():
        if isinstance(effect, IncreaseNodeGroup):
            outcome = next(iter(ledger.outcomes.get(id_, ())), None)
            if isinstance(outcome, Applied) and not outcome.found:
                result.ordered += effect.size - effect.from_size
            if not isinstance(outcome, Rejected):
                most[effect.target.name] += effect.size - effect.from_size
    machines: dict[str, set[str]] = {}
    for fact in facts:
        if isinstance(fact, NodeGroupObserved):
            machines.setdefault(fact.name, set()).update(m.id for m in fact.machines)
    result.machines = sum(map(len, machines.values()))
    for group, found in sorted(machines.items()):
        place = str(Place("order", "machines", "", group))
        result.doubled += [place] * max(0, len(found) - most[group])


def requests(path: Path) -> list[Entry]:
    """The request log, over all restarts; the line that a kill cut off counts as never written."""
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except msgspec.DecodeError:
            continue
    return entries


def refusals(entries: Iterable[Entry]) -> Counter[int]:
    """How often the API server refused our requests, by code."""
    return Counter(e.code for e in entries if e.user_agent == AGENT and e.code >= 409)
