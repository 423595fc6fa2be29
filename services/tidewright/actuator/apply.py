"""One attempt at one effect, against the API server.

Each kind of effect has its method: look, compare, write under the precondition that nothing changed
since the look. A scale, which somebody waits for, is written without a look, in one request that tests what the decision
saw; where that does not hold, it is looked as well. A repeat of an attempt whose answer was lost finds the wanted value and
says `found`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tidewright.actuator import marks as node_marks
from tidewright.actuator import requests, verdict
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.allowed.pods import marked
from tidewright.actuator.endpoints import Endpoints
from tidewright.actuator.marks import TaintOfAnother
from tidewright.actuator.nodelooks import NodeLooks
from tidewright.actuator.object_events import ObjectEvents
from tidewright.actuator.occupied import occupied
from tidewright.actuator.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, LeaseHeld, Mismatch
from tidewright.actuator.resolving import Resolver
from tidewright.actuator.short_lists import short_list
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
TIMEOUT_S = 15.0
LOOK_INSTEAD = frozenset((400, 403, 405, 409, 415, 422, 501))
"""Refusals of a patch that tests what it expects, after which it is looked: the object is not as was expected, or may be
written in another way only. Servers behind an API server, and proxies, say in many ways that they take no such patch."""
_any: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


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
        self._object_events = ObjectEvents(wall)
        self._looks = NodeLooks()

    def finished(self, effect: Effect) -> None:
        """The effect has its outcome: no further attempt will come."""
        self._object_events.finished(effect)

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
                    return await self._object_events.attempt(effect, partial(self._request, allowance))
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
            return await short_list("nodes", most, partial(self._request, allowance, "GET"))

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
        """Why these instances may not be deleted; None when nothing on them would have to move."""
        try:
            return await occupied(effect, partial(self._request, allowance, "GET"))
        except KubeError as error:
            return verdict.of_error(error)
        except msgspec.MsgspecError as error:
            return Again("Unavailable", f"the API server's answer cannot be read: {error}")

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
        async def place(source: ObjectRef) -> Resource:
            return await self._place(source, allowance)

        return await Resolver(partial(self._request, allowance), place).attempt(effect)

    async def _endpoint(self, effect: EndpointEffect, allowance: Allowance) -> Result:
        return await Endpoints(partial(self._request, allowance), self._endpoint_tokens).attempt(effect)


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
