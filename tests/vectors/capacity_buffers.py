"""`capacity-buffers.json`: a buffer is told to a played cluster, and its status, room and events are looked at.

What the actuator finds out about pods is played with the actuator's own functions. Kinds that are one rule call the
function that the decider calls. A case that gives an expectation of ours is run as ours; all others as the reference
does it (`as-reference`), where that matters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.vectors.provisioning_life import NOW, Cluster
from tests.vectors.provisioning_world import Found, wanted
from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tidewright.actuator.resolving import model
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.decisions import CreateObject, PatchObject, SetStatus
from tidewright.events.placement import PlacementObjectObserved
from tidewright.kube.conditions import find, parse
from tidewright.kube.keys import buffer_key, key_of
from tidewright.kube.mergepatch import merged
from tidewright.kube.podspecs import of_template
from tidewright.kube.podtemplates import defaulted, essentials
from tidewright.kube.projection.capacity import resource_quota
from tidewright.kube.quotascopes import scopes_of, traits_of
from tidewright.kube.times import rfc3339
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers import gauge
from tidewright.provisioning.buffers import spec as specs
from tidewright.provisioning.buffers.naming import template_name
from tidewright.provisioning.buffers.quotas import matches
from tidewright.provisioning.buffers.reports import reports
from tidewright.provisioning.differences import OF_BUFFERS
from tidewright.provisioning.fold.common import EVALUATE
from tidewright.sim.api.crd.definitions import kind_of

CRDS = Path(__file__).parents[2] / "libs/tidewright/kube/crds"
SOON_S = 60.0


class Buffers(Cluster):
    """A played cluster with buffers, and an actuator that answers what a chunk is like.

    Attributes:
        workloads: kind and name to the object.
        scales: the same to what its scale subresource says, and its pods.
        patches: a template that is changed is seen as it is then.
    """

    def __init__(self, config: JsonObject, *, room: int = 0) -> None:
        super().__init__({"quiet-window": 0.0, **config})
        self.workloads: dict[tuple[str, str], JsonObject] = {}
        self.scales: dict[tuple[str, str], tuple[JsonObject, list[JsonObject]]] = {}
        self.patches = True
        if room:
            self.add_node("room", cpu=room * 1000, memory=room * 2**30, pods=room)

    def buffer(self, name: str, spec: JsonObject, **more: Any) -> None:
        """A buffer as the API server stores it, with its default."""
        self.observe(name, {"provisioningStrategy": specs.ACTIVE, **spec}, **more)

    def observe(self, name: str, spec: JsonObject, **more: Any) -> None:
        self.tell(
            p.CapacityBufferObserved(
                at=self.now, namespace="ns", name=name, uid=f"uid-{name}", generation=1,
                **{"created_at": self.now, "spec": spec, **more},
            )
        )  # fmt: skip

    def pod_template(self, name: str, pod_spec: JsonObject, generation: int = 1, **more: Any) -> None:
        self.tell(
            p.PodTemplateObserved(
                at=self.now, namespace="ns", name=name, uid=f"uid-{name}", template={"spec": pod_spec},
                generation=generation, **more,
            )
        )  # fmt: skip

    def status(self, name: str) -> JsonObject | None:
        return self.statuses.get(f"ns/{name}")

    def _act(self, decision: Decision) -> None:
        if self.silent:
            return
        match decision:
            case p.ResolvePod():
                self._inbox.append(self._resolved(decision))
            case CreateObject() if decision.target.kind == "PodTemplate":
                self._inbox.append(o.Applied(at=self.now, decision=decision.id))
                self._inbox.append(_template_fact(self.now, decision.manifest))
            case PatchObject() if decision.target.kind == "PodTemplate":
                self._inbox.append(o.Applied(at=self.now, decision=decision.id))
                if self.patches:
                    self._inbox.append(self._changed(decision))
            case _:
                super()._act(decision)

    def _changed(self, decision: PatchObject) -> Event:
        key = key_of(decision.target.namespace, decision.target.name)
        meta = self.state.template_meta[key]
        whole = merged({"template": self.state.templates[key]}, decision.patch)
        manifest = {"metadata": {"namespace": "ns", "name": decision.target.name, **whole["metadata"]}}
        fact = _template_fact(self.now, {**manifest, "template": whole["template"]})
        return msgspec.structs.replace(fact, generation=meta.generation + 1)

    def _made(self, manifest: JsonObject) -> list[Event]:
        """A pod, with the priority of its class as the API server resolves it."""
        name = manifest["spec"].get("priorityClassName")
        priority = self.state.objects.get("PriorityClass", {}).get(name, {}).get("value", 0)
        resolved = {**manifest["spec"], "priority": priority}
        digest = of_template({**manifest, "spec": resolved}, manifest["metadata"]["namespace"]).digest
        return [
            msgspec.structs.replace(fact, digest=digest, priority=priority)
            if isinstance(fact, f.ShapeObserved)
            else msgspec.structs.replace(fact, shape=digest)
            for fact in super()._made(manifest)
        ]

    def _resolved(self, decision: p.ResolvePod) -> Event:
        source = decision.source
        if source.kind == "PodTemplate":
            template = self.state.templates[f"{source.namespace}/{source.name}"]  # type: ignore[index]
            return o.Applied(
                at=self.now, decision=decision.id, result={"template": essentials(defaulted(template))}
            )
        where = (source.kind, source.name)
        scale, pods = self.scales.get(where, (None, []))
        group = source.api_version.rpartition("/")[0]
        found = model(group, source.kind, scale=scale, pods=pods, workload=self.workloads.get(where))
        if isinstance(found, str):
            return o.Rejected(
                at=self.now,
                decision=decision.id,
                reason="Invalid",
                message=found,
                result={"stage": "workload"},
            )
        result = {
            "template": essentials(defaulted(found.template), live=found.live),
            "replicas": found.replicas,
        }
        return o.Applied(at=self.now, decision=decision.id, result={**result, "live": found.live})


def _template_fact(now: float, manifest: JsonObject) -> Event:
    metadata = manifest["metadata"]
    (owner,) = metadata["ownerReferences"]
    return p.PodTemplateObserved(
        at=now, namespace=metadata["namespace"], name=metadata["name"], uid=f"uid-{metadata['name']}",
        template=manifest["template"], generation=1,
        owners=(f.Owner(kind=owner["kind"], name=owner["name"], uid=owner["uid"], controller=True),),
    )  # fmt: skip


def priority_class(now: float, name: str = "tidewright-buffer", value: int = -(2**31)) -> Event:
    return PlacementObjectObserved(at=now, name=name, kind="PriorityClass", fields={"value": value})


def pod_spec(requests: Mapping[str, Any], **more: Any) -> JsonObject:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": dict(requests)}}], **more}


def config_of(case: Case) -> JsonObject:
    ways: Any = case.get("ways", "expected_ours" not in case)
    return {"as-reference": ways, "buffer-max-chunks": 2**31 - 1}


def replicas(case: Case) -> Found:
    """How many, as the status says."""
    cluster = Buffers(config_of(case), room=2**16)
    spec = dict(case["spec"])
    if case["scalable_replicas"] is None:
        cluster.pod_template("chunk", pod_spec(case["pod"]["requests"]))
        spec["podTemplateRef"] = {"name": "chunk"}
    else:
        cluster.workloads["Deployment", "web"] = {
            "spec": {
                "replicas": case["scalable_replicas"],
                "template": {"spec": pod_spec(case["pod"]["requests"])},
            }
        }
        spec["scalableRef"] = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    cluster.buffer("web", spec)
    cluster.settle()
    status = cluster.status("web") or {}
    ready = find(parse(status.get("conditions")), cond.READY)
    actual: JsonObject = {"replicas": status.get("replicas")}
    if ready is not None and ready.status == "False":
        actual["error"] = ready.message.partition(cond.NO_COUNT)[2]
    return differences(wanted(case), actual)


def translate(case: Case) -> Found:
    cluster = Buffers(config_of(case), room=256)
    for template in case.get("pod_templates", ()):
        cluster.pod_template(template["name"], pod_spec(template["requests"]))
    given = case["buffer"]
    for workload in case.get("workloads", ()):
        template = {"spec": pod_spec(workload["requests"])}
        cluster.workloads[workload["kind"], workload["name"]] = {
            "spec": {"replicas": workload["replicas"], "template": template}
        }
    spec: JsonObject = {n: given[n] for n in ("replicas", "percentage", "limits") if n in given}
    if "strategy" in given:
        spec["provisioningStrategy"] = given["strategy"]
    if "pod_template_ref" in given:
        spec["podTemplateRef"] = {"name": given["pod_template_ref"]}
    if "scalable_ref" in given:
        reference = given["scalable_ref"]
        spec["scalableRef"] = {
            "apiGroup": reference.get("api_group", ""), "kind": reference["kind"], "name": reference["name"],
        }  # fmt: skip
        if "scale" in case:
            cluster.scales[reference["kind"], reference["name"]] = _scale(case["scale"])
    cluster.observe(given["name"], spec)
    cluster.settle()
    due = cluster.fold.timers.get(EVALUATE)
    soon = due is not None and due < cluster.now + SOON_S
    status = _translated(cluster.status(given["name"]))
    found = differences(wanted(case), {"status": status, "requeue": soon})
    message = (status or {}).get("message", "")
    if not message.startswith(case["expected"].get("message_prefix", "")):
        found.append(f"$.message: expected {case['expected']['message_prefix']!r} first, found {message!r}")
    if case["expected"].get("message_contains", "") not in message:
        found.append(f"$.message: expected {case['expected']['message_contains']!r} in {message!r}")
    return [text for text in found if "$.message_" not in text]


def _scale(scale: Mapping[str, Any]) -> tuple[JsonObject, list[JsonObject]]:
    pods = [
        {
            "metadata": {"name": pod["name"], "creationTimestamp": _stamp(pod["age"])},
            "spec": pod_spec(pod["requests"], nodeName="n"),
            "status": {"phase": "Running"},
        }
        for pod in scale["pods"]
    ]
    said = {
        "spec": {"replicas": scale["replicas"]},
        "status": {"replicas": scale["replicas"], "selector": "a=b"},
    }
    return said, pods


def _stamp(age: float) -> str:
    return rfc3339(NOW - age)


def _translated(status: JsonObject | None) -> JsonObject | None:
    if status is None:
        return None
    ready = find(parse(status.get("conditions")), cond.READY)
    return {
        "pod_template_ref": (status.get("podTemplateRef") or {}).get("name"),
        "replicas": status.get("replicas"),
        "strategy": status.get("provisioningStrategy"),
        "ready": ready is not None and ready.status == "True",
        "message": ready.message if ready is not None else None,
    }


def name_of_template(case: Case) -> Found:
    name = template_name(case["buffer"])
    return differences(wanted(case), {"name": name, "length": len(name)})


def quota(case: Case) -> Found:
    cluster = Buffers(config_of(case), room=4096)
    for given in case["quotas"]:
        cluster.tell(quota_fact(given, cluster.now))
    names: list[str] = []
    for given in case["buffers"]:
        more = {"priorityClassName": given["priority_class"]} if "priority_class" in given else {}
        cluster.pod_template(f"t-{given['name']}", pod_spec(given["requests"], **more))
        spec = {
            "provisioningStrategy": specs.ACTIVE, "podTemplateRef": {"name": f"t-{given['name']}"},
            "replicas": given["replicas"],
        }  # fmt: skip
        cluster.observe(given["name"], spec, created_at=NOW + given.get("created", 0))
    cluster.settle()
    for decision in cluster.of(SetStatus):
        names = [name for name in names if name != decision.target.name] + [decision.target.name]
    actual = []
    for name in names:
        status = cluster.status(name) or {}
        limited = find(parse(status.get("conditions")), cond.LIMITED)
        actual.append(
            {
                "name": name,
                "replicas": status.get("replicas"),
                "limited": None if limited is None else limited.status == "True",
                "message": limited.message if limited is not None else "",
            }
        )
    return differences(wanted(case), {"buffers": actual})


def quota_fact(given: Mapping[str, Any], now: float) -> Event:
    """A quota of a case, by way of the projection of a ResourceQuota."""
    body = {
        "metadata": {"name": given.get("name", "q"), "namespace": "ns"},
        "spec": {"hard": given.get("hard", {}), **_scopes(given)},
        "status": {"hard": given.get("hard", {}), "used": given.get("used", {})},
    }
    return msgspec.structs.replace(resource_quota(msgspec.json.encode(body)).fact, at=now)


def _scopes(given: Mapping[str, Any]) -> JsonObject:
    spec: JsonObject = {}
    if "scopes" in given:
        spec["scopes"] = given["scopes"]
    if "scope_selector" in given:
        expressions = [
            {
                "scopeName": e["scope"],
                "operator": e["op"],
                **({"values": e["values"]} if "values" in e else {}),
            }
            for e in given["scope_selector"]
        ]
        spec["scopeSelector"] = {"matchExpressions": expressions}
    return spec


def quota_scope(case: Case) -> Found:
    pod = case["pod"]
    spec = pod_spec(pod.get("requests", {}))
    if "priority_class" in pod:
        spec["priorityClassName"] = pod["priority_class"]
    if pod.get("cross_namespace_affinity"):
        term = {"topologyKey": "zone", "namespaces": ["other"]}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = matches(scopes_of(_scopes(case["quota"])), traits_of(spec))
    return differences(wanted(case), {"matches": answer if isinstance(answer, bool) else "error"})


def strategy(case: Case) -> Found:
    cluster = Buffers(config_of(case))
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    for given in case["buffers"]:
        more = {"provisioningStrategy": given["strategy"]} if "strategy" in given else {}
        cluster.observe(given["name"], {"podTemplateRef": {"name": "t"}, "replicas": 0, **more})
    cluster.settle()
    return differences(wanted(case), {"kept": sorted(key.partition("/")[2] for key in cluster.statuses)})


def inject(case: Case) -> Found:
    """The loop's half alone: the status is somebody else's."""
    cluster = Buffers({**config_of(case), "capacity-buffer-controller-enabled": False})
    shape = cluster.shape({"cpu": 1000})
    for number in range(case["pending"]):
        cluster.pod(f"p{number}", shape)
    for template in case["pod_templates"]:
        cluster.pod_template(template["name"], pod_spec({"cpu": "1"}), generation=template["generation"])
    for given in case["buffers"]:
        conditions = [
            {
                "type": kind,
                "status": str(given[name]),
                "reason": "r",
                "message": "",
                "lastTransitionTime": _stamp(60),
            }
            for name, kind in (("ready", cond.READY), ("provisioning", cond.PROVISIONING))
            if name in given
        ]
        status: JsonObject = {"conditions": conditions}
        if given.get("strategy") is not None:
            status["provisioningStrategy"] = given["strategy"]
        if "pod_template_ref" in given:
            status["podTemplateRef"] = {"name": given["pod_template_ref"]}
        status |= {
            n: given[k]
            for k, n in (("generation", "podTemplateGeneration"), ("replicas", "replicas"))
            if k in given
        }
        cluster.observe(given["name"], {"provisioningStrategy": specs.ACTIVE}, status=status)
    cluster.settle()
    actual: JsonObject = {}
    chunks = 0
    for given in case["buffers"]:
        mine = cluster.state.buffers[buffer_key("ns", given["name"])].wanted
        chunks += mine
        written = find(parse((cluster.status(given["name"]) or {}).get("conditions")), cond.PROVISIONING)
        actual[given["name"]] = {
            "touched": written is not None and written.reason != "r",
            "fake_pods": mine,
            **({"provisioning": written.status == "True", "reason": written.reason, "message": written.message} if written is not None else {}),
        }  # fmt: skip
    waiting = sum(pod.waiting for pod in cluster.state.pods.values())
    return differences(wanted(case), {"buffers": actual, "pods_after": waiting + chunks})


def events(case: Case) -> Found:
    registry = case["registry"]
    counted: dict[str, dict[str, int]] = {"triggered": {}, "remain": {}}
    for part, counts in counted.items():
        for pod in case[part]:
            if pod in registry:
                counts[registry[pod]] = counts.get(registry[pod], 0) + 1
    told = reports(
        placed=counted["triggered"],
        lacking=counted["remain"],
        increases={f"g{n}": "1->2 (max: 3)" for n in range(case["scale_up_infos"])},
        why=dict.fromkeys(counted["remain"], "1 Insufficient cpu"),
        silent=case["result"] in ("successful", "error"),
    )
    entries = sorted([r.buffer, r.reason, r.chunks] for r in told)
    actual = {
        "events": entries,
        **{part: [pod for pod in case[part] if pod not in registry] for part in counted},
    }
    expected = {**wanted(case), "events": sorted(wanted(case)["events"])}
    return differences(expected, actual)


def defaults(case: Case) -> Found:
    containers = [{"name": f"c{n}", "resources": one} for n, one in enumerate(case["containers"])]
    template = defaulted({"spec": {"containers": containers}})
    requests = [container["resources"]["requests"] for container in template["spec"]["containers"]]
    return differences(wanted(case), {"requests": requests})


def metric(case: Case) -> Found:
    watched = [
        gauge.Watched(b["uid"], b.get("strategy"), b["created"], b.get("has_conditions", False))
        for b in case["buffers"]
    ]
    found = gauge.oldest(watched, case["cache"], case["now"])
    actual = {"new_buffer_true": found.new, "new_buffer_false": found.known, "cache": found.looks}
    problems = differences(wanted(case), actual)
    if set(found.looks) != set(wanted(case)["cache"]):
        problems.append(f"$.cache: expected {sorted(wanted(case)['cache'])}, found {sorted(found.looks)}")
    return problems


def crd(case: Case) -> Found:
    """What the embedded API server says to it, by the definition that is installed."""
    documents = yaml.safe_load((CRDS / f"{case['crd'].lower()}s.yaml").read_text(encoding="utf-8"))
    kind = kind_of(documents)
    found: Found = []
    for version in ("v1beta1", "v1alpha1"):
        body = {
            "apiVersion": f"{kind.group}/{version}", "kind": case["crd"], "metadata": {"name": "x", "namespace": "ns"},
            **case["object"],
        }  # fmt: skip
        custom = kind.custom[version]
        custom.default(body)
        refused, _ = custom.validate(body, None)
        found += differences(wanted(case), {"valid": not refused}, f"$.{version}")
    return found


KINDS = {
    "buffer-replicas": replicas,
    "buffer-translate": translate,
    "buffer-template-name": name_of_template,
    "buffer-quota": quota,
    "buffer-quota-scope": quota_scope,
    "buffer-strategy": strategy,
    "buffer-inject": inject,
    "buffer-events": events,
    "buffer-defaults": defaults,
    "buffer-metric": metric,
    "crd": crd,
}


def cases(content: Any) -> Sequence[Case] | None:
    found = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(found, list) or not found or not all(isinstance(c, dict) for c in found):
        return None
    mine = any(re.match("buffer-", str(c.get("kind", ""))) or c.get("crd") == "CapacityBuffer" for c in found)
    return found if mine else None


def run(case: Case) -> Result:
    kind = case["kind"]
    check = KINDS.get(kind)
    if check is None:
        return Result(case["name"], kind, Verdict.NOT_COVERED)
    found = check(case)
    return Result(case["name"], kind, Verdict.FAILED if found else Verdict.PASSED, tuple(found))


def by_which(case: Case) -> str:
    """The difference by which a case comes out otherwise in our way; empty when it does not."""
    ours = {**case, "expected_ours": case["expected"], "ways": False}
    if not KINDS[case["kind"]](ours):
        return ""
    single = (n for n in OF_BUFFERS if not KINDS[case["kind"]]({**ours, "ways": n}))
    return next(single, "what the case says of ours" if "expected_ours" in case else "none of them")


def lines(found: Sequence[Case]) -> list[str]:
    """For people: which cases come out otherwise without `as-reference`, and by which difference."""
    said = {case["name"]: number for case in found if case["kind"] in KINDS and (number := by_which(case))}
    head = [f"without as-reference: {len(said)} come out otherwise"] if said else []
    return head + [f"  [{number}] {name}" for name, number in said.items()]


SUITE = Suite("capacity buffers", cases, run, lines)
