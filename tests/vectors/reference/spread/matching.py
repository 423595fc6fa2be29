"""The target's replicas, pods and version as the original reads them (specification, 2.4, 3.2, 3.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.pods import ListedPod
from tests.vectors.reference.spread.ways import Ways
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import (
    BUILT_IN,
    BadPath,
    GroupKind,
    Whitelist,
    group_version,
    replicas_at_path,
    replicas_at_paths,
)
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import Spread, TargetRef
from tidewright.spread.match.matching import NotFound, Reader, group_kind
from tidewright.spread.match.pods import POD_TEMPLATE_HASH, VERSION_IGNORED, controller_of, short_hash

_REPLICAS_AT_ADMISSION = frozenset(
    {
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1alpha1", "StatefulSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
    }
)


def replicas_at_admission(spread: Spread, whitelist: Whitelist, read: Reader, ways: Ways) -> int:
    """Replicas that start a ledger (2.4): read only if some limit is a percentage; 0 when the target is gone.

    Raises:
        Forbidden: of the reader.
        BadPath: a path of the target's filter leads to no integer.
    """
    target = spread.target
    if target is None or not limits.needs_replicas(s.limit for s in spread.subsets):
        return 0
    try:
        obj = read(target.api_version, target.kind, target.name)
    except NotFound:
        return 0
    if spread.target_filter is not None and spread.target_filter.replicas_path_list:
        return replicas_at_paths(obj, spread.target_filter.replicas_path_list)
    if (target.api_version, target.kind) in _REPLICAS_AT_ADMISSION:
        return _spec_number(obj, "replicas")
    if (target.api_version, target.kind) == ("batch/v1", "Job"):
        return _spec_number(obj, "parallelism")
    entry = whitelist.entry(group_kind(target))
    if entry is None:
        return 0
    if not entry.replicas_path and w.NO_PATH in ways:
        return _plain_replicas(target, obj)
    try:
        return replicas_at_path(obj, entry.replicas_path)
    except BadPath:
        return 0  # the table of 2.4; only paths of the spread's own filter refuse the pod


def _spec_number(obj: Mapping[str, Any], key: str) -> int:
    value = (obj.get("spec") or {}).get(key)
    return value if isinstance(value, int) else 1


class TargetView(msgspec.Struct, frozen=True):
    """The target as the controller sees it.

    Attributes:
        replicas: wanted by the target, -1 for a custom kind without scale.
        version: of its current template; "" when there is no target.
        pods: its pods, in list order, after the filter.
    """

    replicas: int
    version: str
    pods: tuple[ListedPod, ...]


def view(
    spread: Spread,
    obj: JsonObject | None,
    replica_sets: Sequence[JsonObject],
    pods: Sequence[ListedPod],
    whitelist: Whitelist,
    versioned_kinds: frozenset[str],
    ways: Ways,
) -> TargetView:
    """Pods, replicas and version of the target (3.2, 3.7).

    Raises:
        NotFound: a Deployment's current ReplicaSet is not there yet.
        BadPath: a replicas path leads to no integer.
        SelectorError: the filter cannot be read.
    """
    if obj is None or spread.target is None:
        left = _left_behind(spread, pods) if w.TARGET_AT_ZERO in ways else []
        return TargetView(
            0, VERSION_IGNORED, tuple(p for p in left if selected(spread.target_filter, p.labels))
        )
    kind = spread.target.kind
    try:
        replicas = replicas_of(spread, obj, whitelist, ways)
    except BadPath:
        if w.LAST_KNOWN not in ways:
            raise
        replicas = _plain_replicas(spread.target, obj)
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    gone = meta.get("deletionTimestamp") is not None or _plain_replicas(spread.target, obj) == 0
    none = gone and kind != "Job" and w.TARGET_AT_ZERO not in ways
    mine: Iterable[ListedPod] = () if none else pods_of(spread.target, obj, replica_sets, pods)
    return TargetView(
        replicas,
        workload_version(kind, obj, replica_sets, versioned_kinds, ways),
        tuple(p for p in mine if selected(spread.target_filter, p.labels)),
    )


def _plain_replicas(target: TargetRef, obj: JsonObject) -> int:
    """Replicas before paths override them: of the spec for built-in kinds, of the scale for others."""
    group, _ = group_version(target.api_version)
    if target.kind == "Job":
        return _spec_number(obj, "parallelism")
    if GroupKind(group, target.kind) in BUILT_IN:
        return _spec_number(obj, "replicas")
    scale = (obj.get("spec") or {}).get("replicas")
    return scale if isinstance(scale, int) else -1


def replicas_of(spread: Spread, obj: JsonObject, whitelist: Whitelist, ways: Ways) -> int:
    """Replicas in the controller: the plain ones, unless a path says otherwise (3.2). Raises BadPath.

    The whitelist's path is found by group, version and kind: an entry without a version has none [Q-6].
    """
    target = spread.target
    if target is None:
        return 0
    if spread.target_filter is not None and spread.target_filter.replicas_path_list:
        return replicas_at_paths(obj, spread.target_filter.replicas_path_list)
    group, version = group_version(target.api_version)
    entry = whitelist.entry(GroupKind(group, target.kind))
    if entry is not None and not entry.replicas_path and w.NO_PATH in ways:
        return _plain_replicas(target, obj)
    if entry is not None and entry.version == version:
        return replicas_at_path(obj, entry.replicas_path)
    return _plain_replicas(target, obj)


def pods_of(
    target: TargetRef, obj: JsonObject, replica_sets: Sequence[JsonObject], pods: Sequence[ListedPod]
) -> list[ListedPod]:
    """The target's pods by ownership (3.2); for a Deployment through its ReplicaSets, in their order."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    uid = meta.get("uid") or ""
    selector = _selector((obj.get("spec") or {}).get("selector"))
    if target.kind == "Deployment":
        uids = [(rs.get("metadata") or {}).get("uid") or "" for rs in _controlled(obj, replica_sets)]
        return [p for u in uids for p in pods if u in p.owner_uids] if uids else _owned(pods, uid)
    owned = _owned(pods, uid)
    if target.kind == "Job" and selector is not None:
        return [p for p in owned if selector.matches(p.labels)]
    if GroupKind(group_version(target.api_version)[0], target.kind) in BUILT_IN or owned:
        return owned
    return [p for p in pods if selector is not None and selector.matches(p.labels)]


def _left_behind(spread: Spread, pods: Sequence[ListedPod]) -> list[ListedPod]:
    """The pods of a target that is gone: those that name it as their controller."""
    target = spread.target
    if target is None:
        return []
    gone = (group_kind(target), target.name)
    return [p for p in pods if p.owner is not None and (group_kind(p.owner), p.owner.name) == gone]


def _owned(pods: Iterable[ListedPod], uid: str) -> list[ListedPod]:
    return [p for p in pods if uid in p.owner_uids]


def _selector(selector: JsonObject | None) -> LabelSelector | None:
    if not selector:
        return None
    try:
        return LabelSelector.of(selector)
    except SelectorError:
        return None


def _controlled(deployment: JsonObject, replica_sets: Sequence[JsonObject]) -> list[JsonObject]:
    """The Deployment's own ReplicaSets that its selector matches and nobody is deleting."""
    uid = (deployment.get("metadata") or {}).get("uid") or ""
    selector = _selector((deployment.get("spec") or {}).get("selector"))
    found = []
    for replica_set in replica_sets:
        meta: Mapping[str, Any] = replica_set.get("metadata") or {}
        owner = controller_of(replica_set)
        if meta.get("deletionTimestamp") is not None or owner is None or owner.uid != uid:
            continue
        if selector is None or selector.matches(meta.get("labels") or {}):
            found.append(replica_set)
    return found


def workload_version(
    kind: str,
    obj: JsonObject,
    replica_sets: Sequence[JsonObject],
    versioned_kinds: frozenset[str],
    ways: Ways,
) -> str:
    """The version of the target's current template (3.7).

    Raises:
        NotFound: it cannot be known yet: no ReplicaSet has the current template, or the CloneSet's
            controller has not seen its spec.
    """
    if kind.lower() not in versioned_kinds:
        return VERSION_IGNORED
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    match kind:
        case "CloneSet":
            status: Mapping[str, Any] = obj.get("status") or {}
            behind = (status.get("observedGeneration") or 0) < (meta.get("generation") or 0)
            if behind and w.LAST_KNOWN not in ways:
                raise NotFound(f"CloneSet {meta.get('name')}: its status is behind its spec")
            revision = short_hash(status.get("updateRevision") or "")
            return revision or (VERSION_IGNORED if w.LAST_KNOWN in ways else "")
        case "Deployment":
            template = _template((obj.get("spec") or {}).get("template"))
            mine = _controlled(obj, replica_sets)
            for replica_set in mine:
                if _template((replica_set.get("spec") or {}).get("template")) == template:
                    labels: Mapping[str, str] = (replica_set.get("metadata") or {}).get("labels") or {}
                    return labels.get(POD_TEMPLATE_HASH, "")
            if w.LAST_KNOWN in ways:
                return _newest_hash(mine)
            raise NotFound(f"Deployment {meta.get('name')}: no ReplicaSet has its current template yet")
        case "ReplicaSet":
            own: str = (meta.get("labels") or {}).get(POD_TEMPLATE_HASH, "")
            # Pods of a standalone ReplicaSet have none, and count as those of an old version.
            return own or (VERSION_IGNORED if w.STANDALONE_LATEST in ways else "")
    return VERSION_IGNORED


def _newest_hash(replica_sets: Sequence[JsonObject]) -> str:
    """The version of the ReplicaSet that was made last: they are given in that order."""
    if not replica_sets:
        return VERSION_IGNORED
    labels: Mapping[str, str] = (replica_sets[-1].get("metadata") or {}).get("labels") or {}
    return labels.get(POD_TEMPLATE_HASH, "")


def _template(template: JsonObject | None) -> JsonObject:
    found = dict(template or {})
    meta = dict(found.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
    found["metadata"] = meta
    return found
