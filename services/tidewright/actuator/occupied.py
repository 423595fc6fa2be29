"""Whether nodes whose instances are to be deleted carry what would be lost with them, looked at just before.

A node by itself, or, where many of a cluster go together, all of its nodes and pods by two lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from urllib.parse import quote

import msgspec

from tidewright.actuator import marks as node_marks
from tidewright.actuator import verdict
from tidewright.actuator.nodelooks import MANY, NODES_AT_ONCE, NODES_EACH
from tidewright.actuator.short_lists import Get, short_list
from tidewright.actuator.verdict import Refused
from tidewright.events.base import JsonObject
from tidewright.events.provisioning import DeleteInstances
from tidewright.kube.errors import KubeError

LOOKED_AT_ONCE = 16
"""How many nodes of one deletion are looked at at the same time."""
PODS_EACH, PODS_AT_ONCE = 20, 1000
"""How long the list of pods of nodes that go may be for each of them, and at all: a longer one costs more than it spares."""


async def occupied(effect: DeleteInstances, get: Get) -> Refused | None:
    """Why these instances may not be deleted; None when nothing on them would have to move.

    What the decider knew is what watchers had said: a pod that has come since would be lost. So would those of an
    instance that was deleted for never having become a node, and became one before the actuator came to it.

    Raises:
        KubeError: the API server did not say.
    """
    if effect.uids:
        return await _any_held_up(effect, get)
    async for name, sure in _nodes_of(effect, get):
        if name not in effect.nodes:
            return Refused(verdict.CONFLICT, _became(name, sure=sure))
        if (why := await _carries(name, get)) is not None:
            return why
    return None


async def _any_held_up(effect: DeleteInstances, get: Get) -> Refused | None:
    """The first refusal of a node, in their order, with the names of all that are refused; some are looked at at a time, for all of them go together."""
    if len(effect.nodes) >= MANY and (there := await _all_at_once(effect, get)) is not None:
        return _of_all(_refusals(effect, *there))
    places = asyncio.Semaphore(LOOKED_AT_ONCE)

    async def look(name: str, uid: str) -> Refused | None:
        async with places:
            return await _held_up(name, uid, get)

    looks = [look(name, uid) for name, uid in zip(effect.nodes, effect.uids, strict=True)]
    found = await asyncio.gather(*looks, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    each = zip(effect.nodes, found, strict=True)
    return _of_all((name, one) for name, one in each if isinstance(one, Refused))


async def _all_at_once(effect: DeleteInstances, get: Get) -> tuple[list[JsonObject], list[JsonObject]] | None:
    """All nodes, and after them all pods, of a cluster that is not much more than what goes; None of a larger one.

    The pods are asked for once the marks of all nodes were seen, as when each is looked at by itself: what comes
    later would have to tolerate them. A list that goes on is not read further.
    """
    count = len(effect.nodes)
    nodes = await short_list("nodes", min(NODES_EACH * count, NODES_AT_ONCE), get)
    if nodes is None:
        return None
    pods = await short_list("pods", min(PODS_EACH * count, PODS_AT_ONCE), get)
    return None if pods is None else (nodes, pods)


async def _held_up(name: str, uid: str, get: Get) -> Refused | None:
    try:
        node = await get(f"/api/v1/nodes/{quote(name, safe='')}")
    except KubeError as error:
        if error.status == 404:
            return None  # the object went first; nothing can run there any more that the API knows of
        raise
    return _not_drained(name, uid, node) or await _carries(name, get)


async def _nodes_of(effect: DeleteInstances, get: Get) -> AsyncIterator[tuple[str, bool]]:
    """Names of the nodes that the instances of an effect have become, though it names no uids; and whether that is sure."""
    instances, more = set(effect.instances), ""
    names = {instance.rpartition("/")[2] for instance in instances}
    while True:
        page = await get(f"/api/v1/nodes?limit={NODES_AT_ONCE}{more}")
        for node in page.get("items") or ():
            provider_id, name = (node.get("spec") or {}).get("providerID"), _name_of(node)
            if provider_id in instances:
                yield name, True
            elif not provider_id and (name in names or node_marks.uninitialized(node)):
                yield name, False
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return
        more = f"&continue={quote(str(token), safe='')}"


async def _carries(name: str, get: Get) -> Refused | None:
    """The refusal when a pod that would have to move is on a node."""
    selector = quote(f"spec.nodeName={name}", safe="")
    pods = await get(f"/api/v1/pods?fieldSelector={selector}")
    return _carried(name, pods.get("items") or ())


def _refusals(
    effect: DeleteInstances, nodes: Iterable[JsonObject], pods: Iterable[JsonObject]
) -> Iterator[tuple[str, Refused]]:
    """Of nodes whose instances are to be deleted, why they may not be; one that is not among `nodes` nothing keeps."""
    there = {_name_of(node): node for node in nodes}
    on: dict[str, list[JsonObject]] = {}
    for pod in pods:
        on.setdefault((pod.get("spec") or {}).get("nodeName") or "", []).append(pod)
    for name, uid in zip(effect.nodes, effect.uids, strict=True):
        if name in there:
            why = _not_drained(name, uid, there[name]) or _carried(name, on.get(name, ()))
            if why is not None:
                yield name, why


def _of_all(refused: Iterable[tuple[str, Refused]]) -> Refused | None:
    """The refusal of several, by the first of them: its result names them all."""
    each = list(refused)
    return msgspec.structs.replace(each[0][1], result={"nodes": [name for name, _ in each]}) if each else None


def _not_drained(name: str, uid: str, node: JsonObject) -> Refused | None:
    wrong = node_marks.not_drained(node, uid)
    return Refused(verdict.CONFLICT, f"node {name} {wrong}") if wrong else None


def _carried(name: str, pods: Iterable[JsonObject]) -> Refused | None:
    """The refusal for the first of a node's pods that would have to move."""
    movable = next(filter(node_marks.would_move, pods), None)
    if movable is None:
        return None
    meta = movable.get("metadata") or {}
    return Refused(
        verdict.NODE_NOT_EMPTY, f"pod {meta.get('namespace')}/{meta.get('name')} is on node {name}"
    )


def _name_of(node: JsonObject) -> str:
    return str((node.get("metadata") or {}).get("name"))


def _became(name: str, *, sure: bool) -> str:
    if sure:
        return f"its instance has become node {name} meanwhile"
    return f"its instance may have become node {name}, which has no spec.providerID: it is left until the node has one, or is gone"
