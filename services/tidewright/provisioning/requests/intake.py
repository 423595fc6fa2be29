"""A new request taken up: spec and templates frozen, or why it cannot be. Spec 2.5."""

from __future__ import annotations

import msgspec

from tidewright.events.base import Decision, JsonObject
from tidewright.events.provisioning import AcceptRequest
from tidewright.kube.keys import RequestKey, key_of, name_of, namespace_of, parts
from tidewright.kube.podshape import PodShape
from tidewright.kube.podspecs import of_template, scheduling_fields
from tidewright.kube.quotascopes import limits_of, traits_of
from tidewright.provisioning.index.claims import has_claims
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import resolved
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import spec
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.state import Cost, ShapeFields, State
from tidewright.provisioning.tell.sentences import because


def take_up(work: RequestWork, key: RequestKey) -> list[Decision]:
    """Freeze spec and templates; or fail, when they are wrong or do not come."""
    request = work.state.requests[key]
    namespace, name = parts(key)
    try:
        request_spec = spec.parse(request.spec)
    except ValueError as error:
        work.put(key, cond.invalid(str(error)))
        return [work.event(key, "Failed", str(error), "Warning")]
    missing = [
        s.template for s in request_spec.pod_sets if key_of(namespace, s.template) not in work.state.templates
    ]
    if missing:
        grace_over = request.seen_at + work.settings.template_grace_s
        if work.now < grace_over:
            work.dues.append(grace_over)
            return []
        message = spec.missing_templates_message(len(request_spec.pod_sets), missing)
        why = because(
            "TemplatesMissing",
            missing=len(missing),
            referenced=len(request_spec.pod_sets),
            names=", ".join(missing[:5]),
        )
        if cond.is_true(work.conditions_of(key), cond.PROVISIONED):  # by a service before this one
            work.put(key, cond.failed_to_book(message), why)
        else:
            work.put(key, cond.failed_to_create_pods(message), why)
        return [work.event(key, "Failed", message + _elsewhere(work, namespace, missing), "Warning")]
    sets: list[tuple[PodShape, int]] = []
    costs: list[Cost] = []
    shapes: dict[str, JsonObject] = {}
    for pod_set in request_spec.pod_sets:
        template = work.state.templates[key_of(namespace, pod_set.template)]
        shape = of_template(template, namespace)
        fields = ShapeFields(
            requests={k: v for k, v in shape.requests.items() if k != "pods"},
            scheduling=scheduling_fields(template.get("spec") or {}) if not shape.error else {},
            namespace=namespace,
            labels=shape.labels,
            priority=shape.priority,
        )
        shape = resolved(work.index, shape, fields.scheduling)
        sets.append((shape, pod_set.count))
        spec_of_pods = template.get("spec") or {}
        costs.append(Cost() if shape.error else Cost(traits_of(spec_of_pods), limits_of(spec_of_pods)))
        shapes[shape.digest] = msgspec.to_builtins(fields)
        if shape.error:
            work.put(key, cond.failed_to_create_pods(f"pod template {pod_set.template}: {shape.error}"))
            return [work.event(key, "Failed", shape.error, "Warning")]
    work.fresh[key], work.costs[key] = tuple(sets), tuple(costs)
    work.put(
        key,
        cond.ACCEPT,
        because("ClassIsOurs", class_name=request.class_name, mode=work.modes[key].value),
    )
    decisions: list[Decision] = [
        AcceptRequest(
            at=work.now,
            namespace=namespace,
            name=name,
            uid=request.uid,
            class_name=request.class_name,
            parameters=work.parameters_of(request),
            sets=tuple((shape.digest, n) for shape, n in sets),
            shapes=shapes,
            costs=tuple(msgspec.to_builtins(cost) for cost in costs),
        ),
        work.event(key, "Accepted", cond.ACCEPT.message),
    ]
    decisions += [
        work.event(key, "ParameterIgnored", text, "Warning") for text in work.understood[key].warnings
    ]
    return decisions


def prepare(state: State, index: Index) -> None:
    """Let nodes be asked for what the templates of new requests and DaemonSets ask for, before anything is placed."""
    index.claims.prepared = set()
    for key, request in state.requests.items():
        if request.accepted or request.deleting:
            continue
        namespace = namespace_of(key)
        pod_sets = request.spec.get("podSets")
        for pod_set in pod_sets if isinstance(pod_sets, list) else ():
            reference = pod_set.get("podTemplateRef") if isinstance(pod_set, dict) else None
            name = reference.get("name") if isinstance(reference, dict) else None
            template = state.templates.get(key_of(namespace, str(name)))
            if template is None or not has_claims(template.get("spec") or {}):
                continue
            shape = of_template(template, namespace)
            if not shape.error:
                index.claims.prepared.add(shape.digest)
                resolved(index, shape, scheduling_fields(template.get("spec") or {}))
    for daemon_set, daemon in state.daemons.items():  # of a new node they take their devices first
        if (daemon.get("spec") or {}).get("resourceClaims"):
            shape = of_template(daemon, namespace_of(daemon_set))
            if not shape.error:
                index.claims.prepared.add(shape.digest)
                resolved(index, shape, scheduling_fields(daemon["spec"]))


def _elsewhere(work: RequestWork, namespace: str, missing: list[str]) -> str:
    """Where templates of these names are, that a request cannot name."""
    namespaces = sorted(
        {namespace_of(key) for key in work.state.templates if name_of(key) in missing} - {namespace}
    )
    if not namespaces:
        return ""
    more = f" and {len(namespaces) - 3} others" if len(namespaces) > 3 else ""
    return (
        f"; there are such in namespace {', '.join(namespaces[:3])}{more},"
        f" but a request finds only those of its own namespace, {namespace}"
    )
