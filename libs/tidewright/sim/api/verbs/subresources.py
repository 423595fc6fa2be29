"""Subresources: scale, binding, eviction and the finalize of namespaces; status goes the way of updates.

`scale` shows three numbers of an object as `autoscaling/v1 Scale` and writes one of them back; `binding`
gives a pod its node; `eviction` deletes a pod unless a PodDisruptionBudget has nothing left to give (429).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.kube import mergepatch
from tidewright.kube.conditions import entry
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.sim.api import errors
from tidewright.sim.api.http.request import Request, decode_body, decode_yaml
from tidewright.sim.api.kinds.resources import Kind, ScalePaths
from tidewright.sim.api.verbs import disruptions, patch, writing
from tidewright.sim.api.verbs.deletion import DeleteOptions, Preconditions
from tidewright.sim.api.verbs.writing import Outcome, modify

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
_BUDGETS = "policy/poddisruptionbudgets"
_EVICTION_RETRY_S = 10


async def serve(api: Api, request: Request) -> Outcome:
    """Answer a request for a subresource. Raises 404 for one that the kind has not, 405 for a wrong verb."""
    kind, name, verb = request.kind, request.subresource, request.verb
    if name == "status" and kind.status and verb in {"get", "update", "patch"}:
        return await _whole(api, request)
    if name == "scale" and kind.scale is not None and verb in {"get", "update", "patch"}:
        return await _scale(api, request, kind.scale)
    subresource = next((sub for sub in kind.subresources if sub.name == name), None)
    if subresource is None:
        if name in {"status", "scale"} and (kind.status if name == "status" else kind.scale):
            raise errors.method_not_allowed(kind.group, kind.plural)
        raise errors.path_not_found()
    if verb not in subresource.verbs:
        raise errors.method_not_allowed(kind.group, kind.plural)
    match name:
        case "binding":
            return await bind(api, request)
        case "eviction":
            return await _evict(api, request)
    return await _whole(api, request)


async def _whole(api: Api, request: Request) -> Outcome:
    """A subresource that shows and takes the whole object."""
    if request.verb == "get":
        from tidewright.sim.api.verbs.reading import get

        return Outcome(get(api, request))
    if request.verb == "update":
        return await writing.update(api, request)
    return await writing.apply_patch(api, request)


# -- scale --------------------------------------------------------------------------------------------


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str) or selector is None:
        return selector or ""
    try:
        if "matchLabels" in selector or "matchExpressions" in selector:
            return str(LabelSelector.of(selector))
    except SelectorError:
        return ""
    return ",".join(f"{key}={selector[key]}" for key in sorted(selector))


def scale_of(obj: Object, paths: ScalePaths) -> Object:
    """The Scale of an object."""
    meta = obj["metadata"]
    shown = {
        key: meta[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in meta
    }
    replicas = _at(obj, paths.spec)
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": _at(obj, paths.status) or 0},
    }
    if paths.selector is not None:
        selector = _selector_text(_at(obj, paths.selector))
        if selector:
            scale["status"]["selector"] = selector
    return scale


async def _scale(api: Api, request: Request, paths: ScalePaths) -> Outcome:
    kind = request.kind
    if request.verb == "get":
        record = api.store.table(kind.table_name).get(request.namespace, request.name)
        if record is None:
            raise errors.not_found(kind.group, kind.plural, request.name)
        return Outcome(record, obj=scale_of(record.decode(), paths))

    change_scale = _scale_change(request)

    def change(old: Object) -> Object:
        scale = change_scale(scale_of(old, paths))
        if not isinstance(scale, dict):
            raise errors.bad_request("the patch leaves something that is not a Scale")
        _check_scale(kind, request, scale)
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise errors.conflict(kind.group, kind.plural, request.name, errors.MODIFIED)
        uid = (scale.get("metadata") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise errors.conflict(
                kind.group,
                kind.plural,
                request.name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}",
            )
        target = old
        for part in paths.spec[:-1]:
            target = target.setdefault(part, {})
        target[paths.spec[-1]] = (scale.get("spec") or {}).get("replicas") or 0
        return old

    outcome = await modify(api, request, change, [])
    obj = outcome.record.decode() if outcome.record is not None else outcome.obj
    return Outcome(outcome.record, obj=scale_of(obj or {}, paths), code=200)


def _scale_change(request: Request) -> Callable[[Object], Any]:
    if request.verb == "update":
        body = decode_body(request.body, request.headers.get("Content-Type", ""))
        if body.get("kind", "Scale") != "Scale":
            raise errors.bad_request(f"wrong object passed to Scale update: {body.get('kind')}")
        return lambda _: body
    media = request.headers.get("Content-Type", "").split(";", 1)[0].strip()
    if media == patch.JSON_PATCH:
        operations = patch.decode_patch(request.body)
        return lambda scale: patch.json_patch(scale, operations)
    if media in {patch.MERGE, patch.STRATEGIC}:
        merged = patch.decode_patch(request.body)
        return lambda scale: mergepatch.merged(scale, merged)
    if media == patch.APPLY:
        applied = decode_yaml(request.body)
        return lambda scale: mergepatch.merged(scale, applied)
    raise errors.unsupported_media_type((patch.JSON_PATCH, patch.MERGE, patch.APPLY))


def _check_scale(kind: Kind, request: Request, scale: Object) -> None:
    spec = scale.get("spec")
    if spec is not None and not isinstance(spec, dict):
        raise errors.bad_request("spec of the Scale is not an object")
    replicas = (spec or {}).get("replicas") or 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise errors.bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '
            f"{'string' if isinstance(replicas, str) else 'number'} into Go struct field ScaleSpec.spec.replicas of "
            "type int32"
        )
    if replicas < 0:
        raise errors.invalid(
            "autoscaling",
            "Scale",
            request.name,
            [FieldError("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")],
        )
    name = (scale.get("metadata") or {}).get("name")
    if name and name != request.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    del kind


# -- binding ------------------------------------------------------------------------------------------


async def bind(api: Api, request: Request) -> Outcome:
    """Give a pod its node. 409 when it has one already or is being deleted."""
    binding = decode_body(request.body, request.headers.get("Content-Type", ""))
    target = binding.get("target") or {}
    node = target.get("name") or ""
    name = (binding.get("metadata") or {}).get("name") or ""
    if request.name and name != request.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    wrong = []
    if target.get("kind") not in ("", None, "Node"):
        wrong.append(
            f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        )
    if not node:
        wrong.append("target.name: Required value")
    if wrong:  # as the API server answers: it does not take this for the client's fault
        raise errors.ApiError(500, wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]", reason="")
    pods = api.registry.named("pods")
    table = api.store.table("/pods")
    record = table.get(request.namespace, name)
    if record is None or pods is None:
        raise errors.not_found("", "pods", name)
    obj = record.decode()
    why = ""
    if "deletionTimestamp" in obj["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif obj["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{obj["spec"]["nodeName"]}"'
    elif obj["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise errors.conflict("", "pods/binding", name, why)
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != obj["metadata"]["uid"]:
        raise errors.conflict(
            "",
            "pods/binding",
            name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {obj['metadata']['uid']}",
        )
    obj["spec"]["nodeName"] = node
    annotations = (binding.get("metadata") or {}).get("annotations")
    if annotations:
        obj["metadata"].setdefault("annotations", {}).update(annotations)
    status = obj.setdefault("status", {})
    status["conditions"] = [
        condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"
    ] + [{**entry("PodScheduled", True, api.stamps.now()), "lastProbeTime": None}]
    if not request.dry_run:
        stored = api.store.put(table, obj)
        api.committed(pods, stored, record, obj)
    return Outcome(
        None,
        obj={"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        code=201,
    )


# -- eviction -----------------------------------------------------------------------------------------


async def _evict(api: Api, request: Request) -> Outcome:
    eviction = decode_body(request.body, request.headers.get("Content-Type", ""))
    if eviction.get("kind", "Eviction") != "Eviction":
        raise errors.bad_request(f"not an Eviction: {eviction.get('kind')}")
    named = (eviction.get("metadata") or {}).get("name")
    if named and named != request.name:
        raise errors.bad_request(f"name in URL does not match name in Eviction object: {named}")
    raw = eviction.get("deleteOptions") or {}
    given = raw.get("preconditions") or {}
    options = DeleteOptions(
        grace_period_seconds=raw.get("gracePeriodSeconds"),
        preconditions=Preconditions(given.get("uid"), given.get("resourceVersion")) if given else None,
        propagation_policy=raw.get("propagationPolicy"),
        dry_run=["All"] if request.dry_run or raw.get("dryRun") else None,
    )
    await api.admission.mutate(request, "CREATE", eviction, None)
    await api.admit_validating(request, "CREATE", eviction, None)
    record = api.store.table("/pods").get(request.namespace, request.name)
    if record is None:
        raise errors.not_found("", "pods", request.name)
    pod = record.decode()
    if api.notes:
        request.noted = disruptions.evicted(api, pod)
    if not _exempt(pod):
        _charge_budget(api, request, pod, dry_run=bool(options.dry_run))
    deletion = msgspec.structs.replace(request, verb="delete", subresource="")
    await api.deletion.delete(deletion, request.namespace, request.name, options)
    return Outcome(
        None,
        obj={"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        code=201,
    )


def _exempt(pod: Object) -> bool:
    """Pods that end or have not begun are evicted whatever the budgets say."""
    return (pod.get("status") or {}).get("phase") in {
        "Succeeded",
        "Failed",
        "Pending",
    } or "deletionTimestamp" in pod["metadata"]


def _charge_budget(api: Api, request: Request, pod: Object, *, dry_run: bool) -> None:
    table = api.store.table(_BUDGETS)
    budgets = []
    for record in table.scan(request.namespace):
        budget = record.decode()
        selector = LabelSelector.of((budget.get("spec") or {}).get("selector"))
        if selector.matches(pod["metadata"].get("labels")):
            budgets.append((record, budget))
    if not budgets:
        return
    if len(budgets) > 1:
        raise errors.ApiError(
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    record, budget = budgets[0]
    status = budget.setdefault("status", {})
    if budget["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        raise _denied(
            f"The disruption budget {record.name} is still being processed by the server.",
            _EVICTION_RETRY_S,
        )
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )
    if not ready:
        policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy")
        healthy_enough = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
        if policy == "AlwaysAllow" or healthy_enough:
            return
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise _denied(
            f"The disruption budget {record.name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[request.name] = api.stamps.now()
    kind = api.registry.named("poddisruptionbudgets.policy")
    if kind is not None and not dry_run:
        stored = api.store.put(table, budget)
        api.committed(kind, stored, record, budget)


def _denied(why: str, retry_after_s: int = 0) -> errors.ApiError:
    """429; without a time after which to come again, so that the client decides (kubectl: every 5 s)."""
    return errors.too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_s,
        [{"reason": "DisruptionBudget", "message": why}],
    )
