"""One attempt at one effect, against the API server.

Each kind of effect has its method: look, compare, write under the precondition that nothing changed
since the look. A scale, which somebody waits for, is written without a look, in one request that tests what the decision
saw; where that does not hold, it is looked as well. A repeat of an attempt whose answer was lost finds the wanted value and
says `found`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from tidewright.actuator import marks as node_marks
from tidewright.actuator import requests, verdict
from tidewright.actuator.allowed.pods import marked
from tidewright.actuator.correlate import Correlator, Count, Drop, Write
from tidewright.actuator.endpoints import Endpoints
from tidewright.actuator.marks import TaintOfAnother
from tidewright.actuator.nodelooks import MANY, NODES_AT_ONCE, NODES_EACH, NodeLooks
from tidewright.actuator.requests import LeaseHeld, Mismatch
from tidewright.actuator.resolving import Resolver
from tidewright.actuator.verdict import Again, Closed, Done, Refused, Result
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import EndpointEffect
from tidewright.events.provisioning import DeleteInstances, MarkNode, ReportClusterStatus, ResolvePod
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import BY_KIND
from tidewright.kube.mergepatch import merged

LOOKS = 5
"""How often a write that lost a race is made again on what the winner left, within one attempt."""
LOOKED_AT_ONCE = 16
"""How many nodes of one deletion are looked at at the same time."""
PODS_EACH, PODS_AT_ONCE = 20, 1000
"""How long the list of pods of nodes that go may be for each of them, and at all: a longer one costs more than it spares."""
TIMEOUT_S = 15.0
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
LOOK_INSTEAD = frozenset((400, 403, 405, 409, 415, 422, 501))
"""Refusals of a patch that tests what it expects, after which it is looked: the object is not as was expected, or may be
written in another way only. Servers behind an API server, and proxies, say in many ways that they take no such patch."""

_any: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Allowance:
    """The requests of one effect: counted, and each under the common budget."""

    def __init__(
        self,
        spend: Callable[[], Awaitable[None]],
        *,
        prepaid: int = 0,
        record: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`record` puts on the log that a request is about to be made which must not be made twice."""
        self.requests = 0
        self._spend = spend
        self._prepaid = prepaid
        self._record = record
        self.alike = 1
        """So many effects wait or run for which the same look would do, this one among them, as the attempt begins."""

    async def once(self) -> None:
        """Return when it is on the log that such a request may have been made: a restart makes none."""
        if self._record is not None:
            await self._record()

    async def take(self) -> None:
        """Wait until one more request may be made."""
        if self._prepaid:
            self._prepaid -= 1
        else:
            await self._spend()
        self.requests += 1


class Told(msgspec.Struct):
    """How far the object events of one decision have come.

    Attributes:
        done: so many of its messages were written, or dropped.
        next: what is to be done about the one after them; None before that is known.
        written: so many were written or counted up, as the last of them or by somebody `found` there.
        dropped: why some were not, as the last of them.
    """

    done: int = 0
    next: Write | Count | Drop | None = None
    written: int = 0
    found: bool = False
    dropped: str = ""


class Gone(Exception):
    """The object that was meant is not there any more."""


class NotOurs(Exception):
    """The object carries no mark of the service that wants it gone."""


class Applier:
    """Effects on Kubernetes objects."""

    def __init__(
        self,
        kube: Kube,
        discovery: Discovery,
        *,
        wall: Callable[[], float] = time.time,
        endpoint_tokens: Mapping[str, Path] | None = None,
    ) -> None:
        """`wall` gives the stamps of object events, which are for people; for `endpoint_tokens` see `Endpoints`."""
        self._endpoint_tokens = endpoint_tokens
        self._kube = kube
        self._discovery = discovery
        self._wall = wall
        self._correlator = Correlator()
        self._looks = NodeLooks()
        self._pending: dict[str, Told] = {}
        """Object events that are under way, by their decision."""

    def finished(self, effect: Effect) -> None:
        """The effect has its outcome: no further attempt will come."""
        self._pending.pop(effect.id, None)

    async def attempt(self, effect: Effect, allowance: Allowance, marks: Sequence[str] = ()) -> Result:  # noqa: C901  # a case per answer
        """Try once. Whatever the API server says becomes a result.

        `marks`: labels or annotations, one of which an object that is to go must carry.
        """
        try:
            match effect:
                case ScaleWorkload():
                    return await self._scale(effect, allowance)
                case SetStatus():
                    return await self._set_status(effect, allowance)
                case PatchObject():
                    return await self._patch(effect, allowance)
                case CreateObject():
                    return await self._create(effect, allowance)
                case DeleteObject():
                    return await self._delete(effect, allowance, marks)
                case HoldLease():
                    return await self._hold(effect, allowance)
                case MarkNode():
                    return await self._mark(effect, allowance)
                case EvictPod():
                    return await self._evict(effect, allowance, marks)
                case RecordObjectEvent():
                    return await self._record(effect, allowance)
                case EndpointEffect():
                    return await self._endpoint(effect, allowance)
                case ReportClusterStatus():
                    return await self._report(effect, allowance)
                case ResolvePod():
                    return await self._resolve(effect, allowance)
            return Refused(verdict.NOT_SUPPORTED, f"no way here to apply a {type(effect).__name__}")
        except KubeError as error:
            return verdict.of_error(error)
        except Gone:
            return Done(found=True)
        except NotOurs as error:
            return Refused(verdict.NOT_ALLOWED, str(error))
        except LeaseHeld as error:
            return Refused(verdict.LEASE_HELD, str(error), error.record)
        except TaintOfAnother as error:
            return Refused(verdict.TAINT_OF_ANOTHER, str(error))
        except Mismatch as error:
            return Refused(verdict.CONFLICT, str(error))
        except msgspec.MsgspecError as error:
            return Again("Unavailable", f"the API server's answer cannot be read: {error}")

    async def _request(
        self,
        allowance: Allowance,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        await allowance.take()
        answer = await self._kube.request(
            method, path, body=body, content_type=content_type, timeout_s=TIMEOUT_S
        )
        return _any.decode(answer.body) if answer.body else {}

    async def _place(self, target: ObjectRef, allowance: Allowance) -> Resource:
        """Where the target is.

        Raises:
            KubeError: nobody knows its kind (404), or the API server did not answer.
        """
        group, _, version = target.api_version.rpartition("/")
        watched = BY_KIND.get((group, target.kind))
        if watched is not None and (watched.group == "apps" or watched.kind == "Pod"):
            return Resource(group, watched.version, watched.plural, watched.kind, True, bool(group))
        places = await self._discovery.resources(group, target.kind)
        if not places:
            raise KubeError(404, "NotFound", f'no matches for kind "{target.kind}" in group "{group}"')
        exact = (place for place in places if place.version == version)
        return next(exact, places[0])

    async def _write_looking(
        self,
        allowance: Allowance,
        path: str,
        change: Callable[[JsonObject], bytes | None],
        *,
        method: str = "PUT",
        content_type: str = "application/json",
        write_path: str = "",
    ) -> Done | Again:
        """Look, let `change` say what to write (None: it holds), write; again when a race was lost.

        Raises:
            Mismatch, KubeError: from `change`, and from the API server.
        """
        lost: KubeError | None = None
        for _ in range(LOOKS):
            body = change(await self._request(allowance, "GET", path))
            if body is None:
                return Done(found=True)
            try:
                await self._request(allowance, method, write_path or path, body, content_type)
            except KubeError as error:
                if error.status != 409:
                    raise
                lost = error
                continue
            return Done()
        return Again(verdict.CONFLICT, f"lost {LOOKS} races for {path}: {lost}")

    async def _scale(self, effect: ScaleWorkload, allowance: Allowance) -> Result:
        try:
            return await self._scale_there(effect, allowance)
        except KubeError as error:
            group = effect.target.api_version.rpartition("/")[0]
            if error.status != 404 or not self._discovery.doubt(group, effect.target.kind):
                raise
            return await self._scale_there(effect, allowance)  # in another version, if there is one

    async def _scale_there(self, effect: ScaleWorkload, allowance: Allowance) -> Result:
        place = await self._place(effect.target, allowance)
        path = place.item(effect.target.namespace, effect.target.name, "scale")
        if (patch := requests.scale_patch(effect)) is not None:
            try:
                await self._request(allowance, "PATCH", path, patch, JSON_PATCH)
            except KubeError as error:
                if error.status not in LOOK_INSTEAD:
                    raise
            else:
                return Done()

        def change(scale: JsonObject) -> bytes | None:
            requests.check_uid(scale, effect.target)
            replicas = (scale.get("spec") or {}).get("replicas", 0)
            if replicas == effect.replicas:
                return None
            if replicas != effect.from_replicas:
                raise Mismatch(f"replicas is {replicas}, not {effect.from_replicas} as the decision saw")
            desired = merged(scale, {"spec": {"replicas": effect.replicas}})
            return msgspec.json.encode(desired)

        return await self._write_looking(allowance, path, change)

    async def _set_status(self, effect: SetStatus, allowance: Allowance) -> Result:
        place = await self._place(effect.target, allowance)
        desired = requests.stamped(effect)

        path = place.item(effect.target.namespace, effect.target.name)
        if effect.apply_as:
            return await self._write_looking(
                allowance,
                path,
                lambda obj: requests.apply_body(effect, desired, obj),
                method="PATCH",
                content_type=APPLY_PATCH,
                write_path=f"{path}/status?fieldManager={effect.apply_as}&force=true",
            )

        def change(obj: JsonObject) -> bytes | None:
            requests.check_uid(obj, effect.target)
            if obj.get("status") == desired:
                return None
            return msgspec.json.encode({**obj, "status": desired})

        return await self._write_looking(allowance, path, change, write_path=f"{path}/status")

    async def _patch(self, effect: PatchObject, allowance: Allowance) -> Result:
        place = await self._place(effect.target, allowance)

        def change(obj: JsonObject) -> bytes | None:
            requests.check_uid(obj, effect.target)
            if requests.holds(obj, effect.patch):
                return None
            requests.check_expected(obj, effect.expect)
            return requests.patch_body(effect, requests.resource_version(obj))

        path = place.item(effect.target.namespace, effect.target.name)
        return await self._write_looking(allowance, path, change, method="PATCH", content_type=MERGE_PATCH)

    async def _create(self, effect: CreateObject, allowance: Allowance) -> Result:
        target = effect.target
        place = await self._place(target, allowance)
        try:
            created = await self._request(
                allowance, "POST", place.collection(target.namespace), requests.create_body(effect)
            )
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            existing = await self._request(allowance, "GET", place.item(target.namespace, target.name))
            if requests.decision_of(existing) == effect.id:
                return Done(found=True, result={"uid": requests.uid(existing)})
            other = requests.decision_of(existing)
            return Refused(
                verdict.CONFLICT,
                f"{target.kind} {target.namespace}/{target.name} exists already"
                + (f", of decision {other}" if other else ""),
            )
        return Done(result={"uid": requests.uid(created)})

    async def _marked(self, target: ObjectRef, path: str, marks: Sequence[str], allowance: Allowance) -> str:
        """The uid of an object that carries one of the marks: what is done is done to what was looked at.

        Raises:
            Gone: the object that was meant is not there any more.
            NotOurs: it carries none of them.
            KubeError: the API server did not say.
        """
        if not marks:
            return target.uid
        try:
            obj = await self._request(allowance, "GET", path)
        except KubeError as error:
            if error.status == 404:
                raise Gone from error
            raise
        if target.uid and requests.uid(obj) != target.uid:
            raise Gone
        if not marked(obj, marks):
            raise NotOurs(
                f"{target.kind} {target.namespace}/{target.name} carries none of {', '.join(marks)} (MarkOfObject)"
            )
        return requests.uid(obj)

    async def _delete(self, effect: DeleteObject, allowance: Allowance, marks: Sequence[str]) -> Result:
        target = effect.target
        place = await self._place(target, allowance)
        path = place.item(target.namespace, target.name)
        uid = await self._marked(target, path, marks, allowance)
        try:
            await self._request(allowance, "DELETE", path, requests.delete_body(effect, uid))
        except KubeError as error:
            if _of_a_webhook(error):
                return Refused(error.error_class.capitalize(), str(error))
            # A uid that does not match: the object that was meant is not there any more.
            if error.status == 404 or (error.status == 409 and uid):
                return Done(found=True)
            raise
        return Done()

    async def _hold(self, effect: HoldLease, allowance: Allowance) -> Result:
        target = effect.target
        place = await self._place(target, allowance)
        path = place.item(target.namespace, target.name)

        def change(lease: JsonObject) -> bytes | None:
            return requests.lease_patch(effect, lease)

        try:
            return await self._write_looking(
                allowance, path, change, method="PATCH", content_type=MERGE_PATCH
            )
        except KubeError as error:
            if error.status != 404:
                raise
        try:
            collection = place.collection(target.namespace)
            await self._request(allowance, "POST", collection, requests.lease_body(effect))
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            return Again(verdict.CONFLICT, f"somebody else made {path} at the same time")
        return Done()

    async def _evict(self, effect: EvictPod, allowance: Allowance, marks: Sequence[str]) -> Result:
        target = effect.target
        place = await self._place(target, allowance)
        uid = await self._marked(target, place.item(target.namespace, target.name), marks, allowance)
        path = place.item(target.namespace, target.name, "eviction")
        try:
            await self._request(allowance, "POST", path, requests.eviction_body(effect, uid))
        except KubeError as error:
            if _of_a_webhook(error):
                return Refused(error.error_class.capitalize(), str(error))
            if error.status == 404 or (error.status == 409 and uid):
                return Done(found=True)
            if error.status == 429 and _of_a_budget(error):
                # A budget may stay closed for hours: who decided it knows when to ask again, and for how long.
                return Closed(verdict.DISRUPTION_BUDGET, _budget_said(error), error.retry_after_s)
            raise
        return Done()

    async def _mark(self, effect: MarkNode, allowance: Allowance) -> Result:
        place = await self._place(effect.target, allowance)
        path = place.item("", effect.target.name)

        def change(node: JsonObject) -> bytes | None:
            desired = node_marks.marked(node, effect)
            return None if desired is None else msgspec.json.encode(desired)

        async def listed(most: int) -> list[JsonObject] | None:
            return await self._short_list("nodes", most, allowance)

        copy = await self._looks.copy(effect.target.name, listed, allowance.alike)
        try:
            if copy is not None and await self._wrote(allowance, path, copy, change):
                return Done()
            return await self._write_looking(allowance, path, change)
        except KubeError as error:
            if error.status == 404 and not effect.present and not _of_a_webhook(error):
                return Done(found=True)
            raise

    async def _wrote(
        self, allowance: Allowance, path: str, copy: JsonObject, change: Callable[[JsonObject], bytes | None]
    ) -> bool:
        """Whether an object was changed as a copy of it is to be; not where the copy says that it holds, or may not be."""
        try:
            body = change(copy)
            if body is None:
                return False
            await self._request(allowance, "PUT", path, body)
        except (TaintOfAnother, Mismatch):
            return False
        except KubeError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def occupied(self, effect: DeleteInstances, allowance: Allowance) -> Refused | Again | None:
        """Why these instances may not be deleted; None when nothing on them would have to move.

        What the decider knew is what watchers had said: a pod that has come since would be lost. So would those of an
        instance that was deleted for never having become a node, and became one before the actuator came to it.
        """
        try:
            if effect.uids:
                return await self._any_held_up(effect, allowance)
            async for name, sure in self._nodes_of(effect, allowance):
                if name not in effect.nodes:
                    return Refused(verdict.CONFLICT, _became(name, sure=sure))
                if (why := await self._carries(name, allowance)) is not None:
                    return why
        except KubeError as error:
            return verdict.of_error(error)
        except msgspec.MsgspecError as error:
            return Again("Unavailable", f"the API server's answer cannot be read: {error}")
        return None

    async def _any_held_up(self, effect: DeleteInstances, allowance: Allowance) -> Refused | None:
        """The first refusal of a node, in their order, with the names of all that are refused; some are looked at at a time, for all of them go together."""
        if len(effect.nodes) >= MANY and (there := await self._all_at_once(effect, allowance)) is not None:
            return _of_all(_refusals(effect, *there))
        places = asyncio.Semaphore(LOOKED_AT_ONCE)

        async def look(name: str, uid: str) -> Refused | None:
            async with places:
                return await self._held_up(name, uid, allowance)

        looks = [look(name, uid) for name, uid in zip(effect.nodes, effect.uids, strict=True)]
        found = await asyncio.gather(*looks, return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        each = zip(effect.nodes, found, strict=True)
        return _of_all((name, one) for name, one in each if isinstance(one, Refused))

    async def _all_at_once(
        self, effect: DeleteInstances, allowance: Allowance
    ) -> tuple[list[JsonObject], list[JsonObject]] | None:
        """All nodes, and after them all pods, of a cluster that is not much more than what goes; None of a larger one.

        The pods are asked for once the marks of all nodes were seen, as when each is looked at by itself: what comes
        later would have to tolerate them. A list that goes on is not read further.
        """
        count = len(effect.nodes)
        nodes = await self._short_list("nodes", min(NODES_EACH * count, NODES_AT_ONCE), allowance)
        if nodes is None:
            return None
        pods = await self._short_list("pods", min(PODS_EACH * count, PODS_AT_ONCE), allowance)
        return None if pods is None else (nodes, pods)

    async def _short_list(self, plural: str, most: int, allowance: Allowance) -> list[JsonObject] | None:
        """All objects of a kind of the cluster; None if there are more than so many."""
        page = await self._request(allowance, "GET", f"/api/v1/{plural}?limit={most}")
        return None if (page.get("metadata") or {}).get("continue") else list(page.get("items") or ())

    async def _held_up(self, name: str, uid: str, allowance: Allowance) -> Refused | None:
        try:
            node = await self._request(allowance, "GET", f"/api/v1/nodes/{quote(name, safe='')}")
        except KubeError as error:
            if error.status == 404:
                return None  # the object went first; nothing can run there any more that the API knows of
            raise
        return _not_drained(name, uid, node) or await self._carries(name, allowance)

    async def _nodes_of(
        self, effect: DeleteInstances, allowance: Allowance
    ) -> AsyncIterator[tuple[str, bool]]:
        """Names of the nodes that the instances of an effect have become, though it names no uids; and whether that is sure."""
        instances, more = set(effect.instances), ""
        names = {instance.rpartition("/")[2] for instance in instances}
        while True:
            page = await self._request(allowance, "GET", f"/api/v1/nodes?limit={NODES_AT_ONCE}{more}")
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

    async def _carries(self, name: str, allowance: Allowance) -> Refused | None:
        """The refusal when a pod that would have to move is on a node."""
        selector = quote(f"spec.nodeName={name}", safe="")
        pods = await self._request(allowance, "GET", f"/api/v1/pods?fieldSelector={selector}")
        return _carried(name, pods.get("items") or ())

    async def _report(self, effect: ReportClusterStatus, allowance: Allowance) -> Result:
        target, data = effect.target, {"data": {"status": effect.text}}
        place = await self._place(target, allowance)
        path, patch = place.item(target.namespace, target.name), msgspec.json.encode(data)
        try:
            await self._request(allowance, "PATCH", path, patch, MERGE_PATCH)
        except KubeError as error:
            if error.status != 404:
                raise
            body = msgspec.json.encode(
                {"apiVersion": "v1", "kind": target.kind, "metadata": {"name": target.name}, **data}
            )
            await self._request(allowance, "POST", place.collection(target.namespace), body)
        return Done()

    async def _resolve(self, effect: ResolvePod, allowance: Allowance) -> Result:
        async def ask(method: str, path: str, body: bytes | None) -> JsonObject:
            return await self._request(allowance, method, path, body)

        async def place(source: ObjectRef) -> Resource:
            return await self._place(source, allowance)

        return await Resolver(ask, place).attempt(effect)

    async def _endpoint(self, effect: EndpointEffect, allowance: Allowance) -> Result:
        async def ask(method: str, path: str, body: bytes | None) -> JsonObject:
            return await self._request(allowance, method, path, body)

        return await Endpoints(ask, self._endpoint_tokens).attempt(effect)

    async def _record(self, effect: RecordObjectEvent, allowance: Allowance) -> Result:
        # Another attempt at the same wish is not another wish: what was written before is not written again.
        told = self._pending.setdefault(effect.id, Told())
        for nth in range(told.done, len(effect.messages)):
            if told.next is None:
                told.next = self._correlator.correlate(effect, self._wall(), nth)
            if isinstance(told.next, Drop):
                told.dropped = told.next.message
            else:
                told.found = await self._write_event(effect, told.next, allowance)
                told.written += 1
            told.done, told.next = nth + 1, None
        if not told.written:
            return Refused(verdict.RATE_LIMITED, told.dropped)
        found = told.found and told.written == len(effect.messages) == 1
        return Done(found=found, result={"written": told.written} if told.dropped else {})

    async def _write_event(
        self, effect: RecordObjectEvent, todo: Write | Count, allowance: Allowance
    ) -> bool:
        """Write an object event, or count it up; whether it was there already."""
        events = f"/api/v1/namespaces/{todo.namespace}/events"
        if isinstance(todo, Count):
            patch = msgspec.json.encode(todo.patch)
            try:
                await self._request(allowance, "PATCH", f"{events}/{todo.name}", patch, MERGE_PATCH)
            except KubeError as error:
                if error.status != 404:
                    raise
                name = str(todo.otherwise["metadata"]["name"])
                self._correlator.renamed(effect, todo.name, name)
                todo = Write(todo.namespace, name, todo.otherwise)
            else:
                return False
        try:
            await self._request(allowance, "POST", events, msgspec.json.encode(todo.body))
        except KubeError as error:
            if error.reason == "AlreadyExists":
                return True
            raise
        return False


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


def _of_a_budget(error: KubeError) -> bool:
    """Whether a 429 is a disruption budget's, and not a server's that has too much to do."""
    return any(cause.reason == verdict.DISRUPTION_BUDGET for cause in error.details.causes)


def _of_a_webhook(error: KubeError) -> bool:
    """Whether a webhook denied it, which does so with any status: neither gone, nor of a budget, nor to be asked again at once."""
    return error.message.startswith("admission webhook ")


def _budget_said(error: KubeError) -> str:
    why = next((cause.message for cause in error.details.causes if cause.message), "")
    return f"{error.message} {why}".strip()


def without_writing(effect: Effect, *, shadow: bool) -> Done | None:
    """The result of an effect that is recorded only; None when it is to be applied."""
    if effect.dry_run and not shadow:
        return Done(reason=verdict.DRY_RUN)
    return Done(reason=verdict.SHADOW) if shadow or effect.shadow else None
