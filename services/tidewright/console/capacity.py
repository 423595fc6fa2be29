"""Nodes by group with what fills them, room that is kept and for whom, pods that wait, and what scale-down would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from tidewright.asking.answers.listing import ListedObject
from tidewright.asking.errors import BadInput
from tidewright.asking.planning import answer_of_scale_down
from tidewright.asking.point_in_time import Moment
from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME
from tidewright.asking.source import Source
from tidewright.console.asked import Looking
from tidewright.console.charts import Cell, cells
from tidewright.console.kept import Kept
from tidewright.console.lists import Lists
from tidewright.console.words import money, size
from tidewright.host.fold.explainer import Reference
from tidewright.kube.keys import PodKey, parts
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.pending.pods import pending
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import what_if_scaledown
from tidewright.provisioning.tell.explaining import EXPLAINER

REASONS = 12
"""Reasons for which pods wait that are told apart."""
REQUESTS, EXPLAINED = 50, 5
"""Requests that wait which are named, and of how many of them it is told why: that looks at every node."""
AT_ONCE = 600
"""Nodes of a group that are drawn before it is asked for alone."""
OF_ONE = 6_000
FILLS = ("cpu", "memory")
OVER = (cond.PROVISIONED, cond.FAILED, cond.BOOKING_EXPIRED, cond.CAPACITY_REVOKED)
"""Conditions of requests that look for no room."""


@dataclass(frozen=True)
class NodeFill:
    """A node and what its pods ask for.

    Attributes:
        part: resource to the part of it that is asked for; `kept` to the part that placeholders hold.
        trouble: why nothing new goes there; empty where it does.
    """

    name: str
    pods: int
    part: dict[str, float]
    kept: float
    trouble: str

    @property
    def fill(self) -> float:
        return max(self.part.values(), default=0.0)


@dataclass
class GroupFill:
    """A node group with its nodes; the name is empty for nodes of none.

    Attributes:
        coming: nodes that are ordered and not there.
        price_micro: of an hour of one node; None where it is not known.
    """

    name: str
    nodes: list[NodeFill] = field(default_factory=list)
    coming: int = 0
    target: int = 0
    price_micro: int | None = None

    @property
    def fills(self) -> dict[str, float]:
        """Resource to the part of it that is asked for, over all nodes."""
        count = len(self.nodes) or 1
        return {name: sum(node.part.get(name, 0.0) for node in self.nodes) / count for name in FILLS}


@dataclass(frozen=True)
class Booking:
    """Room that is kept for a request.

    Attributes:
        amounts: resource to what is kept, for people.
        nodes: where it is, with how many pods.
    """

    request: Reference
    pods: int
    amounts: str
    nodes: dict[str, int]


@dataclass(frozen=True)
class Waiting:
    """Pods that wait for the same reason.

    Attributes:
        example: one of them.
    """

    reason: str
    pods: int
    example: Reference


@dataclass(frozen=True)
class WaitingRequest:
    """A request that has no room yet.

    Attributes:
        why: what keeps it from room; empty where that was not looked at.
    """

    request: Reference
    pods: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class Capacity:
    """What provisioning knows of a moment, counted.

    Attributes:
        requests: those that wait, the first ones by name; `requests_in_all` is how many do.
    """

    groups: tuple[GroupFill, ...]
    bookings: tuple[Booking, ...]
    waiting: tuple[Waiting, ...]
    requests: tuple[WaitingRequest, ...]
    requests_in_all: int
    plan: what_if_scaledown.ScaleDownAnswer


async def page(source: Source, kept: Kept, lists: Lists, looking: Looking) -> dict[str, Any]:
    """What the template is given.

    Raises:
        BadInput: there is no such group.
    """
    found, sequence = await kept.of("capacity", looking.moment, lambda: counted(source, looking.moment))
    asked = looking.given("group")
    if asked and asked not in {group.name for group in found.groups}:
        raise BadInput(f"group={asked}: no such node group at this moment")
    shown = [group for group in found.groups if not asked or group.name == asked]
    most = OF_ONE if asked else AT_ONCE
    plan = answer_of_scale_down(source, looking.moment, found.plan)
    going = {node.node for node in plan.going}
    held = await _held(lists, looking)
    return {
        "groups": [(group, drawing(group, looking, going, plan.later, most)) for group in shown],
        "asked": asked,
        "most": most,
        "nodes": sum(len(group.nodes) for group in found.groups),
        "bookings": [(booking, held.get(booking.request)) for booking in found.bookings],
        "waiting": found.waiting,
        "requests": found.requests,
        "requests_in_all": found.requests_in_all,
        "waiting_in_all": sum(one.pods for one in found.waiting),
        "buffers": (await lists.of("capacitybuffer", looking.moment)).items(),
        "plan": plan,
        "staying": sorted(
            (
                (reason, what_if_scaledown.in_words(reason), len(names))
                for reason, names in plan.staying.items()
            ),
            key=lambda row: -row[2],
        ),
        "saves": money(plan.saves_per_hour_micro),
        "money": money,
        "sequence": sequence,
    }


async def _held(lists: Lists, looking: Looking) -> dict[Reference, ListedObject]:
    rows = await lists.of("provisioningrequest", looking.moment)
    return {Reference(item.kind, item.namespace, item.name): item for item in rows.items()}


async def counted(source: Source, moment: Moment) -> Capacity:
    """The state of provisioning as of a moment, counted."""
    fold = await restored(source, Asked.about(source, BY_NAME["provisioning"], ""), moment.seq)
    state: State = fold.state
    now = max(fold.at, moment.at)
    groups, bookings = groups_of(state), bookings_of(state)
    waiting, (requests, in_all) = waiting_of(state, now), waiting_requests(state, now)
    # The state is used up by this.
    return Capacity(groups, bookings, waiting, requests, in_all, what_if_scaledown.preview(state, now))


def groups_of(state: State) -> tuple[GroupFill, ...]:
    """Groups by name with their nodes, those of none last."""
    asked, count, kept = _asked(state)
    groups = {
        name: GroupFill(
            name,
            coming=state.open[name].increase if name in state.open else 0,
            target=group.target,
            price_micro=group.price_micro,
        )
        for name, group in sorted(state.groups.items())
        if group.exists
    }
    for name, node in sorted(state.nodes.items()):
        offers = {resource: node.allocatable.get(resource, 0) for resource in FILLS}
        used, hold = asked.get(name, Counter()), kept.get(name, Counter())
        part = {r: used.get(r, 0) / offers[r] for r in FILLS if offers[r]}
        of_kept = max((hold.get(r, 0) / offers[r] for r in FILLS if offers[r]), default=0.0)
        trouble = (
            "going" if node.leaving or node.doomed or name in state.removals
            else "not ready" if not node.ready
            else "cordoned" if node.unschedulable
            else ""
        )  # fmt: skip
        group = groups.setdefault(node.group, GroupFill(node.group))
        group.nodes.append(NodeFill(name, count[name], part, of_kept, trouble))
    return tuple(sorted(groups.values(), key=lambda group: (not group.name, group.name)))


def _asked(state: State) -> tuple[dict[str, Counter[str]], Counter[str], dict[str, Counter[str]]]:
    """Node to what its pods ask for, to their number, and to what placeholders among them ask for."""
    asked: dict[str, Counter[str]] = {}
    kept: dict[str, Counter[str]] = {}
    count: Counter[str] = Counter()
    for key, pod in state.pods.items():
        if not pod.node:
            continue
        count[pod.node] += 1
        shape = state.shapes.get(pod.shape)
        amounts = {r: shape.requests.get(r, 0) for r in FILLS} if shape is not None else {}
        asked.setdefault(pod.node, Counter()).update(amounts)
        if key in state.held or key in state.held_chunks:
            kept.setdefault(pod.node, Counter()).update(amounts)
    return asked, count, kept


def bookings_of(state: State) -> tuple[Booking, ...]:
    """Requests that keep room, by name."""
    found = []
    for key, request in sorted(state.requests.items()):
        if not request.booked:
            continue
        amounts: Counter[str] = Counter()
        for digest, pods in request.sets:
            shape = state.shapes.get(digest)
            for resource, amount in (shape.requests if shape is not None else {}).items():
                amounts[resource] += amount * pods
        nodes: Counter[str] = Counter()
        for places in request.places.values():
            nodes.update(places)
        namespace, name = parts(key)
        found.append(
            Booking(
                Reference("provisioningrequest", namespace, name),
                sum(pods for _, pods in request.sets),
                ", ".join(
                    f"{size(amounts[r], r)} {'' if r == 'cpu' else r}".strip() for r in FILLS if amounts[r]
                ),
                dict(nodes),
            )
        )
    return tuple(found)


def waiting_of(state: State, now: float) -> tuple[Waiting, ...]:
    """Pods that wait and may have nodes made, by reason."""
    pods = pending(state, index_of(state), now).pods
    by_shape: dict[str, list[PodKey]] = {}
    for key, pod in pods:
        by_shape.setdefault(pod.shape, []).append(key)
    by_reason: dict[str, tuple[int, Reference]] = {}
    for keys in by_shape.values():
        namespace, name = parts(keys[0])
        example = Reference("pod", namespace, name)
        sentences = EXPLAINER.standing(state, example, now)
        reason = " ".join(sentences[:2]) or "Nothing is known of why."
        before, first = by_reason.get(reason, (0, example))
        by_reason[reason] = (before + len(keys), first)
    ordered = sorted(by_reason.items(), key=lambda entry: -entry[1][0])
    return tuple(Waiting(reason, pods, example) for reason, (pods, example) in ordered[:REASONS])


def waiting_requests(state: State, now: float) -> tuple[tuple[WaitingRequest, ...], int]:
    """Requests that room is looked for, by name: the first of them, and how many there are in all."""
    found: list[WaitingRequest] = []
    in_all = 0
    for key, request in sorted(state.requests.items()):
        over = any(cond.is_true(request.conditions, type_) for type_ in OVER)
        if over or request.booked or request.deleting or not request.accepted:
            continue
        in_all += 1
        if in_all > REQUESTS:
            continue
        asked = Reference("provisioningrequest", *parts(key))
        why = tuple(EXPLAINER.standing(state, asked, now)) if len(found) < EXPLAINED else ()
        found.append(WaitingRequest(asked, sum(pods for _, pods in request.sets), why))
    return tuple(found), in_all


def drawing(
    group: GroupFill, looking: Looking, going: set[str], later: Mapping[str, str], most: int
) -> Markup:
    """The nodes of a group as a map, the fullest first."""
    listed = sorted(group.nodes, key=lambda node: (-node.fill, node.name))[:most]
    return cells(
        (_cell(node, looking, going, later) for node in listed),
        f"{len(group.nodes)} nodes of {group.name or 'no group'}, filled as their pods ask",
    )


def _cell(node: NodeFill, looking: Looking, going: set[str], later: Mapping[str, str]) -> Cell:
    said = [
        f"{node.name}: {node.pods} pods",
        *(f"{node.part[r]:.0%} of {r}" for r in FILLS if r in node.part),
    ]
    if node.kept:
        said.append(f"{node.kept:.0%} kept")
    style = (
        "wrong"
        if node.trouble == "not ready"
        else "going"
        if node.trouble == "going" or node.name in going
        else ""
    )
    if node.name in later:
        said.append("nobody needs it")
        style = style or "unneeded"
    if node.trouble or node.name in going:
        said.append(node.trouble or "scale-down would take it")
    return Cell(node.fill, style, ", ".join(said), looking.object(Reference("node", "", node.name)))
