"""What the pods of a PodTemplate or workload are like: which pod is the model, and what admission makes of it.

    model(...)   of what was read of a workload, what its pods are like, and how many it wants; pure
    Resolver     reads, and tries to create a pod with `dryRun=All`: nothing is made

Of a workload the newest of its running pods is the model, because admission has seen that one; else its pod template.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tidewright.actuator import verdict
from tidewright.actuator.verdict import Again, Done, Refused, Result
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.provisioning import ResolvePod
from tidewright.kube.discovery import Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.podtemplates import ACCOUNT_VOLUME, defaulted, essentials
from tidewright.kube.times import seconds_or_none

KNOWN: Final = {
    ("apps", "Deployment"): "replicas",
    ("apps", "ReplicaSet"): "replicas",
    ("apps", "StatefulSet"): "replicas",
    ("batch", "Job"): "parallelism",
    ("", "ReplicationController"): "replicas",
}
"""Kinds whose pod template is read, and the member of their spec that says how many pods are wanted."""


class Model(msgspec.Struct, frozen=True):
    """A pod, or pod template, as it is stored; how many the workload wants, None where it does not say."""

    template: JsonObject
    replicas: int | None = None
    live: bool = False


def model(
    group: str,
    kind: str,
    *,
    scale: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]],
    workload: Mapping[str, Any] | None,
    failed: str = "",
) -> Model | str:
    """What the pods of a workload are like; why that is not known.

    Args:
        group: of the workload's kind; empty for the core group.
        kind: of the workload.
        scale: its scale subresource; None where there is none.
        pods: those that its selector finds; none without a selector, which would mean every pod of the namespace.
        workload: the object, of the kinds in `KNOWN`.
        failed: why scale or pods could not be read.
    """
    newest = _newest(pods)
    known = KNOWN.get((group, kind))
    said = ((workload or {}).get("spec") or {}).get(known) if known else None
    count = said if said is not None else ((scale or {}).get("spec") or {}).get("replicas")
    if known and workload is not None and count is None:
        count = 1
    if newest is not None:
        return Model(template=dict(newest), replicas=count, live=True)
    before = f"failed to resolve live pod: {failed}, " if failed else ""
    if known is None:
        return f"{before}failed to resolve scalable object: kind {group or 'core'}/{kind} is not supported to use pod template"
    template = ((workload or {}).get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return f"{before}failed to resolve scalable object: it has no pod template"
    return Model(template=template, replicas=count)


def _newest(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest pod that runs, or is about to: one that has failed or is going says nothing of those to come."""
    there = [
        pod
        for pod in pods
        if (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        and not (pod.get("metadata") or {}).get("deletionTimestamp")
    ]
    return max(there, key=_created, default=None)


def _created(pod: Mapping[str, Any]) -> tuple[float, str]:
    metadata = pod.get("metadata") or {}
    return seconds_or_none(metadata.get("creationTimestamp")) or 0.0, str(metadata.get("name"))


Ask = Callable[[str, str, bytes | None], Awaitable[JsonObject]]
"""Makes one request: method, path, body. Raises KubeError."""
Place = Callable[[ObjectRef], Awaitable[Resource]]
"""Where objects of a kind are. Raises KubeError."""


class _Stopped(Exception):
    """The API server refused at a stage."""

    def __init__(self, stage: str, error: KubeError, before: str = "") -> None:
        super().__init__(str(error))
        self.stage, self.error, self.before = stage, error, before

    def result(self) -> Refused | Again:
        """What it means for the effect."""
        found = verdict.of_error(self.error)
        if isinstance(found, Again):
            return found
        return Refused(found.reason, self.before + found.message, {"stage": self.stage})


class Resolver:
    """One question what the pods of a source are like, answered by what the API server says."""

    def __init__(self, ask: Ask, place: Place) -> None:
        self._ask, self._place = ask, place

    async def attempt(self, effect: ResolvePod) -> Result:
        """Ask once."""
        source = effect.source
        try:
            if source.kind == "PodTemplate":
                found: Model | str = Model(template=await self._template(source))
            else:
                found = await self._workload(source)
            if isinstance(found, str):
                return Refused("Invalid", found, {"stage": "workload"})
            template = found.template
            if effect.admission and not found.live:  # one that runs has been through admission
                template = await self._admitted(source.namespace, template)
        except _Stopped as stopped:
            return stopped.result()
        try:
            kept = essentials(defaulted(template), live=found.live)
        except (AttributeError, TypeError, KeyError) as error:
            return Refused(
                "Invalid", f"it has not the form of a pod template: {error}", {"stage": "admission"}
            )
        result: JsonObject = {"template": kept}
        if found.replicas is not None:
            result["replicas"] = found.replicas
        if found.live:
            result["live"] = True
        return Done(result=result)

    async def _template(self, source: ObjectRef) -> JsonObject:
        path = f"/api/v1/namespaces/{quote(source.namespace, safe='')}/podtemplates/{quote(source.name, safe='')}"
        try:
            template = (await self._ask("GET", path, None)).get("template")
        except KubeError as error:
            raise _Stopped("template", error) from error
        return template if isinstance(template, dict) else {}

    async def _workload(self, source: ObjectRef) -> Model | str:
        group = source.api_version.rpartition("/")[0]
        scale: JsonObject | None = None
        pods: list[JsonObject] = []
        workload: JsonObject | None = None
        failed = ""
        try:
            place = await self._place(source)
        except KubeError as error:
            raise _Stopped("workload", error, "failed to resolve scalable object: ") from error
        try:
            if (group, source.kind) != ("batch", "Job"):  # it has no scale, and what ran of it says little
                scale = await self._ask("GET", place.item(source.namespace, source.name, "scale"), None)
                selector = (scale.get("status") or {}).get("selector")
                if isinstance(selector, str) and selector:
                    pods = await self._pods(source.namespace, selector)
        except KubeError as error:
            if error.retriable:
                raise _Stopped("workload", error) from error
            failed = str(error)
        if (group, source.kind) in KNOWN:
            try:
                workload = await self._ask("GET", place.item(source.namespace, source.name), None)
            except KubeError as error:
                before = f"failed to resolve live pod: {failed}, " if failed else ""
                raise _Stopped("workload", error, f"{before}failed to resolve scalable object: ") from error
        return model(group, source.kind, scale=scale, pods=pods, workload=workload, failed=failed)

    async def _pods(self, namespace: str, selector: str) -> list[JsonObject]:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?labelSelector={quote(selector, safe='')}"
        items = (await self._ask("GET", path, None)).get("items")
        return items if isinstance(items, list) else []

    async def _admitted(self, namespace: str, template: Mapping[str, Any]) -> JsonObject:
        """A pod of the template as it would be stored: defaulted, limited and changed by webhooks."""
        metadata = template.get("metadata") or {}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "fake-pod-",
                "namespace": namespace,
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            },
            "spec": _unbound(template.get("spec") or {}),
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?dryRun=All"
        try:
            return await self._ask("POST", path, msgspec.json.encode(pod))
        except KubeError as error:
            raise _Stopped("admission", error) from error


def _unbound(spec: Mapping[str, Any]) -> JsonObject:
    """A pod's spec without its node, and without what the server adds to each pod anew."""
    kept = {name: value for name, value in spec.items() if name != "nodeName"}
    if kept.get("volumes"):
        kept["volumes"] = [v for v in kept["volumes"] if not str(v.get("name")).startswith(ACCOUNT_VOLUME)]
    return kept
