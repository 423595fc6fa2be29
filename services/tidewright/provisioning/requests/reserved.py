"""Nodes of a reservation say so, in the profile `hold`: an annotation for people and their tools. Spec 4.5, [B2].

It tells each request that keeps room on the node, and until when. What a node says is known from the node
itself, so that a service that has forgotten everything still takes away what was left behind; `State.marks`
only bridges the time from the decision until the node is seen again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidewright.events.base import Decision, ObjectRef
from tidewright.events.decisions import CreateObject, PatchObject
from tidewright.kube.keys import RequestKey
from tidewright.kube.times import rfc3339
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import placeholders
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.state import RESERVED, Held, State
from tidewright.provisioning.tell.sentences import because


def marked(
    work: RequestWork, decisions: Iterable[Decision], bare: Mapping[RequestKey, set[str]]
) -> Iterator[PatchObject]:
    """The annotations that are not as the bookings want them.

    Args:
        work: the requests, with what room is kept for them.
        decisions: those about placeholders, of this evaluation.
        bare: what `unheld` found, before more was placed.
    """
    if work.settings.dry_run or not work.binding:
        return
    desired = _wanted(work, decisions, bare) if work.settings.hold else {}
    state = work.state
    said_something = (name for name, node in state.nodes.items() if RESERVED in node.annotations)
    for name in sorted({*desired, *state.marks, *said_something}):
        node, mark = state.nodes.get(name), state.marks.get(name)
        if node is None or node.leaving:
            continue
        said = node.annotations.get(RESERVED, "") if mark is None else mark.value
        value = desired.get(name, "")
        if value != said:
            yield _patch(work.now, name, value)


def _wanted(
    work: RequestWork, decisions: Iterable[Decision], bare: Mapping[RequestKey, set[str]]
) -> dict[str, str]:
    """Node to what its annotation shall say."""
    holding: dict[RequestKey, set[str]] = {}
    for held in _holding(work, decisions):
        holding.setdefault(held.request, set()).add(held.node)
    nodes: dict[str, list[str]] = {}
    for key in sorted(work.kept):
        until = work.booked_until(key)
        if until is None:
            continue  # its nodes are on their way: nothing is reserved yet
        for node in holding.get(key, set()) | bare.get(key, set()):
            nodes.setdefault(node, []).append(f"{key} until {rfc3339(until)}")
    return {name: ", ".join(lines) for name, lines in nodes.items()}


def _holding(work: RequestWork, decisions: Iterable[Decision]) -> Iterator[Held]:
    """The placeholders that hold room after this evaluation."""
    for name, held in work.state.held.items():
        if not held.leaving and held.refused_at is None and name not in work.standing.surplus:
            yield held
    for decision in decisions:
        placeholder = placeholders.read(decision) if isinstance(decision, CreateObject) else None
        if placeholder is not None:
            yield placeholder[1]


def unheld(work: RequestWork, real: Grid, trial: Grid) -> dict[RequestKey, set[str]]:
    """Request to nodes that are there with room kept for it that no placeholder holds: it cannot, or it waits.

    Args:
        work: the requests, with what room is kept for them.
        real: nodes and what runs on them.
        trial: the same with what this evaluation has placed for bookings.
    """
    if not work.settings.hold:
        return {}
    nodes_of = {key: set(nodes) for key, nodes in work.unheld.items()}
    room: dict[str, dict[str, int]] = {}
    for key, items in work.kept.items():
        for item in items:
            digest = item.shape.digest
            if work.holds() and not item.shape.devices:
                continue
            if digest not in room:
                room[digest] = placeholders.placed(real, trial, item.shape, {})
            nodes, pods = room[digest], item.count
            own = work.state.requests[key].places.get(digest, {})
            for node in sorted(nodes, key=lambda name: (name not in own, name)):
                taken = min(pods, nodes[node])
                if taken:
                    nodes[node] -= taken
                    pods -= taken
                    nodes_of.setdefault(key, set()).add(node)
    return nodes_of


def _patch(now: float, node: str, value: str) -> PatchObject:
    """One annotation of ours; all others of the node stay as they are."""
    return PatchObject(
        at=now,
        target=ObjectRef(api_version="v1", kind="Node", namespace="", name=node),
        patch={"metadata": {"annotations": {RESERVED: value or None}}},
        because=(because("NodeReserved", requests=value) if value else because("NodeFree"),),
    )


def read(event: PatchObject) -> tuple[str, str] | None:
    """Node and what its annotation is to say; None for a patch of something else."""
    if event.target.kind != "Node":
        return None
    notes: Mapping[str, str | None] = event.patch.get("metadata", {}).get("annotations", {})
    return (event.target.name, notes[RESERVED] or "") if RESERVED in notes else None


def seen(state: State, node: str, annotations: Mapping[str, str]) -> None:
    """A node was observed: what it says holds, unless a patch is still under way."""
    mark = state.marks.get(node)
    if mark is not None and (
        mark.decision not in state.orders or annotations.get(RESERVED, "") == mark.value
    ):
        del state.marks[node]
