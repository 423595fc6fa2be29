"""What the reference does by means that ours has no use for, as cases of the vectors ask about it.

It expands requests into pods, keeps classes of pods of one controller, alternates between requests and
ordinary pods, and has a fast path for one class: ours counts shapes, and does all in one evaluation. None of
this runs in the product; what does is called by the cases of the other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import repels
from tidewright.provisioning.spec import CLASS_NAME, CONSUME, MAX_NAME


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One pod as the rules about pods see it.

    Attributes:
        created_at: log-time seconds of its creation, as Kubernetes stamped it.
        owner_kind, owner_uid: its controller; empty without one.
    """

    name: str
    shape: PodShape
    namespace: str = ""
    annotations: dict[str, str] = {}
    created_at: float = 0.0
    owner_kind: str = ""
    owner_uid: str = ""


def equivalence(pods: Sequence[Pending]) -> list[list[Pending]]:
    """Pods of one controller and one content form a class; each pod without, and of a DaemonSet, its own.

    For reports about pods: packing itself needs no controllers and joins equal shapes.
    """
    found: dict[tuple[str, str], list[Pending]] = {}
    for index, pod in enumerate(pods):
        alone = not pod.owner_uid or pod.owner_kind == "DaemonSet"
        key = (f"#{index}" if alone else pod.owner_uid, pod.shape.digest)
        found.setdefault(key, []).append(pod)
    return list(found.values())


class FastClass(msgspec.Struct, frozen=True):
    """One class: its shape, whose requests are those of the first container, and its pods."""

    shape: PodShape
    count: int


def fast_class(classes: Sequence[FastClass], capacity: Mapping[str, int]) -> int:
    """Index of the class with the largest saving, the last of equals; -1 when none is eligible.

    The saving is pods - pods/nodes in whole numbers, 0 when the number of nodes is not known.
    """
    best, chosen = -1, -1
    for index, found in enumerate(classes):
        shape = found.shape
        if shape.spread or any(t.key != HOSTNAME for t in (*shape.affinity, *shape.anti_affinity)):
            continue
        nodes = found.count if repels(shape, shape, HOSTNAME) else 0
        for name in ("cpu", "memory"):
            if capacity.get(name):
                nodes = max(nodes, -(-found.count * shape.requests.get(name, 0) // capacity[name]))
        score = found.count - found.count // nodes if nodes else 0
        if score >= best:
            best, chosen = score, index
    return chosen


def handled_kinds(ordinary: bool, requests: bool, mode: str, loops: int) -> list[str]:
    """Which kind each of the reference's loops serves when it alternates (spec 2.5).

    Ours serves both in one evaluation; this tells what a client that counts loops would see.
    """
    found: list[str] = []
    for _ in range(loops):
        if ordinary and requests:
            found.append(mode)
        else:
            found.append("requests" if requests else "ordinary")
        mode = "ordinary" if mode == "requests" else "requests"
    return found


def name_prefix(request: str) -> str:
    """What the names of a request's virtual pods begin with; spec 1.5."""
    dashed = f"{request}-"
    # A generated name ends in five random characters, and pods' names have at most 253.
    return dashed if len(dashed) <= MAX_NAME - 5 else request


class VirtualPod(msgspec.Struct, frozen=True, kw_only=True):
    """One virtual pod, spelled out. Decisions count them instead; this is for looking at them."""

    name: str
    generate_name: str
    namespace: str
    uid: str
    annotations: dict[str, str]
    labels: dict[str, str]
    owner_name: str
    owner_uid: str
    created_at: float
    spec: dict[str, Any]


def virtual_pod(
    *,
    request: str,
    namespace: str,
    uid: str,
    class_name: str,
    created_at: float,
    pod_set: int,
    index: int,
    template: Mapping[str, Any],
) -> VirtualPod:
    """Pod `index` of pod set `pod_set` (both from 0), as spec 1.5 expands it."""
    prefix = name_prefix(request)
    name = f"{prefix}{pod_set}-{index}"
    metadata = template.get("metadata") or {}
    return VirtualPod(
        name=name,
        generate_name=prefix,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        annotations={
            **(metadata.get("annotations") or {}),
            CONSUME: request,
            CLASS_NAME: class_name,
        },
        labels=dict(metadata.get("labels") or {}),
        owner_name=request,
        owner_uid=uid,
        created_at=created_at,
        spec=_with_defaulted_requests(template.get("spec") or {}),
    )


def _with_defaulted_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A limit without a request becomes the request, per container."""
    found = dict(spec)
    for field in ("containers", "initContainers"):
        if not spec.get(field):
            continue
        found[field] = []
        for container in spec[field]:
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            requests = {**limits, **(resources.get("requests") or {})}
            merged = {**container}
            if requests:
                merged["resources"] = {**resources, "requests": requests}
            found[field].append(merged)
    return found
